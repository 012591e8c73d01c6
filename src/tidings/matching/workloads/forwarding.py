"""The workload of paper F, section 5.1: filters and events of words and small integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.language.constraint import Constraint
from tidings.language.filter import Filter, normalise
from tidings.language.predicate import Predicate
from tidings.matching.workloads.draws import (
    BLOCK,
    Interval,
    Record,
    Shares,
    Subscription,
    blocks,
    bounds_of,
    check_shares,
    describe,
    generator,
    offsets,
    ranks,
)
from tidings.matching.workloads.vocabulary import Names, vocabulary

THOUSAND_NAMES: Final = Names(count=1_000, exponent=1.0)


@dataclass(frozen=True)
class ForwardingWorkload:
    """Paper F, section 5.1: every parameter of its Table 1, with its values and distributions.

    A row of subscriptions is an interface. Its predicate is the disjunction of its filters, sorted
    but not reduced. By default it has one filter, as in the paper's centralized router, so it is a
    single subscription. `interfaces` and `messages` (the paper's word for events) say where the
    rows end if the caller does not.

    The names in an event are distinct, because an event is a set of attributes. The names in a
    filter are drawn one by one, as in the paper's table, and may repeat (`price > 10 and
    price < 20`); of constraints that imply each other only one stays, so filters are a little
    shorter than drawn. With `type_by` draw, each occurrence of a name has its own type, as in the
    paper's table; with name, the default, because columns of a table need it, a name has one type
    in all events and filters, and types are assigned so that a share `strings` of the drawn names
    is of type string. `attributes` are 1 to 18, by the table's half-open range; the paper's text
    says 1 to 19. The lab measures both readings of either.
    """

    messages: int = 100  # M
    attributes: Interval = (1, 19)  # a_l, a_h: attributes of an event, uniform
    interfaces: int = 1_000_000  # I
    filters: Interval = (1, 2)  # f_l, f_h: filters of an interface, uniform
    constraints: Interval = (1, 10)  # c_l, c_h: constraints of a filter, uniform
    attribute_names: Names = THOUSAND_NAMES  # D_a
    constraint_names: Names = THOUSAND_NAMES  # D_c
    strings: float = 0.5  # D_t: the share of strings; the others are integers
    string_operators: Shares = (  # D_os
        ("=", 0.35),
        ("prefix", 0.15),
        ("suffix", 0.15),
        ("contains", 0.15),
        ("<", 0.1),
        (">", 0.1),
    )
    int_operators: Shares = (("=", 0.6), ("<", 0.2), (">", 0.2))  # D_oi
    words: int = 1_000  # D_s: how many strings there are, uniform
    integers: Interval = (0, 100)  # D_i: uniform
    type_by: Literal["name", "draw"] = "name"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("attributes", "filters", "constraints", "integers"):
            low, high = getattr(self, name)
            if low >= high or (low < 1 and name != "integers"):
                raise ValueError(f"{name}: expected 1 <= low < high, found {(low, high)}")
        if self.attributes[1] - 1 > self.attribute_names.count:
            raise ValueError("attributes: expected at most as many as attribute_names has")
        check_shares("string_operators", self.string_operators, _ON_WORDS)
        check_shares("int_operators", self.int_operators, _ON_INTEGERS)
        if self.type_by not in ("name", "draw"):
            raise ValueError(f"type_by: expected name or draw, found {self.type_by!r}")

    def subscriptions(self, start: int = 0, stop: int | None = None) -> Iterator[Subscription]:
        size = max(1, BLOCK // (self.filters[1] - 1))
        for block, first, last in blocks(start, self.interfaces if stop is None else stop, size):
            row = block * size + first
            for predicate in self._predicates(block, size, first, last):
                yield row, predicate
                row += 1

    def events(self, start: int = 0, stop: int | None = None) -> list[Record]:
        lists = _forwarding_lists(self)
        events: list[Record] = []
        for block, first, last in blocks(start, self.messages if stop is None else stop):
            counts, numbers, values = (part[first:last] for part in self._messages(block))
            names = lists.names[numbers].tolist()
            operands = lists.operands[values].tolist()
            for count, row, drawn in zip(counts.tolist(), names, operands, strict=True):
                events.append(dict(zip(row[:count], drawn, strict=False)))
        return events

    def event_table(self, start: int = 0, stop: int | None = None) -> pa.Table:
        if self.type_by != "name":
            raise ValueError("type_by draw: attributes have several types, so there are no columns")
        stop = self.messages if stop is None else stop
        parts: list[tuple[NDArray[Any], ...]] = [(np.empty(0, np.int64),) * 3]
        row = 0
        for block, first, last in blocks(start, stop):
            counts, numbers, values = (part[first:last] for part in self._messages(block))
            present = np.arange(numbers.shape[1]) < counts[:, None]
            rows = row + np.nonzero(present)[0]
            parts.append((numbers[present], rows, values[present]))
            row += last - first
        numbers, rows, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(numbers, kind="stable")
        rows, values = rows[order], values[order]
        known = np.arange(self.attribute_names.first, self.attribute_names.stop + 1)
        spans = pairwise(np.searchsorted(numbers[order], known).tolist())
        lists = _forwarding_lists(self)
        words = pa.array(lists.operands[: self.words].tolist(), pa.string())
        columns = {}
        for number, (begin, end) in zip(known.tolist(), spans, strict=False):
            column = np.zeros(stop - start, np.int64)
            absent = np.ones(stop - start, np.bool_)
            column[rows[begin:end]] = values[begin:end]
            absent[rows[begin:end]] = False
            if lists.is_string[number]:
                columns[lists.names[number]] = words.take(pa.array(column, mask=absent))
            else:
                column += self.integers[0] - self.words
                columns[lists.names[number]] = pa.array(column, mask=absent)
        return pa.table(columns)

    def describe(self) -> str:
        return describe(self)

    def _values(
        self, source: np.random.Generator, names: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """For each name, whether its value is a string, and the number of that value."""
        by_draw = source.random(names.shape) < self.strings
        words = source.integers(0, self.words, names.shape)
        integers = source.integers(0, self.integers[1] - self.integers[0], names.shape)
        is_string = _forwarding_lists(self).is_string[names] if self.type_by == "name" else by_draw
        return is_string, np.where(is_string, words, self.words + integers)

    def _messages(self, block: int) -> tuple[NDArray[Any], ...]:
        """A block of events: how many attributes each has, and their names and values by number."""
        source = generator(self.seed, "forwarding events", block)
        counts = source.integers(*self.attributes, BLOCK)
        names = self.attribute_names.draw_distinct(source, BLOCK, self.attributes[1] - 1)
        return counts, names, self._values(source, names)[1]

    def _predicates(self, block: int, size: int, first: int, last: int) -> Iterator[Predicate]:
        """The predicates of some rows of a block."""
        source = generator(self.seed, "forwarding subscriptions", block)
        lists = _forwarding_lists(self)
        filter_offsets = offsets(source.integers(*self.filters, size))
        lengths = source.integers(*self.constraints, int(filter_offsets[-1]))
        names = self.constraint_names.draw(source, int(lengths.sum()))
        is_string, values = self._values(source, names)
        chance = source.random(names.size)
        operators = np.where(
            is_string,
            np.searchsorted(bounds_of(self.string_operators), chance, side="right"),
            np.searchsorted(bounds_of(self.int_operators), chance, side="right")
            + len(self.string_operators),
        )

        begin, end = filter_offsets[[first, last]].tolist()
        wanted = slice(*offsets(lengths)[[begin, end]].tolist())
        owners = np.repeat(np.arange(end - begin), lengths[begin:end])
        as_constraints_sort = np.lexsort(
            (
                lists.operand_rank[values[wanted]],
                is_string[wanted],
                lists.operator_rank[operators[wanted]],
                lists.name_rank[names[wanted]],
                owners,
            )
        )
        order = wanted.start + as_constraints_sort
        names = names[order]
        constraints = list(
            map(
                Constraint,
                lists.names[names].tolist(),
                lists.operators[operators[order]].tolist(),
                _TYPES[is_string[order].astype(np.int8)].tolist(),
                repeat(False),
                lists.operands[values[order]].tolist(),
            )
        )
        spans = pairwise(offsets(lengths[begin:end]).tolist())
        filters = [Filter(constraints[low:high]) for low, high in spans]
        repeated = (names[1:] == names[:-1]) & (owners[1:] == owners[:-1])
        for number in np.unique(owners[1:][repeated]).tolist():
            filters[number] = _normal(filters[number])
        if self.filters == (1, 2):
            yield from map(Predicate.of, zip(filters, strict=True))
        else:
            for low, high in pairwise((filter_offsets[first : last + 1] - begin).tolist()):
                yield Predicate.of(sorted(filters[low:high]))


_TYPES: Final = np.array(["number", "string"], dtype=object)
_ON_INTEGERS: Final = frozenset({"=", "!=", "<", "<=", ">", ">="})
_ON_WORDS: Final = _ON_INTEGERS | {"prefix", "suffix", "contains", "i=", "icontains"}


class _ForwardingLists(NamedTuple):
    """What the numbers that `ForwardingWorkload` draws stand for, and their sort order."""

    names: NDArray[Any]
    name_rank: NDArray[np.int64]
    is_string: NDArray[np.bool_]  # by name
    operators: NDArray[Any]  # those of strings, then those of integers
    operator_rank: NDArray[np.int64]
    operands: NDArray[Any]  # the words, then the integers
    operand_rank: NDArray[np.int64]


@lru_cache(maxsize=8)
def _forwarding_lists(workload: ForwardingWorkload) -> _ForwardingLists:
    names = vocabulary("names", max(workload.attribute_names.stop, workload.constraint_names.stop))
    operators = [name for name, _ in (*workload.string_operators, *workload.int_operators)]
    words = vocabulary("words", workload.words)
    integers = range(*workload.integers)
    return _ForwardingLists(
        np.array(names, dtype=object),
        ranks(names),
        _dealt(len(names), workload.strings),
        np.array(operators, dtype=object),
        ranks(operators),
        np.array([*words, *integers], dtype=object),
        np.concatenate([ranks(words), np.arange(len(integers))]),
    )


def _dealt(count: int, share: float) -> NDArray[np.bool_]:
    """Which of `count` names, by rank, are strings, so that this share of drawn names is.

    Each name goes to the side that is further behind, so frequent names do not tip the share.
    """
    dealt = np.zeros(count, np.bool_)
    strings = total = 0.0
    for rank in range(count):
        total += 1 / (rank + 1)
        dealt[rank] = strings + 0.5 / (rank + 1) <= share * total
        strings += dealt[rank] / (rank + 1)
    return dealt


def _normal(filter: Filter) -> Filter:
    normal = normalise(filter)
    assert normal is not None  # a list can satisfy any constraints that are not negated
    return normal
