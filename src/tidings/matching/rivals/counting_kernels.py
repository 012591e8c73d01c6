"""Kernels of `counting`: the forwarding table of paper F as arrays, and its algorithms.

Constraints are numbered so that those of one slot (an attribute and a type) and one operator are
consecutive, in the order of their constants. The constraints that a value satisfies are then a few
runs of numbers: the paper's less-than chain is the run from the value's place to the end of that
operator, and jumping onto the chain means reading where the run begins. `find_constraints` is the
left side (sections 4.1 and 4.2) and writes such runs; `count_filters` is the right side (figure 4)
and reads them; `exclude_interfaces` is the selectivity table (section 4.3, figure 7). An interface
is a subscription.

A row is a constant of a slot; one more row after the last of each slot only ends the runs. All of
this is in one file because Numba's cache notices changes only in a kernel's own file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])

# Columns of `starts`: the operators of the paper and similar ones. Those of texts are last.
EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, PREFIX, SUFFIX, CONTAINS = range(9)
OPERATORS = 9

# Types of values, and columns of `slots_of`; the last three are for constraints only.
TEXT, INTEGER, REAL, BOOLEAN, NUMBER, ANY = range(6)
TYPES = 6

# Columns of `slots`: rows from BEGIN to before END, END being the row that ends the runs; the root
# of the trie; the constraint `exists`; whether the first row is the empty text.
BEGIN, END, ROOT, EXISTS, EMPTY = range(5)
SLOT_COLUMNS = 5

# Columns of `nodes`: the byte; the nodes for a lower byte, for the next one and for a higher one;
# the row whose text ends here, or -1; the operators at that row that the scan of substrings needs,
# as bits; the rows whose texts go through this node. With 8 columns, a node lies in one cache line.
BYTE, LOWER, NEXT, HIGHER, ROW, PARTIAL, FIRST, LAST = range(8)
NODE_COLUMNS = 8
HAS_PREFIX, HAS_SUFFIX, HAS_CONTAINS = 1, 2, 4

# Columns of the entries of an event: for a text, LOW and STOP are where its bytes begin and end;
# for a number, LOW is what `numbers` leaves over.
ATTRIBUTE, TYPE, SEVERAL, LOW, STOP = range(5)
ENTRY_COLUMNS = 5

# What `progress` holds.
EPOCH, FOUND, MATCHED, IGNORED, EXCLUDED = range(5)
PROGRESS = 5

FEW = 8  # if fewer than one in this many filters were touched, reset them one by one


class Index(NamedTuple):
    """The left side: which constraints does a value satisfy?"""

    slots_of: Array  # [attribute, type]: the slot, or -1
    slots: Array  # [slot, …]: see above
    starts: Array  # [row, operator]: the first constraint of the slot at this row or after it
    nodes: Array  # [node, …]: the tries of all slots, see above
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

    counters: Array  # by filter: constraints still missing
    ignored: Array  # a bit for each interface: excluded, or matched already
    seen: Array  # by constraint: the last event that found it, if it could be found again
    present: Array  # by attribute: the last event that had it
    found: Array  # [run, 2]: the constraints satisfied, first and end
    matched: Array  # interfaces
    progress: Array


class EventValues(NamedTuple):
    """An event: one entry for each value of each attribute that the table knows."""

    entries: Array
    numbers: Array  # by entry: a number rounded to double; LOW has the rest
    text: Array  # bytes


def kernel(function: Function) -> Function:
    """Compile a function; it releases the GIL while it runs."""
    return cast(Function, njit(cache=True, nogil=True)(function))


# Left side


@kernel
def add_run(state: State, begin: int, end: int, several: bool) -> None:
    """Note a run of constraints as satisfied; with `several`, each only the first time."""
    if begin >= end:
        return
    place = state.progress[FOUND]
    if several:
        epoch = state.progress[EPOCH]
        for constraint in range(begin, end):
            if state.seen[constraint] != epoch:
                state.seen[constraint] = epoch
                state.found[place, 0] = constraint
                state.found[place, 1] = constraint + 1
                place += 1
    else:
        state.found[place, 0] = begin
        state.found[place, 1] = end
        place += 1
    state.progress[FOUND] = place


@kernel
def find_ordered(
    index: Index, state: State, slot: int, place: int, exact: int, several: bool
) -> None:
    """Note the constraints by =, !=, <, <=, >, >= that a value satisfies.

    `place` is the first row that is not below the value; `exact` is 1 if that row equals it.
    """
    starts = index.starts
    begin, end, after = index.slots[slot, BEGIN], index.slots[slot, END], place + exact
    add_run(state, starts[place, EQUAL], starts[after, EQUAL], several)
    add_run(state, starts[begin, UNEQUAL], starts[place, UNEQUAL], several)
    add_run(state, starts[after, UNEQUAL], starts[end, UNEQUAL], several)
    add_run(state, starts[after, LESS], starts[end, LESS], several)
    add_run(state, starts[place, LESS_EQUAL], starts[end, LESS_EQUAL], several)
    add_run(state, starts[begin, GREATER], starts[place, GREATER], several)
    add_run(state, starts[begin, GREATER_EQUAL], starts[after, GREATER_EQUAL], several)


@kernel
def find_present(index: Index, state: State, slot: int, several: bool) -> None:
    """Note the constraint `exists` of a slot."""
    if slot >= 0 and index.slots[slot, EXISTS] >= 0:
        constraint = index.slots[slot, EXISTS]
        add_run(state, constraint, constraint + 1, several)


@kernel
def find_number(
    index: Index, state: State, slot: int, high: float, low: int, several: bool
) -> None:
    """Note the constraints that a number satisfies: a binary search, then runs (figure 5)."""
    if slot < 0:
        return
    find_present(index, state, slot, several)
    if high != high:  # NaN satisfies no comparison
        return
    first, last = index.slots[slot, BEGIN], index.slots[slot, END]
    end = last
    while first < last:
        middle = (first + last) // 2
        constant = index.high[middle]
        if constant < high or (constant == high and index.low[middle] < low):
            first = middle + 1
        else:
            last = middle
    exact = int(first < end and index.high[first] == high and index.low[first] == low)
    find_ordered(index, state, slot, first, exact, several)


@kernel
def find_text(
    index: Index, state: State, slot: int, text: Array, begin: int, end: int, several: bool
) -> None:
    """Note the constraints that a text satisfies, by the extended trie (section 4.2, figure 6)."""
    if slot < 0:
        return
    find_present(index, state, slot, several)
    place, exact = find_from_start(index, state, slot, text[begin:end], several)
    find_ordered(index, state, slot, place, exact, several)
    for position in range(begin + 1, end):
        if text[position] & 0xC0 != 0x80:  # not within a character
            find_from_middle(index, state, slot, text[position:end], several)


@kernel
def find_from_start(
    index: Index, state: State, slot: int, text: Array, several: bool
) -> tuple[int, int]:
    """Follow a text from its first byte: notes all but the ordered operators; returns its place.

    Where the text leaves the trie, the last node tells the rows below and above it: this is the
    paper's backtracking to the closest complete matches.
    """
    nodes, starts = index.nodes, index.starts
    place, exact = index.slots[slot, BEGIN], index.slots[slot, EMPTY]
    if text.size == 0:
        return place, exact
    place, exact = place + exact, 0
    node, position = index.slots[slot, ROOT], 0
    while node >= 0:
        if text[position] < nodes[node, BYTE]:
            place, node = nodes[node, FIRST], nodes[node, LOWER]
        elif text[position] > nodes[node, BYTE]:
            place, node = nodes[node, LAST], nodes[node, HIGHER]
        else:
            position += 1
            row, partial = nodes[node, ROW], nodes[node, PARTIAL]
            if partial & HAS_PREFIX:
                add_run(state, starts[row, PREFIX], starts[row + 1, PREFIX], several)
            if partial & HAS_CONTAINS:
                add_run(state, starts[row, CONTAINS], starts[row + 1, CONTAINS], True)
            if position == text.size:
                if partial & HAS_SUFFIX:
                    add_run(state, starts[row, SUFFIX], starts[row + 1, SUFFIX], several)
                return nodes[node, FIRST], int(row >= 0)
            place, node = nodes[node, LAST], nodes[node, NEXT]
    return place, exact


@kernel
def find_from_middle(index: Index, state: State, slot: int, text: Array, several: bool) -> None:
    """Follow the rest of a text: notes only `contains` and `suffix`."""
    nodes, starts = index.nodes, index.starts
    node, position = index.slots[slot, ROOT], 0
    while node >= 0:
        if text[position] < nodes[node, BYTE]:
            node = nodes[node, LOWER]
        elif text[position] > nodes[node, BYTE]:
            node = nodes[node, HIGHER]
        else:
            position += 1
            row, partial = nodes[node, ROW], nodes[node, PARTIAL]
            if partial & HAS_CONTAINS:
                add_run(state, starts[row, CONTAINS], starts[row + 1, CONTAINS], True)
            if position == text.size:
                if partial & HAS_SUFFIX:
                    add_run(state, starts[row, SUFFIX], starts[row + 1, SUFFIX], several)
                return
            node = nodes[node, NEXT]


@kernel
def find_constraints(index: Index, state: State, values: EventValues, number: int) -> None:
    """Note the constraints that one value satisfies; in a list, only those not noted before."""
    entry = values.entries[number]
    slots, type_, several = index.slots_of[entry[ATTRIBUTE]], entry[TYPE], entry[SEVERAL] != 0
    high, low = values.numbers[number], entry[LOW]
    find_present(index, state, slots[ANY], several)
    if type_ == TEXT:
        find_text(index, state, slots[TEXT], values.text, low, entry[STOP], several)
    else:
        find_number(index, state, slots[type_], high, low, several)
        if type_ != BOOLEAN:
            find_number(index, state, slots[NUMBER], high, low, several)


# Right side


@kernel
def count_filters(network: Network, state: State, first_run: int) -> bool:
    """Count the runs found against their filters; returns whether no interface is left (fig. 4)."""
    begin, filters, owner = network.begin, network.filters, network.owner
    counters, ignored, progress = state.counters, state.ignored, state.progress
    interfaces = state.matched.size
    for run in range(first_run, progress[FOUND]):
        for place in range(begin[state.found[run, 0]], begin[state.found[run, 1]]):
            filter_ = filters[place]
            interface = owner[filter_]
            if ignored[interface >> 6] >> (interface & 63) & 1:
                continue
            counters[filter_] -= 1
            if counters[filter_] == 0:
                state.matched[progress[MATCHED]] = interface
                progress[MATCHED] += 1
                ignored[interface >> 6] |= 1 << (interface & 63)
                progress[IGNORED] += 1
                if progress[IGNORED] == interfaces:
                    return True
    return False


@kernel
def exclude_interfaces(selectivity: Selectivity, state: State) -> bool:
    """Ignore interfaces that need an attribute the event lacks; returns whether none is left.

    This is figure 7. It counts the ignored interfaces once, after the last round, because counting
    costs more than a round.
    """
    ignored, progress = state.ignored, state.progress
    for round_ in range(selectivity.attributes.size):
        if state.present[selectivity.attributes[round_]] != progress[EPOCH]:
            progress[EXCLUDED] = 1
            for word in range(ignored.size):
                ignored[word] |= selectivity.excludes[round_, word]
    if progress[EXCLUDED]:
        count = 0
        for word in range(ignored.size):
            count += count_bits(ignored[word])
        progress[EXCLUDED] = progress[IGNORED] = count
    return bool(progress[IGNORED] == state.matched.size)


@kernel
def count_bits(word: int) -> int:
    """How many bits of 64 are set."""
    bits = np.uint64(word)
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    bits = (bits & pairs) + ((bits >> np.uint64(2)) & pairs)
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def match_event(
    index: Index,
    network: Network,
    selectivity: Selectivity,
    state: State,
    values: EventValues,
    others: Array,
) -> None:
    """Write the interfaces that an event satisfies to `state.matched` (figure 7).

    `others` are constraints outside the index that the event is known to satisfy.
    """
    progress = state.progress
    progress[EPOCH] += 1
    progress[FOUND] = progress[MATCHED] = progress[IGNORED] = progress[EXCLUDED] = 0
    for number in range(values.entries.shape[0]):
        state.present[values.entries[number, ATTRIBUTE]] = progress[EPOCH]
    done = exclude_interfaces(selectivity, state)
    for number in range(values.entries.shape[0]):
        if done:
            break
        first_run = progress[FOUND]
        find_constraints(index, state, values, number)
        done = count_filters(network, state, first_run)
    if not done:
        first_run = progress[FOUND]
        for constraint in others:
            add_run(state, constraint, constraint + 1, False)
        count_filters(network, state, first_run)
    reset(network, state)


@kernel
def reset(network: Network, state: State) -> None:
    """Reset `counters` and `ignored`: entry by entry if few were touched, else by copying."""
    begin, runs, found = network.begin, state.progress[FOUND], state.found
    touched = runs
    for run in range(runs):
        touched += begin[found[run, 1]] - begin[found[run, 0]]
    if touched * FEW > network.sizes.size:
        state.counters[:] = network.sizes
    else:
        for run in range(runs):
            for place in range(begin[found[run, 0]], begin[found[run, 1]]):
                filter_ = network.filters[place]
                state.counters[filter_] = network.sizes[filter_]
    if state.progress[EXCLUDED] or state.progress[MATCHED] > state.ignored.size:
        state.ignored[:] = 0
    else:
        for interface in state.matched[: state.progress[MATCHED]]:
            state.ignored[interface >> 6] = 0


# Building


@kernel
def number_constraints(slots: Array, starts: Array) -> int:
    """Number the constraints: `starts` holds how many each row has and receives their numbers."""
    running = 0
    for slot in range(slots.shape[0]):
        for operator in range(starts.shape[1]):
            for row in range(slots[slot, BEGIN], slots[slot, END] + 1):
                count = starts[row, operator]
                starts[row, operator] = running
                running += count
    return running


@kernel
def count_nodes(slots: Array, offsets: Array, text: Array) -> int:
    """How many nodes the tries of sorted texts have: bytes not shared with the text before."""
    nodes = 0
    for slot in range(slots.shape[0]):
        for row in range(slots[slot, BEGIN], slots[slot, END]):
            begin, end = offsets[row], offsets[row + 1]
            if row > slots[slot, BEGIN]:
                before = offsets[row - 1]
                end_before = begin
                while begin < end and before < end_before and text[begin] == text[before]:
                    begin += 1
                    before += 1
            nodes += end - begin
    return nodes


@kernel
def build_tries(
    slots: Array, offsets: Array, text: Array, starts: Array, nodes: Array, depth: int
) -> None:
    """Fill the tries of all slots from their sorted texts, with the middle one at every root.

    `depth` is the length of the longest text.
    """
    stack = np.empty((min(nodes.shape[0], 20 * depth) + 3, 5), np.int64)
    used = 0
    for slot in range(slots.shape[0]):
        begin, end = slots[slot, BEGIN], slots[slot, END]
        if begin < end and offsets[begin] == offsets[begin + 1]:
            slots[slot, EMPTY] = 1
            begin += 1
        if begin >= end or offsets[end] == offsets[begin]:
            continue
        slots[slot, ROOT] = used
        top = 0
        push(stack[0], begin, end, 0, -1, 0)
        while top >= 0:
            begin, end, skip, parent, side = pop(stack[top])
            top -= 1
            middle = (begin + end) // 2
            byte = text[offsets[middle] + skip]
            first, last = middle, middle + 1
            while first > begin and text[offsets[first - 1] + skip] == byte:
                first -= 1
            while last < end and text[offsets[last] + skip] == byte:
                last += 1
            node = used
            used += 1
            if parent >= 0:
                nodes[parent, side] = node
            nodes[node, BYTE], nodes[node, FIRST], nodes[node, LAST] = byte, first, last
            nodes[node, LOWER] = nodes[node, NEXT] = nodes[node, HIGHER] = nodes[node, ROW] = -1
            nodes[node, PARTIAL] = 0
            inner = first
            if offsets[first + 1] - offsets[first] == skip + 1:
                nodes[node, ROW] = first
                nodes[node, PARTIAL] = (
                    HAS_PREFIX * (starts[first + 1, PREFIX] - starts[first, PREFIX])
                    + HAS_SUFFIX * (starts[first + 1, SUFFIX] - starts[first, SUFFIX])
                    + HAS_CONTAINS * (starts[first + 1, CONTAINS] - starts[first, CONTAINS])
                )
                inner += 1
            if begin < first:
                top += 1
                push(stack[top], begin, first, skip, node, LOWER)
            if last < end:
                top += 1
                push(stack[top], last, end, skip, node, HIGHER)
            if inner < last:
                top += 1
                push(stack[top], inner, last, skip + 1, node, NEXT)


@kernel
def push(slot: Array, begin: int, end: int, skip: int, parent: int, side: int) -> None:
    """Push the rows of a node yet to be made, the bytes they share, and the node's parent."""
    slot[0], slot[1], slot[2], slot[3], slot[4] = begin, end, skip, parent, side


@kernel
def pop(slot: Array) -> tuple[int, int, int, int, int]:
    """Pop what `push` has written."""
    return slot[0], slot[1], slot[2], slot[3], slot[4]


@kernel
def count_links(constraints: Array, ends: Array, begin: Array, sizes: Array) -> None:
    """Write how many filters each constraint has to begin[constraint + 1], and filters' sizes.

    `constraints` lists those of each filter, which end at `ends`. A filter may name one twice.
    """
    last = np.full(begin.size, -1, np.int32)
    place = 0
    for filter_ in range(ends.size):
        while place < ends[filter_]:
            constraint = constraints[place]
            place += 1
            if last[constraint] != filter_:
                last[constraint] = filter_
                begin[constraint + 1] += 1
                sizes[filter_] += 1


@kernel
def link_filters(constraints: Array, ends: Array, begin: Array, filters: Array) -> None:
    """Write the filters of each constraint, in order, from where `begin` says."""
    free = begin[:-1].copy()
    place = 0
    for filter_ in range(ends.size):
        while place < ends[filter_]:
            constraint = constraints[place]
            place += 1
            used = free[constraint]
            if used == begin[constraint] or filters[used - 1] != filter_:
                filters[used] = filter_
                free[constraint] += 1


@kernel
def find_determinants(
    constraints: Array, ends: Array, owner: Array, attributes: Array, chosen: Array, out: Array
) -> None:
    """Find determinants: attributes that all filters of an interface need (section 4.3).

    `attributes` gives the attribute of each constraint, or -1 if the constraint can hold without
    it. If chosen[attribute] is -1, out[0, attribute] counts the interfaces that it is a determinant
    of; if it is a row, their bits are set in that row of `out`; if it is -2, nothing is written.
    """
    times = np.zeros(chosen.size, np.int64)
    last = np.full(chosen.size, -1, np.int64)
    touched = np.empty(chosen.size, np.int64)
    filter_ = place = 0
    while filter_ < ends.size:
        interface, first, count = owner[filter_], filter_, 0
        while filter_ < ends.size and owner[filter_] == interface:
            while place < ends[filter_]:
                attribute = attributes[constraints[place]]
                place += 1
                if attribute < 0 or last[attribute] == filter_:
                    continue
                last[attribute] = filter_
                if times[attribute] == 0:
                    touched[count] = attribute
                    count += 1
                times[attribute] += 1
            filter_ += 1
        for attribute in touched[:count]:
            if times[attribute] == filter_ - first:
                if chosen[attribute] >= 0:
                    out[chosen[attribute], interface >> 6] |= 1 << (interface & 63)
                elif chosen[attribute] == -1:
                    out[0, attribute] += 1
            times[attribute] = 0
