"""Every message, as MessagePack: a short array that begins with the number of its kind.

There are three conversations: the greeting, in which the two ends introduce themselves; a client
with its router; two routers. Each has its own decoder, so a message of another conversation is
malformed. Numbered items arrive in the order of their numbers, and the newest number acknowledges
all before it, so after a reconnection each end can say where to go on. `docs/protocol.md` describes
it all.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from tidings.routing.packets import Packet
from tidings.wire.errors import WireError

VERSION: Final = 5
RECEIVED, ROUTED, DELIVERED = 0, 1, 2
LEVELS: Final = {"received": RECEIVED, "routed": ROUTED, "delivered": DELIVERED}
POLICIES: Final = ("block", "drop", "disconnect")

MAX_PREDICATE: Final = 64 * 1024  # characters
MAX_NAME: Final = 128  # characters
MAX_AGREEMENT: Final = 2_048  # characters
MAX_WINDOW: Final = 65_536  # deliveries sent ahead of `Take`
Name = Annotated[str, Meta(max_length=MAX_NAME)]
Agreement = Annotated[str, Meta(max_length=MAX_AGREEMENT)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(max_length=MAX_PREDICATE)]


# The greeting


def is_name(value: object) -> bool:
    """Whether a message may have it for a name, or for a token: a text that is not too long.

    >>> is_name("a"), is_name("a" * 200), is_name(7)
    (True, False, False)
    """
    if not isinstance(value, str) or len(value) > MAX_NAME:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


class Open(Struct, frozen=True, array_like=True, tag=1):
    """A client's first message."""

    version: int
    token: Name
    session: Name  # to resume, or empty for a new one
    heard: Number  # the newest delivery that the client has
    taken: Number  # the newest that its program has taken
    noticed: Number  # how many notices of the session the client has
    policy: Name  # for deliveries that the client does not take: one of POLICIES
    window: Annotated[int, Meta(ge=1, le=MAX_WINDOW)]  # deliveries sent ahead of `Take`
    application: Name = ""  # whose events it publishes and gets


class Join(Struct, frozen=True, array_like=True, tag=2):
    """A router's first message to another, and the answer to it."""

    version: int
    node: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    life: Number
    token: Name
    cost: Annotated[int, Meta(ge=1, le=1_000_000)]
    began: Number  # drawn whenever this end begins the link anew: names its numbers
    known: Number  # the other end's `began` whose numbers this one holds, or 0
    heard: Number  # the newest number received of those
    protocol: Agreement = ""  # with the options that both ends must have alike; empty: any


class Opened(Struct, frozen=True, array_like=True, tag=3):
    """The router's answer to `Open`."""

    node: str
    session: str
    resumed: bool
    published: Number  # the newest publication received from the session
    credit: Number  # publications that the client may have unacknowledged
    credit_bytes: Number
    requested: Number = 0  # the newest request received from the session


class Failed(Struct, frozen=True, array_like=True, tag=4):
    """What was wrong; it ends the connection."""

    code: str
    detail: str


# Client to router


class Publish(Struct, frozen=True, array_like=True, tag=10):
    """Events, numbered from `first`."""

    first: Number
    level: Annotated[int, Meta(ge=0, le=2)]  # to acknowledge: one of LEVELS
    events: Annotated[list[dict[str, Any]], Meta(max_length=4_096)]


class Subscribe(Struct, frozen=True, array_like=True, tag=11):
    """A new subscription, or another predicate for one that exists."""

    request: Number
    id: Number
    predicate: Text


class Unsubscribe(Struct, frozen=True, array_like=True, tag=12):
    """The end of a subscription."""

    request: Number
    id: Number


class Advertise(Struct, frozen=True, array_like=True, tag=13):
    """What this client publishes; the router refuses events that match no advertisement."""

    request: Number
    id: Number
    predicate: Text


class Unadvertise(Struct, frozen=True, array_like=True, tag=19):
    """The end of an advertisement."""

    request: Number
    id: Number


class Feedback(Struct, frozen=True, array_like=True, tag=14):
    """A reply to the publisher of an event."""

    request: Number
    source: Name
    life: Number
    number: Number
    ticket: Number  # of its delivery: only who got the event knows it
    reply: dict[str, Any]


class Ask(Struct, frozen=True, array_like=True, tag=15):
    """A query about the network: `trace`, `why` or `status`."""

    request: Number
    kind: Name
    event: dict[str, Any]
    subscription: Name


class Take(Struct, frozen=True, gc=False, array_like=True, tag=16):
    """The program has taken deliveries up to `number`; `noticed` notices have arrived."""

    number: Number
    noticed: Number


class Ping(Struct, frozen=True, gc=False, array_like=True, tag=17):
    """A sign of life, from either end."""


class Close(Struct, frozen=True, gc=False, array_like=True, tag=18):
    """The end of the session; the router keeps nothing of it."""


# Router to client. Both ends count *notices*; after a break the router sends again those that the
# client has not counted.


class Published(Struct, frozen=True, gc=False, array_like=True, tag=30):
    """The router has received publications up to this number."""

    number: Number


class Reached(Struct, frozen=True, array_like=True, tag=31):
    """Publications that have reached the requested level, and those whose outcome is unknown."""

    numbers: list[int]
    lost: list[int]


class Refused(Struct, frozen=True, array_like=True, tag=32):
    """The router refuses a publication, and why."""

    number: Number
    reason: str


class Done(Struct, frozen=True, array_like=True, tag=33):
    """The router has carried out a request, or why it has not."""

    request: Number
    error: str  # empty if it was carried out
    id: str  # the name in the network, if it was a subscription


class Established(Struct, frozen=True, array_like=True, tag=34):
    """From now on these subscriptions miss no matching event while the network is stable."""

    ids: list[int]
    epoch: Number


class Delivery(Struct, frozen=True, array_like=True):
    """An event and the client's subscriptions that it matches."""

    ids: list[int]
    source: str  # the router where it was published
    life: int
    number: int
    ticket: int  # to reply with
    event: Raw


class Deliveries(Struct, frozen=True, array_like=True, tag=35):
    """Deliveries, numbered from `first`."""

    first: Number
    items: list[Delivery]


class Dropped(Struct, frozen=True, gc=False, array_like=True, tag=36):
    """How many deliveries of the session the router has dropped so far, by policy `drop`."""

    count: Number


class Reply(Struct, frozen=True, array_like=True, tag=37):
    """Feedback on a publication of this session."""

    number: Number
    reply: dict[str, Any]


class Unanswered(Struct, frozen=True, array_like=True, tag=39):
    """Feedback that this client sent did not reach its publisher, and why."""

    request: Number  # of the feedback
    reason: str


class Rejected(Struct, frozen=True, array_like=True, tag=40):
    """The network cannot serve these subscriptions, and why; they are over."""

    ids: list[int]
    reason: str


class Answer(Struct, frozen=True, array_like=True, tag=38):
    """The answer to a query: the findings of each router."""

    request: Number
    error: str
    findings: list[dict[str, Any]]


# Router to router


class Carry(Struct, frozen=True, array_like=True, tag=50):
    """Packets of the protocol, numbered from `first`."""

    first: Number
    packets: Annotated[list[Packet], Meta(max_length=4_096)]
    confirm: list[int]  # positions of the packets whose delivery to confirm, from 0


class Taken(Struct, frozen=True, array_like=True, tag=51):
    """The packets up to this number have arrived; which events the router has processed.

    After a break it says instead which lanes wait: all other events that have arrived are
    processed.
    """

    number: Number
    worked: list[tuple[Name, int, Number]]  # source and tree; the newest packet processed
    waiting: list[tuple[Name, int, Number]] | None  # source and tree; the first one that waits


class Confirmed(Struct, frozen=True, array_like=True, tag=52):
    """Packets whose events were delivered everywhere downstream, and those of unknown outcome."""

    numbers: list[int]
    lost: list[int]


class Probe(Struct, frozen=True, array_like=True, tag=53):
    """A query that follows the route of an event, or goes to one router or to all."""

    id: Name
    kind: Name
    source: Name
    event: dict[str, Any]
    subscription: Name
    hops: Annotated[int, Meta(ge=0, le=64)]
    application: Name = ""


class Found(Struct, frozen=True, array_like=True, tag=54):
    """The findings of a router and of those that it asked."""

    id: Name
    findings: Annotated[list[dict[str, Any]], Meta(max_length=4_096)]


NOTICES: Final = (
    Reached,
    Refused,
    Done,
    Established,
    Reply,
    Answer,
    Unanswered,
    Rejected,
)
Greeting = Open | Join | Opened | Failed
FromClient = (
    Publish
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Feedback
    | Ask
    | Take
    | Ping
    | Close
    | Failed
)
ToClient = (
    Published
    | Reached
    | Refused
    | Done
    | Established
    | Deliveries
    | Dropped
    | Reply
    | Unanswered
    | Rejected
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
    """Decode the body of a frame in a conversation; `WireError` if it is not a message of it.

    >>> decode(encode(Take(7, 0)), "from client")
    Take(number=7, noticed=0)
    """
    try:
        return _DECODERS[conversation].decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, ValueError) as error:
        raise WireError("malformed", str(error)[:200]) from None
