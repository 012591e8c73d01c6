"""What the nodes of an arc want, told to whoever sends events there: the tables of S16.

A node that publishes divides the ring among its fingers (`Substrate.split`), and each of those its
arc again. So a node must know what each portion wants. It *claims* the portion at its head: the
head answers with a table for exactly that arc, which is what it wants itself and what the portions
of its own division want. Those portions are shorter than the arc, so tables follow from each other
without circles, and no interest can live on after its last subscriber (no ghosts).

A table says of which nodes it speaks (their number, and a digest). When the ring changes, a node
claims the new portions, and goes over to them once they speak of all nodes that it knows of; until
then it uses the former ones (make before break).

A claim says in return up to which number the claimant has acted, with all those who claim from it,
and from which publishers events come that way. So a node knows when a subscription is established:
its tables have arrived in the trees of all publishers that it knows of.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple

from tidings.routing.packets import Arc, Cast, Claim, Publication
from tidings.routing.planes.carrier import Carrier
from tidings.routing.planes.interests import join, readable, shortened, wants
from tidings.routing.planes.patience import MOST_PATIENCE
from tidings.routing.planes.topology import digest_of
from tidings.routing.protocol import Action, Timing, earliest
from tidings.routing.structured.substrate import Portion, Substrate

MOST_ARCS = 4_096  # that others may claim here
MOST_TEXTS = 256  # predicates of a table, before they are joined
MOST_CHARACTERS = 131_072  # of a table, likewise
MOST_NODES = 1 << 31  # of which a table or a claim may speak
DIGEST = (1 << 63) - 1  # the bits of a digest

Wanted = tuple[str, ...]  # predicates, sorted


def united(texts: Iterable[str]) -> Wanted:
    """Predicates together, each once; as one predicate, perhaps coarser, where they are many.

    >>> united(["b = 1", "a = 1", "b = 1"])
    ('a = 1', 'b = 1')
    """
    found = tuple(sorted(set(texts)))
    if len(found) > MOST_TEXTS or sum(map(len, found)) > MOST_CHARACTERS:
        return (join(found),)
    return found


def any_wants(texts: Wanted, event: dict[str, Any]) -> bool:
    """Whether an event matches one of these predicates."""
    return any(wants(text, event) for text in texts)


Tries = Callable[[Wanted, dict[str, Any]], bool]


class Group(NamedTuple):
    """Some nodes, as their number and a digest of their names and lives."""

    nodes: int
    digest: int

    def __add__(self, other: object) -> Group:
        assert isinstance(other, tuple)
        return Group(self.nodes + other[0], self.digest ^ other[1])


NOBODY = Group(0, 0)


def told_group(nodes: int, digest: int) -> Group:
    """A group of which another node tells: never so many that a sum could not be written.

    >>> told_group(2**64 - 1, -1) == Group(MOST_NODES, DIGEST)
    True
    """
    return Group(min(max(nodes, 0), MOST_NODES), digest & DIGEST)


def digest_of_node(name: str, life: int) -> int:
    """A digest of a node in a life."""
    return digest_of(f"member {life} {name}")


class Claimant:
    """Whoever claims an arc here."""

    __slots__ = ("at", "held", "number", "settled", "told", "trees", "wait")

    def __init__(self) -> None:
        self.number = 0  # of its newest claim
        self.held = 0  # the number of the table that it has
        self.settled = 0
        self.trees = NOBODY
        self.told = 0  # the number of the table that it was sent
        self.at = 0  # when to send it again
        self.wait = 0


class OwnArc:
    """An arc from this node to an end: how it is divided, and what it wants."""

    __slots__ = (
        "_divisions",
        "_portions",
        "_told",
        "claimants",
        "covers",
        "end",
        "newest",
        "number",
        "texts",
        "used",
    )

    def __init__(self, end: int) -> None:
        self.end = end
        self.used: tuple[Portion, ...] | None = None  # None until its tables have come
        self.newest: tuple[Portion, ...] = ()  # as the ring is now
        self.claimants: dict[str, Claimant] = {}
        self.number = 0
        self.texts: Wanted = ()
        self.covers = NOBODY
        self._divisions: tuple[Any, Any] = ((), ())  # of which the portions are known
        self._portions: frozenset[Portion] = frozenset()
        self._told: tuple[list[Wanted], Wanted] = ([], ())  # the last union, and of what

    def union(self, told: list[Wanted]) -> Wanted:
        """What is wanted by anyone of those who have told: found again only if it differs."""
        if self._told[0] != told:
            self._told = told, united(chain.from_iterable(told))
        return self._told[1]

    def settled(self) -> int:
        """The number up to which all claimants have acted."""
        return min((one.settled for one in self.claimants.values()), default=self.number)

    def portions(self) -> frozenset[Portion]:
        """Those that it uses, and those that it will use."""
        used, newest = self._divisions
        if used is not self.used or newest is not self.newest:
            self._divisions = self.used, self.newest
            self._portions = frozenset(self.used or ()) | frozenset(self.newest)
        return self._portions


class HeldPortion:
    """The table of a portion, as its head has told it."""

    __slots__ = ("acted", "at", "covers", "joined", "number", "recent", "said", "settled", "texts")

    def __init__(self) -> None:
        self.number = 0
        self.texts: Wanted = ()
        self.covers = NOBODY
        self.recent = False  # whether its arcs have yet to take it in
        self.acted: dict[int, int] = {}  # by end: the number of an arc that must settle first
        self.joined: dict[int, int] = {}  # by end: the number of an arc since it holds the portion
        self.settled = 0
        self.said: tuple[int, int, Group] | None = None  # what the head was told last
        self.at = 0  # when to claim again


class Arcs:
    """One node's tables: the arcs that it keeps, and the portions that it holds.

    `lives` gives the lives of all nodes in reach, this one included, where the node knows them.
    """

    def __init__(
        self,
        substrate: Substrate,
        carrier: Carrier,
        timing: Timing,
        lives: Callable[[], dict[str, int]],
    ) -> None:
        self.substrate = substrate
        self.carrier = carrier
        self.timing = timing
        self.node, self.circle = substrate.node, substrate.circle
        self.root = OwnArc(substrate.key)
        self.arcs: dict[int, OwnArc] = {substrate.key: self.root}
        self.held: dict[Portion, HeldPortion] = {}
        self.texts: Wanted = ()  # what this node wants itself
        self._lives = lives
        self._distances: list[int] = []  # of all nodes from this one
        self._digests: list[int] = []  # of the nodes up to each of them
        self._epoch = -1
        self._number = 0  # of claims
        self._tables = 0
        self._refresh_at: int | None = None
        self._retry_at: int | None = None
        self._changed = True  # whether `update` has anything to do
        self.members_changed()

    # What happens

    def want(self, texts: Iterable[str]) -> None:
        """From now on this node wants what matches these predicates."""
        self.texts = united(texts)
        self._changed = True

    def members_changed(self) -> None:
        """Nodes may have come, left or begun a new life."""
        lives = self._lives()
        distance = self.circle.distance
        start = self.substrate.key
        order = sorted((distance(start, self.circle.key(name)), name) for name in lives)
        self._distances = [far for far, _ in order]
        self._digests = [0]
        for _, name in order:
            self._digests.append(self._digests[-1] ^ digest_of_node(name, lives[name]))
        self._changed = True
        self.own = Group(1, digest_of_node(self.node, lives[self.node]))
        self._epoch = -1

    def lost(self, names: Iterable[str]) -> None:
        """These nodes are gone, and what they have told with them."""
        lost = set(names)
        self._changed = True
        self.held = {part: held for part, held in self.held.items() if part.head not in lost}
        for arc in self.arcs.values():
            for name in lost & arc.claimants.keys():
                del arc.claimants[name]

    def claimed(self, source: str, claim: Claim, now: int, out: list[Action]) -> None:
        """Another node claims an arc here, or gives it up."""
        self._changed = True
        arc = self.arcs.get(claim.end)
        if arc is None:
            if not claim.wanted or len(self.arcs) >= MOST_ARCS:
                return
            arc = self.arcs[claim.end] = OwnArc(claim.end)
            arc.newest = self.substrate.split(claim.end)
        known = arc.claimants.get(source)
        if known is not None and claim.number <= known.number:
            return
        if not claim.wanted:
            arc.claimants.pop(source, None)
            return
        if known is None:
            known = arc.claimants[source] = Claimant()
        known.number, known.held = claim.number, claim.held
        known.settled = min(claim.settled, arc.number)
        known.trees = told_group(claim.trees, claim.digest)
        if known.held != arc.number and known.told != arc.number:
            known.at = now

    def told(self, source: str, table: Arc, now: int, out: list[Action]) -> None:
        """The head of a portion says what it wants."""
        self._changed = True
        portion = Portion(source, table.end)
        held = self.held.get(portion)
        if held is None:
            self._claim(portion, None, now, out)
        elif table.number > held.number:
            held.number = table.number
            held.texts = united(map(readable, table.predicates))
            held.covers = told_group(table.nodes, table.digest)
            held.recent = True
        elif table.number == held.number:
            held.said = None  # the head may not have heard it

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(self._refresh_at, self._retry_at)

    def update(self, now: int, out: list[Action]) -> bool:
        """After anything has happened: take it in, and tell others what follows.

        Returns whether there was anything to do.
        """
        due = self.timer()
        late = due is not None and now >= due
        if not (self._changed or late or self._epoch != self.substrate.epoch):
            return False
        self._changed = False
        if self._refresh_at is not None and now >= self._refresh_at:
            self._refresh_at = None
            for held in self.held.values():
                held.said = None
        self._divide()
        for arc in self.arcs.values():
            self._renew(arc)
        around: dict[Portion, list[OwnArc]] = {}  # the arcs of each portion
        for arc in self.arcs.values():
            for portion in arc.portions():
                around.setdefault(portion, []).append(arc)
        for portion, held in self.held.items():
            arcs = around.get(portion, ())
            if held.recent:
                held.recent = False
                held.acted = {arc.end: arc.number for arc in arcs}
            held.joined = {arc.end: held.joined.get(arc.end, arc.number) for arc in arcs}
        self._claim_all(now, out)
        self._tell_all(now, out)
        if self._refresh_at is None and self.held:
            self._refresh_at = now + self.timing.refresh
        return True

    def _divide(self) -> None:
        """Forget arcs that nobody claims, and divide the others as the ring is now."""
        own = self.substrate.key
        self.arcs = {e: arc for e, arc in self.arcs.items() if e == own or arc.claimants}
        if self._epoch != self.substrate.epoch:
            self._epoch = self.substrate.epoch
            for arc in self.arcs.values():
                arc.newest = self.substrate.split(arc.end)

    def _renew(self, arc: OwnArc) -> None:
        """Go over to the newest division if its tables are there, and find what an arc wants."""
        if arc.used != arc.newest and all(self._has(part) for part in arc.newest):
            broken = arc.used is None or not all(self._has(part) for part in arc.used)
            if broken or self._covered(arc.newest) == self.expected(arc.end):
                arc.used = arc.newest
        if arc.used is None:
            return
        told = [held.texts for part in arc.portions() if (held := self.held.get(part))]
        texts = arc.union([self.texts, *told])
        covers = self._covered(arc.used)
        if not arc.number or (texts, covers) != (arc.texts, arc.covers):
            arc.texts, arc.covers = texts, covers
            self._tables += 1  # of all arcs: one that is kept again goes on from there
            arc.number = self._tables

    def _has(self, portion: Portion) -> bool:
        held = self.held.get(portion)
        return held is not None and held.number > 0

    def _covered(self, portions: tuple[Portion, ...]) -> Group:
        """The nodes of which this node and these tables speak."""
        found = self.own
        for portion in portions:
            held = self.held.get(portion)
            if held is not None:
                found += held.covers
        return found

    def expected(self, end: int) -> Group:
        """The nodes of an arc from here, as far as this node knows them."""
        count = bisect_left(self._distances, self.circle.length(self.substrate.key, end))
        return Group(count, self._digests[count])

    # What is said

    def _claim_all(self, now: int, out: list[Action]) -> None:
        """Claim the portions that arcs need, give the others up, and say how far all has got."""
        needed = {part for arc in self.arcs.values() for part in arc.portions()}
        for portion in [part for part in self.held if part not in needed]:
            del self.held[portion]
            self._claim(portion, None, now, out)
        for portion in sorted(needed - self.held.keys()):
            self.held[portion] = HeldPortion()
        self._retry_at = None
        settled = {end: arc.settled() for end, arc in self.arcs.items()}
        trees = self._trees()
        for portion, held in self.held.items():
            if all(settled.get(end, number) >= number for end, number in held.acted.items()):
                held.settled = held.number
            report = (held.number, held.settled, trees.get(portion, NOBODY))
            if held.said != report or (not held.number and now >= held.at):
                held.said = report
                held.at = now + self.timing.retry
                self._claim(portion, held, now, out)
            if not held.number:
                self._retry_at = earliest(self._retry_at, held.at)

    def _claim(
        self, portion: Portion, held: HeldPortion | None, now: int, out: list[Action]
    ) -> None:
        self._number += 1
        wanted = held is not None
        number, settled, trees = (held and held.said) or (0, 0, NOBODY)
        claim = Claim(portion.end, wanted, self._number, number, settled, *trees)
        self.carrier.send(portion.head, claim, out)

    def _trees(self) -> dict[Portion, Group]:
        """By portion: the publishers whose events come there by this node."""
        found: dict[Portion, Group] = {}
        for arc in self.arcs.values():
            reached: dict[int, Group] = {}  # by the number since which it holds a portion
            for portion in arc.used or ():
                number = self.held[portion].joined.get(arc.end, arc.number)
                if number not in reached:
                    reached[number] = self.reached(arc, number)
                found[portion] = found.get(portion, NOBODY) + reached[number]
        return found

    def reached(self, arc: OwnArc, number: int) -> Group:
        """The publishers whose events come for an arc by a table of this number or a newer one."""
        found = self.own if arc is self.root else NOBODY
        for claimant in arc.claimants.values():
            if claimant.settled >= number:
                found += claimant.trees
        return found

    def _tell_all(self, now: int, out: list[Action]) -> None:
        for arc in self.arcs.values():
            if not arc.number:
                continue
            for name, one in arc.claimants.items():
                if one.told != arc.number:
                    one.told, one.wait = arc.number, self.timing.retry
                elif one.held == one.settled == arc.number or now < one.at:
                    if one.settled != arc.number:
                        self._retry_at = earliest(self._retry_at, one.at)
                    continue
                else:
                    one.wait = min(2 * one.wait, MOST_PATIENCE * self.timing.retry)
                one.at = now + one.wait
                self._retry_at = earliest(self._retry_at, one.at)
                self.carrier.send(name, Arc(arc.end, arc.number, arc.texts, *arc.covers), out)

    # Events

    def cast(self, end: int, publication: Publication, out: list[Action]) -> None:
        """Send an event on to the portions of an arc that want it.

        Where an arc is not known, because who sends it has just gone over to another division,
        every portion gets it.
        """
        for portion, wanted in self.choose(end, publication.event):
            if wanted:
                self.carrier.send(portion.head, Cast(portion.end, publication), out)

    def choose(
        self, end: int, event: dict[str, Any], wanted: Tries = any_wants
    ) -> list[tuple[Portion, bool]]:
        """The portions of an arc, and whether each gets an event."""
        arc = self.arcs.get(end)
        if arc is None or arc.used is None:
            return [(portion, True) for portion in self.substrate.split(end)]
        return [
            (portion, (held := self.held.get(portion)) is None or wanted(held.texts, event))
            for portion in arc.used
        ]

    # Subscriptions

    def numbers(self) -> dict[int, int]:
        """The newest table of each arc: what a new subscription waits for."""
        return {end: arc.number for end, arc in self.arcs.items()}

    def established(self, numbers: dict[int, int]) -> bool:
        """Whether these tables have arrived in the trees of all publishers in reach.

        For an arc that was claimed later, it is the first one told.
        """
        trees = NOBODY
        for arc in self.arcs.values():
            number = numbers.setdefault(arc.end, arc.number)  # it may have been claimed since
            if not arc.number or arc.settled() < number:
                return False
            trees += self.reached(arc, number)
        return trees == self.expected(self.substrate.key)

    # How it is

    def is_settled(self) -> bool:
        """Whether all that must be told has been, and the tables speak of all nodes."""
        return (
            all(
                arc.used == arc.newest and arc.settled() == arc.number for arc in self.arcs.values()
            )
            and all(held.number and held.settled == held.number for held in self.held.values())
            and self.root.covers == self.expected(self.substrate.key)
        )

    def figures(self) -> dict[str, int]:
        """Counts for metrics: arcs that others claim here, and tables and predicates held."""
        return {
            "arcs": len(self.arcs),
            "arcs_told": sum(len(arc.claimants) for arc in self.arcs.values()),
            "tables_held": len(self.held),
            "predicates_held": sum(len(held.texts) for held in self.held.values()),
            "tables_changed": self._tables,
        }

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "arcs": len(self.arcs),
            "portions": {
                f"{part.head} {part.end:x}": [held.covers.nodes, shortened(" or ".join(held.texts))]
                for part, held in sorted(self.held.items())
            },
        }
