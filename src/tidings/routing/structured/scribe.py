"""Scribe: a multicast group for each key, with its tree rooted at the node in charge of the key.

Who wants to be in a group *grafts* itself on the next node towards its key, and that node on the
next: the tree is made of the reverse of these paths. An event is sent up to the root by the
overlay, and from there down the tree. No node but the owner of the key does anything special, and
the tree repairs itself as the overlay does: when the next node towards the key is another one, be
it that the former has died or that a new root has come, a node grafts itself there, and leaves the
former parent once the new one has answered.

A graft is answered with whether the parent is *attached*, and answered again when it has become
so. The root is attached once it has found its place; whoever has an attached parent is, too. So a
node knows when its subscriptions are established. Grafts are soft state: they are said again at
every refresh, and forgotten when they are old.

Groups carry whole types of events, as topics do: the value of one attribute names the group (as
with Hermes, `types`), a subscription that names no type is in one more group, the *directory*, and
every event goes there, too. What an event matches is found by the members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Final

from msgspec import Meta

from tidings.routing.packets import Graft, Grafted, Grouped, Publication
from tidings.routing.planes.once import Once
from tidings.routing.planes.patience import MOST_PATIENCE
from tidings.routing.protocol import Action, Drop, Established, InForce, earliest
from tidings.routing.structured.router import Service, StructuredRouter
from tidings.routing.structured.substrates import SubstrateOptions
from tidings.routing.structured.types import DIRECTORY, HermesOptions, placed_in, types_of

MOST_CHILDREN: Final = 65_536  # of a node, in all groups
MOST_CLIMB: Final = 128  # hops up: paths are shorter, so beyond that it goes in circles


class ScribeOptions(SubstrateOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How groups are found, and on which overlay they stand."""

    type: Annotated[str, Meta(min_length=1, max_length=256)] = "class"  # the attribute
    groups: Annotated[int, Meta(ge=1, le=65_536)] = 1_024  # at most: types beyond share them

    def types(self) -> HermesOptions:
        """The same, for the arithmetic of types."""
        return HermesOptions(self.type, self.groups)


class Child:
    """A node below this one in the tree of a group."""

    __slots__ = ("attached", "heard_at", "number")

    def __init__(self) -> None:
        self.number = 0  # of what it has said last
        self.heard_at = 0
        self.attached: bool | None = None  # what it was told of this node


class GroupTree:
    """This node's place in the tree of a group."""

    __slots__ = (
        "acknowledged",
        "again_at",
        "children",
        "former",
        "number",
        "own",
        "parent",
        "wait",
    )

    def __init__(self) -> None:
        self.own = False  # whether somebody here is a member
        self.children: dict[str, Child] = {}
        self.parent: str | None = None  # None: this node is the root
        self.former: set[str] = set()  # parents that it has yet to leave
        self.number = 0  # of what the parent was told last; 0: nothing
        self.acknowledged: bool | None = None  # whether the parent is attached; None: no answer
        self.again_at = self.wait = 0

    def is_needed(self) -> bool:
        """Whether this node must be in the tree."""
        return self.own or bool(self.children)


class Scribe:
    """One node's part in the trees of all groups."""

    def __init__(self, router: StructuredRouter, options: ScribeOptions) -> None:
        self.router = router
        self.options = options
        self.types = options.types()
        self.local, self.timing = router.local, router.timing
        self.groups: dict[int, GroupTree] = {}
        self.seen: dict[int, Once] = {}  # by group: the events that went down
        self._epoch = -1
        self._number = 0
        self._due_at: int | None = None
        self._refresh_at: int | None = None
        self._changed = True
        self._is_unrooted = False  # whether it is a root that has yet to find its place
        self._waiting: set[str] = set()
        self._groups_of: dict[str, set[int]] = {}  # by subscription
        self._members: Counter[int] = Counter()  # by group: the subscriptions here that are in it
        self.counts = {"climbed": 0, "copies": 0}

    def key_of(self, number: int) -> int:
        """The key of a group: whoever is in charge of it is the root."""
        return self.router.substrate.circle.key(f"group {number}")

    # Users

    def subscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been taken, or has another predicate."""
        self._waiting.add(id)
        self._join(id, set(placed_in(self.types, self.local.subscriptions[id])))

    def unsubscribed(self, id: str, now: int, out: list[Action]) -> None:
        """A subscription has been given up."""
        self._waiting.discard(id)
        self._join(id, set())

    def _join(self, id: str, numbers: set[int]) -> None:
        """Be in the groups of a subscription, and in no others for its sake."""
        before = self._groups_of.pop(id, set())
        if numbers:
            self._groups_of[id] = numbers
        for number in numbers:
            self._members[number] += 1
        for number in before:
            self._members[number] -= 1
        for number in numbers | before:
            if number in numbers or number in self.groups:
                self._group(number).own = self._members[number] > 0
            if not self._members[number]:
                del self._members[number]
        self._changed = True

    def _group(self, number: int) -> GroupTree:
        group = self.groups.get(number)
        if group is None:
            group = self.groups[number] = GroupTree()
            group.parent = self.router.substrate.hop(self.key_of(number))
        return group

    def advertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been taken: what is published needs none."""
        out.append(InForce((id,)))

    def unadvertised(self, id: str, now: int, out: list[Action]) -> None:
        """An advertisement has been given up."""

    # Events

    def publish(self, publication: Publication, now: int, out: list[Action]) -> None:
        """Someone here publishes."""
        for number in self.groups_of(publication.event):
            self._climb(number, publication, 0, out)

    def groups_of(self, event: dict[str, Any]) -> tuple[int, ...]:
        """The groups to which an event goes."""
        return (*types_of(self.types, event), DIRECTORY)

    def _climb(self, number: int, publication: Publication, hops: int, out: list[Action]) -> None:
        """Send an event on towards the root of a group; the root sends it down."""
        hop = self.router.substrate.hop(self.key_of(number))
        packet = Grouped(number, False, hops + 1, publication)
        if hop is None:
            self._descend(number, publication, None, out)
        elif hops >= MOST_CLIMB:
            out.append(Drop("too many hops", packet))
        else:
            self.counts["climbed"] += 1
            self.router.carrier.send(hop, packet, out)

    def _descend(
        self, number: int, publication: Publication, source: str | None, out: list[Action]
    ) -> None:
        """Send an event down the tree of a group, once."""
        group = self.groups.get(number)
        if group is None or not self.seen.setdefault(number, Once()).first(publication):
            return
        for name in group.children:
            if name != source:
                self.counts["copies"] += 1
                self.router.carrier.send(name, Grouped(number, True, 0, publication), out)

    # Packets

    def received(self, source: str, packet: Any, now: int, out: list[Action]) -> None:
        """A packet has come from another node."""
        match packet:
            case Graft() | Grafted() | Grouped() if not (
                DIRECTORY <= packet.group <= self.options.groups
            ):
                out.append(Drop("of no group", packet))
            case Graft():
                self._grafted_here(source, packet, now, out)
            case Grafted():
                self._answered(source, packet, out)
            case Grouped(number, down, hops, publication):
                self.router.deliver(publication, now, out)
                if down:
                    self._descend(number, publication, source, out)
                else:
                    self._climb(number, publication, max(hops, 0), out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _grafted_here(self, source: str, packet: Graft, now: int, out: list[Action]) -> None:
        """A node says that it is below this one in the tree of a group, or no longer."""
        group = self.groups.get(packet.group)
        child = None if group is None else group.children.get(source)
        if child is not None and packet.number <= child.number:
            return
        if not packet.joined:
            if group is not None:
                group.children.pop(source, None)
            self._changed = True
            return
        if child is None:
            if sum(len(one.children) for one in self.groups.values()) >= MOST_CHILDREN:
                out.append(Drop("too many children", packet))
                return
            group = self._group(packet.group)
            child = group.children[source] = Child()
        child.number, child.heard_at = packet.number, now
        child.attached = None  # it waits for an answer
        self._changed = True

    def _answered(self, source: str, packet: Grafted, out: list[Action]) -> None:
        """Another node has this one as its child."""
        group = self.groups.get(packet.group)
        if group is None or (source != group.parent and source not in group.former):
            self._say_leave(packet.group, source, out)  # a late graft has made it think so
        elif source == group.parent and packet.number == group.number:
            group.acknowledged = packet.attached
            self._changed = True

    def members_changed(self, lost: list[str]) -> None:
        """Nodes have come or gone."""
        self._changed = True
        self._epoch = -1
        for group in self.groups.values():
            group.former.difference_update(lost)
            for name in lost:
                group.children.pop(name, None)
            if group.parent in lost:  # in a new life it knows nothing
                group.parent = None
                group.number = 0

    # What follows

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(self._due_at, self._refresh_at)

    def update(self, now: int, out: list[Action]) -> None:
        """After anything has happened: do what follows, and what is due."""
        due = self.timer()
        moved = self._epoch != self.router.substrate.epoch
        late = due is not None and now >= due
        if not (self._changed or moved or late or self._is_unrooted):
            return
        self._changed = False
        self._epoch = self.router.substrate.epoch
        self._due_at = None
        refresh = self._refresh_at is not None and now >= self._refresh_at
        if refresh or self._refresh_at is None:
            self._refresh_at = now + self.timing.refresh
        for number, group in list(self.groups.items()):
            self._forget_old(group, now)
            if moved:
                self._turn_to(group, self.router.substrate.hop(self.key_of(number)))
            if group.is_needed():
                self._tell_parent(number, group, refresh, now, out)
                self._leave_former(number, group, out)
                self._tell_children(number, group, out)
            else:
                self._leave(number, group, out)
        if not self.groups:
            self._refresh_at = None
        roots = [group for group in self.groups.values() if group.parent is None]
        self._is_unrooted = bool(roots) and not self.is_attached(roots[0])
        self._establish(out)

    def _forget_old(self, group: GroupTree, now: int) -> None:
        """Forget the children that have not been heard of for long."""
        for name, child in list(group.children.items()):
            old_at = child.heard_at + self.timing.age
            if now >= old_at:
                del group.children[name]
            else:
                self._due_at = earliest(self._due_at, old_at)

    def _turn_to(self, group: GroupTree, parent: str | None) -> None:
        """Have another parent from now on."""
        if parent == group.parent and (parent is None or group.number):
            return
        if group.parent is not None and group.number:
            group.former.add(group.parent)
        if parent is not None:
            group.former.discard(parent)
        group.parent = parent
        group.number = 0
        group.acknowledged = None

    def _tell_parent(
        self, number: int, group: GroupTree, refresh: bool, now: int, out: list[Action]
    ) -> None:
        """Graft this node on its parent: at first, at every refresh, and until it answers."""
        if group.parent is None:
            return
        if not group.number:
            group.wait = 0
        waiting = group.acknowledged is not True
        if not group.number or refresh or (waiting and now >= group.again_at):
            group.number = self._said()
            group.wait = min(2 * group.wait or self.timing.retry, MOST_PATIENCE * self.timing.retry)
            group.again_at = now + group.wait
            self.router.carrier.send(group.parent, Graft(number, group.number, True), out)
        if waiting:
            self._due_at = earliest(self._due_at, group.again_at)

    def _leave_former(self, number: int, group: GroupTree, out: list[Action]) -> None:
        """Leave the former parents, once the new one has answered."""
        if group.former and self.is_attached(group):
            for name in sorted(group.former):
                self._say_leave(number, name, out)
            group.former.clear()

    def _tell_children(self, number: int, group: GroupTree, out: list[Action]) -> None:
        """Answer those who wait for it."""
        attached = self.is_attached(group)
        for name, child in group.children.items():
            if child.attached is None or child.attached < attached:
                child.attached = attached
                self.router.carrier.send(name, Grafted(number, child.number, attached), out)

    def _leave(self, number: int, group: GroupTree, out: list[Action]) -> None:
        """Nobody here or below is in a group: leave its tree."""
        if group.parent is not None and group.number:
            group.former.add(group.parent)
        for name in sorted(group.former):
            self._say_leave(number, name, out)
        del self.groups[number]
        self.seen.pop(number, None)

    def _say_leave(self, number: int, name: str, out: list[Action]) -> None:
        """Be a child no longer; if it gets lost, the other forgets this node by its age."""
        self.router.carrier.send(name, Graft(number, self._said(), False), out)

    def _said(self) -> int:
        self._number += 1
        return self._number

    def is_attached(self, group: GroupTree) -> bool:
        """Whether this node gets what is sent to a group, as far as it knows."""
        if group.parent is None:
            return self.router.substrate.is_settled()
        return group.acknowledged is True

    def _establish(self, out: list[Action]) -> None:
        done = [id for id in sorted(self._waiting) if self._is_in(self.local.subscriptions[id])]
        if done:
            self._waiting.difference_update(done)
            out.append(Established(tuple(done)))

    def _is_in(self, text: str) -> bool:
        """Whether this node is attached in all groups of a subscription."""
        return all(self.is_attached(self.groups[number]) for number in placed_in(self.types, text))

    # How it is

    def is_settled(self) -> bool:
        """Whether all that must be told has been."""
        return not self._waiting and all(
            self.is_attached(group)
            and not group.former
            and all(map(_knows, group.children.values()))
            for group in self.groups.values()
        )

    def figures(self) -> dict[str, int]:
        """Counts for metrics."""
        return {
            "groups": len(self.groups),
            "children": sum(len(group.children) for group in self.groups.values()),
            "climbed": self.counts["climbed"],
            "copies": self.counts["copies"],
        }

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "groups": {
                number: {"parent": group.parent, "children": sorted(group.children)}
                for number, group in sorted(self.groups.items())
            }
        }

    def explain(self, source: str, event: dict[str, Any]) -> dict[str, str]:
        """The nodes to which an event of this source would be sent from here, and why each."""
        return dict(self._reasons(event))

    def _reasons(self, event: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for number in self.groups_of(event):
            hop = self.router.substrate.hop(self.key_of(number))
            if hop is not None:
                yield hop, f"it climbs to the root of group {number}"
            elif number in self.groups:
                for name in self.groups[number].children:
                    yield name, f"it, or a node below it, is in group {number}"


def _knows(child: Child) -> bool:
    return child.attached is True


class ScribeRouter(StructuredRouter):
    """A node of a network with a multicast group for each type.

    >>> from tidings.routing.protocol import Publish, Subscribe
    >>> node = ScribeRouter("a")
    >>> node.handle(Subscribe("ada", "class = 'alert' or severity > 2"), 0)
    [Established(subscriptions=('ada',))]
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    scribe_of: type[Scribe] = Scribe

    def make_service(self, options: Any) -> Service:
        """What routes by content."""
        return self.scribe_of(self, options or ScribeOptions())
