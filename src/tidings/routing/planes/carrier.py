"""Any node to any other: one envelope, `Parcel`, and two carriers that bring it there.

`Carried` sends a parcel hop by hop over the routes of the link-state plane. It works on every
network, in the simulator and live. A packet for a node takes as many packets as there are hops.
While routes change, nodes may disagree about the next hop; a parcel then goes back and forth until
they agree, and is lost only if a link fails or it makes too many hops.

`Meshed` is the model of peer-to-peer papers, for the simulator: a node speaks to whomever it has
heard of, and the network below takes its shortest path. The protocol's row must declare `anyone`.

Both take and give packets in the same manner, so a protocol need not know which one it has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from typing import Protocol as Interface

from tidings.routing.packets import Contents, Parcel
from tidings.routing.planes.link_state import LinkState
from tidings.routing.protocol import Action, Drop, Send

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

    @property
    def reach(self) -> Collection[str]:
        """The nodes that it can send to."""
        return self._plane.routes.hop.keys()

    def send(self, target: str, packet: Contents, out: list[Action]) -> bool:
        """Send a packet to another node; False, and a `Drop`, if there is no path to it."""
        return self._pass(Parcel(self.node, target, 0, packet), out)

    def received(self, neighbour: str, parcel: Parcel, out: list[Action]) -> Contents | None:
        """A parcel has come: its packet if it is for this node, else it is sent on."""
        if parcel.target == self.node:
            return parcel.packet
        self._pass(Parcel(parcel.source, parcel.target, parcel.hops + 1, parcel.packet), out)
        return None

    def _pass(self, parcel: Parcel, out: list[Action]) -> bool:
        hop = self._plane.routes.hop.get(parcel.target)
        if hop is None:
            out.append(Drop("no path", parcel))
        elif parcel.hops > MOST_HOPS:
            out.append(Drop("too many hops", parcel))
        elif not self._plane.neighbours.is_up(hop):
            out.append(Drop("the link is down", parcel))
        else:
            out.append(Send(hop, parcel))
            return True
        return False


class Meshed:
    """Parcels straight to any node that this one has heard of.

    >>> mesh, out = Meshed("a"), []
    >>> mesh.meet("c")
    >>> from tidings.routing.packets import Again
    >>> mesh.send("c", Again(), out), mesh.send("d", Again(), out)
    (True, False)
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self._heard: dict[str, None] = {}

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
        parcel = Parcel(self.node, target, 0, packet)
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
            return None
        return parcel.packet
