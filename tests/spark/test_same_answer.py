"""Every path gives the same answer for every type that Spark has, in any time zone.

`match` in its three forms, both kinds of functions for SQL, and a stream are compared with an
evaluator of this file, which shares no code with Tidings: a generated value is an expression of SQL
and what docs/spark.md says that it means.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.effort import examples
from tidings.spark import (
    Store,
    compile,
    match,
    match_stream,
    register,
    rejected_events,
)

Found = set[tuple[int, int]]
LATE = 568_971_820_800_000_000  # microseconds to the year 20000
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">=": operator.ge,
}


class Made(NamedTuple):
    """A value: how SQL writes it, and what it means in an event.

    A meaning is a text, a number, a boolean, None for nothing, a list, or a record as a dict. Its
    keys are names, each with whether it is one of Spark's, whose case may not count.
    """

    sql: str
    meaning: Any


class Constraint(NamedTuple):
    """A constraint on the values under a name."""

    name: str
    operator: str
    operand: Any
    negated: bool

    def __str__(self) -> str:
        if self.operator == "exists":
            return f"{'not ' * self.negated}exists {self.name}"
        operand = self.operand
        if isinstance(operand, bool):
            operand = str(operand).lower()
        elif isinstance(operand, str):
            operand = "'" + operand.replace("'", "''") + "'"
        return f"{'not ' * self.negated}{self.name} {self.operator} {operand}"

    def holds(self, values: list[Any]) -> bool:
        found = bool(values)
        if self.operator != "exists":
            found = any(self._compares(value) for value in values)
        return found is not self.negated

    def _compares(self, value: Any) -> bool:
        kinds = {kind_of(value), kind_of(self.operand)}
        if len(kinds) > 1 or (kinds == {bool} and self.operator != "="):
            return False
        return COMPARED[self.operator](value, self.operand)


def kind_of(value: Any) -> type:
    return float if type(value) is int else type(value)


# What is generated


def moment(micros: int, mark: str) -> str | None:
    try:
        at = datetime(1970, 1, 1) + timedelta(microseconds=micros)
    except OverflowError:
        return None
    fraction = f".{at.microsecond:06}".rstrip("0").rstrip(".")
    return f"{at.date()}T{at.hour:02}:{at.minute:02}:{at.second:02}{fraction}{mark}"


def timestamp(micros: int) -> Made:
    return Made(f"timestamp_micros({micros})", moment(micros, "+00:00"))


def local(micros: int) -> Made:
    # Seconds and the rest apart: intervals of SQL have a bound.
    sql = f"TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {micros}/1000000BD)"
    return Made(sql, moment(micros, ""))


micros = st.sampled_from(
    [0, 1, 1_710_054_000_500_000, 1_730_005_200_000_000, -2_208_988_800_000_001]
)
days = st.sampled_from([0, 19_782, -719_162])
texts = st.sampled_from(["a", "Web-1", "", "2024", "é'"])
wholes = st.sampled_from([0, 1, -3, 2**53 + 1, 2**63 - 1])
reals = st.sampled_from([0.5, 1.0, -1e300])
NOT_UTF8 = Made("cast(X'61ff' AS string)", None)
# By type: the values, and whether a Variant can hold them.
SCALARS: dict[str, tuple[st.SearchStrategy[Made], bool]] = {
    "string": (
        st.one_of(
            texts.map(lambda t: Made("'" + t.replace("'", "\\'") + "'", t)),
            st.just(NOT_UTF8),
        ),
        True,
    ),
    "bigint": (wholes.map(lambda n: Made(f"{n}L", n)), True),
    "int": (st.integers(-2, 2).map(lambda n: Made(f"{n}", n)), True),
    "double": (
        st.one_of(
            reals.map(lambda x: Made(f"double('{x!r}')", x)),
            st.just(Made("double('NaN')", float("nan"))),
        ),
        True,
    ),
    "float": (st.just(Made("float('1.1')", 1.100000023841858)), True),
    "boolean": (st.booleans().map(lambda b: Made(str(b).lower(), b)), True),
    "decimal(38,0)": (
        st.sampled_from([2**53 + 1, 10**29, 7]).map(
            lambda n: Made(f"cast('{n}' AS decimal(38,0))", n)
        ),
        True,
    ),
    "decimal(10,2)": (st.just(Made("cast('1.50' AS decimal(10,2))", 1.5)), True),
    "date": (
        st.one_of(
            days.map(
                lambda d: Made(
                    f"date_from_unix_date({d})", (moment(d * 86_400_000_000, "") or "")[:10]
                )
            ),
            st.just(Made("date_from_unix_date(6585322)", None)),
        ),
        True,
    ),
    "timestamp": (st.one_of(micros, st.just(LATE)).map(timestamp), True),
    "timestamp_ntz": (micros.map(local), True),
    "binary": (st.just(Made("X'00ff'", None)), False),
    "interval day to second": (st.just(Made("INTERVAL '1' DAY", None)), False),
    "interval month": (st.just(Made("INTERVAL '2' MONTH", None)), False),
}


def column(depth: int = 2) -> st.SearchStrategy[tuple[str, st.SearchStrategy[Made]]]:
    """Types, each with its values."""
    flat = st.sampled_from([(kind, values) for kind, (values, _) in SCALARS.items()])
    if not depth:
        return flat
    inner = column(depth - 1)
    return st.one_of(
        flat,
        inner.map(lambda of: (f"array<{of[0]}>", array(*of))),
        inner.map(lambda of: (f"map<string,{of[0]}>", mapped(of[0], of[1], ("k", "k.l")))),
        flat.map(lambda of: (f"map<int,{of[0]}>", mapped(of[0], of[1], (1,)))),
        inner.map(lambda of: (f"struct<Fld:{of[0]},other:int>", record(of[1]))),
        st.just(("variant", variant())),
        st.just(("array<variant>", array("variant", variant()))),
    )


def array(kind: str, of: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    def made(held: list[Made]) -> Made:
        parts = ", ".join(one.sql for one in held)
        return Made(f"cast(array({parts}) AS array<{kind}>)", [one.meaning for one in held])

    return st.lists(of, max_size=2).map(made)


def mapped(
    kind: str, of: st.SearchStrategy[Made], keys: tuple[Any, ...]
) -> st.SearchStrategy[Made]:
    named = isinstance(keys[0], str)

    def made(held: dict[Any, Made]) -> Made:
        parts = ", ".join(f"{key!r}, {one.sql}" for key, one in held.items())
        meaning = {(key, False): one.meaning for key, one in held.items()} if named else None
        return Made(f"cast(map({parts}) AS map<{'string' if named else 'int'},{kind}>)", meaning)

    return st.dictionaries(st.sampled_from(keys), of, max_size=2).map(made)


def record(of: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    return of.map(
        lambda one: Made(
            f"named_struct('Fld', {one.sql}, 'other', 5)",
            {("Fld", True): one.meaning, ("other", True): 5},
        )
    )


def variant() -> st.SearchStrategy[Made]:
    """Variants made from JSON, nested ones too deep, and typed scalars that JSON does not have."""
    holds = st.one_of(*(values for values, held in SCALARS.values() if held))

    def typed(one: Made) -> Made:
        # When Spark makes a Variant, it replaces bytes that are not UTF-8 in a text.
        meaning = "a\ufffd" if one is NOT_UTF8 else one.meaning
        return Made(f"to_variant_object(named_struct('k', {one.sql}))", {("k", False): meaning})

    deep = '{"k": 1, "x": ' + "[" * 150 + "1" + "]" * 150 + "}"
    odd = '{"k": [1.5, "a", null], "K": {"k.l": true}}'
    return st.one_of(
        holds.map(typed),
        st.just(Made(f"parse_json('{deep}')", {("k", False): 1})),
        st.just(
            Made(
                f"parse_json('{odd}')",
                {("k", False): [1.5, "a"], ("K", False): {("k.l", False): True}},
            )
        ),
        st.just(Made("parse_json('[1, 2]')", [1, 2])),
    )


def flattened(meaning: Any, path: tuple[tuple[str, bool], ...]) -> Iterator[tuple[Any, Any]]:
    """The scalars in a value, each with the path that leads to it."""
    if isinstance(meaning, dict):
        for part, inner in meaning.items():
            yield from flattened(inner, (*path, part))
    elif isinstance(meaning, list):
        for inner in meaning:
            yield from flattened(inner, path)
    elif meaning is not None:
        yield path, meaning


class Case(NamedTuple):
    """Rows, predicates, and which of them match."""

    sql: str
    predicates: dict[int, str]
    found: Found


@st.composite
def cases(draw: st.DrawFn, any_case: bool) -> Case:
    names = ["a", "Bee", "c.d", "e f", "g", "H"]
    columns = {name: draw(column()) for name in draw(st.permutations(names))[:5]}
    count = 6
    values: dict[str, list[Made]] = {}
    for name, (kind, of) in columns.items():
        absent = Made(f"cast(NULL AS {kind})", None)
        values[name] = draw(
            st.lists(st.one_of(of, st.just(absent)), min_size=count, max_size=count)
        )
    rows = []
    events: list[list[tuple[Any, Any]]] = []
    for n in range(count):
        cells = [f"{values[name][n].sql} AS `{name}`" for name in columns]
        rows.append(f"SELECT {n} AS n, " + ", ".join(cells))
        event = {(name, True): values[name][n].meaning for name in columns}
        events.append(list(flattened(event, ())))
    known = sorted({path for event in events for path, _ in event})
    paths = st.sampled_from([*known, *((((name, True),)) for name in columns)])
    # Not NaN; and the language writes an integer of more than 64 bits as a real.
    operands = [
        float(value) if type(value) is int and abs(value) >= 2**63 else value
        for event in events
        for _, value in event
        if value == value
    ]

    @st.composite
    def constraints(draw: st.DrawFn) -> tuple[Constraint, Any]:
        path = draw(paths)
        spelled = path
        if draw(st.booleans()):
            spelled = tuple((p.swapcase() if own else p, own) for p, own in path)
        name = ".".join(part for part, _ in spelled)
        operand = draw(st.sampled_from(operands or [1]))
        forms = ["=", "exists"] if isinstance(operand, bool) else [*COMPARED, "exists"]
        form = draw(st.sampled_from(forms))
        return Constraint(name, form, operand, draw(st.booleans())), path

    predicates, found = {}, set()
    for id in range(14):
        parts = draw(st.lists(constraints(), min_size=1, max_size=2))
        if any(" " in one.name for one, _ in parts):
            parts = [pair for pair in parts if " " not in pair[0].name] or [
                (Constraint("n", "exists", 0, False), (("n", True),))
            ]
        predicates[id] = " and ".join(map(str, (one for one, _ in parts)))
        for n, scalars in enumerate(events):
            held = [*scalars, ((("n", True),), n)]
            if all(one.holds(values_under(held, one.name, path, any_case)) for one, path in parts):
                found.add((n, id))
    return Case(" UNION ALL ".join(rows), predicates, found)


def values_under(event: Any, name: str, path: Any, any_case: bool) -> list[Any]:
    """The values under a name. Case may not count in Spark's own names; it does in keys."""
    plain = ".".join(part for part, _ in path)
    wanted = plain if any_case else name
    return [value for held, value in event if ".".join(part for part, _ in held) == wanted]


# The paths


@contextmanager
def settings_of(spark: SparkSession, **changed: str) -> Iterator[None]:
    names = {"zone": "spark.sql.session.timeZone", "case": "spark.sql.caseSensitive"}
    before = {names[key]: spark.conf.get(names[key]) for key in changed}
    for key, value in changed.items():
        spark.conf.set(names[key], value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def pairs_in(frame: DataFrame) -> Found:
    return set(map(tuple, frame.select("n", "subscription").collect()))


def all_paths(spark: SparkSession, frame: DataFrame, held: dict[int, str], folder: Path) -> Found:
    """The pairs that every path finds, which must be the same ones."""
    compiled = compile(held)
    frame.write.parquet(str(folder / "events"))
    events = spark.read.parquet(str(folder / "events"))
    found = pairs_in(match(events, compiled, unknown="ignore"))
    lists = match(events, compiled, output="lists", unknown="ignore")
    rows = lists.select("n", "subscriptions").collect()
    assert {(row["n"], id) for row in rows for id in row["subscriptions"]} == found
    counts = match(events, compiled, output="counts", unknown="ignore").collect()
    assert dict(map(tuple, counts)) == Counter(id for _, id in found)
    register(spark, tidings_match=compiled)
    events.createOrReplaceTempView("same_answer")
    sql = "SELECT n, explode(tidings_match(struct(*))) AS subscription FROM same_answer"
    assert pairs_in(spark.sql(sql)) == found
    held_rows = spark.createDataFrame(list(held.items()), "subscription int, predicate string")
    held_rows.createOrReplaceTempView("same_rules")
    sql = """SELECT n, subscription FROM (SELECT struct(*) AS event, n FROM same_answer)
        CROSS JOIN same_rules WHERE tidings_matches_strict(predicate, event)"""
    assert pairs_in(spark.sql(sql)) == found
    store = Store(folder / "store")
    store.add(held)
    stream = spark.readStream.schema(events.schema).parquet(str(folder / "events"))
    options: dict[str, Any] = {"out": folder / "out", "checkpoint": folder / "checkpoint"}
    query = match_stream(stream, store, trigger={"availableNow": True}, unknown="ignore", **options)
    query.awaitTermination()
    assert pairs_in(spark.read.parquet(str(folder / "out"))) == found
    return found


ZONES = ("UTC", "America/New_York", "Europe/Oslo", "Asia/Kolkata")


# Every example is a dozen jobs: few of them, with much in each, and no search for a smaller one.
@settings(max_examples=examples(3), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data())
def test_all_paths_give_the_answer_of_an_independent_evaluator(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    zone, any_case = data.draw(st.sampled_from(ZONES)), data.draw(st.booleans())
    case = data.draw(cases(any_case))
    with settings_of(spark, zone=zone, case=str(not any_case).lower()):
        frame = spark.sql(case.sql)
        found = all_paths(spark, frame, case.predicates, tmp_path_factory.mktemp("same"))
    wrong = found ^ case.found
    assert not wrong, {(n, case.predicates[id], (n, id) in found) for n, id in wrong}


def test_values_that_stand_for_nothing_spoil_no_row_on_any_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    deep = '{"s": 1, "deep": ' + "[" * 150 + "1" + "]" * 150 + "}"
    sql = f"""
        SELECT 1 AS n, map(1, 'x') AS odd, INTERVAL '1' DAY AS span, X'00' AS raw,
          timestamp_micros({LATE}) AS late, cast(X'61ff' AS string) AS bad,
          cast('9007199254740993' AS decimal(38,0)) AS id, parse_json('{deep}') AS v,
          TIMESTAMP '2024-07-01 10:00:00' AS t, map(cast(X'ff' AS string), 1, 'k', 2) AS m,
          array('ok', cast(X'ff' AS string)) AS l
        UNION ALL SELECT 2, NULL, NULL, NULL, NULL, 'ok', 5, NULL, NULL, NULL, NULL
    """
    held = {
        0: "n = 1",
        1: "id = 9007199254740993",
        2: "t = '2024-07-01T14:00:00+00:00'",  # ten o'clock in New York
        3: "exists late or exists odd or exists span or exists raw",
        4: "not exists bad",
        5: "bad matches 'o'",
        6: "v.s = 1 and not exists v.deep",
        7: "m.k = 2 and l = 'ok'",
        8: "bad icontains 'A' or bad != 'ok'",
    }
    with settings_of(spark, zone="America/New_York"):
        found = all_paths(spark, spark.sql(sql), held, tmp_path)
    assert found == {(1, 0), (1, 1), (1, 2), (1, 4), (1, 6), (1, 7), (2, 5)}


def test_intervals_of_months_at_any_depth_spoil_no_row_on_any_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    sql = """
        SELECT 1 AS n, INTERVAL '2' MONTH AS top, array(INTERVAL '2' MONTH, NULL) AS l,
          map('k', INTERVAL '2' MONTH) AS m, map('k', map('j', INTERVAL '2' MONTH)) AS mm,
          map(INTERVAL '2' MONTH, 1) AS keys, named_struct('m', INTERVAL '2' MONTH, 'x', 1) AS s,
          array(named_struct('m', array(INTERVAL '2' MONTH), 'x', 1)) AS ls, parse_json('1') AS v
        UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        UNION ALL SELECT 3, NULL, array(), map(), map(), map(), NULL, array(), parse_json('2')
    """
    held = {
        0: "exists top or exists l or exists m.k or exists mm.k.j or exists s.m or exists ls.m",
        1: "S.x = 1 and LS.x = 1",
        2: "not exists top and not exists m.k and n > 1",
        3: "exists keys",
    }
    rows = spark.sql(sql)
    found = {(1, 1), (2, 2), (3, 2)}
    assert all_paths(spark, rows.drop("v"), held, tmp_path / "plain") == found
    assert all_paths(spark, rows, {**held, 4: "v = 1"}, tmp_path / "open") == {*found, (1, 4)}


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_json_text_of_other_bytes_is_rejected_in_a_batch_and_in_a_stream(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    sql = f"""SELECT 1 AS n, cast(X'7b2278223a22ff227d' AS {kind}) AS e
        UNION ALL SELECT 2, cast('{{"x": "a"}}' AS {kind})"""
    spark.sql(sql).write.parquet(str(tmp_path / "events"))
    events = spark.read.parquet(str(tmp_path / "events"))
    assert pairs_in(match(events, {7: "exists x"}, json="e")) == {(2, 7)}
    (bad,) = rejected_events(events, "e").select("n", "reason").collect()
    assert bad["n"] == 1
    assert bad["reason"].startswith("not JSON: ")
    register(spark)
    asked = events.orderBy("n").selectExpr("tidings_matches('exists x', e)")
    assert asked.collect() == [(None,), (True,)]
    Store(tmp_path / "store").add({7: "exists x"})
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "events"))
    out = tmp_path / "out"
    match_stream(
        stream, tmp_path / "store", out=out, checkpoint=tmp_path / "checkpoint", json="e",
        trigger={"availableNow": True},
    ).awaitTermination()  # fmt: skip
    assert pairs_in(spark.read.parquet(str(out))) == {(2, 7)}
    assert spark.read.parquet(str(out / "_rejected")).select("n").collect() == [(1,)]


def test_subscriptions_of_other_bytes_are_rejected_and_stop_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    held = spark.sql(
        """SELECT 'good' AS subscription, 'x = 1' AS predicate
        UNION ALL SELECT 'text', cast(X'78ff' AS string)
        UNION ALL SELECT cast(X'69ff' AS string), 'x = 1'"""
    )
    events = spark.createDataFrame([(1, 1)], "n int, x int")
    compiled = compile(held)
    assert pairs_in(match(events, compiled)) == {(1, "good")}  # type: ignore[comparison-overlap]
    bad = {row["subscription"]: row["reason"] for row in compiled.rejected.collect()}
    assert bad == dict.fromkeys(["text", "i\ufffd"], "expected text in UTF-8, found other bytes")
    refused = Store(tmp_path / "store").add(held, strict=False).refused
    assert refused.column("reason").to_pylist() == list(bad.values())
    register(spark)
    strange = spark.sql("SELECT tidings_matches(cast(X'78ff' AS string), '{}')")
    assert strange.collect() == [(None,)]
