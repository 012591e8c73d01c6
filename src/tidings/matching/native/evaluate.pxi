# The only evaluator: does an event satisfy a record?
#
# Lists and blocks of a segment only exclude; `satisfied` decides. An attribute is a set of values:
# a test holds if one of them satisfies it, and a negated test if none does. The fields of a residual
# (`fields_hold`) want one value each, and all of them in the same elements of lists.

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


# Fields

cdef enum:
    NO
    YES
    UNSURE  # Python must say
    MOST_STEPS = 4096  # values that are tried; in vast events, Python finds a shorter path

cdef bint is_ascii(Span text) noexcept nogil:
    cdef size_t i
    for i in range(text.size):
        if text.at[i] >= 0x80:
            return False
    return True

cdef int value_fits(const Test *test, uint32_t attribute, const EventData *event,
                    const Value *value) noexcept nogil:
    """Whether a value of an attribute satisfies a part of a field, negated or not."""
    cdef bint fits
    if test.attribute != attribute and value.type == TEXT:  # it tests the folded text
        if value.number.low == 0 or not is_ascii(text_in(event, value)):
            return UNSURE
        value = &event.values[value.number.low - 1]
    elif NUMBER_EQ <= test.op <= NUMBER_IN and value.type & (INTEGER | REAL):
        if not -9007199254740992.0 < value.number.high < 9007199254740992.0:
            return UNSURE
    fits = value_satisfies(test, event, value)
    return NO if fits == (test.flags & NEGATED != 0) else YES

cdef int choices_hold(const Test *test, const Test *end, uint32_t attribute,
                      const EventData *event, const Value *value) noexcept nogil:
    """Whether a value satisfies all parts of some choice."""
    cdef int found = YES, part
    while test < end:
        part = value_fits(test, attribute, event, value)
        if part == UNSURE:
            return UNSURE
        found &= part
        if not test.flags & MORE:
            if found:
                return YES
            found = YES
        test = next_test(test)
    return NO

cdef bint choose_elements(EventData *event, uint32_t within) noexcept nogil:
    """Choose an element and those around it, unless others of their lists are chosen."""
    cdef Element *list
    while within:
        list = &event.elements[event.elements[within - 1].first - 1]
        if list.chosen:
            return list.chosen == within  # then those around it are chosen as well
        list.chosen = within
        event.elements[event.trail_count].trail = event.elements[within - 1].first
        event.trail_count += 1
        within = event.elements[within - 1].within
    return True

cdef void forget_elements(EventData *event, uint32_t kept) noexcept nogil:
    """Undo choices, but for the first ones."""
    while event.trail_count > kept:
        event.trail_count -= 1
        event.elements[event.elements[event.trail_count].trail - 1].chosen = 0

cdef int group_holds(const Test *field, const Test *end, EventData *event, int *steps) \
        noexcept nogil:
    """Whether values can be chosen for a field and the rest of its group, beside those chosen."""
    cdef const Test *first = next_test(field)
    cdef const Test *last = first  # where the choices end
    cdef uint32_t attributes[2]
    cdef uint32_t kept = event.trail_count
    cdef const Value *value
    cdef bint present = False
    cdef int i, found
    while last < end and last.op != FIELD:
        last = next_test(last)
    attributes[0] = field.attribute
    attributes[1] = event.derived[DERIVED * field.attribute + NULLS - 1]
    for i in range(2 if attributes[1] else 1):
        value = first_value(event, attributes[i])
        while value != NULL:
            steps[0] += 1
            if steps[0] > MOST_STEPS:
                return UNSURE
            found = NO
            if choose_elements(event, value.within):
                present = True
                if i:
                    found = YES if field.flags & OR_NULL else NO
                else:
                    found = choices_hold(first, last, field.attribute, event, value)
                if found == YES and field.flags & MORE:
                    found = group_holds(last, end, event, steps)
            forget_elements(event, kept)
            if found != NO:
                return found
            value = next_value(event, value)
    if present or not field.flags & OR_ABSENT:
        return NO
    return group_holds(last, end, event, steps) if field.flags & MORE else YES

cdef int fields_hold(const Record *record, EventData *event) noexcept nogil:
    """Whether an event satisfies the fields of a record; YES if there are none."""
    cdef const Test *end = <const Test *> (<const uint8_t *> record + record.size)
    cdef const Test *field = first_test(record)
    cdef uint32_t i
    cdef int answer = YES, found, steps = 0
    for i in range(record.tests):
        field = next_test(field)
    while field < end:
        found = group_holds(field, end, event, &steps)
        if found == NO:
            return NO
        answer = max(answer, found)
        while field < end and (field.op != FIELD or field.flags & MORE):
            field = next_test(field)
        field = next_test(field)  # the last one of the group, then its choices
        while field < end and field.op != FIELD:
            field = next_test(field)
    return answer
