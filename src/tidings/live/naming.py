"""Two routers of one name: the one that was there first stays, the other is told and kept out.

A router knows another by its name, and a *life* tells two that bear the same name apart. Who wants
to link is refused while another life of its name shows itself: on a connection that is alive, or,
if there is none here, anywhere in reach. A router that has restarted is let in: its former life
says nothing any more. A connection that has just broken counts as alive for a moment, so that its
owner can come back to it before another router takes its place.

Two routers of one name may yet get in, at two places at once or while the network is in two parts.
When they meet, each finds that the other keeps telling what it has just told itself. Then the one
with the lesser life gives up its links, and is refused from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.live.journal import journal
from tidings.live.stream import Stream
from tidings.routing.protocol import SECOND
from tidings.wire.errors import WireError
from tidings.wire.messages import Join

if TYPE_CHECKING:
    from tidings.live.router_core import RouterCore


class Naming:
    """What a router knows about others that want a name: another's, or its own."""

    def __init__(self, router: RouterCore) -> None:
        self._router = router
        self._yielded_at: int | None = None  # when it was last told that another has its name
        self._yielding = False  # whether it gives up its links just now

    def check(self, join: Join, stream: Stream) -> None:
        """Refuse a neighbour if another router has its name."""
        if self._is_taken(join):
            router = self._router
            router.counts.twins += 1
            journal("name in use", node=router.node, name=join.node, peer=stream.peer)
            raise name_in_use(join.node)

    def _is_taken(self, join: Join) -> bool:
        router = self._router
        link, now = router.links.get(join.node), router.timers.now
        if link is None or not link.life:
            return router.protocol.life_of(join.node) not in (0, join.life)
        if link.life == join.life or link.leaving:
            return False
        if link.stream is not None:
            silent = now - link.stream.heard_at
            return link.stream.open and silent < router.limits.silence // 2
        return now - link.broken_at < round(router.settings.grace_s * SECOND) // 4

    def look(self) -> None:
        """Give up all links if the network knows another router by the name of this one."""
        router = self._router
        if self._yielding or router.protocol.life_of(router.node) in (0, router.life):
            return
        self._yielding = True
        for link in list(router.links.values()):
            router.give_up(link, name_in_use(router.node))
        self._yielding = False
        self.yielded()

    def yielded(self) -> None:
        """Another router has the name of this one."""
        router = self._router
        if not self.has_yielded:
            journal("another router has this name", node=router.node)
        router.counts.twins += 1
        self._yielded_at = router.timers.now

    def linked(self) -> None:
        """A neighbour has let this router in."""
        self._yielded_at = None

    @property
    def has_yielded(self) -> bool:
        """Whether another router had the name of this one a moment ago."""
        at, router = self._yielded_at, self._router
        return at is not None and router.timers.now - at < router.limits.silence


def name_in_use(name: str) -> WireError:
    """What a router is told whose name another has."""
    return WireError("name", f"another router has the name {name:.60}")


def is_name(error: Exception | None) -> bool:
    """Whether a connection ended because two routers have one name."""
    return isinstance(error, WireError) and error.code == "name"
