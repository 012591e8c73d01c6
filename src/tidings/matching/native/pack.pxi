# From constraints to records: the only place that knows `Constraint`.
#
# What the engine cannot test (regular expressions, tests of other dialects, very long patterns,
# constants that no record holds) becomes the residual of its record: an expression that Python
# evaluates for the events that satisfy the rest. Where the attribute must at least be present, the
# record says so. A test of another dialect for a null is one of the attribute that has the nulls,
# and where a dialect can say it in fields, the record has these, and few events need the residual.

cdef enum:
    LONGEST_PATTERN = 64  # bytes of a LIKE that the engine tests; its time grows with them
    MOST_FIELDS = 64  # of a residual that the engine tests
    IGNORING_CASE = 64  # in the code of an operator: its texts are folded

LONGEST_LIKE = LONGEST_PATTERN
NUMBER_OPERATORS = {
    "exists": EXISTS, "=": NUMBER_EQ, "!=": NUMBER_NE, "<": NUMBER_LT, "<=": NUMBER_LE,
    ">": NUMBER_GT, ">=": NUMBER_GE, "between": NUMBER_BETWEEN, "in": NUMBER_IN,
}
TEXT_OPERATORS = {
    "exists": EXISTS, "=": TEXT_EQ, "!=": TEXT_NE, "<": TEXT_LT, "<=": TEXT_LE, ">": TEXT_GT,
    ">=": TEXT_GE, "between": TEXT_BETWEEN, "in": TEXT_IN, "prefix": PREFIX, "suffix": SUFFIX,
    "contains": CONTAINS, "like": LIKE,
}
TEXT_OPERATORS |= {
    "i" + name: TEXT_OPERATORS[name] | IGNORING_CASE
    for name in ("=", "!=", "in", "prefix", "suffix", "contains", "like")
}
# By the type of a constraint: the types of values, and the codes of the operators.
TYPES = {
    "number": (INTEGER | REAL, NUMBER_OPERATORS),
    "int": (INTEGER, NUMBER_OPERATORS),
    "real": (REAL, NUMBER_OPERATORS),
    "string": (TEXT, TEXT_OPERATORS),
    "bool": (BOOLEAN, {"exists": EXISTS, "=": IS_TRUE}),
    "any": (ANY_TYPE, {"exists": EXISTS}),
}

class Unpackable(Exception):
    """A constraint that only Python can test."""


ctypedef struct Buffer:
    uint8_t *data
    size_t size
    size_t room

cdef uint8_t *extend_buffer(Buffer *buffer, size_t size) except NULL:
    """Zeroed room for more bytes at the end of a buffer."""
    cdef uint8_t *at
    if buffer.size + size > buffer.room:
        buffer.room = 2 * (buffer.size + size) + 256
        buffer.data = <uint8_t *> enlarged(buffer.data, buffer.room)
    at = buffer.data + buffer.size
    memset(at, 0, size)
    buffer.size += size
    return at

cdef Number constant(object value) except *:
    """A number of a predicate, exactly."""
    cdef Number number
    number.low = 0
    if type(value) is float:
        number.high = value
    else:
        try:
            number.high = value
        except OverflowError:
            raise Unpackable from None
        if not -9007199254740992.0 < number.high < 9007199254740992.0:
            left = int(value) - int(number.high)
            if not -MOST_LEFT < left < MOST_LEFT:
                raise Unpackable
            number.low = left
    if number.high != number.high:
        raise Unpackable
    if number.high == 0:
        number.high = 0.0  # one zero
    return number

cdef int put_numbers(Buffer *buffer, size_t test, tuple values, bint counted) except -1:
    """The payload of numbers of the test that begins at `test`."""
    cdef size_t count = len(values), i, width
    cdef Number *numbers = <Number *> enlarged(NULL, (count + 1) * sizeof(Number))
    cdef uint8_t *at
    cdef bint wide = False
    try:
        for i in range(count):
            numbers[i] = constant(values[i])
            wide = wide or numbers[i].low != 0
        width = 16 if wide else 8
        at = extend_buffer(buffer, width * count + (8 if counted else 0))
        if counted:
            (<uint32_t *> at)[0] = <uint32_t> count
            at += 8
        for i in range(count):
            (<double *> (at + width * i))[0] = numbers[i].high
            if wide:
                (<int64_t *> (at + width * i))[1] = numbers[i].low
    finally:
        free(numbers)
    if wide:
        (<Test *> (buffer.data + test)).flags |= WIDE
    return 0

cdef bytes utf8(object text):
    if type(text) is not str:
        raise Unpackable
    try:
        return (<str> text).encode()
    except UnicodeEncodeError:
        raise Unpackable from None

cdef bytes pattern_bytes(str pattern):
    """A pattern of LIKE as `fits` reads it."""
    data = b"".join([
        utf8(part) if isinstance(part, str) else WILDCARDS[part]
        for part in wildcard_tokens(pattern)
    ])
    if len(data) > LONGEST_PATTERN:
        raise Unpackable
    return data

WILDCARDS = {WILDCARD_ONE: bytes([ANY_CHARACTER]), WILDCARD_MANY: bytes([ANY_TEXT])}

cdef int put_one_text(Buffer *buffer, const char *text, size_t size) except -1:
    cdef uint8_t *at = extend_buffer(buffer, padded(4 + size))
    (<uint32_t *> at)[0] = <uint32_t> size
    memcpy(at + 4, text, size)
    return 0

cdef int put_two_texts(Buffer *buffer, bytes low, bytes high) except -1:
    cdef uint32_t first = len(low), second = len(high)
    cdef uint8_t *at = extend_buffer(buffer, padded(8 + <size_t> first + second))
    (<uint32_t *> at)[0] = first
    (<uint32_t *> at)[1] = second
    memcpy(at + 8, <const char *> low, first)
    memcpy(at + 8 + first, <const char *> high, second)
    return 0

cdef int put_texts(Buffer *buffer, list texts) except -1:
    """Texts in their order, none twice."""
    cdef uint32_t count = len(texts), i, end = 0
    cdef size_t total = sum(map(len, texts))
    cdef uint8_t *at
    cdef uint8_t *content
    if total > MAX_TEXT:
        raise Unpackable
    at = extend_buffer(buffer, padded(8 + 4 * <size_t> count + total))
    content = at + 8 + 4 * <size_t> count
    (<uint32_t *> at)[0] = count
    for i in range(count):
        text = <bytes> texts[i]
        memcpy(content + end, <const char *> text, len(text))
        end += len(text)
        (<uint32_t *> at)[2 + i] = end
    return 0

cdef int put_test(Buffer *buffer, uint32_t attribute, int op, int types, int flags,
                  int rarity) except -1:
    cdef Test *test = <Test *> extend_buffer(buffer, sizeof(Test))
    test.attribute = attribute
    test.op = op
    test.types = types
    test.flags = flags
    test.rarity = rarity
    return 0

cdef class Packer:
    """Turns filters into records, and gives attributes their numbers."""

    cdef Names names
    cdef object statistics
    cdef Buffer buffer
    cdef uint32_t records
    cdef list asks  # the residuals of the subscription, as expressions; None if it has none
    cdef str kind  # the type of the last constraint, and what TYPES has of it
    cdef int types
    cdef dict operators

    def __cinit__(self, Names names, statistics):
        self.names = names
        self.statistics = statistics

    def __dealloc__(self):
        free(self.buffer.data)

    cdef int rarity(self, constraint) except -1:
        """How rare events are that satisfy a constraint; 0 if nobody knows."""
        if self.statistics is None or constraint.operator in UNKNOWN_SHARE:
            return 0
        share = max(self.statistics.share(constraint), 1e-9)
        return 1 + min(254, max(0, round(-8.0 * log2(share))))

    cdef bint pack_constraint(self, constraint) except -1:
        """Append a constraint to the record; returns whether Python must test it."""
        cdef tuple fields = <tuple> constraint  # a subclass, so it is not checked again
        cdef str name = <str> fields[0], op = <str> fields[1], kind = <str> fields[2]
        cdef bint negated = fields[3]
        cdef size_t before = self.buffer.size
        try:
            if op == "holds":
                self.pack_null(fields[4], negated)
            else:
                self.pack_test(constraint, name, op, kind, negated, fields[4])
            return False
        except Unpackable:
            self.buffer.size = before
        if op != "holds" and not negated:
            put_test(&self.buffer, self.names.attribute(name, PLAIN), EXISTS,
                     TYPES[kind][0], False, 0)
        return True

    cdef int pack_null(self, operand, bint negated) except -1:
        """A test of another dialect, which can only be packed if it is for a null."""
        name = DIALECTS[operand[0]].tested_for_null(operand[1])
        if name is None:
            raise Unpackable
        put_test(&self.buffer, self.names.attribute(name, NULLS), EXISTS, ANY_TYPE, negated, 0)
        return 0

    cdef int pack_test(self, constraint, str name, str op, str kind, bint negated,
                       operand) except -1:
        cdef int code
        cdef bint folded
        cdef size_t test = self.buffer.size
        if kind is not self.kind:
            self.types, self.operators = TYPES[kind]
            self.kind = kind
        found = self.operators.get(op)
        if found is None:
            raise Unpackable
        code = found
        folded = code & IGNORING_CASE
        code &= ~IGNORING_CASE
        if code == IS_TRUE and not operand:
            code = IS_FALSE
        if folded:
            learn_folds()
        put_test(&self.buffer, self.names.attribute(name, FOLDED if folded else PLAIN), code,
                 self.types, negated, 0 if negated else self.rarity(constraint))
        if code >= TEXT_EQ:
            self.put_operand(code, operand, folded)
        elif code >= NUMBER_EQ:
            several = code == NUMBER_BETWEEN or code == NUMBER_IN
            if code == NUMBER_IN:
                operand = tuple(sorted(set(operand)))
            put_numbers(&self.buffer, test, operand if several else (operand,), code == NUMBER_IN)
        return 0

    cdef bint pack_fields(self, constraint) except -1:
        """Append the fields of a residual; returns whether these can say what it asks."""
        cdef size_t before = self.buffer.size
        cdef int flags, last
        if constraint.operator != "holds" or constraint.negated:
            return False
        dialect, text = constraint.operand
        fields = DIALECTS[dialect].fields(text)
        if fields is None or len(fields) > MOST_FIELDS:
            return False
        try:
            for place, field in enumerate(fields):
                flags = (OR_NULL if field.null else 0) | (OR_ABSENT if field.absent else 0)
                if flags:
                    self.names.attribute(field.name, NULLS)
                put_test(&self.buffer, self.names.attribute(field.name, PLAIN), FIELD, 0,
                         flags | (MORE if place + 1 < len(fields) else 0), 0)
                for choice in field.choices:
                    for constraint in choice:
                        self.pack_part(constraint, constraint is not choice[-1])
        except Unpackable:
            self.buffer.size = before
            return False
        return True

    cdef int pack_part(self, constraint, bint more) except -1:
        """Append a test of one value."""
        cdef size_t at = self.buffer.size
        self.pack_test(constraint, constraint.name, constraint.operator, constraint.type,
                       constraint.negated, constraint.operand)
        (<Test *> (self.buffer.data + at)).flags |= MORE if more else 0
        return 0

    cdef int put_operand(self, int code, operand, bint folded) except -1:
        """The texts of a test."""
        cdef Py_ssize_t size
        cdef bytes data
        if code == TEXT_IN:
            members = {utf8(fold(text) if folded else text) for text in operand}
            return put_texts(&self.buffer, sorted(members))
        if code == TEXT_BETWEEN:
            return put_two_texts(&self.buffer, utf8(operand[0]), utf8(operand[1]))
        if folded:
            operand = fold(operand)
        if code != LIKE and type(operand) is str and PyUnicode_IS_ASCII(operand):
            return put_one_text(
                &self.buffer, PyUnicode_AsUTF8AndSize(operand, &size), len(<str> operand))
        data = pattern_bytes(operand) if code == LIKE else utf8(operand)
        return put_one_text(&self.buffer, data, len(data))

    cdef int pack_filter(self, uint32_t number, filter, bint shared, whole) except -1:
        """Append the record of a filter; `whole` is left to Python besides, if it is not None."""
        cdef size_t begin = self.buffer.size
        cdef Record *record
        cdef uint32_t tests = 0, residual = 0
        cdef size_t before
        extend_buffer(&self.buffer, sizeof(Record))
        left = None
        for constraint in filter:
            before = self.buffer.size
            if self.pack_constraint(constraint):
                left = [constraint] if left is None else [*left, constraint]
            tests += self.buffer.size > before
        if whole is not None:
            left = [whole]
        if left is not None:
            if self.asks is None:
                self.asks = []
            self.asks.append(conjoin(left))
            residual = len(self.asks) | IF_UNSURE
            for constraint in left:
                if constraint is whole or not self.pack_fields(constraint):
                    residual &= ~<uint32_t> IF_UNSURE
        if tests > 65535:
            raise ValueError(f"expected a filter of at most 65535 constraints, found {tests}")
        record = <Record *> (self.buffer.data + begin)
        record.size = <uint32_t> (self.buffer.size - begin)
        record.owner = number | (SHARED if shared else 0)
        record.tests = tests
        record.constraints = min(len(filter), 65535)
        record.residual = residual
        self.records += 1
        return 0

    cdef int pack(self, uint32_t number, filters, whole) except -1:
        """Append the records of a subscription; returns how many."""
        cdef uint32_t before = self.records
        cdef bint shared = len(filters) > 1
        self.asks = None
        for filter in filters:
            self.pack_filter(number, filter, shared, whole)
        return self.records - before
