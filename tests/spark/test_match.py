"""`match` on Spark finds what the table and the oracle find, whatever form events come in."""

import contextlib
import gzip
import io
import json
import lzma
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.effort import examples
from tests.language import strategies
from tests.places import DATA
from tidings import Predicate, Table, parse
from tidings.language.expression import constraints
from tidings.matching.matchers import MATCHERS
from tidings.matching.workload import APPLICATIONS, WORKLOADS
from tidings.spark import (
    EventsRejected,
    Store,
    SubscriptionsRejected,
    UnknownNames,
    compile,
    explained,
    match,
    matching,
    rejected_events,
)
from tidings.spark.matches import Output

Pairs = list[tuple[Any, Any]]


def subscriptions(spark: SparkSession, pairs: Iterable[tuple[Any, Any]]) -> DataFrame:
    """Ids and predicates as a DataFrame."""
    rows = [(id, str(predicate)) for id, predicate in pairs]
    kind = "long" if all(type(id) is int for id, _ in rows) else "string"
    return spark.createDataFrame(rows, f"subscription {kind}, predicate string")


def found_in(events: DataFrame, held: Any, key: str, **options: Any) -> Pairs:
    """The pairs that each form of the output tells of, which must be the same ones."""
    pairs = match(events, held, output="pairs", **options)
    assert pairs.columns == [*events.columns, "subscription"]
    found = sorted((row[key], row["subscription"]) for row in pairs.collect())
    lists = match(events, held, output="lists", **options)
    assert lists.columns == [*events.columns, "subscriptions"]
    rows = lists.collect()
    assert len(rows) == events.count()
    assert sorted((row[key], id) for row in rows for id in row["subscriptions"] or ()) == found
    counts = match(events, held, output="counts", **options).collect()
    assert {row["subscription"]: row["events"] for row in counts} == Counter(i for _, i in found)
    return found


def expected_in(pairs: Sequence[tuple[Any, Any]], events: Iterable[Any]) -> Pairs:
    """The pairs that asking every predicate finds."""
    scan = MATCHERS["scan"](pairs)
    return sorted((row, id) for row, event in enumerate(events) for id in scan.match(event))


# Workloads


@pytest.mark.parametrize("name", [n for n in WORKLOADS if n == "alerts" or n not in APPLICATIONS])
def test_every_workload_gives_the_pairs_of_the_oracle(spark: SparkSession, name: str) -> None:
    workload = WORKLOADS[name](seed=7)
    pairs = list(workload.subscriptions(0, 300))
    events = workload.events(0, 60)
    expected = expected_in(pairs, events)
    assert expected == sorted(
        (row, id) for row, e in enumerate(events) for id in Table(pairs).match(e)
    )
    texts = spark.createDataFrame(
        [(row, json.dumps(e)) for row, e in enumerate(events)], "n int, e string"
    )
    held = compile(subscriptions(spark, pairs))
    assert held.stats()[:3] == Table(pairs).stats()[:3]
    assert found_in(texts, held, "n", json="e") == expected
    if name != "forwarding":  # a thousand columns, of which Spark is slow
        table = workload.event_table(0, 60).append_column("event number", pa.array(range(60)))
        frame = spark.createDataFrame(table)
        assert found_in(frame, held, "event number") == expected


def test_a_thousand_columns_are_pruned_to_those_asked_about(spark: SparkSession) -> None:
    workload = WORKLOADS["forwarding"](seed=7)
    pairs = list(workload.subscriptions(0, 12))
    table = workload.event_table(0, 40).append_column("event number", pa.array(range(40)))
    frame = spark.createDataFrame(table)
    found = match(frame, subscriptions(spark, pairs)).select("event number", "subscription")
    assert sorted(map(tuple, found.collect())) == expected_in(pairs, workload.events(0, 40))


# Data


def shared(name: str) -> Path:
    if not DATA.exists():
        pytest.skip("the shared data are not beside the repository (shared/data)")
    return DATA / name


@pytest.mark.soak
def test_all_stock_quotes_are_counted_right(spark: SparkSession) -> None:
    folder = shared("padres-stockquotes")
    operators = {"eq": "=", ">": ">", "<": "<"}
    with gzip.open(folder / "subscriptions_10000.jsonl.gz", "rt", encoding="utf-8") as lines:
        asked = [json.loads(line)["predicates"] for line in lines]
    texts = [" and ".join(f"{n} {operators[o]} {v!r}" for n, o, v in tests) for tests in asked]
    quotes = pa.json.read_json(
        io.BytesIO(lzma.decompress((folder / "stockquotes.jsonl.xz").read_bytes()))
    )
    events = spark.createDataFrame(quotes.drop_columns(["date"])).repartition(2)
    counts = match(events, subscriptions(spark, enumerate(texts)), output="counts").collect()
    expected = json.loads((folder / "expected_counts.json").read_text(encoding="utf-8"))["counts"]
    found = {row["subscription"]: row["events"] for row in counts}
    assert [found.get(id, 0) for id in range(len(texts))] == expected


def test_flights_with_their_gaps_give_the_pairs_of_the_table(spark: SparkSession) -> None:
    raw = lzma.decompress((shared("nycflights13") / "flights.csv.xz").read_bytes())
    flights = pa.csv.read_csv(
        io.BytesIO(raw),
        convert_options=pa.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True),
    ).slice(0, 20_000)
    held = {
        "late": "arr_delay > 240",
        "never": "dep_time is null and origin in ('JFK', 'LGA')",
        "west": "dest in ('SFO', 'LAX') and dep_delay between 30 and 60",
        "tail": "tailnum like 'N1%AA' and not carrier = 'MQ'",
        "hour": "hour < 6 and distance >= 1000",
        "gone": "tailnum is null",
    }
    numbered = flights.append_column("n", pa.array(range(flights.num_rows)))
    events = spark.createDataFrame(numbered)
    table = Table(held).match_batch(flights, threads=1)
    expected = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert len(expected) > 300
    assert found_in(events, subscriptions(spark, held.items()), "n") == expected


def test_security_events_as_text_and_as_variant_give_the_pairs_of_the_table(
    spark: SparkSession,
) -> None:
    with gzip.open(shared("windows-security-events") / "events.jsonl.gz", "rt") as lines:
        texts = [line for _, line in zip(range(2_000), lines, strict=False)]
    held = {
        1: "EventID = 1 and Image isuffix 'powershell.exe'",
        2: "EventID in (4624, 4688) and not TargetUserName iprefix 'dwm'",
        3: "CommandLine imatches 'encod|bypass' or ParentImage icontains 'winword'",
        4: "exists Hostname and EventID >= 4000",
        5: "TargetFilename like '%\\Temp\\%' or ImageLoaded isuffix '.dll'",
    }
    table = Table(held)
    expected = sorted((row, id) for row, text in enumerate(texts) for id in table.match(text))
    assert len(expected) > 200
    frame = spark.createDataFrame(list(enumerate(texts)), "n int, e string")
    asked = compile(subscriptions(spark, held.items()))
    assert found_in(frame, asked, "n", json="e") == expected
    variant = frame.select("n", F.parse_json("e").alias("e"))
    assert (
        sorted(map(tuple, match(variant, asked, json="e").select("n", "subscription").collect()))
        == expected
    )


# Forms of events


def test_typed_columns_of_all_kinds_are_attributes(spark: SparkSession) -> None:
    schema = (
        "n int, price decimal(10,2), whole decimal(6,0), day date, at timestamp, raw binary, "
        "tags array<string>, host struct<name: string, racks: array<struct<no: int>>, up: date>, "
        "extra map<string, double>, odd map<int, string>, `a.b` string, truth boolean"
    )
    host = ("web", [(1,), (2,)], None)
    first = (0, Decimal("9.90"), Decimal(7), None, None, b"x", ["a", None], host)
    rows = [
        (*first, {"k.l": 1.5}, {1: "x"}, "dot", True),
        (1, None, None, None, None, None, [], None, {}, None, None, None),
    ]
    events = spark.createDataFrame(rows, schema).withColumns(
        {
            "day": F.lit("2024-02-29").cast("date"),
            "at": F.lit("2024-02-29 10:00:00+00").cast("timestamp"),
        }
    )
    held = {
        "price": "price = 9.9",
        "whole": "int whole = 7",
        "day": "day >= '2024-02-01' and day < '2024-03-01'",
        "at": "at = '2024-02-29T10:00:00+00:00'",
        "raw": "raw is null",
        "tags": "tags = 'a'",
        "no tags": "not exists tags",
        "racks": "host.racks.no = 2 and host.name = 'web'",
        "extra": "extra.k.l > 1",
        "odd": "exists odd",
        "dot": "a.b = 'dot'",
        "truth": "truth = true",
        "up": "host.up is null",
    }
    found = found_in(events, subscriptions(spark, held.items()), "n")
    both = {"day", "at", "raw", "up"}
    assert {id for n, id in found if n == 0} == set(held) - {"odd", "no tags"}
    assert {id for n, id in found if n == 1} == both | {"no tags"}


def test_variant_columns_are_records_among_the_others(spark: SparkSession) -> None:
    rows = [
        (0, '{"a": {"b": [1, "x"]}, "c": null}'),
        (1, "[1, 2]"),
        (2, None),
        (3, '{"a": {"b": 1.0}}'),
    ]
    events = spark.createDataFrame(rows, "n int, t string").select(
        "n", F.parse_json("t").alias("v")
    )
    held = {
        "number": "v.a.b = 1",
        "text": "v.a.b = 'x'",
        "list": "v = 2",
        "none": "n = 2 and not exists v",
    }
    expected = [(0, "number"), (0, "text"), (1, "list"), (2, "none"), (3, "number")]
    assert found_in(events, subscriptions(spark, held.items()), "n") == expected


def test_columns_can_be_chosen_and_names_changed(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, 5), (2, 5)], "x int, y int")
    held = spark.createDataFrame(
        [(7, "x = 1 or y = 5", "tidings"), (8, "y = 5", None)], "who int, wants string, said string"
    )
    names = {"subscription": "who", "predicate": "wants", "dialect": "said"}
    found = events.transform(matching(held, columns=["x"], unknown="ignore", **names))
    assert found.dtypes == [("x", "int"), ("y", "int"), ("subscription", "bigint")]
    assert [tuple(row) for row in found.collect()] == [(1, 5, 7)]


def test_predicates_of_another_dialect_are_matched_as_it_says(spark: SparkSession) -> None:
    rows = [("ours", "price > 5", None), ("jms", "price * quantity > 100", "jms")]
    held = spark.createDataFrame(rows, "subscription string, predicate string, dialect string")
    events = spark.createDataFrame(
        [(1, 6.0, 2), (2, 4.0, 30), (3, 60.0, 2)], "n int, price double, quantity int"
    )
    assert found_in(events, held, "n") == [(1, "ours"), (2, "jms"), (3, "jms"), (3, "ours")]
    texts = events.select("n", F.to_json(F.struct("price", "quantity")).alias("e"))
    assert found_in(texts, held, "n", json="e") == [
        (1, "ours"),
        (2, "jms"),
        (3, "jms"),
        (3, "ours"),
    ]


def test_ids_keep_their_type(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1,)], "x int")
    for pairs, kind in (([("1", "x = 1")], "string"), ([(1, "x = 1")], "bigint")):
        found = match(events, subscriptions(spark, pairs))
        assert dict(found.dtypes)["subscription"] == kind
        assert found.collect()[0]["subscription"] == pairs[0][0]


def test_events_of_which_nothing_is_asked_still_match_what_is_always_true(
    spark: SparkSession,
) -> None:
    events = spark.createDataFrame([(1,), (2,)], "x int")
    held = subscriptions(spark, [("always", "true"), ("absent", "not exists y"), ("no", "false")])
    assert found_in(events, held, "x", unknown="ignore") == [
        (1, "absent"),
        (1, "always"),
        (2, "absent"),
        (2, "always"),
    ]
    nobody = held.limit(0)
    assert found_in(events, nobody, "x") == []


# Bad rows


def test_bad_subscriptions_come_out_with_reason_and_place(spark: SparkSession) -> None:
    rows = [
        ("good", "x = 1", None),
        ("text", "x >> 1", None),
        ("null", None, None),
        (None, "x = 1", None),
        (" ", "x = 1", None),
        ("dialect", "x = 1", "klingon"),
        ("twice", "x = 1", None),
        ("twice", "x = 2", None),
        ("same", "x = 1", None),
        ("same", "x = 1", None),
    ]
    held = spark.createDataFrame(rows, "subscription string, predicate string, dialect string")
    compiled = compile(held)
    bad = {row["subscription"]: row for row in compiled.rejected.collect()}
    assert set(bad) == {"text", "null", None, " ", "dialect", "twice"}
    assert (bad["text"]["line"], bad["text"]["column"]) == (1, 4)
    assert "expected a number or a text" in bad["text"]["reason"]
    assert bad["null"]["reason"] == "expected a predicate, found null"
    assert "found 'klingon'" in bad["dialect"]["reason"]
    assert compiled.facts.rejected == 7
    events = spark.createDataFrame([(1,)], "x int")
    assert found_in(events, compiled, "x") == [(1, "good"), (1, "same")]
    with pytest.raises(SubscriptionsRejected, match=r"7 of 9 subscriptions are bad:\n"):
        match(events, held, strict=True)


def test_bad_events_match_nothing_and_come_out_with_the_reason(spark: SparkSession) -> None:
    deep = '{"a": ' * 200 + "1" + "}" * 200
    rows = [(0, '{"x": 1}'), (1, '{"x":'), (2, "[1]"), (3, None), (4, deep), (5, '{"x": 1e999}')]
    events = spark.createDataFrame(rows, "n int, e string")
    held = subscriptions(spark, [("one", "x = 1"), ("none", "not x = 1")])
    found = [(0, "one"), (3, "none"), (4, "none")]  # what lies deeper than 100 levels adds nothing
    assert found_in(events, held, "n", json="e") == found
    lists = {
        row["n"]: row["subscriptions"]
        for row in match(events, held, json="e", output="lists").collect()
    }
    assert [n for n, found in sorted(lists.items()) if found is None] == [1, 2, 5]
    bad = {row["n"]: row for row in rejected_events(events, "e").collect()}
    assert set(bad) == {1, 2, 5}
    assert bad[1]["position"] == 5
    assert bad[2]["reason"] == "expected a JSON object, found list"
    with pytest.raises(EventsRejected, match="some rows of column 'e' are not valid events"):
        match(events, held, json="e", strict=True)
    match(events.filter("n = 0"), held, json="e", strict=True)


def test_integers_past_64_bit_are_compared_exactly(spark: SparkSession) -> None:
    rows = [
        (0, '{"x": 18446744073709551616}'),
        (1, '{"x": -9223372036854775809}'),
        (2, '{"x": 9223372036854775808}'),
    ]
    events = spark.createDataFrame(rows, "n int, e string")
    held = {
        "most": "x > 9223372036854775807",
        "least": "x < -9223372036854775808",
        "real": "x < 1e300",
        "equal": "x = -9223372036854775808",
    }
    expected = [(0, "most"), (0, "real"), (1, "least"), (1, "real"), (2, "most"), (2, "real")]
    assert found_in(events, subscriptions(spark, held.items()), "n", json="e") == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "pears"}, "expected output pairs, lists or counts, found 'pears'"),
        ({"columns": ["z"]}, "`columns` names 'z', which is not a column"),
        ({"json": "z"}, "expected a column 'z' of JSON text"),
        ({"json": "x"}, "column 'x': expected JSON text or a Variant, found int"),
        ({"subscription": "z"}, "expected a column 'z' of subscriptions"),
        ({"predicate": "subscription"}, "expected predicates that are text, found bigint"),
    ],
)
def test_mistakes_of_the_call_are_told_before_any_work(
    spark: SparkSession, change: dict[str, Any], message: str
) -> None:
    events = spark.createDataFrame([(1,)], "x int")
    with pytest.raises(ValueError, match=message.replace("'", ".")):
        match(events, subscriptions(spark, [(1, "x = 1")]), **change)


def test_columns_that_would_be_two_of_one_name_are_refused(spark: SparkSession) -> None:
    held = subscriptions(spark, [(1, "x = 1")])
    taken = spark.createDataFrame([(1, 2)], "x int, subscription int")
    with pytest.raises(ValueError, match="have a column 'subscription' already"):
        match(taken, held)
    twice = taken.select("x", "x")
    with pytest.raises(ValueError, match="the events have two columns named 'x'"):
        match(twice, held)


def test_names_that_no_column_has_are_reported(spark: SparkSession) -> None:
    events = spark.sql("SELECT 1 AS x, map('k', 1) AS m, array(named_struct('f', 1)) AS l")
    known = {"a": "x = 1 or m.any.key = 1 or l.f = 1"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        match(events, known, unknown="refuse")
        match(events, known | {"b": "y = 1"}, unknown="ignore")
    wrong = known | {"b": "severty > 1 or l.g = 1 or x.y = 1"}
    said = "ask about 'l.g', 'severty', 'x.y'; no column has such a name"
    with pytest.warns(UnknownNames, match=said) as caught:
        match(events, wrong)
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match=said):
        match(events, wrong, unknown="refuse")


def test_case_counts_as_it_does_in_the_session(spark: SparkSession) -> None:
    events = spark.sql("SELECT 5 AS Severity, named_struct('Name', 'a') AS Host, map('K', 1) AS m")
    held = {
        "column": "severity > 2 and SEVERITY = 5",
        "field": "host.name = 'a'",
        "key": "m.k = 1",
    }
    key = F.lit(0).alias("n")
    assert found_in(events.select("*", key), held, "n") == [(0, "column"), (0, "field")]
    taken = events.select(F.lit(1).alias("Subscription"))
    with pytest.raises(ValueError, match="have a column 'Subscription' already"):
        match(taken, held, unknown="ignore")
    both = events.select(F.lit(1).alias("a"), F.lit(2).alias("A"))
    with pytest.raises(ValueError, match="columns 'a' and 'A', which are one to Spark"):
        match(both, held)
    records = spark.sql("SELECT 1 AS n, named_struct('a', 1, 'A', 2) AS s")
    with pytest.raises(ValueError, match="a record has fields that are one to Spark"):
        match(records, {"x": "s.a = 1"})
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert found_in(events.select("*", key), held, "n", unknown="ignore") == []
        two = {"x": "a = 1 and A = 2", "y": "a = 2"}
        assert found_in(both.select("*", key), two, "n") == [(0, "x")]
        assert found_in(records, {"x": "s.a = 1 and s.A = 2"}, "n") == [(1, "x")]
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


def test_columns_of_subscriptions_are_named_as_the_session_names_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("a", '{"x": [1]}', "eventbridge", "ada"), ("b", "x = 2", None, "ben")]
    held = spark.createDataFrame(
        rows, "SUBSCRIPTION string, Predicate string, Dialect string, Owner string"
    )
    events = spark.createDataFrame([(1,), (2,)], "X int")
    found = match(events, held, carry=["owner"], strict=True).collect()
    assert sorted(map(tuple, found)) == [(1, "a", "ada"), (2, "b", "ben")]
    store = Store(tmp_path / "store")
    store.add(held)
    assert store.snapshot().column("dialect").to_pylist() == ["eventbridge", None]
    store.remove(held.filter("Owner = 'ben'"))
    assert store.snapshot().column("subscription").to_pylist() == ["a"]


def test_columns_may_be_chosen_in_any_case_and_twice(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, 1), (2, 2)], "x int, y int")
    held = {"a": "x = 1", "b": "y = 2"}
    with pytest.raises(ValueError, match="ask about 'y'; no column"):
        match(events, held, columns=["X"], unknown="refuse")
    found = match(events, {"a": "x = 1"}, columns=["X", "x"], unknown="refuse")
    assert [tuple(row) for row in found.collect()] == [(1, 1, "a")]


def test_bad_events_with_columns_named_as_the_reason(spark: SparkSession) -> None:
    rows = [(1, "{", "r", 2), (2, "{}", "r", 3)]
    events = spark.createDataFrame(rows, "n int, e string, Reason string, position int")
    with pytest.raises(ValueError, match="the events have a column 'Reason' already"):
        rejected_events(events, "e")
    names = {"reason": "a `why`.x", "position": "at"}
    (bad,) = rejected_events(events, "e", names=names).collect()
    assert bad.asDict().keys() == {"n", "e", "Reason", "position", "a `why`.x", "at"}
    assert (bad["n"], bad["Reason"], bad["at"]) == (1, "r", 1)
    with pytest.raises(EventsRejected, match="not JSON"):
        match(events, {"a": "true"}, json="E", strict=True)


def test_the_columns_of_the_output_can_be_named(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, "x")], "x int, subscription string")
    held = {7: "x = 1"}
    renamed = match(events, held, names={"subscription": "rule"})
    assert renamed.dtypes[-1] == ("rule", "bigint")
    assert renamed.collect()[0]["rule"] == 7
    lists = match(events, held, output="lists", names={"subscriptions": "the rules"})
    assert lists.collect()[0]["the rules"] == [7]
    named = {"subscription": "rule", "events": "times"}
    assert match(events, held, output="counts", names=named).collect()[0].asDict() == {
        "rule": 7,
        "times": 1,
    }
    with pytest.raises(ValueError, match="`names` renames subscription, which the output adds"):
        match(events, held, names={"version": "v"})


def test_columns_of_the_subscriptions_can_be_carried(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", "x > 0", "ada", 1), ("b", "x > 1", "ben", 2), ("a", "x > 0", "ada", 1)]
    held = spark.createDataFrame(
        rows, "subscription string, predicate string, owner string, severity int"
    )
    events = spark.createDataFrame([(1, 9), (2, 9)], "x int, severity int")
    named = {"severity": "rule severity"}
    expected = [(1, 9, "a", "ada", 1), (2, 9, "a", "ada", 1), (2, 9, "b", "ben", 2)]
    held.write.parquet(str(tmp_path / "rules.parquet"))
    for form in (held, compile(held), tmp_path / "rules.parquet"):
        found = match(events, form, carry=["owner", "severity"], names=named)
        assert found.columns == ["x", "severity", "subscription", "owner", "rule severity"]
        assert sorted(map(tuple, found.collect())) == expected
    with pytest.raises(ValueError, match="have a column 'severity' already"):
        match(events, held, carry=["severity"])
    with pytest.raises(ValueError, match="expected a column 'team' of subscriptions, found"):
        match(events, held, carry=["team"])
    with pytest.raises(ValueError, match="`carry` needs subscriptions that come from a DataFrame"):
        match(events, {"a": "x > 0"}, carry=["owner"])
    with pytest.raises(ValueError, match="`carry` adds columns to pairs, and not to lists"):
        match(events, held, carry=["owner"], output="lists")


def test_subscriptions_may_be_a_mapping_a_store_a_table_or_a_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = spark.createDataFrame([(1,), (2,)], "x int")
    held = {"a": "x = 1", "b": "x >= 1"}
    Store(tmp_path / "store").add(held)
    (tmp_path / "rules.csv").write_text("id,predicate\na,x = 1\nb,x >= 1\nbad,x >\n")
    table = pa.table({"subscription": list(held), "predicate": list(held.values())})
    forms = [held, Store(tmp_path / "store"), tmp_path / "store", table]
    for form in (*forms, str(tmp_path / "rules.csv")):
        found = match(events, form).collect()
        assert sorted(map(tuple, found)) == [(1, "a"), (1, "b"), (2, "b")], form
    bad = compile(tmp_path / "rules.csv")
    assert [row["subscription"] for row in bad.rejected.collect()] == ["bad"]
    with pytest.raises(SubscriptionsRejected) as caught:
        match(events, tmp_path / "rules.csv", strict=True)
    assert explained(caught.value).startswith("1 of 3 subscriptions are bad: 'bad': ")
    assert explained(caught.value).endswith("found the end of the text")


def test_a_condition_on_events_reaches_the_scan_and_the_function_runs_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    days = str(tmp_path / "days")
    spark.range(20).selectExpr("id AS x", "id % 2 AS day").write.partitionBy("day").parquet(days)
    events = spark.read.parquet(days)
    texts = events.selectExpr("to_json(struct(x)) AS e", "day")
    held = compile({"a": "x > 2"})
    for frame in (
        match(events, held).filter("day = 1 and subscription = 'a'"),
        match(events, held, output="lists").filter("day = 1 and size(subscriptions) > 0"),
        rejected_events(texts, "e").filter("day = 1 and reason > ''"),
    ):
        plan = _plan_of(frame)
        assert re.search(r"PartitionFilters: \[isnotnull\(day#\d+L?\), \(day#\d+L? = 1\)\]", plan)
        assert plan.count("EvalPython") == 1
    assert f"tidings_match_{held.facts.key[:8]}" in _plan_of(match(events, held))


def _plan_of(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        frame.explain()
    return said.getvalue()


def test_outputs_are_those_that_the_type_names() -> None:
    assert get_args(Output) == ("pairs", "lists", "counts")


# Anything


COLUMN = {"x": pa.int64(), "y": pa.string(), "z": pa.float64()}
scalars = {
    "x": st.one_of(
        st.none(), st.integers(-1, 4), st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1])
    ),
    "y": st.one_of(st.none(), strategies.texts),
    "z": st.one_of(st.none(), st.floats(), st.sampled_from([0.5, 2.0])),
}
typed_rows = st.lists(st.fixed_dictionaries(scalars), min_size=1, max_size=60)
any_values = st.recursive(
    st.one_of(strategies.small_numbers, strategies.small_texts, st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)
    ),
    max_leaves=6,
)
documents = st.lists(
    st.dictionaries(st.sampled_from(["x", "y", "z", "x.y"]), any_values, max_size=4),
    min_size=1,
    max_size=60,
)
own = strategies.constraints(["x", "y", "z", "x.y"])
expressions = st.lists(strategies.expressions(own), min_size=1, max_size=40)


# Every example is a dozen jobs: few of them, with much in each, and no search for a smaller one.
@settings(max_examples=examples(3), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(asked=expressions, rows=typed_rows, records=documents)
def test_any_rows_and_predicates_give_the_pairs_of_the_oracle(
    spark: SparkSession, asked: list[Any], rows: list[dict[str, Any]], records: list[dict[str, Any]]
) -> None:
    readable = [p for p in map(Predicate, asked) if _can_be_read_by_workers(p)]
    pairs = list(enumerate(readable))
    held = compile(subscriptions(spark, pairs), budget=8_000)
    table = pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMN.items()}
    )
    frame = spark.createDataFrame(table.append_column("n", pa.array(range(len(rows)))))
    options: dict[str, Any] = {"columns": ["x", "y", "z"], "unknown": "ignore"}
    assert found_in(frame, held, "n", **options) == expected_in(pairs, rows)
    texts = spark.createDataFrame(
        [(n, json.dumps(r)) for n, r in enumerate(records)], "n int, e string"
    )
    assert found_in(texts, held, "n", json="e") == expected_in(pairs, records)


def _can_be_read_by_workers(predicate: Predicate) -> bool:
    """Whether it has a text, and none in the dialect that only the tests have."""
    if any(constraint.operator == "holds" for constraint in constraints(predicate.expression)):
        return False
    try:
        parse(str(predicate))
    except ValueError:
        return False
    return True
