# The index: subscriptions by number, and all that changes them.

cdef enum:
    ENOUGH_IDS = 64  # in ordered lists, to have them as objects
    ID_BYTES = 40  # of such an object and what points to it


cdef class Index:
    """Subscriptions with an id each; `Table` adds predicates to them.

    Every method may be called from any thread. Writers take turns by `lock`; a reader takes the
    state of the moment and is not disturbed.
    """

    cdef object __weakref__
    cdef readonly Names names
    cdef list ids  # by number
    cdef bint own  # every id is its own number, so the objects need not be fetched from anywhere
    cdef object ids_later  # makes them, if they are not needed yet
    cdef dict asks  # by number: residuals, as functions
    cdef readonly dict residuals  # by number: the same as expressions, or as texts
    cdef readonly object lock
    cdef State state
    cdef list free  # numbers that may be used again
    cdef list leaving  # numbers without a record that are removed in the log
    cdef list contexts  # not in use
    cdef uint32_t *remaining  # by number: records in segments and log
    cdef uint32_t *weights  # by number: constraints
    cdef size_t number_count
    cdef size_t number_room
    cdef bint opened  # from a file: `remaining` is not known until something changes
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
    cdef NameTable table
    cdef size_t table_size  # names that were entered when it was made

    def __init__(self, statistics=None, uint32_t log=64, uint32_t small=512, uint32_t ratio=8,
                 seed=None):
        self.names = Names()
        self.ids = []
        self.own = True
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
        free(self.weights)

    def __len__(self):
        return self.live

    cdef State new_state(self, tuple blocks, Marks marks, Log log):
        cdef State made = State.__new__(State)
        cdef size_t i
        made.blocks, made.marks, made.log, made.free = blocks, marks, log, self.free
        made.segments = <const Segment **> zeroed(len(blocks) * sizeof(void *))
        for i in range(len(blocks)):
            made.segments[i] = &(<Block> blocks[i]).segment
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
        cdef int overflow  # of an id, which is then -1 and no number
        if self.free:
            number = self.free.pop()
            self.asks.pop(number, None)
            self.residuals.pop(number, None)
            self.ids[number] = id
        else:
            number = self.number_count
            if number >= MOST_NUMBERS:
                raise OverflowError(f"expected at most {MOST_NUMBERS} subscriptions")
            self.ids.append(id)
            self.number_count += 1
            if number >= self.number_room:
                self.number_room = 2 * number + 64
                self.remaining = <uint32_t *> enlarged(
                    self.remaining, self.number_room * sizeof(uint32_t))
                self.weights = <uint32_t *> enlarged(
                    self.weights, self.number_room * sizeof(uint32_t))
        self.own = self.own and type(id) is int and \
            PyLong_AsLongLongAndOverflow(id, &overflow) == <long long> number
        self.remaining[number] = self.weights[number] = 0
        return <uint32_t> number

    # Changes

    cdef Packer pack(self, uint32_t number, filters, whole):
        """The records of a subscription, which the caller counts."""
        cdef Packer packer = Packer(self.names, self.statistics)
        self.remaining[number] = packer.pack(number, filters, whole)
        if packer.asks:
            self.residuals[number] = tuple(packer.asks)
        return packer

    def add(self, id, filters, whole=None):
        """Add a subscription; returns its number, under which it can be removed."""
        with self.lock:
            self.prepare_changes()
            number = self.take_number(id)
            packer = self.pack(number, filters, whole)
            self.append(packer, -1)
            self.live += 1
            return number

    def remove(self, uint32_t number):
        """Remove a subscription by its number."""
        with self.lock:
            self.prepare_changes()
            self.live -= 1
            self.append(None, number)

    def replace(self, uint32_t number, filters, whole=None):
        """Give a subscription another predicate, at one moment; returns its new number."""
        with self.lock:
            self.prepare_changes()
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
                log.entries[log.count + i].number = number_in((<const Record *> at).owner)
                self.count_record(<const Record *> at)
                at += (<const Record *> at).size
        if removed >= 0:
            log.entries[log.count + records].record = NULL
            log.entries[log.count + records].number = <uint32_t> removed
            self.filters -= self.remaining[removed]
            self.constraints -= self.weights[removed]
            if self.remaining[removed] == 0:
                self.leaving.append(removed)
        log.count += needed  # from here on readers see it
        return 0

    cdef inline void count_record(self, const Record *record) noexcept:
        """Count a record that comes."""
        self.weights[number_in(record.owner)] += record.constraints
        self.constraints += record.constraints
        self.filters += 1

    cdef int drop(self, const Record *record, list retired) except -1:
        """Count a record that no later state has; its number may go with it."""
        cdef uint32_t number = number_in(record.owner)
        tidings_check(self.remaining[number] > 0)
        self.remaining[number] -= 1
        if self.remaining[number] == 0:
            retired.append(number)
        return 0

    cdef int fold(self, uint32_t room) except -1:
        """Turn the log into a segment, together with the last segment if that is small."""
        cdef State state = self.state
        cdef Log log = state.log
        cdef Marks marks = Marks.copy(state.marks, self.number_count)
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
            blocks = (*blocks, Block.of(build(gathered.records, gathered.count, self.seed, False)))
        for i in range(gathered.dropped_count):
            self.drop(gathered.dropped[i], retired)
        self.dead -= gathered.dropped_count
        self.leaving = []
        self.publish(self.new_state(blocks, marks, Log(room)), retired)
        self.folds += 1
        return 0

    def load(self, ids, filters_of_each, wholes):
        """Add many subscriptions to an empty index, compiled into one segment; `wholes` by place.

        An index of which this was interrupted is of no use any more.
        """
        cdef Packer packer = Packer(self.names, self.statistics)
        cdef uint32_t number, i
        cdef size_t place = 0
        cdef Gathered gathered = Gathered()
        cdef uint8_t *at
        with self.lock:
            self.prepare_changes()
            for id, filters in zip(ids, filters_of_each):
                if place % SIGNALS_EACH == 0:
                    PyErr_CheckSignals()
                number = self.take_number(id)
                self.remaining[number] = packer.pack(
                    number, filters, wholes.get(place) if wholes else None)
                if packer.asks:
                    self.residuals[number] = tuple(packer.asks)
                self.live += 1
                place += 1
            if packer.records == 0:
                return
            at = packer.buffer.data
            for i in range(packer.records):
                gathered.take(<const Record *> at, None)
                self.count_record(<const Record *> at)
                at += (<const Record *> at).size
            self.fold(self.log_limit)
            block = Block.of(build_unlocked(gathered, self.seed))
            blocks = (*self.state.blocks, block)
            marks = Marks.copy(self.state.marks, self.number_count)
            self.clear(marks, gathered)
            self.publish(self.new_state(blocks, marks, Log(self.log_limit)), [])

    cdef int clear(self, Marks marks, Gathered gathered) except -1:
        """Take the marks off numbers that are used again."""
        cdef size_t i
        for i in range(gathered.count):
            marks.put(number_in(gathered.records[i].owner), False)
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
                self.publish(self.new_state(blocks, state.marks, state.log), retired)
                self.merges += 1
        finally:
            for item in merged:
                (<Block> item).busy = False

    def compact(self):
        """Make one segment of everything, log included; the caller must see that nothing merges."""
        with self.lock:
            self.prepare_changes()
            self.fold(self.log_limit)
            if len(self.state.blocks) > 1 or self.dead:
                self.merge(len(self.state.blocks))

    # Matching

    cdef Context take_context(self):
        return <Context> self.contexts.pop() if self.contexts else Context()

    cdef Moment search_event(self, Context context, event, excluded, size_t enough, bint want_ids):
        """Search for what an event satisfies; the moment of the table that was searched."""
        cdef Search *search = context.search
        cdef Moment moment = self.moment()  # it asks for no name that is not known before reading
        context.prepare(self.names, self.seed, self.number_count + 1, 1)
        if type(event) is dict:
            read_record(&search.event, self.names.codes, event, None)
        else:
            self.read(context, event)
        search.enough = enough
        if excluded is not None:
            self.exclude(search, excluded)
        elif want_ids:
            self.make_ids(moment.state)
            search.wants_ids = True
        match_view(&context.rows, &moment.view)
        return moment

    def match(self, event, excluded=None, size_t enough=SIZE_MAX):
        """The ids of the subscriptions that an event satisfies, each once.

        `excluded` are numbers that do not count; the search ends when `enough` are found.
        """
        cdef Context context = self.take_context()
        cdef Search *search = context.search
        cdef Moment moment
        cdef list found
        cdef size_t i
        try:
            if self.ids_later is not None:
                self.fill_ids()
            moment = self.search_event(context, event, excluded, enough, enough == SIZE_MAX)
            found = PyList_New(search.found_count + search.id_count)
            for i in range(search.found_count):
                id = self.id_object(search.found[i])
                Py_INCREF(id)
                PyList_SET_ITEM(found, i, id)
            for i in range(search.id_count):
                Py_INCREF(<object> search.ids[i])
                PyList_SET_ITEM(found, search.found_count + i, <object> search.ids[i])
            if search.asked_count:
                for number in self.answer(search, event):
                    found.append(self.ids[number])
            return found
        finally:
            self.contexts.append(context)

    cdef inline object id_object(self, uint32_t number):
        if self.own:  # a new object is nearer than one that is anywhere in memory
            return PyLong_FromLong(number)
        return <object> PyList_GET_ITEM(self.ids, number)

    cdef int make_ids(self, State state) except -1:
        """Have the ids of ordered lists as objects in the order of the lists.

        Then an answer of thousands reads memory in order. Integers are made anew for that.
        """
        cdef Segment *segment
        cdef PyObject **ids
        cdef size_t i, count
        cdef long long value
        cdef int overflow
        for item in state.blocks:
            segment = &(<Block> item).segment
            count = owners_in(segment)
            if count < ENOUGH_IDS or segment.ids != NULL:
                continue
            ids = <PyObject **> zeroed(count * sizeof(PyObject *))
            segment.ids = ids
            for i in range(count):
                id = self.id_object(number_in(segment.owners[i]))
                if not self.own and type(id) is int:
                    value = PyLong_AsLongLongAndOverflow(id, &overflow)
                    if not overflow:
                        id = value
                Py_INCREF(id)
                ids[i] = <PyObject *> id
        return 0

    def match_events(self, events):
        """The matches of many events: arrays of rows and of numbers, in the order of rows."""
        cdef Pairs pairs = Pairs()
        cdef Context context = self.take_context()
        cdef Search *search = context.search
        cdef Moment moment
        cdef int64_t row = 0
        try:
            for event in events:
                moment = self.search_event(context, event, None, SIZE_MAX, False)
                pairs.take(search, row)
                if search.asked_count:
                    for number in self.answer(search, event):
                        pairs.put(row, number)
                row += 1
            return pairs.arrays()
        finally:
            self.contexts.append(context)

    # Batches

    cpdef Moment moment(self):
        """The table as it is now, for several calls of `match_rows`."""
        cdef Moment moment = Moment.__new__(Moment)
        moment.state = self.state
        moment.view = moment.state.view()
        return moment

    def match_rows(self, Columns columns, int64_t first, int64_t last, Moment moment,
                   int64_t base=0, size_t enough=SIZE_MAX):
        """The matches of some rows: rows, numbers, and (row, number, residual) left to Python.

        `base` is added to the numbers of rows; the search for a row ends when `enough` are found.
        It does not hold the GIL, so several threads can share a batch.
        """
        cdef Context context = self.take_context()
        cdef Pairs pairs = Pairs()
        cdef list asked = []
        cdef int i
        try:
            context.prepare(self.names, self.seed, self.number_count + 1, MOST_ROWS)
            for i in range(MOST_ROWS):
                context.rows.searches[i].enough = enough
            if columns.json:
                self.prepare_reader(context)
            self.search_rows(context, columns, first, last, moment, base, pairs, asked)
        finally:
            self.contexts.append(context)
        rows, numbers = pairs.arrays()
        return rows, numbers, asked

    cdef int search_rows(self, Context context, Columns columns, int64_t first, int64_t last,
                         Moment moment, int64_t base, Pairs pairs, list asked) except -1:
        cdef uint32_t attributes = self.names.count
        cdef int64_t begin = first
        cdef int i
        with nogil:
            while begin < last:
                context.rows.count = <int> min(<int64_t> MOST_ROWS, last - begin)
                for i in range(context.rows.count):
                    forget(&context.rows.searches[i])
                    start_event(&context.rows.searches[i].event, attributes)
                if columns.json:
                    for i in range(context.rows.count):
                        self.read_text(context, columns, begin + i, i, attributes)
                else:
                    read_columns(columns, begin, &context.rows)
                match_view(&context.rows, &moment.view)
                for i in range(context.rows.count):
                    pairs.take(&context.rows.searches[i], base + begin + i)
                    if context.rows.searches[i].asked_count:
                        with gil:
                            note_asked(&context.rows.searches[i], begin + i, asked)
                if begin == first:
                    pairs.expect(context.rows.count, last - begin - context.rows.count)
                begin += context.rows.count
        return 0

    cdef int read_text(self, Context context, Columns columns, int64_t row, int place,
                       uint32_t attributes) except -1 nogil:
        """Read the JSON of a row as the event of a search."""
        cdef Search *search = &context.rows.searches[place]
        cdef Span text
        if text_of_row(columns.nodes[0], row, &text):
            context.json.event = &search.event
            if text.size > <size_t> MAX_BYTES or \
                    read_json(&context.json, text.at, text.size) == LEFT:
                with gil:
                    start_event(&search.event, attributes)
                    read_record(&search.event, self.names.codes, columns.decoded(row), None)
        return 0

    def answers(self, asked, events, int64_t base=0):
        """Which of the pairs left to Python match: rows and numbers. `events` are by row."""
        cdef Pairs pairs = Pairs()
        known = {}
        done = set()
        for row, number, residual in asked:
            if (row, number) in done:
                continue
            check = self.checks(number)[residual - 1]
            answer = known.get((row, check))
            if answer is None:
                answer = known[row, check] = bool(check(events[row]))
            if answer:
                done.add((row, number))
                pairs.put(base + row, number)
        return pairs.arrays()

    def take_ids(self, int64_t[::1] numbers, bint integers):
        """The ids of numbers: an array of int64 if all are `integers`, else a list of texts."""
        cdef Py_ssize_t i
        cdef int64_t[::1] ids
        if self.ids_later is not None:
            self.fill_ids()
        if not integers:
            return [str(self.ids[number]) for number in numbers]
        if self.own:
            return np.asarray(numbers)
        made = np.empty(numbers.shape[0], np.int64)
        ids = made
        for i in range(numbers.shape[0]):
            ids[i] = <object> PyList_GET_ITEM(self.ids, numbers[i])
        return made

    def asked_names(self):
        """The attributes that subscriptions ask about; the empty name stands for all."""
        names = self.names.asked()
        for asked in self.residuals.values():
            names |= names_of([
                read_expression(one) if isinstance(one, str) else one for one in asked])
        return names

    cdef int prepare_reader(self, Context context) except -1:
        """Make the reader of JSON of a context ready for the names as they are now."""
        if self.table is None or self.table.codes is not self.names.codes or \
                self.table_size != self.names.entered:
            self.table = NameTable(self.names.codes)
            self.table_size = self.names.entered
        if context.table is not self.table:
            context.json.entries = NULL  # what was seen belongs to the old one
            context.table = self.table
        return prepare_json(&context.json, &context.search.event, self.table)

    cdef int read(self, Context context, event) except -1:
        """Read an event that is no plain dictionary."""
        cdef Search *search = context.search
        cdef const uint8_t[::1] view
        cdef const char *text
        cdef Py_ssize_t size
        cdef int done = LEFT
        if isinstance(event, Mapping):
            mapping = event.source if type(event) is Event else event  # which still has its nulls
        else:
            if type(event) is bytes:
                text = <const char *> <bytes> event
                size = len(<bytes> event)
            elif type(event) is str and (<str> event).isascii():
                text = PyUnicode_AsUTF8AndSize(event, &size)
            else:
                size = -1
            if 0 <= size <= MAX_BYTES:
                self.prepare_reader(context)
                done = read_json(&context.json, <const uint8_t *> text, size)
            if done == READ:
                return 0
            start_event(&search.event, self.names.count)
            mapping = read_event(event)
        try:
            read_record(&search.event, self.names.codes, mapping, None)
        except (EventError, MemoryError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise EventError(f"the event cannot be read: {reason}") from error
        return 0

    cdef int exclude(self, Search *search, excluded) except -1:
        """Take some numbers for found already."""
        cdef uint32_t number
        search.event.several = True  # so that every number is looked up
        for number in excluded:
            mark_seen(search, number)
        return 0

    cdef list answer(self, Search *search, event):
        """The numbers whose residuals hold, each evaluated once.

        Python may match other events meanwhile, but not with this context.
        """
        cdef dict known = {}
        cdef list asked = []
        cdef list found = []
        if not isinstance(event, Mapping):
            event = read_event(event)
        note_asked(search, 0, asked)
        seen = set()
        for _, number, residual in asked:
            if number in seen:
                continue
            check = self.checks(number)[residual - 1]
            answer = known.get(check)
            if answer is None:
                answer = known[check] = bool(check(event))
            if answer:
                seen.add(number)
                found.append(number)
        return found

    cdef tuple checks(self, uint32_t number):
        """The functions that evaluate the residuals of a subscription."""
        found = self.asks.get(number)
        if found is None:
            found = tuple([
                shared_check(read_expression(asked) if isinstance(asked, str) else asked)
                for asked in self.residuals[number]])
            self.asks[number] = found
        return found

    # Files

    def block(self):
        """The memory of the only segment, to be saved; None if there is nothing in it."""
        assert self.is_compact()
        if not self.state.blocks:
            return None
        block = <Block> self.state.blocks[0]
        return memoryview(<const uint8_t[:block.segment.header.size]>
                          <const uint8_t *> block.segment.header)

    def is_compact(self):
        """Whether one segment holds everything, and nothing that is removed."""
        cdef State state = self.state
        return len(state.blocks) <= 1 and state.log.count == 0 and self.dead == 0

    @property
    def numbers(self):
        """How many numbers there are; some may be free."""
        return self.number_count

    def id_of(self, uint32_t number):
        """The id of a subscription."""
        if self.ids_later is not None:
            self.fill_ids()
        return self.ids[number]

    @staticmethod
    def open(const uint8_t[::1] mapped, list listed, size_t numbers, ids, dict residuals,
             list unused, statistics=None):
        """The index of a saved segment, which stays where it is mapped.

        `ids` makes the list of ids by number, when somebody needs them; `unused` are numbers
        without a subscription. Raises `ValueError` if the segment is none.
        """
        cdef Index made = Index(statistics)
        cdef Block block = Block.__new__(Block)
        check_segment(mapped, numbers)
        block.mapped = mapped
        open_segment(&block.segment, &mapped[0])
        made.names.restore(listed)
        made.seed = block.segment.header.seed
        made.residuals = residuals
        made.ids_later = ids
        made.number_count = numbers
        made.free.extend(unused)
        made.live = numbers - len(unused)
        made.filters = block.segment.header.filters
        made.constraints = block.segment.header.constraints
        made.opened = True
        made.state = made.new_state((block,), Marks.copy(None, numbers), Log(made.log_limit))
        return made

    cdef int fill_ids(self) except -1:
        """Make the ids of an opened index, unless they are there."""
        if self.ids_later is None:
            return 0
        ids = list(self.ids_later())
        if len(ids) != self.number_count:
            raise ValueError(f"expected {self.number_count} ids, found {len(ids)}")
        if self.ids_later is not None:
            self.ids = ids
            self.own = set(map(type, ids)) == {int} and ids == list(range(len(ids)))
            self.ids_later = None
        return 0

    cdef int prepare_changes(self) except -1:
        """Count the records of an opened index, before the first change."""
        cdef Block block
        cdef const uint8_t *at
        cdef const uint8_t *end
        if not self.opened:
            return 0
        self.fill_ids()
        self.number_room = self.number_count + 64
        self.remaining = <uint32_t *> zeroed(self.number_room * sizeof(uint32_t))
        self.weights = <uint32_t *> zeroed(self.number_room * sizeof(uint32_t))
        block = <Block> self.state.blocks[0]
        at = block.segment.records
        end = at + block.segment.header.sizes[RECORDS]
        while at < end:
            if number_in((<const Record *> at).owner) >= self.number_count or \
                    (<const Record *> at).size < sizeof(Record):
                raise ValueError("the records of the segment are damaged")
            self.remaining[number_in((<const Record *> at).owner)] += 1
            self.weights[number_in((<const Record *> at).owner)] += \
                (<const Record *> at).constraints
            at += (<const Record *> at).size
        self.opened = False
        return 0

    def remove_all(self, numbers):
        """Remove many subscriptions from an opened index, which nobody will change otherwise."""
        cdef Marks marks = Marks.copy(self.state.marks, self.number_count)
        for number in numbers:
            marks.put(number, True)
            self.live -= 1
        self.publish(self.new_state(self.state.blocks, marks, self.state.log), [])

    # What it looks like

    def sizes(self):
        """Subscriptions, filters, constraints and bytes."""
        cdef uint64_t bytes = 0
        cdef Log log = self.state.log
        cdef uint32_t i
        for i in range(log.count):
            if log.entries[i].record != NULL:
                bytes += log.entries[i].record.size
        for item in self.state.blocks:
            bytes += (<Block> item).segment.header.size
            if (<Block> item).segment.ids != NULL:
                bytes += ID_BYTES * owners_in(&(<Block> item).segment)
        return self.live, self.filters, self.constraints, bytes

    def plan(self):
        """For each segment its filters by access path, its bytes, and its attributes."""
        return [describe(<Block> item, self.names) for item in self.state.blocks]

    def counters(self):
        """What contexts that are not in use have done: records, blocks and cells looked at."""
        cdef const Search *search
        cdef int i
        checked = visited = probed = 0
        for context in self.contexts:
            for i in range(MOST_ROWS):
                search = &(<Context> context).rows.searches[i]
                checked += search.checked
                visited += search.visited
                probed += search.probed
        return checked, visited, probed


cdef int read_columns(Columns columns, int64_t first, Rows *rows) except -1 nogil:
    """Read rows as the events of searches, column by column: most may be empty there."""
    cdef uint64_t having
    cdef int i, begin, row
    for i in range(columns.count):
        begin = 0
        while begin < rows.count:
            having = rows_with(
                columns.nodes[i], first + begin, min(<int> ROWS_AT_ONCE, rows.count - begin))
            while having:
                row = begin + tidings_lowest(having)
                having &= having - 1
                read_node(columns.nodes[i], first + row, &rows.searches[row].event)
            begin += ROWS_AT_ONCE
    return 0


cdef int note_asked(Search *search, int64_t row, list asked) except -1:
    """Note what is left to Python, unless the subscription is found already."""
    cdef size_t i
    cdef const Record *record
    cdef uint32_t number
    for i in range(search.asked_count):
        record = search.asked[i]
        number = number_in(record.owner)
        if not is_seen(search, number):
            asked.append((row, number, residual_in(record)))
    return 0


# Memory of answers, with its room written before it. The kernel clears new memory page by page,
# which can take longer than to find what is written there. So some memory of answers that nobody
# has any more is kept for the next ones. Spares are taken and given back with the GIL.

cdef enum:
    BEFORE = 8  # words before the memory
    SPARES = 32
    MOST_SPARE = 1 << 23  # numbers in all spares together

cdef int64_t *SPARE[SPARES]
cdef int spare_count = 0
cdef size_t spare_room = 0

cdef inline size_t room_of(const int64_t *numbers) noexcept nogil:
    return 0 if numbers == NULL else <size_t> (numbers - BEFORE)[0]

cdef int64_t *resized(int64_t *numbers, size_t room) except NULL nogil:
    """Memory for so many numbers, with those that are in the old."""
    cdef int64_t *base = NULL if numbers == NULL else numbers - BEFORE
    base = <int64_t *> enlarged(base, (BEFORE + room) * sizeof(int64_t))
    base[0] = <int64_t> room
    return base + BEFORE

cdef int64_t *take_spare() noexcept:
    """A spare, or NULL."""
    global spare_count, spare_room
    if spare_count == 0:
        return NULL
    spare_count -= 1
    spare_room -= room_of(SPARE[spare_count])
    return SPARE[spare_count]

cdef void give_back(void *given) noexcept:
    """Keep memory as a spare, or free it if there is enough."""
    global spare_count, spare_room
    cdef int64_t *numbers = <int64_t *> given
    if numbers == NULL:
        return
    if spare_count == SPARES or spare_room + room_of(numbers) > MOST_SPARE:
        free(numbers - BEFORE)
        return
    SPARE[spare_count] = numbers
    spare_count += 1
    spare_room += room_of(numbers)


cdef class Pairs:
    """Rows and numbers of subscriptions that match them."""

    cdef int64_t *rows
    cdef int64_t *numbers
    cdef size_t count

    def __cinit__(self):
        self.rows = take_spare()
        self.numbers = take_spare()

    def __dealloc__(self):
        give_back(self.rows)
        give_back(self.numbers)

    cdef int reserve(self, size_t more) except -1 nogil:
        cdef size_t needed = self.count + more
        if needed > room_of(self.rows):
            self.rows = resized(self.rows, max(needed, 2 * self.count) + 64)
        if needed > room_of(self.numbers):
            self.numbers = resized(self.numbers, max(needed, 2 * self.count) + 64)
        return 0

    cdef int expect(self, int64_t done, int64_t left) except -1 nogil:
        """Reserve for the rows that are left as much as those that are done have taken."""
        tidings_check(done > 0 and left >= 0)
        return self.reserve(<size_t> (1.1 * <double> self.count / done * left))

    cdef int take(self, const Search *search, int64_t row) except -1 nogil:
        """What a search has found for a row."""
        cdef size_t i, count = search.found_count
        cdef const uint32_t *found = search.found
        cdef int64_t *rows
        cdef int64_t *numbers
        self.reserve(count)
        rows = self.rows + self.count
        numbers = self.numbers + self.count
        for i in range(count):
            rows[i] = row
        for i in range(count):
            numbers[i] = found[i]
        self.count += count
        return 0

    cdef int put(self, int64_t row, int64_t number) except -1:
        self.reserve(1)
        self.rows[self.count] = row
        self.numbers[self.count] = number
        self.count += 1
        return 0

    cdef tuple arrays(self):
        """Both as arrays of NumPy, to which the memory goes over."""
        if self.count == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = owning(&self.rows, self.count)
        return rows, owning(&self.numbers, self.count)


cdef object owning(int64_t **given, size_t count):
    """An array that gives its memory back in the end; of much more than it needs it gets a copy."""
    cdef int64_t *numbers = given[0]
    cdef cython.view.array made
    if 2 * count < room_of(numbers):
        numbers = resized(NULL, count)
        memcpy(numbers, given[0], count * sizeof(int64_t))
        give_back(given[0])
    given[0] = NULL
    made = <int64_t[:count]> numbers
    made.callback_free_data = give_back
    return np.asarray(made)


cdef dict describe(Block block, Names names):
    """What a segment is made of."""
    cdef const Segment *segment = &block.segment
    cdef const Header *header = segment.header
    cdef const Attribute *attribute
    cdef size_t i
    attributes = []
    for i in range(header.sizes[ATTRIBUTES] // sizeof(Attribute)):
        attribute = &segment.attributes[i]
        name, kind = names.listed[attribute.attribute]
        ordered = sum([attribute.lists[k].count for k in range(LISTS)])
        blocks = sum([
            segment.groups[attribute.groups[side] + j].count
            for side in range(2) for j in range(attribute.group_counts[side])])
        kinds = [KIND_NAMES[k] for k in range(KEY_KINDS) if attribute.kinds >> k & 1]
        attributes.append({"name": name, "kind": ATTRIBUTE_KINDS[kind], "keys": kinds, "ordered": ordered,
                           "blocks": blocks})
    return {
        "filters": header.filters, "constraints": header.constraints, "bytes": header.size,
        "by key": header.by_path[PATH_KEY], "in order": header.by_path[PATH_ORDER],
        "in blocks": header.by_path[PATH_BLOCK], "always": header.by_path[PATH_ALWAYS],
        "attributes": attributes,
    }

ATTRIBUTE_KINDS = ("", "ignoring case", "nulls")
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
        if marks is not None and marks.has(number_in(record.owner)):
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
        block = build(gathered.records, gathered.count, seed, True)
    return block


cdef int check_segment(const uint8_t[::1] mapped, size_t numbers) except -1:
    """Raise `ValueError` unless sections of a mapped segment are where its header says."""
    cdef const Header *header
    cdef uint64_t at = padded(sizeof(Header))
    cdef int i
    if mapped.shape[0] < <Py_ssize_t> sizeof(Header):
        raise ValueError("it is too short")
    header = <const Header *> &mapped[0]
    if header.magic != MAGIC or header.version != SEGMENT_VERSION:
        raise ValueError("it is no segment of this version")
    for i in range(SECTIONS):
        if header.begins[i] != at or header.sizes[i] > header.size:
            raise ValueError(f"section {i} is not where it belongs")
        at += padded(header.sizes[i])
    if at != header.size or at != <uint64_t> mapped.shape[0]:
        raise ValueError(f"expected {header.size} bytes, found {mapped.shape[0]}")
    if header.cells == 0 or header.cells * sizeof(Cell) != header.sizes[CELLS] or \
            (header.local_mask + 1) * sizeof(uint32_t) != header.sizes[LOCALS]:
        raise ValueError("its tables have another size")
    return 0

def layout():
    """What a saved segment must have been laid out by; another is built anew."""
    return f"segment {SEGMENT_VERSION}, {sys.byteorder}"
