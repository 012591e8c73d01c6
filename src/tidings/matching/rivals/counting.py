"""The counting algorithm of Carzaniga and Wolf (paper F), as a matcher.

Paper F is "Forwarding in a Content-Based Network". Its algorithm was the best known one before
`Table`; it is built here as the paper describes it and compiled like `Table`, so that the two can
be compared. Equal constraints are stored once (section 4.1). An index by attribute, type and
operator (4.2) leads from an event's values to the constraints that they satisfy, and from these to
their filters. When all constraints of a filter have been met, its subscription matches, and the
search skips the subscription's other filters. With `rounds`, it first excludes subscriptions that
need an attribute which the event lacks (4.3). The compiled part is `counting_kernels`.

`match(event, broadcast)` on a table is `selectivity_CBF(m, B, T)` of figure 7: it ignores the
interfaces outside the broadcast from the start. The figure as printed has two slips: it takes the
excluded interfaces away from those to ignore instead of adding them, and it counts a filter if its
interface is to be ignored, not if it is not. The text of section 4.3 has both right.

The figure keeps `map<filter, int> counters`. By default `Counting` counts in a flat array, which is
faster; with `counters="map"` or `"hash"` it counts in an ordered or a hashed map. Names of
attributes are looked up in a dict, where the paper has a ternary search trie; the constants of
strings are in such a trie. An attribute excludes by its name alone, not by name and type, which
section 4.3 leaves open.

Beyond the paper, the index also holds `<=`, `>=`, `!=`, `exists` and the types int and real. Any
other constraint (`between`, `in`, `like`, `matches`, one that ignores case or is negated, a test of
another dialect) is evaluated in Python once per event and counted like the rest. A predicate
without a normal form is evaluated as a whole; a predicate with an empty filter always matches. As
in the paper, a change rebuilds the whole table, here at the next match. Use it from one thread at a
time.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.language.constraint import INT_MAX, INT_MIN, Check, Constraint, check
from tidings.language.errors import NormalFormError
from tidings.language.event import Event, read
from tidings.language.predicate import Predicate
from tidings.language.values import SCALARS
from tidings.matching.contract import (
    Batch,
    EventLike,
    Id,
    Stats,
    bytes_of,
    check_id,
    duplicate,
    match_rows,
    stats_of,
    unknown,
)
from tidings.matching.rivals import counting_kernels as ck

TYPES: Final = {
    "string": ck.TEXT,
    "int": ck.INTEGER,
    "real": ck.REAL,
    "bool": ck.BOOLEAN,
    "number": ck.NUMBER,
    "any": ck.ANY,
}
COMPARISONS: Final = {
    "=": ck.EQUAL,
    "!=": ck.UNEQUAL,
    "<": ck.LESS,
    "<=": ck.LESS_EQUAL,
    ">": ck.GREATER,
    ">=": ck.GREATER_EQUAL,
}
Counters = Literal["array", "map", "hash"]  # flat; like std::map; like std::unordered_map
KINDS: Final[dict[Counters, int]] = {"array": ck.ARRAY, "map": ck.TREE, "hash": ck.HASH}
PARTS: Final = {"prefix": ck.PREFIX, "suffix": ck.SUFFIX, "contains": ck.CONTAINS}
OPERATORS: Final = COMPARISONS | PARTS
# Bound on the rest of a number beyond its double; 64-bit constants never leave as much.
MAX_REST: Final = 1024
PLAIN: Final = frozenset({*SCALARS, type(None)})

Array = NDArray[Any]
Residual = tuple[int, Check]  # a constraint's number, and the function that evaluates it


class Others(NamedTuple):
    """Constraints that the index does not hold, by attribute."""

    plain: dict[str, list[Residual]]  # can hold only if the attribute is present
    negated: dict[str, list[Residual]]  # hold if it is absent
    whole: list[Residual]  # test the whole event


class Index(NamedTuple):
    """The left side: which constraints does a value satisfy?"""

    slots_of: Array  # [attribute, type]: the slot, or -1
    slots: Array  # the struct Slot of the kernels
    starts: Array  # [row, operator]: the first constraint of the slot at this row or after it
    nodes: Array  # the struct Node: the tries of all slots
    high: Array  # by row of numbers: the constant is exactly high + low
    low: Array


class Network(NamedTuple):
    """The right side: constraints to filters to interfaces."""

    begin: Array  # by constraint: where its filters begin; one more ends the last
    filters: Array  # those of each constraint, in order
    owner: Array  # by filter: its interface
    sizes: Array  # by filter: how many constraints it has


class Selectivity(NamedTuple):
    """The first rows of the selectivity table."""

    attributes: Array  # the determinants, those that exclude most first
    excludes: Array  # [determinant, word]: a bit for each interface that needs it


class State(NamedTuple):
    """What a match writes. It resets `counters` and `ignored` at its end; the rest has stamps."""

    counters: Array  # by filter: constraints still missing; unused if a map counts
    ignored: Array  # a bit for each interface: excluded, or matched already
    seen: Array  # by constraint: the last event that found it, if it could be found again
    present: Array  # by attribute: the last event that had it
    found: Array  # the struct Run: the constraints satisfied
    matched: Array  # interfaces
    progress: Array


class Filters(NamedTuple):
    """Filters as numbers of constraints."""

    constraints: Array  # those of each filter, one filter after the other
    ends: Array  # by filter: where its constraints end
    owner: Array  # by filter: its interface


class CountingTable(NamedTuple):
    """Subscriptions compiled for matching."""

    left: Index
    right: Network
    selectivity: Selectivity
    state: State
    names: dict[str, int]  # the number of each attribute
    others: Others
    interfaces: list[Id]
    always: list[Id]  # satisfied by every event
    unbounded: list[tuple[Id, Predicate]]  # without normal form
    listed: Filters  # the right side from its other end; matching does not need it
    attributes: Array  # by constraint: its attribute, or -1 if it can hold without it

    def search(self, counters: Counters) -> ck.Search:
        """The compiled search over these arrays."""
        parts = (self.left, self.right, self.selectivity, self.state)
        return ck.Search(*parts, self.names, self.interfaces, split, KINDS[counters])

    @property
    def bytes(self) -> int:
        """The size of the arrays and of the Python objects beside them."""
        parts = (self.left, self.right, self.selectivity, self.state)
        held = (self.names, self.others, self.interfaces, self.always)
        return sum(a.nbytes for part in parts for a in part) + bytes_of(*held)


class Counting:
    """Subscriptions under the counting algorithm of paper F.

    >>> from tidings import parse
    >>> counting = Counting([("loud", parse("severity > 2")), ("web", parse("host prefix 'web-'"))])
    >>> counting.match({"severity": 3, "host": "db-1"})
    ['loud']
    """

    def __init__(
        self,
        subscriptions: Iterable[tuple[Id, Predicate]] = (),
        rounds: int = 0,
        counters: Counters = "array",
    ) -> None:
        if rounds < 0:
            raise ValueError(f"expected 0 or more rounds, found {rounds}")
        if counters not in KINDS:
            raise ValueError(f"expected counters {', '.join(KINDS)}, found {counters!r}")
        self.rounds = rounds
        self.counters: Counters = counters
        self.subscriptions: dict[Id, Predicate] = {}
        self._table: CountingTable | None = None
        self._search: ck.Search | None = None
        for id, predicate in subscriptions:
            self.add(id, predicate)

    def add(self, id: Id, predicate: Predicate) -> None:
        check_id(id)
        if id in self.subscriptions:
            raise duplicate(id)
        self.subscriptions[id] = predicate
        self._table = None

    def remove(self, id: Id) -> None:
        if id not in self.subscriptions:
            raise unknown(id)
        del self.subscriptions[id]
        self._table = None

    def match(self, event: EventLike, broadcast: Collection[Id] | None = None) -> list[Id]:
        """The subscriptions that the event satisfies, among those in `broadcast`."""
        attributes = event if type(event) is dict else read(event)
        table = self.table
        if broadcast is None:
            ids = self._found(table, attributes)
            ids.extend(table.always)
            others = table.unbounded
        else:
            allowed = set(broadcast)
            outside = [n for n, id in enumerate(table.interfaces) if id not in allowed]
            ids = self._found(table, attributes, outside)
            ids.extend(id for id in table.always if id in allowed)
            others = [pair for pair in table.unbounded if pair[0] in allowed]
        if others:
            ids.extend(id for id, predicate in others if predicate.matches(attributes))
        return ids

    def match_batch(self, batch: Batch, json: str | None = None) -> pa.Table:
        return match_rows(self.match, self.subscriptions, batch, json)

    def stats(self) -> Stats:
        return stats_of(self.subscriptions.values(), self.table.bytes)

    def variant(self, rounds: int, counters: Counters = "array") -> Counting:
        """The same subscriptions with at most as many rounds; both matchers share the index."""
        if not 0 <= rounds <= self.rounds:
            raise ValueError(f"expected at most the {self.rounds} rounds built, found {rounds}")
        other = Counting(rounds=rounds, counters=counters)
        other.subscriptions = self.subscriptions
        table = self.table
        rows = Selectivity(*(column[:rounds] for column in table.selectivity))
        other._table = table._replace(selectivity=rows)
        return other

    def join(self, interfaces: Mapping[Any, Sequence[Id]], rounds: int = 0) -> Counting:
        """The same filters behind fewer interfaces, each the disjunction of some subscriptions.

        Every subscription belongs to one interface. Both matchers share the index.
        """
        table = self.table
        if table.always or table.unbounded:
            raise ValueError("expected subscriptions that all have filters with constraints")
        places = {id: place for place, id in enumerate(table.interfaces)}
        owner = np.full(len(places), -1, np.int32)
        joined = Counting(rounds=rounds)
        for number, (interface, members) in enumerate(interfaces.items()):
            owner[[places[id] for id in members]] = number
            # Neither sorted nor reduced, which would take longer than all the rest.
            filters = (f for id in members for f in self.subscriptions[id].filters)
            joined.subscriptions[interface] = Predicate.of(filters)
        if (owner < 0).any() or sum(map(len, interfaces.values())) != len(places):
            raise ValueError("expected every subscription behind one interface")
        listed = table.listed._replace(owner=owner[table.listed.owner])
        right = table.right._replace(owner=listed.owner)
        known, names = table.attributes, len(table.names)
        joined._table = table._replace(
            right=right,
            selectivity=_build_selectivity(listed, known, names, len(interfaces), rounds),
            state=_new_state(right, known.size, names, len(interfaces)),
            interfaces=list(interfaces),
            listed=listed,
        )
        return joined

    def excluded(self, event: EventLike) -> int:
        """How many subscriptions the rounds of the selectivity table exclude for an event."""
        table = self.table
        self._found(table, read(event))
        return int(table.state.progress[ck.EXCLUDED])

    @property
    def table(self) -> CountingTable:
        """The subscriptions as arrays, rebuilt if they have changed."""
        if self._table is None:
            self._table = build(self.subscriptions, self.rounds)
            self._search = None
        return self._table

    def _found(
        self, table: CountingTable, event: Mapping[str, Any], outside: Sequence[int] = ()
    ) -> list[Id]:
        """The ids that the search finds, none of those `outside`; the table's state says how."""
        if self._search is None:
            self._search = table.search(self.counters)
        others: Sequence[int] = ()
        if any(table.others):
            if type(event) is not Event and not PLAIN.issuperset(map(type, event.values())):
                event = Event(event)  # it has lists or records
            others = _satisfied(table.others, event)
        return self._search.match(event, others, outside)

    def __repr__(self) -> str:
        count = len(self.subscriptions)
        return f"Counting({count} subscriptions, rounds={self.rounds}, counters={self.counters!r})"


# Matching


def split(number: int | float) -> tuple[float, int]:
    """A double and a rest whose sum is the number.

    Rounding keeps order, so numbers compare as their pairs do. Beyond 64 bits, where all constants
    are doubles, the rest is bounded and only tells on which side of the double the number lies.

    >>> split(2**53 + 1)
    (9007199254740992.0, 1)
    """
    try:
        nearest = float(number)
    except OverflowError:
        return (sys.float_info.max, 1) if number > 0 else (-sys.float_info.max, -1)
    if isinstance(number, float):
        return nearest, 0
    return nearest, max(-MAX_REST, min(number - int(nearest), MAX_REST))


def _satisfied(others: Others, event: Mapping[str, Any]) -> list[int]:
    """The constraints outside the index that an event satisfies."""
    numbers: list[int] = []
    if others.plain:
        for name in event:
            numbers += (n for n, holds in others.plain.get(name, ()) if holds(event))
    for name, residuals in others.negated.items():
        absent = event.get(name) is None
        numbers += (n for n, holds in residuals if absent or holds(event))
    numbers += (n for n, holds in others.whole if holds(event))
    return numbers


# Building


class Slot(NamedTuple):
    """The constraints of the index on one attribute and type, by their interned numbers."""

    members: list[tuple[int, int, Any]]  # number, operator, constant
    exists: list[int]  # the constraint `exists`, if there is one


Slots = dict[tuple[int, int], Slot]  # by attribute and type


def build(subscriptions: Mapping[Id, Predicate], rounds: int) -> CountingTable:
    """Build the table of some subscriptions."""
    interned: defaultdict[Constraint, int] = defaultdict()
    interned.default_factory = interned.__len__
    interfaces: list[Id] = []
    always: list[Id] = []
    unbounded: list[tuple[Id, Predicate]] = []
    constraints, ends, owner = array("i"), array("i"), array("i")
    for id, predicate in subscriptions.items():
        try:
            filters = predicate.filters
        except NormalFormError:
            unbounded.append((id, predicate))
            continue
        if not all(filters):
            always.append(id)
        elif filters:
            for filter in filters:
                constraints.extend(map(interned.__getitem__, filter))
                ends.append(len(constraints))
                owner.append(len(interfaces))
            interfaces.append(id)
    interned.default_factory = None  # a reference cycle, which would keep the dict alive

    names: dict[str, int] = {}
    attributes = np.empty(len(interned), np.int32)  # -1: can hold if it is absent
    slots: Slots = {}
    beside: list[tuple[int, Constraint]] = []
    for constraint, number in interned.items():
        attribute = names.setdefault(constraint.name, len(names))
        needed = not constraint.negated and constraint.operator != "holds"
        attributes[number] = attribute if needed else -1
        if not _file(constraint, number, attribute, slots):
            beside.append((number, constraint))

    index, renumber = _build_index(slots, beside, len(names))
    attributes[renumber] = attributes.copy()
    others = Others({}, {}, [])
    for number, constraint in beside:
        residual = (int(renumber[number]), check(constraint))
        if constraint.operator == "holds":
            others.whole.append(residual)
            continue
        group = others.negated if constraint.negated else others.plain
        group.setdefault(constraint.name, []).append(residual)
    listed = Filters(
        renumber[np.array(constraints, np.int32)],
        np.array(ends, np.int32),
        np.array(owner, np.int32),
    )
    network = _build_network(listed, len(interned))
    return CountingTable(
        index,
        network,
        _build_selectivity(listed, attributes, len(names), len(interfaces), rounds),
        _new_state(network, len(interned), len(names), len(interfaces)),
        names,
        others,
        interfaces,
        always,
        unbounded,
        listed,
        attributes,
    )


def _file(constraint: Constraint, number: int, attribute: int, slots: Slots) -> bool:
    """Put a constraint into its slot; returns whether the index can hold it."""
    _, operator, type_, negated, operand = constraint
    if negated:
        return False
    exists = operator == "exists"
    if not exists:
        if operator not in (OPERATORS if type_ == "string" else COMPARISONS):
            return False
        if operand == "" and operator in PARTS:
            return False
        if type_ != "string" and not _in_range(operand):
            return False
    key = (attribute, TYPES[type_])
    slot = slots.get(key)
    if slot is None:
        slot = slots[key] = Slot([], [])
    if exists:
        slot.exists.append(number)
    else:
        slot.members.append((number, OPERATORS[operator], operand))
    return True


def _in_range(operand: Any) -> bool:
    """Whether a constant is a double or a 64-bit integer."""
    return operand == operand if type(operand) is float else bool(INT_MIN <= operand <= INT_MAX)


def _build_index(
    slots: Slots, beside: Sequence[tuple[int, Constraint]], attributes: int
) -> tuple[Index, Array]:
    """The left side, and the new number of each constraint."""
    slots_of = np.full((attributes, ck.TYPES), -1, np.int32)
    places = np.empty(len(slots), ck.SLOT)
    rows, operators, numbers = array("i"), array("i"), array("i")
    high, low = array("d"), array("h")
    texts: list[bytes] = []
    row = 0
    # Slots of numbers come first, so the arrays of numbers need no rows for texts.
    ordered = sorted(slots, key=lambda key: key[1] == ck.TEXT)
    for place, (attribute, type_) in enumerate(ordered):
        members = slots[attribute, type_].members
        constants = sorted({constant for _, _, constant in members})
        row_of = dict(zip(constants, range(row, row + len(constants)), strict=True))
        for number, operator, constant in members:
            numbers.append(number)
            operators.append(operator)
            rows.append(row_of[constant])
        slots_of[attribute, type_] = place
        places[place] = (row, row + len(constants), -1, -1, 0)
        row += len(constants) + 1
        if type_ == ck.TEXT:
            texts.extend(text.encode("utf-8", "surrogatepass") for text in constants)
            texts.append(b"")
        else:
            for first, rest in map(split, [*constants, 0]):
                high.append(first)
                low.append(rest)

    starts = np.zeros((row, ck.OPERATORS), np.int32)
    starts[rows, operators] = 1  # equal constraints are stored once
    used = ck.number_constraints(places, starts)
    renumber = np.empty(used + sum(len(s.exists) for s in slots.values()) + len(beside), np.int32)
    renumber[numbers] = starts[rows, operators]
    for place, key in enumerate(ordered):
        for number in slots[key].exists:
            places["exists"][place] = renumber[number] = used
            used += 1
    for number, _ in beside:
        renumber[number] = used
        used += 1
    nodes = _build_tries(places[len(ordered) - _texts(ordered) :], texts, starts)
    return Index(
        slots_of, places, starts, nodes, np.array(high, np.float64), np.array(low, np.int16)
    ), renumber


def _texts(keys: Iterable[tuple[int, int]]) -> int:
    """How many slots hold texts."""
    return sum(type_ == ck.TEXT for _, type_ in keys)


def _build_tries(slots: Array, texts: list[bytes], starts: Array) -> Array:
    """The nodes of the tries, for the slots that hold texts."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    offsets = np.zeros(starts.shape[0] + 1, np.int64)
    np.cumsum(lengths, out=offsets[offsets.size - lengths.size :])
    raw = np.frombuffer(b"".join(texts), np.uint8)
    nodes = np.empty(ck.count_nodes(slots, offsets, raw), ck.NODE)
    ck.build_tries(slots, offsets, raw, starts, nodes, int(lengths.max(initial=1)))
    return nodes


def _build_network(listed: Filters, constraints: int) -> Network:
    """The right side."""
    begin = np.zeros(constraints + 1, np.int32)
    sizes = np.zeros(listed.ends.size, np.int32)
    ck.count_links(listed.constraints, listed.ends, begin, sizes)
    np.cumsum(begin, out=begin)
    filters = np.empty(begin[-1], np.int32)
    ck.link_filters(listed.constraints, listed.ends, begin, filters)
    narrow = np.uint8 if sizes.max(initial=1) < 256 else np.uint32
    return Network(begin, filters, listed.owner, sizes.astype(narrow))


def _build_selectivity(
    listed: Filters, attributes: Array, names: int, interfaces: int, rounds: int
) -> Selectivity:
    """The first rows of the selectivity table, one for each round."""
    counts = np.zeros((1, names), np.int64)
    words = (interfaces + 63) // 64
    if not rounds:
        return Selectivity(np.empty(0, np.int32), np.empty((0, words), np.int64))
    listed = _by_owner(listed)
    chosen = np.full(names, -1, np.int32)
    ck.find_determinants(*listed, attributes, chosen, counts)
    order = np.argsort(-counts[0], kind="stable")[:rounds].astype(np.int32)
    order = order[counts[0, order] > 0]
    chosen[:] = -2
    chosen[order] = np.arange(order.size)
    excludes = np.zeros((order.size, words), np.int64)
    ck.find_determinants(*listed, attributes, chosen, excludes)
    return Selectivity(order, excludes)


def _by_owner(listed: Filters) -> Filters:
    """The same filters, those of each interface consecutive."""
    if (listed.owner[1:] >= listed.owner[:-1]).all():
        return listed
    order = np.argsort(listed.owner, kind="stable")
    sizes = np.diff(listed.ends, prepend=np.int32(0))[order]
    ends = np.cumsum(sizes, dtype=np.int32)
    # Each constraint moves as far as its filter does.
    places = np.arange(listed.constraints.size) + np.repeat(listed.ends[order] - ends, sizes)
    return Filters(listed.constraints[places], ends, listed.owner[order])


def _new_state(network: Network, constraints: int, names: int, interfaces: int) -> State:
    """The state before the first match."""
    return State(
        counters=network.sizes.copy(),
        ignored=np.zeros((interfaces + 63) // 64, np.int64),
        seen=np.zeros(constraints, np.int32),
        present=np.zeros(names, np.int32),
        found=np.empty(constraints, ck.RUN),
        matched=np.empty(interfaces, np.int32),
        progress=np.zeros(ck.PROGRESS, np.int64),
    )
