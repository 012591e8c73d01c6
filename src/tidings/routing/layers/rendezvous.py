"""Rendezvous functions (L3): which key an event has, and at which keys a subscription must lie.

The law of every row of `RENDEZVOUS`: if an event matches a predicate, one of the event's keys is
among the keys of the predicate. Keys of values are 0 … X - 1; two more stand for no value:

- `absent(X)` for an event in which the attribute is absent or has no value that could be a key;
- `wide(X)` for subscriptions that would have to lie at more keys than `most`: every event is asked
  about there as well.

Paper L wants one key for a subscription and the attribute "present in every message". Here
attributes are sets of values and may be absent. So an event has a key for each value; and the keys
of a filter come from *one* constraint that a value must meet, never from the intersection of two,
because two values may meet them: `x > 3 and x < 1` matches `{"x": [0, 5]}`. A filter that tests the
attribute only negated, or not at all, matches whatever its value is and needs all keys.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from math import isfinite, isnan
from typing import Any, Final, NamedTuple, Protocol

from tidings.language.constraint import Constraint
from tidings.language.errors import NormalFormError
from tidings.language.event import lookup
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate
from tidings.language.sets import surely_empty
from tidings.language.values import Scalar

MOST_PLACES: Final = 8  # keys at which a subscription may lie, before it counts as wide
MOST_CUTS: Final = 4_096

Keys = frozenset[int]


class RendezvousError(ValueError):
    """A rendezvous function that cannot be read, or that answers what it must not."""


class Rendezvous(Protocol):
    """A pair of functions that let events and subscriptions meet; X is the number of regions."""

    def event(self, event: Mapping[str, Any], regions: int, /) -> Keys:
        """The keys of an event: one at least."""

    def places(self, predicate: Predicate, regions: int, /) -> Keys | None:
        """The keys that an event may have which matches the predicate; None for any key at all."""


def absent(regions: int) -> int:
    """The key of events without a value to make a key of."""
    return regions


def wide(regions: int) -> int:
    """The key at which wide subscriptions lie."""
    return regions + 1


def placed(rendezvous: Rendezvous, predicate: Predicate, regions: int, most: int) -> Keys:
    """Where a subscription lies: at each of its keys, or at `wide` if they are more than `most`."""
    found = _sound(rendezvous.places(predicate, regions), regions)
    if found is None:
        found = frozenset(range(regions + 1))
    return found if len(found) <= most else frozenset((wide(regions),))


def keys_of(rendezvous: Rendezvous, event: Mapping[str, Any], regions: int) -> Keys:
    """The keys of an event, without `wide`."""
    found = _sound(rendezvous.event(event, regions), regions)
    if not found:
        raise RendezvousError("an event: expected at least one key, found none")
    return found


def _sound(keys: Iterable[int] | None, regions: int) -> Keys | None:
    if keys is None:
        return None
    found = frozenset(keys)
    for key in found:
        if type(key) is not int or not 0 <= key <= regions:
            raise RendezvousError(f"expected keys from 0 to {regions}, found {key!r}")
    return found


class One:
    """Every event and every subscription has the same key: for applications without one.

    >>> One().event({"severity": 3}, 4), One().places(Predicate.of(()), 4)
    (frozenset({0}), frozenset({0}))
    """

    def event(self, event: Mapping[str, Any], regions: int, /) -> Keys:
        return frozenset((0,))

    def places(self, predicate: Predicate, regions: int, /) -> Keys | None:
        return frozenset((0,))


class ByHash:
    """A key for each value of an attribute, by hash: for `=` and `in`; others need all keys.

    >>> by_topic = ByHash("topic")
    >>> by_topic.event({"topic": 3}, 5) == by_topic.event({"topic": 3.0}, 5)
    True
    >>> by_topic.event({}, 5)
    frozenset({5})
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def event(self, event: Mapping[str, Any], regions: int, /) -> Keys:
        values = lookup(event, self.name)
        if not values:
            return frozenset((absent(regions),))
        return frozenset(self._key(value, regions) for value in values)

    def places(self, predicate: Predicate, regions: int, /) -> Keys | None:
        return _of_filters(predicate, self.name, lambda c: self._of(c, regions))

    def _of(self, constraint: Constraint, regions: int) -> Keys | None:
        operand: Any = constraint.operand
        if constraint.operator == "=":
            return frozenset((self._key(operand, regions),))
        if constraint.operator == "in":
            return frozenset(self._key(value, regions) for value in operand)
        return None

    @staticmethod
    def _key(value: Scalar, regions: int) -> int:
        written = _canonical(value)
        return absent(regions) if written is None else _hash(written) % regions


@lru_cache(1 << 14)
def _hash(text: str) -> int:
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"rendezvous").digest()
    )


def _canonical(value: Scalar) -> str | None:
    """A text that values share exactly when `=` finds them equal; None where `=` never holds."""
    if isinstance(value, str):
        return f"text {value}"
    if isinstance(value, bool):
        return f"truth {value}"
    if isinstance(value, float):
        if isnan(value):
            return None
        if isfinite(value) and value == int(value):
            return f"number {int(value)}"
    return f"number {value!r}"


class ByRange:
    """A key for each run of the values of an attribute, between given cuts.

    Values of another kind than the cuts, and NaN, have the key of events without the attribute.

    >>> by_price = ByRange("price", (10, 20, 30))
    >>> [min(by_price.event({"price": price}, 2)) for price in (5, 10, 20, 30.5)]
    [0, 0, 1, 1]
    >>> from tidings.language.predicate import parse
    >>> sorted(by_price.places(parse("price > 25"), 4))
    [2, 3]
    """

    def __init__(self, name: str, cuts: Iterable[int | float | str]) -> None:
        self.name = name
        self.cuts = tuple(cuts)
        kinds = {isinstance(cut, str) for cut in self.cuts}
        if not self.cuts or len(self.cuts) > MOST_CUTS or len(kinds) > 1:
            raise RendezvousError(
                f"range: expected 1 to {MOST_CUTS} cuts, all numbers or all texts, "
                f"found {len(self.cuts)}"
            )
        if not all(isinstance(cut, str) or _is_finite(cut) for cut in self.cuts):
            raise RendezvousError("range: expected finite cuts, none larger than a real can be")
        if any(one >= other for one, other in zip(self.cuts, self.cuts[1:], strict=False)):  # type: ignore[operator]
            raise RendezvousError("range: expected cuts that grow, each larger than the one before")
        self._is_text = kinds == {True}

    def event(self, event: Mapping[str, Any], regions: int, /) -> Keys:
        values = lookup(event, self.name)
        found = {self._key(value, regions) for value in values if self._fits(value)}
        if not values or not all(map(self._fits, values)):
            found.add(absent(regions))
        return frozenset(found)

    def places(self, predicate: Predicate, regions: int, /) -> Keys | None:
        return _of_filters(predicate, self.name, lambda c: self._of(c, regions))

    def _fits(self, value: Scalar) -> bool:
        if isinstance(value, str) or self._is_text:
            return isinstance(value, str) and self._is_text
        return not isinstance(value, bool) and value == value

    def _key(self, value: Any, regions: int) -> int:
        return bisect_right(self.cuts, value) * regions // (len(self.cuts) + 1)

    def _of(self, constraint: Constraint, regions: int) -> Keys | None:
        kind = "string" if self._is_text else "number"
        found = set()
        # An accepting constraint may be met by a value that is no key: then by that of the absent.
        if constraint.type not in (("string",) if self._is_text else ("number", "int", "real")):
            found.add(absent(regions))
        for key, low, high in self._runs(regions):
            bounds = []
            if low is not None:
                bounds.append(Constraint(self.name, ">=", kind, False, low))
            if high is not None:
                bounds.append(Constraint(self.name, "<", kind, False, high))
            if not surely_empty((constraint, *bounds), ()):
                found.add(key)
        return frozenset(found)

    def _runs(self, regions: int) -> list[tuple[int, Any, Any]]:
        """The keys that values have, each with its first value and the first beyond it."""
        buckets = len(self.cuts) + 1
        found: list[tuple[int, Any, Any]] = []
        for bucket in range(buckets):
            key = bucket * regions // buckets
            low = self.cuts[bucket - 1] if bucket else None
            high = self.cuts[bucket] if bucket < len(self.cuts) else None
            if found and found[-1][0] == key:
                found[-1] = (key, found[-1][1], high)
            else:
                found.append((key, low, high))
        return found


def _is_finite(number: int | float) -> bool:
    """Whether the algebra can compare with a number: it is not infinite, nor as large as that."""
    try:
        return isfinite(number)
    except OverflowError:
        return False


def cuts_of(values: Iterable[Scalar], most: int = 63) -> tuple[int | float | str, ...]:
    """Cuts that divide a sample of an attribute's values into runs of about equal size.

    >>> cuts_of([1, 2, 3, 4, 5, 6, 7, 8], most=3)
    (3, 5, 7)
    """
    values = list(values)
    texts: list[Any] = sorted(value for value in values if isinstance(value, str))
    numbers: list[Any] = sorted(
        value
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    )
    sample = texts if len(texts) > len(numbers) else numbers
    cuts = [sample[len(sample) * place // (most + 1)] for place in range(1, most + 1) if sample]
    return tuple(dict.fromkeys(cuts))


def _of_filters(
    predicate: Predicate, name: str, places: Callable[[Constraint], Keys | None]
) -> Keys | None:
    """The keys of all filters together, each by the one constraint that needs the fewest."""
    try:
        filters = predicate.filters
    except NormalFormError:
        return None
    found: set[int] = set()
    for filter in filters:
        fewest = _of_filter(filter, name, places)
        if fewest is None:
            return None
        found |= fewest
    return frozenset(found)


def _of_filter(
    filter: Filter, name: str, places: Callable[[Constraint], Keys | None]
) -> Keys | None:
    met = [places(c) for c in filter if c.name == name and not c.negated and c.operator != "holds"]
    return min((keys for keys in met if keys is not None), key=len, default=None)


# The rows


def _one(rest: str) -> Rendezvous:
    if rest:
        raise RendezvousError(f"one: expected nothing behind it, found {rest!r}")
    return One()


def _by_hash(rest: str) -> Rendezvous:
    if not rest:
        raise RendezvousError("hash: expected the name of an attribute, such as hash:topic")
    return ByHash(rest)


def _by_range(rest: str) -> Rendezvous:
    name, _, written = rest.partition(":")
    if not name or not written:
        raise RendezvousError(
            f"range: expected an attribute and cuts, such as range:price:10,20,30, found {rest!r}"
        )
    return ByRange(name, map(_cut, written.replace("|", ",").split(",")))


def _cut(text: str) -> int | float | str:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text.strip()


def _by_call(rest: str) -> Rendezvous:
    module, _, name = rest.partition(":")
    if not module or not name:
        raise RendezvousError(f"call: expected module:object, found {rest!r}")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RendezvousError(f"call:{rest}: {error}") from None
    if isinstance(found, type):
        found = found()
    for verb in ("event", "places"):
        if not callable(getattr(found, verb, None)):
            raise RendezvousError(f"call:{rest}: expected a function {verb}, found none")
    return Called(found)


class Called:
    """A user's own functions. Where they fail, or answer what is no key, nothing is lost: the event
    is asked about under every key, and the subscription lies at every key. `failures` counts that.

    No key at all is an answer only for a predicate that nothing matches: what lies nowhere is never
    found, not even by audits.
    """

    def __init__(self, functions: Rendezvous) -> None:
        self._functions = functions
        self.failures = 0

    def event(self, event: Mapping[str, Any], regions: int, /) -> Keys:
        try:
            found = _sound(self._functions.event(event, regions), regions)
        except Exception:
            found = None
        if not found:
            self.failures += 1
            return frozenset(range(regions + 1))
        return found

    def places(self, predicate: Predicate, regions: int, /) -> Keys | None:
        try:
            found = _sound(self._functions.places(predicate, regions), regions)
            if found is None or found or not _may_match(predicate):
                return found
        except Exception:
            pass
        self.failures += 1
        return None


def _may_match(predicate: Predicate) -> bool:
    """Whether some event may match a predicate, as far as its normal form tells."""
    try:
        return bool(predicate.filters)
    except NormalFormError:
        return True


class Kind(NamedTuple):
    """A kind of rendezvous function: how to make one of the text behind the colon."""

    make: Callable[[str], Rendezvous]
    idea: str


RENDEZVOUS: Final[dict[str, Kind]] = {
    "one": Kind(_one, "everything has the same key"),
    "hash": Kind(_by_hash, "hash:topic, the values of an attribute by hash"),
    "range": Kind(_by_range, "range:price:10,20, the values of an attribute between cuts"),
    "type": Kind(lambda rest: _by_hash(rest or "class"), "type, the attribute class by hash"),
    "call": Kind(_by_call, "call:module:object, your own functions event and places"),
}


def rendezvous_of(text: str) -> Rendezvous:
    """The rendezvous function that a text names.

    >>> rendezvous_of("hash:topic").event({"topic": "a"}, 1)
    frozenset({0})
    """
    kind, _, rest = text.partition(":")
    row = RENDEZVOUS.get(kind)
    if row is None:
        known = ", ".join(RENDEZVOUS)
        raise RendezvousError(f"rendezvous: expected one of {known}, found {kind!r}")
    return row.make(rest)
