"""Feedback (S28): a subscriber's reply, by unicast, to the node that published an event.

A reply goes hop by hop towards the publisher's node, in as many packets as the distance. On its
path it leaves a trail. Where it cannot go on, or where it finds a node that was reborn since, word
goes back along the trail, and the replier is told. Copies that links make are dropped, so whoever
published the event hears of a reply once at most.

A protocol with routes gives the next hop from them. One without keeps `Trails`: an event came to
all nodes along a tree, and the neighbour by which it came leads back to its source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from tidings.routing.packets import Answer, Publication, Returned
from tidings.routing.planes.carrier import MOST_HOPS
from tidings.routing.protocol import Action, Answered, Decline, Drop, Feedback, Send, Unanswered

REMEMBERED: Final = 4_096  # replies whose path back a node knows
EVENTS: Final = 16_384  # whose trail a node knows
NO_PATH: Final = "there is no path to the publisher"
REBORN: Final = "the publisher's router has lost its memory since"

Key = tuple[str, int, int]  # the replier's node, its life, its number for the reply
K = TypeVar("K")
V = TypeVar("V")


class Replies:
    """The replies that begin, pass or end at a node.

    `hop` gives the neighbour that leads to a node, None if there is none; `trails` are for nodes
    that have no routes.
    """

    def __init__(
        self,
        node: str,
        life: int,
        hop: Callable[[str], str | None] = lambda node: None,
        trails: Trails | None = None,
    ) -> None:
        self.node = node
        self.life = life
        self._hop = hop
        self._trails = trails
        self._asked: dict[int, None] = {}  # replies of this node that may come back
        self._trail: dict[Key, tuple[str, int]] = {}  # where a reply came from, and its hops then

    def reply(self, cause: Feedback, out: list[Action]) -> None:
        """A subscriber here replies to the publisher of an event."""
        whose = cause.source, cause.life, cause.number
        answer = Answer(
            *whose, self.node, self.life, cause.id, cause.message, application=cause.application
        )
        if cause.source == self.node:
            self._arrived(answer, None, out)
            return
        _remember(self._asked, cause.id, None)
        self.send(answer, None, out)

    def send(self, answer: Answer, came_from: str | None, out: list[Action]) -> None:
        """Send a reply on, or word back."""
        source = answer.source
        if self._trails is None:
            hop = self._hop(source)
        else:
            hop = self._trails.hop(source, answer.life, answer.number)
        if hop is None or answer.hops > MOST_HOPS:
            out.append(Drop("no such publisher", answer))
            self.turn_back(answer, came_from, NO_PATH, out)
        else:
            out.append(Send(hop, answer))

    def answer(self, neighbour: str, packet: Answer, out: list[Action]) -> None:
        """A reply has come."""
        key = packet.replier, packet.replier_life, packet.id
        before = self._trail.get(key)
        if before is not None and packet.hops <= before[1]:  # one from a detour has made more
            out.append(Drop("a duplicate", packet))
            return
        _remember(self._trail, key, (neighbour, packet.hops))
        if packet.source == self.node:
            if before is None:
                self._arrived(packet, neighbour, out)
            return
        self.send(msgspec.structs.replace(packet, hops=packet.hops + 1), neighbour, out)

    def _arrived(self, answer: Answer, came_from: str | None, out: list[Action]) -> None:
        if self.is_reborn(answer):
            out.append(Drop("no such publisher", answer))
            self.turn_back(answer, came_from, REBORN, out)
        else:
            whose = answer.replier, answer.replier_life, answer.id
            out.append(Answered(answer.number, answer.message, *whose, answer.application))

    def is_reborn(self, answer: Answer) -> bool:
        """Whether the event that a reply is to was published in a former life of this node."""
        return answer.life != self.life

    def decline(self, cause: Decline, out: list[Action]) -> None:
        """Whoever published the event has gone from here: send word back."""
        if cause.replier == self.node:
            if cause.replier_life == self.life:
                out.append(Unanswered(cause.id, cause.reason))
            return
        came_from = self._trail.get((cause.replier, cause.replier_life, cause.id))
        if came_from is not None:
            whose = cause.replier, cause.replier_life, cause.id
            out.append(Send(came_from[0], Returned(*whose, cause.reason)))

    def turn_back(
        self, answer: Answer, came_from: str | None, reason: str, out: list[Action]
    ) -> None:
        """Tell the replier that its reply did not arrive, and why."""
        if came_from is None:
            self._asked.pop(answer.id, None)
            out.append(Unanswered(answer.id, reason))
        else:
            whose = answer.replier, answer.replier_life, answer.id
            out.append(Send(came_from, Returned(*whose, reason)))

    def returned(self, neighbour: str, packet: Returned, out: list[Action]) -> None:
        """Word of a reply that did not arrive comes back."""
        if packet.replier == self.node:
            if packet.replier_life != self.life or packet.id not in self._asked:
                out.append(Drop("a duplicate", packet))
                return
            del self._asked[packet.id]
            out.append(Unanswered(packet.id, packet.reason))
            return
        came_from = self._trail.get((packet.replier, packet.replier_life, packet.id))
        if came_from is None or came_from[0] == neighbour:
            out.append(Drop("no path back", packet))
        else:
            out.append(Send(came_from[0], packet))


class Trails:
    """Where events have come from: the path back to their sources, for nodes without routes.

    >>> trails = Trails()
    >>> trails.note(Publication("a", 1, 7, {}), "b")
    >>> trails.hop("a", 1, 7), trails.hop("a", 1, 8)
    ('b', None)
    """

    def __init__(self) -> None:
        self._came_from: dict[tuple[str, int, int], str] = {}  # by node, life and number

    def note(self, publication: Publication, neighbour: str) -> None:
        """An event has come, for the first time, from a neighbour."""
        event = publication.source, publication.life, publication.number
        _remember(self._came_from, event, neighbour, EVENTS)

    def lose(self, neighbour: str) -> None:
        """The link to a neighbour is down."""
        for event in [e for e, name in self._came_from.items() if name == neighbour]:
            del self._came_from[event]

    def hop(self, source: str, life: int, number: int) -> str | None:
        """The neighbour that leads to the source of an event, if its trail is still known."""
        return self._came_from.get((source, life, number))


def _remember(kept: dict[K, V], key: K, value: V, most: int = REMEMBERED) -> None:
    """Keep something, and forget the oldest if there is too much."""
    if key not in kept and len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value
