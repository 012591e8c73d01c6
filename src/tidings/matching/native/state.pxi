# The table at one moment, and how it changes.
#
# A state is immutable: segments, the numbers removed from them, and a log of recent operations, to
# which the writer appends. A reader takes the state and the count of its log together; that pair is
# the table at one moment. A full log is folded: its operations become a segment and marks, and a new
# state with an empty log takes the place of the old one. A merge makes one segment of several; the
# state that it puts in place has the current marks and log.
#
#   (a) a record is the same bytes in log, segment and file;
#   (b) a segment is never written after it is published;
#   (c) lists, codes and hashes only exclude, `satisfied` decides;
#   (d) a number names one subscription until no state that knows it is left;
#   (e) every live filter is in exactly one segment or in the log.
#
# Every state refers to the one that took its place, so states are freed in their order, and what
# is freed with a state is known to no older one.

cdef class Block:
    """A segment with the memory that it is in: its own, or a mapped file."""

    cdef Segment segment
    cdef void *owned
    cdef object mapped
    cdef bint busy  # a merge is reading it, to take its place

    def __dealloc__(self):
        cdef size_t i
        if self.segment.ids != NULL:
            for i in range(owners_in(&self.segment)):
                Py_XDECREF(self.segment.ids[i])
            free(self.segment.ids)
        free(self.owned)

    @staticmethod
    cdef Block of(void *block):
        """The segment that was built in a block of memory."""
        cdef Block made = Block.__new__(Block)
        made.owned = block
        open_segment(&made.segment, block)
        return made

    cdef uint32_t filters(self) noexcept:
        return self.segment.header.filters


cdef inline size_t owners_in(const Segment *segment) noexcept nogil:
    """The length of all ordered lists together."""
    return segment.header.sizes[OWNERS] // sizeof(uint32_t)


cdef class Log:
    """Recent operations; entries are written once, then counted."""

    cdef Entry *entries
    cdef uint32_t count
    cdef uint32_t room
    cdef void **chunks  # memory of the records
    cdef uint32_t chunk_count

    def __cinit__(self, uint32_t room):
        self.entries = <Entry *> zeroed((room + 1) * sizeof(Entry))
        self.chunks = <void **> zeroed((room + 1) * sizeof(void *))
        self.room = room

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.chunk_count):
            free(self.chunks[i])
        free(self.entries)
        free(self.chunks)


cdef class Marks:
    """Numbers removed from segments, as bits; never written after it is published."""

    cdef uint64_t *words
    cdef size_t count  # numbers that it is about
    cdef bint some  # there was one, at least

    def __dealloc__(self):
        free(self.words)

    @staticmethod
    cdef Marks copy(Marks other, size_t count):
        """The same marks, for at least `count` numbers."""
        cdef Marks made = Marks.__new__(Marks)
        cdef size_t words = max(count, other.count if other is not None else 0) // 64 + 1
        made.words = <uint64_t *> zeroed(words * sizeof(uint64_t))
        if other is not None:
            memcpy(made.words, other.words, other.count // 64 * sizeof(uint64_t))
            made.some = other.some
        made.count = 64 * words
        return made

    cdef inline void put(self, uint32_t number, bint removed) noexcept nogil:
        tidings_check(number < self.count)
        if removed:
            self.some = True
            self.words[number >> 6] |= <uint64_t> 1 << (number & 63)
        else:
            self.words[number >> 6] &= ~(<uint64_t> 1 << (number & 63))

    cdef inline bint has(self, uint32_t number) noexcept nogil:
        return number < self.count and self.words[number >> 6] >> (number & 63) & 1


ctypedef struct View:
    const Segment **segments
    size_t segment_count
    const uint64_t *marks
    size_t mark_count
    const Entry *entries
    uint32_t entry_count

@cython.trashcan(True)
cdef class State:
    """Segments, marks and a log: with a count of the log, the table at one moment."""

    cdef tuple blocks
    cdef Marks marks
    cdef Log log
    cdef State next  # what took its place
    cdef list retired  # numbers that no later state knows
    cdef list free  # where they go, when no older state is left either
    cdef const Segment **segments  # of the blocks

    cdef View view(self) noexcept:
        """What a reader needs of the state as it is now."""
        cdef View view
        view.segments = self.segments
        view.segment_count = len(self.blocks)
        view.marks = self.marks.words
        view.mark_count = self.marks.count if self.marks.some else 0
        view.entries = self.log.entries
        view.entry_count = self.log.count
        return view

    def __dealloc__(self):
        free(<void *> self.segments)
        if self.retired is not None and self.free is not None:
            self.free.extend(self.retired)


# Searching a state

cdef class Context:
    """What one thread needs to match events; a table keeps some that are not in use."""

    cdef Rows rows
    cdef Search *search  # of the first row, which a single event uses
    cdef Json json
    cdef NameTable table  # that the reader of JSON uses

    def __cinit__(self):
        self.search = &self.rows.searches[0]

    def __dealloc__(self):
        free_rows(&self.rows)
        free(self.json.path)
        free(self.json.seen)

    cdef int prepare(self, Names names, uint64_t seed, size_t numbers, int count) except -1:
        """Make ready for the next `count` events."""
        cdef Search *search
        cdef size_t words
        cdef int i
        self.rows.count = count
        for i in range(count):
            search = &self.rows.searches[i]
            search.event.seed = seed
            search.event.derived = names.derived
            forget(search)
            if search.seen_count < numbers:  # pages of it that no row needs are not even cleared
                words = 2 * numbers // 64 + 1
                free(search.seen)
                search.seen = NULL
                search.seen_count = 0
                search.seen = <uint64_t *> zeroed(words * sizeof(uint64_t))
                search.seen_count = 64 * words
            search.enough = SIZE_MAX
            search.wants_ids = False
            start_event(&search.event, names.count)
        return 0


cdef void forget(Search *search) noexcept nogil:
    """Forget what was found for the last event."""
    cdef size_t i
    for i in range(search.marked_count):
        search.seen[search.marked[i] >> 6] = 0
    search.marked_count = 0
    search.found_count = search.id_count = search.asked_count = 0

cdef void note_late(Search *search, const Entry *entries, uint32_t count) noexcept nogil:
    """Note the numbers that the log removes."""
    cdef uint32_t i, number
    search.late_count = 0
    search.late_entries = entries
    for i in range(count):
        if entries[i].record == NULL:
            if search.late_count == 0:
                memset(search.late, 0, sizeof(search.late))
                search.late_count = count
            number = entries[i].number
            search.late[number >> 6 & 15] |= <uint64_t> 1 << (number & 63)

cdef int match_log(Search *search, const Entry *entries, uint32_t count) except -1 nogil:
    """Test the records of the log one by one. Its own removals hide them, older marks do not."""
    cdef uint32_t i
    search.removed_count = 0
    for i in range(count):
        if entries[i].record != NULL:
            check(search, entries[i].record, False)
    return 0

cdef int match_view(Rows *rows, const View *view) except -1 nogil:
    """Find all subscriptions of the table at one moment, for each of some events."""
    cdef Search *search
    cdef size_t i
    cdef int row
    for row in range(rows.count):
        search = &rows.searches[row]
        note_late(search, view.entries, view.entry_count)
        search.removed = view.marks
        search.removed_count = view.mark_count
    for i in range(view.segment_count):
        match_segment(view.segments[i], rows)
    for row in range(rows.count):
        if rows.searches[row].found_count < rows.searches[row].enough:
            match_log(&rows.searches[row], view.entries, view.entry_count)
    return 0


cdef class Moment:
    """The table at one moment: a state that stays, and how much of its log counts."""

    cdef State state
    cdef View view
