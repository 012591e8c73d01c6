# The index: subscriptions by number, and all that changes them.

cdef class Index:
    """Subscriptions with an id each; `Table` adds predicates to them.

    Every method may be called from any thread. Writers take turns by `lock`; a reader takes the
    state of the moment and is not disturbed.
    """

    cdef readonly Names names
    cdef readonly list ids  # by number
    cdef readonly dict asks  # by number: residuals, as functions
    cdef readonly dict residuals  # by number: the same as expressions
    cdef readonly object lock
    cdef State state
    cdef list free  # numbers that may be used again
    cdef list leaving  # numbers without a record that are removed in the log
    cdef list contexts  # not in use
    cdef uint32_t *remaining  # by number: records in segments and log
    cdef size_t number_room
    cdef size_t live  # subscriptions
    cdef size_t filters
    cdef size_t constraints
    cdef size_t dead  # records in segments whose subscription is removed
    cdef uint64_t seed
    cdef public uint32_t log_limit
    cdef public uint32_t small  # a last segment with fewer filters is folded with the log
    cdef public uint32_t ratio  # a segment is merged with newer ones unless it is this much larger
    cdef readonly uint64_t folds
    cdef readonly uint64_t merges
    cdef readonly object statistics

    def __init__(self, statistics=None, uint32_t log=64, uint32_t small=512, uint32_t ratio=8,
                 seed=None):
        self.names = Names()
        self.ids = []
        self.asks = {}
        self.residuals = {}
        self.lock = RLock()
        self.free = []
        self.leaving = []
        self.contexts = []
        self.statistics = statistics
        self.log_limit, self.small, self.ratio = log, small, ratio
        self.seed = int.from_bytes(urandom(8), "little") if seed is None else seed
        self.state = self.new_state((), Marks.copy(None, 0), Log(log))

    def __dealloc__(self):
        free(self.remaining)

    def __len__(self):
        return self.live

    cdef State new_state(self, tuple blocks, Marks marks, Log log):
        cdef State made = State.__new__(State)
        made.blocks, made.marks, made.log, made.free = blocks, marks, log, self.free
        return made

    cdef int publish(self, State state, list retired) except -1:
        """Put a state in the place of the current one, which takes the retired numbers along."""
        cdef State before = self.state
        before.retired = retired
        before.next = state
        self.state = state
        return 0

    # Numbers

    cdef uint32_t take_number(self, id) except? 0xFFFFFFFF:
        cdef size_t number
        if self.free:
            number = self.free.pop()
            self.ids[number] = id
        else:
            number = len(self.ids)
            if number >= MOST_NUMBERS:
                raise OverflowError(f"expected at most {MOST_NUMBERS} subscriptions")
            self.ids.append(id)
            if number >= self.number_room:
                self.number_room = 2 * number + 64
                self.remaining = <uint32_t *> enlarged(
                    self.remaining, self.number_room * sizeof(uint32_t))
        self.remaining[number] = 0
        return <uint32_t> number

    cdef int forget(self, uint32_t number) except -1:
        """Forget what is kept of a subscription besides its records."""
        self.asks.pop(number, None)
        self.residuals.pop(number, None)
        self.ids[number] = None
        return 0

    # Changes

    cdef Packer pack(self, uint32_t number, filters, whole):
        """The records of a subscription, which the caller counts."""
        cdef Packer packer = Packer(self.names, self.statistics)
        self.remaining[number] = packer.pack(number, filters, whole)
        if packer.asks:
            self.residuals[number] = tuple(packer.asks)
            self.asks[number] = tuple(map(shared_check, packer.asks))
        return packer

    def add(self, id, filters, whole=None):
        """Add a subscription; returns its number, under which it can be removed."""
        with self.lock:
            number = self.take_number(id)
            packer = self.pack(number, filters, whole)
            self.append(packer, -1)
            self.live += 1
            return number

    def remove(self, uint32_t number):
        """Remove a subscription by its number."""
        with self.lock:
            self.live -= 1
            self.append(None, number)

    def replace(self, uint32_t number, filters, whole=None):
        """Give a subscription another predicate, at one moment; returns its new number."""
        with self.lock:
            other = self.take_number(self.ids[number])
            packer = self.pack(other, filters, whole)
            self.append(packer, number)
            return other

    cdef int append(self, Packer packer, int64_t removed) except -1:
        """Write operations into the log: records that come, and a number that goes, together."""
        cdef uint32_t records = packer.records if packer is not None else 0
        cdef uint32_t needed = records + (removed >= 0)
        cdef Log log = self.state.log
        cdef uint8_t *at
        cdef uint32_t i
        if log.count + needed > log.room:
            self.fold(max(needed, self.log_limit))
            log = self.state.log
        if records:
            at = packer.buffer.data
            log.chunks[log.chunk_count] = at
            log.chunk_count += 1
            packer.buffer.data = NULL
            for i in range(records):
                log.entries[log.count + i].record = <const Record *> at
                log.entries[log.count + i].number = (<const Record *> at).number
                self.constraints += (<const Record *> at).tests
                at += (<const Record *> at).size
            self.filters += records
        if removed >= 0:
            log.entries[log.count + records].record = NULL
            log.entries[log.count + records].number = <uint32_t> removed
            self.filters -= self.remaining[removed]
            if self.remaining[removed] == 0:
                self.leaving.append(removed)
        log.count += needed  # from here on readers see it
        return 0

    cdef int drop(self, const Record *record, list retired) except -1:
        """Count a record that no later state has; its number may go with it."""
        tidings_check(self.remaining[record.number] > 0)
        self.remaining[record.number] -= 1
        self.constraints -= record.tests
        if self.remaining[record.number] == 0:
            retired.append(record.number)
        return 0

    cdef int fold(self, uint32_t room) except -1:
        """Turn the log into a segment, together with the last segment if that is small."""
        cdef State state = self.state
        cdef Log log = state.log
        cdef Marks marks = Marks.copy(state.marks, len(self.ids))
        cdef Gathered gathered = Gathered()
        cdef Block last = <Block> state.blocks[-1] if state.blocks else None
        cdef tuple blocks = state.blocks
        cdef list retired = self.leaving
        cdef uint32_t i
        cdef Entry *entry
        for i in range(log.count):
            entry = &log.entries[i]
            if entry.record != NULL:
                marks.put(entry.number, False)
        for i in range(log.count):
            entry = &log.entries[i]
            if entry.record == NULL:
                marks.put(entry.number, True)
                self.dead += self.remaining[entry.number]
        if last is not None and not last.busy and last.filters() < self.small:
            blocks = blocks[:-1]
            gathered.take_segment(&last.segment, marks)
        for i in range(log.count):
            if log.entries[i].record != NULL:
                gathered.take(log.entries[i].record, marks)
        if gathered.count:
            blocks = (*blocks, Block.of(build(gathered.records, gathered.count, self.seed)))
        for i in range(gathered.dropped_count):
            self.drop(gathered.dropped[i], retired)
        self.dead -= gathered.dropped_count
        for number in retired:
            self.forget(number)
        self.leaving = []
        self.publish(self.new_state(blocks, marks, Log(room)), retired)
        self.folds += 1
        return 0

    def load(self, ids, filters_of_each, wholes):
        """Add many subscriptions, compiled into one segment; `wholes` by place."""
        cdef Packer packer = Packer(self.names, self.statistics)
        cdef uint32_t number, i
        cdef Gathered gathered = Gathered()
        cdef uint8_t *at
        with self.lock:
            for place, (id, filters) in enumerate(zip(ids, filters_of_each)):
                number = self.take_number(id)
                self.remaining[number] = packer.pack(
                    number, filters, wholes.get(place) if wholes else None)
                if packer.asks:
                    self.residuals[number] = tuple(packer.asks)
                    self.asks[number] = tuple(map(shared_check, packer.asks))
                self.live += 1
            if packer.records == 0:
                return
            at = packer.buffer.data
            for i in range(packer.records):
                gathered.take(<const Record *> at, None)
                self.constraints += (<const Record *> at).tests
                at += (<const Record *> at).size
            self.filters += packer.records
            self.fold(self.log_limit)
            block = Block.of(build_unlocked(gathered, self.seed))
            blocks = (*self.state.blocks, block)
            marks = Marks.copy(self.state.marks, len(self.ids))
            self.clear(marks, gathered)
            self.publish(self.new_state(blocks, marks, Log(self.log_limit)), [])

    cdef int clear(self, Marks marks, Gathered gathered) except -1:
        """Take the marks off numbers that are used again."""
        cdef size_t i
        for i in range(gathered.count):
            marks.put(gathered.records[i].number, False)
        return 0

    # Merging

    def due(self):
        """The segments that should become one: how many of the last, or 0."""
        cdef tuple blocks = self.state.blocks
        cdef size_t total = 0
        cdef int count = 0
        for item in reversed(blocks):
            if (<Block> item).busy:
                return 0
            if count and (<Block> item).filters() >= self.ratio * total:
                break
            total += (<Block> item).filters()
            count += 1
        if blocks and 4 * self.dead > self.filters + self.dead and self.dead > self.small:
            count = len(blocks)
            return count
        return count if count > 1 else 0

    def segments(self):
        """How many segments there are."""
        return len(self.state.blocks)

    def merge(self, int count):
        """Make one segment of the last `count`, without holding the lock meanwhile."""
        cdef Gathered gathered = Gathered()
        cdef Block block
        cdef Marks marks
        cdef State state
        cdef list retired = []
        cdef size_t i
        with self.lock:
            marks = self.state.marks
            merged = self.state.blocks[len(self.state.blocks) - count:] if count else ()
            for item in merged:
                if (<Block> item).busy:
                    return
            for item in merged:
                (<Block> item).busy = True
        if not merged:
            return
        try:
            gather_unlocked(gathered, merged, marks)
            made = Block.of(build_unlocked(gathered, self.seed)) if gathered.count else None
            with self.lock:
                state = self.state
                at = state.blocks.index(merged[0])
                assert state.blocks[at:at + count] == merged
                blocks = (*state.blocks[:at], *(() if made is None else (made,)),
                          *state.blocks[at + count:])
                for i in range(gathered.dropped_count):
                    self.drop(gathered.dropped[i], retired)
                self.dead -= gathered.dropped_count
                for number in retired:
                    self.forget(number)
                self.publish(self.new_state(blocks, state.marks, state.log), retired)
                self.merges += 1
        finally:
            for item in merged:
                (<Block> item).busy = False

    def compact(self):
        """Make one segment of everything, log included; the caller must see that nothing merges."""
        with self.lock:
            self.fold(self.log_limit)
            if len(self.state.blocks) > 1 or self.dead:
                self.merge(len(self.state.blocks))

    # Matching

    cdef Context take_context(self):
        return <Context> self.contexts.pop() if self.contexts else Context()

    def match(self, event, excluded=None):
        """The ids of the subscriptions that an event satisfies, each once.

        `excluded` are numbers that do not count.
        """
        cdef Context context = self.take_context()
        cdef Search *search = &context.search
        cdef State state
        cdef list found
        cdef size_t i
        try:
            context.prepare(self.names, self.seed, len(self.ids) + 1)
            if type(event) is not dict:
                event = self.read(search, event)
            else:
                read_dict(&search.event, self.names.codes, <dict> event, None, 0)
            state = self.state
            if search.stamp_count < <size_t> len(self.ids):  # others came while Python read it
                return self.match(event, excluded)
            if excluded is not None:
                self.exclude(search, excluded)
            match_state(search, state, state.log.count)
            found = PyList_New(search.found_count)
            for i in range(search.found_count):
                id = <object> PyList_GET_ITEM(self.ids, search.found[i])
                Py_INCREF(id)
                PyList_SET_ITEM(found, i, id)
            if search.asked_count:
                self.answer(search, event, found)
            return found
        finally:
            self.contexts.append(context)

    cdef object read(self, Search *search, event):
        """Read an event that is no plain dictionary; returns it as a mapping."""
        if isinstance(event, dict):
            read_dict(&search.event, self.names.codes, <dict> event, None, 0)
            return event
        mapping = read_event(event)
        try:
            if isinstance(mapping, dict):
                read_dict(&search.event, self.names.codes, <dict> mapping, None, 0)
            else:
                read_items(&search.event, self.names.codes, mapping, None, 0)
        except Exception as error:
            raise as_event_error("the event", error) from error
        return mapping

    cdef int exclude(self, Search *search, excluded) except -1:
        """Take some numbers for found already."""
        cdef uint32_t number
        search.event.several = True  # so that every number is looked up
        for number in excluded:
            tidings_check(number < search.stamp_count)
            search.stamps[number] = search.stamp
        return 0

    cdef int answer(self, Search *search, event, list found) except -1:
        """Evaluate residuals in Python, each once, and add the ids of those that hold.

        Python may match other events meanwhile, but not with this context.
        """
        cdef dict known = {}
        cdef const Record *record
        cdef size_t i
        seen = set()
        for i in range(search.asked_count):
            record = search.asked[i]
            number = record.number
            if number in seen or search.stamps[number] == search.stamp:
                continue
            check = self.asks[number][record.residual - 1]
            answer = known.get(check)
            if answer is None:
                answer = known[check] = bool(check(event))
            if answer:
                seen.add(number)
                found.append(self.ids[number])
        return 0

    # What it looks like

    def sizes(self):
        """Subscriptions, filters, constraints and bytes."""
        cdef uint64_t bytes = 0
        for item in self.state.blocks:
            bytes += (<Block> item).segment.header.size
        return self.live, self.filters, self.constraints, bytes

    def plan(self):
        """For each segment its filters by access path, its bytes, and its attributes."""
        return [describe(<Block> item, self.names) for item in self.state.blocks]

    def counters(self):
        """What contexts that are not in use have done: records, blocks and cells looked at."""
        checked = visited = probed = 0
        for context in self.contexts:
            checked += (<Context> context).search.checked
            visited += (<Context> context).search.visited
            probed += (<Context> context).search.probed
        return checked, visited, probed


cdef dict describe(Block block, Names names):
    """What a segment is made of."""
    cdef const Segment *segment = &block.segment
    cdef const Header *header = segment.header
    cdef const Attribute *attribute
    cdef size_t i
    attributes = []
    for i in range(header.sizes[ATTRIBUTES] // sizeof(Attribute)):
        attribute = &segment.attributes[i]
        name, folded = names.listed[attribute.attribute]
        ordered = sum([attribute.lists[k].count for k in range(LISTS)])
        blocks = sum([
            segment.groups[attribute.groups[side] + j].count
            for side in range(2) for j in range(attribute.group_counts[side])])
        kinds = [KIND_NAMES[k] for k in range(KEY_KINDS) if attribute.kinds >> k & 1]
        attributes.append({"name": name, "folded": folded, "keys": kinds, "ordered": ordered,
                           "blocks": blocks})
    return {
        "filters": header.filters, "constraints": header.constraints, "bytes": header.size,
        "by key": header.by_path[PATH_KEY], "in order": header.by_path[PATH_ORDER],
        "in blocks": header.by_path[PATH_BLOCK], "always": header.by_path[PATH_ALWAYS],
        "attributes": attributes,
    }

KIND_NAMES = ("text", "number", "truth", "presence", "prefix", "suffix", "gram")


cdef class Gathered:
    """Records that become a segment, and those that are left out."""

    cdef const Record **records
    cdef size_t count
    cdef size_t room
    cdef const Record **dropped
    cdef size_t dropped_count
    cdef size_t dropped_room

    def __dealloc__(self):
        free(<void *> self.records)
        free(<void *> self.dropped)

    cdef int take(self, const Record *record, Marks marks) except -1 nogil:
        if marks is not None and marks.has(record.number):
            if self.dropped_count == self.dropped_room:
                self.dropped_room = 2 * self.dropped_room + 64
                self.dropped = <const Record **> enlarged(
                    <void *> self.dropped, self.dropped_room * sizeof(void *))
            self.dropped[self.dropped_count] = record
            self.dropped_count += 1
            return 0
        if self.count == self.room:
            self.room = 2 * self.room + 64
            self.records = <const Record **> enlarged(
                <void *> self.records, self.room * sizeof(void *))
        self.records[self.count] = record
        self.count += 1
        return 0

    cdef int take_segment(self, const Segment *segment, Marks marks) except -1 nogil:
        """All records of a segment, without those that are marked."""
        cdef const uint8_t *at = segment.records
        cdef const uint8_t *end = at + segment.header.sizes[RECORDS]
        while at < end:
            tidings_check((<const Record *> at).size >= sizeof(Record))
            self.take(<const Record *> at, marks)
            at += (<const Record *> at).size
        return 0

cdef int gather_unlocked(Gathered gathered, tuple blocks, Marks marks) except -1:
    cdef Block block
    for item in blocks:
        block = <Block> item
        with nogil:
            gathered.take_segment(&block.segment, marks)
    return 0

cdef void *build_unlocked(Gathered gathered, uint64_t seed) except NULL:
    """Build without holding the GIL."""
    cdef void *block
    with nogil:
        block = build(gathered.records, gathered.count, seed)
    return block
