# The attributes that subscriptions ask about, each with a number.

cdef class Names:
    """Attributes by name.

    `codes` is what the readers look up: for each name that somebody asks about, and for each
    beginning of one before a dot, a code (see event.pxi).
    """

    cdef readonly dict codes
    cdef readonly list listed  # name and whether its texts are folded, by number
    cdef dict numbers  # by name
    cdef dict folded_numbers
    cdef dict dormant  # numbers of names that nobody asks about any more
    cdef uint32_t *folded  # by attribute: the one that holds its texts folded, or zero
    cdef uint32_t folded_room
    cdef uint32_t count
    cdef size_t entered  # names, ever
    cdef list outgrown  # arrays that a reader may still use

    def __cinit__(self):
        self.codes = {}
        self.numbers = {}
        self.folded_numbers = {}
        self.dormant = {}
        self.listed = [("", False)]
        self.outgrown = []
        self.count = 1  # zero is nobody's
        self.reserve(16)

    def __dealloc__(self):
        free(self.folded)

    cdef int reserve(self, uint32_t room) except -1:
        cdef uint32_t *larger
        cdef bytes old
        if room <= self.folded_room:
            return 0
        room = 2 * room
        larger = <uint32_t *> zeroed(room * sizeof(uint32_t))
        if self.folded != NULL:
            memcpy(larger, self.folded, self.folded_room * sizeof(uint32_t))
            self.outgrown.append(PyCapsule_New(self.folded, NULL, free_capsule))
        self.folded = larger
        self.folded_room = room
        return 0

    cdef uint32_t attribute(self, str name, bint folded) except 0:
        """The number of an attribute, or of the one that holds its texts folded."""
        cdef dict numbers = self.folded_numbers if folded else self.numbers
        cdef uint32_t plain
        found = numbers.get(name)
        if found is not None:
            if folded:
                self.attribute(name, False)  # which may be dormant
            return found
        plain = self.attribute(name, False) if folded else 0
        if not folded and name in self.dormant:
            numbers[name] = self.dormant.pop(name)
            self.enter(name, numbers[name])
            return numbers[name]
        self.reserve(self.count + 2)
        if folded:
            self.folded[plain] = self.count
        else:
            self.enter(name, self.count)
        numbers[name] = self.count
        self.listed.append((name, folded))
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
        unused = [name for name in self.numbers if name not in asked]
        if not unused:
            return False
        for name in unused:
            self.dormant[name] = self.numbers.pop(name)
        self.codes = {}  # a new one, because readers may be at the old one
        for name, number in self.numbers.items():
            self.enter(name, number)
        return True

    def asked(self):
        """The attributes that subscriptions ask about."""
        return set(self.numbers)

    cdef int restore(self, list listed) except -1:
        """Number the attributes of a saved table as they were; raises if that cannot be."""
        for name, folded in listed[1:]:
            if type(name) is not str or self.attribute(name, bool(folded)) != self.count - 1:
                raise ValueError(f"the attribute {name!r} is not where it belongs")
            if folded:
                learn_folds()
        return 0

cdef void free_capsule(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, NULL))
