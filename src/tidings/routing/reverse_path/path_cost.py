"""Networks with cycles by path cost (S17): subscription trees, and how events follow them.

Announcements carry the cost of their path, and a node keeps what came by the cheapest one; so every
origin gets a tree, without records of links (`path_routes`). Two rows route events by these trees:

- `entries`: an event goes wherever a subscription came from that it matches. The survey says that
  this brings duplicates: two copies may meet, and all but the first are dropped and counted.
- `trees`: an event also keeps to the tree of its publisher, to children of this node in it. All
  paths are symmetric, so each node gets one copy at most. It is what `cbcb` does, which finds its
  trees by reverse path forwarding on unicast routes instead.

While paths change, events may get lost or take the wrong link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.packets import (
    Answer,
    Change,
    Hello,
    Packet,
    Publication,
    Reminder,
    Returned,
    Standing,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import shortened
from tidings.routing.planes.link_table import LinkTables, Taken
from tidings.routing.planes.local import Local
from tidings.routing.planes.neighbours import Neighbours
from tidings.routing.planes.once import Once
from tidings.routing.planes.replies import Replies
from tidings.routing.planes.steady import Steady
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    USUAL,
    Action,
    Advertise,
    Cause,
    Decline,
    Drop,
    Established,
    Feedback,
    InForce,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Timing,
    Unadvertise,
    Unsubscribe,
    Woken,
    all_wanted,
    earliest,
)
from tidings.routing.reverse_path.filters import matched_by
from tidings.routing.reverse_path.path_routes import (
    LINK,
    PathRoutes,
    read_offer,
    read_want,
)

Notify = Literal["trees", "entries"]
TREES: Final = "trees"


class RouteTables(LinkTables):
    """Link tables of which a change has settled once it is taken: on cycles nobody waits."""

    def follow(self, name: str, number: int) -> None:
        link = self.links.get(name)
        if link is not None:
            link.following.append((number, []))


class PathCostRouter:
    """A node.

    >>> node = PathCostRouter("a")
    >>> node.handle(Subscribe("ada", "severity > 2"), 0)
    [Established(subscriptions=('ada',))]
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    routes_of: type[PathRoutes] = PathRoutes
    once_of: type[Once] = Once
    replies_of: type[Replies] = Replies
    is_switching = False
    look_ahead = staticmethod(all_wanted)

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Matcher] = Scan,
        board: Board | None = None,
        notify: Notify = TREES,
    ) -> None:
        self.node = node
        self.life = life
        self.timing = timing
        self.notify = notify
        self.local = Local(node, life, None if board is not None else matcher)
        self.neighbours = Neighbours(life, timing)
        self.tables = RouteTables(life, timing)
        self.paths = self.routes_of(node, life)
        self.paths.look(node)
        self.replies = self.replies_of(node, life, self.hop_to)
        self.duplicates = 0  # copies of events that came in vain
        self._own: dict[str, None] = {}  # predicates that users here want
        self._links = matcher()  # all predicates of others, by text
        self._origins: dict[str, dict[str, None]] = {}  # by text: who wants it
        self._wanted: dict[str, dict[str, None]] = {}  # by origin: texts
        self._told: dict[tuple[str, str], tuple[list[str], list[str]]] = {}  # by link and origin
        self._untold: dict[str, None] = {}  # origins of which neighbours may have to hear
        self._waiting: dict[str, int] = {}  # subscriptions to be established, by the number needed
        self._version = self.neighbours.version  # of the neighbours whose links are in use
        self._hello_at: int | None = None
        self._tell_at: int | None = None
        self._clock = Steady()
        self._once = self.once_of()

    def hop_to(self, node: str) -> str | None:
        """The neighbour that leads to a node."""
        return self.paths.hop.get(node)

    # Causes

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        now = self._clock.read(now)
        match cause:
            case Received(neighbour, packet):
                if type(packet) is Publication:
                    self._event(neighbour, packet, out)
                    return out
                self._received(neighbour, packet, now, out)
            case Publish(event):
                publication = self.local.publish(event)
                self._once.first(publication)
                self._forward(publication, None, out)
                return out
            case Woken():
                self._woken(now, out)
            case LinkUp(neighbour, cost):
                if self._hello_at is None:
                    self._hello_at = now + self.timing.hello
                self.neighbours.remove(neighbour)
                self.neighbours.add(neighbour, cost, 0, out)
            case LinkDown(neighbour):
                self.neighbours.remove(neighbour)
            case Subscribe(id, predicate):
                self.local.subscribe(id, predicate)
                self._want_here()
                self._waiting[id] = self.paths.number
            case Unsubscribe():
                id = self.local.meant(cause)
                self.local.unsubscribe(id)
                self._waiting.pop(id, None)
                self._want_here()
            case Advertise(id, predicate):  # what is published needs no advertisement
                self.local.advertise(id, predicate)
                out.append(InForce((id,)))
            case Unadvertise(id):
                self.local.unadvertise(id)
            case Feedback():
                self.replies.reply(cause, out)
            case Decline():
                self.replies.decline(cause, out)
            case Leave():
                for name, link in self.tables.links.items():
                    told, offered = list(link.told), list(link.advertised)
                    self.tables.tell(name, (), told, (), offered, now, out)
                self._hello_at = self._tell_at = None
                return out
            case _:
                raise TypeError(f"no cause: {cause!r}")
        self._follow(now, out)
        return out

    def _want_here(self) -> None:
        """What users here want may have changed: another number, if there is more."""
        own = dict.fromkeys(sorted(self.local.subscriptions.values()))
        if own.keys() - self._own.keys():
            self.paths.number += 1
        if own != self._own:
            self._own = own
            self.paths.changed[self.node] = None

    def _woken(self, now: int, out: list[Action]) -> None:
        if self._hello_at is not None and now >= self._hello_at:
            self._hello_at = now + self.timing.hello
            self.neighbours.expire(now)
            self.neighbours.greet(lambda name: 0, out)
        self.tables.wake(now, out)

    # Packets

    def _received(self, neighbour: str, packet: Packet, now: int, out: list[Action]) -> None:
        match packet:
            case _ if neighbour not in self.neighbours.known:
                out.append(Drop("no such link", packet))
            case Hello():
                self.neighbours.heard(neighbour, packet, now, 0, out)
            case Change():
                self._links_in_use()
                for taken in self.tables.change(neighbour, packet, now, out):
                    self._take(neighbour, taken)
                    self.tables.follow(neighbour, taken.number)
            case Standing():
                self.tables.standing(neighbour, packet, now, out)
            case Reminder():
                self.tables.reminder(neighbour, packet, out)
            case Answer():
                self.replies.answer(neighbour, packet, out)
            case Returned():
                self.replies.returned(neighbour, packet, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _take(self, neighbour: str, taken: Taken) -> None:
        """Apply a change of a neighbour: what is removed goes first, if another has replaced it."""
        paths = self.paths
        if taken.anew:
            cost = paths.costs[neighbour]
            paths.close(neighbour)
            paths.open(neighbour, cost)
        for text in taken.removed:
            if (want := read_want(text)) is not None:
                paths.unwant(neighbour, *want)
        for text in taken.withdrawn:
            if (offer := read_offer(text)) is not None:
                paths.withdraw(neighbour, offer)
        for text in taken.added:
            if (want := read_want(text)) is not None:
                paths.want(neighbour, *want)
        for text in taken.advertised:
            if (offer := read_offer(text)) is not None:
                paths.offer(neighbour, offer)

    # What follows: routes, what neighbours hear, and who waits

    def _follow(self, now: int, out: list[Action]) -> None:
        self._links_in_use()
        changed, self.paths.changed = self.paths.changed, {}
        for origin in changed:
            if self.paths.look(origin) and self._tell_at is None:
                # Paths that follow from each other: look at all that come in a moment.
                self._tell_at = now + self.timing.gather
            self._index(origin)
        self._untold.update(changed)
        if self._tell_at is None or now >= self._tell_at:
            self._tell_at = None
            self._tell(now, out)
        self.tables.flush({}, now, out)
        if self._waiting:
            confirmed = self.paths.confirmed(self.node)
            ready = tuple(id for id, number in self._waiting.items() if number <= confirmed)
            if ready:
                for id in ready:
                    del self._waiting[id]
                out.append(Established(ready))

    def _links_in_use(self) -> None:
        known = self.neighbours.known
        if self._version == self.neighbours.version:
            return
        self._version = self.neighbours.version
        for name, link in list(self.tables.links.items()):
            if name not in known or not known[name].up or known[name].life != link.life:
                self.tables.close(name)
                self.paths.close(name)
                for key in [key for key in self._told if key[0] == name]:
                    del self._told[key]
        for name, neighbour in known.items():
            if neighbour.up and name not in self.tables.links:
                self.tables.open(name, neighbour.life)
                self.paths.open(name, neighbour.cost)

    def _tell(self, now: int, out: list[Action]) -> None:
        """Tell each link what is new, in one change."""
        untold, self._untold = self._untold, {}
        for name, link in self.tables.links.items():
            added: list[str] = []
            removed: list[str] = []
            offered: list[str] = []
            withdrawn: list[str] = []
            if not link.number:
                offered.append(self.paths.link_offer(name).text())
            for origin in untold:
                if origin == LINK:
                    continue
                wants: list[str] = []
                offers: list[str] = []
                for text, is_want in self.paths.texts_for(name, origin, self._own):
                    (wants if is_want else offers).append(text)
                before = self._told.get((name, origin), ([], []))
                if before == (wants, offers):
                    continue
                self._told[name, origin] = wants, offers
                if not offers:
                    del self._told[name, origin]
                added += [text for text in wants if text not in link.told]
                removed += [text for text in before[0] if text not in wants]
                offered += [text for text in offers if text not in link.advertised]
                withdrawn += [text for text in before[1] if text not in offers]
            if added or removed or offered or withdrawn:
                self.tables.tell(name, added, removed, offered, withdrawn, now, out)

    def _index(self, origin: str) -> None:
        """Let events find what an origin wants, as it is now."""
        before = self._wanted.get(origin, {})
        after = dict(self.paths.wanted(origin)) if origin != self.node else {}
        for text in before.keys() - after.keys():
            del self._origins[text][origin]
            if not self._origins[text]:
                del self._origins[text]
                self._links.remove(text)
        for text in sorted(after.keys() - before.keys()):
            if text not in self._origins:
                self._origins[text] = {}
                self._links.add(text, matched_by(text))
            self._origins[text][origin] = None
        self._wanted[origin] = after
        if not after:
            del self._wanted[origin]

    # Events

    def _event(self, neighbour: str, publication: Publication, out: list[Action]) -> None:
        if not self.takes(neighbour, publication):
            out.append(Drop("off the tree", publication))
        elif not self._once.first(publication):
            self.duplicates += 1
            out.append(Drop("a duplicate", publication))
        else:
            self._forward(publication, neighbour, out)

    def takes(self, neighbour: str, publication: Publication) -> bool:
        """Whether events of this source may come from a neighbour."""
        if self.notify == TREES:
            return self.paths.hop.get(publication.source) == neighbour
        return neighbour in self.tables.links

    def _forward(self, publication: Publication, origin: str | None, out: list[Action]) -> None:
        self.local.deliver(publication, out)
        towards = self.towards(publication.source, publication.event)
        out.extend(Send(name, publication) for name in towards if name != origin)

    def towards(self, source: str, event: dict[str, Any]) -> list[str]:
        """The neighbours that an event of a source goes to from here."""
        wanting = self.wanting(event)
        if self.notify == TREES:
            return [name for name in wanting if self.paths.is_child(name, source)]
        return list(wanting)

    def wanting(self, event: dict[str, Any]) -> dict[str, str]:
        """The neighbours behind which someone wants an event, each with a predicate of theirs."""
        found: dict[str, str] = {}
        for text in sorted(map(str, self._links.match(event))):
            for origin in self._origins[text]:
                found.setdefault(self.paths.hop[origin], text)
        return dict(sorted(found.items()))

    # What those around it must know

    def timer(self) -> int | None:
        """When to wake."""
        own = earliest(self._hello_at, self._tell_at)
        return self._clock.shown(earliest(own, self.tables.timer()))

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "links": self.neighbours.snapshot(),
            "hops": dict(sorted(self.paths.hop.items())),
            "paths": {o: list(r.path) for o, r in sorted(self.paths.routes.items())},
            "wanted": {origin: sorted(texts) for origin, texts in sorted(self._wanted.items())},
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
            "settled": self.is_settled(),
        }

    def figures(self) -> dict[str, int]:
        """Counts for metrics: origins and predicates held, changes told, and copies in vain."""
        return {
            "origins": len(self.paths.routes),
            "filters_held": sum(map(len, self._wanted.values())),
            "changes": self.tables.changes,
            "duplicates": self.duplicates,
        }

    def is_settled(self) -> bool:
        """Whether this node has told all that it must, and every subscription is established."""
        return not (self._untold or self._waiting) and self.tables.is_settled()

    @property
    def hops(self) -> Mapping[str, str]:
        """The neighbour that leads to each node that it knows of."""
        return self.paths.hop

    def life_of(self, node: str) -> int:
        """It cannot tell: nobody but neighbours says its life."""
        return 0

    @property
    def table(self) -> dict[str, str]:
        """Nothing: it keeps what each origin wants, not a predicate for each interface."""
        return {}

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        found: dict[str, tuple[bool, str]] = {}
        wanting = self.wanting(event)
        trees = self.notify == TREES
        for name in self.neighbours.known:
            if name not in self.tables.links:
                found[name] = False, "the link is down"
            elif trees and self.paths.hop.get(source) == name:
                found[name] = False, f"the events of {source} come from there"
            elif trees and not self.paths.is_child(name, source):
                found[name] = False, f"the path from {source} to {name} does not pass through here"
            elif name in wanting:
                found[name] = True, f"nodes behind it want: {shortened(wanting[name])}"
            else:
                found[name] = False, "no node behind it wants this event"
        return found
