"""What protocols ask of a structured overlay: who is in charge of a key, and how to get there.

A substrate is one node's part in an overlay: causes go in, actions come out, and it has no clock.
It speaks to other nodes by a carrier. The law of `split`: the nodes of an arc but the first are in
its parts, each in exactly one, and every part is strictly shorter than the arc. So whatever is
divided by it again and again ends, and reaches every node once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from tidings.overlay.ideal import IdealRing
from tidings.overlay.keys import Circle
from tidings.routing.packets import RingPacket
from tidings.routing.protocol import Action


class Portion(NamedTuple):
    """A part of an arc: the node at its head, in charge of it as far as the end (not included)."""

    head: str
    end: int


class Substrate(Protocol):
    """One node's part in a structured overlay."""

    node: str
    key: int
    circle: Circle
    epoch: int  # grows whenever `owns`, `hop` or `split` may answer otherwise

    def begin_at_rest(self, ideal: IdealRing, now: int) -> None:
        """Be as in an overlay at rest, by its twin: so simulations begin with many nodes."""

    def heard(self, now: int, out: list[Action]) -> None:
        """The carrier may have got to know other nodes."""

    def lost(self, names: Iterable[str], now: int, out: list[Action]) -> None:
        """These nodes cannot be reached, or have begun a new life."""

    def leave(self, out: list[Action]) -> None:
        """Say good-bye to those beside this node."""

    def received(self, source: str, packet: RingPacket, now: int, out: list[Action]) -> None:
        """A packet of the overlay has come."""

    def timer(self) -> int | None:
        """When to wake."""

    def wake(self, now: int, out: list[Action]) -> None:
        """Do what is due."""

    def owns(self, key: int) -> bool:
        """Whether this node is in charge of a key."""

    def hop(self, key: int) -> str | None:
        """The next node towards the one in charge of a key; None: here.

        At rest it is strictly nearer, as the overlay measures it, so paths end.
        """

    def split(self, end: int) -> tuple[Portion, ...]:
        """The arc from this node to an end, divided among the nodes that it knows in it."""

    def replicas(self, count: int) -> tuple[str, ...]:
        """Who would take over the keys of this node."""

    def neighbours(self) -> tuple[str, ...]:
        """The nodes that it keeps."""

    def beside(self) -> tuple[str | None, str | None]:
        """The node before this one and the one behind it, by their keys."""

    def ideal(self, names: Iterable[str]) -> IdealRing:
        """The slow twin: what the overlay of these nodes must look like at rest."""

    def is_settled(self) -> bool:
        """Whether it has found its place, as far as it knows."""

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values: at rest, those of the ideal."""
