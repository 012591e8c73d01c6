"""One seed: build a network, use it, break it, heal it, and judge it.

A run is calm, then a storm of faults, then calm again. All the while users publish events,
subscribe and unsubscribe. What must hold always is checked always. What must hold in a stable
network is checked in the calm before the storm, and after it once the network has converged. Then
come drills of single faults, to measure how long repair takes. At last, with nothing going on,
tables must be exact, and events must take exactly the links that they should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, cast

from tidings.matching.scan import Scan
from tidings.overlay.topologies import topology
from tidings.routing.packets import Advertisement, Publication, Request
from tidings.routing.planes.board import Board
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Advertise,
    Configure,
    Feedback,
    LinkUp,
    Protocol,
    Publish,
    Subscribe,
    Timing,
    Unadvertise,
    Unsubscribe,
)
from tidings.routing.protocols import ALWAYS, NEVER, PROTOCOLS, Make
from tidings.routing.protocols import protocol as routing_protocol
from tidings.routing.schemes import scheme
from tidings.routing.truth import Situation, Truth
from tidings.routing.twin import Twin
from tidings.sim.faults import FAULTS, Storm
from tidings.sim.ledger import Ledger
from tidings.sim.load import AnyWant, Event, Load, draw_event, draw_want
from tidings.sim.network import LATE, Endless, Network, Undeclared
from tidings.sim.oracle import TRANSIT, Enough, Links, Oracle, truth_of

SMALL: Final = (  # `small` draws one of these
    "line:5",
    "ring:6",
    "star:6",
    "tree:8",
    "grid:3x3",
    "grid:3x4,weights=1-5",
    "waxman:9",
    "waxman:10,weights=1-9",
    "ba:8",
    "ba:10,weights=1-3",
)
ACYCLIC: Final = ("line:5", "star:6", "tree:8", "tree:10,weights=1-9")
BUSY: Final = 10 * MILLISECOND  # between the events of a node that publishes much
POLL: Final = 50 * MILLISECOND
FAST: Final = 109  # per cent: the time that a slow clock takes for what should take 100
TRANSMISSION: Final = 5 * MILLISECOND  # that a slow link takes for a long packet
GRACE: Final = 3 * SECOND  # after it a subscription counts as established if no protocol says so
ENOUGH_PACKETS: Final = 1_500  # for each pair of nodes and each link; a run needs a tenth of that
WHOLE: Final = 0.4  # the share of seeds with subscriptions from the whole language
NARROW: Final = 0.3  # the share of seeds in which nodes soon have to tell something coarser
MIXED: Final = 0.3  # the share of seeds in which nodes differ in what they need not have alike
BOARDS: Final = 0.3  # the share of seeds in which nodes match with a board
TALKS: Final = 0.3  # the share of seeds in which users advertise and reply, too
RESETS: Final = 0.3  # the share of seeds in which settings change as it runs, where they may
LATE_ANSWERS: Final = 0.2  # of them, those that come much later, when the publisher may be gone
ANSWERS: Final = 0.1  # the share of deliveries to which someone replies then
PROMISES_KEPT: Final = 0.97  # the share of events that match an advertisement, if there is one
QUIET: Final = 0.3  # the share of seeds whose links do not even repeat, reorder or misdirect gently
PROBES: Final = 3  # events that every node publishes at rest
PROBE_STRAYS: Final = 0.5  # the share of their packets that also go astray
DRILLS: Final = ("cut", "one-way", "unlink", "crash", "leave")


class Options(NamedTuple):
    """What a seed decides."""

    seed: int
    topology: str
    protocol: str
    kinds: tuple[str, ...]
    timing: Timing
    gentle: tuple[float, float, float]  # shares of duplicates, late packets, strays: always
    skewed: bool
    storm_ns: int
    faults: int
    publish_ns: int
    churn_ns: int
    delay_ns: int  # of a link, at most
    whole: bool = False  # whether subscriptions come from the whole language
    given: Any = None  # the options of the protocol; else the usual ones
    talks: bool = False  # whether users advertise and reply, too
    boards: bool = False  # whether nodes match with a board, as live routers do
    mixed: bool = False  # whether each node draws options of its own
    resets: bool = False  # whether settings change while it runs


class Verdict(NamedTuple):
    """The result of a seed."""

    options: Options
    ledger: Ledger
    violations: list[str]
    trace: str


def draw_options(seed: int, text: str, protocol: str, kinds: Sequence[str]) -> Options:
    """Draw what a seed decides, for a topology (or `small`) and the kinds of faults allowed."""
    chance = Random(f"options {seed}")
    name, row, given = routing_protocol(protocol)
    drawn = chance.choice(SMALL if row.any_graph else ACYCLIC)
    if text != "small":
        drawn = text
    # Packets from all nodes to all grow with the square of the nodes: larger ones send less often.
    tens = max(1, topology(drawn, seed).nodes // 10)
    chosen = tuple(kind for kind in kinds if chance.random() < 0.5) or tuple(kinds[:1])
    gentle = tuple(
        chance.choice((0.0, 0.02, 0.1)) if kind in kinds else 0.0
        for kind in ("duplicate", "reorder", "stray")
    )
    options = Options(
        seed=seed,
        topology=drawn,
        protocol=name,
        given=given,
        kinds=chosen,
        timing=Timing(
            hold=chance.choice((50, 100, 200)) * MILLISECOND,
            refresh=1_500 * tens * MILLISECOND,
            age=5 * tens * SECOND,
            retry=500 * MILLISECOND,
            pull=chance.choice((500, 2_000, 10_000)) * tens * MILLISECOND,
        ),
        gentle=(gentle[0], gentle[1], gentle[2]),
        skewed="skew" in kinds and chance.random() < 0.5,
        storm_ns=chance.randint(3, 10) * SECOND,
        faults=chance.randint(1, 12),
        publish_ns=chance.choice((20, 50, 100)) * MILLISECOND,
        churn_ns=chance.choice((30, 100, 300)) * MILLISECOND,
        delay_ns=chance.choice((5, 20, 60)) * MILLISECOND,
    )
    if chance.random() < QUIET:  # then events must stay in order
        options = options._replace(gentle=(0.0, 0.0, 0.0))
    if chance.random() < WHOLE:
        options = options._replace(whole=True)
    if row.narrow is not None and chance.random() < NARROW and given == row.options():
        options = options._replace(given=row.narrow)
    if row.boards and chance.random() < BOARDS:
        options = options._replace(boards=True)
    # From generators of their own, so that all other seeds are as they were before users could do
    # this, among them those with which the plants begin.
    if row.resets is not None and Random(f"resets {seed}").random() < RESETS:
        options = options._replace(resets=True)
    options = options._replace(talks=Random(f"verbs 26 {seed}").random() < TALKS)
    mixes = row.mixed and options.given == row.options()
    return options._replace(mixed=bool(mixes) and Random(f"mixed {seed}").random() < MIXED)


def run_trial(options: Options, make: Make | None = None, first_only: bool = False) -> Verdict:
    """Run one seed; `make` makes other routers than the protocol's own."""
    trial = Trial(options, make, first_only)
    try:
        trial.run()
    except Enough:
        pass
    except (Endless, Undeclared) as error:
        trial.oracle.violations.append(f"{type(error).__name__.lower()}: {error}")
    ledger = trial.ledger
    ledger.seeds = 1
    ledger.simulated_s = trial.network.now / SECOND
    ledger.faults.update(trial.storm.counts)
    ledger.failures = int(bool(trial.oracle.violations))
    return Verdict(options, ledger, trial.oracle.violations, trial.network.trace)


class Trial:
    """A network, and what happens to it."""

    def __init__(self, options: Options, make: Make | None, first_only: bool = False) -> None:
        row = self.row = PROTOCOLS[options.protocol]
        if options.given is None:
            options = options._replace(given=row.options())
        self.options = options
        self.chance = Random(f"trial {options.seed}")
        self.ledger = Ledger()
        self.oracle = Oracle(self.ledger, first_only)
        self.in_order = row.ordered != NEVER and not (options.gentle[1] or options.gentle[2])
        self.oracle.in_order = self.in_order
        topologies = Topologies()
        self.load = Load(self.chance, options.whole)
        configured = row.configured(options.given, make)
        mixed = options.mixed and make is None  # a planted bug is caught where all have it
        self.exact = row.exact(options.given) and not mixed

        def router(name: str, life: int) -> Protocol:
            own = configured
            if mixed:
                drawn = Random(f"mixed {options.seed} {name}").choice(row.mixed)
                own = row.configured(drawn)
            made: Any = own(name, life, options.timing, topologies)
            if options.boards and made.board is None:
                made.board = Board(Scan())  # for its links: its subscribers are matched as ever
            return cast(Protocol, made)

        chance = Random(f"network {options.seed}")
        self.network = Network(router, self.oracle, chance, row.needs)
        self.storm = Storm(self.network, self.chance, self._forgotten, self._reborn)
        self.stable = False
        self.publishing = self.churning = False
        self._events = 0
        self._subscriptions = 0
        self._truth: tuple[Any, Truth] | None = None
        self._verbs = Random(f"talk {options.seed}")
        self._resets = Random(f"resets while it runs {options.seed}")
        self._told: dict[str, Any] = {}  # the newest settings that someone has given
        self._told_at = ""  # the node at which
        self._advertised: dict[str, list[str]] = {}  # by node: ids of advertisements
        self._promised: dict[str, AnyWant] = {}  # by id of an advertisement
        if options.talks:
            self.oracle.on_delivered = self._reply_perhaps
        if options.talks and row.advertises:
            self.oracle.on_in_force = self._publish_as_advertised
        self._build()

    def _build(self) -> None:
        options, chance, network = self.options, self.chance, self.network
        graph = topology(options.topology, options.seed)
        for name in graph.names:
            self._add_node(name)
        for one, other, weight in graph.links:
            self._add_link(graph.names[one], graph.names[other], weight)
        pairs = graph.nodes**2 + len(graph.links)
        network.most_packets = ENOUGH_PACKETS * self.row.effort * pairs
        for name in graph.names:
            network.start(name)
            for _ in range(chance.randint(0, 3)):
                self.subscribe(name)

    def _add_node(self, name: str) -> None:
        chance, skewed = self.chance, self.options.skewed
        offset = chance.randrange(1_000) * SECOND if skewed else 0
        self.network.add_node(name, offset, chance.randint(920, 1_080) if skewed else 1_000)

    def _add_link(self, one: str, other: str, cost: int) -> None:
        delay = self.chance.randint(1, self.options.delay_ns // MILLISECOND) * MILLISECOND
        speed = self.chance.choice((0, 10, 1_000))
        self.network.add_link(one, other, cost, delay, speed, self.options.gentle)

    # What users do

    def subscribe(self, name: str) -> None:
        """Someone at a node subscribes."""
        self._subscriptions += 1
        id = f"s{self._subscriptions}"
        want = self.load.want()
        self.oracle.subscribe(id, name, want)
        self.network.tell(name, Subscribe(id, str(want)))
        if not self.row.confirms:
            self.network.call(self.network.now + GRACE, lambda: self._presume(id))

    def _presume(self, id: str) -> None:
        if id in self.oracle.held:
            self.oracle.presume(id)

    def unsubscribe(self, id: str) -> None:
        """Someone unsubscribes."""
        name = self.oracle.held[id].node
        self.oracle.unsubscribe(id)
        self.network.tell(name, Unsubscribe(id))

    def publish(self, name: str) -> int:
        """Someone at a node publishes; returns the number of the event."""
        self._events += 1
        number = self._events
        event = self.load.event(number, self._wants())
        if self.row.advertises and self._verbs.random() < PROMISES_KEPT:
            event = self._as_advertised(name, self._advertised.get(name, ()), event)
        self.oracle.publish(event, name, self.stable, self.truth())
        self.network.tell(name, Publish(event))
        self.network.call(
            self.network.now + TRANSIT, lambda: self.oracle.close(number, self.network.now)
        )
        return number

    def _as_advertised(self, name: str, ids: Sequence[str], event: Event) -> Event:
        """An event that one of these advertisements of a node covers; another if none is found."""
        for _ in range(50 if ids else 0):
            drawn = draw_event(self._verbs, event["number"])
            if any(self._promised[id].wants(drawn) for id in ids):
                return drawn
        return event

    def _publish_as_advertised(self, name: str, id: str) -> None:
        """An advertisement has come into force: someone publishes by it at once."""
        self.network.call(self.network.now + 1, lambda: self._publish_by(name, id))

    def _publish_by(self, name: str, id: str) -> None:
        if self.network.nodes[name].running and id in self._advertised.get(name, ()):
            others, self._advertised[name] = self._advertised[name], [id]
            self.publish(name)
            self._advertised[name] = others

    def _reply_perhaps(self, name: str, publication: Publication) -> None:
        """Someone to whom an event was delivered may reply to its publisher, a moment later."""
        if self._verbs.random() < ANSWERS and "feedback" not in self.row.lacks:
            late = self._verbs.random() < LATE_ANSWERS
            later = self.network.now + 1 + self._verbs.randrange(20 * SECOND if late else LATE)
            self.network.call(later, lambda: self._reply(name, publication, late))

    def _reply(self, name: str, publication: Publication, late: bool) -> None:
        node = self.network.nodes[name]
        if not node.running:
            return
        self._subscriptions += 1
        id = self._subscriptions
        source = self.network.nodes[publication.source]
        truth = self.truth()
        there = source.running and source.life == publication.life
        due = self.stable and there and publication.source in truth.reaches(name)
        if late and node.router is not None:  # trails may be lost, and routes not be there yet
            routes = node.router.hops is not None
            due &= routes and publication.source in self.oracle.known_to(name)
        gone = self.stable and not there and not self.row.copies
        right = self.oracle.right
        path = None
        if not self.row.copies and right is not None and right.costs == truth.costs:
            path = self._path(name, publication.source)
        version = self._version()
        self.oracle.reply(id, name, publication, due, gone, path)
        whose = publication.source, publication.life, publication.number
        self.network.tell(name, Feedback(id, *whose, {"reply": id}))
        self.network.call(
            self.network.now + TRANSIT,
            lambda: self.oracle.close_reply(
                id, self.network.now, self.stable and version == self._version()
            ),
        )

    def _path(self, name: str, target: str) -> Links:
        """The links on the path to a node, as the network was last found right."""
        found: Links = []
        while name != target and len(found) < len(self.oracle.hops):
            hop = self.oracle.hops.get(name, {}).get(target, target)
            found.append((name, hop))
            name = hop
        return found

    def _version(self) -> Any:
        """What must not change while a reply is on its path."""
        return self.stable, self._truth and self._truth[0], self.oracle.right

    def _advertise_perhaps(self, name: str) -> None:
        """Someone at a node may advertise, or withdraw an advertisement."""
        mine = self._advertised.setdefault(name, [])
        if "advertise" in self.row.lacks or self._verbs.random() < 0.5:
            return
        if mine and self._verbs.random() < 0.5:
            id = mine.pop(self._verbs.randrange(len(mine)))
            self.oracle.unadvertise(name, id)
            self.network.tell(name, Unadvertise(id))
            return
        self._subscriptions += 1
        id = f"v{self._subscriptions}"
        mine.append(id)
        self.oracle.advertise(name, id)
        want = self._promised[id] = draw_want(self._verbs)
        self.network.tell(name, Advertise(id, str(want)))
        if self.stable:
            version = self._version()
            self.network.call(
                self.network.now + TRANSIT,
                lambda: self._must_be_in_force(name, id, version),
            )

    def _must_be_in_force(self, name: str, id: str, version: Any) -> None:
        if self.stable and version == self._version():
            self.oracle.must_be_in_force(name, id, self.network.now)

    def _wants(self) -> list[AnyWant]:
        return [held.want for held in self.oracle.held.values()]

    def truth(self) -> Truth:
        """The network as it is."""
        network = self.network
        state = (
            tuple(node.running for node in network.nodes.values()),
            tuple(link.cut > 0 for link in network.links.values()),
        )
        if self._truth is None or self._truth[0] != state:
            self._truth = state, truth_of(network)
        return self._truth[1]

    def _forgotten(self, name: str) -> None:
        """A node has lost its memory, and with it its subscribers."""
        for id in [id for id, held in self.oracle.held.items() if held.node == name]:
            self.oracle.unsubscribe(id)
        for id in self._advertised.pop(name, ()):
            self.oracle.unadvertise(name, id)

    def _reborn(self, name: str) -> None:
        """A node has started anew: up to two users subscribe there within half a second."""
        for _ in range(self.chance.randint(0, 2)):
            delay = self.chance.randrange(500) * MILLISECOND
            self.network.call(self.network.now + delay, lambda: self._subscribe_if_up(name))

    def _subscribe_if_up(self, name: str) -> None:
        if self.network.nodes[name].running:
            self.subscribe(name)

    def _publish_on(self) -> None:
        if self.publishing:
            name = self.storm.some_node()
            if name is not None and not self._is_held(name):
                self.publish(name)
            self.network.call(self._later(self.options.publish_ns), self._publish_on)

    def _publish_much(self, name: str) -> None:
        """One node publishes often: then the moment in which paths change is not missed."""
        if self.publishing and self.network.nodes[name].running:
            if not self._is_held(name):
                self.publish(name)
            self.network.call(self.network.now + BUSY, lambda: self._publish_much(name))

    def _is_held(self, name: str) -> bool:
        """Whether a node holds its publishers back, while it goes over to new paths."""
        router = self.network.nodes[name].router
        return router is not None and router.is_switching

    def _churn_on(self) -> None:
        if self.churning:
            name = self.storm.some_node()
            mine = sorted(id for id, held in self.oracle.held.items() if held.node == name)
            if name is not None and (not mine or self.chance.random() < 0.5):
                self.subscribe(name)
            elif mine:
                self.unsubscribe(self.chance.choice(mine))
            if self.options.talks and name is not None:
                self._advertise_perhaps(name)
            self.network.call(self._later(self.options.churn_ns), self._churn_on)

    def _later(self, mean_ns: int) -> int:
        return self.network.now + 1 + self.chance.randrange(2 * mean_ns)

    # What happens

    def run(self) -> None:
        """The whole of it."""
        self.converge(self.network.now)
        self.use(3 * SECOND)
        self.grow()
        if self.options.kinds:
            self.blow()
            self.converge(self.network.now)
            self.use(3 * SECOND)
            self.drill()
            self.grow()
        self.rest()

    def use(self, lasts: int) -> None:
        """Publish, subscribe and unsubscribe for a while, then wait for all events to arrive."""
        self.publishing = self.churning = True
        self._publish_on()
        self._churn_on()
        self.network.run(self.network.now + lasts)
        self.publishing = self.churning = False
        self.network.run(self.network.now + TRANSIT)

    def blow(self) -> None:
        """The storm."""
        options, chance, network = self.options, self.chance, self.network
        self.stable = False
        for _ in range(options.faults):
            kind = chance.choice(options.kinds)
            begin = network.now + chance.randrange(options.storm_ns)
            lasts = chance.randint(100, 5_000) * MILLISECOND
            network.call(begin, lambda kind=kind, lasts=lasts: self.storm.strike(kind, lasts))  # type: ignore[misc]
        for _ in range(self._resets.randint(1, 3) if options.resets else 0):
            network.call(network.now + self._resets.randrange(options.storm_ns), self._reset)
        self.use(options.storm_ns)
        self.storm.end()
        self._clear_links()

    def _clear_links(self) -> None:
        """Wait until links have carried what the storm has held up on them.

        A slow link may have to carry for many seconds what it was given in one. Until then a hello
        waits behind it for longer than nodes wait for one: the link comes and goes as if it were
        cut now and then. It is not healed yet, even if nodes take it for up at some moment.
        """
        clear_at = max(link.free_at for link in self.network.links.values())
        if clear_at > self.network.now + POLL:  # less is over before anybody looks
            self.network.run(clear_at)

    def converge(self, since: int) -> None:
        """Wait until routes are true and no table hides a receiver: then the network is stable."""
        network = self.network
        limit = network.now + self.converges_within()
        if "corrupt" in self.options.kinds:  # only the next pull repairs a corrupted table
            limit += self.options.timing.pull * 12 // 10
        while network.now < limit:
            network.run(network.now + POLL)
            situation = self.situation(exact=False)
            wrong = next(self.disagreements(situation), None)
            if wrong is None:
                if "corrupt" not in self.options.kinds:
                    self.ledger.convergence_ns.append(network.now - since)
                self.stable = True
                self.oracle.found_right(situation)
                return
        self.oracle.violated(network.now, f"not converged in time: {wrong}")

    def situation(self, exact: bool) -> Situation:
        """What is true now, with events to try on the nodes."""
        wants = self._wants()
        samples = partial(self.load.samples, wants)
        return self.oracle.situation(self.network, self.truth(), samples, exact)

    def disagreements(self, situation: Situation) -> Iterator[str]:
        """Where the nodes disagree with what is true."""
        nodes = {name: self.network.nodes[name].router for name in situation.truth.running}
        return self.row.disagreements(nodes, situation)

    def converges_within(self) -> int:
        """By when a healed network must have converged: by its timing and its size."""
        truth = self.truth()
        hops = max(truth.hops_across(name) for name in truth.running)
        late = LATE if any(self.options.gentle) else 0
        longest = max(link.delay for link in self.network.links.values()) + late + TRANSMISSION
        timing = self.options.timing
        return self.row.converges_within(timing, hops * longest) * FAST // 100 + POLL

    def drill(self) -> None:
        """Single faults in a stable network, and their repair."""
        kinds = [kind for kind in DRILLS if kind in self.options.kinds]
        for kind in self.chance.sample(kinds, min(2, len(kinds))):
            self.stable = False
            self.storm.strike(kind, self.converges_within() + 2 * self.options.timing.pull)
            self.network.run(self.network.now + 30 * MILLISECOND)
            self.converge(self.network.now)
            self.stable = True
            self.change(self.storm.end)

    def grow(self) -> None:
        """Nodes and links that were never there come to a stable network: nothing gets lost."""
        for _ in range(self.chance.randint(1, 3)):
            is_link = self.row.any_graph and self.chance.random() < 0.5
            self.change(self._new_link if is_link else self._new_node)
        if self.options.resets:
            self._reset_when_stable()

    def _reset(self) -> None:
        """Someone gives the network other settings, at some node."""
        assert self.row.resets is not None
        self._told = self.row.resets(self._resets)
        running = [node.name for node in self.network.nodes.values() if node.running]
        self._told_at = self._resets.choice(running)
        self.network.tell(self._told_at, Configure("", self._told))

    def _reset_when_stable(self) -> None:
        """The same, and all nodes in reach must come to have them: some may have left for good."""
        self.change(self._reset)
        for name in self.truth().reaches(self._told_at):
            if not self.row.has(self.network.nodes[name].router, self._told):
                self.oracle.violated(self.network.now, f"{name} does not have {self._told}")

    def change(self, change: Callable[[], None]) -> None:
        """Change something while users publish and subscribe, and wait for it to be right."""
        self.oracle.in_order &= self.row.ordered == ALWAYS
        self.stable = self.row.seamless
        self.publishing = self.churning = True
        self._publish_on()
        self._churn_on()
        busy = self.storm.some_node()
        if busy is not None:
            self._publish_much(busy)
        self.network.run(self.network.now + SECOND // 4)
        change()
        self.network.run(self.network.now + SECOND)
        self.churning = False
        self.converge(self.network.now - SECOND)
        self.publishing = False
        self.network.run(self.network.now + TRANSIT)
        self.oracle.in_order = self.in_order

    def _new_node(self) -> None:
        """A node comes, with a link or more."""
        network = self.network
        running = [node.name for node in network.nodes.values() if node.running]
        name = f"new{len(network.nodes)}"
        self._add_node(name)
        most = 3 if self.row.any_graph else 1
        ends = self.chance.sample(running, min(len(running), self.chance.randint(1, most)))
        for end in ends:
            self._add_link(name, end, self.chance.randint(1, 3))
        network.start(name)
        for end in ends:
            network.tell(end, LinkUp(name, network.costs[end, name]))
        self._reborn(name)

    def _new_link(self) -> None:
        """A link comes between two nodes that have none."""
        network = self.network
        running = [node.name for node in network.nodes.values() if node.running]
        pairs = [(a, b) for a in running for b in running if a < b and (a, b) not in network.links]
        if not pairs:
            return
        one, other = self.chance.choice(pairs)
        self._add_link(one, other, self.chance.randint(1, 3))
        for end, far in ((one, other), (other, one)):
            network.tell(end, LinkUp(far, network.costs[end, far]))

    def rest(self) -> None:
        """Wait until everything must be exact, and check that it is."""
        network, timing = self.network, self.options.timing
        truth = self.truth()
        if self.oracle.right is None or self.oracle.right.costs != truth.costs:
            return  # it has not converged, which has been noted: nobody knows its paths
        hops = self.oracle.hops
        network.may_stray = lambda source, target, packet: (
            target not in truth.running or hops[target].get(sender(packet)) != source
        )
        rest = max(timing.age, timing.pull) * 12 // 10 + SECOND
        network.run(network.now + rest + self.row.calms(self.options.given))
        situation = self.situation(exact=self.exact)
        for wrong in self.disagreements(situation):
            self.oracle.violated(network.now, f"at rest: {wrong}")
        if self.options.kinds:  # packets from the wrong neighbour must change nothing
            self.oracle.in_order &= self.row.ordered == ALWAYS
            for link in network.links.values():
                link.stray = PROBE_STRAYS
                link.disturbed()
        in_use = self._in_use(truth)
        probes = [(self.publish(name), name) for name in truth.running for _ in range(PROBES)]
        network.run(network.now + TRANSIT + 1)
        changed = self._in_use(truth) != in_use  # probes are load, which nodes may follow
        objects = self.row.objection
        twin = Twin(scheme(self.row.twin), situation, hops) if objects is None else None
        for number, source in probes:  # they must have taken the links that the twin gives them
            event = self.oracle.event(number)
            taken, wanting = self.oracle.links(number), self.oracle.wanting(event)
            objection = None
            if twin is not None:
                objection = twin.objection(taken, source, wanting, situation.exact)
            elif objects is not None and not changed:
                objection = objects(in_use[source], situation, hops, source, event, taken)
            # If it has changed, an event goes by the former places and by the new ones.
            if objection is not None:
                self.oracle.violated(network.now, f"event {event} from {source} {objection}")

    def _in_use(self, truth: Truth) -> dict[str, Any]:
        """By what the running nodes work now."""
        nodes, given = self.network.nodes, self.options.given
        return {name: self.row.in_use(nodes[name].router, given) for name in truth.running}


def sender(packet: Publication | Advertisement | Request) -> str:
    """The node in whose tree a packet travels."""
    return packet.source if isinstance(packet, Publication) else packet.issuer


ALL_FAULTS: Final = tuple(FAULTS)
