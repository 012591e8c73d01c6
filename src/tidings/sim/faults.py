"""What can go wrong, one row of `FAULTS` each: drawn from the seed, begun, and undone.

Some faults are weather: while the storm lasts, links lose, repeat, reorder or misdirect a share of
their packets, or are slow. Others strike at a moment and last for a while: links cut in one
direction or both, links taken away, partitions, nodes that stop with their memory or without. Each
seed turns some kinds on and draws their strength. After the storm everything is undone, except that
nodes that have left for good stay away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from tidings.routing.planes.interests import EVERYTHING
from tidings.routing.protocol import MILLISECOND, SECOND, Leave
from tidings.routing.reverse_path.filters import filters_of, matched_by
from tidings.routing.reverse_path.router import ReversePathRouter
from tidings.sim.load import draw_want
from tidings.sim.network import Network

GOOD_BYE: Final = 20 * MILLISECOND  # between a node's good-bye and its end


class Storm:
    """The faults of one run: begins them, remembers how to undo them, and counts them."""

    def __init__(
        self,
        network: Network,
        chance: Random,
        forgotten: Callable[[str], None],
        reborn: Callable[[str], None],
    ) -> None:
        self.network = network
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.gone: set[str] = set()  # nodes that have left for good
        self._forgotten = forgotten  # a node has lost its memory, and its subscribers
        self._reborn = reborn  # a node has started anew
        self._undo: dict[int, Callable[[], None]] = {}
        self._number = 0

    def strike(self, kind: str, lasts: int) -> None:
        """Begin a fault of a kind, and undo it after a time."""
        undo = FAULTS[kind](self)
        if undo is None:
            return
        self.counts[kind] += 1
        self._number += 1
        number = self._number
        self._undo[number] = undo
        self.network.call(self.network.now + lasts, lambda: self._end(number))

    def end(self) -> None:
        """Undo whatever still lasts."""
        for number in list(self._undo):
            self._end(number)
        for link in self.network.links.values():
            link.calm()

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    # What faults need

    def some_link(self) -> tuple[str, str]:
        """A link, by its ends in some order."""
        return self.chance.choice(list(self.network.links))

    def some_node(self, running: bool = True) -> str | None:
        """A node that runs; None if at most two do."""
        names = [n.name for n in self.network.nodes.values() if n.running == running]
        return self.chance.choice(names) if len(names) > 2 else None

    def cut(self, directions: list[tuple[str, str]]) -> Callable[[], None]:
        """Swallow all packets in these directions."""
        links = [self.network.links[direction] for direction in directions]
        for link in links:
            link.cut += 1

        def undo() -> None:
            for link in links:
                link.cut -= 1

        return undo

    def stop(self, name: str, forget: bool, for_good: bool = False) -> Callable[[], None]:
        """Stop a node."""
        self.network.stop(name, forget)
        if forget:
            self._forgotten(name)
        if for_good:
            self.gone.add(name)

        def undo() -> None:
            if name not in self.gone and not self.network.nodes[name].running:
                self.network.start(name)
                if forget:
                    self._reborn(name)

        return undo


def cut(storm: Storm) -> Callable[[], None]:
    """A link swallows everything, and nobody is told."""
    one, other = storm.some_link()
    return storm.cut([(one, other), (other, one)])


def one_way(storm: Storm) -> Callable[[], None]:
    """A link swallows everything in one direction."""
    return storm.cut([storm.some_link()])


def unlink(storm: Storm) -> Callable[[], None]:
    """A link goes away, and both ends are told."""
    one, other = storm.some_link()
    storm.network.unlink(one, other)
    return lambda: storm.network.relink(one, other)


def flap(storm: Storm) -> Callable[[], None]:
    """A link comes and goes, three times."""
    one, other = storm.some_link()
    network = storm.network
    now = network.now
    for turn in range(3):
        begin = now + turn * storm.chance.randint(200, 1_200) * MILLISECOND
        network.call(begin, lambda: network.unlink(one, other))
        network.call(begin + 100 * MILLISECOND, lambda: network.relink(one, other))
    return lambda: None


def partition(storm: Storm) -> Callable[[], None]:
    """Two parts of the network do not hear each other."""
    names = sorted(storm.network.nodes)
    side = {name for name in names if storm.chance.random() < 0.5}
    across = [ends for ends in storm.network.links if (ends[0] in side) != (ends[1] in side)]
    return storm.cut(across)


def isolate(storm: Storm) -> Callable[[], None] | None:
    """A node hears nobody, or is heard by nobody, or both."""
    name = storm.some_node()
    if name is None:
        return None
    direction = storm.chance.randrange(3)
    directions = [
        ends
        for ends in storm.network.links
        if (ends[0] == name and direction != 1) or (ends[1] == name and direction != 0)
    ]
    return storm.cut(directions)


def hold(storm: Storm) -> Callable[[], None]:
    """A link holds its packets back, then lets them all go."""
    link = storm.network.links[storm.some_link()]
    link.held_until = storm.network.now + storm.chance.randint(100, 3_000) * MILLISECOND
    return lambda: None


def crash(storm: Storm) -> Callable[[], None] | None:
    """A node stops and loses its memory."""
    name = storm.some_node()
    return None if name is None else storm.stop(name, forget=True)


def pause(storm: Storm) -> Callable[[], None] | None:
    """A node stops for a while, and goes on as if nothing had happened."""
    name = storm.some_node()
    return None if name is None else storm.stop(name, forget=False)


def leave(storm: Storm) -> Callable[[], None] | None:
    """A node says good-bye and stops; every second one comes back."""
    name = storm.some_node()
    if name is None:
        return None
    for_good = storm.chance.random() < 0.5 and len(storm.gone) * 4 < len(storm.network.nodes)
    storm.network.tell(name, Leave())
    after: list[Callable[[], None]] = []

    def stop() -> None:
        if storm.network.nodes[name].running:
            after.append(storm.stop(name, True, for_good))

    storm.network.call(storm.network.now + GOOD_BYE, stop)

    def undo() -> None:
        stop()
        for function in after:
            function()

    return undo


def corrupt(storm: Storm) -> Callable[[], None] | None:
    """A node's table changes by itself."""
    name = storm.some_node()
    if name is None:
        return None
    router = storm.network.nodes[name].router
    if isinstance(router, ReversePathRouter):
        return _corrupt_link_table(router, storm.chance)
    table = {} if router is None else router.table
    if not table:
        return None
    interface = storm.chance.choice(sorted(table))
    table[interface] = "false" if storm.chance.random() < 0.5 else str(draw_want(storm.chance))
    return lambda: None


def _corrupt_link_table(router: ReversePathRouter, chance: Random) -> Callable[[], None] | None:
    """What a node holds from a neighbour, or has told it, gains a filter or loses one."""
    if not router.tables.links:
        return None
    link = chance.choice(sorted(router.tables.links))
    told, held = router.tables.links[link].told, router.wanted.by(link)
    drawn = filters_of(str(draw_want(chance)))
    text = drawn[0] if drawn else EVERYTHING
    loses = chance.random() < 0.7
    if chance.random() < 0.4:
        if loses and told:
            del told[chance.choice(sorted(told))]
        else:
            told[text] = None
    elif loses and held:
        lost = chance.choice(sorted(held))
        router.wanted.take(lost, link)
        if lost not in router.wanted.who:
            router._links.remove(lost)
    elif not loses or text not in held:
        if text not in router.wanted.who:
            router._links.add(text, matched_by(text))
        router.wanted.put(text, link)
    return lambda: None


def weather(name: str) -> Callable[[Storm], Callable[[], None]]:
    """A fault in which some links lose, repeat, reorder or misdirect a share of their packets."""

    def begin(storm: Storm) -> Callable[[], None]:
        chance = storm.chance
        strength = chance.choice((0.01, 0.05, 0.2, 0.4))
        links = [link for link in storm.network.links.values() if chance.random() < 0.5]
        before = [getattr(link, name) for link in links]
        for link in links:
            setattr(link, name, strength)
            link.disturbed()

        def undo() -> None:
            for link, value in zip(links, before, strict=True):
                setattr(link, name, value)

        return undo

    return begin


def slow(storm: Storm) -> Callable[[], None]:
    """Some links carry little: about 100 kB a second."""
    links = [link for link in storm.network.links.values() if storm.chance.random() < 0.3]
    before = [link.ns_per_byte for link in links]
    for link in links:
        link.ns_per_byte = 10_000

    def undo() -> None:
        for link, value in zip(links, before, strict=True):
            link.ns_per_byte = value

    return undo


def skew(storm: Storm) -> Callable[[], None]:
    """A node's clock leaps, forward or back."""
    node = storm.network.nodes[storm.chance.choice(sorted(storm.network.nodes))]
    leap = storm.chance.randint(1, 3_600) * SECOND
    node.offset += leap if storm.chance.random() < 0.5 else -leap
    node.wake_at = None  # the next packet wakes it, and it finds that it is late
    return lambda: None


FAULTS: Final[dict[str, Callable[[Storm], Callable[[], None] | None]]] = {
    "loss": weather("loss"),
    "duplicate": weather("duplicate"),
    "reorder": weather("reorder"),
    "stray": weather("stray"),
    "slow": slow,
    "hold": hold,
    "cut": cut,
    "one-way": one_way,
    "unlink": unlink,
    "flap": flap,
    "partition": partition,
    "isolate": isolate,
    "crash": crash,
    "pause": pause,
    "leave": leave,
    "skew": skew,
    "corrupt": corrupt,
}
