"""Any node to any other: one envelope, `Parcel`, and two carriers that bring it there.

`Carried` sends a parcel hop by hop over the routes of the link-state plane. It works on every
network, in the simulator and live. A packet for a node takes as many packets as there are hops.
While routes change, nodes may disagree about the next hop; a parcel then goes back and forth until
they agree. A node that has yet to compute its routes holds a parcel until it has (`rerouted`), so a
parcel is lost only if a link fails or it makes too many hops. Copies that links make are
dropped, so a parcel arrives once at most.

`Meshed` is the model of peer-to-peer papers, for the simulator: a node speaks to whomever it has
heard of, and the network below takes its shortest path. The protocol's row must declare `anyone`.

Both take and give packets in the same manner, so a protocol need not know which one it has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from typing import Protocol as Interface

import msgspec

from tidings.routing.packets import Contents, Parcel
from tidings.routing.planes.link_state import LinkState
from tidings.routing.protocol import Action, Drop, Send

REMEMBERED: Final = 1_024  # parcels of each source
SOURCES: Final = 4_096  # whose parcels are remembered
MOST_HELD: Final = 1_024  # parcels that wait for routes
MOST_HOPS: Final = 255  # of a parcel; a path is shorter, so beyond that it goes in circles


class Carrier(Interface):
    """Brings a packet to a node that need not be a neighbour."""

    @property
    def reach(self) -> Collection[str]:
        """The nodes that it can send to."""

    def send(self, target: str, packet: Contents, out: list[Action]) -> bool:
        """Send a packet to another node; False, and a `Drop`, if there is no path to it."""

    def received(self, neighbour: str, parcel: Parcel, out: list[Action]) -> Contents | None:
        """A parcel has come: its packet if it is for this node, else it is sent on."""


class Carried:
    """Parcels hop by hop, over the routes of the link-state plane."""

    def __init__(self, node: str, plane: LinkState) -> None:
        self.node = node
        self._plane = plane
        self._number = 0
        self._copies = Copies()
        self._held: list[Parcel] = []  # until there are routes

    @property
    def reach(self) -> Collection[str]:
        """The nodes that it can send to."""
        return self._plane.routes.hop.keys()

    def rerouted(self, out: list[Action]) -> None:
        """The plane is settled: what was held goes on, or there is no path."""
        held, self._held = self._held, []
        for parcel in held:
            self._pass(parcel, out)

    def send(self, target: str, packet: Contents, out: list[Action]) -> bool:
        """Send a packet to another node; False, and a `Drop`, if there is no path to it."""
        self._number += 1
        return self._pass(Parcel(self.node, self._plane.life, self._number, target, 0, packet), out)

    def received(self, neighbour: str, parcel: Parcel, out: list[Action]) -> Contents | None:
        """A parcel has come: its packet if it is for this node, else it is sent on."""
        if not self._copies.first(parcel):
            out.append(Drop("a duplicate", parcel))
        elif parcel.target == self.node:
            return parcel.packet
        else:
            self._pass(msgspec.structs.replace(parcel, hops=parcel.hops + 1), out)
        return None

    def _pass(self, parcel: Parcel, out: list[Action]) -> bool:
        hop = self._plane.routes.hop.get(parcel.target)
        is_up = hop is not None and self._plane.neighbours.is_up(hop)
        if not is_up and not self._plane.is_settled() and len(self._held) < MOST_HELD:
            self._held.append(parcel)
            return True
        if hop is None:
            out.append(Drop("no path", parcel))
        elif parcel.hops > MOST_HOPS:
            out.append(Drop("too many hops", parcel))
        elif not is_up:
            out.append(Drop("the link is down", parcel))
        else:
            out.append(Send(hop, parcel))
            return True
        return False


class Copies:
    """Tells a copy of a parcel, which a link has made, from one that comes back by a detour."""

    def __init__(self) -> None:
        self._hops: dict[tuple[str, int], dict[int, int]] = {}  # by source and life: number, hops

    def first(self, parcel: Parcel) -> bool:
        """Whether the parcel is no copy. One that has come back has made more hops."""
        seen = self._hops.setdefault((parcel.source, parcel.life), {})
        if parcel.hops <= seen.get(parcel.number, -1):
            return False
        if len(seen) >= REMEMBERED and parcel.number not in seen:
            del seen[next(iter(seen))]
        seen[parcel.number] = parcel.hops
        if len(self._hops) > SOURCES:
            del self._hops[next(iter(self._hops))]
        return True


class Meshed:
    """Parcels straight to any node that this one has heard of.

    >>> from tidings.routing.packets import Hello
    >>> mesh, out = Meshed("a", 1), []
    >>> mesh.meet("c")
    >>> mesh.send("c", Hello(1, 0, 0), out), mesh.send("d", Hello(1, 0, 0), out)
    (True, False)
    """

    def __init__(self, node: str, life: int) -> None:
        self.node = node
        self.life = life
        self._heard: dict[str, None] = {}
        self._number = 0
        self._copies = Copies()

    @property
    def reach(self) -> Collection[str]:
        """The nodes that it can send to."""
        return self._heard.keys()

    def meet(self, name: str) -> None:
        """Note that there is such a node, because it has sent something or another named it."""
        if name != self.node:
            self._heard[name] = None

    def forget(self, name: str) -> None:
        """Note that a node has gone."""
        self._heard.pop(name, None)

    def send(self, target: str, packet: Contents, out: list[Action]) -> bool:
        """Send a packet to another node; False, and a `Drop`, if it was never heard of."""
        self._number += 1
        parcel = Parcel(self.node, self.life, self._number, target, 0, packet)
        if target not in self._heard:
            out.append(Drop("not heard of", parcel))
            return False
        out.append(Send(target, parcel))
        return True

    def received(self, neighbour: str, parcel: Parcel, out: list[Action]) -> Contents | None:
        """A parcel has come: its packet, if it is for this node."""
        self.meet(parcel.source)
        if parcel.target != self.node:
            out.append(Drop("for another node", parcel))
        elif not self._copies.first(parcel):
            out.append(Drop("a duplicate", parcel))
        else:
            return parcel.packet
        return None
