# The only evaluator: does an event satisfy a record?
#
# Lists and blocks of a segment only exclude; `satisfied` decides. An attribute is a set of values:
# a test holds if one of them satisfies it, and a negated test if none does.

cdef bint fits(Span text, Span pattern) noexcept nogil:
    """Whether a whole text fits a pattern of LIKE: greedy, going back to the last ANY_TEXT only."""
    cdef size_t t = 0, p = 0, back_t = 0, back_p = 0
    cdef bint may_go_back = False
    while True:
        if p < pattern.size and pattern.at[p] == ANY_TEXT:
            p += 1
            back_p, back_t, may_go_back = p, t, True
            continue
        if t == text.size and p == pattern.size:
            return True
        if t < text.size and p < pattern.size:
            if pattern.at[p] == ANY_CHARACTER:
                t += character_size(text.at[t])
                p += 1
                continue
            if pattern.at[p] == text.at[t]:
                t += 1
                p += 1
                continue
        if not may_go_back or back_t == text.size:
            return False
        back_t += character_size(text.at[back_t])
        t, p = back_t, back_p

cdef bint among_numbers(const Test *test, Number value) noexcept nogil:
    cdef size_t low = 0, high = half(payload(test), 0), middle
    cdef int order
    while low < high:
        middle = (low + high) // 2
        order = compare_numbers(number_at(test, middle), value)
        if order == 0:
            return True
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return False

cdef bint among_texts(const Test *test, Span value) noexcept nogil:
    cdef uint32_t low = 0, high = half(payload(test), 0), middle
    cdef int order
    while low < high:
        middle = (low + high) // 2
        order = compare_texts(text_member(test, middle), value)
        if order == 0:
            return True
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return False

cdef bint number_satisfies(const Test *test, Number value) noexcept nogil:
    cdef int op = test.op, order
    if value.high != value.high:  # NaN satisfies no comparison
        return False
    if op == NUMBER_IN:
        return among_numbers(test, value)
    order = compare_numbers(value, number_at(test, 0))
    if op == NUMBER_EQ:
        return order == 0
    if op == NUMBER_NE:
        return order != 0
    if op == NUMBER_LT:
        return order < 0
    if op == NUMBER_LE:
        return order <= 0
    if op == NUMBER_GT:
        return order > 0
    if op == NUMBER_GE:
        return order >= 0
    tidings_check(op == NUMBER_BETWEEN)
    return order >= 0 and compare_numbers(value, number_at(test, 1)) <= 0

cdef bint text_satisfies(const Test *test, Span value) noexcept nogil:
    cdef int op = test.op, order
    cdef Span text
    if op == TEXT_IN:
        return among_texts(test, value)
    if op == TEXT_BETWEEN:
        return (
            compare_texts(value, text_bound(test, 0)) >= 0
            and compare_texts(value, text_bound(test, 1)) <= 0
        )
    text = text_of(test)
    if op == TEXT_EQ:
        return value.size == text.size and memcmp(value.at, text.at, text.size) == 0
    if op == PREFIX:
        return value.size >= text.size and memcmp(value.at, text.at, text.size) == 0
    if op == SUFFIX:
        return (
            value.size >= text.size
            and memcmp(value.at + value.size - text.size, text.at, text.size) == 0
        )
    if op == CONTAINS:
        return (
            value.size >= text.size
            and tidings_find(value.at, value.size, text.at, text.size) != NULL
        )
    if op == LIKE:
        return fits(value, text)
    order = compare_texts(value, text)
    if op == TEXT_NE:
        return order != 0
    if op == TEXT_LT:
        return order < 0
    if op == TEXT_LE:
        return order <= 0
    if op == TEXT_GT:
        return order > 0
    tidings_check(op == TEXT_GE)
    return order >= 0

cdef inline bint value_satisfies(
    const Test *test, const EventData *event, const Value *value
) noexcept nogil:
    cdef int op = test.op
    if not test.types & value.type:
        return False
    if op >= TEXT_EQ:
        return text_satisfies(test, text_in(event, value))
    if op >= NUMBER_EQ:
        return number_satisfies(test, value.number)
    return op == EXISTS or (value.number.low != 0) == (op == IS_TRUE)

cdef bint holds(const Test *test, const EventData *event) noexcept nogil:
    cdef const Value *value = first_value(event, test.attribute)
    while value != NULL:
        if value_satisfies(test, event, value):
            return not test.flags & NEGATED
        value = next_value(event, value)
    return test.flags & NEGATED

cdef bint satisfied(const Record *record, const EventData *event) noexcept nogil:
    """Whether the event satisfies all tests of a record, its residual apart."""
    cdef const Test *test = first_test(record)
    cdef uint32_t left = record.tests
    while left:
        if not holds(test, event):
            return False
        left -= 1
        if left:
            test = next_test(test)
    return True
