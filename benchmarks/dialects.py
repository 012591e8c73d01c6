"""Event patterns on city lots: events a second, from JSON and decoded, family by family.

`python -m benchmarks.dialects [--events N] [--json]` measures the rules by which event-ruler and
Quamina measure themselves: families of five patterns each, on records of the lots of San Francisco.
Their file is not at hand, so one of the same shape is generated from a seed, in a temporary
directory: JSON lines of some 800 bytes, with the attributes and nested coordinates that the rules
ask about, and values that some of them match.

How: the file is read in parts. The first is for warming up and for checking the answer: every rule
must match what its pattern, asked of each event by itself, says. Of the others each is matched by
the table of every family: as JSON, one event a call and in one batch, and decoded before, by
msgspec to dictionaries and by Arrow to columns. Mean and spread are over these parts, in processor
time of one core.

Beside the figures stand those of event-ruler and Quamina, JSON in, measured once on a machine of
the same kind and on 206,560 real lots: of the same order, not of the same run.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.json

from benchmarks.measure import command_line
from tidings import Table, parse
from tidings.language.dialects import DIALECTS

RULES: Final = (
    Path(__file__).parents[2] / "shared" / "data" / "citylots-bench" / "sample_expected.json"
)
PART: Final = 10_000  # events decoded and matched at a time
CHECKED: Final = 1_000  # events of the first part on which the answer is checked

PEERS: Final = {  # events a second, at best: event-ruler, Quamina
    "EXACT": (223_000, 1_129_000),
    "WILDCARD": (98_000, 984_000),
    "PREFIX": (179_000, 1_299_000),
    "SUFFIX": (206_000, None),
    "EQUALS_IGNORE_CASE": (111_000, 634_000),
    "NUMERIC": (85_000, None),
    "ANYTHING_BUT": (73_000, 196_000),
    "ANYTHING_BUT_PREFIX": (119_000, None),
    "ANYTHING_BUT_SUFFIX": (138_000, None),
    "ANYTHING_BUT_WILDCARD": (112_000, None),
    "COMPLEX_ARRAYS": (16_000, None),
}

STREETS: Final = (
    "FULTON", "MASON", "HYDE", "BEACH", "JEFFERSON", "CHESTNUT", "ACTON", "ACADIA", "BLAKE",
    "BLYTHDALE", "DRUMM", "DREW", "FUNSTON", "RHODE-ISLAND", "RHINE", "LARKIN", "POLK",
    "MISSION", "VALENCIA", "GUERRERO", "DOLORES", "NOE", "CASTRO", "DIAMOND", "HARRISON",
    "STOCKTON", "CLAYTON", "LAKE", "DUKE", "GRIMM", "KING", "STERLING", "SANTIAGO", "DIEGO",
    "UNKNOWN",
)  # fmt: skip
KINDS: Final = ("ST", "ST", "ST", "ST", "AVE", "AVE", "BLVD", "WAY", None)
LOTS: Final = ("1430022", "2607117", "2607218", "3745012", "VACSTWIL")
FAR: Final = -122.42916360922355  # a longitude that a rule asks for


def main() -> None:
    """Measure, and print a line for each family."""
    parser, command = command_line("benchmarks.dialects", str(__doc__).splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000, help="events of the file")
    arguments = parser.parse_args()
    if not RULES.exists():
        raise SystemExit(f"the rules are not beside the repository: expected {RULES}")
    families: dict[str, list[Any]] = {}
    for rule in json.loads(RULES.read_text(encoding="utf-8"))["rules"]:
        families.setdefault(rule["group"], []).append(rule["pattern"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lots.jsonl"
        with file.open("wb") as out:
            out.writelines(lots(random.Random(arguments.seed), arguments.events))
        gc.disable()
        found = measure_families(file, families)
        gc.enable()
    for line in found:
        if arguments.json:
            print(json.dumps({**line, "command": command}))
        else:
            show(line)
    if not arguments.json:
        print(f"\nagain with: {command}")


def lots(chance: random.Random, count: int) -> Iterator[bytes]:
    """Records like those of the city's lots, as JSON lines."""
    for number in range(count):
        lot = chance.choice(LOTS) if chance.random() < 0.002 else f"{chance.randrange(10**7):07d}"
        kind = "MultiPolygon" if chance.random() < 0.001 else "Polygon"
        places = [
            {"x": chance.uniform(-122.51, -122.36), "y": chance.uniform(37.7, 37.83), "z": 0.0}
            for _ in range(chance.randint(4, 9))
        ]
        if chance.random() < 0.001:
            places[0]["x"] = FAR
        places.append(dict(places[0]))
        block, parcel = lot[:4], lot[4:]
        record = {
            "type": "Feature",
            "properties": {
                "MAPBLKLOT": lot, "BLKLOT": lot, "BLOCK_NUM": block, "LOT_NUM": parcel,
                "FROM_ST": str(chance.randrange(1, 2000)), "TO_ST": str(chance.randrange(1, 2000)),
                "STREET": chance.choice(STREETS), "ST_TYPE": chance.choice(KINDS),
                "ODD_EVEN": "E" if number % 2 else "O",
            },
            "geometry": {"type": kind, "coordinates": places, "firstCoordinates": places[0]},
        }  # fmt: skip
        yield msgspec.json.encode(record) + b"\n"


def measure_families(file: Path, families: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """What each family takes, over the parts of a file but the first."""
    tables = {
        name: Table((id, parse(rule, dialect="eventbridge")) for id, rule in enumerate(rules))
        for name, rules in families.items()
    }
    seconds: dict[str, list[float]] = {}
    matches: Counter[str] = Counter()
    sizes: list[int] = []
    for number, lines in enumerate(parts(file)):
        decode = msgspec.json.Decoder().decode
        events, decoding = timed(lambda d=decode, ls=lines: [d(line) for line in ls])  # type: ignore[misc]
        raw = b"".join(lines)
        batch, reading = timed(lambda r=raw: pyarrow.json.read_json(BytesIO(r)))  # type: ignore[misc]
        texts = pa.table({"event": pa.array(lines, pa.binary())})
        if number == 0:
            check(events[:CHECKED], batch.slice(0, CHECKED), families, tables)
            for table in tables.values():
                table.match_batch(batch, threads=1)
            if len(lines) == PART:
                continue
        sizes.append(len(lines))
        seconds.setdefault("decode", []).append(decoding / len(lines))
        seconds.setdefault("batch decode", []).append(reading / len(lines))
        for name, table in tables.items():
            found, matching = timed(lambda t=table, es=events: [t.match(e) for e in es])  # type: ignore[misc]
            _, together = timed(lambda t=table, b=batch: t.match_batch(b, threads=1))  # type: ignore[misc]
            same, read = timed(lambda t=table, ls=lines: [t.match(line) for line in ls])  # type: ignore[misc]
            pairs, read_together = timed(
                lambda t=table, ts=texts: t.match_batch(ts, json="event", threads=1)  # type: ignore[misc]
            )
            if same != found or pairs.num_rows != sum(map(len, found)):
                raise AssertionError(f"{name}: JSON does not find what dictionaries find")
            seconds.setdefault(f"json {name}", []).append(read / len(lines))
            seconds.setdefault(f"json batch {name}", []).append(read_together / len(lines))
            seconds.setdefault(name, []).append(matching / len(lines))
            seconds.setdefault(f"batch {name}", []).append(together / len(lines))
            matches[name] += sum(map(len, found))
    return [
        {
            "family": name,
            "rules": len(families[name]),
            "events": sum(sizes),
            "parts": len(sizes),
            "matches": matches[name],
            **figures("json", seconds[f"json {name}"]),
            **figures("json_batch", seconds[f"json batch {name}"]),
            "event_ruler_per_s": PEERS.get(name, (None, None))[0],
            "quamina_per_s": PEERS.get(name, (None, None))[1],
            **figures("decode", seconds["decode"]),
            **figures("match", seconds[name]),
            **figures("batch_decode", seconds["batch decode"]),
            **figures("batch_match", seconds[f"batch {name}"]),
        }
        for name in families
    ]


def parts(file: Path) -> Iterator[list[bytes]]:
    """The lines of a file in blocks of this size."""
    with file.open("rb") as lines:
        while part := [line for line, _ in zip(lines, range(PART), strict=False)]:
            yield part


def check(
    events: list[Any], batch: Any, families: dict[str, list[Any]], tables: dict[str, Table]
) -> None:
    """Raise unless every table finds what its patterns, asked one by one, say."""
    for name, rules in families.items():
        tests = [DIALECTS["eventbridge"].test(json.dumps(rule)) for rule in rules]
        expected = [[id for id, test in enumerate(tests) if test(event)] for event in events]
        if [sorted(tables[name].match(event)) for event in events] != expected:
            raise AssertionError(f"{name}: the table does not find what its patterns say")
        # In columns a null is absence; the other rules find the same.
        columns = tables[name].match_batch(batch, threads=1)
        present = [without_nulls(event) for event in events]
        expected = [[id for id, test in enumerate(tests) if test(event)] for event in present]
        if columns.num_rows != sum(map(len, expected)):
            raise AssertionError(f"{name}: a batch does not find what its patterns say")


def without_nulls(value: Any) -> Any:
    """A record without its nulls."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the seconds of processor time that it takes."""
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def figures(name: str, seconds: list[float]) -> dict[str, float]:
    """Events a second, and the mean and spread of the microseconds an event."""
    mean = max(statistics.mean(seconds), 1e-9)  # the clock of the processor may stand still
    return {
        f"{name}_per_s": round(1 / mean, 1),
        f"{name}_us": round(mean * 1e6, 3),
        f"{name}_spread_us": round(statistics.pstdev(seconds) * 1e6, 3),
    }


def show(line: dict[str, Any]) -> None:
    """A line for a person."""
    share = line["matches"] / max(line["events"] * line["rules"], 1)
    peers = [line["event_ruler_per_s"], line["quamina_per_s"]]
    ruler, quamina = (f"{peer:>9,}" if peer else f"{'-':>9}" for peer in peers)
    print(
        f"{line['family']:26} from JSON {line['json_per_s']:>9,.0f}/s  in batches "
        f"{line['json_batch_per_s']:>9,.0f}/s  (event-ruler {ruler}, Quamina {quamina})  decoded "
        f"{line['match_per_s']:>9,.0f}/s  columns {line['batch_match_per_s']:>9,.0f}/s  "
        f"({share:.1%} of rules match)"
    )


if __name__ == "__main__":
    main()
