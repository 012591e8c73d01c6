"""A value that is no attribute is an `EventError` that names the attribute, whoever reads it."""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tidings import Event, EventError, ForwardingTable, Table, parse
from tidings.matching.matchers import MATCHERS

PREDICATE = parse("a > 2 or a.b = 1 or a like 'x%'")


class Unreadable(list[Any]):
    """A list that fails when it is read."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("gone")


class Elusive:
    """An object that fails when it is asked for an attribute."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("gone")


class Scalarlike:
    """An object that looks like a scalar of NumPy and is none."""

    dtype = "int64"
    shape = ()

    def item(self) -> Any:
        raise RuntimeError("gone")


READERS: dict[str, Callable[[Any], Any]] = {
    "matches": PREDICATE.matches,
    "explain": PREDICATE.explain,
    "Event": Event,
    "ForwardingTable": ForwardingTable({"x": PREDICATE}).forward,
    "Table": Table({"x": PREDICATE}).match,
    "eventbridge": parse('{"a": [1]}', dialect="eventbridge").matches,
    "jms": parse("a = 1", dialect="jms").matches,
    "cesql": parse("a = 1", dialect="cesql").matches,
    **{name: make([("x", PREDICATE)]).match for name, make in MATCHERS.items()},
}
FOREIGN = {
    "array": np.array([1, 2]),
    "array of one": np.array([1]),
    "empty array": np.array([]),
    "array of objects": np.array({"b": 1}, dtype=object),
    "masked": np.ma.masked,
    "masked array": np.ma.array([1, 2], mask=[False, True]),
    "Series": pd.Series([1]),
    "DataFrame": pd.DataFrame({"b": [1]}),
    "Index": pd.Index([1]),
    "NaT": pd.NaT,
    "NA": pd.NA,
    "Timestamp": pd.Timestamp("2024-01-01"),
    "datetime": datetime(2024, 1, 1),
    "datetime64": np.datetime64("2024-01-01"),
    "void": np.void(b"a"),
    "class": np.float64,
    "deque": deque([1]),
    "object": object(),
    "unreadable": Unreadable([1]),
    "elusive": Elusive(),
    "scalarlike": Scalarlike(),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_value_is_an_event_error_that_names_the_attribute(
    reader: Callable[[Any], Any], value: Any
) -> None:
    with pytest.raises(EventError, match=r"^attribute 'a'"):
        reader({"a": value})
    with pytest.raises(EventError, match=r"^attribute 'a'"):
        reader({"a": [1, [value]]})


class Odd(float):
    """A real whose own conversion fails; it is a real all the same."""

    def __float__(self) -> float:
        raise RuntimeError("gone")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(1.5), 1.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array(3), 3),
        (Odd(1.5), 1.5),
    ],
)
def test_scalars_of_numpy_and_subclasses_are_the_scalars_they_hold(value: Any, plain: Any) -> None:
    held = Event({"a": value})["a"]
    assert (held, type(held)) == (plain, type(plain))


def test_a_name_that_is_no_text_and_text_that_is_no_unicode_are_event_errors() -> None:
    table = Table({"x": "a = 1"})
    with pytest.raises(EventError, match="expected names to be text, found object"):
        table.match({object(): 1})  # type: ignore[dict-item]
    with pytest.raises(EventError, match=r"found a lone surrogate in 'x\\ud800'"):
        table.match({"a": "x\ud800"})
