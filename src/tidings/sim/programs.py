"""Programs that use the simulated network: they publish, subscribe, read, reply and ask.

A program sees what a user of `tidings.connect` sees, and tells the judge all of it. Its habits are
drawn from the seed: how often and in which bursts it publishes, at which levels, how many
subscriptions it holds and how it reads them (at once, slowly, or for a time not at all), how often
it subscribes, replaces and unsubscribes, and what its token allows.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from tidings.live.client_core import Change
from tidings.live.errors import DisconnectedError, NetworkError, RefusedError, UnknownOutcomeError
from tidings.live.inbox import Inbox, Tiding
from tidings.routing.protocol import MILLISECOND
from tidings.sim.cluster import ClientMachine
from tidings.sim.judge import Judge
from tidings.sim.predicates import (
    Event,
    Negation,
    Predicate,
    Together,
    draw_condition,
    draw_event,
    draw_predicate,
    permits,
)


class Habits(NamedTuple):
    """How a program uses the network."""

    policy: str
    window: int
    publish_ns: int  # between publications, 0: none
    burst: int  # publications at once
    levels: tuple[str, ...]
    reading: str  # `fast`, `slow` or `dead`
    read_ns: int  # between the events that a slow one takes
    subscriptions: int
    churn_ns: int  # between changes of its subscriptions, 0: none
    replies: bool  # whether it replies to every event that asks for it
    asks_ns: int  # between queries about the network, 0: none
    mistakes: bool  # whether it now and then asks for what cannot be done
    advertises: bool  # whether it now and then declares what it publishes
    sizes: tuple[str, ...]  # of its predicates
    padding: int  # bytes that are added to an event, at most


class Rights(NamedTuple):
    """What a token allows."""

    token: str = ""
    publish: Predicate | None = None
    receive: Predicate | None = None


class Holding:
    """A subscription of a program."""

    def __init__(self, id: int, want: Predicate) -> None:
        self.id = id
        self.want = want
        self.inbox: Inbox | None = None
        self.known_established = False
        self.interruptions = 0
        self.replacing: Predicate | None = None
        self.over = False


class Program:
    """One program with one client."""

    def __init__(
        self,
        machine: ClientMachine,
        judge: Judge,
        habits: Habits,
        rights_at: Callable[[str], Rights],
        numbers: Callable[[], int],
        aims: list[Predicate],
    ) -> None:
        self.machine = machine
        self.core = machine.core
        self.name = machine.name
        self.places = [address.host for address in machine.core.options.addresses]
        self.router = self.places[0]  # where it is connected, as far as it knows
        self.judge = judge
        self.habits = habits
        self.rights_at = rights_at  # what its token allows at a router
        self.rights = rights_at(self.router)
        self.advertised: dict[int, Predicate] = {}  # in force, by number
        self.chance = Random(f"program {machine.cluster.seed} {machine.name}")
        self.held: dict[int, Holding] = {}
        self.active = False  # whether it begins anything new
        self.hurried = False  # whether it reads everything at once, whatever its habits
        self.still = False  # whether it reads nothing at all
        self.requests = 0  # that have no answer
        self.failed = ""
        self.may_be_refused = False  # whether its router has no room for all its subscriptions
        self.replies_sent = 0
        self.replies_got = 0
        self.content: Event = {}  # of every event, besides what is drawn
        self._numbers = numbers
        self._aims = aims  # what anyone wants: events are drawn towards these
        self._published: dict[int, int] = {}  # by the client's number: the judge's
        self._waits = False  # for room
        self._read_due = False
        self._advertising: Predicate | None = None  # what it has asked to declare or withdraw
        self._moving = False  # whether it has found itself at another router just now
        self.core.on_change = self._changed
        self.core.on_reply = self._replied

    @property
    def now(self) -> int:
        """The time."""
        return self.machine.cluster.agenda.now

    @property
    def present(self) -> int:
        """How many subscriptions it has."""
        return sum(not held.over for held in self.held.values())

    def start(self) -> None:
        """Connect, and subscribe."""
        self.machine.do(self.core.start)
        for _ in range(self.habits.subscriptions):
            self.machine.do(self.subscribe)

    def begin(self) -> None:
        """Use the network, until `rest`."""
        if not self.active:
            self.active = True
            for interval, action in (
                (self.habits.publish_ns, self._publish_some),
                (self.habits.churn_ns, self._churn),
                (self.habits.asks_ns, self._ask),
                (ADVERTISE_NS if self.habits.advertises else 0, self._advertise),
            ):
                if interval:
                    self._repeat(interval, action)

    def rest(self) -> None:
        """Begin nothing new."""
        self.active = False

    def hurry(self, hurried: bool) -> None:
        """Read everything at once, or as is its habit."""
        self.hurried = hurried
        if hurried:
            self.machine.do(self._read_all)

    def _repeat(self, interval: int, action: Callable[[], None]) -> None:
        def again() -> None:
            if self.active and not self.failed:
                self.machine.do(action)
                self._repeat(interval, action)

        self.machine.cluster.agenda.call(self.now + 1 + self.chance.randrange(2 * interval), again)

    # Publishing

    def _publish_some(self) -> None:
        if self._waits or self.failed:
            return
        for _ in range(self.chance.randint(1, self.habits.burst)):
            if not self.core.has_room:
                self._waits = True
                self.core.when_room(self._has_room)
                return
            self._publish()

    def _has_room(self) -> None:
        self._waits = False

    def _publish(self) -> None:
        chance, number = self.chance, self._numbers()
        drawn = {} if self.content else draw_event(chance, self._aims)
        event: Event = {"n": number, **self.content, **drawn}
        padding = chance.randint(0, self.habits.padding)
        if padding:
            event["pad"] = "x" * padding
        level = chance.choice(self.habits.levels)
        may = self._may_publish(event)
        if self.habits.mistakes and chance.random() < 0.1:
            self._try_mistake()
        self.judge.publish(number, event, self.name, self.router, level, may, self.now)
        try:
            own = self.core.publish(event, level, lambda _, error: self._settled(number, error))
            self._published[own] = number
        except NetworkError as error:
            self._settled(number, error)

    def _may_publish(self, event: Event) -> bool | None:
        """Whether its router takes an event; None if that depends on which request comes first."""
        if self.rights.publish is not None and not permits(self.rights.publish, event):
            return False
        changing = [] if self._advertising is None else [self._advertising]
        held = list(self.advertised.values())
        found = {
            not declared or any(one.holds(event) for one in declared)
            for declared in (held, held + changing)
        }
        return found.pop() if len(found) == 1 else None

    def _advertise(self) -> None:
        """Declare what it publishes, then withdraw what it declared before."""
        if self._advertising is not None or self.failed:
            return
        declared: Predicate = Negation(draw_condition(self.chance))  # most events match it
        if self.chance.random() < 0.3:
            one = draw_predicate(self.chance, self.chance.choice(self.habits.sizes))
            declared = Together("or", (declared, one))
        self._advertising = declared
        self.judge.reconsider(self.name, self._may_publish)
        self.requests += 1

        def answered(error: Exception | None, done: Any) -> None:
            self.requests -= 1
            self._advertising = None
            if error is None:
                before = list(self.advertised)
                self.advertised[done] = declared
                if before:
                    self._withdraw(before[0])
            elif isinstance(error, RefusedError):
                self.judge.violated(self.now, f"{self.name} may not advertise: {error}")

        self.core.advertise(str(declared), answered)

    def _withdraw(self, number: int) -> None:
        """Withdraw an advertisement."""
        self._advertising = self.advertised.pop(number)
        self.judge.reconsider(self.name, self._may_publish)
        self.requests += 1

        def answered(error: Exception | None, done: Any) -> None:
            self.requests -= 1
            self._advertising = None

        self.core.unadvertise(number, answered)

    def _settled(self, number: int, error: Exception | None) -> None:
        self._look_around()
        self.judge.settle(number, outcome_of(error), self.now)

    def _try_mistake(self) -> None:
        """Ask for what cannot be done: it raises at once, and nothing else changes."""
        wrong: list[Any] = [{1: 2}, [1], {"x": "a" * (self.core.limits.event_bytes + 1)}]
        wrong.append({"x": 2**64})
        one = self.chance.choice(wrong)
        try:
            self.core.publish(one, "received", lambda _, error: None)
        except (NetworkError, ValueError, TypeError):
            return
        self.judge.violated(self.now, f"{self.name} may publish {one!r:.60}")

    # Subscriptions

    def subscribe(self, want: Predicate | None = None) -> None:
        """Subscribe to what is given, or drawn."""
        if self.failed:
            return
        id = self._numbers()
        if want is None:
            want = draw_predicate(self.chance, self.chance.choice(self.habits.sizes))
        held = self.held[id] = Holding(id, want)
        self.judge.subscribe(id, self.name, self.router, want, self.rights.receive)
        self._aims.append(want)
        self.requests += 1

        def answered(error: Exception | None, inbox: Any) -> None:
            self.requests -= 1
            if error is not None:
                self._refused(held, error)

        try:
            held.inbox = self.core.subscribe(str(want), answered)
        except NetworkError as error:
            answered(error, None)
            return
        held.inbox.on_change = lambda: self._inbox_changed(held)
        self._inbox_changed(held)

    def _refused(self, held: Holding, error: Exception) -> None:
        if isinstance(error, RefusedError) and not self.may_be_refused:
            self.judge.violated(self.now, f"{self.judge.name(held.id)} is refused: {error}")
        self._drop(held)

    def _drop(self, held: Holding) -> None:
        if not held.over:
            held.over = True
            self.judge.finish(held.id)
        if held.want in self._aims:
            self._aims.remove(held.want)

    def _churn(self) -> None:
        if self.failed:
            return
        present = [held for held in self.held.values() if not held.over and not held.replacing]
        kind = self.chance.random()
        if len(present) <= 1 or (kind < 0.35 and len(present) < 2 * self.habits.subscriptions):
            self.subscribe()
        elif kind < 0.7:
            self._replace(self.chance.choice(present))
        else:
            self._unsubscribe(self.chance.choice(present))

    def _replace(self, held: Holding) -> None:
        if held.inbox is None or held.inbox.over:
            return
        if self.habits.mistakes and self.chance.random() < 0.3:
            self._replace_wrongly(held.inbox)
        want = draw_predicate(self.chance, self.chance.choice(self.habits.sizes))
        held.replacing = want
        self.judge.replace(held.id, want)
        self._aims.append(want)
        self.requests += 1

        def answered(error: Exception | None, done: Any) -> None:
            self.requests -= 1
            held.replacing = None
            if error is not None:
                self.judge.refuse_replace(held.id, want, self.now)
                if want in self._aims:
                    self._aims.remove(want)
                return
            if held.want in self._aims:
                self._aims.remove(held.want)
            held.want = want
            held.known_established = False
            self._inbox_changed(held)

        self.core.replace(held.inbox, str(want), answered)

    def _replace_wrongly(self, inbox: Inbox) -> None:
        """Ask for a predicate that cannot be read: it is refused, and nothing else changes."""
        self.requests += 1

        def answered(error: Exception | None, done: Any) -> None:
            self.requests -= 1
            if error is None:
                self.judge.violated(self.now, f"{self.name} may subscribe to what cannot be read")

        self.core.replace(inbox, "kind = (", answered)

    def _unsubscribe(self, held: Holding) -> None:
        if held.inbox is None or held.inbox.over:
            return
        self._drop(held)
        if self.chance.random() < 0.3:
            self.core.give_up(held.inbox)
            return
        self.requests += 1

        def answered(error: Exception | None, done: Any) -> None:
            self.requests -= 1

        self.core.unsubscribe(held.inbox, answered)

    def _inbox_changed(self, held: Holding) -> None:
        self._look_around()
        inbox = held.inbox
        if inbox is None:
            return
        if inbox.interruptions > held.interruptions:
            held.interruptions = inbox.interruptions
            held.known_established = False
            self.judge.interrupt(self.name, [held.id], self.now)
        if inbox.established and not held.known_established and not held.replacing:
            held.known_established = True
            if not held.over:
                self.judge.establish(held.id, self.now)
        if inbox.over:
            if isinstance(inbox.over, RefusedError):
                self._refused(held, inbox.over)
            self._drop(held)
        if len(inbox) and not self._read_due:
            self._read_due = True
            fast = self.hurried or self.habits.reading == "fast"
            delay = 0 if fast else self.habits.read_ns
            self.machine.cluster.agenda.call(self.now + delay, lambda: self.machine.do(self._read))

    # Reading

    def _read(self) -> None:
        self._read_due = False
        if self.still:
            return
        if self.hurried or self.habits.reading == "fast":
            self._read_all()
            return
        if self.habits.reading == "dead":
            return
        for held in list(self.held.values()):
            self._take(held)
        for held in self.held.values():
            self._inbox_changed(held)

    def _read_all(self) -> None:
        for held in list(self.held.values()):
            while self._take(held):
                pass

    def _take(self, held: Holding) -> bool:
        if held.inbox is None:
            return False
        tiding = held.inbox.take()
        if tiding is None:
            return False
        self.judge.take(held.id, tiding, self.now)
        if self.habits.replies and not self.failed and self.chance.random() < 0.3:
            self._reply(tiding)
        return True

    def _reply(self, tiding: Tiding) -> None:
        self.requests += 1

        def answered(error: Exception | None, done: Any) -> None:
            self.requests -= 1
            self.replies_sent += error is None

        try:
            reply = {"to": tiding["n"], "pad": "x" * self.chance.randint(0, self.habits.padding)}
            self.core.feedback(tiding, reply, answered)
        except NetworkError:
            self.requests -= 1

    def _replied(self, number: int, reply: dict[str, Any]) -> None:
        self.replies_got += 1
        if self._published.get(number) != reply.get("to") and not self.core.interruptions:
            what = f"{self.name} gets for its {number} a reply to {reply}"
            self.judge.violated(self.now, f"unexpected: {what}")

    def _ask(self) -> None:
        self.requests += 1

        def answered(error: Exception | None, findings: Any) -> None:
            self.requests -= 1

        kind = self.chance.choice(("status", "trace", "why"))
        try:
            self.core.ask(kind, {"kind": 1} if kind != "status" else {}, "", answered)
        except NetworkError:
            self.requests -= 1

    # The connection

    def _look_around(self) -> None:
        """Notice that the client is at another router than before."""
        if self.core.node in ("", self.router):
            return
        if self.router not in self.machine.tried:
            what = f"{self.name} goes from {self.router} to {self.core.node} without need"
            self.judge.violated(self.now, what)
        if not self._moving:
            self._moving = True
            self.judge.cause(self.name)
        self.router = self.core.node
        self.judge.move(self.name, self.router)
        self.change_rights()

    def change_rights(self) -> None:
        """Its token allows something else, here or now."""
        former, self.rights = self.rights, self.rights_at(self.router)
        if former.receive is not self.rights.receive:
            self.judge.restrict(self.name, self.rights.receive, self.now)
        self.judge.reconsider(self.name, self._may_publish)

    def _changed(self, change: Change) -> None:
        self._look_around()
        if change.kind == "disconnected":
            self.machine.tried.clear()
        if self._moving:  # what follows from that, it knows by now
            self._moving = False
            self.judge.end_cause(self.name)
            self.judge.send_later(self.name, self.router)
        if change.kind == "failed":
            self.failed = change.detail
            if not self.judge.may_fail(self.name):
                self.judge.violated(self.now, f"{self.name} fails: {change.detail}")
            for held in self.held.values():
                self._drop(held)

    def troubles(self) -> list[str]:
        """What is stuck although nothing is wrong with the network."""
        if self.failed:
            return []
        found = []
        if not self.core.is_open:
            found.append(f"{self.name} is not connected: {self.core.trouble}")
        if self.requests:
            found.append(f"{self.requests} requests of {self.name} have no answer")
        if self._waits:
            found.append(f"{self.name} waits for room")
        found += [
            f"{self.judge.name(held.id)} is not established: {held.want!s:.80}"
            for held in self.held.values()
            if not held.over and not held.known_established
        ]
        return found


def outcome_of(error: Exception | None) -> str:
    """What a program was told about a publication."""
    if error is None:
        return "ok"
    if isinstance(error, RefusedError):
        return "refused"
    if isinstance(error, UnknownOutcomeError):
        return "unknown"
    if isinstance(error, DisconnectedError):
        return "failed"
    raise error


ADVERTISE_NS = 400 * MILLISECOND  # between the times that a program declares what it publishes
READ_NS = (20 * MILLISECOND, 100 * MILLISECOND, 300 * MILLISECOND)
