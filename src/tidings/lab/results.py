"""Stores results as Parquet files, `RESULTS/EXPERIMENT/VERSION/*.parquet`, and finds them.

A row has the key of its parameters, and its folder is the version of the code, so a run can skip
what is already measured. Files appear complete or not at all. If measuring a row of parameters
fails, one row with its error is kept; when it is measured again, the newer result counts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.lab.code import version_of
from tidings.lab.experiment import Experiment, Parameters, Row, identity

# Beside the columns of the experiment.
ABOUT: Final = {
    "key": pa.string(),
    "parameters": pa.string(),  # JSON
    "error": pa.string(),  # null if it succeeded; else the experiment's columns are null
    "seconds": pa.float64(),  # to measure all rows of these parameters
    "load": pa.float64(),  # of the machine, before measuring
    "started": pa.string(),  # UTC
    "machine": pa.string(),
    "commit": pa.string(),
}
TYPES: Final = {float: pa.float64(), int: pa.int64(), str: pa.string(), bool: pa.bool_()}


class Found(NamedTuple):
    """The results of some parameters."""

    rows: list[Row]  # parameters and results
    failed: list[Row]  # parameters and `error`
    missing: int  # parameters without any result
    version: str
    current: bool  # whether the code is still the same
    machines: list[str]
    commits: list[str]
    seconds: float
    load: float  # the highest


def key_of(parameters: Parameters) -> str:
    """The key of a row of parameters."""
    return hashlib.sha256(identity(parameters).encode()).hexdigest()[:16]


def schema_of(experiment: Experiment) -> pa.Schema:
    """The columns of an experiment's results."""
    overlap = ABOUT.keys() & experiment.columns.keys()
    if overlap:
        raise ValueError(f"{experiment.name}: these column names are reserved: {sorted(overlap)}")
    own = {name: TYPES[kind] for name, kind in experiment.columns.items()}
    return pa.schema({**ABOUT, **own})


def append(folder: Path, experiment: str, version: str, table: pa.Table) -> None:
    """Store the results of some parameters, measured by a version of an experiment."""
    place = folder / experiment / version
    place.mkdir(parents=True, exist_ok=True)
    keys = "".join(table.column("key").to_pylist())
    begun = table.column("started")[0].as_py().replace(":", "")
    name = f"{begun}-{hashlib.sha256(keys.encode()).hexdigest()[:12]}"
    draft = place / f".{name}.{os.getpid()}"
    pq.write_table(table, draft)
    draft.replace(place / f"{name}.parquet")


def finished(folder: Path, experiment: Experiment) -> set[str]:
    """The keys of parameters that the present code has measured without an error."""
    found = _read(folder, experiment, version_of(experiment.measure))
    return {row["key"] for row in found if row["error"] is None}


def find(folder: Path, experiment: Experiment, sweep: Iterable[Parameters]) -> Found:
    """The results of these parameters by the current code, else by the latest that has some."""
    wanted = {key_of(parameters) for parameters in sweep}
    present = version_of(experiment.measure)
    version, kept = present, _read(folder, experiment, present)
    if not wanted & {row["key"] for row in kept}:
        for other in _versions(folder, experiment):
            older = _read(folder, experiment, other)
            if wanted & {row["key"] for row in older}:
                version, kept = other, older
                break
    kept = [row for row in kept if row["key"] in wanted]
    succeeded = {row["key"]: row["started"] for row in kept if row["error"] is None}
    good = [row for row in kept if row["error"] is None and row["started"] == succeeded[row["key"]]]
    bad = {row["key"]: row for row in kept if row["key"] not in succeeded}
    return Found(
        rows=[_joined(row, experiment) for row in good],
        failed=[{**json.loads(row["parameters"]), "error": row["error"]} for row in bad.values()],
        missing=len(wanted - succeeded.keys() - bad.keys()),
        version=version,
        current=version == present,
        machines=sorted({row["machine"] for row in kept}),
        commits=sorted({row["commit"] for row in kept if row["commit"]}),
        seconds=sum({row["key"]: row["seconds"] for row in good}.values()),
        load=max((row["load"] for row in good), default=0.0),
    )


def _read(folder: Path, experiment: Experiment, version: str) -> list[Row]:
    """The rows of a version, the oldest first."""
    files = sorted((folder / experiment.name / version).glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: str(row["started"]))


def _versions(folder: Path, experiment: Experiment) -> list[str]:
    """The versions that have results, the latest first."""
    places = (folder / experiment.name).glob("*")
    by_age = sorted(places, key=lambda place: (place.stat().st_mtime, place.name), reverse=True)
    return [place.name for place in by_age]


def _joined(row: Row, experiment: Experiment) -> Row:
    parameters: Row = json.loads(row["parameters"])
    return parameters | {name: row[name] for name in experiment.columns}
