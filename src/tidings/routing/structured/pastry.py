"""Pastry: prefixes make paths short, and leaves on both sides make them right.

The node nearest to a key is in charge of it. Every node keeps *leaves*, the next few nodes on
either side, and a *table* with an entry for each number of digits that a key may share with its own
and each digit that may follow. A packet goes to an entry that shares one digit more with its key,
until the leaves reach the key. Only the first leaf on each side makes routing right.

Leaves are kept as Zave's Chord keeps its list of successors, in both directions: a node asks the
first leaf of a side, adopts it together with its leaves of that side, and so nothing that is dead
stays in a list for long. Whoever changes its leaves tells the neighbour whose list follows from
them. The first paper lets a node be adopted on hearsay; here it must have answered.

An entry is the node nearest to the *mark*, the own key with one digit replaced. Where that node is
not known, the owner of the mark knows it: it is the owner itself, or beside it. So the right table
follows from the set of nodes alone. Nodes look for the owners of their marks in turn. Such a search
goes by the entry there is; if it is not answered, the node asks that entry, and forgets it if it is
silent.

Networks that were partitioned join again as rings of Chord do: each node asks those that it
remembers who is in charge of its own key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from tidings.overlay.ideal import LEAVES, IdealPastry, IdealRing, ideal_pastry
from tidings.overlay.keys import DIGIT_BITS, Circle
from tidings.routing.packets import Find, Found, Leaves, Parting, RingPacket, RingQuery
from tidings.routing.planes.carrier import Carrier
from tidings.routing.protocol import Action, Drop, Timing, earliest
from tidings.routing.structured.chord import MOST_FINDS, PAUSE, RUSH, Asked
from tidings.routing.structured.substrate import Portion

BEFORE, BEHIND = -1, 1  # the sides of a node
SIDES: Final = (BEFORE, BEHIND)
MERGE: Final = (-1, -1)  # in place of a row and a digit: the owner of this node's own key

Slot = tuple[int, int]  # digits shared, and the digit that follows


class Pastry:
    """One node's part in a network of Pastry.

    >>> from tidings.routing.planes.carrier import Meshed
    >>> from tidings.routing.protocol import USUAL
    >>> alone = Pastry("a", Meshed("a", 1), USUAL)
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
        leaves: int = LEAVES,
    ) -> None:
        self.node = node
        self.circle = circle or Circle()
        self.key = self.circle.key(node)
        self.carrier = carrier
        self.timing = timing
        self.leaves: dict[int, list[str]] = {side: [] for side in SIDES}  # the nearest first
        self.entries: dict[Slot, str] = {}  # as found; `table` knows the leaves, too
        self.epoch = 0
        self._most = leaves
        self._meet = meet  # told of every name that others give
        self._sees = sees  # whether the carrier reaches exactly the nodes that run
        self._asked: dict[str, Asked] = {}
        self._finds: dict[
            int, tuple[Slot, int]
        ] = {}  # by number: the slot that it is for, and when
        self._number = 0
        self._silent: dict[str, int] = {}  # nodes that did not answer, and until when to spare them
        self._round_at: int | None = None
        self._rounds = 0
        self._rush = 0  # rounds left in which all slots are looked after
        self._digit = 0
        self._turn = 0
        self._table: dict[Slot, str] | None = None  # None: to be found anew
        self._span: tuple[int, int] | None = None  # of the leaves: the first key, and how far
        self._heeded: dict[str, Leaves] = {}  # answers by which nothing changes, if they come again

    # What protocols ask

    def owns(self, key: int) -> bool:
        """Whether this node is in charge of a key: it knows of none that is nearer."""
        return self._owner(key) == self.node

    def _owner(self, key: int) -> str:
        """The nearest node to a key, of this one and those that are leaves or in sight."""
        names = [self.node, *self.leaves[BEFORE], *self.leaves[BEHIND]]
        if self._sees:
            names += self.carrier.reach
        return min(names, key=lambda name: self.circle.rank(key, self._at(name)))

    def hop(self, key: int) -> str | None:
        """The next node towards the one in charge of a key; None: here."""
        owner = self._owner(key)
        if owner == self.node:
            return None
        if self._covers(key):
            return owner
        row = self.circle.shared(self.key, key)
        table = self.table()
        entry = table.get((row, self.circle.digit(key, row)))
        if entry is not None and self._is_there(entry):
            return entry
        rank = self.circle.rank
        nearer = [
            name
            for name in {*self._beside(), *table.values()}
            if self.circle.shared(self._at(name), key) >= row
            and rank(key, self._at(name)) < rank(key, self.key)
            and self._is_there(name)
        ]
        return min(nearer, key=lambda name: rank(key, self._at(name)), default=owner)

    def _covers(self, key: int) -> bool:
        """Whether a key lies among the leaves."""
        if self._span is None:
            self._span = (self.key, self.circle.size)  # all, where it is alone on a side
            if self.leaves[BEFORE] and self.leaves[BEHIND]:
                length = sum(self._far(self.leaves[side][-1], side) for side in SIDES)
                self._span = (self._at(self.leaves[BEFORE][-1]), length)
        first, length = self._span
        return self.circle.distance(first, key) <= length

    def split(self, end: int) -> tuple[Portion, ...]:
        """The arc from this node to an end, divided among the next node and the entries."""
        heads = [
            name for name in self._links() if self.circle.inside(self.key, self._at(name), end)
        ]
        ends = [self._at(head) for head in heads[1:]] + [end]
        return tuple(map(Portion, heads, ends))

    def replicas(self, count: int) -> tuple[str, ...]:
        """Who would take over the keys of this node: the first leaves of both sides."""
        pairs = zip(self.leaves[BEHIND], self.leaves[BEFORE], strict=False)
        return tuple(dict.fromkeys(name for pair in pairs for name in pair))[:count]

    def neighbours(self) -> tuple[str, ...]:
        """The nodes that it keeps."""
        return tuple(dict.fromkeys([*self._beside(), *self.table().values()]))

    def beside(self) -> tuple[str | None, str | None]:
        """The node before this one and the one behind it."""
        before, behind = self.leaves[BEFORE], self.leaves[BEHIND]
        return (before[0] if before else None, behind[0] if behind else None)

    def ideal(self, names: Iterable[str]) -> IdealPastry:
        """What a network of these nodes must look like at rest."""
        return ideal_pastry(frozenset(names), self.circle, self._most)

    def is_settled(self) -> bool:
        """Whether it has found its place, as far as it knows."""
        nearest = [self._nearest(side) for side in SIDES]
        if self.beside() == (None, None):
            return nearest == [None, None]
        pairs = zip(self.beside(), nearest, strict=True)
        return all(leaf is not None and name in (None, leaf) for leaf, name in pairs)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "before": list(self.leaves[BEFORE]),
            "behind": list(self.leaves[BEHIND]),
            "table": {
                f"{row} {digit:x}": name for (row, digit), name in sorted(self.table().items())
            },
        }

    # What happens

    def begin_at_rest(self, ideal: IdealRing, now: int) -> None:
        """Be as in a network at rest."""
        assert isinstance(ideal, IdealPastry)
        self.leaves = {side: ideal.leaves(self.node, side) for side in SIDES}
        self.entries = dict(ideal.table(self.node))
        for name in self.neighbours():
            self._meet(name)
        self._changed()
        self._begin(now)

    def heard(self, now: int, out: list[Action]) -> None:
        """The carrier may have got to know other nodes."""
        self._begin(now)
        self._rush = RUSH
        self._heeded.clear()
        self._look_nearer(now, out)

    def lost(self, names: Iterable[str], now: int, out: list[Action]) -> None:
        """These nodes cannot be reached, or have begun a new life."""
        lost = set(names)
        if not lost:
            return
        for name in lost:
            self._asked.pop(name, None)
        empty = [slot for slot, name in self.entries.items() if name in lost]
        for slot in empty:
            del self.entries[slot]
        before = self.leaves
        self.leaves = {side: [n for n in before[side] if n not in lost] for side in SIDES}
        self._changed()
        for side in SIDES:
            if self.leaves[side][:1] != before[side][:1]:
                self._rush = RUSH
                self._stabilise(side, now, out)
            if self.leaves[side] != before[side]:
                self._tell(side, out)
        for slot in empty:
            self._search(slot, None, now, out)

    def leave(self, out: list[Action]) -> None:
        """Say good-bye to those beside this node."""
        before, behind = self.beside()
        for name in dict.fromkeys((before, behind)):
            if name is not None:
                self._send(name, Parting(before or "", tuple(self.leaves[BEHIND])), out)
        self._round_at = None

    def received(self, source: str, packet: RingPacket, now: int, out: list[Action]) -> None:
        """A packet of the overlay has come."""
        self._begin(now)
        if self._silent.pop(source, None) is not None:
            self._heeded.clear()
        match packet:
            case RingQuery():
                self._send(source, self._own_leaves(), out)
                if any(self._is_nearer(source, side) for side in SIDES):
                    self._ask(source, now, out)
            case Leaves():
                self._answered(source, packet, now, out)
            case Find():
                self._find(packet, now, out)
            case Found():
                self._found(packet, now, out)
            case Parting():
                self._silent[source] = now + PAUSE * self._round
                self.lost([source], now, out)
            case _:
                out.append(Drop("not of this overlay", packet))

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(
            self._round_at, min((one.again for one in self._asked.values()), default=None)
        )

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
            for name in [name for name, until in self._silent.items() if until <= now]:
                del self._silent[name]
                self._heeded.clear()
            for side in SIDES:
                self._stabilise(side, now, out)
            self._look_nearer(now, out)
            self._check_entries(now, out)
            self._look_after_table(now, out)
            self._remember(now, out)

    # Leaves

    @property
    def _round(self) -> int:
        return 2 * self.timing.hello

    def _begin(self, now: int) -> None:
        if self._round_at is None:
            self._round_at = now + self._round

    def _stabilise(self, side: int, now: int, out: list[Action]) -> None:
        """Ask the first leaf of a side what it knows; without one, whoever is nearest there."""
        if self.leaves[side]:
            self._ask(self.leaves[side][0], now, out)
        else:
            self._look_nearer(now, out)

    def _look_nearer(self, now: int, out: list[Action]) -> None:
        """Ask the nearest nodes that were heard of, if they are nearer than the first leaves."""
        for side in SIDES:
            nearest = self._nearest(side)
            if nearest is not None and self._is_nearer(nearest, side):
                self._ask(nearest, now, out)

    def _nearest(self, side: int) -> str | None:
        """The node that was heard of nearest on a side, but for those that are silent."""
        names = [n for n in self.carrier.reach if n != self.node and n not in self._silent]
        return min(names, key=lambda name: self._far(name, side), default=None)

    def _is_nearer(self, name: str, side: int) -> bool:
        """Whether a node would be a better first leaf of a side."""
        if name == self.node:
            return False
        leaves = self.leaves[side]
        return not leaves or self._far(name, side) < self._far(leaves[0], side)

    def _own_leaves(self) -> Leaves:
        return Leaves(tuple(self.leaves[BEFORE]), tuple(self.leaves[BEHIND]))

    def _answered(self, source: str, packet: Leaves, now: int, out: list[Action]) -> None:
        """A node says who is beside it: adopt it where it is the nearest, and ask nearer ones."""
        self._asked.pop(source, None)
        if self._heeded.get(source) == packet:
            return
        epoch = self.epoch
        theirs = {BEFORE: packet.before[: self._most], BEHIND: packet.behind[: self._most]}
        named = [name for side in SIDES for name in theirs[side] if name != self.node]
        for name in named:
            self._meet(name)
        for side in SIDES:
            if self._is_nearer(source, side) or self.leaves[side][:1] == [source]:
                self._adopt(side, source, theirs[side], out)
        for side in SIDES:
            nearest = min(
                filter(self._is_there, named), key=lambda n: self._far(n, side), default=""
            )
            if nearest and self._is_nearer(nearest, side):
                self._ask(nearest, now, out)
        if self.epoch == epoch:
            self._heeded[source] = packet

    def _adopt(self, side: int, first: str, theirs: Iterable[str], out: list[Action]) -> None:
        """Take a node as the first leaf of a side, and its leaves behind it."""
        found = [first]
        for name in theirs:
            if name == self.node or self._far(name, side) <= self._far(found[-1], side):
                break  # once round the circle
            if not self._sees or self._is_there(name):
                found.append(name)
        found = found[: self._most]
        before = self.leaves[side]
        if found != before:
            if found[:1] != before[:1]:
                self._rush = RUSH
            self.leaves[side] = found
            self._changed()
            self._tell(side, out)

    def _tell(self, side: int, out: list[Action]) -> None:
        """The leaves of a side have changed: those of the neighbour on the other side follow."""
        if self.leaves[-side]:
            self._send(self.leaves[-side][0], self._own_leaves(), out)

    def _is_there(self, name: str) -> bool:
        """Whether a node may be spoken to."""
        return name in self.carrier.reach and name not in self._silent

    # The table

    def table(self) -> dict[Slot, str]:
        """The entries, by digits shared and the digit that follows.

        Of the keys among the leaves, only the leaves tell which nodes there are.
        """
        if self._table is None:
            found: dict[Slot, str] = {}
            far = [name for name in self.entries.values() if not self._covers(self._at(name))]
            for name in (*far, *self._beside()):
                if self._at(name) == self.key:  # it shares all digits, so it is in no slot
                    continue
                slot = self._slot(name)
                if slot not in found or self._suits(name, slot) < self._suits(found[slot], slot):
                    found[slot] = name
            self._table = found
        return self._table

    def _slot(self, name: str) -> Slot:
        row = self.circle.shared(self.key, self._at(name))
        return row, self.circle.digit(self._at(name), row)

    def _suits(self, name: str, slot: Slot) -> tuple[int, int]:
        """How far a node is from the mark of a slot."""
        return self.circle.rank(self.circle.mark(self.key, *slot), self._at(name))

    def _rows(self) -> Iterator[int]:
        """The rows of which the leaves do not know everything."""
        if not (self.leaves[BEFORE] and self.leaves[BEHIND]):
            return
        before, behind = (self._far(self.leaves[side][-1], side) for side in SIDES)
        for row in range(self.circle.digits):
            low, high = self.circle.cell(self.key, row)
            if before + behind >= self.circle.size or (
                self.key - low <= before and high - 1 - self.key <= behind
            ):
                return
            yield row

    def _look_after_table(self, now: int, out: list[Action]) -> None:
        """Look for the entries of a column; of all, in a rush."""
        count = 1 << DIGIT_BITS
        self._digit = (self._digit + 1) % count
        digits: Sequence[int] = (self._digit,)
        if self._rush:
            self._rush -= 1
            digits = range(count)
        for row in self._rows():
            own = self.circle.digit(self.key, row)
            for digit in digits:
                if digit != own:
                    self._search((row, digit), None, now, out)

    def _check_entries(self, now: int, out: list[Action]) -> None:
        """Ask the entries by which searches went that were not answered."""
        for number, (slot, since) in list(self._finds.items()):
            if now - since < self._round:
                break
            del self._finds[number]
            entry = self.table().get(slot)
            if entry is not None:
                self._ask(entry, now, out)

    def _consider(self, name: str) -> None:
        """Take a node as an entry if none that is known suits as well."""
        if self._covers(self._at(name)) or not self._is_there(name):
            return  # among the leaves, which know better
        slot = self._slot(name)
        known = self.table().get(slot)
        if known is None or self._suits(name, slot) < self._suits(known, slot):
            self.entries[slot] = name
            self._changed()

    def _remember(self, now: int, out: list[Action]) -> None:
        """Ask the next of the nodes that were ever heard of who is nearest to this one."""
        if self._rounds % 4 != 1:
            return
        names = sorted(self.carrier.reach)
        if names:
            self._turn = (self._turn + 1) % len(names)
            self._search(MERGE, names[self._turn], now, out)

    def _search(self, slot: Slot, first: str | None, now: int, out: list[Action]) -> None:
        """Look for the entry of a slot, perhaps by way of some node."""
        key = self.key if slot == MERGE else self.circle.mark(self.key, *slot)
        self._number += 1
        self._finds[self._number] = slot, now
        while len(self._finds) > MOST_FINDS:
            del self._finds[next(iter(self._finds))]
        find = Find(key, self.node, self._number, 0)
        if first is None:
            self._find(find, now, out)
        else:
            self._send(first, find, out)

    def _find(self, find: Find, now: int, out: list[Action]) -> None:
        """Answer a search, or pass it on towards the key."""
        hop = self.hop(find.key)
        if hop is None or hop == find.origin:
            self._tell_found(find, now, out)
        elif find.hops > 2 * self.circle.bits:
            out.append(Drop("too many hops", find))
        else:
            self._send(hop, Find(find.key, find.origin, find.number, max(find.hops, 0) + 1), out)

    def _tell_found(self, find: Find, now: int, out: list[Action]) -> None:
        """Answer: the nearest to the key that has as many of its digits as were asked for."""
        origin = self._at(find.origin)
        low, high = 0, self.circle.size
        if find.key != origin:
            low, high = self.circle.cell(find.key, self.circle.shared(origin, find.key) + 1)
        names = [self.node, *(name for name in self.beside() if name is not None)]
        names = [n for n in names if n != find.origin and low <= self._at(n) < high]
        best = min(names, key=lambda n: self.circle.rank(find.key, self._at(n)), default="")
        found = Found(find.number, best, find.hops)
        if find.origin == self.node:
            self._found(found, now, out)
        else:
            self._meet(find.origin)
            self._send(find.origin, found, out)

    def _found(self, found: Found, now: int, out: list[Action]) -> None:
        slot, _ = self._finds.pop(found.number, (None, 0))
        name = found.owner
        if slot is None or not name or name == self.node:
            return
        self._meet(name)
        if slot == MERGE:
            if self._is_there(name) and any(self._is_nearer(name, side) for side in SIDES):
                self._ask(name, now, out)
        else:
            self._consider(name)

    # Parts of it all

    def _beside(self) -> list[str]:
        return [*self.leaves[BEFORE], *self.leaves[BEHIND]]

    def _links(self) -> list[str]:
        """The next node and the entries, the nearest first."""
        found = dict.fromkeys([*self.leaves[BEHIND][:1], *self.table().values()])
        return sorted(found, key=lambda name: self._far(name, BEHIND))

    def _ask(self, name: str, now: int, out: list[Action]) -> None:
        if name not in self._asked:
            self._asked[name] = Asked(now, now + self.timing.hello)
            self._send(name, RingQuery(), out)

    def _send(self, name: str, packet: RingPacket, out: list[Action]) -> None:
        self.carrier.send(name, packet, out)

    def _changed(self) -> None:
        self._table = self._span = None
        self._heeded.clear()
        self.epoch += 1

    def _at(self, name: str) -> int:
        return self.circle.key(name)

    def _far(self, name: str, side: int) -> int:
        """How far a node is on a side."""
        at = self._at(name)
        distance = self.circle.distance
        return distance(self.key, at) if side == BEHIND else distance(at, self.key)
