"""Whole routers and clients on simulated streams: the very state machines of the live network.

Each runs on a machine with a clock of its own, which may run fast or slow and leap both ways.
Machines connect by address, as they would by TCP: a connection may be refused, or nobody answers,
or it stands although the process behind it is paused. What befalls a machine or the lines between
two machines is done here; whether the programs notice more than they may is for the judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from tidings.language.work import Work
from tidings.live import session as session_module
from tidings.live.access import Principal
from tidings.live.client_core import ClientCore, Options
from tidings.live.edge import Growing
from tidings.live.limits import Limits
from tidings.live.router_core import RouterCore
from tidings.live.settings import Dial, Settings
from tidings.live.timers import Timers
from tidings.routing.protocol import MILLISECOND, Action, Cause
from tidings.sim.network import PER_MILLE
from tidings.sim.streams import Agenda, End, Process, Quality, Wire

PORT: Final = 7_471  # of every router; the host of its address is an own name of the simulator
FIRST_ATTEMPT: Final = 200 * MILLISECOND  # until a connection is tried again; it doubles
ATTEMPTS: Final = 5
WORK: Final = 20 * MILLISECOND  # that work off the loop takes, at most


class Machine(Process):
    """A process with a clock and with timers."""

    def __init__(self, cluster: Cluster, name: str, offset: int, rate: int) -> None:
        super().__init__(name)
        self.cluster = cluster
        self.offset = offset
        self.rate = rate
        self.timers = Timers(self.clock())
        self.most_steps = 0  # of the algebra that work off the loop has taken at once
        self._armed: int | None = None

    def clock(self) -> int:
        """What its clock shows."""
        return self.offset + self.cluster.agenda.now * self.rate // PER_MILLE

    def leap(self, by: int) -> None:
        """Its clock leaps, forward or back."""
        self.offset += by
        self.do(lambda: None)

    def run(self, function: Callable[[], None]) -> None:
        """Set the timers, run a function, and wake up for the next timer."""
        self.timers.advance(self.clock())
        function()
        self._arm()

    def _arm(self) -> None:
        soonest = self.timers.soonest()
        if soonest is None:
            return
        ahead = soonest - self.clock()
        delay = max(0, -(-ahead * PER_MILLE // self.rate))
        moment = self.cluster.agenda.now + delay
        if self._armed is None or moment < self._armed:
            self._armed = moment
            self.cluster.agenda.call(moment, lambda: self._wake(moment))

    def _wake(self, moment: int) -> None:
        if self._armed == moment:
            self._armed = None
            self.do(lambda: None)

    def work(self, function: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run a function as in a thread: its result comes a little later.

        The compiler of tables is never loaded here, so routers evaluate predicates one by one.
        """
        if function == Growing.prepare:
            return
        cluster, before = self.cluster, self.cluster.algebra_steps
        cluster.off_loop = True
        try:
            result: Any = function()
        except Exception as error:
            result = error
        cluster.off_loop = False
        self.most_steps = max(self.most_steps, cluster.algebra_steps - before)
        later = cluster.agenda.now + cluster.chance.randrange(WORK)
        cluster.agenda.call(later, lambda: self.do(lambda: then(result)))


class RouterMachine(Machine):
    """A router; it lives until it is killed."""

    def __init__(
        self,
        cluster: Cluster,
        address: str,
        settings: Settings,
        limits: Limits,
        offset: int,
        rate: int,
    ) -> None:
        super().__init__(cluster, address, offset, rate)
        self.settings = settings
        self.limits = limits
        cluster.lives += 1
        entropy = Random(f"entropy {cluster.seed} {cluster.lives}")
        self.core = cluster.router_of(settings, self, self.timers, entropy.getrandbits, limits)
        self.most_steps_on_loop = 0  # of the algebra that its protocol has taken for one cause
        self._handle = self.core.protocol.handle
        self.core.protocol.handle = self._handle_counted  # type: ignore[method-assign]

    def _handle_counted(self, cause: Cause, now: int) -> list[Action]:
        before = self.cluster.algebra_steps
        actions = self._handle(cause, now)
        steps = self.cluster.algebra_steps - before
        self.most_steps_on_loop = max(self.most_steps_on_loop, steps)
        return actions

    def start(self) -> None:
        """Begin."""
        self.do(self.core.start)

    def accepted(self, end: End) -> None:
        """Someone has connected."""
        end.high_water = self.limits.high_water
        end.carry(self.core.accepted(end))

    def dial(self, dial: Dial) -> None:
        """The router asks for a connection."""

        def made(end: End) -> None:
            end.high_water = self.limits.high_water
            end.carry(self.core.dialled(dial, end))

        self.cluster.connect(self, dial.host, made, lambda why: self.core.undialled(dial, why))


class ClientMachine(Machine):
    """A client, and whoever uses it."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        options: Options,
        limits: Limits,
        offset: int,
        rate: int,
    ) -> None:
        super().__init__(cluster, name, offset, rate)
        self.limits = limits
        self.tried: list[str] = []  # addresses, since its program has last cleared this
        self.core = cluster.client_of(options, self, self.timers, limits)

    def connect(self, address: Any) -> None:
        """The client asks for a connection."""
        self.tried.append(address.host)

        def made(end: End) -> None:
            end.high_water = self.limits.high_water
            end.carry(self.core.connected(end))

        self.cluster.connect(self, address.host, made, self._failed)

    def _failed(self, why: str) -> None:
        self.core.unconnected(ConnectionRefusedError(why))


class Stranger(Process):
    """Someone who connects and says what is not allowed, or nothing."""

    def __init__(self, name: str, says: bytes, reads: bool) -> None:
        super().__init__(name)
        self.says = says
        self.reads = reads
        self.heard = 0
        self._end: End | None = None

    def made(self, end: End) -> None:
        """The connection stands."""
        self._end = end
        end.carry(self)
        if not self.reads:
            end.pause()
        end.schedule()

    def received(self, data: bytes) -> None:
        """It does not care."""
        self.heard += len(data)

    def lost(self, error: Exception | None) -> None:
        """It was thrown out."""
        self._end = None

    def choke(self) -> None:
        """It does not care."""

    def unchoke(self) -> None:
        """It does not care."""

    def flush(self) -> None:
        """Say it."""
        if self._end is not None:
            says, self.says = self.says, b""
            self._end.write(says)


class Cluster:
    """Machines, and the wires between them."""

    def __init__(
        self,
        seed: object,
        agenda: Agenda,
        router_of: Callable[..., RouterCore] = RouterCore,
        client_of: Callable[..., ClientCore] = ClientCore,
    ) -> None:
        self.seed = seed
        self.agenda = agenda
        self.chance = Random(f"cluster {seed}")
        self.router_of = router_of
        self.client_of = client_of
        self.lives = 0
        self.routers: dict[str, RouterMachine] = {}  # by address: those that run
        self.clients: dict[str, ClientMachine] = {}
        self.wires: list[Wire] = []
        self.qualities: dict[frozenset[str], Quality] = {}  # of lines between two machines
        self.quality = Quality()  # of all others
        self.refusing: Counter[str] = Counter()  # addresses at which connections are refused
        self.off_loop = False  # whether a machine does what takes long
        self.algebra_steps = 0  # that all machines have taken together
        self.longest_read = 0  # characters of a predicate that a session has read on a loop
        self._held: Counter[frozenset[str]] = Counter()  # pairs between which nothing moves
        self.connections = 0  # made so far

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note how long the predicates are that sessions read on a loop, and count the steps of the
        algebra."""
        read, spend = session_module.read_predicate, Work.spend

        def read_watched(text: str, principal: Principal | None) -> Any:
            if not self.off_loop:
                self.longest_read = max(self.longest_read, len(text))
            return read(text, principal)

        def spend_counted(work: Work, steps: int) -> None:
            spend(work, steps)  # where there are not so many, none is taken
            if not work.within:  # else the operation around it counts them
                self.algebra_steps += steps

        session_module.read_predicate = read_watched
        Work.spend = spend_counted  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            session_module.read_predicate = read
            Work.spend = spend  # type: ignore[method-assign]

    # Connections

    def connect(
        self,
        origin: Process,
        address: str,
        made: Callable[[End], None],
        failed: Callable[[str], None],
    ) -> None:
        """Someone wants to connect to an address; answers later."""
        quality = self.quality_between(origin.name, address)

        def fail(why: str) -> None:
            origin.do(lambda: failed(why))

        def arrive(attempt: int = 0) -> None:
            if origin.ended:
                return
            if self._held[frozenset((origin.name, address))]:  # as TCP repeats its first packet
                if attempt == ATTEMPTS:
                    fail("nobody answers")
                    return
                again = self.agenda.now + (FIRST_ATTEMPT << attempt)
                self.agenda.call(again, lambda: arrive(attempt + 1))
                return
            target = self.routers.get(address)
            if target is None or target.ended or self.refusing[address]:
                fail("refused")
                return
            wire = self._wire(origin, target, quality)
            target.do(lambda: target.accepted(wire.acceptor))
            origin.do(lambda: made(wire.dialler))

        self.agenda.call(self.agenda.now + 2 * quality.delay_ns + 1, arrive)

    def quality_between(self, one: str, other: str) -> Quality:
        """How lines between two machines carry bytes."""
        return self.qualities.get(frozenset((one, other)), self.quality)

    def _wire(self, origin: Process, target: Process, quality: Quality) -> Wire:
        self.connections += 1
        wire = Wire(
            self.agenda,
            self.chance,
            (origin, target),
            (f"{origin.name}:{self.connections}", f"{target.name}:{PORT}"),
            (quality, quality),
            self._closed,
        )
        self.wires.append(wire)
        return wire

    def _closed(self, wire: Wire) -> None:
        if wire in self.wires:
            self.wires.remove(wire)

    def between(self, one: str, other: str) -> list[Wire]:
        """The wires between two machines."""
        names = {one, other}
        return [wire for wire in self.wires if {end.process.name for end in wire.ends} == names]

    def of(self, name: str) -> list[Wire]:
        """The wires of a machine."""
        return [wire for wire in self.wires if name in {end.process.name for end in wire.ends}]

    # Machines

    def start_router(
        self,
        address: str,
        settings: Settings,
        limits: Limits,
        offset: int = 0,
        rate: int = PER_MILLE,
    ) -> RouterMachine:
        """A router starts at an address."""
        machine = RouterMachine(self, address, settings, limits, offset, rate)
        self.routers[address] = machine
        machine.start()
        return machine

    def kill(self, process: Process, silently: bool = False) -> None:
        """A process dies; its peers are told, or hear nothing any more."""
        process.end()
        for wire in list(self.wires):
            for end in wire.ends:
                if end.process is process:
                    wire.kill(end, silently, self.chance.random() < 0.5)
        for address, machine in list(self.routers.items()):
            if machine is process:
                del self.routers[address]

    def start_client(
        self,
        name: str,
        options: Options,
        limits: Limits,
        offset: int = 0,
        rate: int = PER_MILLE,
    ) -> ClientMachine:
        """A client, which does not connect before its program says so."""
        machine = self.clients[name] = ClientMachine(self, name, options, limits, offset, rate)
        return machine

    def intrude(self, name: str, address: str, says: bytes, reads: bool) -> None:
        """A stranger connects."""
        stranger = Stranger(name, says, reads)
        self.connect(stranger, address, stranger.made, lambda why: None)

    # What befalls the lines

    def hold(
        self, one: str, other: str, there: bool = True, back: bool = True
    ) -> Callable[[], None]:
        """Nothing moves between two machines, or not in one direction; returns what ends it.

        While nothing moves at all, nobody answers new connections either.
        """
        releases = []
        for wire in self.between(one, other):
            straight = wire.dialler.process.name == one
            releases.append(wire.hold(*((there, back) if straight else (back, there))))
        pair = frozenset((one, other))
        whole = there and back
        self._held[pair] += whole

        def release() -> None:
            self._held[pair] -= whole
            for function in releases:
                function()

        return release

    def cut(self, one: str, other: str, lose: bool) -> None:
        """The connections between two machines break."""
        for wire in self.between(one, other):
            wire.cut(lose)
