# Building a segment from records: no Python in it, so it runs without the GIL.
#
# Two passes over the tests. The first counts how often each key occurs and samples the bounds of
# each column; the second files every record under the access path that the fewest events should
# take. Then all lists are sorted and laid out in one block of memory.
#
# A share of events is estimated as if events looked like the filters: an attribute is as common as
# filters that mention it, a value as common as filters that ask for it. Statistics of events, if
# a test carries its rarity, take the place of that.

cdef enum:
    SIGNALS_EACH = 1 << 14  # records, after so many of which it looks for signals
    SAMPLES = 512  # bounds of a column that decide its cuts
    MOST_CUTS = 255
    RANGES = SIDES + 3  # of a filter that are kept as codes: those of its group, three more
    MOST_EXTRA = 65535  # columns that an extra range can name
    COLUMN_BITS = 21  # of a column in the key of a group
    MOST_COUNTERS = 1 << 20  # of keys; as many as a processor has near
    TEXT_LIST = 0x80000000  # while sorting: lists of texts come behind all others

# What a filter in a block costs an event that has the columns, in tests of a record.
cdef double PER_BLOCK = 0.02

# Filters that deserve a group of one column or of two. A group costs every event that has its
# columns, and the second column excludes most of what the first does not.
cdef uint32_t FEW[SIDES + 1]
FEW[:] = [0, 12, 32]

cdef enum:  # access paths, as in Header.by_path
    PATH_KEY
    PATH_ORDER
    PATH_BLOCK
    PATH_ALWAYS

ctypedef struct KeyEntry:
    uint64_t hash
    uint32_t record
    uint32_t exact

ctypedef struct OrderEntry:
    uint64_t order
    uint32_t list  # LISTS times the local attribute, plus the kind
    uint32_t record

ctypedef struct BlockRange:
    uint32_t column  # 1 + twice the local attribute, plus 1 for texts; zero: there is none
    uint8_t low
    uint8_t high

ctypedef struct BlockEntry:
    uint64_t group  # the columns that it is filed under, as `group_key` has them
    uint32_t record
    uint32_t sides  # how many these are
    BlockRange ranges[RANGES]  # those that the group prefers come first

ctypedef struct BlockPlace:
    uint64_t key  # by which it is sorted
    uint32_t entry
    uint32_t unused

ctypedef struct Samples:
    uint64_t *orders
    uint32_t count
    uint32_t seen
    uint32_t cuts  # how many of the orders are cuts, in the end
    uint32_t column  # 1 + the number of the column, if some block uses it

ctypedef struct Local:
    Attribute attribute
    uint32_t mentions  # filters
    uint32_t last  # 1 + the last of them
    uint32_t totals[KEY_KINDS]  # keys of each kind
    Samples samples[2]

ctypedef struct Range:
    uint64_t low
    uint64_t high
    int is_text

ctypedef struct Builder:
    const Record *const *records
    size_t count
    uint64_t seed
    Local *locals
    uint32_t local_count
    uint32_t local_room
    uint32_t *local_table
    uint32_t local_mask
    uint32_t *counters  # how often keys occur; those of several keys may be one
    size_t counter_mask
    KeyEntry *key_entries
    size_t key_entry_count
    size_t key_entry_room
    OrderEntry *order_entries
    size_t order_count
    size_t order_room
    BlockEntry *block_entries
    BlockPlace *block_places  # the order of the entries
    size_t block_count
    size_t block_room
    uint32_t *always
    size_t always_count
    size_t always_room
    uint32_t *places  # of each record, in the new segment
    void *scratch

cdef void free_builder(Builder *b) noexcept nogil:
    cdef uint32_t i
    for i in range(b.local_count):
        free(b.locals[i].samples[0].orders)
        free(b.locals[i].samples[1].orders)
    free(b.locals)
    free(b.local_table)
    free(b.counters)
    free(b.key_entries)
    free(b.order_entries)
    free(b.block_entries)
    free(b.block_places)
    free(b.always)
    free(b.places)
    free(b.scratch)


# Attributes of the segment

cdef int grow_locals(Builder *b) except -1 nogil:
    cdef uint32_t i, at, size = 16
    b.local_room = 2 * b.local_room + 8
    b.locals = <Local *> enlarged(b.locals, b.local_room * sizeof(Local))
    while size < 2 * b.local_room:
        size *= 2
    b.local_table = <uint32_t *> enlarged(b.local_table, size * sizeof(uint32_t))
    memset(b.local_table, 0, size * sizeof(uint32_t))
    b.local_mask = size - 1
    for i in range(b.local_count):
        at = (b.locals[i].attribute.attribute * 0x9E3779B1u) >> 7 & b.local_mask
        while b.local_table[at]:
            at = (at + 1) & b.local_mask
        b.local_table[at] = i + 1
    return 0

cdef Local *local_of(Builder *b, uint32_t attribute) except NULL nogil:
    """What the builder knows of an attribute, which is new or not."""
    cdef uint32_t at, local
    if b.local_count == b.local_room:
        grow_locals(b)
    at = (attribute * 0x9E3779B1u) >> 7 & b.local_mask
    while True:
        local = b.local_table[at]
        if local == 0:
            break
        if b.locals[local - 1].attribute.attribute == attribute:
            return &b.locals[local - 1]
        at = (at + 1) & b.local_mask
    memset(&b.locals[b.local_count], 0, sizeof(Local))
    b.locals[b.local_count].attribute.attribute = attribute
    b.local_count += 1
    b.local_table[at] = b.local_count
    return &b.locals[b.local_count - 1]


# Keys of a test

ctypedef struct Keys:
    int kind
    uint32_t size  # of a prefix, a suffix or a gram
    uint32_t bit  # of that size in Attribute
    uint32_t count
    bint every  # a record is filed under every key (members of a list), not under one of them
    Span text

cdef Keys piece_of(Span pattern) noexcept nogil:
    """The longest piece of a pattern between wildcards, and where a value must have it."""
    cdef Keys keys
    cdef size_t begin = 0, at
    memset(&keys, 0, sizeof(Keys))
    keys.kind = BY_PRESENCE
    for at in range(pattern.size + 1):
        if at == pattern.size or pattern.at[at] >= ANY_TEXT:
            if at - begin > keys.text.size:
                keys.text.at = pattern.at + begin
                keys.text.size = at - begin
                keys.kind = BY_PREFIX if begin == 0 else \
                    BY_SUFFIX if at == pattern.size else BY_GRAM
            begin = at + 1
    return keys

cdef Keys keys_of(const Test *test) noexcept nogil:
    """The keys that values find a test by; if there are no others, by their presence."""
    cdef Keys keys
    cdef int op = test.op
    memset(&keys, 0, sizeof(Keys))
    keys.kind = BY_PRESENCE
    keys.count = 1
    if op == IS_TRUE or op == IS_FALSE:
        keys.kind = BY_TRUTH
    elif op == NUMBER_EQ:
        keys.kind = BY_NUMBER
    elif op == NUMBER_IN or op == TEXT_IN:
        keys.kind = BY_NUMBER if op == NUMBER_IN else BY_TEXT
        keys.count = half(payload(test), 0)
        keys.every = True
    elif op == TEXT_EQ:
        keys.kind = BY_TEXT
        keys.text = text_of(test)
    elif op == PREFIX or op == SUFFIX or op == CONTAINS:
        keys.kind = BY_PREFIX if op == PREFIX else \
            BY_SUFFIX if op == SUFFIX else BY_GRAM
        keys.text = text_of(test)
    elif op == LIKE:
        keys = piece_of(text_of(test))
        keys.count = 1
    if keys.kind >= BY_PREFIX and keys.text.size == 0:
        keys.kind = BY_PRESENCE
    if keys.kind == BY_GRAM:
        keys.size = min(keys.text.size, 3)
        keys.bit = 1 << keys.size
        keys.count = <uint32_t> min(keys.text.size - keys.size + 1, 64)
    elif keys.kind >= BY_PREFIX:
        while keys.bit < 7 and PREFIX_SIZES[keys.bit + 1] <= keys.text.size:
            keys.bit += 1
        keys.size = PREFIX_SIZES[keys.bit]
        keys.bit = 1 << keys.bit
    return keys

cdef uint64_t key_at(const Test *test, const Keys *keys, uint32_t place, uint64_t seed) \
        noexcept nogil:
    """The hash of one of the keys of a test."""
    cdef uint64_t content = 0
    cdef const uint8_t *text = keys.text.at
    cdef Span member
    if keys.kind == BY_NUMBER:
        content = hash_number(number_at(test, place), seed)
    elif keys.kind == BY_TRUTH:
        content = test.op == IS_TRUE
    elif keys.kind == BY_TEXT:
        member = text_member(test, place) if keys.every else keys.text
        content = tidings_hash(member.at, member.size, seed)
    elif keys.kind == BY_PREFIX:
        content = tidings_hash(text, keys.size, seed)
    elif keys.kind == BY_SUFFIX:
        content = tidings_hash(text + keys.text.size - keys.size, keys.size, seed)
    elif keys.kind == BY_GRAM:
        content = gram_content(text + place, keys.size)
    return key_hash(keys.kind, keys.size, test.attribute, content)

cdef int start_counters(Builder *b, uint64_t bytes) except -1 nogil:
    """Make counters for the keys of records of so many bytes, in which a key takes eight or so.

    A counter may count several keys, so it may say too much. That costs an event a little, but
    looking at one counter of a million is quick, and at one of all keys it is not.
    """
    cdef size_t size = 16
    while size < MOST_COUNTERS and 8 * size < bytes:
        size *= 2
    b.counters = <uint32_t *> zeroed(size * sizeof(uint32_t))
    b.counter_mask = size - 1
    return 0

cdef inline uint32_t *counter_of(const Builder *b, uint64_t hash) noexcept nogil:
    return &b.counters[<size_t> (hash >> 32) & b.counter_mask]


# Ranges of a test

cdef bint range_of(const Test *test, Range *span) noexcept nogil:
    """The values of a test in the order of a column, if it is a range."""
    cdef int op = test.op
    cdef Span text, upper
    span.low, span.high = 0, UINT64_MAX
    span.is_text = op >= TEXT_EQ
    if op == NUMBER_EQ:
        span.low = span.high = tidings_order_of_double(number_at(test, 0).high)
    elif op == NUMBER_LT or op == NUMBER_LE:
        span.high = tidings_order_of_double(number_at(test, 0).high)
    elif op == NUMBER_GT or op == NUMBER_GE:
        span.low = tidings_order_of_double(number_at(test, 0).high)
    elif op == NUMBER_BETWEEN:
        span.low = tidings_order_of_double(number_at(test, 0).high)
        span.high = tidings_order_of_double(number_at(test, 1).high)
    elif op == TEXT_BETWEEN:
        text, upper = text_bound(test, 0), text_bound(test, 1)
        span.low = tidings_order_of_text(text.at, text.size, 0)
        span.high = tidings_order_of_text(upper.at, upper.size, 0)
    elif TEXT_LT <= op <= PREFIX:
        text = text_of(test)
        if op != TEXT_LT and op != TEXT_LE:
            span.low = tidings_order_of_text(text.at, text.size, 0)
        if op == PREFIX:
            span.high = tidings_order_of_text(text.at, text.size, 255)
        elif op == TEXT_LT or op == TEXT_LE:
            span.high = tidings_order_of_text(text.at, text.size, 0)
    else:
        return False
    return True

cdef int sample(Samples *samples, uint64_t order) except -1 nogil:
    """Keep a bound, or some of them if there are many."""
    cdef uint64_t place
    if samples.orders == NULL:
        samples.orders = <uint64_t *> enlarged(NULL, SAMPLES * sizeof(uint64_t))
    samples.seen += 1
    if samples.count < SAMPLES:
        samples.orders[samples.count] = order
        samples.count += 1
        return 0
    place = tidings_mix(samples.seen, 0) % samples.seen
    if place < SAMPLES:
        samples.orders[place] = order
    return 0

cdef int compare_orders(const void *one, const void *other) noexcept nogil:
    cdef uint64_t a = (<const uint64_t *> one)[0], b = (<const uint64_t *> other)[0]
    return (a > b) - (a < b)

cdef void cut(Samples *samples) noexcept nogil:
    """Turn the sampled bounds of a column into cuts: distinct ones, evenly spaced."""
    cdef uint32_t distinct = 0, i
    if samples.count == 0:
        return
    qsort(samples.orders, samples.count, sizeof(uint64_t), compare_orders)
    for i in range(samples.count):
        if distinct == 0 or samples.orders[i] != samples.orders[distinct - 1]:
            samples.orders[distinct] = samples.orders[i]
            distinct += 1
    samples.cuts = min(distinct, <uint32_t> MOST_CUTS)
    if distinct > MOST_CUTS:
        for i in range(MOST_CUTS):
            samples.orders[i] = samples.orders[<uint64_t> i * distinct // MOST_CUTS]


# The first pass

cdef int look_at(Builder *b, uint32_t place) except -1 nogil:
    """Count the keys and sample the bounds of a record."""
    cdef const Record *record = b.records[place]
    cdef const Test *test = first_test(record)
    cdef Local *local
    cdef Keys keys
    cdef Range span
    cdef uint32_t i, j
    for i in range(record.tests):
        if i:
            test = next_test(test)
        if test.flags & NEGATED:
            continue
        local = local_of(b, test.attribute)
        if local.last != place + 1:
            local.last = place + 1
            local.mentions += 1
        keys = keys_of(test)
        if keys.kind != BY_PRESENCE:
            local.totals[keys.kind] += 1
            for j in range(keys.count):
                counter_of(b, key_at(test, &keys, j, b.seed))[0] += 1
        if range_of(test, &span):
            if span.low != 0:
                sample(&local.samples[span.is_text], span.low)
            if span.high != UINT64_MAX and span.high != span.low:
                sample(&local.samples[span.is_text], span.high)
    return 0


# The second pass

cdef inline double share_of(const Test *test, double estimate) noexcept nogil:
    """The share of events that satisfy a test: what statistics say, else an estimate."""
    return exp2(-0.125 * (test.rarity - 1)) if test.rarity else estimate

ctypedef struct Choice:
    double share
    const Test *test
    Keys keys
    uint32_t key  # which of them, unless the record is filed under every key

cdef void weigh_keys(Builder *b, const Test *test, const Local *local, Choice *best) noexcept nogil:
    """Choose the keys of a test if few events should have them."""
    cdef Keys keys = keys_of(test)
    cdef double presence = (local.mentions + 1.0) / (b.count + 1.0)
    cdef double total = local.totals[keys.kind] + 1.0
    cdef double share = 0.0, one
    cdef uint32_t j, rarest = 0
    if keys.kind == BY_PRESENCE:
        share = share_of(test, presence)
    else:
        for j in range(keys.count):
            one = presence * counter_of(b, key_at(test, &keys, j, b.seed))[0] / total
            if keys.every or j == 0:
                share += one
            elif one < share:
                share, rarest = one, j
        if keys.kind == BY_GRAM:
            share *= 4.0  # a value has many
        share = share_of(test, share)
    if best.test == NULL or share < best.share:
        best.share, best.test, best.keys, best.key = share, test, keys, rarest

ctypedef struct Side:
    double share
    double presence  # of the attribute
    uint32_t column  # twice the local attribute, plus 1 for texts
    uint8_t low
    uint8_t high

cdef void weigh_range(Builder *b, const Test *test, uint32_t place, Side *sides) noexcept nogil:
    """Keep the narrowest columns, in their order."""
    cdef Range span
    cdef int at = RANGES - 1, i
    cdef Side side
    cdef const Samples *samples
    cdef const Local *local = &b.locals[place]
    if not range_of(test, &span):
        return
    samples = &local.samples[span.is_text]
    if samples.cuts == 0 or place >= 1 << (COLUMN_BITS - 2):
        return
    side.column = 2 * place + span.is_text
    side.low = code_of(samples.orders, samples.cuts, span.low)
    side.high = code_of(samples.orders, samples.cuts, span.high)
    side.presence = (local.mentions + 1.0) / (b.count + 1.0)
    side.share = (side.high - side.low + 1.0) / (samples.cuts + 1.0) * side.presence
    side.share = share_of(test, side.share)
    for i in range(RANGES):  # a column once: with its narrower range
        if sides[i].column == side.column:
            if sides[i].share <= side.share:
                return
            at = i
            break
    if side.share >= sides[at].share:
        return
    while at and sides[at - 1].share > side.share:
        sides[at] = sides[at - 1]
        at -= 1
    sides[at] = side

cdef int list_of(const Record *record) noexcept nogil:
    """The ordered list that a single comparison belongs to; -1 if it is something else."""
    cdef const Test *test = first_test(record)
    cdef int kind
    if record.tests != 1 or record.residual or test.flags:
        return -1
    if NUMBER_LT <= test.op <= NUMBER_GE:
        if test.types != (INTEGER | REAL):
            return -1
        kind = test.op - NUMBER_LT
    elif TEXT_LT <= test.op <= TEXT_GE:
        kind = 4 + test.op - TEXT_LT
    else:
        return -1
    return kind ^ 2  # LT, LE, GT, GE as ABOVE, AT_LEAST, BELOW, AT_MOST

cdef int file_keys(Builder *b, uint32_t place, const Choice *best) except -1 nogil:
    cdef Local *local = local_of(b, best.test.attribute)
    cdef uint32_t j, first = 0 if best.keys.every else best.key
    cdef uint32_t last = best.keys.count if best.keys.every else best.key + 1
    cdef KeyEntry *entry
    local.attribute.kinds |= 1 << best.keys.kind
    if best.keys.kind == BY_PREFIX:
        local.attribute.prefixes |= best.keys.bit
    elif best.keys.kind == BY_SUFFIX:
        local.attribute.suffixes |= best.keys.bit
    elif best.keys.kind == BY_GRAM:
        local.attribute.grams |= best.keys.bit
    for j in range(first, last):
        if b.key_entry_count == b.key_entry_room:
            b.key_entry_room = 2 * b.key_entry_room + 64
            b.key_entries = <KeyEntry *> enlarged(
                b.key_entries, b.key_entry_room * sizeof(KeyEntry))
        entry = &b.key_entries[b.key_entry_count]
        b.key_entry_count += 1
        entry.hash = key_at(best.test, &best.keys, j, b.seed)
        entry.record = place
        entry.exact = b.records[place].tests == 1 and not b.records[place].residual
    return 0

cdef int file_ordered(Builder *b, uint32_t place, int kind) except -1 nogil:
    cdef const Test *test = first_test(b.records[place])
    cdef OrderEntry *entry
    if b.order_count == b.order_room:
        b.order_room = 2 * b.order_room + 64
        b.order_entries = <OrderEntry *> enlarged(
            b.order_entries, b.order_room * sizeof(OrderEntry))
    entry = &b.order_entries[b.order_count]
    b.order_count += 1
    entry.record = place
    entry.list = LISTS * <uint32_t> (local_of(b, test.attribute) - b.locals) + kind
    if kind < 4:
        entry.order = tidings_order_of_double(number_at(test, 0).high)
    else:
        entry.order = tidings_order_of_text(text_of(test).at, text_of(test).size, 0)
    return 0

cdef inline bint is_preferred(const Side *one, const Side *other) noexcept nogil:
    """The order of ranges in which groups take them: the narrower, and of those about as narrow
    the earlier column, so that filters come together in few groups."""
    cdef uint64_t a = tidings_order_of_double(one.share) >> 52
    cdef uint64_t b = tidings_order_of_double(other.share) >> 52
    return a < b or (a == b and one.column < other.column)

cdef int file_block(Builder *b, uint32_t place, Side *sides) except -1 nogil:
    cdef BlockEntry *entry
    cdef Side side
    cdef int i, j
    for i in range(1, RANGES):
        side = sides[i]
        j = i
        while j and is_preferred(&side, &sides[j - 1]):
            sides[j] = sides[j - 1]
            j -= 1
        sides[j] = side
    if b.block_count == b.block_room:
        b.block_room = 2 * b.block_room + 64
        b.block_entries = <BlockEntry *> enlarged(
            b.block_entries, b.block_room * sizeof(BlockEntry))
    entry = &b.block_entries[b.block_count]
    b.block_count += 1
    memset(entry, 0, sizeof(BlockEntry))
    entry.record = place
    for i in range(RANGES):
        if sides[i].share <= 1.0:
            entry.ranges[i].column = sides[i].column + 1
            entry.ranges[i].low, entry.ranges[i].high = sides[i].low, sides[i].high
    return 0

cdef int file_always(Builder *b, uint32_t place) except -1 nogil:
    if b.always_count == b.always_room:
        b.always_room = 2 * b.always_room + 64
        b.always = <uint32_t *> enlarged(b.always, b.always_room * sizeof(uint32_t))
    b.always[b.always_count] = place
    b.always_count += 1
    return 0

cdef int file_record(Builder *b, uint32_t place) except -1 nogil:
    """Choose the access path of a record; returns it."""
    cdef const Record *record = b.records[place]
    cdef const Test *test = first_test(record)
    cdef Choice best
    cdef Side sides[RANGES]
    cdef double by_range
    cdef uint32_t i
    cdef int kind = list_of(record)
    if kind >= 0:
        file_ordered(b, place, kind)
        return PATH_ORDER
    memset(&best, 0, sizeof(Choice))
    for i in range(RANGES):
        sides[i].share = 2.0  # none
        sides[i].column = UINT32_MAX
    for i in range(record.tests):
        if i:
            test = next_test(test)
        if not test.flags & NEGATED:
            weigh_keys(b, test, local_of(b, test.attribute), &best)
            weigh_range(b, test, <uint32_t> (local_of(b, test.attribute) - b.locals), sides)
    by_range = sides[0].share + PER_BLOCK * sides[0].presence
    if sides[1].share <= 1.0:
        by_range = sides[0].share * sides[1].share + \
            PER_BLOCK * sides[0].presence * sides[1].presence
    if sides[0].share <= 1.0 and (best.keys.kind == BY_PRESENCE or by_range < best.share):
        file_block(b, place, sides)
        return PATH_BLOCK
    if best.test != NULL:
        file_keys(b, place, &best)
        return PATH_KEY
    file_always(b, place)
    return PATH_ALWAYS


# Sorting

cdef int sort_words(Builder *b, void *items, size_t count, size_t width) except -1 nogil:
    """Sort items by the 64-bit number that each begins with, stably: radix sort by bytes."""
    cdef size_t counts[256]
    cdef size_t i, total, here
    cdef int shift
    cdef uint8_t *source = <uint8_t *> items
    cdef uint8_t *target
    cdef uint8_t *swap
    cdef uint64_t first, differ = 0
    if count < 2:
        return 0
    b.scratch = enlarged(b.scratch, count * width)
    target = <uint8_t *> b.scratch
    first = tidings_load(source)
    for i in range(1, count):
        differ |= first ^ tidings_load(source + i * width)
    for shift in range(0, 64, 8):
        if not differ >> shift & 255:
            continue
        memset(counts, 0, sizeof(counts))
        for i in range(count):
            counts[tidings_load(source + i * width) >> shift & 255] += 1
        total = 0
        for i in range(256):
            here = counts[i]
            counts[i] = total
            total += here
        for i in range(count):
            here = tidings_load(source + i * width) >> shift & 255
            memcpy(target + counts[here] * width, source + i * width, width)
            counts[here] += 1
        swap = source
        source = target
        target = swap
    if source != <uint8_t *> items:
        memcpy(items, source, count * width)
    return 0

cdef int compare_ordered(const void *one, const void *other) noexcept nogil:
    """Order entries by list; the order within a list is set already, and kept by `record`."""
    cdef const OrderEntry *a = <const OrderEntry *> one
    cdef const OrderEntry *b = <const OrderEntry *> other
    if a.list != b.list:
        return 1 if a.list > b.list else -1
    if a.order != b.order:
        return 1 if a.order > b.order else -1
    return 0

ctypedef struct TextEntry:
    OrderEntry entry
    Span text

cdef int compare_text_entries(const void *one, const void *other) noexcept nogil:
    cdef const TextEntry *a = <const TextEntry *> one
    cdef const TextEntry *b = <const TextEntry *> other
    cdef int order = compare_ordered(&a.entry, &b.entry)
    return order if order else compare_texts(a.text, b.text)

cdef int sort_ordered(Builder *b) except -1 nogil:
    """Sort the entries of ordered lists: lists of numbers before those of texts, then by bound."""
    cdef TextEntry *all
    cdef size_t i
    cdef OrderEntry *entry
    for i in range(b.order_count):
        entry = &b.order_entries[i]
        if entry.list % LISTS >= 4:
            entry.list |= TEXT_LIST  # behind all lists of numbers
    b.scratch = enlarged(b.scratch, max(b.order_count, <size_t> 1) * sizeof(TextEntry))
    all = <TextEntry *> b.scratch
    for i in range(b.order_count):
        all[i].entry = b.order_entries[i]
        all[i].text = text_of(first_test(b.records[b.order_entries[i].record])) \
            if all[i].entry.list & TEXT_LIST else NO_TEXT
    qsort(all, b.order_count, sizeof(TextEntry), compare_text_entries)
    for i in range(b.order_count):
        b.order_entries[i] = all[i].entry
        b.order_entries[i].list &= ~<uint32_t> TEXT_LIST
    return 0

# Groups of blocks

cdef inline BlockEntry *block_entry(const Builder *b, size_t place) noexcept nogil:
    return &b.block_entries[b.block_places[place].entry]

cdef size_t group_end(const Builder *b, size_t begin) noexcept nogil:
    cdef size_t end = begin
    while end < b.block_count and block_entry(b, end).group == block_entry(b, begin).group:
        end += 1
    return end

cdef void order_ranges(BlockEntry *entry, uint32_t sides) noexcept nogil:
    """Put the first ranges in the order of their columns, the latest first. By that one events find
    the group, and fewer have it than have an early one."""
    cdef BlockRange moved
    cdef uint32_t i, j
    for i in range(1, sides):
        moved = entry.ranges[i]
        j = i
        while j and entry.ranges[j - 1].column < moved.column:
            entry.ranges[j] = entry.ranges[j - 1]
            j -= 1
        entry.ranges[j] = moved

cdef uint64_t group_key(const BlockEntry *entry, uint32_t sides) noexcept nogil:
    """The first columns of an entry as a number; zero if it has fewer."""
    cdef BlockEntry ordered = entry[0]
    cdef uint64_t key = 0
    cdef uint32_t i
    if entry.ranges[sides - 1].column == 0:
        return 0
    order_ranges(&ordered, sides)
    for i in range(sides):
        key = key << COLUMN_BITS | ordered.ranges[i].column
    return key << COLUMN_BITS * (SIDES - sides)

cdef int sort_blocks(Builder *b) except -1 nogil:
    """Group the filters of blocks by as many of their columns as enough others have too."""
    cdef size_t grouped = 0, begin, end, i
    cdef uint32_t sides
    cdef BlockEntry *entry
    b.block_places = <BlockPlace *> enlarged(b.block_places, b.block_count * sizeof(BlockPlace))
    for i in range(b.block_count):
        b.block_places[i].entry = <uint32_t> i
    for sides in range(SIDES, 0, -1):
        for i in range(grouped, b.block_count):
            entry = block_entry(b, i)
            entry.sides = sides
            entry.group = b.block_places[i].key = group_key(entry, sides)
        sort_words(b, b.block_places + grouped, b.block_count - grouped, sizeof(BlockPlace))
        begin = grouped
        while begin < b.block_count:
            end = group_end(b, begin)
            if block_entry(b, begin).group and end - begin >= FEW[sides]:
                for i in range(begin, end):
                    order_ranges(block_entry(b, i), sides)
                    swap_places(b, grouped, i)
                    grouped += 1
            begin = end
    leave_few(b, grouped)
    b.block_count = grouped
    for i in range(grouped):
        b.block_places[i].key = block_entry(b, i).group
    sort_words(b, b.block_places, grouped, sizeof(BlockPlace))
    begin = 0
    while begin < b.block_count:
        end = group_end(b, begin)
        tile_group(b, begin, end)
        begin = end
    return 0

cdef inline void swap_places(Builder *b, size_t one, size_t other) noexcept nogil:
    cdef BlockPlace place = b.block_places[one]
    b.block_places[one] = b.block_places[other]
    b.block_places[other] = place

cdef int tile_group(Builder *b, size_t begin, size_t end) except -1 nogil:
    """Put filters that are near each other into one block: slabs by one column, in each slab slabs
    by the next (sort-tile-recursive packing)."""
    cdef size_t blocks = (end - begin + BLOCK - 1) // BLOCK, slab = SIZE_MAX, i
    cdef uint32_t sides = block_entry(b, begin).sides, side
    cdef double across = pow(<double> blocks, 1.0 / sides)  # slabs by a column
    cdef const BlockRange *range_
    if blocks == 1:
        return 0
    for side in range(sides):
        for i in range(begin, end):
            range_ = &block_entry(b, i).ranges[side]
            b.block_places[i].key = <uint64_t> ((i - begin) // slab) << 16 | \
                (<uint64_t> range_.low + range_.high)
        sort_words(b, b.block_places + begin, end - begin, sizeof(BlockPlace))
        slab = BLOCK * <size_t> (blocks / pow(across, side + 1.0) + 0.999)
    return 0

cdef int leave_few(Builder *b, size_t grouped) except -1 nogil:
    """File the filters that are in no group under the presence of a value."""
    cdef size_t i
    cdef Choice choice
    cdef Test test
    memset(&choice, 0, sizeof(Choice))
    choice.keys.kind = BY_PRESENCE
    choice.keys.count = 1
    choice.test = &test
    for i in range(grouped, b.block_count):
        test.attribute = \
            b.locals[(block_entry(b, i).ranges[0].column - 1) // 2].attribute.attribute
        file_keys(b, block_entry(b, i).record, &choice)
    return 0


# Laying out

cdef inline size_t codes_of_group(size_t blocks, uint32_t sides) noexcept nogil:
    """The size of the codes of a group, in units of ENDS."""
    return (blocks + BLOCK - 1) // BLOCK * sides + blocks * (sides + 2)

cdef void measure_blocks(const Builder *b, size_t *groups, size_t *blocks, size_t *codes) \
        noexcept nogil:
    """How many groups and blocks there are, and the bytes of their codes."""
    cdef size_t begin = 0, end, here
    groups[0] = blocks[0] = codes[0] = 0
    while begin < b.block_count:
        end = group_end(b, begin)
        here = (end - begin + BLOCK - 1) // BLOCK
        groups[0] += 1
        blocks[0] += here
        codes[0] += ENDS * codes_of_group(here, block_entry(b, begin).sides)
        begin = end

cdef inline Samples *samples_of(const Builder *b, const BlockRange *range_) noexcept nogil:
    return &b.locals[(range_.column - 1) // 2].samples[(range_.column - 1) % 2]

cdef void number_columns(Builder *b, uint32_t *columns, uint32_t *cuts) noexcept nogil:
    """Give a number to every column that a block uses; those of extra ranges come last."""
    cdef size_t i
    cdef uint32_t j, sides
    cdef const BlockEntry *entry
    cdef Samples *samples
    cdef bint extra
    columns[0] = cuts[0] = 0
    for extra in range(2):
        for i in range(b.block_count):
            entry = block_entry(b, i)
            sides = entry.sides
            for j in range(sides if extra else 0, sides + 3 if extra else sides):
                if entry.ranges[j].column == 0:
                    continue
                samples = samples_of(b, &entry.ranges[j])
                if samples.column == 0:
                    columns[0] += 1
                    samples.column = columns[0]
                    cuts[0] += samples.cuts

cdef Extra extra_of(const Builder *b, const BlockRange *range_) noexcept nogil:
    """A range besides those of the group, unless there is none or its column is beyond."""
    cdef Extra extra
    cdef uint32_t column = samples_of(b, range_).column if range_.column else 0
    extra.column = <uint16_t> column if column < MOST_EXTRA else 0
    extra.low, extra.high = range_.low, range_.high
    if extra.column == 0:
        extra.low, extra.high = 0, 255
    return extra

cdef void measure_keys(const Builder *b, size_t *keys, size_t *entries) noexcept nogil:
    """How many different keys there are, and how long their lists are together."""
    cdef size_t begin = 0, end
    keys[0] = entries[0] = 0
    while begin < b.key_entry_count:
        end = begin
        while end < b.key_entry_count and b.key_entries[end].hash == b.key_entries[begin].hash:
            end += 1
        keys[0] += 1
        if end - begin > 1:
            entries[0] += 2 + end - begin
        begin = end

cdef void place_record(Builder *b, uint8_t *base, uint64_t *at, uint32_t place) noexcept nogil:
    """Copy a record to its place in the segment, unless it is there already."""
    cdef const Record *record = b.records[place]
    if b.places[place] == NO_MEMBER:
        b.places[place] = <uint32_t> (at[0] // 8)
        memcpy(base + at[0], record, record.size)
        at[0] += record.size

cdef uint64_t place_records(Builder *b, uint8_t *base) noexcept nogil:
    """Copy all records, in the order in which lists and blocks lead to them."""
    cdef uint64_t at = 0
    cdef size_t i
    memset(b.places, 0xFF, b.count * sizeof(uint32_t))
    for i in range(b.block_count):
        place_record(b, base, &at, block_entry(b, i).record)
    for i in range(b.key_entry_count):
        place_record(b, base, &at, b.key_entries[i].record)
    for i in range(b.always_count):
        place_record(b, base, &at, b.always[i])
    for i in range(b.order_count):
        place_record(b, base, &at, b.order_entries[i].record)
    for i in range(b.count):  # what no list leads to, as an empty `in`
        place_record(b, base, &at, <uint32_t> i)
    return at

cdef bint same_test(const Record *one, const Record *other) noexcept nogil:
    """Whether two records of one test have the same test."""
    return one.size == other.size and \
        memcmp(one + 1, other + 1, one.size - sizeof(Record)) == 0

cdef void write_list(Builder *b, size_t begin, size_t end, uint32_t *list) noexcept nogil:
    """The list of a key: the exact ones first, all of which have the test of the first of them."""
    cdef const Record *exact = NULL
    cdef const Record *record
    cdef uint32_t count = 0
    cdef size_t i, at
    for i in range(begin, end):
        record = b.records[b.key_entries[i].record]
        if b.key_entries[i].exact:
            if exact == NULL:
                exact = record
                list[1] = b.places[b.key_entries[i].record]
            b.key_entries[i].exact = same_test(exact, record)
        if b.key_entries[i].exact:
            list[2 + count] = record.owner
            count += 1
    list[0] = count
    if count == 0:
        list[1] = 0
    at = 2 + count
    for i in range(begin, end):
        if not b.key_entries[i].exact:
            list[at] = b.places[b.key_entries[i].record]
            at += 1

cdef void write_keys(Builder *b, uint8_t *base, const Header *header) noexcept nogil:
    cdef Cell *cells = <Cell *> (base + header.begins[CELLS])
    cdef uint32_t *entries = <uint32_t *> (base + header.begins[ENTRIES])
    cdef size_t begin = 0, end, used = 0
    cdef uint32_t at
    while begin < b.key_entry_count:
        end = begin
        while end < b.key_entry_count and b.key_entries[end].hash == b.key_entries[begin].hash:
            end += 1
        at = first_cell(header, b.key_entries[begin].hash)
        while cells[at].hash:
            at = next_cell(header, at)
        cells[at].hash = b.key_entries[begin].hash
        cells[at].count = <uint32_t> (end - begin)
        if end - begin == 1:
            cells[at].entry = b.places[b.key_entries[begin].record]
        else:
            cells[at].entry = <uint32_t> used
            write_list(b, begin, end, entries + used)
            used += 2 + end - begin
        begin = end

cdef void write_ordered(Builder *b, uint8_t *base, const Header *header) noexcept nogil:
    cdef double *bounds = <double *> (base + header.begins[BOUNDS])
    cdef uint32_t *ordered = <uint32_t *> (base + header.begins[ORDERED])
    cdef uint32_t *owners = <uint32_t *> (base + header.begins[OWNERS])
    cdef size_t numbers = header.sizes[BOUNDS] // sizeof(double), i
    cdef const OrderEntry *entry
    cdef OrderedList *list
    for i in range(b.order_count):
        entry = &b.order_entries[i]
        list = &b.locals[entry.list // LISTS].attribute.lists[entry.list % LISTS]
        if list.count == 0:
            list.begin = <uint32_t> i
        list.count += 1
        b.locals[entry.list // LISTS].attribute.ordered = True
        owners[i] = b.records[entry.record].owner
        if i < numbers:
            bounds[i] = number_at(first_test(b.records[entry.record]), 0).high
        else:
            ordered[i - numbers] = b.places[entry.record]

cdef inline void write_range(uint8_t *codes, uint32_t slot, const BlockRange *range_) \
        noexcept nogil:
    """Widen a range among 64 to hold another; one that nothing was written to holds nothing."""
    codes[slot] = min(codes[slot], range_.low)
    codes[BLOCK + slot] = max(codes[BLOCK + slot], range_.high)

cdef void write_group(const Builder *b, size_t begin, size_t end, const Group *group, uint8_t *codes,
                      Member *members) noexcept nogil:
    """Write the boxes, the codes and the members of a group."""
    cdef uint32_t sides = group.sides, width = sides * ENDS, side
    cdef uint8_t *boxes = codes
    cdef uint8_t *ends
    cdef size_t slot, block, nodes = (group.count + BLOCK - 1) // BLOCK, i
    cdef const BlockEntry *entry
    cdef Extra third
    for i in range(nodes * sides):
        memset(boxes + i * ENDS, 255, BLOCK)
    codes += nodes * width
    for block in range(group.count):
        for side in range(sides):
            memset(codes + block * (width + 2 * ENDS) + side * ENDS, 255, BLOCK)
    for slot in range(end - begin):
        entry = block_entry(b, begin + slot)
        block = slot // BLOCK
        ends = codes + block * (width + 2 * ENDS)
        for side in range(sides):
            write_range(boxes + block // BLOCK * width + side * ENDS, block % BLOCK,
                        &entry.ranges[side])
            write_range(ends + side * ENDS, slot % BLOCK, &entry.ranges[side])
        third = extra_of(b, &entry.ranges[sides])
        ends[width + slot % BLOCK] = third.low
        ends[width + BLOCK + slot % BLOCK] = third.high
        (<uint16_t *> (ends + width + ENDS))[slot % BLOCK] = third.column
        members[slot].record = b.places[entry.record]
        members[slot].extra[0] = extra_of(b, &entry.ranges[sides + 1])
        members[slot].extra[1] = extra_of(b, &entry.ranges[sides + 2])

cdef void write_blocks(Builder *b, uint8_t *base, const Header *header) noexcept nogil:
    cdef Group *groups = <Group *> (base + header.begins[GROUPS])
    cdef uint8_t *codes = base + header.begins[CODES]
    cdef Member *members = <Member *> (base + header.begins[MEMBERS])
    cdef size_t begin = 0, end, block = 0
    cdef uint32_t column, number = 0, used = 0, side
    cdef Attribute *attribute
    cdef Group *group
    memset(members, 0xFF, header.sizes[MEMBERS])
    while begin < b.block_count:
        end = group_end(b, begin)
        group = &groups[number]
        group.sides = block_entry(b, begin).sides
        group.begin = <uint32_t> block
        group.count = <uint32_t> ((end - begin + BLOCK - 1) // BLOCK)
        group.codes = used
        for side in range(group.sides):
            group.columns[side] = samples_of(b, &block_entry(b, begin).ranges[side]).column - 1
        column = block_entry(b, begin).ranges[0].column - 1
        attribute = &b.locals[column // 2].attribute
        if attribute.group_counts[column % 2] == 0:
            attribute.groups[column % 2] = number
        attribute.group_counts[column % 2] += 1
        write_group(b, begin, end, group, codes + <size_t> used * ENDS,
                    members + block * BLOCK)
        block += group.count
        used += <uint32_t> codes_of_group(group.count, group.sides)
        number += 1
        begin = end

cdef void write_columns(Builder *b, uint8_t *base, const Header *header) noexcept nogil:
    cdef Column *columns = <Column *> (base + header.begins[COLUMNS])
    cdef uint64_t *cuts = <uint64_t *> (base + header.begins[CUTS])
    cdef size_t used = 0, count = header.sizes[COLUMNS] // sizeof(Column), column
    cdef uint32_t i
    cdef int side
    cdef const Samples *samples
    for i in range(b.local_count):
        for side in range(2):
            samples = &b.locals[i].samples[side]
            if samples.column == 0:
                continue
            column = samples.column - 1
            tidings_check(column < count)
            columns[column].attribute = b.locals[i].attribute.attribute
            columns[column].is_text = side
            columns[column].begin = <uint32_t> used
            columns[column].count = samples.cuts
            memcpy(cuts + used, samples.orders, samples.cuts * sizeof(uint64_t))
            b.locals[i].attribute.columns[side] = samples.column
            used += samples.cuts

cdef void write_attributes(Builder *b, uint8_t *base, const Header *header) noexcept nogil:
    cdef uint32_t *locals = <uint32_t *> (base + header.begins[LOCALS])
    cdef Attribute *attributes = <Attribute *> (base + header.begins[ATTRIBUTES])
    cdef uint32_t i, at
    for i in range(b.local_count):
        attributes[i] = b.locals[i].attribute
        at = (attributes[i].attribute * 0x9E3779B1u) >> 7 & header.local_mask
        while locals[at]:
            at = (at + 1) & header.local_mask
        locals[at] = i + 1

cdef void measure(Builder *b, Header *header) noexcept nogil:
    """Set the sizes of all sections, and where they begin."""
    cdef size_t keys, entries, locals = 2, i, numbers = 0
    cdef size_t groups, blocks, codes
    cdef uint32_t columns, cuts
    cdef uint64_t at
    measure_keys(b, &keys, &entries)
    measure_blocks(b, &groups, &blocks, &codes)
    number_columns(b, &columns, &cuts)
    while locals < 2 * (b.local_count + 1):
        locals *= 2
    for i in range(b.order_count):
        numbers += b.order_entries[i].list % LISTS < 4
    header.cells = <uint32_t> (2 * keys + 1)  # half of them are empty, so a search ends soon
    header.local_mask = <uint32_t> (locals - 1)
    header.sizes[CELLS] = header.cells * sizeof(Cell)
    header.sizes[ENTRIES] = entries * sizeof(uint32_t)
    header.sizes[LOCALS] = locals * sizeof(uint32_t)
    header.sizes[ATTRIBUTES] = b.local_count * sizeof(Attribute)
    header.sizes[BOUNDS] = numbers * sizeof(double)
    header.sizes[ORDERED] = (b.order_count - numbers) * sizeof(uint32_t)
    header.sizes[OWNERS] = b.order_count * sizeof(uint32_t)
    header.sizes[COLUMNS] = columns * sizeof(Column)
    header.sizes[CUTS] = cuts * sizeof(uint64_t)
    header.sizes[GROUPS] = groups * sizeof(Group)
    header.sizes[CODES] = codes
    header.sizes[MEMBERS] = blocks * BLOCK * sizeof(Member)
    header.sizes[ALWAYS] = b.always_count * sizeof(uint32_t)
    at = padded(sizeof(Header))
    for i in range(SECTIONS):
        header.begins[i] = at
        at += padded(header.sizes[i])
    header.size = at

cdef void *lay_out(Builder *b, Header *header) except NULL nogil:
    """The block of memory of a segment, in which everything is filed and sorted."""
    cdef uint8_t *base
    cdef uint32_t *always
    cdef size_t i
    measure(b, header)
    b.places = <uint32_t *> enlarged(b.places, (b.count + 1) * sizeof(uint32_t))
    base = <uint8_t *> zeroed(header.size)
    (<Header *> base)[0] = header[0]
    place_records(b, base + header.begins[RECORDS])
    write_keys(b, base, header)
    write_ordered(b, base, header)
    write_blocks(b, base, header)
    write_columns(b, base, header)
    always = <uint32_t *> (base + header.begins[ALWAYS])
    for i in range(b.always_count):
        always[i] = b.places[b.always[i]]
    write_attributes(b, base, header)
    return base

cdef int heed_signals() except -1 nogil:
    """Let Python handle signals that came, Ctrl-C for one: it raises here if the handler does."""
    with gil:
        PyErr_CheckSignals()
    return 0

cdef void *build(const Record *const *records, size_t count, uint64_t seed, bint heeding) \
        except NULL nogil:
    """A segment of records, as one block of memory that the caller frees.

    Signals may end it while it is `heeding` them.
    """
    cdef Builder b
    cdef Header header
    cdef void *block = NULL
    cdef uint32_t i
    memset(&b, 0, sizeof(Builder))
    memset(&header, 0, sizeof(Header))
    b.records, b.count, b.seed = records, count, seed
    header.magic, header.version, header.seed = MAGIC, SEGMENT_VERSION, seed
    header.filters = <uint32_t> count
    try:
        for i in range(<uint32_t> count):
            header.sizes[RECORDS] += records[i].size
            header.constraints += records[i].constraints
        start_counters(&b, header.sizes[RECORDS])
        for i in range(<uint32_t> count):
            if heeding and i % SIGNALS_EACH == 0:
                heed_signals()
            look_at(&b, i)
        for i in range(b.local_count):
            cut(&b.locals[i].samples[0])
            cut(&b.locals[i].samples[1])
        for i in range(<uint32_t> count):
            if heeding and i % SIGNALS_EACH == 0:
                heed_signals()
            header.by_path[file_record(&b, i)] += 1
        free(b.counters)
        b.counters = NULL
        if heeding:
            heed_signals()
        sort_blocks(&b)  # may leave some to keys
        header.by_path[PATH_KEY] += header.by_path[PATH_BLOCK] - <uint32_t> b.block_count
        header.by_path[PATH_BLOCK] = <uint32_t> b.block_count
        sort_words(&b, b.key_entries, b.key_entry_count, sizeof(KeyEntry))
        sort_ordered(&b)
        if heeding:
            heed_signals()
        block = lay_out(&b, &header)
    finally:
        free_builder(&b)
    return block
