# A segment: filters compiled once, in one block of memory without pointers, never written again.
#
#     Header | records | cells | entries | attributes | ordered lists | columns | blocks | always
#
# An event finds a filter by one of four access paths:
#
#   a key      a hash of (attribute, kind, value): an equality, the beginning or the end of a text,
#              a run of its bytes (gram), or only that the attribute is present. One hash table.
#   order      a single comparison, in a list sorted by its bound; nothing is left to test.
#   a block    64 filters with ranges on the same columns (a group; one column or two), each known
#              by one-byte codes of its ends, and a box around all of them. The boxes of 64 blocks
#              are codes in the same way. A third range, on any column, is beside the codes. Codes
#              only exclude; what remains is tested.
#   always     nothing but negations or residuals: tested with every event.

cdef enum:
    MAGIC = 0x54535347  # "TSSG"
    SEGMENT_VERSION = 4
    BLOCK = 64  # filters of a block, and boxes that are compared at once
    SIDES = 2  # columns of a group, at most
    ENDS = 2 * BLOCK  # bytes: the low ends of 64 ranges, then the high ones

cdef enum:  # sections
    RECORDS
    CELLS
    ENTRIES
    LOCALS
    ATTRIBUTES
    BOUNDS
    ORDERED
    OWNERS
    COLUMNS
    CUTS
    GROUPS
    CODES
    MEMBERS
    ALWAYS
    SECTIONS

cdef enum:  # kinds of keys
    BY_TEXT
    BY_NUMBER
    BY_TRUTH
    BY_PRESENCE
    BY_PREFIX
    BY_SUFFIX
    BY_GRAM
    KEY_KINDS

cdef enum:  # ordered lists of an attribute, for numbers; four more for texts
    ABOVE
    AT_LEAST
    BELOW
    AT_MOST
    LISTS = 8

ctypedef struct Header:
    uint32_t magic
    uint32_t version
    uint64_t seed  # of its hashes
    uint64_t size  # bytes, all together
    uint32_t filters
    uint32_t constraints
    uint32_t cells
    uint32_t local_mask
    uint32_t by_path[4]  # filters by access path: keys, order, blocks, always
    uint64_t begins[SECTIONS]  # where each section begins
    uint64_t sizes[SECTIONS]  # bytes of each

ctypedef struct Cell:
    uint64_t hash  # zero: the cell is empty
    uint32_t entry  # a record if there is one, else where its list begins in the entries
    uint32_t count  # records of the key

ctypedef struct OrderedList:
    uint32_t begin
    uint32_t count

ctypedef struct Attribute:
    uint32_t attribute
    uint32_t kinds  # of keys, as bits
    uint32_t prefixes  # sizes of prefixes among the keys, as bits of PREFIX_SIZES
    uint32_t suffixes
    uint32_t grams  # bit n: runs of n bytes
    uint32_t columns[2]  # 1 + the column of its numbers, of its texts
    uint32_t groups[2]  # of blocks whose first column is the one or the other: where they begin
    uint32_t group_counts[2]
    uint32_t ordered  # whether there are ordered lists
    OrderedList lists[LISTS]

ctypedef struct Column:
    uint32_t attribute
    uint32_t is_text
    uint32_t begin  # of its cuts
    uint32_t count

ctypedef struct Group:
    uint32_t columns[SIDES]
    uint32_t sides  # how many these are
    uint32_t begin  # of its blocks
    uint32_t count
    uint32_t codes  # of its boxes, then of its blocks: where they begin, in units of ENDS

# The codes of 64 boxes are the ends of each side. Those of a block are the same, then the ends of a
# third range of each filter and 64 times the column of that as uint16: 1 + the column, or zero.

ctypedef struct Extra:
    uint16_t column  # 1 + the column; zero, which all values meet: there is none
    uint8_t low
    uint8_t high

ctypedef struct Member:
    uint32_t record
    Extra extra[2]  # further ranges of the filter, compared before its record is read

ctypedef struct Segment:
    const Header *header
    const uint8_t *records
    const Cell *cells
    const uint32_t *entries
    const uint32_t *locals
    const Attribute *attributes
    const double *bounds
    const uint32_t *ordered
    const uint32_t *owners
    const Column *columns
    const uint64_t *cuts
    const Group *groups
    const uint8_t *codes
    const Member *members
    const uint32_t *always
    PyObject **ids  # of the owners in ordered lists, if somebody wanted them as objects

cdef uint32_t PREFIX_SIZES[8]
PREFIX_SIZES[:] = [1, 2, 3, 4, 6, 8, 12, 16]

cdef void open_segment(Segment *segment, const void *block) noexcept nogil:
    """Set the pointers of a segment into its block of memory."""
    cdef const uint8_t *base = <const uint8_t *> block
    cdef const Header *header = <const Header *> block
    tidings_check(header.magic == MAGIC and header.version == SEGMENT_VERSION)
    segment.header = header
    segment.records = base + header.begins[RECORDS]
    segment.cells = <const Cell *> (base + header.begins[CELLS])
    segment.entries = <const uint32_t *> (base + header.begins[ENTRIES])
    segment.locals = <const uint32_t *> (base + header.begins[LOCALS])
    segment.attributes = <const Attribute *> (base + header.begins[ATTRIBUTES])
    segment.bounds = <const double *> (base + header.begins[BOUNDS])
    segment.ordered = <const uint32_t *> (base + header.begins[ORDERED])
    segment.owners = <const uint32_t *> (base + header.begins[OWNERS])
    segment.columns = <const Column *> (base + header.begins[COLUMNS])
    segment.cuts = <const uint64_t *> (base + header.begins[CUTS])
    segment.groups = <const Group *> (base + header.begins[GROUPS])
    segment.codes = base + header.begins[CODES]
    segment.members = <const Member *> (base + header.begins[MEMBERS])
    segment.always = <const uint32_t *> (base + header.begins[ALWAYS])

cdef inline const Record *record_at(const Segment *segment, uint32_t place) noexcept nogil:
    tidings_check(8 * <uint64_t> place < segment.header.sizes[RECORDS])
    return <const Record *> (segment.records + 8 * <size_t> place)


# Hashes of keys

cdef inline uint64_t key_hash(int kind, uint32_t size, uint32_t attribute, uint64_t content) \
        noexcept nogil:
    """The hash of a key; never zero, which means an empty cell."""
    return tidings_mix(content, <uint64_t> attribute << 16 | size << 8 | <uint64_t> kind) | 1

cdef inline uint32_t first_cell(const Header *header, uint64_t hash) noexcept nogil:
    """Where a key is, unless others are there. Keys in the order of hashes have cells in order."""
    return <uint32_t> ((hash >> 32) * header.cells >> 32)

cdef inline uint32_t next_cell(const Header *header, uint32_t cell) noexcept nogil:
    return cell + 1 if cell + 1 < header.cells else 0

cdef inline uint64_t gram_content(const uint8_t *at, uint32_t size) noexcept nogil:
    cdef uint64_t content = at[0]
    if size > 1:
        content |= <uint64_t> at[1] << 8
    if size > 2:
        content |= <uint64_t> at[2] << 16
    return content


# Searching

ctypedef struct Entry:  # of the log
    const Record *record  # NULL: the subscription is removed
    uint32_t number

ctypedef struct Codes:
    uint32_t stamp  # the search that computed it; of another one: the event has no value there
    uint8_t low  # of the values of the column, the lowest code and the highest
    uint8_t high

ctypedef struct Tried:
    uint32_t stamp  # the search that looked at the cell
    uint32_t cell

ctypedef struct Search:
    EventData event
    uint64_t *seen  # bits by number: found, and may be found once more
    size_t seen_count  # numbers that these bits are about
    uint32_t *marked  # the numbers with such a bit, so that only their bits need to be cleared
    size_t marked_count
    size_t marked_room
    uint32_t *found
    size_t found_count
    size_t found_room
    bint wants_ids  # ids of ordered lists are found as objects (borrowed) where there are such
    PyObject **ids
    size_t id_count
    size_t id_room
    const Record **asked  # records that only lack their residual
    size_t asked_count
    size_t asked_room
    const uint64_t *removed  # numbers removed, as bits
    size_t removed_count  # numbers that these bits are about
    uint64_t late[16]  # numbers that the log removes: a filter of bits,
    const Entry *late_entries  # and where they are
    uint32_t late_count  # entries to look at; zero if the log removes nothing
    size_t enough  # end when so many are found
    Codes *codes  # by 1 + the column; the first holds everything
    size_t code_room
    uint32_t code_stamp
    Tried *tried  # a hash table: cells that several values may lead to
    uint32_t tried_count
    uint32_t tried_room
    uint64_t checked  # records that were tested
    uint64_t visited  # blocks of which the codes were compared
    uint64_t probed  # cells that were looked at

cdef enum:
    NO_MEMBER = 0xFFFFFFFF
    MOST_ROWS = 64  # events that are searched for together, at most 64
    AHEAD = 16  # blocks that are on their way from memory

ctypedef struct Candidates:
    const Member *members  # of a block
    uint64_t mask  # those that have the event's values in their first three ranges

ctypedef struct Rows:  # events that go through a segment together, so that they share its memory
    Search searches[MOST_ROWS]
    int count
    uint64_t *having  # by attribute of the segment: the rows that have it, as bits
    uint32_t *touched  # the attributes that some row has
    uint32_t touched_count
    size_t room

cdef bint is_late(const Search *search, uint32_t number) noexcept nogil:
    cdef uint32_t i
    for i in range(search.late_count):
        if search.late_entries[i].number == number and search.late_entries[i].record == NULL:
            return True
    return False

cdef inline bint is_removed(const Search *search, uint32_t number) noexcept nogil:
    if number < search.removed_count and search.removed[number >> 6] >> (number & 63) & 1:
        return True
    return (
        search.late_count and search.late[number >> 6 & 15] >> (number & 63) & 1
        and is_late(search, number)
    )

cdef inline bint is_seen(const Search *search, uint32_t number) noexcept nogil:
    return search.seen[number >> 6] >> (number & 63) & 1

cdef int mark_seen(Search *search, uint32_t number) except -1 nogil:
    tidings_check(number < search.seen_count)
    if search.marked_count == search.marked_room:
        search.marked_room = 2 * search.marked_room + 64
        search.marked = <uint32_t *> enlarged(search.marked, search.marked_room * sizeof(uint32_t))
    search.marked[search.marked_count] = number
    search.marked_count += 1
    search.seen[number >> 6] |= <uint64_t> 1 << (number & 63)
    return 0

cdef int emit(Search *search, uint32_t number, bint shared) except -1 nogil:
    """A subscription is found; once, even if several of its filters or values lead to it."""
    tidings_check(number < search.seen_count)
    if is_removed(search, number):
        return 0
    if search.found_count == search.found_room:
        search.found_room = 2 * search.found_room + 64
        search.found = <uint32_t *> enlarged(search.found, search.found_room * sizeof(uint32_t))
    if shared or search.event.several:
        if is_seen(search, number):
            return 0
        mark_seen(search, number)
    search.found[search.found_count] = number
    search.found_count += 1
    return 0

cdef bint are_all_found(const Search *search, const uint32_t *owners, size_t count) noexcept nogil:
    """Whether a list of owners is found as it is: none is removed or may be found before."""
    cdef uint32_t flags = 0
    cdef size_t i
    if search.event.several or search.removed_count or search.late_count:
        return False
    for i in range(count):
        tidings_check(number_in(owners[i]) < search.seen_count)
        flags |= owners[i]
    return not flags & SHARED

cdef int emit_owners(Search *search, const uint32_t *owners, size_t count) except -1 nogil:
    cdef size_t i
    if not are_all_found(search, owners, count):
        for i in range(count):
            emit(search, number_in(owners[i]), owners[i] & SHARED)
        return 0
    if search.found_count + count > search.found_room:
        search.found_room = 2 * (search.found_count + count)
        search.found = <uint32_t *> enlarged(search.found, search.found_room * sizeof(uint32_t))
    memcpy(search.found + search.found_count, owners, count * sizeof(uint32_t))
    search.found_count += count
    return 0

cdef int ask(Search *search, const Record *record) except -1 nogil:
    if search.asked_count == search.asked_room:
        search.asked_room = 2 * search.asked_room + 64
        search.asked = <const Record **> enlarged(
            <void *> search.asked, search.asked_room * sizeof(Record *)
        )
    search.asked[search.asked_count] = record
    search.asked_count += 1
    return 0

cdef int check(Search *search, const Record *record, bint shared) except -1 nogil:
    """Test a record, and note its subscription if the event satisfies it."""
    cdef uint32_t number = number_in(record.owner)
    cdef int answer
    tidings_check(number < search.seen_count)
    shared = shared or record.owner & SHARED
    if shared and is_seen(search, number):
        return 0
    search.checked += 1
    if not satisfied(record, &search.event):
        return 0
    if record.residual:
        answer = fields_hold(record, &search.event)
        if answer == NO:
            return 0
        if answer == UNSURE or not record.residual & IF_UNSURE:
            return 0 if is_removed(search, number) else ask(search, record)
    return emit(search, number, shared)

cdef bint is_tried(Search *search, uint32_t cell) except -1 nogil:
    """Whether this search has looked at a cell before; from now on it has.

    Else an event of equal values, or a text of equal grams, would test the same records each time.
    """
    cdef Tried *old = search.tried
    cdef uint32_t room = search.tried_room, i, at
    if 2 * search.tried_count >= room:
        search.tried_room = 4 * room if room else 16
        search.tried = <Tried *> zeroed(search.tried_room * sizeof(Tried))
        search.tried_count = 0
        for i in range(room):
            if old[i].stamp == search.code_stamp:
                is_tried(search, old[i].cell)
        free(old)
    at = (cell * 0x9E3779B1u) >> 7 & (search.tried_room - 1)
    while search.tried[at].stamp == search.code_stamp:
        if search.tried[at].cell == cell:
            return True
        at = (at + 1) & (search.tried_room - 1)
    search.tried[at].stamp = search.code_stamp
    search.tried[at].cell = cell
    search.tried_count += 1
    return False

cdef int probe(const Segment *segment, Search *search, uint64_t hash, bint shared) except -1 nogil:
    """Test the records of a key."""
    cdef uint32_t at = first_cell(segment.header, hash)
    cdef const Cell *cell
    cdef const uint32_t *entry
    cdef const Record *record
    cdef uint32_t exact, i
    search.probed += 1
    while True:
        cell = &segment.cells[at]
        if cell.hash == hash:
            break
        if cell.hash == 0:
            return 0
        at = next_cell(segment.header, at)
    if (shared or search.event.several) and is_tried(search, at):
        return 0
    if cell.count == 1:
        return check(search, record_at(segment, cell.entry), shared)
    # Its list: how many are exact, a record that stands for these, their owners, the other records.
    entry = segment.entries + cell.entry
    exact = entry[0]
    if exact:
        search.checked += 1
        if satisfied(record_at(segment, entry[1]), &search.event):
            if shared:
                for i in range(exact):
                    emit(search, number_in(entry[2 + i]), True)
            else:
                emit_owners(search, entry + 2, exact)
    for i in range(exact, cell.count):
        record = record_at(segment, entry[2 + i])
        if i + 2 < cell.count:
            tidings_prefetch(segment.records + 8 * <size_t> entry[4 + i])
        check(search, record, shared)
    return 0

cdef const Attribute *local_attribute(const Segment *segment, uint32_t attribute) noexcept nogil:
    """What a segment knows of an attribute; NULL if nothing."""
    cdef uint32_t mask = segment.header.local_mask
    cdef uint32_t at = (attribute * 0x9E3779B1u) >> 7 & mask
    cdef uint32_t local
    while True:
        local = segment.locals[at]
        if local == 0:
            return NULL
        if segment.attributes[local - 1].attribute == attribute:
            return &segment.attributes[local - 1]
        at = (at + 1) & mask

cdef int probe_text(const Segment *segment, Search *search, const Attribute *local,
                    const Value *value) except -1 nogil:
    cdef const uint8_t *text = search.event.text + value.at
    cdef uint64_t seed = search.event.seed
    cdef uint32_t attribute = local.attribute
    cdef uint32_t kinds = local.kinds
    cdef uint32_t i, size
    if kinds & 1 << BY_TEXT:
        probe(segment, search, key_hash(BY_TEXT, 0, attribute, value.hash), False)
    if not kinds & (1 << BY_PREFIX | 1 << BY_SUFFIX | 1 << BY_GRAM):
        return 0
    for i in range(8):
        size = PREFIX_SIZES[i]
        if size > value.size:
            break
        if local.prefixes >> i & 1:
            probe(segment, search, key_hash(
                BY_PREFIX, size, attribute, tidings_hash(text, size, seed)), False)
        if local.suffixes >> i & 1:
            probe(segment, search, key_hash(
                BY_SUFFIX, size, attribute,
                tidings_hash(text + value.size - size, size, seed)), False)
    for size in range(1, 4):
        if local.grams >> size & 1 and value.size >= size:
            for i in range(value.size - size + 1):
                probe(segment, search, key_hash(
                    BY_GRAM, size, attribute, gram_content(text + i, size)), True)
    return 0

cdef int probe_values(const Segment *segment, Search *search, const Attribute *local) \
        except -1 nogil:
    cdef uint32_t attribute = local.attribute
    cdef const Value *value = first_value(&search.event, attribute)
    if local.kinds & 1 << BY_PRESENCE:
        probe(segment, search, key_hash(BY_PRESENCE, 0, attribute, 0), False)
    if not local.kinds & ~<uint32_t> (1 << BY_PRESENCE):
        return 0
    while value != NULL:
        if value.type == TEXT:
            probe_text(segment, search, local, value)
        elif value.type == BOOLEAN:
            if local.kinds & 1 << BY_TRUTH:
                probe(segment, search, key_hash(BY_TRUTH, 0, attribute, value.number.low), False)
        elif local.kinds & 1 << BY_NUMBER:
            probe(segment, search, key_hash(BY_NUMBER, 0, attribute, value.hash), False)
        value = next_value(&search.event, value)
    return 0


# Ordered lists

cdef inline bint bound_is_below(double bound, Number value, bint or_equal) noexcept nogil:
    if bound != value.high:
        return bound < value.high
    return value.low > 0 or (or_equal and value.low == 0)

cdef uint32_t numbers_below(const double *bounds, uint32_t count, Number value, bint or_equal) \
        noexcept nogil:
    """How many bounds are below a value, or equal to it."""
    cdef uint32_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) // 2
        if bound_is_below(bounds[middle], value, or_equal):
            low = middle + 1
        else:
            high = middle
    return low

cdef uint32_t texts_below(const Segment *segment, const uint32_t *records, uint32_t count,
                          Span value, bint or_equal) noexcept nogil:
    cdef uint32_t low = 0, high = count, middle
    cdef int order
    while low < high:
        middle = (low + high) // 2
        order = compare_texts(text_of(first_test(record_at(segment, records[middle]))), value)
        if order < 0 or (or_equal and order == 0):
            low = middle + 1
        else:
            high = middle
    return low

cdef int emit_ids(const Segment *segment, Search *search, size_t first, size_t count) \
        except -1 nogil:
    """The owners of a run of ordered lists as objects, which lie there in the same order."""
    cdef size_t i, used
    cdef uint32_t owner
    if search.id_count + count > search.id_room:
        search.id_room = 2 * (search.id_count + count)
        search.ids = <PyObject **> enlarged(search.ids, search.id_room * sizeof(PyObject *))
    used = search.id_count
    if are_all_found(search, segment.owners + first, count):
        memcpy(search.ids + used, segment.ids + first, count * sizeof(PyObject *))
        search.id_count += count
        return 0
    for i in range(first, first + count):
        owner = segment.owners[i]
        if owner & SHARED:
            emit(search, number_in(owner), True)
        elif not is_removed(search, owner):
            search.ids[used] = segment.ids[i]
            used += 1
    search.id_count = used
    return 0

cdef int emit_ordered(const Segment *segment, Search *search, const OrderedList *list, int kind,
                      uint32_t below) except -1 nogil:
    """The owners of the bounds on the right side of a value; `below` are below it."""
    cdef bint above = kind == ABOVE or kind == AT_LEAST
    cdef size_t first = list.begin + (0 if above else below)
    cdef size_t count = below if above else list.count - below
    if count == 0:
        return 0
    if search.wants_ids and segment.ids != NULL and not search.event.several:
        return emit_ids(segment, search, first, count)
    return emit_owners(search, segment.owners + first, count)

cdef int search_ordered(const Segment *segment, Search *search, const Attribute *local) \
        except -1 nogil:
    """Of several values the highest decides what is above a bound, the lowest what is below."""
    cdef const Value *value = first_value(&search.event, local.attribute)
    cdef const Value *ends[4]
    cdef const OrderedList *list
    cdef int kind, side
    cdef Number number
    cdef size_t numbers = segment.header.sizes[BOUNDS] // sizeof(double)  # lists of numbers first
    memset(ends, 0, sizeof(ends))  # highest number, lowest number, highest text, lowest text
    while value != NULL:
        if value.type == TEXT:
            if ends[2] == NULL or compare_texts(
                    text_in(&search.event, value), text_in(&search.event, ends[2])) > 0:
                ends[2] = value
            if ends[3] == NULL or compare_texts(
                    text_in(&search.event, value), text_in(&search.event, ends[3])) < 0:
                ends[3] = value
        elif value.type != BOOLEAN and value.number.high == value.number.high:
            if ends[0] == NULL or compare_numbers(value.number, ends[0].number) > 0:
                ends[0] = value
            if ends[1] == NULL or compare_numbers(value.number, ends[1].number) < 0:
                ends[1] = value
        value = next_value(&search.event, value)
    for kind in range(4):
        side = 0 if kind <= AT_LEAST else 1
        list = &local.lists[kind]
        if list.count and ends[side] != NULL:
            number = ends[side].number
            emit_ordered(segment, search, list, kind, numbers_below(
                segment.bounds + list.begin, list.count, number,
                kind == AT_LEAST or kind == BELOW))
        list = &local.lists[4 + kind]
        if list.count and ends[2 + side] != NULL:
            emit_ordered(segment, search, list, kind, texts_below(
                segment, segment.ordered + (list.begin - numbers), list.count,
                text_in(&search.event, ends[2 + side]), kind == AT_LEAST or kind == BELOW))
    return 0


# Blocks

cdef inline uint8_t code_of(const uint64_t *cuts, uint32_t count, uint64_t order) noexcept nogil:
    """How many cuts are at or below a value."""
    cdef uint32_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) // 2
        if cuts[middle] <= order:
            low = middle + 1
        else:
            high = middle
    return <uint8_t> low

cdef bint order_of(const EventData *event, const Value *value, bint is_text, uint64_t *order) \
        noexcept nogil:
    """Where a value is in the order of a column; whether it belongs there."""
    if is_text:
        if value.type != TEXT:
            return False
        order[0] = tidings_order_of_text(event.text + value.at, value.size, 0)
        return True
    if not value.type & (INTEGER | REAL) or value.number.high != value.number.high:
        return False
    order[0] = tidings_order_of_double(value.number.high)
    return True

cdef void compute_codes(const Segment *segment, Search *search, uint32_t place) noexcept nogil:
    """The codes of the event's values on a column, if it has some."""
    cdef Codes *codes = &search.codes[1 + place]
    cdef const Column *column = &segment.columns[place]
    cdef const Value *value
    cdef uint64_t order
    cdef uint8_t code
    value = first_value(&search.event, column.attribute)
    while value != NULL:
        if order_of(&search.event, value, column.is_text, &order):
            code = code_of(segment.cuts + column.begin, column.count, order)
            if codes.stamp != search.code_stamp:
                codes.stamp = search.code_stamp
                codes.low = codes.high = code
            codes.low = min(codes.low, code)
            codes.high = max(codes.high, code)
        value = next_value(&search.event, value)

cdef inline bint meets(const Search *search, uint32_t column, uint8_t low, uint8_t high) \
        noexcept nogil:
    cdef const Codes *codes = &search.codes[column]
    return (codes.stamp == search.code_stamp) & (low <= codes.high) & (high >= codes.low)

cdef int check_candidates(const Segment *segment, Search *search, const Candidates *candidates,
                          uint32_t count) except -1 nogil:
    """Compare the ranges that filters of some blocks have beyond three, then test their records."""
    cdef const Member *member
    cdef const Extra *extra
    cdef uint64_t mask
    cdef uint32_t i
    for i in range(count):
        mask = candidates[i].mask
        while mask:
            member = candidates[i].members + tidings_lowest(mask)
            mask &= mask - 1
            extra = member.extra
            # The last block of a group may not be full.
            if member.record != NO_MEMBER and \
                    meets(search, extra[0].column, extra[0].low, extra[0].high) and \
                    meets(search, extra[1].column, extra[1].low, extra[1].high):
                check(search, record_at(segment, member.record), False)
    return 0

cdef inline uint64_t meeting(const uint8_t *codes, const Codes *const *values, uint32_t sides) \
        noexcept nogil:
    """Which of 64 filters or boxes have the event's values in all their ranges."""
    cdef uint64_t mask = tidings_meet(codes, values[0].low, values[0].high)
    if mask and sides > 1:
        mask &= tidings_meet(codes + ENDS, values[1].low, values[1].high)
    return mask

cdef inline uint64_t meeting_third(const Search *search, const uint8_t *ends, uint64_t mask) \
        noexcept nogil:
    """Which of these filters have the event's values in their third range too."""
    cdef const uint16_t *columns = <const uint16_t *> (ends + ENDS)
    cdef uint64_t left = 0
    cdef int i
    while mask:  # without a branch that depends on the answer
        i = tidings_lowest(mask)
        mask &= mask - 1
        left |= <uint64_t> meets(search, columns[i], ends[i], ends[BLOCK + i]) << i
    return left

cdef inline const uint8_t *codes_of(const Segment *segment, const Group *group) noexcept nogil:
    """The codes of the blocks of a group, which are behind those of its boxes."""
    cdef size_t nodes = (group.count + BLOCK - 1) // BLOCK
    return segment.codes + (<size_t> group.codes + nodes * group.sides) * ENDS

cdef int search_blocks(const Segment *segment, Search *search, const Group *group,
                       const uint32_t *blocks, uint32_t count) except -1 nogil:
    """Find the filters of some blocks. Members are fetched before any is looked at."""
    cdef const Codes *values[SIDES]
    cdef Candidates candidates[AHEAD]
    cdef Candidates *last = candidates
    cdef uint32_t sides = group.sides, width = sides * ENDS, i
    cdef const uint8_t *first = codes_of(segment, group)
    cdef const uint8_t *codes
    cdef uint64_t mask
    tidings_check(count <= AHEAD)
    for i in range(sides):
        values[i] = &search.codes[1 + group.columns[i]]
    for i in range(count):
        codes = first + <size_t> blocks[i] * (width + 2 * ENDS)
        mask = meeting(codes, values, sides)
        if mask:
            mask = meeting_third(search, codes + width, mask)
        if mask == 0:
            continue
        last.members = segment.members + BLOCK * (<size_t> group.begin + blocks[i])
        last.mask = mask
        while mask:
            tidings_prefetch(last.members + tidings_lowest(mask))
            mask &= mask - 1
        last += 1
    search.visited += count
    return check_candidates(segment, search, candidates, <uint32_t> (last - candidates))

cdef int search_group(const Segment *segment, Search *search, const Group *group) except -1 nogil:
    """Find the filters of a group. Codes of blocks are fetched before any is looked at."""
    cdef const Codes *values[SIDES]
    cdef uint32_t blocks[AHEAD]
    cdef uint32_t waiting = 0
    cdef uint32_t sides = group.sides, width = sides * ENDS, i, block
    cdef size_t nodes = (group.count + BLOCK - 1) // BLOCK, node
    cdef const uint8_t *boxes = segment.codes + <size_t> group.codes * ENDS
    cdef const uint8_t *first = codes_of(segment, group)
    cdef uint64_t hit
    for i in range(sides):
        values[i] = &search.codes[1 + group.columns[i]]
        if values[i].stamp != search.code_stamp:
            return 0
    for node in range(nodes):
        hit = meeting(boxes + node * width, values, sides)
        while hit:
            block = <uint32_t> (BLOCK * node + tidings_lowest(hit))
            hit &= hit - 1
            if block >= group.count:
                break
            if nodes > 1:  # else they are in a cache, most likely
                for i in range(0, width + 2 * ENDS, 64):
                    tidings_prefetch(first + <size_t> block * (width + 2 * ENDS) + i)
            blocks[waiting] = block
            waiting += 1
            if waiting == AHEAD:
                search_blocks(segment, search, group, blocks, waiting)
                waiting = 0
    return search_blocks(segment, search, group, blocks, waiting) if waiting else 0

cdef int prepare_codes(const Segment *segment, Search *search) except -1 nogil:
    cdef size_t columns = 1 + segment.header.sizes[COLUMNS] // sizeof(Column)
    if columns > search.code_room:
        search.codes = <Codes *> enlarged(search.codes, 2 * columns * sizeof(Codes))
        memset(search.codes + search.code_room, 0, (2 * columns - search.code_room) * sizeof(Codes))
        search.code_room = 2 * columns
    search.tried_count = 0
    search.code_stamp += 1
    if search.code_stamp == 0:
        memset(search.codes, 0, search.code_room * sizeof(Codes))
        if search.tried != NULL:
            memset(search.tried, 0, search.tried_room * sizeof(Tried))
        search.code_stamp = 1
    search.codes[0].stamp = search.code_stamp
    search.codes[0].high = 255
    return 0

cdef int match_lists(const Segment *segment, Search *search, Rows *rows, int row) \
        except -1 nogil:
    """Find subscriptions by keys and in order, and note the attributes that may have blocks."""
    cdef const Attribute *local
    cdef uint32_t i, side, place
    prepare_codes(segment, search)
    for i in range(segment.header.sizes[ALWAYS] // sizeof(uint32_t)):
        check(search, record_at(segment, segment.always[i]), False)
    for i in range(search.event.present_count):
        if search.found_count >= search.enough:
            return 0
        local = local_attribute(segment, search.event.present[i])
        if local == NULL:
            continue
        if local.kinds:
            probe_values(segment, search, local)
        if local.ordered:
            search_ordered(segment, search, local)
        for side in range(2):
            if local.columns[side]:
                compute_codes(segment, search, local.columns[side] - 1)
        if local.group_counts[0] or local.group_counts[1]:
            place = <uint32_t> (local - segment.attributes)
            if rows.having[place] == 0:
                rows.touched[rows.touched_count] = place
                rows.touched_count += 1
            rows.having[place] |= <uint64_t> 1 << row
    return 0

cdef int match_segment(const Segment *segment, Rows *rows) except -1 nogil:
    """Find the subscriptions of a segment that events satisfy, group by group of its blocks."""
    cdef const Attribute *local
    cdef const Group *group
    cdef Search *search
    cdef uint64_t having
    cdef uint32_t i, j, side
    prepare_rows(rows, segment.header.sizes[ATTRIBUTES] // sizeof(Attribute))
    for i in range(rows.count):
        match_lists(segment, &rows.searches[i], rows, i)
    for i in range(rows.touched_count):
        local = &segment.attributes[rows.touched[i]]
        for side in range(2):
            for j in range(local.group_counts[side]):
                group = &segment.groups[local.groups[side] + j]
                having = rows.having[rows.touched[i]]
                while having:
                    search = &rows.searches[tidings_lowest(having)]
                    having &= having - 1
                    if search.found_count < search.enough:
                        search_group(segment, search, group)
    return 0

cdef int prepare_rows(Rows *rows, size_t attributes) except -1 nogil:
    cdef uint32_t i
    for i in range(rows.touched_count):
        rows.having[rows.touched[i]] = 0
    rows.touched_count = 0
    if attributes > rows.room:
        rows.having = <uint64_t *> enlarged(rows.having, attributes * sizeof(uint64_t))
        memset(rows.having + rows.room, 0, (attributes - rows.room) * sizeof(uint64_t))
        rows.touched = <uint32_t *> enlarged(rows.touched, attributes * sizeof(uint32_t))
        rows.room = attributes
    return 0

cdef void free_rows(Rows *rows) noexcept nogil:
    cdef int i
    for i in range(MOST_ROWS):
        free_search(&rows.searches[i])
    free(rows.having)
    free(rows.touched)

cdef void free_search(Search *search) noexcept nogil:
    free_event(&search.event)
    free(search.seen)
    free(search.marked)
    free(search.found)
    free(search.ids)
    free(<void *> search.asked)
    free(search.codes)
    free(search.tried)
    memset(search, 0, sizeof(Search))
