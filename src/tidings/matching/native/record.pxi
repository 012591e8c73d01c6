# Records: what a filter is in the engine.
#
# A record is the same bytes in the log, in a segment and in a file. It holds no pointer and is
# moved by copying:
#
#     Record | Test payload | Test payload | ...
#
# Every part begins at a multiple of eight bytes. The payload of a test depends on its operator:
#
#     FIELD, EXISTS ... IS_FALSE     nothing
#     NUMBER_EQ ... NUMBER_GE        a number
#     NUMBER_BETWEEN                 two numbers
#     NUMBER_IN                      uint32 count, uint32 0, then the numbers, ascending
#     TEXT_EQ ... LIKE               uint32 size, then the bytes
#     TEXT_BETWEEN                   uint32 size, uint32 size, then both texts
#     TEXT_IN                        uint32 count, uint32 0, uint32 end of each, then all bytes
#
# Behind the tests of a record there may be fields (language.dialects.Field), in groups: a FIELD, then
# its choices, which are tests of one value. MORE is with every test of a choice but the last, and
# with every field of a group but the last.
#
# A number is a double; if some number of a test is an integer that no double holds, the test is
# WIDE, and each of its numbers is the nearest double and an int64, what is left.

cdef enum:
    INTEGER = 1
    REAL = 2
    TEXT = 4
    BOOLEAN = 8
    ANY_TYPE = 15

cdef enum:
    FIELD = 1
    EXISTS
    IS_TRUE
    IS_FALSE
    NUMBER_EQ
    NUMBER_NE
    NUMBER_LT
    NUMBER_LE
    NUMBER_GT
    NUMBER_GE
    NUMBER_BETWEEN
    NUMBER_IN
    TEXT_EQ
    TEXT_NE
    TEXT_LT
    TEXT_LE
    TEXT_GT
    TEXT_GE
    PREFIX
    SUFFIX
    CONTAINS
    LIKE
    TEXT_BETWEEN
    TEXT_IN
    OPERATORS

cdef enum:
    NEGATED = 1  # of a test: no value may satisfy it
    WIDE = 2
    MORE = 4  # of a part of a field: the next one belongs to it
    OR_NULL = 8  # of a field: a null will do
    OR_ABSENT = 16  # of a field: so does no value

cdef enum:
    SHARED = 0x80000000  # of an owner: its subscription has several filters

cdef enum:
    IF_UNSURE = 0x80000000  # of a residual: the fields say the same, unless they are unsure

cdef enum:  # in the bytes of LIKE; UTF-8 has neither
    ANY_TEXT = 0xFE
    ANY_CHARACTER = 0xFF

ctypedef struct Record:
    uint32_t size  # bytes, all together
    uint32_t owner  # the number of the subscription, and whether it is SHARED
    uint16_t tests
    uint16_t constraints  # of the filter, residual ones too
    uint32_t residual  # 1 + the place of a test that is left to Python, and when; 0: none

ctypedef struct Test:
    uint32_t attribute
    uint8_t op
    uint8_t types  # of the values that it may accept
    uint8_t flags
    uint8_t rarity  # 1 + 8 times the negative binary logarithm of its share of events; 0: unknown

ctypedef struct Number:
    double high  # the nearest double
    int64_t low  # what is left

cdef inline uint32_t number_in(uint32_t owner) noexcept nogil:
    return owner & ~<uint32_t> SHARED

cdef inline uint32_t residual_in(const Record *record) noexcept nogil:
    return record.residual & ~<uint32_t> IF_UNSURE

cdef inline size_t padded(size_t size) noexcept nogil:
    return (size + 7) & ~<size_t> 7

cdef inline const Test *first_test(const Record *record) noexcept nogil:
    return <const Test *> (record + 1)

cdef inline const uint8_t *payload(const Test *test) noexcept nogil:
    return <const uint8_t *> (test + 1)

cdef inline uint32_t half(const void *at, int which) noexcept nogil:
    return (<const uint32_t *> at)[which]

cdef inline size_t payload_size(const Test *test) noexcept nogil:
    cdef const uint8_t *at = payload(test)
    cdef size_t width = 16 if test.flags & WIDE else 8
    cdef int op = test.op
    cdef uint32_t count
    if op <= IS_FALSE:
        return 0
    if op <= NUMBER_GE:
        return width
    if op == NUMBER_BETWEEN:
        return 2 * width
    if op == NUMBER_IN:
        return 8 + width * half(at, 0)
    if op <= LIKE:
        return padded(4 + <size_t> half(at, 0))
    if op == TEXT_BETWEEN:
        return padded(8 + <size_t> half(at, 0) + half(at, 1))
    tidings_check(op == TEXT_IN)
    count = half(at, 0)
    return padded(8 + 4 * <size_t> count + half(at, 1 + <int> count))

cdef inline const Test *next_test(const Test *test) noexcept nogil:
    return <const Test *> (payload(test) + payload_size(test))

cdef inline Number number_at(const Test *test, size_t place) noexcept nogil:
    """A number of a test; those of NUMBER_IN begin behind the count."""
    cdef const uint8_t *at = payload(test) + (8 if test.op == NUMBER_IN else 0)
    cdef Number number
    if test.flags & WIDE:
        number.high = (<const double *> at)[2 * place]
        number.low = (<const int64_t *> at)[2 * place + 1]
    else:
        number.high = (<const double *> at)[place]
        number.low = 0
    return number

cdef inline Span text_of(const Test *test) noexcept nogil:
    """The text of an operator from TEXT_EQ to LIKE."""
    cdef Span text
    text.at = payload(test) + 4
    text.size = half(payload(test), 0)
    return text

cdef inline Span text_bound(const Test *test, int which) noexcept nogil:
    """The lower or the upper text of TEXT_BETWEEN."""
    cdef Span text
    text.at = payload(test) + 8
    text.size = half(payload(test), which)
    if which:
        text.at += half(payload(test), 0)
    return text

cdef inline Span text_member(const Test *test, uint32_t place) noexcept nogil:
    """A text of TEXT_IN."""
    cdef const uint8_t *at = payload(test)
    cdef uint32_t count = half(at, 0)
    cdef uint32_t begin = half(at, 1 + <int> place)
    cdef Span text
    text.at = at + 8 + 4 * <size_t> count + begin
    text.size = half(at, 2 + <int> place) - begin
    return text

cdef inline int compare_texts(Span one, Span other) noexcept nogil:
    """Below zero, zero or above zero, in the order of code points, which UTF-8 keeps."""
    cdef size_t least = min(one.size, other.size)
    cdef int order = memcmp(one.at, other.at, least)
    if order:
        return order
    return (one.size > other.size) - (one.size < other.size)

cdef inline int compare_numbers(Number one, Number other) noexcept nogil:
    """The same for numbers; neither is NaN."""
    if one.high != other.high:
        return 1 if one.high > other.high else -1
    return (one.low > other.low) - (one.low < other.low)
