# The attributes that subscriptions ask about, each with a number.
#
# Two more attributes may belong to a name: one has its texts folded, the other has a value for each
# of its nulls, which are no values otherwise.

cdef enum:
    PLAIN
    FOLDED
    NULLS
    DERIVED = 2  # kinds of attributes that belong to a plain one

cdef class Names:
    """Attributes by name.

    `codes` is what the readers look up: for each name that somebody asks about, and for each
    beginning of one before a dot, a code (see event.pxi).
    """

    cdef readonly dict codes
    cdef readonly list listed  # name and kind, by number
    cdef tuple numbers  # for each kind: by name
    cdef dict dormant  # numbers of names that nobody asks about any more
    cdef uint32_t *derived  # DERIVED to each attribute: those that belong to it, or zero
    cdef uint32_t room
    cdef uint32_t count
    cdef size_t entered  # names, ever
    cdef list outgrown  # arrays that a reader may still use

    def __cinit__(self):
        self.codes = {}
        self.numbers = ({}, {}, {})
        self.dormant = {}
        self.listed = [("", PLAIN)]
        self.outgrown = []
        self.count = 1  # zero is nobody's
        self.reserve(16)

    def __dealloc__(self):
        free(self.derived)

    cdef int reserve(self, uint32_t room) except -1:
        cdef uint32_t *larger
        if room <= self.room:
            return 0
        room = 2 * room
        larger = <uint32_t *> zeroed(DERIVED * <size_t> room * sizeof(uint32_t))
        if self.derived != NULL:
            memcpy(larger, self.derived, DERIVED * <size_t> self.room * sizeof(uint32_t))
            self.outgrown.append(PyCapsule_New(self.derived, NULL, free_capsule))
        self.derived = larger
        self.room = room
        return 0

    cdef uint32_t attribute(self, str name, int kind) except 0:
        """The number of an attribute, or of one that belongs to it."""
        cdef dict numbers = self.numbers[kind]
        cdef uint32_t plain = self.attribute(name, PLAIN) if kind else 0  # which may be dormant
        found = numbers.get(name)
        if found is not None:
            return found
        if kind == PLAIN and name in self.dormant:
            numbers[name] = self.dormant.pop(name)
            self.enter(name, numbers[name])
            return numbers[name]
        self.reserve(self.count + 2)
        if kind:
            self.derived[DERIVED * plain + kind - 1] = self.count
        else:
            self.enter(name, self.count)
        numbers[name] = self.count
        self.listed.append((name, kind))
        self.count += 1
        return self.count - 1

    cdef int enter(self, str name, uint32_t number) except -1:
        """Enter a name that is asked about into the codes."""
        cdef Py_ssize_t dot = name.find(".")
        self.entered += 1
        self.codes[name] = 2 * (<size_t> number + 1) + (self.codes.get(name, 0) & 1)
        while dot >= 0:
            beginning = name[:dot]
            self.codes[beginning] = self.codes.get(beginning, 0) | 1
            dot = name.find(".", dot + 1)
        return 0

    def keep_only(self, asked):
        """Leave out names that are not among those asked about; returns whether there were any."""
        cdef dict numbers = self.numbers[PLAIN]
        # Tests for null mention no attribute that has a value.
        unused = [name for name in numbers if name not in asked and name not in self.numbers[NULLS]]
        if not unused:
            return False
        for name in unused:
            self.dormant[name] = numbers.pop(name)
        self.codes = {}  # a new one, because readers may be at the old one
        for name, number in numbers.items():
            self.enter(name, number)
        return True

    def asked(self):
        """The attributes that subscriptions ask about."""
        return set(self.numbers[PLAIN])

    cdef int restore(self, list listed) except -1:
        """Number the attributes of a saved table as they were; raises if that cannot be."""
        for name, kind in listed[1:]:
            if type(name) is not str or kind not in (PLAIN, FOLDED, NULLS) or \
                    self.attribute(name, kind) != self.count - 1:
                raise ValueError(f"the attribute {name!r} is not where it belongs")
            if kind == FOLDED:
                learn_folds()
        return 0

cdef void free_capsule(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, NULL))
