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
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidings.routing.packets import Branch, Publication, Typed
from tidings.routing.planes.interests import readable, shortened
from tidings.routing.planes.patience import MOST_PATIENCE
from tidings.routing.protocol import SECOND, Action, Drop, Established, InForce, earliest
from tidings.routing.structured.arcs import Wanted, any_wants, united
from tidings.routing.structured.router import Service, StructuredRouter
from tidings.routing.structured.types import DIRECTORY, HermesOptions, placed_in, types_of

MOST_BRANCHES: Final = 65_536  # of a node, in all trees
PUBLISHER: Final = 600 * SECOND
EVENTS: Final = 4_096  # that a node remembers in each tree

Said = tuple[Wanted, bool, bool]  # predicates, publishes, whole


class Twig:
    """This node and another in a tree: what each has told the other, and how far each has got."""

    __slots__ = (
        "acted",
        "answer",
        "at",
        "heard_at",
        "held",
        "is_child",
        "number",
        "publishes",
        "recent",
        "said",
        "settled",
        "their_held",
        "their_settled",
        "theirs",
        "told_at",
        "turn",
        "wait",
        "whole",
    )

    def __init__(self) -> None:
        self.is_child = False  # whether the other has this node as its parent
        self.said: Said | None = None  # what the other was told
        self.number = 0  # of that
        self.their_held = self.their_settled = 0  # of that: what the other has said it has
        self.theirs: Wanted = ()  # what the other wants
        self.publishes = self.whole = False
        self.held = 0  # the number of what the other has told
        self.turn = 0
        self.recent = False
        self.acted: dict[tuple[int, str], int] = {}  # by tree and node: numbers that must settle
        self.settled = 0
        self.answer = (0, 0)  # held and settled, as the other was told last
        self.at = self.wait = 0
        self.heard_at = self.told_at = 0

    def is_quiet(self) -> bool:
        """Whether the other has all that it was told, and has acted on it."""
        return self.their_held == self.their_settled == self.number


class Tree:
    """This node's place in the tree of a type."""

    __slots__ = ("former", "own", "parent", "published_at", "publishes", "seen", "twigs")

    def __init__(self) -> None:
        self.parent: str | None = None  # None: this node is the root
        self.former: dict[str, int] = {}  # parents that it had, and until when it keeps them
        self.twigs: dict[str, Twig] = {}
        self.own: Wanted = ()  # what this node wants in it
        self.published_at: int | None = None  # when someone here last did
        self.publishes = False  # whether someone here or below does
        self.seen: dict[tuple[str, int, int], None] = {}

    def parents(self) -> list[str]:
        """The nodes above: one, and for a while those that were."""
        return [*([self.parent] if self.parent is not None else []), *self.former]

    def is_needed(self) -> bool:
        """Whether this node must be in the tree, even if nobody is below it there."""
        return bool(self.own) or self.published_at is not None

    def first(self, publication: Publication) -> bool:
        """Whether an event has not been in this tree yet; from now on it has."""
        key = publication.source, publication.life, publication.number
        if key in self.seen:
            return False
        if len(self.seen) >= EVENTS:
            del self.seen[next(iter(self.seen))]
        self.seen[key] = None
        return True


class Hermes:
    """One node's part in the trees of all types."""

    def __init__(self, router: StructuredRouter, options: HermesOptions) -> None:
        self.router = router
        self.options = options
        self.node, self.local, self.timing = router.node, router.local, router.timing
        self.trees: dict[int, Tree] = {}
        self._epoch = -1
        self._changed = True
        self._touched: set[int] = set()  # trees of which something has come; with `_changed`, all
        self._turn = 0
        self._numbers = 0
        self._farewells: dict[tuple[int, str], None] = {}
        self._due_at: int | None = None
        self._refresh_at: int | None = None
        self._waiting: dict[str, dict[tuple[int, str], int] | None] = {}
        self.counts = {"climbed": 0, "kept": 0}

    def key_of(self, tree: int) -> int:
        """The key of a type: whoever is in charge of it is the root."""
        return self.router.substrate.circle.key(f"type {tree}")

    # Users

    def subscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been taken, or has another predicate."""
        self._waiting[id] = None
        self._want(now)

    def unsubscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been given up."""
        self._waiting.pop(id, None)
        self._want(now)

    def _want(self, now: int) -> None:
        found: dict[int, list[str]] = {}
        for text in self.local.subscriptions.values():
            for number, part in placed_in(self.options, text).items():
                found.setdefault(number, []).append(part)
        for number in found:
            self._tree(number)
        for number, tree in self.trees.items():
            tree.own = united(found.get(number, ()))
        self._changed = True

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
            self._changed = True
        tree.published_at = now

    def _tree(self, number: int) -> Tree:
        tree = self.trees.get(number)
        if tree is None:
            tree = self.trees[number] = Tree()
            tree.parent = self.router.substrate.hop(self.key_of(number))
            self._changed = True
        return tree

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
        tree = self._tree(number)
        if not tree.first(publication):
            return
        for name, _ in self.chosen(tree, publication.event):
            if name != source:
                self.router.carrier.send(name, Typed(number, publication), out)

    def chosen(self, tree: Tree, event: dict[str, Any]) -> list[tuple[str, str]]:
        """The nodes beside this one in a tree that get an event, and why each."""
        found = []
        parents = tree.parents()
        for name in parents:
            twig = tree.twigs.get(name)
            if twig is None or not (twig.whole and tree.publishes):
                found.append((name, "it climbs to the root of its type"))
                self.counts["climbed"] += 1
            elif any_wants(twig.theirs, event):
                found.append((name, f"above, {shortened(' or '.join(twig.theirs))} is wanted"))
            else:
                self.counts["kept"] += 1
        for name, twig in tree.twigs.items():
            if twig.is_child and name not in parents and any_wants(twig.theirs, event):
                found.append((name, f"below, {shortened(' or '.join(twig.theirs))} is wanted"))
        return found

    # Packets

    def received(self, source: str, packet: Any, now: int, out: list[Action]) -> None:
        """A packet has come from another node."""
        match packet:
            case Typed(number, publication):
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

    def _say_farewell(self, number: int, name: str, out: list[Action]) -> None:
        self._turn += 1
        said = (0, (), False, False, 0, 0)
        self.router.carrier.send(name, Branch(number, self._turn, True, False, *said), out)

    def _heard(self, source: str, packet: Branch, now: int, out: list[Action]) -> None:
        known = self.trees.get(packet.tree)
        twig = None if known is None else known.twigs.get(source)
        if twig is None and not packet.joined:
            return
        if twig is None and not packet.upward:
            self._say_farewell(packet.tree, source, out)
            return
        tree = self._tree(packet.tree)
        if twig is None:
            if sum(len(one.twigs) for one in self.trees.values()) >= MOST_BRANCHES:
                return
            twig = tree.twigs[source] = Twig()
        if packet.turn <= twig.turn:
            return
        self._touched.add(packet.tree)
        twig.turn, twig.heard_at = packet.turn, now
        twig.is_child = packet.upward and packet.joined
        if packet.number > twig.held:
            twig.held = packet.number
            twig.theirs = united(map(readable, packet.predicates)) if packet.joined else ()
            twig.publishes, twig.whole = packet.publishes, packet.whole
            twig.recent = True
        elif (
            twig.answer != (packet.number, packet.number)
            and now - twig.told_at >= self.timing.retry
        ):
            # It has not heard the answer. Two that both wait must not answer each other for ever.
            twig.at = now
        twig.their_held = max(twig.their_held, min(packet.held, twig.number))
        twig.their_settled = max(twig.their_settled, min(packet.settled, twig.number))

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
        late = due is not None and now >= due
        if self._epoch != self.router.substrate.epoch or late:
            self._changed = True
        if not (self._changed or self._touched):
            return
        touched = {n: t for n, t in self.trees.items() if self._changed or n in self._touched}
        self._touched = set()
        refresh = self._refresh_at is not None and now >= self._refresh_at
        if self._changed:
            self._changed = False
            self._due_at = None
            self._climb_on(now)
            touched = self.trees
        for number, name in self._farewells:  # if it gets lost, the other forgets us by its age
            self._say_farewell(number, name, out)
        self._farewells.clear()
        for number, tree in touched.items():
            self._renew(number, tree, now)
        self._take_in(touched)
        for number, tree in touched.items():
            for name, twig in tree.twigs.items():
                self._tell(number, tree, name, twig, refresh, now, out)
        if refresh or self._refresh_at is None:
            self._refresh_at = now + self.timing.refresh
        self._establish(out)

    def _climb_on(self, now: int) -> None:
        """Find the parents anew, where the overlay has changed; forget trees that are not used."""
        moved = self._epoch != self.router.substrate.epoch
        self._epoch = self.router.substrate.epoch
        for number, tree in list(self.trees.items()):
            parent = self.router.substrate.hop(self.key_of(number)) if moved else tree.parent
            if parent != tree.parent:
                before = tree.parent
                tree.parent = parent
                if before is not None:
                    tree.former[before] = now + 2 * self.timing.retry
                if parent is not None:
                    tree.former.pop(parent, None)
            new = tree.twigs.get(tree.parent or "")
            for name, until in list(tree.former.items()):
                if now >= until or (new is not None and new.number and new.is_quiet()):
                    del tree.former[name]
                else:
                    self._due_at = earliest(self._due_at, until)
            published = tree.published_at
            old = published is not None and now - published > self.lease()
            if old and not self._advertises(number):
                tree.published_at = None
            for name in tree.parents():
                if name not in tree.twigs and (tree.twigs or tree.is_needed()):
                    tree.twigs[name] = Twig()
            for name, twig in list(tree.twigs.items()):
                gone = not twig.is_child and name not in tree.parents()
                silent = twig.is_child and now - twig.heard_at > self.timing.age
                if gone or silent:
                    del tree.twigs[name]
                    self._farewells[number, name] = None
            if not tree.twigs and not tree.is_needed() and not tree.seen:
                del self.trees[number]

    def lease(self) -> int:
        """For how long a node counts as a publisher of a type after its last event of it."""
        return max(PUBLISHER, 4 * self.timing.age)

    def _advertises(self, number: int) -> bool:
        texts = self.local.advertisements.values()
        return any(number in placed_in(self.options, text) for text in texts)

    def below(self, number: int, but: str | None) -> Iterable[str]:
        """What this node and those below it want in a tree, but for one of them."""
        tree = self.trees[number]
        parents = tree.parents()
        yield from tree.own
        for name, twig in tree.twigs.items():
            if twig.is_child and name != but and name not in parents:
                yield from twig.theirs

    def _renew(self, number: int, tree: Tree, now: int) -> None:
        """Find what each other node in a tree must be told."""
        parents = tree.parents()
        tree.publishes = tree.published_at is not None or any(
            one.is_child and one.publishes
            for other, one in tree.twigs.items()
            if other not in parents
        )
        for name, twig in tree.twigs.items():
            said: Said = ((), False, False)
            if name in parents:
                said = (united(self.below(number, name)), tree.publishes, False)
            elif twig.is_child and twig.publishes:
                whole = tree.parent is None
                above: Wanted = ()
                if not whole:
                    up = tree.twigs.get(tree.parent or "")
                    whole = up is not None and up.whole and up.held > 0
                    above = up.theirs if up is not None else ()
                said = (united([*self.below(number, name), *above]), False, whole)
            if twig.said != said:
                twig.said = said
                self._numbers += 1
                twig.number = self._numbers
                twig.at, twig.wait = now, 0

    def _take_in(self, touched: Mapping[int, Tree]) -> None:
        """For what has come: the numbers that must settle before it has."""
        for number, tree in touched.items():
            for name, twig in tree.twigs.items():
                if twig.recent:
                    twig.recent = False
                    twig.acted = {
                        (number, other): there.number
                        for other, there in tree.twigs.items()
                        if other != name
                    }

    def has_acted(self, numbers: dict[tuple[int, str], int]) -> bool:
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

    def _tell(
        self,
        number: int,
        tree: Tree,
        name: str,
        twig: Twig,
        refresh: bool,
        now: int,
        out: list[Action],
    ) -> None:
        rooted = tree.parent is not None or self.router.substrate.is_settled()
        if rooted and twig.settled != twig.held and self.has_acted(twig.acted):
            twig.settled = twig.held
        is_up = name in tree.parents()
        answer = (twig.held, twig.settled)
        late = now >= twig.at and (not twig.is_quiet() or twig.at == now)
        if late or answer[1] != twig.answer[1] or (refresh and is_up):
            twig.answer, twig.told_at = answer, now
            twig.wait = min(2 * twig.wait or self.timing.retry, MOST_PATIENCE * self.timing.retry)
            twig.at = now + twig.wait
            self._turn += 1
            predicates, publishes, whole = twig.said or ((), False, False)
            packet = Branch(
                number,
                self._turn,
                is_up,
                True,
                twig.number,
                predicates,
                publishes,
                whole,
                *answer,
            )
            self.router.carrier.send(name, packet, out)
        if not twig.is_quiet() and now < twig.at:
            self._due_at = earliest(self._due_at, twig.at)

    def _establish(self, out: list[Action]) -> None:
        done = []
        for id, numbers in self._waiting.items():
            if numbers is None:
                numbers = self._waiting[id] = {
                    (number, name): twig.number
                    for number in placed_in(self.options, self.local.subscriptions[id])
                    for name, twig in self.trees[number].twigs.items()
                }
            if self.router.substrate.is_settled() and self.has_acted(numbers):
                done.append(id)
        for id in done:
            del self._waiting[id]
        if done:
            out.append(Established(tuple(done)))

    # How it is

    def is_settled(self) -> bool:
        """Whether all that must be told has been."""
        return not self._waiting and all(
            twig.is_quiet() and twig.settled == twig.held and not tree.former
            for tree in self.trees.values()
            for twig in tree.twigs.values()
        )

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "trees": {
                number: {
                    "parent": tree.parent,
                    "below": {
                        name: shortened(" or ".join(twig.theirs))
                        for name, twig in sorted(tree.twigs.items())
                        if twig.is_child
                    },
                }
                for number, tree in sorted(self.trees.items())
            },
            "counts": dict(self.counts),
        }

    def explain(self, source: str, event: dict[str, Any]) -> dict[str, str]:
        """The nodes to which an event of this source would be sent from here, and why each."""
        found: dict[str, str] = {}
        before = dict(self.counts)
        for number in (*types_of(self.options, event), DIRECTORY):
            found.update(dict(self.chosen(self._tree(number), event)))
        self.counts = before
        return found


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

    def make_service(self, options: Any) -> Service:
        """What routes by content."""
        return self.hermes_of(self, options or HermesOptions())
