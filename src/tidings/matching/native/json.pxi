# Reading JSON in one pass: values go straight into the event, the rest is only checked.
#
# The reader knows well-formed JSON of usual numbers. Whatever else it meets (a mistake, a number of
# many digits, a key that is repeated) it leaves to Python, which reads the text again and decides
# what it means or what is wrong with it.

cdef enum:
    READ = 0
    LEFT = 1  # to Python
    DEEPEST = 90  # levels; Python says what is wrong with more
    MOST_DIGITS = 300  # before the point; a double may not hold what has more

ctypedef struct NameEntry:
    uint64_t hash  # zero: empty
    uint32_t begin  # of the name in the bytes of all
    uint32_t size
    uint64_t code

cdef class NameTable:
    """The codes of names by their bytes, for readers that have no objects of Python."""

    cdef NameEntry *entries
    cdef size_t mask
    cdef bytes all
    cdef dict codes  # of which it was made

    def __cinit__(self, dict codes):
        cdef size_t size = 16, at
        cdef uint64_t hash
        cdef bytes name
        names = [asked.encode("utf-8", "surrogatepass") for asked in codes]  # none is in a text
        self.codes = codes
        self.all = b"".join(names)
        while size < 2 * len(names) + 2:
            size *= 2
        self.entries = <NameEntry *> zeroed(size * sizeof(NameEntry))
        self.mask = size - 1
        begin = 0
        for name, code in zip(names, codes.values()):
            hash = tidings_hash(<const char *> name, len(name), 0) | 1
            at = hash >> 20 & self.mask
            while self.entries[at].hash:
                at = (at + 1) & self.mask
            self.entries[at].hash = hash
            self.entries[at].begin = begin
            self.entries[at].size = len(name)
            self.entries[at].code = code
            begin += len(name)

    def __dealloc__(self):
        free(self.entries)

ctypedef struct Json:
    const uint8_t *at
    const uint8_t *end
    EventData *event
    const NameEntry *entries
    size_t mask
    const uint8_t *names
    uint8_t *path  # the name of where it is
    size_t path_size
    size_t path_room
    uint32_t *seen  # by entry of the table: the object that had it last
    uint32_t objects
    uint32_t first_object  # of this event
    int depth

cdef int64_t find_name(const Json *json) noexcept nogil:
    """The entry of the name in `path`; -1 if nobody asks about it."""
    cdef uint64_t hash = tidings_hash(json.path, json.path_size, 0) | 1
    cdef size_t at = hash >> 20 & json.mask
    while json.entries[at].hash:
        if json.entries[at].hash == hash and json.entries[at].size == json.path_size and \
                memcmp(json.names + json.entries[at].begin, json.path, json.path_size) == 0:
            return at
        at = (at + 1) & json.mask
    return -1

cdef inline void skip_space(Json *json) noexcept nogil:
    while json.at < json.end and (json.at[0] == 32 or json.at[0] == 10 or json.at[0] == 13
                                  or json.at[0] == 9):
        json.at += 1

cdef bint valid_utf8(const uint8_t *at, size_t size) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef uint32_t code
    cdef size_t step, i
    while at < end:
        if at[0] < 0x80:
            at += 1
            continue
        step = 2 if 0xC2 <= at[0] < 0xE0 else 3 if 0xE0 <= at[0] < 0xF0 else \
            4 if 0xF0 <= at[0] < 0xF5 else 0
        if step == 0 or at + step > end:
            return False
        for i in range(1, step):
            if at[i] & 0xC0 != 0x80:
                return False
        code = decode(at, step)
        if (step == 3 and (code < 0x800 or 0xD800 <= code < 0xE000)) or \
                (step == 4 and not 0x10000 <= code < 0x110000):
            return False
        at += step
    return True

ctypedef struct Quoted:
    const uint8_t *at
    size_t size
    bint escaped

cdef int scan_string(Json *json, Quoted *text) noexcept nogil:
    """Find the end of a string whose quotation mark was read."""
    cdef const uint8_t *at = json.at
    cdef bint high = False
    text.at = at
    text.escaped = False
    while True:
        if at >= json.end or at[0] < 32:
            return LEFT
        if at[0] == 34:
            break
        if at[0] == 92:
            text.escaped = True
            at += 1
            if at >= json.end:
                return LEFT
        high = high or at[0] >= 0x80
        at += 1
    text.size = at - text.at
    json.at = at + 1
    return LEFT if high and not valid_utf8(text.at, text.size) else READ

cdef inline int hex_digit(uint8_t c) noexcept nogil:
    if 48 <= c <= 57:
        return c - 48
    c |= 32
    return c - 87 if 97 <= c <= 102 else -1

cdef int64_t read_hex(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Four hexadecimal digits; -1 if there are none."""
    cdef int64_t code = 0
    cdef int i, digit
    if end - at < 4:
        return -1
    for i in range(4):
        digit = hex_digit(at[i])
        if digit < 0:
            return -1
        code = code << 4 | digit
    return code

cdef int64_t unescape(const Quoted *text, uint8_t *to) noexcept nogil:
    """Write a string without its escapes; its size, or -1 if Python must look at it."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.size
    cdef uint8_t *start = to
    cdef int64_t code, second
    if not text.escaped:
        memcpy(to, text.at, text.size)
        return text.size
    while at < end:
        if at[0] != 92:
            to[0] = at[0]
            to += 1
            at += 1
            continue
        at += 1
        if at[0] == 34 or at[0] == 92 or at[0] == 47:
            code = at[0]
        elif at[0] == 98:
            code = 8
        elif at[0] == 102:
            code = 12
        elif at[0] == 110:
            code = 10
        elif at[0] == 114:
            code = 13
        elif at[0] == 116:
            code = 9
        elif at[0] == 117:
            code = read_hex(at + 1, end)
            at += 4
            if 0xD800 <= code < 0xDC00 and end - at > 6 and at[1] == 92 and at[2] == 117:
                second = read_hex(at + 3, end)
                if not 0xDC00 <= second < 0xE000:
                    return -1
                code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00)
                at += 6
            if code < 0 or 0xD800 <= code < 0xE000:
                return -1
        else:
            return -1
        to += encode(<uint32_t> code, to)
        at += 1
    return to - start

cdef int read_number(Json *json, uint64_t code) except -1 nogil:
    cdef const uint8_t *at = json.at
    cdef const uint8_t *end = json.end
    cdef bint negative = False, real = False, down = False
    cdef uint64_t mantissa = 0
    cdef int digits = 0, exponent = 0, power = 0
    cdef double value
    if at < end and at[0] == 45:
        negative = True
        at += 1
    if at >= end or not 48 <= at[0] <= 57:
        return LEFT
    if at[0] == 48 and at + 1 < end and 48 <= at[1] <= 57:
        return LEFT
    while at < end and 48 <= at[0] <= 57:
        mantissa = 10 * mantissa + (at[0] - 48)
        digits += 1
        at += 1
    if at < end and at[0] == 46:
        real = True
        at += 1
        if at >= end or not 48 <= at[0] <= 57:
            return LEFT
        while at < end and 48 <= at[0] <= 57:
            mantissa = 10 * mantissa + (at[0] - 48)
            digits += 1
            exponent -= 1
            at += 1
            if digits > 18:
                return LEFT
    if digits > 18:
        return LEFT
    if at < end and (at[0] == 101 or at[0] == 69):
        real = True
        at += 1
        if at < end and (at[0] == 43 or at[0] == 45):
            down = at[0] == 45
            at += 1
        if at >= end or not 48 <= at[0] <= 57:
            return LEFT
        while at < end and 48 <= at[0] <= 57:
            power = 10 * power + (at[0] - 48)
            if power > 1000:
                return LEFT
            at += 1
        exponent += -power if down else power
    json.at = at
    if code <= 1:  # nobody asks; but a number that no double holds is a mistake all the same
        return LEFT if digits + exponent > MOST_DIGITS else READ
    if not real:
        put_integer(json.event, (code >> 1) - 1,
                    -<int64_t> mantissa if negative else <int64_t> mantissa)
        return READ
    if not tidings_decimal(mantissa, exponent, &value):
        return LEFT
    put_real(json.event, (code >> 1) - 1, -value if negative else value)
    return READ

cdef bint read_word(Json *json, const char *word, size_t size) noexcept nogil:
    if <size_t> (json.end - json.at) < size or memcmp(json.at, word, size) != 0:
        return False
    json.at += size
    return True

cdef int read_json_value(Json *json, uint64_t code) except -1 nogil:
    """Read any value of the name in `path`, whose code is `code`; zero if nobody asks."""
    cdef Quoted text
    cdef int64_t size
    skip_space(json)
    if json.at >= json.end:
        return LEFT
    if json.at[0] == 34:
        json.at += 1
        if scan_string(json, &text) == LEFT:
            return LEFT
        if code > 1:
            size = unescape(&text, room_for_text(json.event, text.size))
            if size < 0:
                return LEFT
            put_written(json.event, (code >> 1) - 1, size)
            return READ
        return LEFT if text.escaped and not escapes_are_valid(json, &text) else READ
    if json.at[0] == 123:
        return read_json_object(json, code)
    if json.at[0] == 91:
        return read_json_array(json, code)
    if json.at[0] == 116 or json.at[0] == 102:
        if read_word(json, b"true", 4):
            if code > 1:
                put_truth(json.event, (code >> 1) - 1, True)
            return READ
        if read_word(json, b"false", 5):
            if code > 1:
                put_truth(json.event, (code >> 1) - 1, False)
            return READ
        return LEFT
    if json.at[0] == 110:
        if not read_word(json, b"null", 4):
            return LEFT
        if code > 1:
            put_null(json.event, (code >> 1) - 1)
        return READ
    return read_number(json, code)

cdef bint escapes_are_valid(Json *json, const Quoted *text) except -1 nogil:
    """Whether a string that nobody asks about is one; written where it is overwritten again."""
    return unescape(text, room_for_text(json.event, text.size)) >= 0

cdef int read_json_array(Json *json, uint64_t code) except -1 nogil:
    cdef uint32_t first = 0, outside = json.event.within
    json.at += 1
    json.depth += 1
    if json.depth > DEEPEST:
        return LEFT
    skip_space(json)
    if json.at < json.end and json.at[0] == 93:
        json.at += 1
        json.depth -= 1
        return READ
    while True:
        skip_space(json)
        if code and json.at < json.end and (json.at[0] == 91 or json.at[0] == 123):
            begin_element(json.event, &first)
        if read_json_value(json, code) == LEFT:
            return LEFT
        json.event.within = outside
        skip_space(json)
        if json.at >= json.end:
            return LEFT
        json.at += 1
        if json.at[-1] == 93:
            json.depth -= 1
            return READ
        if json.at[-1] != 44:
            return LEFT

cdef int64_t read_key(Json *json, uint64_t code, uint32_t object) except -2 nogil:
    """Read a key and append it to the path; the code of that name, or -1 to leave it to Python."""
    cdef Quoted text
    cdef int64_t size, entry
    cdef bint dotted
    skip_space(json)
    if json.at >= json.end or json.at[0] != 34:
        return -1
    json.at += 1
    if scan_string(json, &text) == LEFT:
        return -1
    if not code & 1:
        return -1 if text.escaped and not escapes_are_valid(json, &text) else 0
    if json.path_size + text.size + 1 > json.path_room:
        json.path_room = 2 * (json.path_size + text.size) + 64
        json.path = <uint8_t *> enlarged(json.path, json.path_room)
    size = unescape(&text, json.path + json.path_size)
    if size < 0:
        return -1
    dotted = memchr(json.path + json.path_size, 46, size) != NULL
    json.path_size += size
    entry = find_name(json)
    if entry < 0:
        return 0
    # A key that is repeated: the last value counts, which this pass cannot know. Only a key with a
    # dot can be repeated with another object's key of the same name between.
    if json.seen[entry] == object or (dotted and json.seen[entry] >= json.first_object):
        return -1
    json.seen[entry] = object
    return json.entries[entry].code

cdef int read_json_object(Json *json, uint64_t code) except -1 nogil:
    """Read a record; its fields are asked about if the code says that names go on here."""
    cdef size_t before = json.path_size
    cdef uint32_t object = json.objects
    cdef int64_t field
    cdef bint dotted
    json.objects += 1
    json.at += 1
    json.depth += 1
    if json.depth > DEEPEST:
        return LEFT
    dotted = code & 1 and json.depth > 1  # the root has no name
    if dotted:
        if before + 1 > json.path_room:
            json.path_room = 2 * before + 64
            json.path = <uint8_t *> enlarged(json.path, json.path_room)
        json.path[before] = 46
        json.path_size += 1
    skip_space(json)
    if json.at < json.end and json.at[0] == 125:
        json.at += 1
        json.depth -= 1
        json.path_size = before
        return READ
    while True:
        field = read_key(json, code, object)
        if field < 0:
            return LEFT
        skip_space(json)
        if json.at >= json.end or json.at[0] != 58:
            return LEFT
        json.at += 1
        if read_json_value(json, field) == LEFT:
            return LEFT
        json.path_size = before + dotted
        skip_space(json)
        if json.at >= json.end:
            return LEFT
        json.at += 1
        if json.at[-1] == 125:
            json.depth -= 1
            json.path_size = before
            return READ
        if json.at[-1] != 44:
            return LEFT

cdef int read_json(Json *json, const uint8_t *text, size_t size) except -1 nogil:
    """Read an event from JSON text; LEFT if Python must read it instead."""
    json.at = text
    json.end = text + size
    json.path_size = 0
    json.depth = 0
    if json.objects > <uint32_t> 0xF0000000:  # begin to count again
        memset(json.seen, 0, (json.mask + 1) * sizeof(uint32_t))
        json.objects = 0
    json.objects += 1
    json.first_object = json.objects
    skip_space(json)
    if json.at >= json.end or json.at[0] != 123:
        return LEFT
    if read_json_object(json, 1) == LEFT:
        return LEFT
    skip_space(json)
    return READ if json.at == json.end else LEFT

cdef int prepare_json(Json *json, EventData *event, NameTable table) except -1:
    """Make ready to read events with the names of a table."""
    json.event = event
    if json.entries != table.entries:
        json.seen = <uint32_t *> enlarged(json.seen, (table.mask + 1) * sizeof(uint32_t))
        memset(json.seen, 0, (table.mask + 1) * sizeof(uint32_t))
        json.objects = 0
    json.entries = table.entries
    json.mask = table.mask
    json.names = <const uint8_t *> <const char *> table.all
    return 0
