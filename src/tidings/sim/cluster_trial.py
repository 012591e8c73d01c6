"""One seed of a whole network: routers, clients and programs on streams, with tiny bounds.

A run is calm, then stormy, then calm again. In the calm, connections break and come back in time,
machines stand still for a moment, clocks go back, strangers knock, links and routers are added: of
all that, programs notice nothing but time. In the storm, routers die, links stay away for long,
clocks leap ahead, clients do not come back in time; then programs may miss events, and are told
where the judge says so. After each part everybody reads what there is, and everything must come to
rest: all events where they belong, all outcomes told, every client connected, every subscription
established. In some runs there is no fault, but something stands still for long (`stalls`). All the
while, what routers and clients keep stays within their bounds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import Final, NamedTuple

from tidings.language.predicate import parse
from tidings.live.access import Principal
from tidings.live.client_core import Address, Options
from tidings.live.limits import LIMITS, Limits
from tidings.live.session import Session
from tidings.live.settings import LIVE, Dial, Settings
from tidings.overlay.graph import Graph
from tidings.overlay.topologies import topology
from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.cluster import PORT, Cluster, RouterMachine
from tidings.sim.judge import Judge
from tidings.sim.network import PER_MILLE, Endless
from tidings.sim.oracle import Enough
from tidings.sim.predicates import Condition, Predicate, draw_condition
from tidings.sim.programs import READ_NS, Habits, Program, Rights
from tidings.sim.stalls import STALLS, Paths
from tidings.sim.storms import BENIGN, HARMFUL, Weather
from tidings.sim.streams import Agenda, Quality

SMALL: Final = (
    "line:1",
    "line:2",
    "line:3",
    "ring:3",
    "ring:4",
    "ring:5",
    "star:4",
    "tree:5",
    "grid:2x3",
    "waxman:6",
    "ba:6,weights=1-3",
)
STEP: Final = 50 * MILLISECOND  # between two looks at the bounds
CONVERGED: Final = 4 * SECOND  # after the last fault the network counts as stable
PATIENCE: Final = 15 * SECOND  # without any progress, until what is missing counts as stuck
MOST_STEPS: Final = 3_000_000
TREES: Final = 3  # of a source that are in use at once, while routes change
# Steps of the algebra: for what a client may send, about a tenth of a second; and on the loop, for
# one cause, which may bring a predicate with a normal form and begin a last join at its bound.
STEPS: Final = 100_000
STEPS_ON_LOOP: Final = 450_000
HEAD: Final = 100  # bytes that go with an event, at most: source, life, numbers, some ids
CROSSING: Final = Habits(
    policy="block",
    window=4,
    publish_ns=10 * MILLISECOND,
    burst=1,
    levels=("received",),
    reading="fast",
    read_ns=READ_NS[0],
    subscriptions=0,
    churn_ns=0,
    replies=False,
    asks_ns=0,
    mistakes=False,
    advertises=False,
    sizes=("usual",),
    padding=0,
)
GRACE_S: Final = 0.8
LINGER_S: Final = 2.5
STALLED: Final = 0.05  # the share of seeds in which something stands still for long
CROSSED: Final = 12  # events in a burst of programs that send for one another, in half of these
NEVER: Final = 3_600 * SECOND  # for which nothing stands still
RARE: Final = {"namesake": 0.2}  # faults of the calm, and the share of seeds that have them
FLOODED: Final = 0.05  # the share of seeds with faults in which routers flood
GROWTH: Final = ("add link", "add router")  # while events are flooded, later ones may overtake


class Drawn(NamedTuple):
    """What a seed decides."""

    seed: int
    topology: str
    limits: Limits
    programs: int
    calm_ns: int
    storm_ns: int
    faults: int
    benign: tuple[str, ...]
    harmful: tuple[str, ...]
    cross: int = 0  # events that each router's publisher sends two hops on, instead of programs
    stall: str = ""  # what stands still for long, instead of faults: a row of `STALLS`
    sizes: tuple[str, ...] = ()  # of predicates; none: as the seed draws them
    protocol: str = "cbcb"


class Result(NamedTuple):
    """What became of a seed."""

    drawn: Drawn
    counts: Counter[str]
    violations: list[str]
    trace: str
    simulated_s: float
    steps: int


def draw_limits(chance: Random) -> Limits:
    """Bounds so small that a run meets them, or sometimes the usual ones; times are short."""
    times = replace(
        LIMITS,
        ping=400 * MILLISECOND,
        silence=2 * SECOND,
        greeting=SECOND,
        redial=(20 * MILLISECOND, 160 * MILLISECOND),
        denial=200 * MILLISECOND,
        block=1_500 * MILLISECOND,
        patience=1_500 * MILLISECOND,
        patience_step=100 * MILLISECOND,
        closing=SECOND,
    )
    if chance.random() < 0.1:
        return times

    def one(*choices: int) -> int:
        return chance.choice(choices)

    lane, lane_bytes = one(1, 2, 4), one(300, 2_000)
    client_frame = one(8_192, 32_768)
    half = client_frame // 2  # what goes into a frame must fit, with what goes around it
    return replace(
        times,
        client_frame=client_frame,
        ungreeted=one(4, 1_000),
        router_frame=1_048_576,
        high_water=one(200, 2_000, 100_000),
        event_bytes=one(1_500, half),
        short_predicate=one(0, 64),
        queued=one(4, 12, 200),
        queued_bytes=one(800, 4_000, 100_000),
        open_bytes=one(200, 2_000, 100_000),
        delivery_ids=one(1, 3, 1_000),
        delivery_batch=one(1, 3, 256),
        delivery_batch_bytes=one(300, half),
        notice_bytes=40_000,
        requests=one(1, 4, 1_000),
        credit=one(1, 4, 1_000),
        credit_bytes=one(300, 3_000, 100_000),
        stretch=2 * lane,
        lane=lane,
        lane_bytes=lane_bytes,
        lane_most=lane * one(1, 2, 8),
        lane_most_bytes=lane_bytes * one(1, 2, 8),
        link=one(4, 16, 100),
        link_bytes=one(600, 5_000, 50_000),
        kept_bytes=2_000_000,
        packet_batch=one(1, 3, 512),
        packet_batch_bytes=one(300, 10_000),
        queries=one(1, 4, 1_000),
        findings_bytes=one(1_000, 4_000),
        publish_batch=one(1, 3, 512),
        publish_batch_bytes=one(300, half),
        window=one(4, 30, 1_000),
        window_bytes=one(600, 10_000, 100_000),
        notices=one(1, 4, 16),
        replies=one(2, 1_000),
    )


def draw(
    seed: int,
    text: str = "small",
    benign: tuple[str, ...] | None = None,
    harmful: tuple[str, ...] | None = None,
) -> Drawn:
    """Draw what a seed decides."""
    if benign is None and harmful is None:
        chance = Random(f"stall {seed}")
        if chance.random() < STALLED:
            kind, cross = chance.choice(list(STALLS)), chance.choice((0, CROSSED))
            return draw_stall(seed, text, kind)._replace(cross=cross)
    chance = Random(f"cluster options {seed}")
    drawn = chance.choice(SMALL)
    some = [kind for kind in BENIGN if kind not in RARE and chance.random() < 0.6]
    some += [kind for kind, share in RARE.items() if Random(f"{kind} {seed}").random() < share]
    worse = [kind for kind in HARMFUL if chance.random() < 0.4] or [chance.choice(list(HARMFUL))]
    if chance.random() < 0.25:
        worse = []
    protocol = "cbcb"
    if benign is None and harmful is None and Random(f"protocol {seed}").random() < FLOODED:
        protocol = "flood"
        some = [kind for kind in some if kind not in GROWTH]
    return Drawn(
        seed=seed,
        topology=drawn if text == "small" else text,
        limits=draw_limits(chance),
        programs=chance.randint(2, 6),
        calm_ns=chance.randint(500, 1_500) * MILLISECOND,
        storm_ns=chance.randint(1_000, 3_000) * MILLISECOND,
        faults=chance.randint(1, 6),
        benign=tuple(some) if benign is None else benign,
        harmful=tuple(worse) if harmful is None else harmful,
        protocol=protocol,
    )


def draw_cross(seed: int, text: str, events: int) -> Drawn:
    """Saturating traffic across a topology, with the bounds that a seed draws, and no faults."""
    drawn = draw(seed, text, (), ())
    return drawn._replace(cross=events, calm_ns=300 * MILLISECOND)


def draw_stall(seed: int, text: str, kind: str) -> Drawn:
    """Something stands still for long, with the bounds that a seed draws, and no faults.

    Nobody gives up what stands still, so that the flows which need it wait as long as it does.
    """
    drawn = draw(seed, text, (), ())
    limits = replace(drawn.limits, silence=NEVER, block=NEVER)
    return drawn._replace(limits=limits, stall=kind)


def run(drawn: Drawn, first_only: bool = False) -> Result:
    """Run one seed."""
    trial = ClusterTrial(drawn, first_only)
    try:
        with trial.cluster.watched():
            trial.run()
    except Enough:
        pass
    except Endless as error:
        trial.judge.violations.append(f"endless: {error}")
    counts = trial.judge.counts
    counts.update({f"fault {kind}": count for kind, count in trial.weather.counts.items()})
    agenda = trial.agenda
    return Result(
        drawn, counts, trial.judge.violations, agenda.trace, agenda.now / SECOND, agenda.steps
    )


class ClusterTrial:
    """A whole network, and what happens to it."""

    def __init__(self, drawn: Drawn, first_only: bool = False) -> None:
        self.drawn = drawn
        self.chance = Random(f"cluster trial {drawn.seed}")
        self.agenda = Agenda(MOST_STEPS)
        self.judge = Judge(first_only)
        self.cluster = Cluster(drawn.seed, self.agenda)
        self.settings: dict[str, Settings] = {}  # by address
        self.programs: list[Program] = []
        self.rights: dict[str, list[Rights]] = {}  # by router; none: everyone may do everything
        self.aims: list[Predicate] = []
        self.narrow: set[str] = set()  # routers with room for one subscription a session
        self.weather = Weather(self)
        rare = self.chance.random()
        self.sizes = (*("usual",) * 6, *("long",) * (rare < 0.2), *("hostile",) * (rare < 0.05))
        if drawn.stall:  # what is long is announced coarser, and attracts what nobody wants
            self.sizes = ("usual",)
        self.sizes = drawn.sizes or self.sizes
        self._rare = Random(f"rare habits {drawn.seed}")
        self._number = 0
        self._over: set[tuple[str, str]] = set()  # bounds that were passed
        self._waits: dict[str, tuple[int, int]] = {}  # by session: its oldest delivery, since when
        self._build()

    # What there is

    def _build(self) -> None:
        chance, cluster = self.chance, self.cluster
        delay = chance.choice((1, 5, 20)) * MILLISECOND
        large = "hostile" in self.sizes  # what routers tell each other is then long
        cluster.quality = Quality(
            delay_ns=delay,
            ns_per_byte=0 if large else chance.choice((0, 0, 1_000, 20_000)),
            room=65_536 if large else chance.choice((200 * delay // MILLISECOND, 4_000, 65_536)),
            piece=chance.choice((200, 2_000, 65_536)),
        )
        rights: list[Rights] = []
        if chance.random() < 0.3 and not self.drawn.cross:
            rights = [
                Rights("a token of sixteen"),
                Rights("another of sixteen", draw_condition(chance), None),
                Rights("a third of sixteen", None, draw_condition(chance)),
            ]
        graph = topology(self.drawn.topology, self.drawn.seed)
        dials: dict[str, list[Dial]] = {name: [] for name in graph.names}
        for one, other, weight in graph.links:
            ends = [graph.names[one], graph.names[other]]
            chance.shuffle(ends)
            dials[ends[0]].append(Dial(ends[1], PORT, weight))
            if chance.random() < 0.2:
                dials[ends[1]].append(Dial(ends[0], PORT, weight))
        for name in graph.names:
            self.rights[name] = list(rights)
            self.settings[name] = self._settings(name, tuple(dials[name]))
            self.start_router(name)
        if self.drawn.cross:
            self._cross(graph)
            return
        several = Random(f"addresses {self.drawn.seed}")
        for number in range(self.drawn.programs):
            places = [chance.choice(graph.names)]
            if several.random() < 0.3:
                places += several.sample(graph.names, several.randint(1, min(2, graph.nodes)))
            self.add_program(f"p{number}", tuple(dict.fromkeys(places)), self.draw_habits())

    def _cross(self, graph: Graph) -> None:
        """At each router a program publishes, as fast as it can, for one two hops away."""
        habits = CROSSING._replace(burst=self.drawn.cross)
        for number, name in enumerate(graph.names):
            program = self.add_program(f"p{number}", (name,), habits)
            program.subscribe(Condition("to", "", "=", False, number))
            near = self.chance.choice(graph.neighbours(number) or (number,))
            far = [one for one in graph.neighbours(near) if one != number]
            program.content = {
                "to": max(far, default=near, key=lambda one: (one - number) % graph.nodes == 2)
            }

    def _settings(self, name: str, dials: tuple[Dial, ...]) -> Settings:
        return Settings(
            name,
            links=dials,
            protocol=self.drawn.protocol,
            principals=self.principals(self.rights[name]),
            link_token="routers know this one" if self.rights[name] else "",
            grace_s=GRACE_S,
            linger_s=LINGER_S,
            timing=LIVE._replace(
                retry=500 * MILLISECOND, dead=NEVER if self.drawn.stall else 6 * SECOND
            ),
        )

    def principals(self, rights: list[Rights]) -> tuple[Principal, ...]:
        """The holders of tokens with these rights, and the other routers."""
        if not rights:
            return ()
        rows = [
            Principal(
                f"holder {number}",
                sha256(one.token.encode()).digest(),
                None if one.publish is None else parse(str(one.publish)),
                None if one.receive is None else parse(str(one.receive)),
            )
            for number, one in enumerate(rights)
        ]
        token = sha256(b"routers know this one").digest()
        return (*rows, Principal("routers", token, router=True))

    def rights_at(self, token: str, address: str) -> Rights:
        """What a token allows at a router."""
        return next((one for one in self.rights[address] if one.token == token), Rights(token))

    def start_router(self, address: str) -> RouterMachine:
        """A router begins a new life at its address."""
        chance, limits = self.chance, self.drawn.limits
        if address in self.narrow:
            limits = replace(limits, subscriptions=1)
        offset = chance.choice((0, 0, chance.randrange(10_000) * SECOND))
        rate = chance.choice((PER_MILLE, PER_MILLE, chance.randint(970, 1_030)))
        settings = self.settings[address]
        return self.cluster.start_router(address, settings, limits, offset, rate)

    def add_program(self, name: str, places: tuple[str, ...], habits: Habits) -> Program:
        """A program that connects to a router, or to others if that does not answer."""
        chance, limits = self.chance, self.drawn.limits
        known = self.rights[places[0]]
        token = chance.choice(known).token if known else ""
        addresses = tuple(Address(place, PORT) for place in places)
        options = Options(addresses, token, habits.policy, habits.window)
        offset = chance.choice((0, chance.randrange(10_000) * SECOND))
        rate = chance.choice((PER_MILLE, chance.randint(970, 1_030)))
        machine = self.cluster.start_client(name, options, limits, offset, rate)
        rights = partial(self.rights_at, token)
        program = Program(machine, self.judge, habits, rights, self.next_number, self.aims)
        if habits.reading == "dead" or habits.policy == "disconnect":
            self.judge.cause(name)
        self.programs.append(program)
        program.start()
        return program

    def draw_habits(self) -> Habits:
        """How a program behaves."""
        chance = self.chance
        publishes = chance.random() < 0.7
        padding = chance.choice((0, 0, 100, 1_000))
        reading = chance.choice(("fast", "fast", "fast", "slow", "slow", "dead"))
        return Habits(
            policy=chance.choice(("block", "block", "drop", "disconnect")),
            window=chance.choice((1, 4, 1_000)),
            publish_ns=chance.choice((20, 80, 250)) * MILLISECOND if publishes else 0,
            burst=chance.choice((1, 1, 4, 12)),
            levels=chance.choice(
                (("received",), ("received", "routed", "delivered"), ("delivered",), ("routed",))
            ),
            reading=reading,
            read_ns=chance.choice(READ_NS),
            subscriptions=chance.choice((0, 1, 2, 4)) if publishes else chance.choice((1, 2, 5)),
            churn_ns=chance.choice((0, 150, 500)) * MILLISECOND,
            replies=chance.random() < 0.2 and not self.drawn.stall,  # they are events, too
            asks_ns=chance.choice((0, 0, 100, 500)) * MILLISECOND,
            mistakes=chance.random() < 0.3,
            advertises=publishes and self._rare.random() < 0.3,
            sizes=self.sizes,
            padding=padding,
        )

    def next_number(self) -> int:
        """A number for an event or a subscription."""
        self._number += 1
        return self._number

    # What happens

    def run(self) -> None:
        """The whole of it."""
        self.converge()
        self.settle()
        self.use(self.drawn.calm_ns, self.drawn.benign)
        if self.drawn.harmful:
            self.judge.unstable()
            self.use(self.drawn.storm_ns, self.drawn.harmful)
        self.use(self.drawn.calm_ns, self.drawn.benign)
        if self.drawn.stall:
            self.stand_still()

    def stand_still(self) -> None:
        """Something stands still: everything comes to rest but the flows that need it."""
        self.converge()
        since = self.agenda.now
        for program in self.programs:
            program.hurry(True)
        stall = STALLS[self.drawn.stall](self, Paths(self), self.chance)
        if stall is None:
            return
        self.weather.counts[self.drawn.stall] += 1
        for program in self.programs:
            program.begin()
        self.go(self.drawn.calm_ns)
        for program in self.programs:
            program.rest()
        begun = self.agenda.now
        held_back = self.judge.held_back(since, stall.needs)
        careless = {p.name for p in self.programs if p.habits.policy == "drop"} | {stall.reader}
        while waiting := self.judge.waiting(since, held_back, careless):
            if self.agenda.now - max(begun, self.judge.moved_at) > PATIENCE:
                for what in waiting:
                    self.judge.violated(self.agenda.now, f"waits for {stall.name}: {what}")
                break
            self.go(2 * STEP)
        self.judge.counts["held back"] += len(held_back)
        stall.end()
        self.drain()

    def converge(self) -> None:
        """Let routes and tables become right: on slow lines with much to tell it takes longer."""
        self.go(CONVERGED)
        since = self.agenda.now
        while busy := self._unsettled():
            if self.agenda.now - since > PATIENCE:
                self.judge.violated(self.agenda.now, f"stuck: {', '.join(busy)} not settled")
                break
            self.go(STEP)

    def _unsettled(self) -> list[str]:
        routers = self.cluster.routers.items()
        return [address for address, one in routers if not one.core.protocol.is_settled()]

    def settle(self) -> None:
        """From here on the network must count as stable."""
        self.judge.stable = True

    def use(self, lasts: int, kinds: tuple[str, ...]) -> None:
        """Programs do what they do while faults strike; then all comes to rest."""
        for program in self.programs:
            program.hurry(False)
            program.begin()
        if kinds:
            for _ in range(self.drawn.faults):
                kind = self.chance.choice(kinds)
                begin = self.agenda.now + self.chance.randrange(lasts)
                self.agenda.call(begin, lambda kind=kind: self.weather.strike(kind))  # type: ignore[misc]
        self.go(lasts)
        if not self.judge.stable:  # what has begun lasts as long as it was to last
            for program in self.programs:
                program.rest()
            while self.weather.lasting:
                self.go(STEP)
        self.weather.end()
        self.drain()

    def drain(self) -> None:
        """Everybody reads, nobody begins anything: all must come to rest."""
        for program in self.programs:
            program.rest()
            program.hurry(True)
        if not self.judge.stable:
            self.converge()
        since = self.agenda.now
        while not self._is_at_rest():
            if self.agenda.now - max(since, self.judge.moved_at) > PATIENCE:
                break
            self.go(2 * STEP)
        now = self.agenda.now
        self.judge.close(now, {p.name: p.core.dropped for p in self.programs})
        for program in self.programs:
            for trouble in program.troubles():
                self.judge.violated(now, f"stuck: {trouble}")
        for ghost in self._ghosts():
            self.judge.violated(now, f"ghost: {ghost}")
        self.weather.forget_causes()
        self.judge.stable = True

    def _ghosts(self) -> list[str]:
        """What routers hold although nobody wants it: subscriptions, and links to strangers.

        What was given up a moment ago may be there still, so this counts once all is at rest.
        """
        found = []
        known = {one.node for one in self.settings.values()}
        for address, router in self.cluster.routers.items():
            wanted = sum(p.present for p in self.programs if p.router == address and not p.failed)
            held = sum(len(session.subscriptions) for session in router.core.sessions.values())
            if held != wanted:
                found.append(f"{address} holds {held} subscriptions, its programs have {wanted}")
            strangers = sorted(set(router.core.links) - known)
            found += [f"{address} keeps a link to {name}" for name in strangers]
        return found

    def _is_at_rest(self) -> bool:
        troubles = any(program.troubles() for program in self.programs)
        return self.judge.at_rest() and not troubles and not self._ghosts()

    def go(self, lasts: int) -> None:
        """Let time go by, and look at the bounds."""
        end = self.agenda.now + lasts
        while self.agenda.now < end:
            self.agenda.run(min(end, self.agenda.now + STEP))
            for address, router in self.cluster.routers.items():
                self._measure(address, router)

    # Bounds

    def _waited(self, router: RouterMachine, session: Session) -> int:
        """How long publishers have waited for a session that takes nothing, by its router."""
        oldest = session.mailbox.after(0, 1)
        if not session.gate.full or not oldest:
            self._waits.pop(session.key, None)
            return 0
        number, now = oldest[0].number, router.timers.now
        before, since = self._waits.get(session.key, (0, 0))
        if number != before:
            self._waits[session.key] = number, now
            return 0
        return now - since

    def _measure(self, address: str, router: RouterMachine) -> None:
        limits, core = self.drawn.limits, router.core
        lanes = TREES * len(self.settings)
        event = self.judge.largest + HEAD
        # Every lane and every publisher may add one event before it is told to wait.
        late = (lanes + len(core.sessions) + 1) * event
        longest = self.cluster.longest_read
        found: dict[str, tuple[int, int]] = {
            "queries": (len(core.probes), limits.queries),
            "steps of work": (router.most_steps, STEPS),
            "steps on the loop": (router.most_steps_on_loop, STEPS_ON_LOOP),
            "characters read on the loop": (longest, limits.short_predicate),
        }
        for session in core.sessions.values():
            over = late
            if session.policy == "drop":  # what is sent and not taken is not dropped
                over = limits.open_bytes + 2 * event
            name = f"session {session.number}"
            found[f"{name} deliveries"] = session.mailbox.size, limits.queued_bytes + over
            found[f"{name} notices"] = session.notice_bytes, limits.notice_bytes
            waited = self._waited(router, session)
            found[f"{name} holds others back, ns,"] = waited, limits.block + 4 * STEP
        for link in core.links.values():
            kept: int = link.status()["kept_bytes"]
            found[f"link to {link.neighbour} kept"] = kept, limits.kept_bytes
            bound = limits.link_bytes + lanes * (limits.lane_bytes + event)
            found[f"link to {link.neighbour} events"] = link.flow.open_bytes, bound
        for what, (size, bound) in found.items():
            if size > bound and (address, what) not in self._over:
                self._over.add((address, what))
                self.judge.violated(
                    self.agenda.now, f"over its bound: {what} at {address}: {size} of {bound}"
                )
