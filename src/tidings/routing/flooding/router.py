"""Flooding as a protocol (S1): every event goes everywhere, and no node says what it wants.

A node sends an event to all neighbours except the one it came from, and drops an event that it has
seen before. There is nothing to converge and nothing to repair, and every link carries every event.
The baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidings.matching.contract import Matcher
from tidings.matching.scan import Scan
from tidings.routing.packets import Answer, Packet, Publication, Returned
from tidings.routing.planes.board import Board
from tidings.routing.planes.local import Local
from tidings.routing.planes.once import Once
from tidings.routing.planes.replies import Replies, Trails
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
)
from tidings.routing.truth import Situation, wrong_subscriptions


class FloodRouter:
    """A node that passes every event on.

    >>> node = FloodRouter("a")
    >>> node.handle(LinkUp("b", 1), 0)
    []
    >>> [action.neighbour for action in node.handle(Publish({"severity": 3}), 0)]
    ['b']
    """

    once_of: type[Once] = Once

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
        self._neighbours: dict[str, None] = {}
        self._once = self.once_of()
        self._trails = Trails()
        self.replies = self.replies_of(node, life, trails=self._trails)

    replies_of: type[Replies] = Replies
    is_switching = False
    hops = None

    def life_of(self, node: str) -> int:
        """It cannot tell: nobody but neighbours says its life."""
        return 0

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        match cause:
            case Received(neighbour, packet):
                self._received(neighbour, packet, out)
            case LinkUp(neighbour, _):
                self._neighbours[neighbour] = None
            case LinkDown(neighbour):
                self._neighbours.pop(neighbour, None)
                self._trails.lose(neighbour)
            case Subscribe(id, predicate):
                self.local.subscribe(id, predicate)
                out.append(Established((id,)))
            case Unsubscribe():
                self.local.unsubscribe(self.local.meant(cause))
            case Publish(event):
                publication = self.local.publish(event)
                self._once.first(publication)
                self._forward(publication, None, out)
            case Advertise(id, predicate):  # what is published needs no advertisement
                self.local.advertise(id, predicate)
                out.append(InForce((id,)))
            case Unadvertise(id):
                self.local.unadvertise(id)
            case Feedback():
                self.replies.reply(cause, out)
            case Decline():
                self.replies.decline(cause, out)
            case Woken() | Leave():
                pass
            case _:
                raise TypeError(f"no cause: {cause!r}")
        return out

    def _received(self, neighbour: str, packet: Packet, out: list[Action]) -> None:
        match packet:
            case Publication():
                if self._once.first(packet):
                    self._trails.note(packet, neighbour)
                    self._forward(packet, neighbour, out)
                else:
                    out.append(Drop("a duplicate", packet))
            case Answer():
                self.replies.answer(neighbour, packet, out)
            case Returned():
                self.replies.returned(neighbour, packet, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def timer(self) -> int | None:
        """Never: it does nothing later."""
        return None

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "links": dict.fromkeys(sorted(self._neighbours), True),
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
        }

    look_ahead = staticmethod(all_wanted)

    def is_settled(self) -> bool:
        """Always: there is nothing to tell."""
        return True

    @property
    def table(self) -> dict[str, str]:
        """Nothing: every event takes every link."""
        return {}

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why."""
        return dict.fromkeys(
            self._neighbours, (True, "every event takes every link except the one it came by")
        )

    def _forward(self, publication: Publication, but: str | None, out: list[Action]) -> None:
        self.local.deliver(publication, out)
        out.extend(Send(name, publication) for name in self._neighbours if name != but)


def converges_within(timing: Timing, crossing: int) -> int:
    """At once: nodes tell each other nothing."""
    return 0


def disagreements(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """Where nodes disagree with the truth: a link that works and is not used."""
    for name, links in situation.truth.costs.items():
        unused = sorted(links.keys() - nodes[name].snapshot()["links"].keys())
        if unused:
            yield f"{name} does not use its links to {unused}"
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)
