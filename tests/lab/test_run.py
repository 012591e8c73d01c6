"""Running on Spark: results are stored, found again, and never measured twice."""

import json
import tarfile
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.lab.toy import TOY, whereabouts
from tidings.lab import code, results, zoo
from tidings.lab.experiment import Parameters, generator
from tidings.lab.report import write_report
from tidings.lab.run import FIRST_JOB, measured, parameter_rows, run, run_timed


def values_of(table: Any) -> list[tuple[Any, ...]]:
    columns = ("key", "parameters", "draw", "value", "error")
    return sorted(tuple(row[name] for name in columns) for row in table.to_pylist())


def test_results_do_not_depend_on_how_rows_are_spread(spark: SparkSession) -> None:
    rows = parameter_rows(spark, TOY.sweep("quick"))
    assert rows.rdd.getNumPartitions() == len(TOY.sweep("quick"))
    assert {len(part) for part in rows.rdd.glom().collect()} == {1}
    spread = measured(TOY, rows).toArrow()
    together = measured(TOY, rows.coalesce(1)).toArrow()
    assert values_of(spread) == values_of(together)
    assert len({value for *_, value, _ in values_of(spread)}) == 2 * len(TOY.sweep("quick"))


def test_what_is_known_is_not_measured_again(spark: SparkSession, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    part = run(
        spark, TOY, TOY.sweep("tiny"), tmp_path, lambda done, whole: told.append((done, whole))
    )
    assert (part.rows, part.known, part.failed) == (3, 0, 0)
    assert told[0] == (0, 3)
    assert told[-1] == (3, 3)
    before = sorted(tmp_path.rglob("*.parquet"))
    rest = run(spark, TOY, TOY.sweep("quick"), tmp_path)
    assert (rest.rows, rest.known) == (10, 3)
    assert set(before) < set(tmp_path.rglob("*.parquet"))
    again = run(spark, TOY, TOY.sweep("quick"), tmp_path)
    assert again.known == again.rows
    found = results.find(tmp_path, TOY, TOY.sweep("quick"))
    assert len(found.rows) == 20
    assert (found.missing, found.failed, found.current) == (0, [], True)
    assert {row["number"] for row in found.rows} == set(range(10))


def test_an_interrupted_run_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    def interrupt(done: int, whole: int) -> None:
        if done == FIRST_JOB:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spark, TOY, TOY.sweep("quick"), tmp_path, interrupt, shared=False)
    kept = results.find(tmp_path, TOY, TOY.sweep("quick"))
    assert (len(kept.rows), kept.missing) == (2 * FIRST_JOB, 10 - FIRST_JOB)
    assert run(spark, TOY, TOY.sweep("quick"), tmp_path).known == FIRST_JOB
    assert results.find(tmp_path, TOY, TOY.sweep("quick")).missing == 0


def test_tasks_store_their_results_and_a_process_that_dies_loses_only_its_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One job, and a file for each row; Spark measures the row of the dead process again."""
    pit = tmp_path / "pit"
    pit.touch()
    sweep: list[Parameters] = [{"number": n} for n in range(4)] + [{"number": 4, "pit": str(pit)}]
    told: list[int] = []
    folder = tmp_path / "results"
    outcome = run(spark, TOY, sweep, folder, lambda done, whole: told.append(done))
    assert (outcome.known, outcome.failed) == (0, 0)
    assert not pit.exists()
    assert len(list(folder.rglob("*.parquet"))) == 5
    found = results.find(folder, TOY, sweep)
    assert (len(found.rows), found.missing) == (10, 0)


def test_timed_rows_are_measured_in_order_by_one_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So rows may share what the one before has made; each is stored when it is done."""
    timed = TOY._replace(timed=True, measure=whereabouts)
    told: list[int] = []
    assert run(spark, timed, TOY.sweep("quick"), tmp_path, lambda n, _: told.append(n)).failed == 0
    found = results.find(tmp_path, timed, TOY.sweep("quick"))
    assert len({row["value"] for row in found.rows}) == 1
    assert [row["number"] for row in found.rows] == list(range(10))
    assert len(list(tmp_path.rglob("*.parquet"))) == 10
    assert told == sorted(told)
    assert told[-1] == 10


def test_timed_experiments_run_together_in_the_order_of_what_their_rows_share(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = TOY._replace(name="one", timed=True, measure=whereabouts, shares=lambda p: (p["number"],))
    other = one._replace(name="other")
    chosen = [(one, TOY.sweep("quick")), (other, TOY.sweep("tiny"))]
    told: list[int] = []
    outcomes = run_timed(spark, chosen, tmp_path, lambda done, whole: told.append(done))
    assert [(found.rows, found.known, found.failed) for found in outcomes] == [
        (10, 0, 0),
        (3, 0, 0),
    ]
    assert (told[0], told[-1]) == (0, 13)
    files = [pq.read_table(file) for file in tmp_path.rglob("*.parquet")]
    rows = sorted((row for file in files for row in file.to_pylist()), key=itemgetter("started"))
    assert len({row["value"] for row in rows}) == 1  # one process
    order = [json.loads(row["parameters"])["number"] for row in rows]
    assert order == sorted(order)
    again = run_timed(spark, chosen, tmp_path)
    assert [(found.rows, found.known) for found in again] == [(10, 10), (3, 3)]


def test_the_networks_come_with_the_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor without a clone finds the archive that the driver has sent."""
    graph = tmp_path / "Small.graphml"
    graph.write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
        '<node id="0"/><node id="1"/><edge source="0" target="1"/></graph></graphml>'
    )
    with tarfile.open(tmp_path / zoo.ARCHIVE, "w:xz") as packed:
        packed.add(graph, arcname="Small.graphml")
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    zoo.send_networks(spark, [{"topology": "zoo:Small"}])
    zoo.send_networks(spark, [{"topology": "zoo:Small"}])
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "nowhere")
    assert zoo.graph_of("zoo:Small").nodes == 2


def test_failed_rows_are_kept_with_their_error_until_they_succeed(
    spark: SparkSession, tmp_path: Path
) -> None:
    stone = tmp_path / "stone"
    stone.touch()
    sweep: list[Parameters] = [
        {"number": 1},
        {"number": 2, "stone": str(stone)},
        {"number": -1},
    ]
    folder = tmp_path / "results"
    assert run(spark, TOY, sweep, folder).failed == 2
    found = results.find(folder, TOY, sweep)
    assert len(found.rows) == 2
    errors = {row["number"]: row["error"] for row in found.failed}
    assert errors == {
        2: "OSError: a stone lies in the way",
        -1: "ValueError: `measure` gave no results",
    }
    stone.unlink()
    again = run(spark, TOY, sweep, folder)
    assert (again.known, again.failed) == (1, 1)
    found = results.find(folder, TOY, sweep)
    assert {row["number"] for row in found.rows} == {1, 2}
    assert [row["number"] for row in found.failed] == [-1]


def test_results_of_other_code_are_marked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(spark, TOY, TOY.sweep("tiny"), tmp_path)
    monkeypatch.setattr(results, "version_of", lambda measure: "another")
    assert results.finished(tmp_path, TOY) == set()
    found = results.find(tmp_path, TOY, TOY.sweep("tiny"))
    assert len(found.rows) == 6
    assert not found.current


def test_a_result_says_where_when_and_by_what_it_was_measured(
    spark: SparkSession, tmp_path: Path
) -> None:
    run(spark, TOY, TOY.sweep("tiny"), tmp_path)
    file, *others = tmp_path.rglob("*.parquet")
    assert len(others) == 2
    assert file.parent.name == code.version_of(TOY.measure)
    table = pq.read_table(file)
    assert table.schema.names == [*results.ABOUT, *TOY.columns]
    for row in table.to_pylist():
        assert row["key"] == results.key_of(json.loads(row["parameters"]))
        assert "Python" in row["machine"]
        assert row["seconds"] >= 0
        assert row["started"].startswith("20")


def test_the_report_opens_without_a_network_and_shows_no_markup_of_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    run(spark, TOY, TOY.sweep("tiny"), tmp_path)
    page = tmp_path / "deep" / "report.html"
    (section,) = write_report(tmp_path, [TOY], "tiny", page)
    assert section.trouble == ""
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "src=" not in text
    assert 'href="http' not in text
    assert "values are &lt;b&gt;small&lt;/b&gt;" in text
    assert "tidings lab run toy --tiny" in text
    assert str(tmp_path) not in text
    write_report(tmp_path, [TOY], "tiny", page)
    assert text.split("Written")[0] == page.read_text(encoding="utf-8").split("Written")[0]


def test_a_report_without_results_says_so(tmp_path: Path) -> None:
    (section,) = write_report(tmp_path, [TOY], "full", tmp_path / "report.html")
    assert section.trouble == "there are no results yet"
    assert section.found.missing == 40
    assert "there are no results yet" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_version_follows_what_measuring_rests_on_and_nothing_else() -> None:
    module = "tidings.lab.experiments.dnf_model"
    names = {name for place, name in code.reached(module, "measure") if place == module}
    assert {"measure", "filters", "SIZES"} <= names
    assert names.isdisjoint({"claims", "draw", "summary", "EXPERIMENT", "PREDICATES"})
    places = set(code.reached(module, "measure"))
    assert ("tidings.language.reduction", "Coverings") in places
    assert ("tidings.language.constraint", "Constraint") in places
    assert ("tidings.lab.figures", "panels") not in places
    routers = set(code.reached("tidings.lab.experiments.one_filter", "measure"))
    assert ("tidings.matching.rivals.counting", "Counting") in routers


def test_the_version_follows_native_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tidings"
    (package / "fast").mkdir(parents=True)
    (package / "slow.py").write_text(
        "from tidings.fast.kernels import add\nfrom tidings.fast import kernels\n"
        "def measure(): return add(1, 2)\ndef other(): return kernels.add(1, 2)\n"
    )
    (package / "fast" / "kernels.pyx").write_text('include "parts.pxi"\n')
    (package / "fast" / "parts.pxi").write_text("def add(a, b): return a + b\n")
    monkeypatch.setattr(code, "PACKAGE", package)

    def digests() -> list[str]:
        code._take_apart.cache_clear()
        found = (code.reached("tidings.slow", name) for name in ("measure", "other"))
        return ["".join(code._plain(s) for one in each.values() for s in one) for each in found]

    before = digests()
    assert digests() == before
    (package / "fast" / "parts.pxi").write_text("def add(a, b): return b + a\n")
    assert all(new != old for new, old in zip(digests(), before, strict=True))
    code._take_apart.cache_clear()


def test_a_generator_is_decided_by_what_it_is_for() -> None:
    first = generator("one", 2).random(4).tolist()
    assert first == generator("one", 2).random(4).tolist()
    assert first != generator("one", 3).random(4).tolist()
    assert generator("a", "b").random() != generator("ab").random()
