"""Subscription forwarding on a network without cycles (S10, S18): learning by the reverse path.

A node announces to each neighbour what any node on its own side of that link wants, itself
included, and keeps what the neighbour announces. It announces predicates: an equal one only once,
and it retracts a predicate when the last subscription with it, on this side, is gone. An event goes
back along the links by which its predicate was announced.

In the survey an announcement stops where an equal one is known. By the letter, that hides a
receiver: the neighbour that announced the first never hears that a node on the other side wants the
same. So a node decides for each link: it announces there what anyone except that neighbour wants.

When a link goes down, a node forgets what it learned there; when it comes up, both ends announce
everything. Hellos carry a digest of what their sender has announced; a neighbour that holds
something else asks to hear everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.packets import (
    Again,
    Announcement,
    Announcements,
    Answer,
    Hello,
    Packet,
    Publication,
    Retraction,
    Returned,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import readable, shortened, wants
from tidings.routing.planes.local import Local
from tidings.routing.planes.neighbours import Neighbours
from tidings.routing.planes.once import Once
from tidings.routing.planes.replies import Replies, Trails
from tidings.routing.planes.steady import Steady
from tidings.routing.planes.topology import Topologies, digest_of
from tidings.routing.protocol import (
    USUAL,
    Action,
    Advertise,
    Cause,
    Decline,
    Drop,
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
)
from tidings.routing.truth import Situation, wrong_interfaces, wrong_subscriptions

HERE: Final = ""  # stands for the subscribers of this node among the names of neighbours


class SubscriptionRouter:
    """A node of an acyclic network.

    >>> node = SubscriptionRouter("a")
    >>> node.handle(Subscribe("ada", "severity > 2"), 0)
    []
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Matcher] = Scan,
        board: Board | None = None,
    ) -> None:
        self.local = Local(node, life, None if board is not None else matcher)
        self.timing = timing
        self.wanted: dict[str, dict[str, None]] = {}  # by predicate: neighbours and HERE
        self.neighbours = Neighbours(life, timing)
        self._told: dict[str, dict[str, None]] = {}
        self._clock = Steady()
        self._once = Once()
        self._trails = Trails()
        self.replies = self.replies_of(node, life, trails=self._trails)
        self._hello_at: int | None = None

    replies_of: type[Replies] = Replies
    is_switching = False  # an event has one path only, so none overtakes another
    hops = None

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        now = self._clock.read(now)
        match cause:
            case Received(neighbour, packet):
                self._received(neighbour, packet, now, out)
            case Woken():
                if self._hello_at is not None and now >= self._hello_at:
                    self._hello_at = now + self.timing.hello
                    for name in self.neighbours.expire(now):
                        self._lost(name, out)
                    self.neighbours.greet(self._digest, out)
            case LinkUp(neighbour, cost):
                if self._hello_at is None:
                    self._hello_at = now + self.timing.hello
                if self.neighbours.remove(neighbour):
                    self._lost(neighbour, out)
                self.neighbours.add(neighbour, cost, 0, out)
            case LinkDown(neighbour):
                if self.neighbours.remove(neighbour):
                    self._lost(neighbour, out)
            case Subscribe(id, predicate):
                before = self.local.subscribe(id, predicate)
                self.learn(predicate, HERE, out)
                self._spread_if_gone(before, out)
            case Unsubscribe():
                before = self.local.unsubscribe(self.local.meant(cause))
                self._spread_if_gone(before, out)
            case Publish(event):
                publication = self.local.publish(event)
                self._once.first(publication)
                self._forward(publication, HERE, out)
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
                self._hello_at = None
            case _:
                raise TypeError(f"no cause: {cause!r}")
        return out

    def timer(self) -> int | None:
        """When to wake."""
        return self._clock.shown(self._hello_at)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "links": self.neighbours.snapshot(),
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
            "wanted": {text: sorted(who) for text, who in sorted(self.wanted.items())},
        }

    def is_settled(self) -> bool:
        """Always: it tells its neighbours everything at once."""
        return True

    @property
    def table(self) -> dict[str, str]:
        """Nothing: it keeps the interfaces of each predicate, and hellos find what is wrong."""
        return {}

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        found: dict[str, tuple[bool, str]] = {}
        for name in self.neighbours.known:
            wanted = (text for text, who in self.wanted.items() if name in who)
            matching = next((text for text in wanted if wants(readable(text), event)), None)
            if matching is not None:
                found[name] = True, f"nodes behind it want: {shortened(matching)}"
            elif not self.neighbours.is_up(name):
                found[name] = False, "the link is down"
            else:
                found[name] = False, "no node behind it wants this event"
        return found

    # Packets

    def _received(self, neighbour: str, packet: Packet, now: int, out: list[Action]) -> None:
        if neighbour not in self.neighbours.known:
            out.append(Drop("no such link", packet))
            return
        match packet:
            case Hello():
                self._hello(neighbour, packet, now, out)
            case Publication():
                if self._once.first(packet):
                    self._trails.note(packet, neighbour)
                    self._forward(packet, neighbour, out)
                else:
                    out.append(Drop("a duplicate", packet))
            case Announcement(predicate):
                self.learn(predicate, neighbour, out)
            case Retraction(predicate):
                self.unlearn(predicate, neighbour, out)
            case Announcements(predicates):
                self._learn_all(predicates, neighbour, out)
            case Again():
                self.tell_all(neighbour, out)
            case Answer():
                self.replies.answer(neighbour, packet, out)
            case Returned():
                self.replies.returned(neighbour, packet, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _hello(self, neighbour: str, hello: Hello, now: int, out: list[Action]) -> None:
        lost, came = self.neighbours.heard(neighbour, hello, now, self._digest(neighbour), out)
        if lost:
            self._lost(neighbour, out)
        if came:
            self.tell_all(neighbour, out)
        elif self.neighbours.is_up(neighbour):
            held = [text for text, who in self.wanted.items() if neighbour in who]
            if self.neighbours.doubt(neighbour, _digest_of(held) != hello.digest):
                out.append(Send(neighbour, Again()))

    def _forward(self, publication: Publication, origin: str, out: list[Action]) -> None:
        self.local.deliver(publication, out)
        links: dict[str, None] = {}
        for text, who in self.wanted.items():
            if not who.keys() <= links.keys() and wants(readable(text), publication.event):
                links |= who
        out.extend(
            Send(name, publication)
            for name in self.neighbours.known
            if name in links and name != origin
        )

    # What is wanted, and by whom

    def learn(self, predicate: str, who: str, out: list[Action]) -> None:
        """Note that someone wants a predicate: a neighbour's side, or subscribers here.

        One that cannot be read is passed on as it is, and every event matches it.
        """
        self.wanted.setdefault(predicate, {})[who] = None
        self.spread(predicate, out)

    def unlearn(self, predicate: str, who: str, out: list[Action]) -> None:
        """Note that they no longer want it."""
        wanting = self.wanted.get(predicate)
        if wanting is None or who not in wanting:
            return
        del wanting[who]
        if not wanting:
            del self.wanted[predicate]
        self.spread(predicate, out)

    def _learn_all(self, predicates: tuple[str, ...], who: str, out: list[Action]) -> None:
        for text in [t for t, wanting in self.wanted.items() if who in wanting]:
            if text not in predicates:
                self.unlearn(text, who, out)
        for text in predicates:
            self.learn(text, who, out)

    def spread(self, predicate: str, out: list[Action]) -> None:
        """Tell each neighbour whether anyone except it wants this, if that has changed."""
        wanting = self.wanted.get(predicate, {})
        for name, told in self._told.items():
            wanted = len(wanting) > (name in wanting)
            if wanted and predicate not in told:
                told[predicate] = None
                out.append(Send(name, Announcement(predicate)))
            elif not wanted and predicate in told:
                del told[predicate]
                out.append(Send(name, Retraction(predicate)))

    def tell_all(self, name: str, out: list[Action]) -> None:
        """Announce to a neighbour all that anyone except it wants."""
        texts = [text for text, who in self.wanted.items() if len(who) > (name in who)]
        self._told[name] = dict.fromkeys(texts)
        out.append(Send(name, Announcements(tuple(texts))))

    def _lost(self, name: str, out: list[Action]) -> None:
        """A link is down: forget what the neighbour announced, and what was announced to it."""
        self._told.pop(name, None)
        self._trails.lose(name)
        self._learn_all((), name, out)

    def _digest(self, name: str) -> int:
        return _digest_of(list(self._told.get(name, ())))

    def _spread_if_gone(self, predicate: str | None, out: list[Action]) -> None:
        if predicate is not None and predicate not in self.local.subscriptions.values():
            self.unlearn(predicate, HERE, out)


def _digest_of(texts: list[str]) -> int:
    digest = 0
    for text in texts:
        digest ^= digest_of(text)
    return digest


def converges_within(timing: Timing, crossing: int) -> int:
    """How long a network takes to be right after its last change, if no packet gets lost then.

    The silence of a link is noticed at the next hello (`dead`), then both ends hear each other
    again. What got lost before is noticed at the second hello whose digest differs, asked for, and
    told; then it crosses the network.
    """
    noticed = timing.dead + 3 * timing.hello
    repaired = 3 * timing.hello + 3 * crossing
    return noticed + repaired + crossing


def disagreements(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """Where nodes disagree with the truth: links that are up, and what is wanted behind each."""
    for name, links in situation.truth.costs.items():
        up = sorted(nodes[name].neighbours.up())
        if up != sorted(links):
            yield f"{name} hears {up}, not {sorted(links)}"
            return

    def sends(name: str, interface: str, event: dict[str, Any]) -> bool:
        wanted = nodes[name].wanted.items()
        return any(interface in who and wants(readable(text), event) for text, who in wanted)

    yield from wrong_interfaces(situation, sends)
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)
