"""What a Python object is worth as a value: the one rule for every path (docs/language.md, Values).

The language has four types of scalars: text, integers, reals and booleans. `scalar` says which one
an object stands for: a date stands for its ISO 8601 text, a decimal for a number, and so on.
`opened` gives the elements of lists, sets and arrays. An object that stands for no scalar is no
value: like null it adds nothing, so it can neither match nor spoil the match of another attribute.

Moments are written so that texts sort as time does. That is why the fraction of a second has no
trailing zeros, and why UTC is `+00:00` and not `Z`: `+` sorts before `.`, and `Z` after it.

Arrow columns follow the same rule in `tidings.matching.arrow_values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

Scalar = str | int | float | bool

SCALARS: Final = frozenset({str, int, float, bool})
MAX_EVENT_DEPTH: Final = 100  # records and lists within each other
MAX_DECIMAL_DIGITS: Final = 76  # of a decimal that is an integer; Arrow has no longer ones
UTC_MARK: Final = "+00:00"

_NULLS: Final = frozenset({"NAType", "NaTType"})  # of pandas
_ARRAYS: Final = frozenset("biufOUMT")  # kinds of arrays of NumPy whose elements may be values
_DATES: Final = frozenset("YMWD")  # units of NumPy that are not finer than a day


def scalar(value: Any) -> Scalar | None:
    """The scalar that an object stands for; None if it stands for none.

    >>> from datetime import UTC
    >>> scalar(datetime(2024, 2, 29, 10, 0, 0, 500_000, UTC)), scalar(Decimal("1.50"))
    ('2024-02-29T10:00:00.5+00:00', 1.5)
    >>> scalar(b"bytes") is None
    True
    """
    kind = type(value)
    if kind is str:
        return value if is_unicode(value) else None
    if kind in SCALARS:
        return value  # type: ignore[no-any-return]
    try:
        return _converted(value)
    except MemoryError:
        raise
    except Exception:  # an object that cannot be read stands for nothing
        return None


def is_null(value: Any) -> bool:
    """Whether an object is null: None, or what pandas and NumPy have for it."""
    kind = type(value).__name__
    return value is None or kind in _NULLS or (kind == "datetime64" and bool(value != value))


def is_unicode(text: str) -> bool:
    """Whether a text is a sequence of Unicode characters: it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def opened(value: Any, within: tuple[int, ...] = ()) -> Iterator[Any]:
    """The elements of a value that are not null; records are dicts, and nested lists are opened.

    `within` are the identities of the records and lists that the value lies in. What lies in itself
    or deeper than `MAX_EVENT_DEPTH` adds nothing.
    """
    if type(value) in SCALARS or isinstance(value, dict):
        yield value
    elif value is not None:
        elements = elements_of(value)
        if elements is None:
            yield value
        elif id(value) not in within and len(within) <= MAX_EVENT_DEPTH:
            inside = (*within, id(value))
            for element in elements:
                if type(element) in SCALARS:
                    yield element
                else:
                    yield from opened(element, inside)


def elements_of(value: Any) -> Sequence[Any] | None:
    """The elements of a list, a set, an array or their like; None for a single object."""
    kind = type(value)
    if kind is list or kind is tuple:
        return value  # type: ignore[no-any-return]
    try:
        if isinstance(value, list | tuple | set | frozenset):
            return list(value)
        if isinstance(value, Mapping):
            return (dict(value),)
        if isinstance(value, Enum):
            return (value.value,)
        if isinstance(value, str | int | float) or not hasattr(value, "dtype"):
            return None
        return _array(value)
    except MemoryError:
        raise
    except Exception:  # an object that cannot be read has no elements
        return ()


def _array(value: Any) -> Sequence[Any] | None:
    """The elements of an array of NumPy, pandas and their like; None for a scalar of theirs."""
    kind = getattr(value.dtype, "kind", None)
    if kind is not None and kind not in _ARRAYS:  # its `item` may give an integer all the same
        return ()
    if getattr(value, "shape", ()) == () and not hasattr(value, "mask"):
        if kind == "M" or not hasattr(value, "item"):
            return None
        item = value.item()
        return None if type(item) is type(value) else (item,)
    if kind == "M" and type(value).__module__ == "numpy":  # its `tolist` may give integers
        return list(value)
    held = value.tolist()
    return held if type(held) is list else (held,)


def _converted(value: Any) -> Scalar | None:
    """The scalar for an object of any type but the four."""
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, str):
        return scalar(str.__str__(value))
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return date(value.year, value.month, value.day).isoformat()
    if isinstance(value, time):
        return _time(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, UUID):
        return str(value)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind == "M":
        return _numpy_moment(value)
    if kind == "f":  # a long double, for which Python has no type
        return float(value)
    return None


def _moment(value: datetime) -> str | None:
    if value != value:  # NaT of pandas
        return None
    plain = datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second,
        value.microsecond,
    )  # fmt: skip
    offset = value.utcoffset()
    if offset is not None:
        plain -= offset
    text = plain.replace(microsecond=0).isoformat()
    text += _fraction(plain.microsecond, getattr(value, "nanosecond", 0))
    return text if offset is None else text + UTC_MARK


def _time(value: time) -> str | None:
    """The text of a time of day; one with a zone has no order, so it is no value."""
    if value.tzinfo is not None:
        return None
    plain = time(value.hour, value.minute, value.second)
    return plain.isoformat() + _fraction(value.microsecond, 0)


def _fraction(microsecond: int, nanosecond: int) -> str:
    return f".{microsecond:06}{nanosecond:03}".rstrip("0").rstrip(".")


def _number(value: Decimal) -> int | float:
    """An integer if the decimal is written without a fraction, else the nearest real."""
    exponent = value.as_tuple().exponent
    if isinstance(exponent, str):  # infinite, or not a number
        return float("nan") if value.is_nan() else float(value)
    if exponent >= 0 and value.adjusted() < MAX_DECIMAL_DIGITS:
        return int(value)
    return float(value)


def _numpy_moment(value: Any) -> str | None:
    """The text of a `datetime64`, a date if its unit is a day or longer."""
    name = str(value.dtype)  # for example datetime64[ns] or datetime64[25s]
    unit = name.partition("[")[2].rstrip("]").lstrip("0123456789")
    wanted = "D" if unit in _DATES else "s" if unit in {"h", "m"} else unit
    exact = value.astype(f"datetime64[{wanted}]")
    text = str(exact)
    if exact.astype(value.dtype) != value or not is_dated(text):  # too large for the unit, or NaT
        return None
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_dated(text: str) -> bool:
    """Whether a text begins with a date of the years 1 to 9999, as Python knows them."""
    return text[4:5] == "-" and text[:4].isdecimal() and text[:4] != "0000"
