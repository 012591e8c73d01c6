"""Chord, as Zave has proved it and not as it was published: a ring that repairs itself.

Every node keeps a list of its next few successors, its predecessor, and fingers: the nodes in
charge of the keys 1, 2, 4, 8, … behind its own. Only the first successor makes routing right;
fingers make it short. The steps of the proof (arXiv 1502.06461) that the first paper lacks:

- who joins copies the list of its successor before it counts as joined;
- who stabilises first adopts the better successor together with that one's list, and only then
  tells it (`Notify`);
- who is told replaces a predecessor that is dead, not only one that is farther (rectify).

A ring that was partitioned does not join again by itself, so each node asks those that it
remembers, one after the other, who its successor is. A nearer one than it has, it adopts. Where the
carrier hears of all nodes by itself, a node looks there first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from tidings.overlay.ideal import SUCCESSORS, IdealRing, ideal_ring
from tidings.overlay.keys import Circle
from tidings.routing.packets import Find, Found, Notify, Parting, RingPacket, RingQuery, RingReply
from tidings.routing.planes.carrier import Carrier
from tidings.routing.protocol import Action, Drop, Timing, earliest
from tidings.routing.structured.substrate import Portion

RUSH: Final = 4  # rounds after news in which a node looks for all its fingers
PAUSE: Final = 8  # rounds for which a node does not ask one that has been silent
MOST_FINDS: Final = 256  # that wait for an answer
MERGE: Final = -1  # in place of a level: the owner of the next key behind this node


class Asked(NamedTuple):
    """A query that waits for its answer."""

    since: int
    again: int


class Chord:
    """One node's part in a ring.

    >>> from tidings.routing.planes.carrier import Meshed
    >>> from tidings.routing.protocol import USUAL
    >>> alone = Chord("a", Meshed("a", 1), USUAL)
    >>> alone.owns(12), alone.hop(12), alone.split(alone.key)
    (True, None, ())
    """

    def __init__(
        self,
        node: str,
        carrier: Carrier,
        timing: Timing,
        circle: Circle | None = None,
        meet: Callable[[str], None] = lambda name: None,
        sees: bool = False,
    ) -> None:
        self.node = node
        self.circle = circle or Circle()
        self.key = self.circle.key(node)
        self.carrier = carrier
        self.timing = timing
        self.successors: list[str] = []  # the nearest first; empty while alone
        self.predecessor: str | None = None
        self.fingers: dict[int, str] = {}  # by level, where not the successor
        self.epoch = 0
        self._meet = meet  # told of every name that others give
        self._sees = sees  # whether the carrier reaches exactly the nodes that run
        self._asked: dict[str, Asked] = {}
        self._finds: dict[int, int] = {}  # by number: the level that it is for
        self._number = 0
        self._silent: dict[str, int] = {}  # nodes that did not answer, and until when to spare them
        self._round_at: int | None = None
        self._rounds = 0
        self._rush = 0  # rounds left in which all levels are looked for
        self._level = 0
        self._turn = 0

    # What protocols ask

    def owns(self, key: int) -> bool:
        """Whether this node is in charge of a key: it lies behind its predecessor, or is its own.

        A node that has heard of one nearer behind the key is not, whatever the ring says yet.
        """
        if not self.successors:
            return True
        before = self.predecessor
        if before is None or not self.circle.reaches(self._at(before), key, self.key):
            return False
        return self._nearer(key) is None

    def _nearer(self, key: int) -> str | None:
        """A successor of a key that lies before this node, if one is known."""
        if not self._sees:
            return None
        distance, at = self.circle.distance, self._at
        names = [n for n in self.carrier.reach if distance(key, at(n)) < distance(key, self.key)]
        return min(names, key=lambda name: distance(key, at(name)), default=None)

    def hop(self, key: int) -> str | None:
        """The next node towards the one in charge of a key; None: here."""
        if self.owns(key):
            return None
        before = self.predecessor
        if before is not None and self.circle.reaches(self._at(before), key, self.key):
            return self._nearer(key)
        if self.circle.reaches(self.key, key, self._at(self.successors[0])):
            return self.successors[0]
        return self._preceding(key) or self.successors[0]

    def split(self, end: int) -> tuple[Portion, ...]:
        """The arc from this node to an end, divided among its successor and its fingers."""
        heads = [
            name for name in self._links() if self.circle.inside(self.key, self._at(name), end)
        ]
        ends = [self._at(head) for head in heads[1:]] + [end]
        return tuple(map(Portion, heads, ends))

    def replicas(self, count: int) -> tuple[str, ...]:
        """Who would take over the keys of this node: its successors."""
        return tuple(self.successors[:count])

    def neighbours(self) -> tuple[str, ...]:
        """The nodes that it keeps."""
        found = dict.fromkeys([*self.successors, *self.fingers.values()])
        if self.predecessor is not None:
            found[self.predecessor] = None
        return tuple(found)

    def beside(self) -> tuple[str | None, str | None]:
        """The node before this one and the one behind it."""
        return self.predecessor, self.successors[0] if self.successors else None

    def ideal(self, names: Iterable[str]) -> IdealRing:
        """What a ring of these nodes must look like at rest."""
        return ideal_ring(frozenset(names), self.circle)

    def is_settled(self) -> bool:
        """Whether it has found its place, as far as it knows."""
        nearest = self._nearest()
        if not self.successors:
            return nearest is None
        return self.predecessor is not None and nearest in (None, self.successors[0])

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "predecessor": self.predecessor,
            "successors": list(self.successors),
            "fingers": list(self._links()[1:]),
        }

    # What happens

    def begin_at_rest(self, ideal: IdealRing, now: int) -> None:
        """Be as in a ring at rest."""
        if len(ideal.nodes) == 1:
            return
        self.successors = ideal.successors(self.node)
        self.predecessor = ideal.predecessor(self.node)
        size = self.circle.size
        owners = {lv: ideal.owner((self.key + (1 << lv)) % size) for lv in self._levels()}
        self.fingers = {level: name for level, name in owners.items() if name != self.node}
        for name in self.neighbours():
            self._meet(name)
        self._changed()
        self._begin(now)

    def heard(self, now: int, out: list[Action]) -> None:
        """The carrier may have got to know other nodes."""
        self._begin(now)
        self._rush = RUSH
        self._look_nearer(now, out)

    def lost(self, names: Iterable[str], now: int, out: list[Action]) -> None:
        """These nodes cannot be reached, or have begun a new life."""
        lost = set(names)
        if not lost:
            return
        for name in lost:
            self._asked.pop(name, None)
        before = self.successors[:1]
        self.successors = [name for name in self.successors if name not in lost]
        self.fingers = {level: name for level, name in self.fingers.items() if name not in lost}
        if self.predecessor in lost:
            self.predecessor = None
        self._rush = RUSH
        self._changed()
        if self.successors[:1] != before:
            self._stabilise(now, out)

    def leave(self, out: list[Action]) -> None:
        """Say good-bye to those beside this node."""
        parting = Parting(self.predecessor or "", tuple(self.successors))
        for name in dict.fromkeys([*self.successors[:1], self.predecessor]):
            if name is not None and name != self.node:
                self._send(name, parting, out)
        self._round_at = None

    def received(self, source: str, packet: RingPacket, now: int, out: list[Action]) -> None:
        """A packet of the overlay has come."""
        self._begin(now)
        self._silent.pop(source, None)
        match packet:
            case RingQuery():
                reply = RingReply(self.predecessor or "", tuple(self.successors))
                self._send(source, reply, out)
            case RingReply():
                self._answered(source, packet, now, out)
            case Notify():
                self._rectify(source, now, out)
            case Find():
                self._find(packet, now, out)
            case Found():
                self._found(packet, now, out)
            case Parting():
                self._parted(source, packet, now, out)
            case _:
                out.append(Drop("not of this overlay", packet))

    def timer(self) -> int | None:
        """When to wake."""
        when = self._round_at
        for one in self._asked.values():
            when = earliest(when, one.again)
        return when

    def wake(self, now: int, out: list[Action]) -> None:
        """Do what is due."""
        silent: list[str] = []
        if not self._sees:  # else a slow answer says nothing: the carrier knows who is there
            dead = self.timing.dead
            silent = [n for n, one in self._asked.items() if now - one.since >= dead]
        for name in silent:
            self._silent[name] = now + PAUSE * self._round
        self.lost(silent, now, out)
        for name, one in list(self._asked.items()):
            if now >= one.again:
                self._asked[name] = Asked(one.since, now + self.timing.hello)
                self._send(name, RingQuery(), out)
        if self._round_at is not None and now >= self._round_at:
            self._round_at = now + self._round
            self._rounds += 1
            self._stabilise(now, out)
            self._look_nearer(now, out)
            self._look_for_fingers(now, out)
            self._remember(now, out)

    # The ring

    @property
    def _round(self) -> int:
        return 2 * self.timing.hello

    def _begin(self, now: int) -> None:
        if self._round_at is None:
            self._round_at = now + self._round

    def _stabilise(self, now: int, out: list[Action]) -> None:
        """Ask the successor what it knows; without one, whoever is nearest behind this node."""
        if self.successors:
            self._ask(self.successors[0], now, out)
        else:
            self._look_nearer(now, out)

    def _look_nearer(self, now: int, out: list[Action]) -> None:
        """Ask the nearest node that was heard of, if it is nearer than the successor."""
        nearest = self._nearest(now)
        if nearest is not None and self._is_nearer(nearest):
            self._ask(nearest, now, out)

    def _nearest(self, now: int | None = None) -> str | None:
        """The node that was heard of nearest behind this one, but for those that are silent."""
        self._silent = {n: t for n, t in self._silent.items() if now is None or t > now}
        names = [n for n in self.carrier.reach if n != self.node and n not in self._silent]
        return min(names, key=self._distance, default=None)

    def _is_nearer(self, name: str) -> bool:
        """Whether a node would be a better successor."""
        if name == self.node:
            return False
        return not self.successors or self._distance(name) < self._distance(self.successors[0])

    def _answered(self, source: str, reply: RingReply, now: int, out: list[Action]) -> None:
        """A node says what it knows: adopt it as the successor if it is the nearest."""
        self._asked.pop(source, None)
        for name in (reply.predecessor, *reply.successors[:SUCCESSORS]):
            if name:
                self._meet(name)
        if not self._is_nearer(source) and self.successors[:1] != [source]:
            return
        self._adopt(source, reply.successors)
        between = reply.predecessor
        if between and between != source and self._is_nearer(between) and self._is_there(between):
            self._ask(between, now, out)
            return
        if between != self.node:
            self._notify(out)

    def _is_there(self, name: str) -> bool:
        """Whether a node may be spoken to."""
        return name in self.carrier.reach and name not in self._silent

    def _adopt(self, successor: str, theirs: Iterable[str]) -> None:
        """Take a node as the successor, and its list behind it."""
        found = [successor]
        for name in theirs:
            if name == self.node or self._distance(name) <= self._distance(found[-1]):
                break  # once round the ring
            if not self._sees or self._is_there(name):
                found.append(name)
        found = found[:SUCCESSORS]
        if found != self.successors:
            if found[:1] != self.successors[:1]:
                self._rush = RUSH
            self.successors = found
            far = self._distance(successor)
            self.fingers = {lv: name for lv, name in self.fingers.items() if 1 << lv > far}
            self._changed()

    def _notify(self, out: list[Action]) -> None:
        self._send(self.successors[0], Notify(), out)

    def _rectify(self, source: str, now: int, out: list[Action]) -> None:
        """A node says that it may be the predecessor of this one."""
        before = self.predecessor
        if before == source:
            return
        if (
            before is None
            or not self._is_there(before)
            or self.circle.inside(self._at(before), self._at(source), self.key)
        ):
            self._precede(source)
        else:
            self._ask(before, now, out)  # it may be dead
        if not self.successors:
            self._ask(source, now, out)

    def _precede(self, name: str) -> None:
        self.predecessor = name
        self._changed()

    def _parted(self, source: str, packet: Parting, now: int, out: list[Action]) -> None:
        """A neighbour leaves, and says who is beside it."""
        self._silent[source] = now + PAUSE * self._round
        if self.predecessor == source:
            name = packet.predecessor
            self._precede(name) if name and name != self.node else self.lost([source], now, out)
        if self.successors[:1] == [source]:
            theirs = [name for name in packet.successors if name != self.node]
            if theirs and self._is_there(theirs[0]):
                self._adopt(theirs[0], theirs[1:])
                self._notify(out)
        self.lost([source], now, out)

    # Fingers

    def _levels(self) -> list[int]:
        """The levels at which the finger is not the successor."""
        if not self.successors:
            return []
        far = self._distance(self.successors[0])
        return [level for level in range(self.circle.bits) if 1 << level > far]

    def _look_for_fingers(self, now: int, out: list[Action]) -> None:
        levels = self._levels()
        if not levels:
            return
        if self._rush:
            self._rush -= 1
            chosen = levels
        else:
            self._level = (self._level + 1) % len(levels)
            chosen = [levels[self._level]]
        for level in chosen:
            self._search(level, None, now, out)

    def _remember(self, now: int, out: list[Action]) -> None:
        """Ask the next of the nodes that were ever heard of who comes behind this one."""
        if self._rounds % 4:
            return
        names = sorted(self.carrier.reach)
        if names:
            self._turn = (self._turn + 1) % len(names)
            self._search(MERGE, names[self._turn], now, out)

    def _search(self, level: int, first: str | None, now: int, out: list[Action]) -> None:
        """Look for the owner of the key at a level, perhaps by way of some node."""
        key = (self.key + (1 if level == MERGE else 1 << level)) % self.circle.size
        self._number += 1
        self._finds[self._number] = level
        while len(self._finds) > MOST_FINDS:
            del self._finds[next(iter(self._finds))]
        find = Find(key, self.node, self._number, 0)
        if first is None:
            self._find(find, now, out)
        else:
            self._send(first, find, out)

    def _find(self, find: Find, now: int, out: list[Action]) -> None:
        """Answer a search, or pass it on to a node nearer to the key."""
        if not self.successors:
            self._tell_found(find, self.node, now, out)
        elif self.circle.reaches(self.key, find.key, self._at(self.successors[0])):
            self._tell_found(find, self.successors[0], now, out)
        elif find.hops > 2 * self.circle.bits:
            out.append(Drop("too many hops", find))
        else:
            hop = self._preceding(find.key) or self.successors[0]
            self._send(hop, Find(find.key, find.origin, find.number, max(find.hops, 0) + 1), out)

    def _tell_found(self, find: Find, owner: str, now: int, out: list[Action]) -> None:
        found = Found(find.number, owner, find.hops)
        if find.origin == self.node:
            self._found(found, now, out)
        else:
            self._meet(find.origin)
            self._send(find.origin, found, out)

    def _found(self, found: Found, now: int, out: list[Action]) -> None:
        level = self._finds.pop(found.number, None)
        if level is None:
            return
        owner = found.owner
        self._meet(owner)
        if level == MERGE or owner == self.node:
            if self._is_nearer(owner):
                self._ask(owner, now, out)
            if level != MERGE and self.fingers.pop(level, None) is not None:
                self._changed()
        elif self._is_there(owner) and self.fingers.get(level) != owner:
            self.fingers[level] = owner
            self._changed()

    def _preceding(self, key: int) -> str | None:
        """The node nearest before a key of those that this one knows."""
        before = [
            name
            for name in dict.fromkeys([*self.successors, *self.fingers.values()])
            if self.circle.inside(self.key, self._at(name), key) and self._is_there(name)
        ]
        return max(before, key=self._distance, default=None)

    def _links(self) -> list[str]:
        """The successor and the fingers, the nearest first."""
        found = dict.fromkeys([*self.successors[:1], *self.fingers.values()])
        return sorted(found, key=self._distance)

    # Parts of it all

    def _ask(self, name: str, now: int, out: list[Action]) -> None:
        if name not in self._asked:
            self._asked[name] = Asked(now, now + self.timing.hello)
            self._send(name, RingQuery(), out)

    def _send(self, name: str, packet: RingPacket, out: list[Action]) -> None:
        self.carrier.send(name, packet, out)

    def _changed(self) -> None:
        self.epoch += 1

    def _at(self, name: str) -> int:
        return self.circle.key(name)

    def _distance(self, name: str) -> int:
        return self.circle.distance(self.key, self.circle.key(name))
