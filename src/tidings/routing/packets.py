"""What nodes say to each other: every packet that a protocol sends.

Packets are values: frozen and comparable. As MessagePack, a packet is a short array that begins
with the number of its kind. The simulator counts its bytes, the wire sends them. The name of a node
is a text. A *life* (an incarnation) is a number that a node gets when it starts without a memory;
lives are told apart, never ordered. Within a life, numbers grow.

Kinds below 20 are of planes and of the first protocols. Each family has twenty numbers of its own:
from 20 the reverse path, 40 layers, lists and groups, 60 structured overlays, 80 keys, 100 semantic
overlays, 120 the air; from 140 there are further planes. A packet that bears an event has a row in
`BEARERS`; no other wraps one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from msgspec import Struct


class Hello(Struct, frozen=True, gc=False, array_like=True, tag=1):
    """I am here."""

    life: int
    heard: int  # the life of yours that I hear, 0 if none: both hear, or the link is not used
    digest: int  # of what I know; if yours differs, we compare


class Record(Struct, frozen=True, gc=False, array_like=True):
    """The links of one node, as it tells everybody."""

    origin: str
    life: int
    number: int  # the larger is the newer
    age_ms: int  # since its origin sent it: it expires everywhere at about the same time
    links: tuple[tuple[str, int], ...]  # neighbour and cost, sorted


class Records(Struct, frozen=True, gc=False, array_like=True, tag=2):
    """News of links, flooded."""

    records: tuple[Record, ...]


class Summary(Struct, frozen=True, gc=False, array_like=True, tag=3):
    """Which records I have: send me what is newer."""

    known: tuple[tuple[str, int, int], ...]  # origin, number, life


class Advertisement(Struct, frozen=True, gc=False, array_like=True, tag=4):
    """Receiver advertisement (F2): the issuer wants events that match the predicate."""

    issuer: str
    life: int
    number: int
    topology: int  # the links by which the issuer computed its tree, as a digest
    predicate: str


class Receipt(Struct, frozen=True, gc=False, array_like=True, tag=5):
    """The advertisement of this number has reached everyone below me in the issuer's tree."""

    issuer: str
    number: int


class Request(Struct, frozen=True, gc=False, array_like=True, tag=6):
    """Sender request (F2): what do you, and those below you in my tree, want?"""

    issuer: str
    life: int
    number: int
    topology: int


class Reply(Struct, frozen=True, gc=False, array_like=True, tag=7):
    """Update reply (F2): what I and those below me in the issuer's tree want."""

    issuer: str
    number: int
    predicate: str
    switched: bool = False  # whether I and those below me publish by the issuer's topology


class Publication(Struct, frozen=True, gc=False, array_like=True, tag=8):
    """An event on its way."""

    source: str
    life: int
    number: int
    event: dict[str, Any]
    topology: int = 0  # the links by which its source computed its tree, as a digest


class Switch(Struct, frozen=True, gc=False, array_like=True, tag=13):
    """My next events come by another tree: say when the earlier ones have passed.

    It follows the events of its source, and nothing of that source overtakes it.
    """

    source: str
    life: int
    number: int
    topology: int  # of the tree that it follows


class Switched(Struct, frozen=True, gc=False, array_like=True, tag=14):
    """The `Switch` of this number has reached everyone below me in the source's tree."""

    source: str
    number: int


class Answer(Struct, frozen=True, gc=False, array_like=True, tag=16):
    """Feedback (S28) on its path to the node that published an event."""

    source: str  # where the event was published
    life: int
    number: int
    replier: str  # the node whose subscriber replies
    replier_life: int
    id: int  # the replier's number for it
    message: dict[str, Any]
    hops: int = 0  # that it has made
    application: str = ""  # of the event


class Returned(Struct, frozen=True, gc=False, array_like=True, tag=17):
    """Feedback could not be handed over: told to the node that sent it, on the same path."""

    replier: str
    replier_life: int
    id: int
    reason: str


# Learning by the reverse path (S10–S14): what a node tells a neighbour is a set of filters, kept
# alike at both ends by numbered changes (`planes/link_table`).


class Change(Struct, frozen=True, gc=False, array_like=True, tag=20):
    """From now on my side of the link also wants and publishes this, and no longer that."""

    life: int
    session: int  # of my telling; the larger is the newer
    first: int  # the number of the session's first change, before which you know nothing
    number: int
    heard: int  # the session of yours from which I have taken something; 0 if none
    missed: int  # the session of yours that came before I used the link; 0 if none
    more: bool  # whether the next number belongs to the same change: apply them together
    added: tuple[str, ...]  # filters that someone on my side wants
    removed: tuple[str, ...]
    advertised: tuple[str, ...]  # filters of what someone on my side publishes
    withdrawn: tuple[str, ...]


class Standing(Struct, frozen=True, gc=False, array_like=True, tag=21):
    """How far I am with your changes."""

    life: int  # yours
    session: int  # yours
    taken: int  # all up to this number are applied here,
    settled: int  # and up to this, all that followed from them further on is settled as well
    mine: int  # `settled` counts when you have taken, of this session of mine,
    after: int  # all up to this number
    waste: int  # bytes a second that come to me or pass me in vain, because of what I tell you
    unsent: int = 0  # events that I have not sent you, as you do not want them


class Reminder(Struct, frozen=True, gc=False, array_like=True, tag=22):
    """Tell me how you stand with my changes."""

    life: int
    session: int


class Audit(Struct, frozen=True, gc=False, array_like=True, tag=24):
    """What I hold of yours, in short: tell me everything if you have told me something else."""

    life: int  # yours
    session: int  # yours
    number: int  # of your last change that is applied here
    digest: int  # of all that I hold from you then (`planes/link_table.digest_of`)


class Climb(Struct, frozen=True, gc=False, array_like=True, tag=23):
    """An event on its path to the root of a tree, from which it goes down (S14)."""

    publication: Publication


class Entries(Struct, frozen=True, gc=False, array_like=True, tag=140):
    """What the users of a node want or advertise, or how it has changed; held by other nodes."""

    kind: int  # 0: interests, 1: advertisements
    origin: str
    life: int
    number: int
    turn: int  # how often the origin has told this number again
    before: int  # the number that the change is from; 0: `added` is all there is
    added: tuple[tuple[str, str], ...]  # id and predicate
    removed: tuple[str, ...]  # ids


class Kept(Struct, frozen=True, gc=False, array_like=True, tag=141):
    """I hold the entries of this number, and so do all below me in the origin's tree."""

    kind: int
    origin: str
    life: int
    number: int
    turn: int
    topology: int  # the links by which I know who is below me, as a digest


class Holdings(Struct, frozen=True, gc=False, array_like=True, tag=142):
    """Whose entries I hold, up to which number: send me what you have newer."""

    kind: int
    known: tuple[tuple[str, int, int], ...]  # origin, life, number


# Two layers (L1, L2). `Put` and `Stored` carry subscriptions to the nodes that hold them, `Report`
# says by which epoch a node has placed its own and publishes, `Walk` and `Walked` lead an event
# past the nodes that match it, `Consignment` and `Spread` take it to subscribers. Where an
# application seals what it carries, `Put` and `Walk` travel as `Sealed`, and payloads are bytes.

Payload = Publication | bytes  # an event; bytes where it is sealed
Slot = tuple[str, int, int, int]  # of a stored subscription: its id, X, home and key
Stop = tuple[str, tuple[tuple[int, int], ...]]  # a node to visit; the homes and keys to ask there


class Consignment(Struct, frozen=True, gc=False, array_like=True, tag=40):
    """An event for subscribers at the nodes that the envelope names."""

    application: str
    payload: Payload


class Spread(Struct, frozen=True, gc=False, array_like=True, tag=41):
    """An event for all nodes, on the tree of the node that sends it."""

    application: str
    source: str  # the root of the tree: not who published the event
    life: int
    number: int  # of what this root has spread
    topology: int  # the view by which the root computed its tree
    everywhere: bool  # whether some node did not know the view, so that every link is taken
    payload: Payload


class Put(Struct, frozen=True, gc=False, array_like=True, tag=42):
    """Hold these subscriptions for me, and give those up."""

    application: str
    owner: str
    life: int
    number: int
    anew: bool  # whether the receiver forgets all that it held for the owner
    added: tuple[tuple[Slot, str], ...]  # with their predicates
    removed: tuple[Slot, ...]
    digest: int  # of all that the receiver then holds for the owner
    public: bytes = b""  # the owner's key, where events are sealed for each subscriber's node


class Stored(Struct, frozen=True, gc=False, array_like=True, tag=43):
    """I have done as the `Put` of this number says."""

    application: str
    keeper: str
    life: int  # of the owner whom it answers
    number: int
    agrees: bool  # whether I hold what the owner thinks


class Report(Struct, frozen=True, gc=False, array_like=True, tag=44):
    """How far I am with the epochs of an application."""

    application: str
    node: str
    life: int
    number: int
    placed: int  # the newest epoch in which all my subscriptions lie where they must
    used: int  # the epoch by which I publish
    asks: bool  # whether I wait for yours
    walking: int = 0  # the oldest epoch by which events of mine still walk, if I do not use it


class Walk(Struct, frozen=True, gc=False, array_like=True, tag=45):
    """An event on its walk past the nodes that match it."""

    application: str
    source: str
    life: int
    number: int
    part: int  # of the walks of one event, where it takes several
    regions: int  # X
    stops: tuple[Stop, ...]  # those that are left, the receiver's first
    publication: Publication
    payload: bytes  # for subscribers, where it is sealed; else empty
    found: tuple[str, ...]  # nodes that want it, where they are gathered


class Walked(Struct, frozen=True, gc=False, array_like=True, tag=46):
    """I have matched the event of this number, and so many stops are left."""

    application: str
    life: int
    number: int
    part: int
    left: int
    found: tuple[str, ...]  # nodes that want it so far, where they are gathered


class Sealed(Struct, frozen=True, gc=False, array_like=True, tag=48):
    """A `Put` or a `Walk` that only nodes of the matching layer can read."""

    application: str
    box: bytes
    left: int = 0  # the stops that are left, if it is a walk: flow control must know


class Configured(Struct, frozen=True, gc=False, array_like=True, tag=49):
    """An application has other settings; the larger number counts, then the smaller node."""

    application: str
    number: int
    node: str  # where the change was made
    settings: dict[str, Any]


class Loads(Struct, frozen=True, gc=False, array_like=True, tag=50):
    """What my users have of an application, by key: for the node that lets places follow load."""

    application: str
    node: str
    life: int
    epoch: int  # by which I publish, and count
    span: int  # nanoseconds in which these events were published
    events: tuple[tuple[int, int], ...]  # keys, and how many events had each
    subscriptions: tuple[tuple[int, int], ...]  # keys, and how many subscriptions have each


class Adapted(Struct, frozen=True, gc=False, array_like=True, tag=51):
    """Where places follow load: the larger number counts, then the smaller node."""

    application: str
    number: int
    node: str  # that decided it
    serving: int  # how many nodes match; 0: all that may
    regions: int  # X, for which the keys are meant; with another they count for nothing
    widths: tuple[tuple[int, int, int], ...]  # keys, each with its steps and its spread
    usual: int = 0  # steps of all keys with another X, until more is known of them; 0: H


LayerPacket = (
    Consignment | Put | Stored | Report | Walk | Walked | Sealed | Configured | Loads | Adapted
)


# Structured overlays. A ring is kept by `RingQuery` to `Leaves`. On it, trees of publishers (S16)
# tell interests by arc (`Claim`, `Arc`) and spread events (`Cast`); those of types (S15) tell them
# up and down a tree (`Branch`) on which events climb and descend (`Typed`). Scribe's groups have
# trees without predicates (`Graft`, `Grafted`), down which events come from the root (`Grouped`).


class RingQuery(Struct, frozen=True, gc=False, array_like=True, tag=60):
    """Who is beside you?"""


class RingReply(Struct, frozen=True, gc=False, array_like=True, tag=61):
    """These are beside me."""

    predecessor: str  # empty if I know none
    successors: tuple[str, ...]  # the nearest first; none while I am alone


class Notify(Struct, frozen=True, gc=False, array_like=True, tag=62):
    """I may be your predecessor."""


class Find(Struct, frozen=True, gc=False, array_like=True, tag=63):
    """Who is in charge of this key? Passed on towards it."""

    key: int
    origin: str  # who asks, and gets the answer
    number: int
    hops: int


class Found(Struct, frozen=True, gc=False, array_like=True, tag=64):
    """This node is in charge of the key that you asked for."""

    number: int
    owner: str
    hops: int  # that the search has made


class Parting(Struct, frozen=True, gc=False, array_like=True, tag=65):
    """I leave; these were beside me."""

    predecessor: str
    successors: tuple[str, ...]


class Leaves(Struct, frozen=True, gc=False, array_like=True, tag=76):
    """These are beside me, on both sides: the leaves of a node of Pastry."""

    before: tuple[str, ...]  # the nearest first
    behind: tuple[str, ...]


RingPacket = RingQuery | RingReply | Notify | Find | Found | Parting | Leaves


class Claim(Struct, frozen=True, gc=False, array_like=True, tag=66):
    """Tell me what the arc from you to this end wants; or no longer."""

    end: int
    wanted: bool
    number: int  # of what I have claimed: the larger counts
    held: int  # the number of your newest table that I hold, 0 for none
    settled: int  # of the newest on which I, and all to whom I tell my own arcs, have acted
    trees: int  # how many publishers' trees reach you by me
    digest: int  # of these publishers


class Arc(Struct, frozen=True, gc=False, array_like=True, tag=67):
    """What the arc from me to this end wants."""

    end: int
    number: int
    predicates: tuple[str, ...]
    nodes: int  # how many nodes it holds
    digest: int  # of these nodes


class Cast(Struct, frozen=True, gc=False, array_like=True, tag=68):
    """An event for the arc from the receiver to this end."""

    end: int
    publication: Publication


class Branch(Struct, frozen=True, gc=False, array_like=True, tag=69):
    """How it is between two nodes of the tree of a type (S15): all of it, each time."""

    tree: int  # the type, as its number; -1: the directory
    turn: int  # of all that I have said: the larger counts
    upward: bool  # whether the receiver is my parent
    joined: bool  # or I am no longer your child
    number: int  # of what follows, as far as the next comment
    predicates: tuple[str, ...]  # what is wanted on my side
    publishes: bool  # upward: whether someone on my side publishes, and must hear what others want
    whole: bool  # downward: whether the predicates are all that is wanted beyond
    held: int  # the number of what you said last that I hold
    settled: int  # of what you said: that on which I, and all behind me, have acted
    asks: bool  # whether I wait for you to say how far you are


class Typed(Struct, frozen=True, gc=False, array_like=True, tag=70):
    """An event in the tree of one of its types (S15)."""

    tree: int
    publication: Publication


class Graft(Struct, frozen=True, gc=False, array_like=True, tag=77):
    """I am your child in the tree of a group (Scribe); or no longer."""

    group: int  # -1: the directory
    number: int  # of all that I have said: the larger counts
    joined: bool


class Grafted(Struct, frozen=True, gc=False, array_like=True, tag=78):
    """You are my child in the tree of a group."""

    group: int
    number: int  # of what you said last
    attached: bool  # whether I get what is sent to the group


class Grouped(Struct, frozen=True, gc=False, array_like=True, tag=79):
    """An event for a group (Scribe): up to its root, then down its tree."""

    group: int
    down: bool
    hops: int  # that it has made on its path up
    publication: Publication


StructuredPacket = RingPacket | Claim | Arc | Cast | Branch | Typed | Graft | Grafted | Grouped


class Listed(Struct, frozen=True, gc=False, array_like=True, tag=47):
    """A packet with the list of the nodes that it is for: explicit multicast (S4)."""

    targets: tuple[str, ...]
    topology: int  # the view by which it travels
    turns: int  # how often a node has had to choose another view for it
    inner: LayerPacket
    root: str = ""  # the node that chose the view: with it, the tree that the packet follows


Contents = (
    Hello
    | Records
    | Summary
    | Advertisement
    | Receipt
    | Request
    | Reply
    | Publication
    | Change
    | Standing
    | Reminder
    | Audit
    | Climb
    | Switch
    | Switched
    | Answer
    | Returned
    | Entries
    | Kept
    | Holdings
    | LayerPacket
    | Listed
    | Spread
    | StructuredPacket
)


class Parcel(Struct, frozen=True, gc=False, array_like=True, tag=15):
    """The envelope of the carrier: a packet from any node to any other."""

    source: str
    life: int
    number: int  # by which copies are known
    target: str
    hops: int  # that it has made
    packet: Contents  # a parcel holds no parcel


Packet = Contents | Parcel

BEARERS: Final[dict[type, Callable[[Any], Publication | None]]] = {
    Publication: lambda packet: packet,
    Climb: lambda packet: packet.publication,
    Parcel: lambda packet: publication_of(packet.packet),
    Listed: lambda packet: publication_of(packet.inner),
    Consignment: lambda packet: _unsealed(packet.payload),
    Spread: lambda packet: _unsealed(packet.payload),
    Walk: lambda packet: packet.publication,
    Cast: lambda packet: packet.publication,
    Typed: lambda packet: packet.publication,
    Grouped: lambda packet: packet.publication,
}


def _unsealed(payload: Payload) -> Publication | None:
    return payload if isinstance(payload, Publication) else None


def publication_of(packet: Packet) -> Publication | None:
    """The event that a packet bears, itself or in its envelope; None for any other packet."""
    bears = BEARERS.get(type(packet))
    return None if bears is None else bears(packet)


class Lane(NamedTuple):
    """Packets that keep their order, and wait for each other: those that follow one tree."""

    source: str  # its root
    tree: int


def _listed(packet: Listed) -> Lane | None:
    """The lane of a packet with a list: one for each root, view and leg of the event's journey.

    An event goes on only to a later leg: from stop to stop of its walk, then to subscribers. So no
    two lanes wait for each other in a circle.
    """
    match packet.inner:
        case Walk(application=application, stops=stops):
            return _lane(packet.root, application, packet.topology, packet.turns, len(stops))
        case Sealed(application=application, left=left) if left:
            return _lane(packet.root, application, packet.topology, packet.turns, left)
        case Consignment(application=application):
            return _lane(packet.root, application, packet.topology, packet.turns, 0)
        case _:
            return None


@lru_cache(4_096)
def _lane(root: str, application: str, topology: int, turns: int, left: int) -> Lane:
    text = f"{application}\n{topology} {turns} {left}".encode()
    tree = int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1
    return Lane(root, tree)


LANES: Final[dict[type, Callable[[Any], Lane | None]]] = {
    Publication: lambda packet: Lane(packet.source, packet.topology),
    Switch: lambda packet: Lane(packet.source, packet.topology),
    Parcel: lambda packet: lane_of(packet.packet),
    Listed: _listed,
    Spread: lambda packet: _lane(packet.source, packet.application, packet.topology, 0, 0),
}


Renewal = tuple[type, str, int]


def renewal_of(packet: Packet) -> Renewal | None:
    """What a packet says anew: while one that says the same waits, only the later need be sent.

    So what waits for a slow line is bounded, however often a node repeats it. The later one takes
    the place of the other. So an advertisement is renewed only by one of the same topology: of
    another the neighbour may yet have to hear, by a packet between the two.
    """
    match packet:
        case Reply(issuer):
            return Reply, issuer, 0
        case Advertisement(issuer, topology=topology):
            return Advertisement, issuer, topology
        case _:
            return None


def application_of(packet: Packet) -> str:
    """The application that a packet is of; empty for those that all share."""
    if type(packet) is Listed:
        return packet.inner.application
    return packet.application if type(packet) is Spread else ""


def lane_of(packet: Packet) -> Lane | None:
    """The lane in which a packet keeps its order: of an event, or of a mark between events."""
    lane = LANES.get(type(packet))
    return None if lane is None else lane(packet)
