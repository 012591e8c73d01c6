"""Every message, as MessagePack: a short array that begins with a number for its kind.

Three conversations: the greeting, by which the two ends come to know each other; a client with its
router; two routers. Each has its own decoder, so that a message of another is malformed. What is
numbered is taken in the order of its numbers and acknowledged by the newest, so that after a
reconnection each end can say from where to go on. `docs/protocol.md` tells the whole of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from tidings.routing.packets import Packet
from tidings.wire.errors import WireError

VERSION: Final = 1
RECEIVED, ROUTED, DELIVERED = 0, 1, 2
LEVELS: Final = {"received": RECEIVED, "routed": ROUTED, "delivered": DELIVERED}
POLICIES: Final = ("block", "drop", "disconnect")

Name = Annotated[str, Meta(max_length=128)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(max_length=64 * 1024)]


# The greeting


class Open(Struct, frozen=True, array_like=True, tag=1):
    """A client's first message."""

    version: int
    token: Name
    session: Name  # to go on with, or empty for a new one
    heard: Number  # the newest delivery that it has
    noticed: Number  # how many notices of the session it has
    policy: Name  # what becomes of deliveries that are not taken: one of POLICIES
    window: Annotated[int, Meta(ge=1, le=65_536)]  # deliveries sent and not yet taken


class Join(Struct, frozen=True, array_like=True, tag=2):
    """A router's first message to another, and the answer to it."""

    version: int
    node: Annotated[str, Meta(min_length=1, max_length=128)]
    life: Number
    token: Name
    cost: Annotated[int, Meta(ge=1, le=1_000_000)]
    known: Number  # the life of the other's that it holds numbers of, or 0
    heard: Number  # the newest number that has come from that life


class Opened(Struct, frozen=True, array_like=True, tag=3):
    """A client is known."""

    node: str
    session: str
    resumed: bool
    published: Number  # the newest publication that was taken from the session


class Failed(Struct, frozen=True, array_like=True, tag=4):
    """What was wrong; the connection ends."""

    code: str
    detail: str


# Client to router


class Publish(Struct, frozen=True, array_like=True, tag=10):
    """Events, numbered from the first on."""

    first: Number
    level: Annotated[int, Meta(ge=0, le=2)]  # of which an acknowledgement is wanted
    events: Annotated[list[dict[str, Any]], Meta(max_length=4_096)]


class Subscribe(Struct, frozen=True, array_like=True, tag=11):
    """A subscription, or another predicate for one that is held."""

    request: Number
    id: Number
    predicate: Text


class Unsubscribe(Struct, frozen=True, array_like=True, tag=12):
    """The subscription is given up."""

    request: Number
    id: Number


class Advertise(Struct, frozen=True, array_like=True, tag=13):
    """What this client is going to publish: nothing else is taken from it."""

    request: Number
    predicate: Text


class Feedback(Struct, frozen=True, array_like=True, tag=14):
    """A reply to the publisher of an event."""

    request: Number
    source: Name
    life: Number
    number: Number
    reply: dict[str, Any]


class Ask(Struct, frozen=True, array_like=True, tag=15):
    """A query about the network: `trace`, `why` or `status`."""

    request: Number
    kind: Name
    event: dict[str, Any]
    subscription: Name


class Take(Struct, frozen=True, gc=False, array_like=True, tag=16):
    """Deliveries up to this number have been taken, and so many notices have come."""

    number: Number
    noticed: Number


class Ping(Struct, frozen=True, gc=False, array_like=True, tag=17):
    """Anything at all, so that the other end knows that we are here; from either side."""


class Close(Struct, frozen=True, gc=False, array_like=True, tag=18):
    """The session ends: nothing is kept for it."""


# Router to client. Those that are *notices* are counted by both ends, and after a break sent again
# from where the count of the client ends.


class Published(Struct, frozen=True, gc=False, array_like=True, tag=30):
    """Publications up to this number have been received."""

    number: Number


class Reached(Struct, frozen=True, array_like=True, tag=31):
    """Single publications have reached the level asked for, or it cannot be known any more."""

    numbers: list[int]
    lost: list[int]


class Refused(Struct, frozen=True, array_like=True, tag=32):
    """A publication is not taken, and why."""

    number: Number
    reason: str


class Done(Struct, frozen=True, array_like=True, tag=33):
    """A request has been carried out, or why not."""

    request: Number
    error: str  # empty if it has
    id: str  # of a subscription: its name in the network


class Established(Struct, frozen=True, array_like=True, tag=34):
    """From here on no event that matches is missed, while the network is stable."""

    ids: list[int]
    epoch: Number


class Delivery(Struct, frozen=True, array_like=True):
    """An event and the subscriptions that it is for."""

    ids: list[int]
    source: str  # the router where it was published
    life: int
    number: int
    event: Raw


class Deliveries(Struct, frozen=True, array_like=True, tag=35):
    """Deliveries, numbered from the first on."""

    first: Number
    items: list[Delivery]


class Dropped(Struct, frozen=True, gc=False, array_like=True, tag=36):
    """So many deliveries of the session have been dropped by now, for they were not taken."""

    count: Number


class Reply(Struct, frozen=True, array_like=True, tag=37):
    """Feedback on a publication of this session."""

    number: Number
    reply: dict[str, Any]


class Answer(Struct, frozen=True, array_like=True, tag=38):
    """The answer to a query: what each router found."""

    request: Number
    error: str
    findings: list[dict[str, Any]]


# Router to router


class Carry(Struct, frozen=True, array_like=True, tag=50):
    """Packets of the protocol, numbered from the first on."""

    first: Number
    packets: Annotated[list[Packet], Meta(max_length=4_096)]
    confirm: list[int]  # those whose delivery is to be confirmed, counted from 0


class Taken(Struct, frozen=True, gc=False, array_like=True, tag=51):
    """Packets up to this number have been worked on."""

    number: Number


class Confirmed(Struct, frozen=True, array_like=True, tag=52):
    """Packets whose events were delivered everywhere below, and those of which it is not known."""

    numbers: list[int]
    lost: list[int]


class Probe(Struct, frozen=True, array_like=True, tag=53):
    """A query that goes the way of an event, or to one router, or everywhere."""

    id: Name
    kind: Name
    source: Name
    event: dict[str, Any]
    subscription: Name
    hops: Annotated[int, Meta(ge=0, le=64)]


class Found(Struct, frozen=True, array_like=True, tag=54):
    """What was found at a router and beyond."""

    id: Name
    findings: Annotated[list[dict[str, Any]], Meta(max_length=4_096)]


NOTICES: Final = (Reached, Refused, Done, Established, Reply, Answer)
Greeting = Open | Join | Opened | Failed
FromClient = Publish | Subscribe | Unsubscribe | Advertise | Feedback | Ask | Take | Ping | Close
ToClient = (
    Published
    | Reached
    | Refused
    | Done
    | Established
    | Deliveries
    | Dropped
    | Reply
    | Answer
    | Ping
    | Failed
)
Between = Carry | Taken | Confirmed | Probe | Found | Ping | Failed
Message = Greeting | FromClient | ToClient | Between

encode: Final = msgspec.msgpack.Encoder().encode
_DECODERS: Final = {
    "greeting": msgspec.msgpack.Decoder(Greeting),
    "from client": msgspec.msgpack.Decoder(FromClient),
    "to client": msgspec.msgpack.Decoder(ToClient),
    "between": msgspec.msgpack.Decoder(Between),
}
CONVERSATIONS: Final = tuple(_DECODERS)


def decode(body: bytes, conversation: str) -> Any:
    """The message of a frame in a conversation; `WireError` for whatever is none.

    >>> decode(encode(Take(7, 0)), "from client")
    Take(number=7, noticed=0)
    """
    try:
        return _DECODERS[conversation].decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, ValueError) as error:
        raise WireError("malformed", str(error)[:200]) from None
