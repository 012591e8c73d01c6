# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Kernels of `counting`: the forwarding table of paper F as arrays, and its algorithms.

Constraints are numbered so that those of one slot (an attribute and a type) and one operator are
consecutive, in the order of their constants. The constraints that a value satisfies are then a few
runs of numbers: the paper's less-than chain is the run from the value's place to the end of that
operator, and jumping onto the chain means reading where the run begins. `find_constraints` is the
left side (sections 4.1 and 4.2) and writes such runs; `count_filters` is the right side (figure 4)
and reads them; `exclude_interfaces` is the selectivity table (section 4.3, figure 7). An interface
is a subscription. Counters are a flat array, or one of the maps of `counting_maps.pxi`.

A row is a constant of a slot; one more row after the last of each slot only ends the runs.
"""

cimport cython
from cpython.list cimport PyList_GET_ITEM, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from tidings.language.event import Event

include "counting_maps.pxi"

# Columns of `starts`: the operators of the paper and similar ones. Those of texts are last.
cpdef enum:
    EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, PREFIX, SUFFIX, CONTAINS, OPERATORS

# Types of values, and columns of `slots_of`; the last two are for constraints only.
cpdef enum:
    TEXT, INTEGER, REAL, BOOLEAN, NUMBER, ANY, TYPES

# What `progress` holds.
cpdef enum:
    EPOCH, FOUND, MATCHED, IGNORED, EXCLUDED, PROGRESS

# What counts: an array of what is still missing, or a map of what has been met.
cpdef enum:
    ARRAY, TREE, HASH

# Operators at a row that the scan of substrings needs, as bits.
cdef enum:
    HAS_PREFIX = 1, HAS_SUFFIX = 2, HAS_CONTAINS = 4

cdef int64_t EPOCHS = 2**31 - 2  # events until the stamps start again
cdef int64_t EXACT = 2**53  # all integers up to here are doubles
cdef int FEW = 8  # if fewer than one in this many filters were touched, reset them one by one

cdef struct Slot:
    int32_t begin  # its first row
    int32_t end  # the row that ends its runs
    int32_t root  # of its trie, or -1
    int32_t exists  # the constraint `exists`, or -1
    int32_t empty  # 1 if the first row is the empty text

cdef struct Node:  # of a trie; two lie in one cache line
    int32_t byte
    int32_t lower  # the node for a lower byte in this place, or -1
    int32_t next  # the node for the next byte
    int32_t higher
    int32_t row  # the row whose text ends here, or -1
    int32_t partial  # the operators at that row, as bits
    int32_t first  # the rows whose texts go through this node
    int32_t last

cdef struct Pending:  # rows of which `build_tries` has yet to make a node
    int32_t begin
    int32_t end
    int32_t skip  # the bytes that they share
    int32_t parent
    int32_t side  # of the parent: -1 lower, 0 next, 1 higher

cdef struct Run:  # constraints
    int32_t first
    int32_t end

cdef struct Value:  # one of an event; an attribute may have several
    int32_t attribute
    int32_t type
    bint several
    double high  # a number is exactly high + low
    int64_t low
    const uint8_t *text
    Py_ssize_t size

ctypedef fused Count:  # of constraints still missing: one byte unless some filter is very long
    uint8_t
    uint32_t

SLOT = np.dtype([(name, np.int32) for name in ("begin", "end", "root", "exists", "empty")])
NODE = np.dtype(
    [
        (name, np.int32)
        for name in ("byte", "lower", "next", "higher", "row", "partial", "first", "last")
    ]
)
PENDING = np.dtype([(name, np.int32) for name in ("begin", "end", "skip", "parent", "side")])
RUN = np.dtype([("first", np.int32), ("end", np.int32)])


@cython.final
cdef class Search:
    """The tables of one matcher and what a match writes, as `counting` has built them.

    A match resets `counters` and `ignored` at its end; `seen` and `present` hold the number of the
    event that wrote them. It holds the GIL, because these belong to all of its callers.
    """

    cdef int32_t[:, ::1] slots_of, starts
    cdef Slot[::1] slots
    cdef Node[::1] nodes
    cdef double[::1] high
    cdef int16_t[::1] low
    cdef int32_t[::1] begin, filters, owner
    cdef int32_t[::1] determinants
    cdef int64_t[:, ::1] excludes
    cdef int64_t[::1] ignored, progress
    cdef int32_t[::1] seen, present, matched
    cdef Run[::1] found
    # Of these two pairs, one is in use.
    cdef uint8_t[::1] sizes, counters
    cdef uint32_t[::1] wide_sizes, wide_counters
    cdef bint wide
    cdef int kind  # of counters
    cdef Tree tree
    cdef Hash hash
    cdef dict names
    cdef list interfaces
    cdef object split
    cdef Value *values
    cdef Py_ssize_t capacity, count
    cdef list texts  # keeps what `values` points to

    def __init__(
        self, left, right, selectivity, state, dict names, list interfaces, split, int kind
    ):
        self.slots_of, self.slots, self.starts, self.nodes, self.high, self.low = left
        self.begin, self.filters, self.owner, sizes = right
        self.determinants, self.excludes = selectivity
        counters, self.ignored, self.seen, self.present = state[:4]
        self.found, self.matched, self.progress = state[4:]
        self.wide = sizes.itemsize > 1
        if self.wide:
            self.wide_sizes, self.wide_counters = sizes, counters
        else:
            self.sizes, self.counters = sizes, counters
        self.names, self.interfaces, self.split, self.kind = names, interfaces, split, kind
        self.texts = []

    def __dealloc__(self):
        PyMem_Free(self.values)
        free_tree(self.tree.root)
        free_hash(&self.hash)

    def match(self, event, others, outside):
        """The ids of the interfaces that an event satisfies (figure 7).

        `others` are constraints outside the index that the event is known to satisfy; `outside` are
        the interfaces, by number, that the broadcast does not use.
        """
        if not isinstance(event, dict) or not self.read(event, type(event) is Event):
            self.read(Event(event), True)  # it has lists or records
        cdef int64_t *progress = &self.progress[0]
        if progress[EPOCH] >= EPOCHS:
            self.seen[:] = 0
            self.present[:] = 0
            progress[EPOCH] = 0
        progress[EPOCH] += 1
        progress[FOUND] = progress[MATCHED] = progress[IGNORED] = progress[EXCLUDED] = 0
        cdef Py_ssize_t number
        for number in range(self.count):
            self.present[self.values[number].attribute] = <int32_t>progress[EPOCH]
        for number in outside:
            ignore(self, <int32_t>number)
        cdef bint done = exclude_interfaces(self)
        cdef int64_t first_run
        for number in range(self.count):
            if done:
                break
            first_run = progress[FOUND]
            find_constraints(self, &self.values[number])
            done = count_runs(self, first_run)
        if others and not done:
            first_run = progress[FOUND]
            for number in others:
                add_run(self, <int32_t>number, <int32_t>number + 1, False)
            count_runs(self, first_run)
        if self.kind != ARRAY:
            clear_maps(self)
        elif self.wide:
            reset[uint32_t](self, self.wide_counters, self.wide_sizes)
        else:
            reset[uint8_t](self, self.counters, self.sizes)
        reset_ignored(self)
        self.texts.clear()
        return self.ids()

    cdef list ids(self):
        """The ids of the interfaces found."""
        cdef Py_ssize_t place, count = self.progress[MATCHED]
        cdef list found = PyList_New(count)
        for place in range(count):
            id = <object>PyList_GET_ITEM(self.interfaces, self.matched[place])
            Py_INCREF(id)
            PyList_SET_ITEM(found, place, id)
        return found

    cdef bint read(self, event, bint flat) except -1:
        """Write the event's values that the table knows; returns whether the event is flat."""
        self.count = 0
        for name, value in event.items():
            type_ = type(value)
            if type_ is tuple and flat:
                number = self.names.get(name)
                if number is not None:
                    for element in <tuple>value:
                        self.put(number, type(element), element, True)
            elif type_ is str or type_ is int or type_ is float or type_ is bool:
                number = self.names.get(name)
                if number is not None:
                    self.put(number, type_, value, False)
            elif value is not None:
                return False
        return True

    cdef int put(self, int32_t attribute, type_, value, bint several) except -1:
        """Write one value."""
        if self.count == self.capacity:
            self.grow()
        cdef Value *to = &self.values[self.count]
        cdef long long integer
        to.attribute, to.several, to.low = attribute, several, 0
        if type_ is str:
            to.type = TEXT
            try:
                to.text = <const uint8_t *>PyUnicode_AsUTF8AndSize(value, &to.size)
            except UnicodeEncodeError:  # a lone surrogate: it stands for nothing
                return 0
            self.texts.append(value)
        elif type_ is int:
            to.type = INTEGER
            if -EXACT <= value <= EXACT:
                integer = value
                to.high = <double>integer
            else:
                to.high, to.low = self.split(value)
        elif type_ is float or type_ is bool:
            to.type = REAL if type_ is float else BOOLEAN
            to.high = value
        else:
            raise AssertionError(f"a flat event has scalars, found {value!r}")
        self.count += 1
        return 0

    cdef int grow(self) except -1:
        """Make room for more values."""
        cdef Py_ssize_t capacity = 2 * self.capacity + 16
        cdef void *room = PyMem_Realloc(self.values, capacity * sizeof(Value))
        if room == NULL:
            raise MemoryError
        self.values, self.capacity = <Value *>room, capacity
        return 0


# Left side


cdef int add_run(Search search, int32_t begin, int32_t end, bint several) except -1:
    """Note a run of constraints as satisfied; with `several`, each only the first time."""
    if begin >= end:
        return 0
    cdef int64_t place = search.progress[FOUND]
    cdef int32_t constraint, epoch
    if several:
        epoch = <int32_t>search.progress[EPOCH]
        for constraint in range(begin, end):
            if search.seen[constraint] != epoch:
                search.seen[constraint] = epoch
                search.found[place].first = constraint
                search.found[place].end = constraint + 1
                place += 1
    else:
        search.found[place].first = begin
        search.found[place].end = end
        place += 1
    search.progress[FOUND] = place
    return 0


cdef int find_ordered(
    Search search, Slot *slot, int32_t place, int32_t exact, bint several
) except -1:
    """Note the constraints by =, !=, <, <=, >, >= that a value satisfies.

    `place` is the first row that is not below the value; `exact` is 1 if that row equals it.
    """
    cdef int32_t begin = slot.begin, end = slot.end, after = place + exact
    cdef int32_t *at = &search.starts[place, 0]
    cdef int32_t *past = &search.starts[after, 0]
    cdef int32_t *first = &search.starts[begin, 0]
    cdef int32_t *last = &search.starts[end, 0]
    add_run(search, at[EQUAL], past[EQUAL], several)
    add_run(search, first[UNEQUAL], at[UNEQUAL], several)
    add_run(search, past[UNEQUAL], last[UNEQUAL], several)
    add_run(search, past[LESS], last[LESS], several)
    add_run(search, at[LESS_EQUAL], last[LESS_EQUAL], several)
    add_run(search, first[GREATER], at[GREATER], several)
    add_run(search, first[GREATER_EQUAL], past[GREATER_EQUAL], several)
    return 0


cdef int find_present(Search search, int32_t slot, bint several) except -1:
    """Note the constraint `exists` of a slot."""
    cdef int32_t constraint
    if slot >= 0:
        constraint = search.slots[slot].exists
        if constraint >= 0:
            add_run(search, constraint, constraint + 1, several)
    return 0


cdef int find_number(Search search, int32_t slot, Value *value) except -1:
    """Note the constraints that a number satisfies: a binary search, then runs (figure 5)."""
    if slot < 0:
        return 0
    find_present(search, slot, value.several)
    if value.high != value.high:  # NaN satisfies no comparison
        return 0
    cdef int32_t first = search.slots[slot].begin, last = search.slots[slot].end, middle
    cdef int32_t end = last
    cdef double constant
    while first < last:
        middle = first + (last - first) // 2
        constant = search.high[middle]
        if constant < value.high or constant == value.high and search.low[middle] < value.low:
            first = middle + 1
        else:
            last = middle
    cdef bint exact = (
        first < end and search.high[first] == value.high and search.low[first] == value.low
    )
    return find_ordered(search, &search.slots[slot], first, exact, value.several)


cdef int find_text(Search search, int32_t slot, Value *value) except -1:
    """Note the constraints that a text satisfies, by the extended trie (section 4.2, figure 6)."""
    if slot < 0:
        return 0
    find_present(search, slot, value.several)
    find_from_start(search, &search.slots[slot], value)
    cdef Py_ssize_t position
    if search.slots[slot].root >= 0:
        for position in range(1, value.size):
            if value.text[position] & 0xC0 != 0x80:  # not within a character
                find_from_middle(search, &search.slots[slot], value, position)
    return 0


cdef int add_partial(Search search, int32_t row, int operator, bint several) except -1:
    """Note the constraints by one operator at one row."""
    cdef int32_t *starts = &search.starts[row, 0]
    return add_run(search, starts[operator], starts[operator + OPERATORS], several)


cdef int find_from_start(Search search, Slot *slot, Value *value) except -1:
    """Follow a text from its first byte; notes what it satisfies in its slot.

    Where the text leaves the trie, the last node tells the rows below and above it: this is the
    paper's backtracking to the closest complete matches.
    """
    if value.size == 0:
        return find_ordered(search, slot, slot.begin, slot.empty, value.several)
    cdef int32_t place = slot.begin + slot.empty, node = slot.root
    cdef Py_ssize_t position = 0
    cdef int32_t byte = value.text[0]
    cdef Node *at
    while node >= 0:
        at = &search.nodes[node]
        if byte < at.byte:
            place, node = at.first, at.lower
        elif byte > at.byte:
            place, node = at.last, at.higher
        else:
            position += 1
            if at.partial & HAS_PREFIX:
                add_partial(search, at.row, PREFIX, value.several)
            if at.partial & HAS_CONTAINS:
                add_partial(search, at.row, CONTAINS, True)
            if position == value.size:
                if at.partial & HAS_SUFFIX:
                    add_partial(search, at.row, SUFFIX, value.several)
                return find_ordered(search, slot, at.first, at.row >= 0, value.several)
            byte = value.text[position]
            place, node = at.last, at.next
    return find_ordered(search, slot, place, 0, value.several)


cdef int find_from_middle(
    Search search, Slot *slot, Value *value, Py_ssize_t position
) except -1:
    """Follow the rest of a text: notes only `contains` and `suffix`."""
    cdef int32_t node = slot.root, byte = value.text[position]
    cdef Node *at
    while node >= 0:
        at = &search.nodes[node]
        if byte < at.byte:
            node = at.lower
        elif byte > at.byte:
            node = at.higher
        else:
            position += 1
            if at.partial & HAS_CONTAINS:
                add_partial(search, at.row, CONTAINS, True)
            if position == value.size:
                if at.partial & HAS_SUFFIX:
                    add_partial(search, at.row, SUFFIX, value.several)
                return 0
            byte = value.text[position]
            node = at.next
    return 0


cdef int find_constraints(Search search, Value *value) except -1:
    """Note the constraints that one value satisfies; in a list, only those not noted before."""
    cdef int32_t *slots = &search.slots_of[value.attribute, 0]
    find_present(search, slots[ANY], value.several)
    if value.type == TEXT:
        return find_text(search, slots[TEXT], value)
    find_number(search, slots[value.type], value)
    if value.type != BOOLEAN:
        find_number(search, slots[NUMBER], value)
    return 0


# Right side


cdef inline bint is_ignored(int64_t *ignored, int32_t interface) noexcept:
    """Whether the interface is excluded, or has matched already."""
    return <uint64_t>ignored[interface >> 6] >> (interface & 63) & 1


cdef inline bint ignore(Search search, int32_t interface) noexcept:
    """Ignore an interface from now on; returns whether none is left."""
    search.ignored[interface >> 6] |= <int64_t>(<uint64_t>1 << (interface & 63))
    search.progress[IGNORED] += 1
    return search.progress[IGNORED] == search.matched.shape[0]


cdef inline bint add_match(Search search, int32_t interface) noexcept:
    """Note that an interface matches; returns whether none is left."""
    search.matched[search.progress[MATCHED]] = interface
    search.progress[MATCHED] += 1
    return ignore(search, interface)


cdef bint count_runs(Search search, int64_t first_run) except -1:
    """Count the runs found; returns whether no interface is left (figure 4)."""
    if first_run == search.progress[FOUND]:
        return False
    if search.kind != ARRAY:
        return count_in_map(search, first_run)
    if search.wide:
        return count_in_array[uint32_t](search, search.wide_counters, first_run)
    return count_in_array[uint8_t](search, search.counters, first_run)


cdef bint count_in_array(Search search, Count[::1] missing, int64_t first_run) except -1:
    """Count the runs found against their filters, each in its element of an array."""
    cdef int64_t run
    cdef int32_t *filters = &search.filters[0]
    cdef int32_t *owner = &search.owner[0]
    cdef int64_t *ignored = &search.ignored[0]
    cdef Count *counters = &missing[0]
    cdef int32_t place, filter_
    for run in range(first_run, search.progress[FOUND]):
        for place in range(search.begin[search.found[run].first], search.begin[search.found[run].end]):
            filter_ = filters[place]
            if is_ignored(ignored, owner[filter_]):
                continue
            counters[filter_] -= 1
            if counters[filter_] == 0 and add_match(search, owner[filter_]):
                return True
    return False


cdef bint count_in_map(Search search, int64_t first_run) except -1:
    """The same with a map, where a filter has a counter once a constraint of it is met."""
    cdef int64_t run
    cdef int32_t *filters = &search.filters[0]
    cdef int32_t *owner = &search.owner[0]
    cdef int64_t *ignored = &search.ignored[0]
    cdef int32_t place, filter_, count, size
    for run in range(first_run, search.progress[FOUND]):
        for place in range(search.begin[search.found[run].first], search.begin[search.found[run].end]):
            filter_ = filters[place]
            if is_ignored(ignored, owner[filter_]):
                continue
            if search.kind == TREE:
                count = count_in_tree(&search.tree, filter_)
            else:
                count = count_in_hash(&search.hash, filter_)
            if count == 0:
                clear_maps(search)
                raise MemoryError
            size = search.wide_sizes[filter_] if search.wide else search.sizes[filter_]
            if count == size and add_match(search, owner[filter_]):
                return True
    return False


cdef int clear_maps(Search search) except -1:
    """Free the counters of this event."""
    free_tree(search.tree.root)
    search.tree.root = NULL
    free_hash(&search.hash)
    return 0


cdef extern from *:
    int count_bits "__builtin_popcountll" (uint64_t word) nogil


cdef bint exclude_interfaces(Search search) except -1:
    """Ignore interfaces that need an attribute the event lacks; returns whether none is left.

    This is `pre_process` of figure 7. It counts the ignored interfaces once, after the last round,
    because counting costs more than a round.
    """
    cdef int64_t *progress = &search.progress[0]
    cdef Py_ssize_t round_, word, words = search.ignored.shape[0]
    cdef int64_t count = 0
    cdef bint any_ = False
    for round_ in range(search.determinants.shape[0]):
        if search.present[search.determinants[round_]] != progress[EPOCH]:
            any_ = True
            for word in range(words):
                search.ignored[word] |= search.excludes[round_, word]
    if any_:
        for word in range(words):
            count += count_bits(<uint64_t>search.ignored[word])
        progress[EXCLUDED] = count - progress[IGNORED]
        progress[IGNORED] = count
    return progress[IGNORED] == search.matched.shape[0]


cdef int reset(Search search, Count[::1] counters, Count[::1] sizes) except -1:
    """Reset the counters: entry by entry if few were touched, else by copying."""
    cdef int64_t run, runs = search.progress[FOUND], touched = runs
    cdef int32_t place, filter_
    for run in range(runs):
        touched += search.begin[search.found[run].end] - search.begin[search.found[run].first]
    if touched * FEW > sizes.shape[0]:
        counters[:] = sizes
        return 0
    for run in range(runs):
        for place in range(search.begin[search.found[run].first], search.begin[search.found[run].end]):
            filter_ = search.filters[place]
            counters[filter_] = sizes[filter_]
    return 0


cdef int reset_ignored(Search search) except -1:
    """Ignore no interface any more: entry by entry if only a few have matched."""
    cdef int64_t number, matched = search.progress[MATCHED]
    if search.progress[IGNORED] > matched or matched > search.ignored.shape[0]:
        search.ignored[:] = 0
        return 0
    for number in range(matched):
        search.ignored[search.matched[number] >> 6] = 0
    return 0


# Building


def number_constraints(Slot[::1] slots, int32_t[:, ::1] starts):
    """Number the constraints: `starts` holds how many each row has and receives their numbers."""
    cdef int32_t running = 0, count, row
    cdef Py_ssize_t slot, operator
    for slot in range(slots.shape[0]):
        for operator in range(starts.shape[1]):
            for row in range(slots[slot].begin, slots[slot].end + 1):
                count = starts[row, operator]
                starts[row, operator] = running
                running += count
    return running


def count_nodes(Slot[::1] slots, const int64_t[::1] offsets, const uint8_t[::1] text):
    """How many nodes the tries of sorted texts have: bytes not shared with the text before."""
    cdef int64_t nodes = 0, begin, end, before, end_before
    cdef Py_ssize_t slot
    cdef int32_t row
    for slot in range(slots.shape[0]):
        for row in range(slots[slot].begin, slots[slot].end):
            begin, end = offsets[row], offsets[row + 1]
            if row > slots[slot].begin:
                before, end_before = offsets[row - 1], begin
                while begin < end and before < end_before and text[begin] == text[before]:
                    begin += 1
                    before += 1
            nodes += end - begin
    return nodes


def build_tries(
    Slot[::1] slots,
    const int64_t[::1] offsets,
    const uint8_t[::1] text,
    int32_t[:, ::1] starts,
    Node[::1] nodes,
    int depth,
):
    """Fill the tries of all slots from their sorted texts, with the middle one at every root.

    `depth` is the length of the longest text. A node leaves at most two others waiting while the
    next byte is followed, or while the rows are halved, which 32 times is enough for all of them.
    """
    cdef Pending[::1] stack = np.empty(2 * (depth + 32), PENDING)
    cdef Pending now
    cdef int32_t used = 0, top, begin, end, middle, first, last, inner
    cdef uint8_t byte
    cdef Py_ssize_t slot
    cdef Node *node
    for slot in range(slots.shape[0]):
        begin, end = slots[slot].begin, slots[slot].end
        if begin < end and offsets[begin] == offsets[begin + 1]:
            slots[slot].empty = 1
            begin += 1
        if begin >= end or offsets[end] == offsets[begin]:
            continue
        slots[slot].root = used
        top = 0
        stack[0] = Pending(begin, end, 0, -1, 0)
        while top >= 0:
            now = stack[top]
            top -= 1
            middle = now.begin + (now.end - now.begin) // 2
            byte = text[offsets[middle] + now.skip]
            first, last = middle, middle + 1
            while first > now.begin and text[offsets[first - 1] + now.skip] == byte:
                first -= 1
            while last < now.end and text[offsets[last] + now.skip] == byte:
                last += 1
            if now.parent >= 0:
                if now.side < 0:
                    nodes[now.parent].lower = used
                elif now.side > 0:
                    nodes[now.parent].higher = used
                else:
                    nodes[now.parent].next = used
            node = &nodes[used]
            node.byte, node.first, node.last = byte, first, last
            node.lower = node.next = node.higher = node.row = -1
            node.partial = 0
            inner = first
            if offsets[first + 1] - offsets[first] == now.skip + 1:
                node.row = first
                if starts[first + 1, PREFIX] > starts[first, PREFIX]:
                    node.partial |= HAS_PREFIX
                if starts[first + 1, SUFFIX] > starts[first, SUFFIX]:
                    node.partial |= HAS_SUFFIX
                if starts[first + 1, CONTAINS] > starts[first, CONTAINS]:
                    node.partial |= HAS_CONTAINS
                inner += 1
            if now.begin < first:
                top += 1
                stack[top] = Pending(now.begin, first, now.skip, used, -1)
            if last < now.end:
                top += 1
                stack[top] = Pending(last, now.end, now.skip, used, 1)
            if inner < last:
                top += 1
                stack[top] = Pending(inner, last, now.skip + 1, used, 0)
            used += 1


def count_links(int32_t[::1] constraints, int32_t[::1] ends, int32_t[::1] begin, int32_t[::1] sizes):
    """Write how many filters each constraint has to begin[constraint + 1], and filters' sizes.

    `constraints` lists those of each filter, which end at `ends`. A filter may name one twice.
    """
    cdef int32_t[::1] last = np.full(begin.shape[0], -1, np.int32)
    cdef int32_t place = 0, filter_, constraint
    for filter_ in range(<int32_t>ends.shape[0]):
        while place < ends[filter_]:
            constraint = constraints[place]
            place += 1
            if last[constraint] != filter_:
                last[constraint] = filter_
                begin[constraint + 1] += 1
                sizes[filter_] += 1


def link_filters(int32_t[::1] constraints, int32_t[::1] ends, int32_t[::1] begin, int32_t[::1] filters):
    """Write the filters of each constraint, in order, from where `begin` says."""
    cdef int32_t[::1] free = np.array(begin)
    cdef int32_t place = 0, filter_, constraint, used
    for filter_ in range(<int32_t>ends.shape[0]):
        while place < ends[filter_]:
            constraint = constraints[place]
            place += 1
            used = free[constraint]
            if used == begin[constraint] or filters[used - 1] != filter_:
                filters[used] = filter_
                free[constraint] += 1


def find_determinants(
    int32_t[::1] constraints,
    int32_t[::1] ends,
    int32_t[::1] owner,
    int32_t[::1] attributes,
    int32_t[::1] chosen,
    int64_t[:, ::1] out,
):
    """Find determinants: attributes that all filters of an interface need (section 4.3).

    `attributes` gives the attribute of each constraint, or -1 if the constraint can hold without
    it. If chosen[attribute] is -1, out[0, attribute] counts the interfaces that it is a determinant
    of; if it is a row, their bits are set in that row of `out`; if it is -2, nothing is written.
    """
    cdef int64_t[::1] times = np.zeros(chosen.shape[0], np.int64)
    cdef int64_t[::1] last = np.full(chosen.shape[0], -1, np.int64)
    cdef int32_t[::1] touched = np.empty(chosen.shape[0], np.int32)
    cdef int32_t filter_ = 0, place = 0, interface, first, count, attribute, number
    cdef int32_t filters = <int32_t>ends.shape[0]
    while filter_ < filters:
        interface, first, count = owner[filter_], filter_, 0
        while filter_ < filters and owner[filter_] == interface:
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
        for number in range(count):
            attribute = touched[number]
            if times[attribute] == filter_ - first:
                if chosen[attribute] >= 0:
                    out[chosen[attribute], interface >> 6] |= <int64_t>(
                        <uint64_t>1 << (interface & 63)
                    )
                elif chosen[attribute] == -1:
                    out[0, attribute] += 1
            times[attribute] = 0
