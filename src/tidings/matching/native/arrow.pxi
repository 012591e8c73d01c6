# Reading Arrow by its C data interface: a tree of columns, made once a batch, read row by row.
#
# Structs and maps are records, lists are lists, a null is an absent value. Only columns that
# somebody asks about are in the tree. Types that the tree does not know raise `Unreadable`; then
# Python reads the rows.

class Unreadable(Exception):
    """A column of a type that is left to Python."""


cdef struct ArrowSchema:
    const char *format
    const char *name
    const char *metadata
    int64_t flags
    int64_t n_children
    ArrowSchema **children
    ArrowSchema *dictionary
    void *release
    void *private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void **buffers
    ArrowArray **children
    ArrowArray *dictionary
    void *release
    void *private_data

cdef enum:
    NODE_NULL
    NODE_BOOL
    NODE_INT
    NODE_UINT
    NODE_FLOAT
    NODE_TEXT
    NODE_LARGE_TEXT
    NODE_VIEW
    NODE_STRUCT
    NODE_LIST
    NODE_LARGE_LIST
    NODE_FIXED_LIST
    NODE_MAP
    NODE_CODED  # a dictionary: its codes are integers, its child the values

cdef struct Node:
    int kind
    int width  # bytes of a number
    uint32_t attribute  # 1 + the attribute of scalars; zero if nobody asks
    int64_t offset
    const uint8_t *valid
    const void **buffers
    int64_t size  # of a list of fixed size
    Node **children
    int64_t count
    Node *keys  # of a map; its children are items, each for one key
    const uint8_t *key  # of an item
    size_t key_size

cdef void free_node(Node *node) noexcept:
    cdef int64_t i
    if node == NULL:
        return
    for i in range(node.count):
        free_node(node.children[i])
    free_node(node.keys)
    free(node.children)
    free(node)

cdef inline bint bit_at(const uint8_t *bits, int64_t place) noexcept nogil:
    return bits[place >> 3] >> (place & 7) & 1

cdef Span node_text(const Node *node, int64_t place) noexcept nogil:
    """The text or the bytes at a place of the buffers."""
    cdef Span text
    cdef const int32_t *view
    if node.kind == NODE_TEXT:
        text.at = <const uint8_t *> node.buffers[2] + (<const int32_t *> node.buffers[1])[place]
        text.size = (<const int32_t *> node.buffers[1])[place + 1] - \
            (<const int32_t *> node.buffers[1])[place]
    elif node.kind == NODE_LARGE_TEXT:
        text.at = <const uint8_t *> node.buffers[2] + (<const int64_t *> node.buffers[1])[place]
        text.size = (<const int64_t *> node.buffers[1])[place + 1] - \
            (<const int64_t *> node.buffers[1])[place]
    else:
        tidings_check(node.kind == NODE_VIEW)
        view = <const int32_t *> node.buffers[1] + 4 * place
        text.size = view[0]
        if view[0] <= 12:
            text.at = <const uint8_t *> (view + 1)
        else:
            text.at = <const uint8_t *> node.buffers[2 + view[2]] + view[3]
    return text

cdef int64_t integer_at(const Node *node, int64_t place) noexcept nogil:
    cdef const void *data = node.buffers[1]
    if node.kind == NODE_INT or node.kind == NODE_CODED:
        if node.width == 8:
            return (<const int64_t *> data)[place]
        if node.width == 4:
            return (<const int32_t *> data)[place]
        if node.width == 2:
            return (<const int16_t *> data)[place]
        return (<const int8_t *> data)[place]
    if node.width == 8:
        return <int64_t> (<const uint64_t *> data)[place]
    if node.width == 4:
        return (<const uint32_t *> data)[place]
    if node.width == 2:
        return (<const uint16_t *> data)[place]
    return (<const uint8_t *> data)[place]

cdef bint is_nested(const Node *node) noexcept nogil:
    """Whether the values of a column are records or lists."""
    return is_nested(node.children[0]) if node.kind == NODE_CODED else node.kind >= NODE_STRUCT

cdef int read_node(const Node *node, int64_t row, EventData *event) except -1 nogil:
    """Put the values of a row into the event."""
    cdef int64_t place = row + node.offset, i, first, last
    cdef uint32_t first_element = 0, outside = event.within
    cdef bint nested
    if node.kind == NODE_NULL or (node.valid != NULL and not bit_at(node.valid, place)):
        return 0
    if node.kind <= NODE_VIEW:
        return put_leaf(event, node.attribute - 1, node, place)
    if node.kind == NODE_STRUCT:
        for i in range(node.count):
            read_node(node.children[i], place, event)
    elif node.kind == NODE_CODED:
        read_node(node.children[0], integer_at(node, place), event)
    elif node.kind == NODE_MAP:
        first = (<const int32_t *> node.buffers[1])[place]
        last = (<const int32_t *> node.buffers[1])[place + 1]
        for i in range(node.count):
            read_item_of_map(node, node.children[i], first, last, event)
    else:
        if node.kind == NODE_LIST:
            first = (<const int32_t *> node.buffers[1])[place]
            last = (<const int32_t *> node.buffers[1])[place + 1]
        elif node.kind == NODE_LARGE_LIST:
            first = (<const int64_t *> node.buffers[1])[place]
            last = (<const int64_t *> node.buffers[1])[place + 1]
        else:
            first = node.size * place
            last = first + node.size
        nested = is_nested(node.children[0])
        for i in range(first, last):
            if nested:
                begin_element(event, &first_element)
            read_node(node.children[0], i, event)
            event.within = outside
    return 0

cdef enum:
    ROWS_AT_ONCE = 32  # their bits and up to seven before them are in one word

cdef uint64_t rows_with(const Node *node, int64_t row, int count) noexcept nogil:
    """Which of some rows, from `row` on, have something in a column, as bits."""
    cdef uint64_t all = (<uint64_t> 1 << count) - 1, bits = 0
    cdef int64_t first = row + node.offset, place
    tidings_check(count <= ROWS_AT_ONCE)
    if node.kind == NODE_NULL:
        return 0
    if node.valid == NULL:
        return all
    for place in range(first >> 3, (first + count + 7) >> 3):
        bits |= <uint64_t> node.valid[place] << 8 * (place - (first >> 3))
    return bits >> (first & 7) & all

cdef int put_leaf(EventData *event, uint32_t attribute, const Node *node, int64_t place) \
        except -1 nogil:
    cdef Span text
    if node.kind == NODE_INT:
        return put_integer(event, attribute, integer_at(node, place))
    if node.kind == NODE_UINT:
        return put_unsigned(event, attribute, <uint64_t> integer_at(node, place))
    if node.kind == NODE_FLOAT:
        if node.width == 8:
            return put_real(event, attribute, (<const double *> node.buffers[1])[place])
        return put_real(event, attribute, (<const float *> node.buffers[1])[place])
    if node.kind == NODE_BOOL:
        return put_truth(event, attribute, bit_at(<const uint8_t *> node.buffers[1], place))
    text = node_text(node, place)
    return put_text(event, attribute, text.at, text.size)

cdef int read_item_of_map(const Node *map, const Node *item, int64_t first, int64_t last,
                          EventData *event) except -1 nogil:
    """The value under one key; if the key is repeated, the last one."""
    cdef Span key
    cdef int64_t place = last + map.size  # the entries of a map have an offset of their own
    while place > first + map.size:
        place -= 1
        key = node_text(map.keys, place + map.keys.offset)
        if key.size == item.key_size and memcmp(key.at, item.key, key.size) == 0:
            return read_node(item, place, event)
    return 0


cdef bint text_of_row(const Node *node, int64_t row, Span *text) noexcept nogil:
    """The text of a row in a column of texts; False if it is null."""
    cdef int64_t place = row + node.offset
    if node.kind == NODE_NULL or (node.valid != NULL and not bit_at(node.valid, place)):
        return False
    if node.kind == NODE_CODED:
        return text_of_row(node.children[0], integer_at(node, place), text)
    text[0] = node_text(node, place)
    return True


cdef class Columns:
    """A batch with columns as attributes, or with one column of JSON, ready to be read by rows."""

    cdef Node **nodes
    cdef int count
    cdef readonly int64_t rows
    cdef list kept  # capsules and names that the tree points into
    cdef bint json

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            free_node(self.nodes[i])
        free(self.nodes)

    @staticmethod
    def of(batch, Names names, json=None):
        """The columns of a record batch that somebody asks about, or the one called `json`."""
        cdef Columns made = Columns.__new__(Columns)
        cdef ArrowSchema *schema
        cdef ArrowArray *array
        cdef int64_t i
        cdef str name
        cdef long code
        schema_capsule, array_capsule = batch.__arrow_c_array__()
        made.kept = [schema_capsule, array_capsule]
        schema = <ArrowSchema *> PyCapsule_GetPointer(schema_capsule, "arrow_schema")
        array = <ArrowArray *> PyCapsule_GetPointer(array_capsule, "arrow_array")
        made.rows = array.length
        made.json = json is not None
        made.nodes = <Node **> zeroed((schema.n_children + 1) * sizeof(Node *))
        for i in range(schema.n_children):
            name = schema.children[i].name.decode()
            code = names.codes.get(name, 0) if json is None else 2 * (name == json)
            if code:
                made.nodes[made.count] = made.node(
                    schema.children[i], array.children[i], name, code, names)
                made.nodes[made.count].offset += array.offset
                made.count += 1
        return made

    def decoded(self, int64_t row):
        """The event in a row of a column of JSON, as Python reads it."""
        cdef Span text
        if not text_of_row(self.nodes[0], row, &text):
            return {}
        return read_event((<const char *> text.at)[:text.size])

    cdef Node *node(self, ArrowSchema *schema, ArrowArray *array, str name, long code,
                    Names names) except NULL:
        """The tree of a column, or of a part of one."""
        cdef Node *node = <Node *> zeroed(sizeof(Node))
        cdef str format = schema.format.decode()
        try:
            node.offset = array.offset
            node.attribute = <uint32_t> (code >> 1)
            node.buffers = array.buffers
            if array.n_buffers and array.null_count:
                node.valid = <const uint8_t *> array.buffers[0]
            if schema.dictionary != NULL:
                if format in ("C", "S", "I", "L"):
                    node.kind = NODE_UINT
                    raise Unreadable(format)
                self.leaf(node, format)
                node.kind = NODE_CODED
                self.add(node, self.node(schema.dictionary, array.dictionary, name, code, names))
            elif format[0] == "+":
                self.nested(node, schema, array, name, code, names, format)
            else:
                self.leaf(node, format)
                if node.attribute == 0:
                    node.kind = NODE_NULL
            return node
        except:
            free_node(node)
            raise

    cdef int add(self, Node *parent, Node *child) except -1:
        parent.children = <Node **> enlarged(
            parent.children, (parent.count + 1) * sizeof(Node *))
        parent.children[parent.count] = child
        parent.count += 1
        return 0

    cdef int leaf(self, Node *node, str format) except -1:
        found = LEAVES.get(format)
        if found is None or (format in ("z", "Z", "vz") and not self.json):
            if node.attribute == 0:
                node.kind = NODE_NULL
                return 0
            raise Unreadable(format)
        node.kind, node.width = found
        return 0

    cdef int nested(self, Node *node, ArrowSchema *schema, ArrowArray *array, str name, long code,
                    Names names, str format) except -1:
        cdef int64_t i
        cdef long inner
        cdef str field
        if format == "+s":
            node.kind = NODE_STRUCT
            for i in range(schema.n_children if code & 1 else 0):
                field = name + "." + schema.children[i].name.decode()
                inner = names.codes.get(field, 0)
                if inner:
                    self.add(node, self.node(
                        schema.children[i], array.children[i], field, inner, names))
        elif format == "+m":
            node.kind = NODE_MAP
            node.size = array.children[0].offset
            if code & 1:
                self.items(node, schema.children[0], array.children[0], name, names)
        elif format in ("+l", "+L") or format.startswith("+w:"):
            node.kind = NODE_LIST if format == "+l" else NODE_LARGE_LIST if format == "+L" else \
                NODE_FIXED_LIST
            node.size = int(format[3:]) if node.kind == NODE_FIXED_LIST else 0
            self.add(node, self.node(
                schema.children[0], array.children[0], name, code, names))
        else:
            raise Unreadable(format)
        return 0

    cdef int items(self, Node *node, ArrowSchema *schema, ArrowArray *array, str name,
                   Names names) except -1:
        """The items of a map, one for each key that somebody asks about."""
        cdef Node *item
        cdef bytes key
        node.keys = self.node(schema.children[0], array.children[0], name, 2, names)
        if node.keys.kind not in (NODE_TEXT, NODE_LARGE_TEXT, NODE_VIEW):
            raise Unreadable("keys of a map")
        for other, code in names.codes.items():
            if other.startswith(name + "."):
                key = other[len(name) + 1:].encode()
                self.kept.append(key)
                item = self.node(schema.children[1], array.children[1], other, code, names)
                item.key = <const uint8_t *> <const char *> key
                item.key_size = len(key)
                self.add(node, item)
        return 0

LEAVES = {
    "n": (NODE_NULL, 0), "b": (NODE_BOOL, 0),
    "c": (NODE_INT, 1), "s": (NODE_INT, 2), "i": (NODE_INT, 4), "l": (NODE_INT, 8),
    "C": (NODE_UINT, 1), "S": (NODE_UINT, 2), "I": (NODE_UINT, 4), "L": (NODE_UINT, 8),
    "f": (NODE_FLOAT, 4), "g": (NODE_FLOAT, 8),
    "u": (NODE_TEXT, 0), "U": (NODE_LARGE_TEXT, 0), "vu": (NODE_VIEW, 0),
    "z": (NODE_TEXT, 0), "Z": (NODE_LARGE_TEXT, 0), "vz": (NODE_VIEW, 0),
}
