"""The functions for SQL answer as predicates do."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidings import Table, parse
from tidings.spark import Store, explained, match, register

EVENTS = """
    SELECT 1 AS n, '{"class": "alert", "severity": 3}' AS text, named_struct('class', 'alert',
        'severity', 3, 'day', DATE '2024-02-29', 'price', 1.50BD, 'raw', X'00') AS record
    UNION ALL SELECT 2, '{"class": "debug"}', named_struct('class', 'debug', 'severity', NULL,
        'day', NULL, 'price', NULL, 'raw', NULL)
    UNION ALL SELECT 3, '[1]', NULL
    UNION ALL SELECT 4, NULL, NULL
"""


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> SparkSession:
    register(spark)
    spark.sql(EVENTS).createOrReplaceTempView("sql_events")
    return spark


def answers(sql: SparkSession, predicate: str, event: str) -> list[bool | None]:
    quoted = predicate.replace("'", "''")
    query = f"SELECT tidings_matches('{quoted}', {event}) AS yes FROM sql_events ORDER BY n"
    return [row["yes"] for row in sql.sql(query).collect()]


@pytest.mark.parametrize(
    ("predicate", "event", "expected"),
    [
        ("class = 'alert' and severity > 2", "text", [True, False, None, None]),
        ("not exists severity", "text", [False, True, None, None]),
        ("severity >", "text", [None, None, None, None]),
        ("class = 'alert' and severity > 2", "record", [True, False, None, None]),
        ("day prefix '2024-02' and price = 1.5", "record", [True, False, None, None]),
        ("raw is null", "record", [True, True, None, None]),
        ("severity = '3'", "map('severity', string(record.severity))", [True, False, False, False]),
        ("severity = 3", "try_parse_json(text)", [True, False, None, None]),
    ],
)
def test_a_predicate_is_asked_about_text_structs_maps_and_variants(
    sql: SparkSession, predicate: str, event: str, expected: list[Any]
) -> None:
    assert answers(sql, predicate, event) == expected


def test_the_strict_function_fails_with_the_reason(sql: SparkSession) -> None:
    query = "SELECT tidings_matches_strict('x >', '{}')"
    with pytest.raises(PySparkException) as caught:
        sql.sql(query).collect()
    assert explained(caught.value).startswith("PredicateError: line 1, column 4: expected a number")


def test_predicates_may_come_from_a_column(sql: SparkSession) -> None:
    query = (
        "SELECT tidings_matches(p, '{\"x\": 1}') FROM VALUES ('x = 1'), ('x = 2'), (NULL) AS t(p)"
    )
    assert [row[0] for row in sql.sql(query).collect()] == [True, False, None]


def test_a_function_of_a_store_gives_the_ids_that_an_event_matches(
    sql: SparkSession, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    store.add({"ada": "class = 'alert' and severity > 2", "ben": "not exists severity"})
    register(sql, alerts=store)
    query = "SELECT n, explode(alerts(text)) AS subscription FROM sql_events"
    assert sorted(map(tuple, sql.sql(query).collect())) == [(1, "ada"), (2, "ben")]
    lists = sql.sql("SELECT alerts(text) FROM sql_events ORDER BY n").collect()
    assert [row[0] for row in lists] == [["ada"], ["ben"], None, None]
    store.remove("ben")
    assert sorted(map(tuple, sql.sql(query).collect())) == [(1, "ada"), (2, "ben")]
    register(sql, alerts=store)  # the newest version
    assert sorted(map(tuple, sql.sql(query).collect())) == [(1, "ada")]
    flat = "SELECT *, explode(alerts(struct(*))) AS subscription FROM"
    (found,) = sql.sql(f"{flat} (SELECT n, record.* FROM sql_events)").collect()
    assert (found["n"], found["severity"], found["subscription"]) == (1, 3, "ada")


def test_many_rows_against_subscriptions_give_the_pairs_of_the_table(sql: SparkSession) -> None:
    held = {n: f"x between {n} and {2 * n}" for n in range(1, 40)}
    register(sql, many=held)
    query = "SELECT id, explode(many(named_struct('x', id))) FROM range(100)"
    table = Table({id: parse(text) for id, text in held.items()})
    expected = sorted((x, id) for x in range(100) for id in table.match({"x": x}))
    assert sorted(map(tuple, sql.sql(query).collect())) == expected


def test_what_cannot_be_a_function_is_refused(sql: SparkSession) -> None:
    with pytest.raises(ValueError, match="expected the name of a function for SQL, found 'a b'"):
        register(sql, **{"a b": {}})


def test_values_mean_in_spark_what_they_mean_elsewhere(sql: SparkSession) -> None:
    """Columns, rows and records of Spark against Python's objects, in a zone with summer time."""
    values = """
        SELECT 1 AS n, TIMESTAMP '2024-02-29 10:00:00.5+00:00' AS at,
          TIMESTAMP_NTZ '2024-02-29 10:00:00' AS local, DATE '2024-02-29' AS day,
          CAST('1.50' AS DECIMAL(10,2)) AS price, CAST(7 AS DECIMAL(38,0)) AS count,
          CAST('100000000000000000000000000000' AS DECIMAL(38,0)) AS huge,
          CAST('x' AS BINARY) AS raw, array(DATE '2024-01-01', NULL) AS days,
          map('k', TIMESTAMP '2024-10-27 01:30:00+00:00') AS extra,
          named_struct('at', TIMESTAMP '1900-01-01 00:00:00+00:00') AS host
    """
    event = {
        "n": 1,
        "at": datetime(2024, 2, 29, 10, 0, 0, 500_000, UTC),
        "local": datetime(2024, 2, 29, 10),
        "day": date(2024, 2, 29),
        "price": Decimal("1.50"),
        "count": Decimal(7),
        "huge": Decimal(10**29),
        "raw": b"x",
        "days": [date(2024, 1, 1), None],
        "extra": {"k": datetime(2024, 10, 27, 1, 30, tzinfo=UTC)},
        "host": {"at": datetime(1900, 1, 1, tzinfo=UTC)},
    }
    held = [
        "at = '2024-02-29T10:00:00.5+00:00'",
        "at < '2024-02-29T10:00:00.4'",
        "local = '2024-02-29T10:00:00'",
        "day = '2024-02-29' and real price = 1.5 and int count = 7",
        "int huge > 9223372036854775807 and huge < 1e30",
        "exists raw",
        "days = '2024-01-01'",
        "extra.k = '2024-10-27T01:30:00+00:00'",
        "host.at = '1900-01-01T00:00:00+00:00' and days matches '^2024-01'",
    ]
    expected = [n for n, text in enumerate(held) if parse(text).matches(event)]
    assert expected == [0, 2, 3, 4, 6, 7, 8]
    zone = sql.conf.get("spark.sql.session.timeZone")
    sql.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    try:
        events = sql.sql(values)
        events.createOrReplaceTempView("odd_values")
        rows = [(n, text) for n, text in enumerate(held)]
        wanted = sql.createDataFrame(rows, "subscription long, predicate string")
        found = match(events, wanted).select("subscription").collect()
        assert sorted(row[0] for row in found) == expected
        register(sql, odd=dict(rows))
        query = "SELECT explode(odd(struct(*))) FROM odd_values"
        assert sorted(row[0] for row in sql.sql(query).collect()) == expected
        quoted = [text.replace("'", "''") for text in held]
        calls = (f"tidings_matches('{text}', struct(*)) AS a{n}" for n, text in enumerate(quoted))
        asked = ", ".join(calls)
        (row,) = sql.sql(f"SELECT {asked} FROM odd_values").collect()
        assert [n for n, yes in enumerate(row) if yes] == expected
    finally:
        sql.conf.set("spark.sql.session.timeZone", zone or "UTC")
