"""Hermes (S15): a tree for each type of events, with its root at the node in charge of the type.

A subscription goes up the trees of the types that it names, and an event up the trees of its own
types and down to where it is wanted. Each tree is a network without cycles, and carries predicates
both ways: up from subscribers, and down to nodes with publishers, so that an event that nobody else
wants never leaves its node. What is said between two nodes is numbered, whole each time, and
answered twice: when it has arrived, and when all behind have acted on it. So a node knows when a
subscription is established.

A predicate that names no type lies in one more tree, the *directory*. Every event goes there, too,
whatever its types. The directory is a tree as the others are: it carries predicates down to
publishers, so an event leaves its node only for those who lie there and want it.

Nodes learn of a change of the overlay at different moments. So a node keeps its former parent for a
while beside the new one (`linger`, make before break). For as long after nodes have come or gone a
new subscription does not count as established, nor a node that has come as reached
(`HermesRouter.hops`). The state of a root is in the nodes below it: they tell it to the next root.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from tidings.routing.packets import Branch, Publication, Typed
from tidings.routing.planes.interests import readable, shortened
from tidings.routing.planes.patience import MOST_PATIENCE
from tidings.routing.protocol import (
    SECOND,
    Action,
    Drop,
    Established,
    InForce,
    Timing,
    earliest,
)
from tidings.routing.structured.arcs import Tries, Wanted, any_wants, united
from tidings.routing.structured.router import Service, StructuredRouter
from tidings.routing.structured.types import DIRECTORY, HermesOptions, placed_in, types_of

MOST_BRANCHES: Final = 65_536  # of a node, in all trees
PUBLISHER: Final = 600 * SECOND
EVENTS: Final = 65_536  # that a node remembers, with the trees in which they came

CLIMBS: Final = "climbs"  # why an event is sent: up, because not all that is wanted is known here
ABOVE: Final = "above"  # because somebody wants it there
BELOW: Final = "below"

Place = tuple[int, str]  # a tree, and a node beside this one in it


def linger(timing: Timing) -> int:
    """How long a former parent stays in use: by then all nodes have found their new ones."""
    return 2 * timing.hold_most + 8 * timing.hello


class Said(NamedTuple):
    """What a node tells another in a tree."""

    upward: bool
    predicates: Wanted
    publishes: bool = False
    whole: bool = False


class NextNode(NamedTuple):
    """A node beside this one in a tree, and why it gets an event: None if it does not."""

    name: str
    why: str | None
    texts: Wanted = ()  # what is wanted there

    def explained(self) -> str:
        """The same in words."""
        if self.why == CLIMBS:
            return "it climbs to the root of its type"
        return f"{self.why}, {shortened(' or '.join(self.texts))} is wanted"


class Awaited(NamedTuple):
    """What a subscription waits for, until it is established."""

    until: int  # by then all nodes have found their parents since nodes last came or went
    numbers: dict[Place, int]  # that must settle


class Twig:
    """This node and another in a tree: what each has told the other, and how far each has got."""

    __slots__ = (
        "acted",
        "answered",
        "at",
        "heard_at",
        "held",
        "is_asked",
        "is_child",
        "is_recent",
        "number",
        "publishes",
        "said",
        "settled",
        "their_held",
        "their_settled",
        "theirs",
        "turn",
        "united",
        "wait",
        "whole",
    )

    def __init__(self) -> None:
        # What this node tells
        self.said: Said | None = None
        self.number = 0  # of that
        self.their_held = self.their_settled = 0  # of that: what the other has said it has
        self.at = self.wait = 0  # when to say it again, and after how long once more
        self.united: tuple[list[Wanted], Wanted] | None = None  # the last union, and of what
        # What the other tells
        self.is_child = False  # whether it has this node as its parent
        self.theirs: Wanted = ()  # what it wants
        self.publishes = self.whole = False
        self.turn = self.held = 0  # the numbers of the newest packet, and of what it told
        self.heard_at = 0
        self.is_recent = False  # whether this node has yet to take it in
        self.acted: dict[Place, int] = {}  # what must settle before it has
        self.settled = 0
        self.is_asked = False  # whether the other waits for an answer
        self.answered = 0  # the number up to which the other was told that all is settled

    def union(self, parts: list[Wanted]) -> Wanted:
        """The union of what others want, for the other node: found again only if it differs."""
        if self.united is None or self.united[0] != parts:
            self.united = parts, united(chain.from_iterable(parts))
        return self.united[1]

    def is_quiet(self) -> bool:
        """Whether the other has all that it was told, and has acted on it."""
        return self.their_held == self.their_settled == self.number


class Tree:
    """This node's place in the tree of a type."""

    __slots__ = ("counts", "former", "own", "parent", "published_at", "publishes", "twigs")

    def __init__(self, parent: str | None) -> None:
        self.parent = parent  # None: this node is the root
        self.former: dict[str, int] = {}  # parents that it had, and until when it keeps them
        self.twigs: dict[str, Twig] = {}
        self.counts: dict[str, int] = {}  # by predicate: the subscriptions here that lie in it
        self.own: Wanted = ()  # what this node wants in it
        self.published_at: int | None = None  # when someone here last did
        self.publishes = False  # whether someone here or below does

    def count(self, text: str, more: int) -> None:
        """Note that one more subscription here wants something in it, or one fewer."""
        left = self.counts.pop(text, 0) + more
        if left:
            self.counts[text] = left

    def parents(self) -> list[str]:
        """The nodes above: one, and for a while those that were."""
        return [*([self.parent] if self.parent is not None else []), *self.former]

    def children(self) -> list[tuple[str, Twig]]:
        """The nodes below. One of them may have been above, and be kept as such for a while."""
        return [(name, twig) for name, twig in self.twigs.items() if twig.is_child]

    def is_needed(self) -> bool:
        """Whether this node must be in the tree, even if nobody is below it there."""
        return bool(self.own) or self.published_at is not None


class Hermes:
    """One node's part in the trees of all types."""

    def __init__(self, router: StructuredRouter, options: HermesOptions) -> None:
        self.router = router
        self.options = options
        self.node, self.local, self.timing = router.node, router.local, router.timing
        self.trees: dict[int, Tree] = {}
        self.known: dict[str, None] = {}  # other nodes that have been there for a while
        self.counts = {"climbed": 0, "sent": 0, "kept": 0}
        self._linger = linger(router.timing)
        self._since: dict[str, tuple[int, int]] = {}  # by node: its life, and since when
        self._moved_at: int | None = None  # when nodes last came or went
        self._seen: dict[tuple[int, str, int, int], None] = {}  # trees and events
        self._epoch = -1
        self._changed = True
        self._touched: set[int] = set()  # trees of which something has come; with `_changed`, all
        self._turn = 0
        self._numbers = 0
        self._due_at: int | None = None
        self._refresh_at: int | None = None
        self._waiting: dict[str, Awaited] = {}  # by subscription that is not established
        self._placed: dict[str, Mapping[int, str]] = {}  # by subscription: what lies in which tree
        self._branches = 0  # no fewer than there are, in all trees

    def key_of(self, tree: int) -> int:
        """The key of a type: whoever is in charge of it is the root."""
        return self.router.substrate.circle.key(f"type {tree}")

    # Users

    def subscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been taken, or has another predicate."""
        moved = now if self._moved_at is None else self._moved_at + self._linger
        self._waiting[id] = Awaited(moved, {})
        self._want(id, placed_in(self.options, self.local.subscriptions[id]))

    def unsubscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been given up."""
        self._waiting.pop(id, None)
        self._want(id, {})

    def _want(self, id: str, parts: Mapping[int, str]) -> None:
        """From now on these parts of a subscription lie in their trees, and no others of it."""
        before = self._placed.pop(id, {})
        if parts:
            self._placed[id] = parts
        for number, text in parts.items():
            self._tree(number).count(text, 1)
        for number, text in before.items():
            self._tree(number).count(text, -1)
        for number in {*before, *parts}:
            tree = self._tree(number)
            tree.own = united(tree.counts)
            self._touched.add(number)

    def advertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been taken: nodes with publishers hear what others want."""
        for number in {*placed_in(self.options, self.local.advertisements[id]), DIRECTORY}:
            self._publishes(number, now)
        out.append(InForce((id,)))  # until they have heard it, events climb to the root

    def unadvertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been given up: its trees go when nobody has published for long."""

    def _publishes(self, number: int, now: int) -> None:
        tree = self._tree(number)
        if tree.published_at is None:
            self._touched.add(number)
        tree.published_at = now

    def _tree(self, number: int) -> Tree:
        tree = self.trees.get(number)
        if tree is None:
            tree = self.trees[number] = Tree(self._hop(number))
            self._touched.add(number)
        return tree

    def _hop(self, number: int) -> str | None:
        return self.router.substrate.hop(self.key_of(number))

    # Events

    def publish(self, publication: Publication, now: int, out: list[Action]) -> None:
        """Someone here publishes."""
        for number in (*types_of(self.options, publication.event), DIRECTORY):
            self._publishes(number, now)
            self._pass_on(number, publication, None, out)

    def _pass_on(
        self, number: int, publication: Publication, source: str | None, out: list[Action]
    ) -> None:
        """Send an event up and down a tree, from where it came on."""
        key = number, publication.source, publication.life, publication.number
        if key in self._seen:
            return
        if len(self._seen) >= EVENTS:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        for name, why, _ in self.chosen(number, publication.event):
            self.counts["kept" if why is None else "climbed" if why == CLIMBS else "sent"] += 1
            if why is not None and name != source:
                self.router.carrier.send(name, Typed(number, publication), out)

    def chosen(
        self, number: int, event: dict[str, Any], wanted: Tries = any_wants
    ) -> list[NextNode]:
        """The nodes beside this one in a tree, and why each gets an event."""
        found: list[NextNode] = []
        tree = self.trees.get(number) or Tree(self._hop(number))
        parents = tree.parents()
        for name in parents:
            twig = tree.twigs.get(name)
            if twig is not None and twig.whole and tree.publishes:
                why = ABOVE if wanted(twig.theirs, event) else None
                found.append(NextNode(name, why, twig.theirs))
            else:
                found.append(NextNode(name, CLIMBS))
        for name, twig in tree.children():
            if name not in parents and wanted(twig.theirs, event):
                found.append(NextNode(name, BELOW, twig.theirs))
        return found

    # Packets

    def received(self, source: str, packet: Any, now: int, out: list[Action]) -> None:
        """A packet has come from another node."""
        match packet:
            case Typed(number, publication):
                # What this node published has left it already: it is an echo, or made up, and then
                # it would take the number of an event to come.
                own = publication.source == self.router.node
                if own and publication.life == self.router.life:
                    return
                if self._is_tree(number):
                    self.router.deliver(publication, now, out)
                    self._pass_on(number, publication, source, out)
            case Branch():
                if self._is_tree(packet.tree):
                    self._heard(source, packet, now, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _is_tree(self, number: int) -> bool:
        return DIRECTORY <= number <= self.options.trees

    def _heard(self, source: str, packet: Branch, now: int, out: list[Action]) -> None:
        known = self.trees.get(packet.tree)
        twig = None if known is None else known.twigs.get(source)
        if twig is None:
            if not packet.joined:
                return
            if not packet.upward or not packet.number:  # or it leaves out what it once told
                self._say_farewell(packet.tree, source, out)
                return
            if self._branches >= MOST_BRANCHES:
                out.append(Drop("too many branches", packet))
                return
            twig = self._tree(packet.tree).twigs[source] = Twig()
            self._branches += 1
        if packet.turn <= twig.turn:
            return
        self._touched.add(packet.tree)
        twig.turn, twig.heard_at = packet.turn, now
        twig.is_child = packet.upward and packet.joined
        twig.is_asked |= packet.asks
        if packet.number > twig.held:
            twig.held = packet.number
            twig.theirs = united(map(readable, packet.predicates))
            twig.publishes, twig.whole = packet.publishes, packet.whole
            twig.is_recent = True
        # How far the other has got: perhaps less far than before, if it has forgotten.
        twig.their_held = min(packet.held, twig.number)
        twig.their_settled = min(packet.settled, twig.number)

    def _say_farewell(self, number: int, name: str, out: list[Action]) -> None:
        """Tell a node that it is not beside this one; if it gets lost, age does the same."""
        self._turn += 1
        nothing = (0, (), False, False, 0, 0, False)
        self.router.carrier.send(name, Branch(number, self._turn, True, False, *nothing), out)

    def members_changed(self, lost: list[str]) -> None:
        """Nodes have come or gone."""
        self._changed = True
        self._epoch = -1
        for tree in self.trees.values():
            for name in lost:
                tree.twigs.pop(name, None)
                tree.former.pop(name, None)
                if tree.parent == name:
                    tree.parent = None

    # What follows

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(self._due_at, self._refresh_at)

    def update(self, now: int, out: list[Action]) -> None:
        """After anything has happened: do what follows, and what is due."""
        due = self.timer()
        if (due is not None and now >= due) or self._epoch != self.router.substrate.epoch:
            self._changed = True
        if not (self._changed or self._touched):
            return
        refresh = self._refresh_at is not None and now >= self._refresh_at
        if refresh or self._refresh_at is None:
            self._refresh_at = now + self.timing.refresh
        if self._changed:
            self._due_at = None
            self._meet(now)
            self._climb_on(now)
            self._branches = sum(len(tree.twigs) for tree in self.trees.values())
        numbers = list(self.trees if self._changed else self._touched)
        self._changed, self._touched = False, set()
        for number in numbers:
            self._renew(number, self.trees[number], now, out)
        for number in numbers:
            tree = self.trees[number]
            for name, twig in tree.twigs.items():
                self._settle(tree, twig)
                self._tell(number, name, twig, refresh, now, out)
            if not tree.twigs and not tree.is_needed():
                del self.trees[number]
        self._establish(now, out)

    def _meet(self, now: int) -> None:
        """Note who has come and gone, and when."""
        lives = {name: life for name, life in self.router.lives.items() if name != self.node}
        if lives != {name: life for name, (life, _) in self._since.items()}:
            self._moved_at = now
            before = self._since
            self._since = {
                name: before[name] if before.get(name, (0, 0))[0] == life else (life, now)
                for name, life in lives.items()
            }
        self.known = {}
        for name, (_, since) in self._since.items():
            if now >= since + self._linger:
                self.known[name] = None
            else:
                self._wake_at(since + self._linger)

    def _wake_at(self, when: int) -> None:
        self._due_at = earliest(self._due_at, when)

    def _climb_on(self, now: int) -> None:
        """Find the parents anew, where the overlay has changed, and keep former ones for long."""
        moved = self._epoch != self.router.substrate.epoch
        self._epoch = self.router.substrate.epoch
        for number, tree in self.trees.items():
            before, tree.parent = tree.parent, self._hop(number) if moved else tree.parent
            if before is not None and before != tree.parent:
                tree.former[before] = now + self._linger
            tree.former.pop(tree.parent or "", None)
            for name, end in list(tree.former.items()):
                if now >= end:
                    del tree.former[name]
                else:
                    self._wake_at(end)
            published = tree.published_at
            old = published is not None and now - published > self._lease()
            if old and not self._advertises(number):
                tree.published_at = None

    def _lease(self) -> int:
        """For how long a node counts as a publisher of a type after its last event of it."""
        return max(PUBLISHER, 4 * self.timing.age)

    def _advertises(self, number: int) -> bool:
        texts = self.local.advertisements.values()
        return any(number in placed_in(self.options, text) for text in texts)

    def _renew(self, number: int, tree: Tree, now: int, out: list[Action]) -> None:
        """Find who is beside this node in a tree, and what each must be told."""
        parents = tree.parents()
        for name, twig in list(tree.twigs.items()):
            if twig.is_child and now - twig.heard_at > self.timing.age:
                twig.is_child = False
            if not twig.is_child and name not in parents:
                del tree.twigs[name]
                self._say_farewell(number, name, out)
        children = tree.children()
        tree.publishes = tree.published_at is not None or any(one.publishes for _, one in children)
        for name in parents:
            if children or tree.is_needed():
                tree.twigs.setdefault(name, Twig())
            elif name in tree.twigs and not tree.twigs[name].is_child:
                del tree.twigs[name]
                self._say_farewell(number, name, out)
        above = [tree.twigs.get(name) for name in parents]
        whole = all(up is not None and up.whole for up in above)
        for name, twig in tree.twigs.items():
            if name in parents:
                said = Said(True, twig.union(self.below(tree, name)), tree.publishes)
            elif twig.publishes:
                others = [up.theirs for up in above if up is not None]
                said = Said(False, twig.union([*self.below(tree, name), *others]), whole=whole)
            else:
                said = Said(False, ())
            if twig.said != said:
                twig.said = said
                self._numbers += 1
                twig.number = self._numbers
                twig.at, twig.wait = now, 0
        for name, twig in tree.twigs.items():
            if twig.is_recent:
                twig.is_recent = False
                twig.acted = {
                    (number, other): there.number
                    for other, there in tree.twigs.items()
                    if other != name
                }

    def below(self, tree: Tree, but: str) -> list[Wanted]:
        """What this node and those below it want in a tree, but for one of them."""
        children = tree.children()
        return [tree.own, *(twig.theirs for name, twig in children if name != but)]

    def has_acted(self, numbers: Mapping[Place, int]) -> bool:
        """Whether others have settled up to these numbers.

        Only those count that send events here: the nodes above, and those below with publishers.
        Who is gone, or beside this node no more, counts as settled, so that nodes do not wait for
        each other in a circle.
        """
        for (number, name), wanted in numbers.items():
            tree = self.trees.get(number)
            twig = None if tree is None else tree.twigs.get(name)
            if tree is None or twig is None or twig.their_settled >= wanted:
                continue
            if name in tree.parents() or (twig.is_child and twig.publishes):
                return False
        return True

    def _settle(self, tree: Tree, twig: Twig) -> None:
        """Note whether all that followed from what the other has told has settled."""
        if twig.settled == twig.held:
            return
        if tree.parent is None and not self.router.substrate.is_settled():
            return  # it is the root because it knows too little
        if self.has_acted(twig.acted):
            twig.settled = twig.held

    def _tell(
        self, number: int, name: str, twig: Twig, refresh: bool, now: int, out: list[Action]
    ) -> None:
        """Say what the other must hear: something new, something again, or how far all is."""
        said = twig.said
        assert said is not None
        asks = not twig.is_quiet() and now >= twig.at
        if asks:
            twig.wait = min(2 * twig.wait or self.timing.retry, MOST_PATIENCE * self.timing.retry)
            twig.at = now + twig.wait
        news = twig.is_asked or twig.answered != twig.settled
        if asks or news or (refresh and said.upward):
            twig.is_asked, twig.answered = False, twig.settled
            self._turn += 1
            # Who has the table already hears no more than that all is as it was.
            table = (0, ()) if twig.their_held == twig.number else (twig.number, said.predicates)
            what = (*table, said.publishes, said.whole)
            so_far = (twig.held, twig.settled, asks)
            packet = Branch(number, self._turn, said.upward, True, *what, *so_far)
            self.router.carrier.send(name, packet, out)
        if not twig.is_quiet():
            self._wake_at(twig.at)

    def _establish(self, now: int, out: list[Action]) -> None:
        """Say which subscriptions are established: in all their trees, by all who are there."""
        if not self._waiting or not self.router.substrate.is_settled():
            return
        done = []
        for id, (until, numbers) in self._waiting.items():
            for number in placed_in(self.options, self.local.subscriptions[id]):
                for name, twig in self.trees[number].twigs.items():
                    numbers.setdefault((number, name), twig.number)
            if now < until:
                self._wake_at(until)
            elif self.has_acted(numbers):
                done.append(id)
        for id in done:
            del self._waiting[id]
        if done:
            out.append(Established(tuple(done)))

    # How it is

    def is_settled(self) -> bool:
        """Whether all that must be told has been."""
        counted = self.known.keys() == self._since.keys()
        return (
            counted
            and not self._waiting
            and all(
                twig.is_quiet() and twig.settled == twig.held and not tree.former
                for tree in self.trees.values()
                for twig in tree.twigs.values()
            )
        )

    def figures(self) -> dict[str, int]:
        """Counts for metrics."""
        children = [twig for tree in self.trees.values() for _, twig in tree.children()]
        return {
            "trees": len(self.trees),
            "trees_rooted": sum(tree.parent is None for tree in self.trees.values()),
            "branches_below": len(children),
            "predicates_held": sum(len(twig.theirs) for twig in children),
            "events_climbed": self.counts["climbed"],
            "events_sent": self.counts["sent"],
            "events_kept": self.counts["kept"],
        }

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "trees": {
                number: {
                    "parent": tree.parent,
                    "below": {
                        name: shortened(" or ".join(twig.theirs))
                        for name, twig in sorted(tree.children())
                    },
                }
                for number, tree in sorted(self.trees.items())
            },
            "counts": dict(self.counts),
        }

    def explain(self, source: str, event: dict[str, Any]) -> dict[str, str]:
        """The nodes to which an event of this source would be sent from here, and why each."""
        return {
            choice.name: choice.explained()
            for number in (*types_of(self.options, event), DIRECTORY)
            if source == self.node or number in self.trees
            for choice in self.chosen(number, event)
            if choice.why is not None
        }


class HermesRouter(StructuredRouter):
    """A node of a network with a tree for each type.

    >>> from tidings.routing.protocol import Publish, Subscribe
    >>> node = HermesRouter("a")
    >>> node.handle(Subscribe("ada", "class = 'alert' or severity > 2"), 0)
    [Established(subscriptions=('ada',))]
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    hermes_of: type[Hermes] = Hermes

    service: Hermes

    def make_service(self, options: Any) -> Service:
        """What routes by content."""
        return self.hermes_of(self, options or HermesOptions())

    @property
    def hops(self) -> dict[str, str]:
        """The neighbour that leads to each node that has been there for a while (`linger`)."""
        known = self.service.known
        return {name: hop for name, hop in self.plane.routes.hop.items() if name in known}
