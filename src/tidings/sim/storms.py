"""What befalls a whole network: one row of `BENIGN` or `HARMFUL` each, begun and undone.

Benign faults are those of which `docs/network.md` promises that nothing is lost: connections that
break and come back in time, short pauses, clocks that go back, strangers, links and routers that
are new. Harmful ones are the others. A fault that may interrupt a program is a cause for the judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from tidings.live.settings import Dial, Settings
from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.cluster import PORT
from tidings.sim.predicates import draw_condition
from tidings.sim.programs import Rights
from tidings.wire.frames import frame
from tidings.wire.messages import VERSION, Join, Open, encode

if TYPE_CHECKING:
    from tidings.sim.cluster_trial import ClusterTrial
    from tidings.sim.programs import Program

Undo = Callable[[], None]
SHORT: Final = (20, 600)  # milliseconds, well below the times after which others give up
CROWD: Final = 20  # connections a second, each of which says nothing
LONG: Final = (1_000, 6_000)
RECOVERY: Final = 600 * MILLISECOND  # in which connections that a short fault broke are back


class Weather:
    """The faults of one run: begins them, remembers how to undo them, and counts them."""

    def __init__(self, trial: ClusterTrial) -> None:
        self.trial = trial
        self.counts: Counter[str] = Counter()
        self.chance = Random(f"weather {trial.drawn.seed}")
        self._undo: dict[int, Undo] = {}
        self._number = 0
        self._caused: list[str] = []
        self._benign = False  # whether what begins must not be noticed
        self._delays: list[str] = []  # the machines that it delays
        self._free_at: dict[str, int] = {}  # by machine: when it has recovered from its last delay

    def strike(self, kind: str) -> None:
        """Begin a fault, and undo it after a while."""
        begin = BENIGN.get(kind) or HARMFUL[kind]
        self._benign = kind in BENIGN
        self._delays.clear()
        undo = begin(self)
        if undo is None:
            return
        self.counts[kind] += 1
        self._number += 1
        number = self._number
        self._undo[number] = undo
        least, most = SHORT if kind in BENIGN else LONG
        lasts = self.chance.randint(least, most) * MILLISECOND
        agenda = self.trial.agenda
        for name in self._delays:
            self._free_at[name] = agenda.now + lasts + RECOVERY
        agenda.call(agenda.now + lasts, lambda: self._end(number))

    @property
    def lasting(self) -> int:
        """How many faults have begun and are not undone."""
        return len(self._undo)

    def end(self) -> None:
        """Undo whatever still lasts."""
        for number in list(self._undo):
            self._end(number)

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def cause(self, user: str) -> None:
        """A fault may interrupt a user, until all has come to rest again."""
        self._caused.append(user)
        self.trial.judge.cause(user)

    def forget_causes(self) -> None:
        """All has come to rest."""
        for user in self._caused:
            self.trial.judge.end_cause(user)
        self._caused.clear()

    # What faults need

    def may_delay(self, *names: str) -> bool:
        """Whether a fault may delay these machines now; then it does.

        Short delays one after the other are as long as a long one. So a benign fault waits until
        the machines have recovered from the last one.
        """
        now = self.trial.agenda.now
        if self._benign and any(self._free_at.get(name, 0) > now for name in names):
            return False
        self._delays.extend(names)
        return True

    def some_link(self) -> tuple[str, str] | None:
        """Two routers with a link between them."""
        links = sorted(
            (address, dial.host)
            for address, settings in self.trial.settings.items()
            for dial in settings.links
        )
        return self.chance.choice(links) if links else None

    def some_router(self) -> str | None:
        """A router that runs."""
        running = sorted(
            address
            for address, machine in self.trial.cluster.routers.items()
            if not machine.paused and address in self.trial.settings
        )
        return self.chance.choice(running) if running else None

    def some_program(self) -> Program | None:
        """A program that can go on."""
        able = [p for p in self.trial.programs if not p.failed and not p.machine.ended]
        return self.chance.choice(able) if able else None

    def near(self, address: str) -> list[str]:
        """A router, its neighbours, and the programs at it."""
        links = [
            {one, dial.host}
            for one, settings in self.trial.settings.items()
            for dial in settings.links
        ]
        near = set[str]().union({address}, *(ends for ends in links if address in ends))
        return [*sorted(near), *(program.name for program in self.at(address))]

    def at(self, address: str) -> list[Program]:
        """The programs at a router."""
        return [program for program in self.trial.programs if program.router == address]


def nothing() -> None:
    """There is nothing to undo."""


def cut_client(weather: Weather) -> Undo | None:
    """A client's connection breaks."""
    program = weather.some_program()
    if program is None or not weather.may_delay(program.name):
        return None
    weather.trial.cluster.cut(program.name, program.router, weather.chance.random() < 0.5)
    return nothing


def flap_client(weather: Weather) -> Undo | None:
    """A client's connection breaks again and again, also in the middle of a greeting."""
    program = weather.some_program()
    if program is None or not weather.may_delay(program.name):
        return None
    return _flap(weather, program.name, program.router)


def flap_link(weather: Weather) -> Undo | None:
    """A link's connection breaks again and again, also in the middle of a greeting."""
    ends = weather.some_link()
    return None if ends is None or not weather.may_delay(*ends) else _flap(weather, *ends)


def _flap(weather: Weather, one: str, other: str) -> Undo:
    agenda, cluster, chance = weather.trial.agenda, weather.trial.cluster, weather.chance
    at = agenda.now
    for _ in range(6):
        agenda.call(at, partial(cluster.cut, one, other, chance.random() < 0.5))
        at += chance.randint(1, 60) * MILLISECOND
    return nothing


def hold_client(weather: Weather) -> Undo | None:
    """For a moment nothing moves between a client and its router, or in one direction."""
    program = weather.some_program()
    if program is None or not weather.may_delay(program.name):
        return None
    there, back = weather.chance.choice(((True, True), (True, False), (False, True)))
    return weather.trial.cluster.hold(program.name, program.router, there, back)


def cut_link(weather: Weather) -> Undo | None:
    """A link's connection breaks."""
    ends = weather.some_link()
    if ends is None or not weather.may_delay(*ends):
        return None
    weather.trial.cluster.cut(*ends, weather.chance.random() < 0.5)
    return nothing


def hold_link(weather: Weather) -> Undo | None:
    """For a moment nothing moves on a link, or in one direction."""
    ends = weather.some_link()
    if ends is None or not weather.may_delay(*ends):
        return None
    there, back = weather.chance.choice(((True, True), (True, False), (False, True)))
    return weather.trial.cluster.hold(*ends, there, back)


def pause_router(weather: Weather) -> Undo | None:
    """A router stands still."""
    address = weather.some_router()
    if address is None or not weather.may_delay(*weather.near(address)):
        return None
    machine = weather.trial.cluster.routers[address]
    machine.pause()
    return machine.go_on


def pause_client(weather: Weather) -> Undo | None:
    """A client stands still."""
    program = weather.some_program()
    if program is None or program.machine.paused or not weather.may_delay(program.name):
        return None
    program.machine.pause()
    return program.machine.go_on


def clock_back(weather: Weather) -> Undo | None:
    """A clock leaps back."""
    machines = [*weather.trial.cluster.routers.values(), *weather.trial.cluster.clients.values()]
    machine = weather.chance.choice(machines)
    machine.leap(-weather.chance.randint(1, 3_600) * SECOND)
    return nothing


def stranger(weather: Weather) -> Undo | None:
    """Someone connects who says nothing, nonsense, or what is out of turn."""
    address = weather.some_router()
    if address is None:
        return None
    chance = weather.chance
    greetings = [
        Open(1, "", "", 0, 0, 0, "block", 4),  # another version
        Open(VERSION, "a guess", "a guess", 5, 5, 5, "block", 4),
        Join(1, "x", 7, "", 1, 3, 0, 0),
        Join(9, "y", 7, "", 1, 3, 0, 0),
    ]
    if weather.trial.drawn.protocol != "flood":
        # Without tokens it passes for a router. Who floods sends it events, and when it falls
        # silent, that is a router which fails.
        greetings.insert(3, Join(VERSION, "x", 7, "a guess", 1, 3, 0, 0))
    says = chance.choice(
        (
            b"",
            chance.randbytes(chance.choice((3, 100, 5_000))),
            b"GET / HTTP/1.1\r\n\r\n",
            *(frame(encode(greeting)) for greeting in greetings),
            frame(encode(greetings[0]))[:9],
        )
    )
    name = f"stranger{weather.counts['stranger']}"
    weather.trial.cluster.intrude(name, address, says, chance.random() < 0.7)
    return nothing


def crowd(weather: Weather) -> Undo | None:
    """Many connect and say nothing, again and again, while a client's connection breaks."""
    program = weather.some_program()
    if program is None or not weather.may_delay(program.name):
        return None
    agenda, cluster = weather.trial.agenda, weather.trial.cluster
    for number in range(4 * CROWD):
        at = agenda.now + number * 4 * SECOND // (4 * CROWD)
        silent = partial(cluster.intrude, "crowd", program.router, b"", number % 2 == 0)
        agenda.call(at, silent)
    cut = partial(cluster.cut, program.name, program.router, lose=True)
    agenda.call(agenda.now + 300 * MILLISECOND, cut)
    return nothing


def add_link(weather: Weather) -> Undo | None:
    """Two routers get a link between them."""
    settings = weather.trial.settings
    linked = {
        frozenset((address, dial.host)) for address, one in settings.items() for dial in one.links
    }
    able = sorted(
        (one, other)
        for one in settings
        for other in settings
        if one < other and frozenset((one, other)) not in linked
    )
    if not able:
        return None
    one, other = weather.chance.choice(able)
    cost = weather.chance.randint(1, 3)
    _set_links(weather, one, (*settings[one].links, Dial(other, PORT, cost)))
    return nothing


def add_router(weather: Weather) -> Undo | None:
    """A router joins the network."""
    trial = weather.trial
    near = weather.some_router()
    if near is None or len(trial.settings) > 8:
        return None
    name = f"new{len(trial.settings)}"
    dials = [Dial(near, PORT, 1)]
    other = weather.some_router()
    if other is not None and other != near and weather.chance.random() < 0.5:
        dials.append(Dial(other, PORT, 1))
    first, base = next(iter(trial.settings.items()))
    trial.rights[name] = list(trial.rights[first])
    trial.settings[name] = replace(base, node=name, links=tuple(dials))
    trial.start_router(name)
    return nothing


def kill_router(weather: Weather) -> Undo | None:
    """A router dies, and begins a new life later."""
    trial = weather.trial
    address = weather.some_router()
    if address is None:
        return None
    for program in weather.at(address):
        weather.cause(program.name)
    trial.cluster.kill(trial.cluster.routers[address], weather.chance.random() < 0.3)
    trial.judge.killed(address)

    def undo() -> None:
        if address not in trial.cluster.routers:
            trial.judge.killed(address)
            trial.start_router(address)

    return undo


def narrow_router(weather: Weather) -> Undo | None:
    """A router dies; in its new life it has room for one subscription a session."""
    before = dict(weather.trial.cluster.routers)
    undo = kill_router(weather)
    for address in before.keys() - weather.trial.cluster.routers.keys():
        weather.trial.narrow.add(address)
        for program in weather.trial.programs:
            program.may_be_refused |= address in program.places
    return undo


def stop_router(weather: Weather) -> Undo | None:
    """A router says good-bye and stops, and begins a new life later."""
    trial = weather.trial
    address = weather.some_router()
    if address is None:
        return None
    machine = trial.cluster.routers[address]
    for program in weather.at(address):
        weather.cause(program.name)
    machine.do(machine.core.stop)
    trial.judge.killed(address)
    later = trial.agenda.now + 50 * MILLISECOND
    trial.agenda.call(later, lambda: trial.cluster.kill(machine))

    def undo() -> None:
        trial.cluster.kill(machine)
        trial.judge.killed(address)
        if address not in trial.cluster.routers:
            trial.start_router(address)

    return undo


def lose_link(weather: Weather) -> Undo | None:
    """Nothing moves on a link for long, in one direction or both."""
    return hold_link(weather)


def partition(weather: Weather) -> Undo | None:
    """Two parts of the network do not hear each other."""
    trial = weather.trial
    side = {address for address in trial.settings if weather.chance.random() < 0.5}
    undo = [
        trial.cluster.hold(one, other)
        for one in sorted(side)
        for other in sorted(set(trial.settings) - side)
    ]

    def release() -> None:
        for function in undo:
            function()

    return release


def stall_router(weather: Weather) -> Undo | None:
    """A router stands still for long."""
    undo = pause_router(weather)
    if undo is not None:
        for address, machine in weather.trial.cluster.routers.items():
            if machine.paused:
                for program in weather.at(address):
                    weather.cause(program.name)
    return undo


def lose_client(weather: Weather) -> Undo | None:
    """A client is away for long."""
    program = weather.some_program()
    if program is None:
        return None
    weather.cause(program.name)
    return weather.trial.cluster.hold(program.name, program.router)


def stall_client(weather: Weather) -> Undo | None:
    """A client stands still for long."""
    program = weather.some_program()
    if program is None or program.machine.paused:
        return None
    weather.cause(program.name)
    program.machine.pause()
    return program.machine.go_on


def clock_ahead(weather: Weather) -> Undo | None:
    """A clock leaps ahead."""
    trial = weather.trial
    ahead = weather.chance.randint(1, 3_600) * SECOND
    address = weather.some_router()
    program = weather.some_program()
    if address is not None and (program is None or weather.chance.random() < 0.6):
        for one in weather.at(address):
            weather.cause(one.name)
        trial.cluster.routers[address].leap(ahead)
    elif program is not None:
        weather.cause(program.name)
        program.machine.leap(ahead)
    return nothing


def twin(weather: Weather) -> Undo | None:
    """A second router of the same name joins elsewhere."""
    address, near = weather.some_router(), weather.some_router()
    if address is None or near is None or near == address:
        return None
    return _twin(weather, address, near)


def namesake(weather: Weather) -> Undo | None:
    """A router comes whose name another has that is in reach, so that it must be kept out."""
    address, near = weather.some_router(), weather.some_router()
    if address is None or near is None or near == address:
        return None
    known = weather.trial.cluster.routers[near].core.protocol.life_of(address)
    if not known or not weather.may_delay(*weather.near(address)):
        return None
    return _twin(weather, address, near)


def _twin(weather: Weather, address: str, near: str) -> Undo | None:
    trial, place = weather.trial, f"{address} again"
    if place in trial.cluster.routers:
        return None
    settings = replace(trial.settings[address], links=(Dial(near, PORT, 1),))
    machine = trial.cluster.start_router(place, settings, trial.drawn.limits)
    return lambda: trial.cluster.kill(machine)


def remove_link(weather: Weather) -> Undo | None:
    """A link is taken away, and put back later."""
    ends = weather.some_link()
    if ends is None:
        return None
    one, other = ends
    settings = weather.trial.settings
    away = tuple(dial for dial in settings[one].links if dial.host == other)
    _set_links(weather, one, tuple(dial for dial in settings[one].links if dial not in away))
    # Others may have changed its links meanwhile: put back what was taken, and nothing else.
    return lambda: _set_links(weather, one, (*settings[one].links, *away))


def _set_links(weather: Weather, address: str, links: tuple[Dial, ...]) -> None:
    _read_again(weather, address, replace(weather.trial.settings[address], links=links))


def _read_again(weather: Weather, address: str, settings: Settings) -> None:
    """A router has other settings, and reads them."""
    weather.trial.settings[address] = settings
    machine = weather.trial.cluster.routers.get(address)
    if machine is not None:
        machine.settings = settings
        machine.do(lambda: machine.core.reconfigure(settings))


def change_rights(weather: Weather) -> Undo | None:
    """A router reads its settings again: a token allows something else, or nothing has changed."""
    address, chance = weather.some_router(), weather.chance
    if address is None:
        return None
    trial = weather.trial
    rights = trial.rights[address]
    if rights:
        number = chance.randrange(len(rights))
        publish, receive = (
            draw_condition(chance) if chance.random() < 0.5 else None for _ in range(2)
        )
        rights[number] = Rights(rights[number].token, publish, receive)
    principals = trial.principals(rights)
    _read_again(weather, address, replace(trial.settings[address], principals=principals))
    for program in weather.at(address):
        program.change_rights()
    return nothing


def revoke_token(weather: Weather) -> Undo | None:
    """A router reads its settings again, and one token is gone; it is back later."""
    address, trial = weather.some_router(), weather.trial
    if address is None or not trial.rights[address]:
        return None
    gone = weather.chance.choice(trial.rights[address])
    for program in trial.programs:
        if address in program.places and program.core.options.token == gone.token:
            weather.cause(program.name)
    kept = [one for one in trial.rights[address] if one.token != gone.token]
    principals = trial.principals(kept)
    _read_again(weather, address, replace(trial.settings[address], principals=principals))

    def undo() -> None:
        principals = trial.principals(trial.rights[address])
        _read_again(weather, address, replace(trial.settings[address], principals=principals))

    return undo


BENIGN: Final[dict[str, Callable[[Weather], Undo | None]]] = {
    "cut client": cut_client,
    "hold client": hold_client,
    "cut link": cut_link,
    "flap client": flap_client,
    "flap link": flap_link,
    "hold link": hold_link,
    "pause router": pause_router,
    "pause client": pause_client,
    "clock back": clock_back,
    "stranger": stranger,
    "crowd": crowd,
    "add link": add_link,
    "add router": add_router,
    "change rights": change_rights,
    "namesake": namesake,
}
HARMFUL: Final[dict[str, Callable[[Weather], Undo | None]]] = {
    "kill router": kill_router,
    "stop router": stop_router,
    "narrow router": narrow_router,
    "lose link": lose_link,
    "partition": partition,
    "stall router": stall_router,
    "lose client": lose_client,
    "stall client": stall_client,
    "clock ahead": clock_ahead,
    "twin": twin,
    "remove link": remove_link,
    "revoke token": revoke_token,
}
