"""The doorway of a router: connections that have not said who they are, and who is let in.

A connection must greet in time, with a token that the router knows. Strangers cannot keep others
out: if too many connections have not greeted, the newest one takes the place of the oldest from the
address that holds most of them. Guessing tokens is slow, because a wrong one is answered late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tidings.live.journal import journal
from tidings.live.link import Link
from tidings.live.stream import Stream, Transport
from tidings.live.timers import Timer
from tidings.wire import messages as m
from tidings.wire.errors import WireError

if TYPE_CHECKING:
    from tidings.live.router_core import RouterCore

Guest = TypeVar("Guest", bound=Hashable)


class Doorway:
    """The connections that others make to a router."""

    def __init__(self, router: RouterCore) -> None:
        self._router = router
        self._ungreeted: dict[Stream, Timer] = {}  # in the order in which they came
        self._admitted: set[Stream] = set()  # connections past their greeting

    def open(self, transport: Transport) -> Stream:
        """Someone has connected."""
        router, limits = self._router, self._router.limits
        stream = Stream(router.timers, limits, transport, self._first, self.ended)
        if len(self._admitted) >= limits.connections:
            stream.fail(WireError("full"))
            return stream
        if len(self._ungreeted) >= limits.ungreeted:
            self._evict()
        too_late = partial(self._refuse, stream, WireError("silent"))
        self._ungreeted[stream] = router.timers.after(limits.greeting, too_late)
        return stream

    def stop(self) -> None:
        """The router stops."""
        for stream, timer in list(self._ungreeted.items()):
            timer.cancel()
            stream.fail(WireError("stopping"))

    def ended(self, stream: Stream, error: Exception | None) -> None:
        """A connection has ended."""
        timer = self._ungreeted.pop(stream, None)
        if timer is not None:
            timer.cancel()
        self._admitted.discard(stream)
        router = self._router
        if isinstance(error, WireError) and error.code in ("damaged", "malformed", "too-long"):
            router.counts.malformed += 1
        if error is not None:
            journal("connection ended", node=router.node, peer=stream.peer, why=str(error))

    def _evict(self) -> None:
        """End the oldest ungreeted connection of the address that holds most of them."""
        self.evicted()
        hosts = {stream: stream.peer.rpartition(":")[0] for stream in self._ungreeted}
        self._refuse(oldest_of_most(hosts), WireError("full"))

    def evicted(self) -> None:
        """A connection has ended to make room for another."""
        self._router.counts.evicted += 1

    def _refuse(self, stream: Stream, error: WireError) -> None:
        timer = self._ungreeted.pop(stream, None)
        if timer is not None:
            timer.cancel()
        stream.fail(error)

    def _first(self, stream: Stream, message: Any) -> None:
        """The first message on a connection that a client or a neighbour made."""
        router = self._router
        kind = type(message)
        if kind not in (m.Open, m.Join):
            raise WireError("out-of-turn", f"a {kind.__name__} for a greeting")
        if message.version != m.VERSION:
            raise WireError("version", f"{message.version}, here it is {m.VERSION}")
        try:
            if kind is m.Open:
                principal = router.access.principal(message.token)
            else:
                router.access.router(message.token)
        except WireError as error:
            self._deny(stream, error)
            return
        timer = self._ungreeted.pop(stream, None)
        if timer is not None:
            timer.cancel()
        self._admitted.add(stream)
        if kind is m.Open:
            router.open_session(stream, message, principal)
        else:
            self._join(stream, message)

    def _deny(self, stream: Stream, error: WireError) -> None:
        """A wrong token: count it, and answer late, so that guessing is slow."""
        router = self._router
        router.counts.denied += 1
        journal("denied", node=router.node, peer=stream.peer)
        stream.on_message = _ignore
        timer = self._ungreeted.get(stream)
        if timer is not None:
            timer.cancel()
            refuse = partial(self._refuse, stream, error)
            self._ungreeted[stream] = router.timers.after(router.limits.denial, refuse)

    def _join(self, stream: Stream, join: m.Join) -> None:
        router = self._router
        router.check_protocol(join)
        router.naming.check(join, stream)
        link = router.link_to(join.node)
        self._refuse_second(link, join)
        again = link.holds(join)
        began = link.began if again else router.beginning()
        known, heard = (link.known, link.heard) if again else (0, 0)
        stream.send(router.greeting("", link.cost, began, known, heard))
        router.join(stream, link, join, began, again, dialled=False)

    def _refuse_second(self, link: Link, join: m.Join) -> None:
        """If two routers dial each other at once, keep the connection that the lesser name made."""
        alive = link.stream is not None and link.stream.open
        if alive and link.dialled and self._router.node < link.neighbour and join.life == link.life:
            raise WireError("linked", self._router.node)


def oldest_of_most(hosts: Mapping[Guest, str]) -> Guest:
    """Of guests in the order in which they came, the first from the host that has sent most.

    >>> oldest_of_most({1: "a", 2: "b", 3: "b", 4: "c"})
    2
    """
    held = Counter(hosts.values())
    most = max(held.values())
    return next(guest for guest, host in hosts.items() if held[host] == most)


def _ignore(stream: Stream, message: Any) -> None:
    """A connection that is about to be refused says something more."""
