"""Events of the network as rows: what fits, what does not, and the schema of a sample."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import types as T

from tidings.spark.rows import CORRUPT, Rows, as_json, inferred


def row(kind: T.DataType, value: Any) -> Any:
    """A value as a column has it, or why it does not fit."""
    batch, unfit = Rows(T.StructType([T.StructField("x", kind)])).batch([{"x": value}])
    return unfit[0].reason if unfit else batch.column(0)[0].as_py()


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (T.StringType(), "a", "a"),
        (T.StringType(), ["a"], "a"),
        (T.StringType(), [], None),
        (T.StringType(), [None], None),
        (T.StringType(), 5, "attribute 'x': expected text, found 5"),
        (T.StringType(), ["a", "b"], "attribute 'x': expected one value, found 2"),
        (T.StringType(), {"a": 1}, "attribute 'x': expected text, found {'a': 1}"),
        (T.LongType(), 2**63 - 1, 2**63 - 1),
        (T.LongType(), 2**63, f"attribute 'x': expected an integer of 64 bits, found {2**63}"),
        (T.LongType(), 3.0, 3),
        (T.LongType(), 3.5, "attribute 'x': expected an integer of 64 bits, found 3.5"),
        (T.LongType(), True, "attribute 'x': expected an integer of 64 bits, found True"),
        (T.ByteType(), 128, "attribute 'x': expected an integer of 8 bits, found 128"),
        (T.DoubleType(), 2**53, float(2**53)),
        (T.DoubleType(), 2**53 + 1, f"attribute 'x': expected a real, found {2**53 + 1}"),
        (T.DoubleType(), True, "attribute 'x': expected a real, found True"),
        (T.BooleanType(), False, False),
        (T.BinaryType(), b"\xff", b"\xff"),
        (T.DateType(), "2024-02-29", date(2024, 2, 29)),
        (T.DateType(), "soon", "attribute 'x': expected a date, found 'soon'"),
        (
            T.TimestampType(),
            "2024-02-29T12:00:00+02:00",
            datetime(2024, 2, 29, 10, tzinfo=UTC),
        ),
        (T.TimestampNTZType(), "2024-02-29T12:00:00", datetime(2024, 2, 29, 12)),
        (T.ArrayType(T.LongType()), 5, [5]),
        (T.ArrayType(T.LongType()), [5, None, 6], [5, None, 6]),
        (T.ArrayType(T.StringType()), [1], "attribute 'x': expected text, found 1"),
        (T.StructType().add("a", "long").add("b", "long"), {"a": 1}, {"a": 1, "b": None}),
        (T.MapType(T.StringType(), T.LongType()), {"a": 1}, [("a", 1)]),
        (T.MapType(T.StringType(), T.LongType()), 5, "attribute 'x': expected a record, found 5"),
    ],
    ids=str,
)
def test_a_value_fits_its_column_exactly_or_not_at_all(
    kind: T.DataType, value: Any, expected: Any
) -> None:
    assert row(kind, value) == expected


@pytest.mark.parametrize("kind", [T.FloatType(), T.DecimalType(5, 2), T.DayTimeIntervalType()])
def test_a_column_that_events_cannot_fill_is_refused(kind: T.DataType) -> None:
    with pytest.raises(ValueError, match="column 'x': expected text, a number"):
        Rows(T.StructType([T.StructField("x", kind)]))


def test_events_that_do_not_fit_can_be_rows_too() -> None:
    rows = Rows(T.StructType().add("x", "long").add(CORRUPT, "string"))
    batch, unfit = rows.batch([{"x": 1}, {"x": "a", "raw": b"b"}])
    assert not unfit
    assert batch.to_pylist() == [{"x": 1, CORRUPT: None}, {"x": None, CORRUPT: '{"x":"a"}'}]


def test_events_as_json_text() -> None:
    rows = Rows(T.StructType().add("event", "string"), "event")
    event = {"x": [1, b"raw", {"y": "é", "z": b""}], "n": float("nan")}
    assert rows.batch([event])[0].to_pylist() == [{"event": '{"x":[1,{"y":"é"}],"n":NaN}'}]
    assert as_json({}) == "{}"
    with pytest.raises(ValueError, match="expected the schema `event string`"):
        Rows(T.StructType().add("x", "long"), "event")


def test_a_schema_is_inferred_from_a_sample() -> None:
    sample = [
        {"n": 1, "load": 1, "name": "a", "up": True, "tags": "a", "host": {"id": 1}, "none": None},
        {"load": 0.5, "tags": ["b", None], "host": {"id": None, "raw": b""}, "empty": {}},
    ]
    assert inferred(sample).simpleString() == (
        "struct<host:struct<id:bigint,raw:binary>,load:double,n:bigint,name:string,"
        "tags:array<string>,up:boolean>"
    )
    batch, unfit = Rows(inferred(sample)).batch(sample)
    assert (batch.num_rows, unfit) == (2, [])
    with pytest.raises(ValueError, match=r"attribute 'host\.id' has values of different kinds"):
        inferred([{"host": {"id": 1}}, {"host": {"id": "a"}}])
