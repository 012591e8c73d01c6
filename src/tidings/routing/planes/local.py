"""The users of one node: what they subscribe to and advertise, and the numbers of their events.

All protocols hold the subscriptions of a node, match events against them, and number its events in
the same way. They differ in what they tell their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidings.matching.contract import Matcher
from tidings.routing.packets import Publication
from tidings.routing.planes.interests import predicate_of
from tidings.routing.protocol import Action, Deliver, Unsubscribe


class Local:
    """The subscriptions of a node, compiled, and the count of its events.

    >>> from tidings.matching.scan import Scan
    >>> local, out = Local("a", 1, Scan), []
    >>> local.subscribe("ada", "severity > 2")
    >>> local.deliver(local.publish({"severity": 3}), out)
    >>> out[0].subscriptions
    ('ada',)
    """

    __slots__ = (
        "_matcher",
        "_published",
        "advertisements",
        "application",
        "life",
        "node",
        "subscriptions",
    )

    def __init__(
        self,
        node: str,
        life: int,
        matcher: Callable[[], Matcher] | None,
        application: str = "",
        published: int = 0,  # events in this life, before
    ) -> None:
        self.node = node
        self.life = life
        self.application = application
        self.subscriptions: dict[str, str] = {}  # predicate by id
        self.advertisements: dict[str, str] = {}
        self._matcher = None if matcher is None else matcher()  # None: a board decides
        self._published = published

    @property
    def published(self) -> int:
        """The number of the newest event."""
        return self._published

    @property
    def by_board(self) -> bool:
        """Whether a board decides who gets an event here."""
        return self._matcher is None

    def subscribe(self, id: str, predicate: str) -> str | None:
        """Hold a subscription; returns the predicate that it replaces."""
        compiled = predicate_of(predicate)  # refused before anything has changed
        before = self.unsubscribe(id)
        self.subscriptions[id] = predicate
        if self._matcher is not None:
            self._matcher.add(id, compiled)
        return before

    def unsubscribe(self, id: str) -> str | None:
        """Give a subscription up; returns its predicate, None if there is no such subscription."""
        before = self.subscriptions.pop(id, None)
        if before is not None and self._matcher is not None:
            self._matcher.remove(id)
        return before

    def meant(self, cause: Unsubscribe) -> str:
        """The id of the subscription to give up: as given, or of the oldest with this predicate.

        Empty if there is none.
        """
        if cause.id or not cause.predicate:
            return cause.id
        wanted = predicate_of(cause.predicate)
        held = self.subscriptions.items()
        return next((id for id, text in held if predicate_of(text) == wanted), "")

    def advertise(self, id: str, predicate: str) -> None:
        """Hold an advertisement, or another predicate for one that is held."""
        predicate_of(predicate)  # refused before anything has changed
        self.advertisements[id] = predicate

    def unadvertise(self, id: str) -> None:
        """Give an advertisement up, if it is held."""
        self.advertisements.pop(id, None)

    def publish(self, event: dict[str, Any], topology: int = 0) -> Publication:
        """The packet of an event that is published here, with the next number."""
        self._published += 1
        return Publication(self.node, self.life, self._published, event, topology)

    def pass_over(self, count: int) -> None:
        """Number events that nobody wants."""
        self._published += count

    def deliver(self, publication: Publication, out: list[Action]) -> None:
        """Hand an event to the subscriptions here that match it, if any does.

        With a board, `Deliver` names none: its owner asks the board who gets the event.
        """
        if self._matcher is None:
            out.append(Deliver((), publication, self.application))
            return
        here = self._matcher.match(publication.event)
        if here:  # sorted, because matchers find them in different orders
            names = tuple(sorted(map(str, here)))
            out.append(Deliver(names, publication, self.application))
