# An event in the engine: the values of the attributes that somebody asks about.
#
# Every reader (of dictionaries, of JSON, of Arrow) ends in `put_text`, `put_number` or `put_truth`.
# Texts are copied, so an event does not depend on the objects that it was read from.

ctypedef struct Value:
    uint32_t next  # 1 + the place of another value of the attribute; 0 if it is the last
    uint32_t within  # 1 + the element that it lies in
    uint32_t size  # of a text
    uint32_t type
    uint64_t hash  # of a text or a number
    size_t at  # where a text begins
    Number number  # of a truth value: its `low`; of a text: 1 + the place of it folded, or 0

ctypedef struct Element:  # a record or a list that is an element of a list
    uint32_t within  # 1 + the element that its list lies in
    uint32_t first  # 1 + the first such element of its list, which stands for the list
    uint32_t chosen  # of a list: 1 + the element that fields have chosen (evaluate.pxi)
    uint32_t trail  # the lists of which elements are chosen, in order, one in each of these

ctypedef struct Place:
    uint32_t stamp  # the event that last had this attribute
    uint32_t first  # 1 + the place of its first value

cdef enum:
    MOST_RECORDS = 128  # that an event may nest; more than `MAX_EVENT_DEPTH`

ctypedef struct EventData:
    Value *values
    uint32_t count
    uint32_t room
    uint8_t *text
    size_t text_size
    size_t text_room
    Place *places  # by attribute
    uint32_t place_count
    uint32_t stamp
    uint32_t *present  # the attributes that it has, each once
    uint32_t present_count
    bint several  # some attribute has more than one value, or a null
    void *records[MOST_RECORDS]  # the records that are being read, each within the one before
    int record_count
    void **lists  # the lists that are being read
    int list_count
    int list_room
    Element *elements
    uint32_t element_count
    uint32_t element_room
    uint32_t within  # 1 + the element that is being read
    uint32_t trail_count
    const uint32_t *derived  # by attribute: those that belong to it (names.pxi)
    uint64_t seed

cdef inline Span text_in(const EventData *event, const Value *value) noexcept nogil:
    cdef Span text
    text.at = event.text + value.at
    text.size = value.size
    return text

cdef inline const Value *first_value(const EventData *event, uint32_t attribute) noexcept nogil:
    """The first value of an attribute; NULL if it is absent."""
    if attribute >= event.place_count or event.places[attribute].stamp != event.stamp:
        return NULL
    return &event.values[event.places[attribute].first - 1]

cdef inline const Value *next_value(const EventData *event, const Value *value) noexcept nogil:
    return &event.values[value.next - 1] if value.next else NULL

cdef int start_event(EventData *event, uint32_t attributes) except -1 nogil:
    """Forget the last event; there may be `attributes` attributes from now on."""
    cdef uint32_t room
    if event.place_count < attributes:
        room = 2 * attributes + 16
        event.places = <Place *> enlarged(event.places, room * sizeof(Place))
        event.present = <uint32_t *> enlarged(event.present, room * sizeof(uint32_t))
        memset(event.places + event.place_count, 0, (room - event.place_count) * sizeof(Place))
        event.place_count = room
    event.stamp += 1
    if event.stamp == 0:  # all numbers were used; none may look like this event's
        memset(event.places, 0, event.place_count * sizeof(Place))
        event.stamp = 1
    event.count = event.present_count = 0
    event.text_size = 0
    event.several = False
    event.record_count = event.list_count = 0
    event.element_count = event.within = event.trail_count = 0
    return 0

cdef void free_event(EventData *event) noexcept nogil:
    free(event.values)
    free(event.text)
    free(event.places)
    free(event.present)
    free(event.lists)
    free(event.elements)
    memset(event, 0, sizeof(EventData))

cdef Value *put_value(EventData *event, uint32_t attribute, uint32_t type) except NULL nogil:
    """A new value of an attribute."""
    tidings_check(attribute < event.place_count)
    cdef Place *place = &event.places[attribute]
    cdef Value *value
    if event.count == event.room:
        event.room = 2 * event.room + 16
        event.values = <Value *> enlarged(event.values, event.room * sizeof(Value))
    value = &event.values[event.count]
    event.count += 1
    value.within = event.within
    value.type = type
    if place.stamp == event.stamp:
        value.next = place.first
        event.several = True
    else:
        place.stamp = event.stamp
        value.next = 0
        event.present[event.present_count] = attribute
        event.present_count += 1
    place.first = event.count
    return value

cdef int begin_element(EventData *event, uint32_t *first) except -1 nogil:
    """The values that come lie in a new element of a list, of which `first` is the first.

    The caller sets `within` back when the element ends.
    """
    cdef Element *element
    if event.element_count == event.element_room:
        event.element_room = 2 * event.element_room + 16
        event.elements = <Element *> enlarged(
            event.elements, event.element_room * sizeof(Element))
    element = &event.elements[event.element_count]
    event.element_count += 1
    if first[0] == 0:
        first[0] = event.element_count
    element.within = event.within
    element.first = first[0]
    element.chosen = 0
    event.within = event.element_count
    return 0

cdef inline uint64_t hash_number(Number number, uint64_t seed) noexcept nogil:
    cdef uint64_t bits
    memcpy(&bits, &number.high, 8)
    return tidings_mix(bits ^ seed, <uint64_t> number.low)

cdef int put_number(EventData *event, uint32_t attribute, uint32_t type, Number number) \
        except -1 nogil:
    cdef Value *value = put_value(event, attribute, type)
    if number.high == 0:
        number.high = 0.0  # one zero
    value.number = number
    value.hash = hash_number(number, event.seed)
    return 0

cdef inline int put_real(EventData *event, uint32_t attribute, double real) except -1 nogil:
    cdef Number number
    number.high = real
    number.low = 0
    return put_number(event, attribute, REAL, number)

cdef inline int put_integer(EventData *event, uint32_t attribute, int64_t integer) except -1 nogil:
    cdef Number number
    number.high = <double> integer
    if number.high == 9223372036854775808.0:  # rounded up, out of the range of int64
        number.low = integer - INT64_MAX - 1
    else:
        number.low = integer - <int64_t> number.high
    return put_number(event, attribute, INTEGER, number)

cdef inline int put_unsigned(EventData *event, uint32_t attribute, uint64_t integer) \
        except -1 nogil:
    cdef Number number
    number.high = <double> integer
    if number.high == 18446744073709551616.0:
        number.low = <int64_t> (integer - UINT64_MAX) - 1
    else:
        number.low = <int64_t> (integer - <uint64_t> number.high)
    return put_number(event, attribute, INTEGER, number)

cdef inline int put_truth(EventData *event, uint32_t attribute, bint truth) except -1 nogil:
    cdef Value *value = put_value(event, attribute, BOOLEAN)
    value.number.low = truth
    return 0

cdef inline int put_null(EventData *event, uint32_t attribute) except -1 nogil:
    """A null is no value of its attribute, but one of the attribute that has its nulls.

    Tests of other dialects may take it for a value beside others, hence `several`.
    """
    cdef uint32_t nulls = event.derived[DERIVED * attribute + NULLS - 1]
    event.several = True
    return put_truth(event, nulls, True) if nulls else 0

cdef uint8_t *room_for_text(EventData *event, size_t size) except NULL nogil:
    """Where the next text may be written; eight bytes behind it may be read."""
    cdef size_t needed = event.text_size + size + 8
    if needed > event.text_room:
        event.text_room = 2 * needed + 256
        event.text = <uint8_t *> enlarged(event.text, event.text_room)
    return event.text + event.text_size

cdef int put_text(EventData *event, uint32_t attribute, const uint8_t *text, size_t size) \
        except -1 nogil:
    memcpy(room_for_text(event, size), text, size)
    return put_written(event, attribute, size)

cdef int put_written(EventData *event, uint32_t attribute, size_t size) except -1 nogil:
    """The same for a text that is written already, at `room_for_text`."""
    cdef Value *value = put_value(event, attribute, TEXT)
    cdef uint32_t folded = event.derived[DERIVED * attribute + FOLDED - 1]
    value.at = event.text_size
    value.size = <uint32_t> size
    event.text_size += size
    value.hash = tidings_hash(event.text + value.at, size, event.seed)
    value.number.low = event.count + 1 if folded else 0
    if folded:
        put_folded(event, folded, value.at, size)
    return 0

cdef int put_folded(EventData *event, uint32_t attribute, size_t at, size_t size) except -1 nogil:
    """The text at a place once more, folded, for the attribute that holds folded texts."""
    cdef uint8_t *to = room_for_text(event, 2 * size)  # no character folds to more than twice
    cdef size_t length = fold_text(event.text + at, size, to)
    cdef Value *value = put_value(event, attribute, TEXT)
    value.at = event.text_size
    value.size = <uint32_t> length
    event.text_size += length
    value.hash = tidings_hash(to, length, event.seed)
    return 0


# Folding, without Python: what `language.folding.fold` does, from a table made by it.

cdef uint32_t *FOLD_PAGES[512]  # of 256 characters each; NULL if all stay as they are
cdef bint FOLDS_KNOWN = False

cdef int learn_folds() except -1:
    """Fill the table of folded characters; the first predicate that ignores case needs it."""
    global FOLDS_KNOWN
    cdef uint32_t code, page, i
    if FOLDS_KNOWN:
        return 0
    for code in range(512 * 256):
        if 0xD800 <= code < 0xE000:
            continue
        character = chr(code)
        folded = ord(fold_character(character))
        if folded != code:
            page = code >> 8
            if FOLD_PAGES[page] == NULL:
                FOLD_PAGES[page] = <uint32_t *> enlarged(NULL, 256 * sizeof(uint32_t))
                for i in range(256):
                    FOLD_PAGES[page][i] = (page << 8) + i
            FOLD_PAGES[page][code & 255] = folded
    FOLDS_KNOWN = True
    return 0

cdef inline size_t encode(uint32_t code, uint8_t *to) noexcept nogil:
    """Write a character as UTF-8; returns how many bytes that took."""
    if code < 0x80:
        to[0] = code
        return 1
    if code < 0x800:
        to[0] = 0xC0 | code >> 6
        to[1] = 0x80 | code & 63
        return 2
    if code < 0x10000:
        to[0] = 0xE0 | code >> 12
        to[1] = 0x80 | code >> 6 & 63
        to[2] = 0x80 | code & 63
        return 3
    to[0] = 0xF0 | code >> 18
    to[1] = 0x80 | code >> 12 & 63
    to[2] = 0x80 | code >> 6 & 63
    to[3] = 0x80 | code & 63
    return 4

cdef inline size_t character_size(uint8_t first) noexcept nogil:
    """The bytes of a character of valid UTF-8, by its first one."""
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4

cdef inline uint32_t decode(const uint8_t *at, size_t size) noexcept nogil:
    if size == 1:
        return at[0]
    if size == 2:
        return (at[0] & 31) << 6 | at[1] & 63
    if size == 3:
        return (at[0] & 15) << 12 | (at[1] & 63) << 6 | at[2] & 63
    return (at[0] & 7) << 18 | (at[1] & 63) << 12 | (at[2] & 63) << 6 | at[3] & 63

cdef size_t fold_text(const uint8_t *text, size_t size, uint8_t *to) noexcept nogil:
    """Write a text folded; returns its size."""
    cdef size_t at = 0, written = 0, step
    cdef uint32_t code
    while at < size:
        if text[at] < 0x80:
            code = text[at]
            to[written] = code + 32 if 65 <= code <= 90 else code
            written += 1
            at += 1
            continue
        step = character_size(text[at])
        code = decode(text + at, step)
        if code < 512 * 256 and FOLD_PAGES[code >> 8] != NULL:
            code = FOLD_PAGES[code >> 8][code & 255]
        written += encode(code, to + written)
        at += step
    return written


# Reading objects of Python

cdef int put_str(EventData *event, uint32_t attribute, str text) except -1:
    cdef Py_ssize_t size
    cdef const char *data
    try:
        data = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:  # a lone surrogate: it stands for nothing
        return 0
    if size > MAX_TEXT:
        raise EventError(f"expected a text of at most {MAX_TEXT} bytes, found {size}")
    return put_text(event, attribute, <const uint8_t *> data, size)

cdef Number number_of(object integer) except *:
    """An integer of any size; what is left beyond 2^62 is cut, which no constant comes near."""
    cdef Number number
    try:
        number.high = integer
    except OverflowError:
        number.high = INFINITY if integer > 0 else -INFINITY
        number.low = -1 if integer > 0 else 1
        return number
    left = integer - int(number.high)
    number.low = min(max(left, -MOST_LEFT), MOST_LEFT)
    return number

cdef int put_int(EventData *event, uint32_t attribute, object integer) except -1:
    cdef int overflow = 0
    cdef long long small = PyLong_AsLongLongAndOverflow(integer, &overflow)
    if not overflow:
        return put_integer(event, attribute, small)
    return put_number(event, attribute, INTEGER, number_of(integer))

cdef inline int put_scalar(EventData *event, uint32_t attribute, object value) except -1:
    """A value of one of the four types; returns 0 for any other object, else 1."""
    cdef type kind = type(value)
    if kind is str:
        put_str(event, attribute, value)
    elif kind is int:
        put_int(event, attribute, value)
    elif kind is float:
        put_real(event, attribute, PyFloat_AS_DOUBLE(value))
    elif kind is bool:
        put_truth(event, attribute, value is True)
    else:
        return 0
    return 1

FOUR = frozenset((str, int, float, bool))
NESTED = (dict, list, tuple, set, frozenset, Mapping)  # the last, because it takes longest

# In the dictionary of names, each name has a code: twice (1 + its attribute, or 0 if nobody asks
# about it), plus 1 if names that somebody asks about go on behind it and a dot.

cdef int read_record(EventData *event, dict names, object record, str prefix) except -1:
    """Read a mapping; one within itself, or too deep, adds nothing (`language.values.opened`)."""
    cdef int i
    cdef Py_ssize_t position = 0
    cdef PyObject *key
    cdef PyObject *value
    if event.record_count > MAX_DEPTH:
        return 0
    for i in range(event.record_count):
        if event.records[i] == <void *> record:
            return 0
    tidings_check(event.record_count < MOST_RECORDS)
    event.records[event.record_count] = <void *> record
    event.record_count += 1
    if type(record) is dict:
        while PyDict_Next(record, &position, &key, &value):
            read_item(event, names, <object> key, <object> value, prefix)
    else:
        for name, held in record.items():
            read_item(event, names, name, held, prefix)
    event.record_count -= 1
    return 0

cdef int read_item(EventData *event, dict names, object key, object value, str prefix) except -1:
    cdef PyObject *found
    cdef long code
    if type(key) is not str:
        if not isinstance(key, str):
            return 0  # no predicate can name it
        key = str.__str__(key)
    if prefix is not None:
        key = prefix + key
    found = PyDict_GetItem(names, key)
    if found == NULL:
        return 0
    code = PyLong_AsLong(<object> found)
    if code > 1 and put_scalar(event, (code >> 1) - 1, value):
        return 0
    return read_value(event, names, value, key, code, event.list_count)

cdef int read_value(
    EventData *event, dict names, object value, str name, long code, int first
) except -1:
    """Read a value that is none of the four scalars: null, a list, a record, or an odd object.

    The lists that are being read for this attribute begin at `first`.
    """
    cdef uint32_t first_element = 0, outside
    if value is None:
        return put_null(event, (code >> 1) - 1) if code > 1 else 0
    if isinstance(value, dict):
        if code & 1:
            read_record(event, names, value, name + ".")
        return 0
    elements = elements_of(value)
    if elements is None:
        if code > 1:
            held = scalar_of(value)
            if held is not None:
                put_scalar(event, (code >> 1) - 1, held)
        return 0
    if not begin_list(event, value, first):
        return 0
    outside = event.within
    for element in elements:
        if type(element) in FOUR:
            if code > 1:
                put_scalar(event, (code >> 1) - 1, element)
        else:
            if isinstance(element, NESTED):
                begin_element(event, &first_element)
            read_value(event, names, element, name, code, first)
            event.within = outside
    event.list_count -= 1
    return 0

cdef bint begin_list(EventData *event, object elements, int first) except -1:
    """Whether a list may be read: it does not lie in itself, and not too deep."""
    cdef int i
    if event.record_count + event.list_count - first > MAX_DEPTH:
        return False
    for i in range(event.record_count):
        if event.records[i] == <void *> elements:
            return False
    for i in range(first, event.list_count):
        if event.lists[i] == <void *> elements:
            return False
    if event.list_count == event.list_room:
        event.list_room = 2 * event.list_room + 16
        event.lists = <void **> enlarged(event.lists, event.list_room * sizeof(void *))
    event.lists[event.list_count] = <void *> elements
    event.list_count += 1
    return True
