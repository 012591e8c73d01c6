"""Keeps the links to the configured neighbours: dials them, and dials again when they break.

A greeting says which numbers of the neighbour this router holds, so that a link can go on where it
broke. But a router does not know who listens at an address until the neighbour has answered. If it
turns out to be a neighbour whose numbers this router holds, the router connects and greets once
more, with these numbers. It does not dial while the link has a connection, whichever end made it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidings.live.journal import journal
from tidings.live.link import Link
from tidings.live.naming import is_name
from tidings.live.settings import Dial
from tidings.live.stream import Stream, Transport
from tidings.live.timers import Timer
from tidings.wire import messages as m
from tidings.wire.errors import WireError

if TYPE_CHECKING:
    from tidings.live.router_core import RouterCore


class Neighbour:
    """A configured neighbour: its name, as soon as it has said it, and the connection to it."""

    def __init__(self, dial: Dial, delay: int) -> None:
        self.dial = dial
        self.name = ""
        self.delay = delay  # until the next attempt (backoff)
        self.stream: Stream | None = None
        self.joined = False  # whether the connection is past its greeting
        self.began = 0  # what this end has said in it: the name of its numbers
        self.timer: Timer | None = None


class Dialler:
    """The neighbours that a router dials."""

    def __init__(self, router: RouterCore) -> None:
        self._router = router
        self._kept: dict[Dial, Neighbour] = {}

    def keep(self, dial: Dial) -> None:
        """Connect to a neighbour, again and again."""
        one = self._kept[dial] = Neighbour(dial, self._router.limits.redial[0])
        self._try(one)

    def change(self, dials: Iterable[Dial]) -> None:
        """Keep these neighbours, and no others."""
        wanted = dict.fromkeys(dials)
        for dial in [dial for dial in self._kept if dial not in wanted]:
            self._forget(self._kept.pop(dial))
        for dial in wanted:
            if dial not in self._kept:
                self.keep(dial)

    def stop(self) -> None:
        """Dial nobody any more."""
        self.change(())

    def knows(self, name: str) -> bool:
        """Whether a neighbour is one that this router dials."""
        return any(one.name == name for one in self._kept.values())

    def missing(self) -> list[str]:
        """The addresses of neighbours to which there is no link now."""
        links = self._router.links
        return [
            f"{dial.host}:{dial.port}"
            for dial, one in self._kept.items()
            if one.name not in links or not links[one.name].up
        ]

    def made(self, dial: Dial, transport: Transport) -> Stream:
        """A connection stands: greet."""
        router = self._router
        one = self._kept.get(dial) or Neighbour(dial, 0)
        stream = Stream(
            router.timers,
            router.limits,
            transport,
            partial(self._greeted, one),
            partial(self._ended, one),
        )
        if self._kept.get(dial) is not one:  # it was forgotten meanwhile
            stream.abort()
            return stream
        one.stream, one.joined = stream, False
        self._time(one, router.limits.greeting, partial(self._too_late, one, stream))
        link = router.links.get(one.name)
        token = router.settings.link_token
        if link is None or not link.known:
            one.began = router.beginning()
            stream.send(router.greeting(token, dial.cost, one.began, 0, 0))
        else:
            one.began = link.began
            stream.send(router.greeting(token, dial.cost, one.began, link.known, link.heard))
        return stream

    def failed(self, dial: Dial, why: str) -> None:
        """A connection could not be made."""
        one = self._kept.get(dial)
        if one is not None:
            self._again(one, why)

    def _try(self, one: Neighbour) -> None:
        link = self._router.links.get(one.name)
        if link is not None and link.stream is not None:
            self._time(one, self._router.limits.redial[0], partial(self._try, one))
        else:
            self._router.host.dial(one.dial)

    def _greeted(self, one: Neighbour, stream: Stream, message: Any) -> None:
        router = self._router
        if type(message) is m.Failed:
            if message.code == "linked":  # the detail is the neighbour's name
                one.name, one.delay = message.detail, router.limits.redial[0]
                stream.close()
                return
            if message.code == "name":
                router.naming.yielded()
            known = message.code in ("denied", "protocol", "name")
            raise WireError(message.code if known else "stopping", message.detail)
        if type(message) is not m.Join:
            raise WireError("out-of-turn", f"a {type(message).__name__} for a greeting")
        if message.version != m.VERSION:
            raise WireError("version", f"{message.version}, here it is {m.VERSION}")
        router.check_protocol(message)
        router.naming.check(message, stream)
        link = router.link_to(message.node)
        one.delay = router.limits.redial[0]
        if (one.name != message.node and link.life) or self._is_second(link, message):
            one.name = message.node
            stream.close()
            return
        again = link.holds(message) and link.began == one.began
        if (
            message.known and not again
        ):  # the other end goes on; this one has changed since it dialled
            stream.close()
            return
        one.name, one.joined = message.node, True
        if one.timer is not None:
            one.timer.cancel()
        link.cost = max(link.cost, one.dial.cost)
        router.join(stream, link, message, one.began, again, dialled=True)
        stream.on_end = partial(self._link_ended, one, stream.on_end)

    def _is_second(self, link: Link, join: m.Join) -> bool:
        """Whether the neighbour has dialled, too, and its name is the lesser: then its connection
        is kept. `Doorway` decides alike at the other end, or both would replace it for ever."""
        alive = link.stream is not None and link.stream.open and not link.dialled
        return alive and join.node < self._router.node and join.life == link.life

    def _link_ended(self, one: Neighbour, tell: Any, stream: Stream, why: Exception | None) -> None:
        tell(stream, why)
        self._ended(one, stream, why)

    def _ended(self, one: Neighbour, stream: Stream, why: Exception | None) -> None:
        if one.stream is not stream:
            return
        one.stream = None
        if self._kept.get(one.dial) is one:
            first, most = self._router.limits.redial
            if one.joined:
                one.delay = most if is_name(why) else first
            self._again(one, str(why or "the connection was closed"))

    def _again(self, one: Neighbour, why: str) -> None:
        """Dial again after a while."""
        first, most = self._router.limits.redial
        if one.delay >= most:
            where = f"{one.dial.host}:{one.dial.port}"
            journal("no link", node=self._router.node, to=where, why=why)
        self._time(one, one.delay, partial(self._try, one))
        one.delay = min(2 * max(one.delay, first), most)

    def _too_late(self, one: Neighbour, stream: Stream) -> None:
        """The neighbour does not answer."""
        if one.stream is stream and not one.joined:
            stream.error = WireError("silent")
            stream.abort()

    def _forget(self, one: Neighbour) -> None:
        if one.timer is not None:
            one.timer.cancel()
        if one.stream is not None:
            one.stream.fail(WireError("stopping"))

    def _time(self, one: Neighbour, delay: int, call: Any) -> None:
        if one.timer is not None:
            one.timer.cancel()
        one.timer = self._router.timers.after(delay, call)
