"""Explicit multicast: a packet with the list of its targets, divided hop by hop (S4).

It travels over the link-state plane, and names its targets and the view of the network by which it
travels. Each node divides the targets by the next hop in that view. As long as all nodes know the
view, the packet cannot circle, and it takes each link of the paths once. Nodes learn of a new link
at different moments:

- a node that has yet to compute its routes holds a packet of an unknown view until it has;
- a node at rest that does not know the view, or finds a link of it down, sends the packet on by its
  own newest view. That is a *turn*, and a packet makes a few at most.

So while links are only added, no packet is lost.
"""

from __future__ import annotations

from typing import Final

from tidings.routing.packets import LayerPacket, Listed
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.topology import Routes
from tidings.routing.protocol import Action, Drop, Send

KNOWN: Final = 16  # views that a node keeps
MOST_TURNS: Final = 16
MOST_HELD: Final = 4_096  # packets of an application that wait for routes


class Lists:
    """One node's part in passing packets with lists on."""

    def __init__(self, plane: LinkState) -> None:
        self.plane = plane
        self._known: dict[int, Routes] = {plane.routes.digest: plane.routes}
        self._held: list[tuple[int, Listed]] = []  # until when, and what

    def send(
        self, targets: tuple[str, ...], inner: LayerPacket, now: int, out: list[Action]
    ) -> None:
        """Send a packet to other nodes, each once."""
        if targets:
            digest = self.plane.routes.digest
            self._pass_on(Listed(targets, digest, 0, inner, self.plane.node), now, out)

    def received(self, packet: Listed, now: int, out: list[Action]) -> LayerPacket | None:
        """Pass a packet on; returns what is in it if it is for this node as well."""
        me = self.plane.node
        others = tuple(target for target in packet.targets if target != me)
        if others:
            self._pass_on(_part(packet, others), now, out)
        return packet.inner if len(others) < len(packet.targets) else None

    def find(self, topology: int) -> Routes | None:
        """The routes in a view, if this node knows it."""
        return self._known.get(topology)

    def rerouted(self, now: int, out: list[Action]) -> None:
        """Routes have been computed: what was held can go on."""
        routes = self.plane.routes
        self._known.pop(routes.digest, None)  # the newest stands last
        self._known[routes.digest] = routes
        while len(self._known) > KNOWN:
            del self._known[next(iter(self._known))]
        held, self._held = self._held, []
        for until, packet in held:
            self._pass_on(packet, now, out, until)

    def timer(self) -> int | None:
        """When to wake."""
        return min(until for until, _ in self._held) if self._held else None

    def wake(self, now: int, out: list[Action]) -> None:
        """Give up what has been held for too long."""
        if not self._held or min(until for until, _ in self._held) > now:
            return
        late = [packet for until, packet in self._held if until <= now]
        self._held = [(until, packet) for until, packet in self._held if until > now]
        out.extend(Drop("no path", packet) for packet in late)

    def _pass_on(
        self, packet: Listed, now: int, out: list[Action], until: int | None = None
    ) -> None:
        """Divide the targets by the next hop, and send each neighbour its part."""
        newest = self.plane.routes
        routes = self._known.get(packet.topology)
        left: dict[str, None] = dict.fromkeys(packet.targets)
        if routes is not None:
            for hop, part in self._divide(routes, left):
                out.append(Send(hop, _part(packet, part)))
        if not left:
            return
        if not self.plane.is_settled():
            self._hold(_part(packet, tuple(left)), now, until, out)
            return
        if routes is not newest and packet.turns < MOST_TURNS:
            turns, root = packet.turns + 1, self.plane.node
            for hop, part in self._divide(newest, left):
                out.append(Send(hop, Listed(part, newest.digest, turns, packet.inner, root)))
        if left:
            out.append(Drop("no path", _part(packet, tuple(left))))

    def _divide(self, routes: Routes, left: dict[str, None]) -> list[tuple[str, tuple[str, ...]]]:
        """The targets behind each neighbour whose link is up; those are no longer left."""
        parts: dict[str, list[str]] = {}
        is_up = self.plane.neighbours.is_up
        for target in left:
            hop = routes.hop.get(target)
            if hop is not None and is_up(hop):
                parts.setdefault(hop, []).append(target)
        for part in parts.values():
            for target in part:
                del left[target]
        return [(hop, tuple(part)) for hop, part in parts.items()]

    def _hold(self, packet: Listed, now: int, until: int | None, out: list[Action]) -> None:
        mine = packet.inner.application
        if sum(held.inner.application == mine for _, held in self._held) >= MOST_HELD:
            out.append(Drop("no path", packet))
            return
        if until is None:
            until = now + 2 * self.plane.timing.hold_most
        self._held.append((until, packet))


def _part(packet: Listed, targets: tuple[str, ...]) -> Listed:
    """The same packet for some of its targets."""
    return Listed(targets, packet.topology, packet.turns, packet.inner, packet.root)
