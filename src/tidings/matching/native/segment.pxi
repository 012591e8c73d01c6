# A segment: filters compiled once, in one block of memory without pointers, never written again.
#
#     Header | records | cells | entries | attributes | ordered lists | columns | blocks | always
#
# An event finds a filter by one of four access paths:
#
#   a key      a hash of (attribute, kind, value): an equality, the beginning or the end of a text,
#              a run of its bytes (gram), or only that the attribute is present. One hash table.
#   order      a single comparison, in a list sorted by its bound; nothing is left to test.
#   a block    64 filters with ranges, each known by one-byte codes of its ends on two columns, and a
#              box around all of them. Codes only exclude; what remains is tested.
#   always     nothing but negations or residuals: tested with every event.

cdef enum:
    MAGIC = 0x54535347  # "TSSG"
    SEGMENT_VERSION = 1
    BLOCK = 64
    WITHIN = 32  # blocks in one outer box

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
    BOXES
    OUTER
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
    uint32_t cell_mask
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
    OrderedList lists[LISTS]

ctypedef struct Column:
    uint32_t attribute
    uint32_t is_text
    uint32_t begin  # of its cuts
    uint32_t count

ctypedef struct Group:
    uint32_t first  # its columns; the second is 1 + the column, or zero if there is none
    uint32_t second
    uint32_t begin  # of its blocks
    uint32_t count
    uint32_t outer  # of its outer boxes, each around up to WITHIN blocks

ctypedef struct Box:
    uint8_t low[2]
    uint8_t high[2]

ctypedef struct Extra:
    uint16_t column  # 1 + the column; zero: there is none
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
    const Box *boxes
    const Box *outer
    const uint8_t *codes
    const Member *members
    const uint32_t *always

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
    segment.boxes = <const Box *> (base + header.begins[BOXES])
    segment.outer = <const Box *> (base + header.begins[OUTER])
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
    uint32_t stamp  # the search that computed it
    uint8_t present
    uint8_t low  # of the values of the column, the lowest code and the highest
    uint8_t high

ctypedef struct Search:
    EventData event
    uint32_t *stamps  # by number: the event that found it last
    size_t stamp_count
    uint32_t stamp
    uint32_t *found
    size_t found_count
    size_t found_room
    const Record **asked  # records that only lack their residual
    size_t asked_count
    size_t asked_room
    const uint64_t *removed  # numbers removed, as bits
    size_t removed_count  # numbers that these bits are about
    uint64_t late[16]  # numbers that the log removes: a filter of bits,
    const Entry *late_entries  # and where they are
    uint32_t late_count  # entries to look at; zero if the log removes nothing
    size_t enough  # end when so many are found
    Codes *codes
    size_t code_room
    uint32_t code_stamp
    uint64_t checked  # records that were tested
    uint64_t visited  # blocks of which the codes were compared
    uint64_t probed  # cells that were looked at

cdef enum:
    NO_MEMBER = 0xFFFFFFFF

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

cdef int emit(Search *search, uint32_t number, bint shared) except -1 nogil:
    """A subscription is found; once, even if several of its filters or values lead to it."""
    tidings_check(number < search.stamp_count)
    if is_removed(search, number):
        return 0
    if shared or search.event.several:
        if search.stamps[number] == search.stamp:
            return 0
        search.stamps[number] = search.stamp
    if search.found_count == search.found_room:
        search.found_room = 2 * search.found_room + 64
        search.found = <uint32_t *> enlarged(search.found, search.found_room * sizeof(uint32_t))
    search.found[search.found_count] = number
    search.found_count += 1
    return 0

cdef int emit_owners(Search *search, const uint32_t *owners, size_t count) except -1 nogil:
    cdef size_t i
    for i in range(count):
        emit(search, number_in(owners[i]), owners[i] & SHARED)
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
    tidings_check(number < search.stamp_count)
    shared = shared or record.owner & SHARED
    if shared and search.stamps[number] == search.stamp:
        return 0
    search.checked += 1
    if not satisfied(record, &search.event):
        return 0
    if record.residual:
        return 0 if is_removed(search, number) else ask(search, record)
    return emit(search, number, shared)

cdef int probe(const Segment *segment, Search *search, uint64_t hash, bint shared) except -1 nogil:
    """Test the records of a key."""
    cdef uint32_t mask = segment.header.cell_mask
    cdef uint32_t at = <uint32_t> (hash >> 32) & mask
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
        at = (at + 1) & mask
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

cdef int emit_ordered(const Segment *segment, Search *search, const OrderedList *list, int kind,
                      uint32_t below) except -1 nogil:
    """The owners of the bounds on the right side of a value; `below` are below it."""
    cdef const uint32_t *owners = segment.owners + list.begin
    if kind == ABOVE or kind == AT_LEAST:
        return emit_owners(search, owners, below)
    return emit_owners(search, owners + below, list.count - below)

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

cdef inline const Codes *codes_of(const Segment *segment, Search *search, uint32_t place) \
        noexcept nogil:
    """The codes of the event's values on a column, computed once for a segment."""
    if search.codes[place].stamp != search.code_stamp:
        compute_codes(segment, search, place)
    return &search.codes[place]

cdef void compute_codes(const Segment *segment, Search *search, uint32_t place) noexcept nogil:
    cdef Codes *codes = &search.codes[place]
    cdef const Column *column = &segment.columns[place]
    cdef const Value *value
    cdef uint64_t order
    cdef uint8_t code
    codes.stamp = search.code_stamp
    codes.present = False
    value = first_value(&search.event, column.attribute)
    while value != NULL:
        if order_of(&search.event, value, column.is_text, &order):
            code = code_of(segment.cuts + column.begin, column.count, order)
            if not codes.present or code < codes.low:
                codes.low = code
            if not codes.present or code > codes.high:
                codes.high = code
            codes.present = True
        value = next_value(&search.event, value)

cdef inline bint box_meets(const Box *box, const Codes *first, const Codes *second) noexcept nogil:
    return (
        box.low[0] <= first.high and box.high[0] >= first.low
        and box.low[1] <= second.high and box.high[1] >= second.low
    )

cdef inline uint64_t block_survivors(const Segment *segment, size_t block, const Codes *first,
                                     const Codes *second, bint has_second) noexcept nogil:
    cdef const uint8_t *codes = segment.codes + 4 * BLOCK * block
    cdef uint64_t mask = tidings_meet(codes, first.low, first.high)
    if mask and has_second:
        mask &= tidings_meet(codes + 2 * BLOCK, second.low, second.high)
    return mask

cdef inline bint extra_meets(const Segment *segment, Search *search, const Extra *extra) \
        noexcept nogil:
    cdef const Codes *codes
    if extra.column == 0:
        return True
    codes = codes_of(segment, search, extra.column - 1)
    return codes.present and extra.low <= codes.high and extra.high >= codes.low

cdef int check_members(const Segment *segment, Search *search, size_t block, uint64_t mask) \
        except -1 nogil:
    cdef const Member *members = segment.members + BLOCK * block
    cdef const Member *member
    while mask:
        member = &members[tidings_lowest(mask)]
        mask &= mask - 1
        # The last block of a group may not be full.
        if member.record != NO_MEMBER and extra_meets(segment, search, &member.extra[0]) and \
                extra_meets(segment, search, &member.extra[1]):
            check(search, record_at(segment, member.record), False)
    return 0

cdef int search_group(const Segment *segment, Search *search, const Group *group) except -1 nogil:
    cdef const Codes *first = codes_of(segment, search, group.first)
    cdef const Codes *second
    cdef Codes everything
    cdef size_t block = group.begin, end = group.begin + group.count, outer, last
    cdef uint64_t mask
    if not first.present:
        return 0
    if group.second:
        second = codes_of(segment, search, group.second - 1)
        if not second.present:
            return 0
    else:
        everything.low, everything.high = 0, 255
        second = &everything
    outer = group.outer
    while block < end:
        last = min(block + WITHIN, end)
        if not box_meets(&segment.outer[outer], first, second):
            block = last
        outer += 1
        while block < last:
            if box_meets(&segment.boxes[block], first, second):
                search.visited += 1
                mask = block_survivors(segment, block, first, second, group.second != 0)
                if mask:
                    check_members(segment, search, block, mask)
            block += 1
    return 0

cdef int prepare_codes(const Segment *segment, Search *search) except -1 nogil:
    cdef size_t columns = segment.header.sizes[COLUMNS] // sizeof(Column)
    if columns > search.code_room:
        search.codes = <Codes *> enlarged(search.codes, 2 * columns * sizeof(Codes))
        memset(search.codes + search.code_room, 0, (2 * columns - search.code_room) * sizeof(Codes))
        search.code_room = 2 * columns
    search.code_stamp += 1
    if search.code_stamp == 0:
        memset(search.codes, 0, search.code_room * sizeof(Codes))
        search.code_stamp = 1
    return 0

cdef int match_segment(const Segment *segment, Search *search) except -1 nogil:
    """Find the subscriptions of a segment that the event satisfies."""
    cdef const Attribute *local
    cdef uint32_t i, j, side
    prepare_codes(segment, search)
    for i in range(segment.header.sizes[ALWAYS] // sizeof(uint32_t)):
        check(search, record_at(segment, segment.always[i]), False)
    for i in range(search.event.present_count):
        local = local_attribute(segment, search.event.present[i])
        if local == NULL:
            continue
        if local.kinds:
            probe_values(segment, search, local)
        search_ordered(segment, search, local)
        for side in range(2):
            for j in range(local.group_counts[side]):
                search_group(segment, search, &segment.groups[local.groups[side] + j])
        if search.found_count >= search.enough:
            return 0
    return 0

cdef void free_search(Search *search) noexcept nogil:
    free_event(&search.event)
    free(search.stamps)
    free(search.found)
    free(<void *> search.asked)
    free(search.codes)
    memset(search, 0, sizeof(Search))
