"""What every protocol is: causes in, actions out, no input or output of its own.

    handle(cause, now) -> actions    timer() -> when to wake it, or None    snapshot() -> state
    look_ahead(events) -> which of the events, if published here now, somebody may want
    explain_links(source, event) -> for each link, whether the event would take it, and why
    is_settled(), is_switching, hops, life_of(node), table: what those around it must know

Time is nanoseconds on the node's own clock, which may leap, forward and back. Equal state and cause
give equal actions: a protocol reads no clock, draws no random numbers, and depends on no order
except that of its causes. The simulator and the live router are the same short loop around it.
Causes and actions are plain values, so a run can be recorded and replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from typing import Protocol as Interface

from msgspec import Struct

from tidings.routing.packets import Packet, Publication

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000 * MILLISECOND


# Causes


class Received(Struct, frozen=True, gc=False, tag=True):
    """A neighbour has sent a packet."""

    neighbour: str
    packet: Packet


class Woken(Struct, frozen=True, gc=False, tag=True):
    """The time that `timer` gave has come."""


class LinkUp(Struct, frozen=True, gc=False, tag=True):
    """There is a link to this neighbour, at this cost."""

    neighbour: str
    cost: int


class LinkDown(Struct, frozen=True, gc=False, tag=True):
    """The link to this neighbour is gone."""

    neighbour: str


class Subscribe(Struct, frozen=True, gc=False, tag=True):
    """A subscription, or another predicate for one that is held."""

    id: str
    predicate: str


class Unsubscribe(Struct, frozen=True, gc=False, tag=True, repr_omit_defaults=True):
    """A subscriber gives a subscription up: the one with this id, or without an id the oldest with
    an equal predicate."""

    id: str
    predicate: str = ""


class Publish(Struct, frozen=True, gc=False, tag=True):
    """Someone publishes an event here."""

    event: dict[str, Any]


class Unwanted(Struct, frozen=True, gc=False, tag=True):
    """So many events were published here that `look_ahead` left out: they are numbered, no more."""

    count: int


class Advertise(Struct, frozen=True, gc=False, tag=True):
    """What is published here from now on matches this, or another advertisement of this node."""

    id: str
    predicate: str


class Unadvertise(Struct, frozen=True, gc=False, tag=True):
    """An advertisement is withdrawn."""

    id: str


class Feedback(Struct, frozen=True, gc=False, tag=True, repr_omit_defaults=True):
    """A subscriber here replies to the publisher of an event."""

    id: int  # by which it hears if the publisher is gone; another for each reply of this node
    source: str  # node, life and number of the publication
    life: int
    number: int
    message: dict[str, Any]
    application: str = ""  # of the event


class Decline(Struct, frozen=True, gc=False, tag=True):
    """Whoever published the event is no longer here: tell the one who replied (`Answered`)."""

    replier: str
    replier_life: int
    id: int
    reason: str


class Within(Struct, frozen=True, gc=False, tag=True):
    """A cause of one of the applications that share a node (L4)."""

    application: str
    cause: Subscribe | Unsubscribe | Publish


class Configure(Struct, frozen=True, gc=False, tag=True):
    """From now on an application has these settings, at every node (L4)."""

    application: str
    settings: dict[str, Any]


class Host(Struct, frozen=True, gc=False, tag=True):
    """From now on the node carries an application, with these settings (L4)."""

    application: str
    settings: dict[str, Any]


class Unhost(Struct, frozen=True, gc=False, tag=True):
    """From now on the node does not carry an application."""

    application: str


class Leave(Struct, frozen=True, gc=False, tag=True):
    """The node is about to stop, and says good-bye."""


Cause = (
    Received
    | Woken
    | LinkUp
    | LinkDown
    | Subscribe
    | Unsubscribe
    | Publish
    | Unwanted
    | Advertise
    | Unadvertise
    | Feedback
    | Decline
    | Within
    | Configure
    | Host
    | Unhost
    | Leave
)


# Actions


class Send(Struct, frozen=True, gc=False, tag=True):
    """Give a packet to a neighbour."""

    neighbour: str
    packet: Packet


class Deliver(Struct, frozen=True, gc=False, tag=True, repr_omit_defaults=True):
    """Hand an event to these subscriptions."""

    subscriptions: tuple[str, ...]
    publication: Publication
    application: str = ""


class Established(Struct, frozen=True, gc=False, tag=True, repr_omit_defaults=True):
    """Every node in reach now sends these subscriptions what they match."""

    subscriptions: tuple[str, ...]
    application: str = ""


class Drop(Struct, frozen=True, gc=False, tag=True):
    """A packet goes no further, and why."""

    reason: str
    packet: Packet


class InForce(Struct, frozen=True, gc=False, tag=True):
    """What is published here from now on, and matches these advertisements, reaches every
    subscription that is established."""

    ids: tuple[str, ...]


class Refused(Struct, frozen=True, gc=False, tag=True, repr_omit_defaults=True):
    """The protocol cannot serve these subscriptions, and why; it has given them up."""

    subscriptions: tuple[str, ...]
    reason: str
    application: str = ""


class Answered(Struct, frozen=True, gc=False, tag=True, repr_omit_defaults=True):
    """Feedback has come for whoever published the event of this number here."""

    number: int
    message: dict[str, Any]
    replier: str  # node, life and id of the reply, to decline it
    replier_life: int
    id: int
    application: str = ""  # of the event


class Unanswered(Struct, frozen=True, gc=False, tag=True):
    """The feedback of this id did not reach its publisher, and why."""

    id: int
    reason: str


class Broadcast(Struct, frozen=True, gc=False, tag=True):
    """Give a packet to whoever hears this node, at once (the air of paper M)."""

    packet: Packet


Action = Send | Deliver | Established | Drop | InForce | Refused | Answered | Unanswered | Broadcast


class Timing(NamedTuple):
    """How long a protocol waits before it does something, or does it again; all in nanoseconds."""

    hello: int = 250 * MILLISECOND  # between hellos
    dead: int = 1_000 * MILLISECOND  # without a hello, until a link counts as down
    gather: int = 25 * MILLISECOND  # in which a node collects changes of its links, to tell them
    hold: int = 100 * MILLISECOND  # without news of links, until a node computes its routes
    hold_most: int = 1_000 * MILLISECOND  # after the first news, it does so in any case
    refresh: int = 10 * SECOND  # between two records that a node sends of its links
    age: int = 35 * SECOND  # at which nodes forget a record
    retry: int = 1_000 * MILLISECOND  # until a node repeats what was not answered (backoff)
    pull: int = 10 * SECOND  # between two requests for what the others want


USUAL: Final = Timing()


def earliest(*times: int | None) -> int | None:
    """The earliest of some times, where None is never."""
    found = None
    for time in times:
        if time is not None and (found is None or time < found):
            found = time
    return found


def all_wanted(events: Sequence[dict[str, Any]]) -> Sequence[int]:
    """What `look_ahead` says where nobody can tell before: the places of all events."""
    return range(len(events))


class Protocol(Interface):
    """A node of a network, without its sockets."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""

    def timer(self) -> int | None:
        """When to wake it with `Woken`."""

    def snapshot(self) -> dict[str, Any]:
        """Its state as plain values."""

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """The places of the events that somebody may want, if they are published here now.

        Until anything but an event happens, `Unwanted` does for all others what `Publish` would.
        """

    def is_settled(self) -> bool:
        """Whether it is at rest: it has told and heard all that it must, as far as it knows."""

    @property
    def is_switching(self) -> bool:
        """Whether its publishers must wait, because later events might overtake theirs."""

    @property
    def hops(self) -> Mapping[str, str] | None:
        """The neighbour that leads to each node that it knows of; None if it knows no paths."""

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it cannot tell."""

    @property
    def table(self) -> dict[str, str]:
        """The predicate that it keeps for each interface, itself and not a copy; perhaps empty."""

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why.

        Nothing is sent. The link by which the event comes here is never taken, whatever is said of
        it: not every protocol knows which one that is.
        """
