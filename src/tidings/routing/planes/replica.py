"""Who wants what, replicated: each node tells what its users want, and other nodes hold it.

A node numbers what it tells. Changes are flooded as records of links are; a node that misses one
asks for all. Hellos carry a digest, so neighbours notice what got lost, and compare. What a node
holds of another dies with the other's record of links.

`Replica` has the scope *all*: every node holds everything. When a node holds a number of an origin,
and all its children in the origin's tree say the same, it says so to its parent. So the origin
knows when every node in reach holds what it told, and repeats it until then. Only nodes that see
the same links count: else their trees differ.

`PublisherReplica` has the scope *publishers*. Advertisements are replicated everywhere, and each
node sends its interests to the nodes that advertise, cut to those that an advertisement meets. A
node confirms an advertisement once the advertiser has confirmed its interests. So an advertisement
that everybody has confirmed is in force: its node holds every subscription that it may match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from tidings.language.errors import NormalFormError
from tidings.routing.packets import Entries, Holdings, Kept
from tidings.routing.planes.carrier import Carrier
from tidings.routing.planes.interests import predicate_of, readable, wants
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.patience import MOST_PATIENCE, Patience
from tidings.routing.planes.topology import digest_of
from tidings.routing.protocol import Action, Drop, Send, earliest
from tidings.routing.truth import Situation

INTERESTS: Final = 0
ADVERTISEMENTS: Final = 1

Told = Callable[[tuple[str, ...], list[Action]], None]  # ids that all who must hold them now do


class Holding:
    """What a node holds of an origin."""

    __slots__ = ("life", "number", "texts", "turn")

    def __init__(self, life: int) -> None:
        self.life = life
        self.number = 0
        self.turn = 0
        self.texts: dict[str, str] = {}  # predicate by id


class Replica:
    """One node's part in a table that every node holds."""

    def __init__(
        self,
        node: str,
        life: int,
        plane: LinkState,
        told: Told,
        kind: int = INTERESTS,
        ready: Callable[[str], bool] = lambda origin: True,
    ) -> None:
        self.node = node
        self.life = life
        self.kind = kind
        self.own: dict[str, str] = {}
        self.held: dict[str, Holding] = {}  # by origin; not this node itself
        self._plane = plane
        self._told = told
        self._ready = ready  # whether this node may confirm what it holds of an origin
        self._number = 0
        self._turn = 0
        self._telling: dict[str, None] | None = None  # ids of the number that is on its path
        self._added: dict[str, str] = {}  # since then
        self._removed: dict[str, None] = {}
        self._retry_at: int | None = None
        self._patience = Patience(plane.timing.retry)
        # By origin and child: life, number, turn and topology that the child has confirmed.
        self._said: dict[tuple[str, str], tuple[int, int, int, int]] = {}
        self._confirmed: dict[str, tuple[Any, ...]] = {}  # by origin: what was said to whom
        self._early: dict[str, tuple[str, Entries]] = {}  # of origins whose record has not come
        self._heard_at: dict[str, int] = {}  # when an origin last told something

    # The users of this node

    def put(self, id: str, text: str, now: int, out: list[Action]) -> None:
        """Tell an entry, or another predicate for one."""
        self.own[id] = self._added[id] = text
        self._removed.pop(id, None)
        if self._telling is None:
            self._tell(now, out)

    def remove(self, id: str, now: int, out: list[Action]) -> None:
        """Tell that there is no such entry any more."""
        if self.own.pop(id, None) is None:
            return
        self._added.pop(id, None)
        self._removed[id] = None
        if self._telling is not None:
            self._telling.pop(id, None)
        else:
            self._tell(now, out)

    def is_settled(self) -> bool:
        """Whether all that this node has told is confirmed."""
        return self._telling is None

    def matching(self, event: dict[str, Any]) -> set[str]:
        """The other nodes of which an entry matches an event."""
        return {
            origin
            for origin, holding in self.held.items()
            if any(wants(text, event) for text in holding.texts.values())
        }

    # Telling

    def _tell(self, now: int, out: list[Action]) -> None:
        """Tell what has changed."""
        self._telling = dict.fromkeys(self._added)
        self._number += 1
        self._turn = 0
        added = tuple(self._added.items())
        change = self._packet(self._number - 1, added, tuple(self._removed))
        self._added, self._removed = {}, {}
        self._note_digest()
        self._flood(change, None, out)
        self._retry_at = self._patience.ask(now)
        self._check_own(now, out)

    def _tell_again(self, now: int, out: list[Action]) -> None:
        """Tell everything again: some node may have missed it, or sees other links."""
        self._turn += 1
        self._flood(self._packet(0, tuple(self.own.items()), ()), None, out)
        self._retry_at = self._patience.ask(now)
        self._check_own(now, out)

    def _packet(
        self, before: int, added: tuple[tuple[str, str], ...], removed: tuple[str, ...]
    ) -> Entries:
        counted = self._number, self._turn
        return Entries(self.kind, self.node, self.life, *counted, before, added, removed)

    def _check_own(self, now: int, out: list[Action]) -> None:
        """See whether every node in reach holds what this one has told."""
        if self._telling is None or not self._all_said(self.node, self.life, *self._own_count):
            return
        told, self._telling = tuple(self._telling), None
        self._retry_at = None
        self._patience.answered(now)
        if told:
            self._told(told, out)
        if self._added or self._removed:
            self._tell(now, out)

    @property
    def _own_count(self) -> tuple[int, int]:
        return self._number, self._turn

    def _all_said(self, origin: str, life: int, number: int, turn: int) -> bool:
        """Whether all children of this node in an origin's tree hold this."""
        routes = self._plane.routes
        wanted = (number, turn)
        for child in routes.children(origin):
            said = self._said.get((origin, child))
            if said is None or said[0] != life or said[3] != routes.digest or said[1:3] < wanted:
                return False
        return True

    # Packets

    def entries(self, neighbour: str, packet: Entries, now: int, out: list[Action]) -> None:
        """An origin tells something: hold it, pass it on, and confirm it when it is everywhere."""
        origin = packet.origin
        record = self._plane.records.get(origin)
        if record is None and origin != self.node:
            self._early[origin] = neighbour, packet
            return
        if record is None or record.life != packet.life or origin == self.node:
            out.append(Drop("of another life", packet))
            return
        holding = self.held.get(origin)
        if holding is None or holding.life != packet.life:
            holding = Holding(packet.life)
        if (packet.number, packet.turn) <= (holding.number, holding.turn):
            out.append(Drop("old", packet))
            return
        if packet.before and packet.before != holding.number:
            out.append(Drop("a gap", packet))
            self.compare(neighbour, out)
            return
        self.hold(holding, packet)
        self.held[origin] = holding
        self._heard_at[origin] = now
        self._note_digest()
        self._flood(packet, neighbour, out)
        self.confirm(origin, out)

    def hold(self, holding: Holding, packet: Entries) -> None:
        """Take what an origin tells; a text that cannot be read stands for everything."""
        if not packet.before:
            holding.texts.clear()
        for id in packet.removed:
            holding.texts.pop(id, None)
        for id, text in packet.added:
            holding.texts[id] = readable(text)
        holding.number, holding.turn = packet.number, packet.turn

    def kept(self, neighbour: str, packet: Kept, now: int, out: list[Action]) -> None:
        """A child confirms what an origin has told."""
        said = packet.life, packet.number, packet.turn, packet.topology
        self._said[packet.origin, neighbour] = said
        if packet.origin == self.node:
            self._check_own(now, out)
        else:
            self.confirm(packet.origin, out)

    def confirm(self, origin: str, out: list[Action]) -> None:
        """Tell the parent in an origin's tree that this node and all below hold what it told."""
        holding, routes = self.held.get(origin), self._plane.routes
        parent = routes.hop.get(origin)
        if holding is None or parent is None or not self._ready(origin):
            return
        counted = holding.number, holding.turn
        saying = (holding.life, *counted, routes.digest, parent)
        if self._confirmed.get(origin) == saying:
            return
        if self._all_said(origin, holding.life, *counted):
            self._confirmed[origin] = saying
            said = Kept(self.kind, origin, holding.life, *counted, routes.digest)
            out.append(Send(parent, said))

    def compare(self, neighbour: str, out: list[Action]) -> None:
        """Tell a neighbour what this node holds; both send what the other lacks."""
        known = [(origin, held.life, held.number) for origin, held in sorted(self.held.items())]
        if self._number:
            known.append((self.node, self.life, self._number))
        out.append(Send(neighbour, Holdings(self.kind, tuple(known))))

    def holdings(self, neighbour: str, packet: Holdings, out: list[Action]) -> None:
        """A neighbour says what it holds: send it what it lacks."""
        theirs = {origin: (life, number) for origin, life, number in packet.known}
        if self._number and theirs.get(self.node) != (self.life, self._number):
            out.append(Send(neighbour, self._packet(0, tuple(self.own.items()), ())))
        for origin, held in self.held.items():
            life, number = theirs.get(origin, (0, 0))
            if origin != neighbour and (life != held.life or number < held.number):
                counted = held.number, held.turn
                texts = tuple(held.texts.items())
                whole = Entries(self.kind, origin, held.life, *counted, 0, texts, ())
                out.append(Send(neighbour, whole))

    def _flood(self, packet: Entries, but: str | None, out: list[Action]) -> None:
        out.extend(Send(name, packet) for name in self._plane.neighbours.up() if name != but)

    # Time and topology

    def timer(self) -> int | None:
        """When to wake."""
        return self._retry_at

    def wake(self, now: int, out: list[Action]) -> None:
        """Repeat what was not confirmed."""
        if self._retry_at is not None and now >= self._retry_at:
            self._tell_again(now, out)

    def rerouted(self, now: int, out: list[Action]) -> None:
        """Routes are new: forget who has gone, and confirm anew what is on its path."""
        for origin, held in list(self.held.items()):
            record = self._plane.records.get(origin)
            if record is None or record.life != held.life:
                del self.held[origin]
                self._heard_at.pop(origin, None)
                self._confirmed.pop(origin, None)
        routes = self._plane.routes
        for origin, child in list(self._said):
            if child not in routes.children(origin):
                del self._said[origin, child]
        self._note_digest()
        self._patience.begin()
        recent = now - MOST_PATIENCE * self._plane.timing.retry
        for origin, heard_at in self._heard_at.items():
            if heard_at > recent:
                self.confirm(origin, out)
        early, self._early = self._early, {}
        for neighbour, packet in early.values():
            if packet.origin in self._plane.records:
                self.entries(neighbour, packet, now, out)
        if self._telling is not None:
            self._tell_again(now, out)

    def _note_digest(self) -> None:
        digest = digest_of(f"{self.node} {self.life} {self._number}") if self._number else 0
        for origin, held in self.held.items():
            digest ^= digest_of(f"{origin} {held.life} {held.number}")
        self._plane.beside = digest

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            origin: {"number": held.number, "entries": dict(sorted(held.texts.items()))}
            for origin, held in sorted(self.held.items())
        }


class PublisherReplica:
    """One node's part in a table of interests that only the nodes hold which advertise.

    `established` hears of subscriptions that every advertiser in reach holds, `in_force` of
    advertisements that every subscription is known for.
    """

    def __init__(
        self,
        node: str,
        life: int,
        plane: LinkState,
        carrier: Carrier,
        established: Told,
        in_force: Told,
    ) -> None:
        self.node = node
        self.life = life
        self.own: dict[str, str] = {}  # interests
        self.held: dict[str, Holding] = {}  # interests of others that meet what is advertised here
        self.advertised = Replica(node, life, plane, in_force, ADVERTISEMENTS, self._is_known_to)
        self._plane = plane
        self._carrier = carrier
        self._established = established
        self._sent: dict[str, Entries] = {}  # by advertiser: what it was sent last
        self._sent_for: dict[str, tuple[int, int]] = {}  # the life and number of what it advertised
        self._unconfirmed: dict[str, None] = {}  # advertisers that have not confirmed it
        self._waiting: dict[str, None] = {}  # subscriptions that are not established
        self._retry_at: int | None = None
        self._patience = Patience(plane.timing.retry)

    # The users of this node

    def put(self, id: str, text: str, now: int, out: list[Action]) -> None:
        """Subscribe, or give a subscription another predicate."""
        self.own[id] = text
        self._waiting[id] = None
        self._update(now, out)

    def remove(self, id: str, now: int, out: list[Action]) -> None:
        """Unsubscribe."""
        if self.own.pop(id, None) is not None:
            self._waiting.pop(id, None)
            self._update(now, out)

    def advertise(self, id: str, text: str, now: int, out: list[Action]) -> None:
        """Advertise what is published here."""
        self.advertised.put(id, text, now, out)

    def unadvertise(self, id: str, now: int, out: list[Action]) -> None:
        """Withdraw an advertisement."""
        self.advertised.remove(id, now, out)

    def is_settled(self) -> bool:
        """Whether all that this node has told is confirmed."""
        return not self._unconfirmed and self.advertised.is_settled()

    def matching(self, event: dict[str, Any]) -> set[str]:
        """The other nodes of which an interest matches an event that was advertised here."""
        return {
            origin
            for origin, holding in self.held.items()
            if any(wants(text, event) for text in holding.texts.values())
        }

    # Telling advertisers

    def _update(self, now: int, out: list[Action]) -> None:
        """Send every advertiser what it lacks, and see what is established."""
        for origin in [name for name in self._sent_for if name not in self.advertised.held]:
            self._forget(origin)
        for origin, held in self.advertised.held.items():
            if self._sent_for.get(origin, (held.life, 0))[0] != held.life:
                self._forget(origin)
            self._sent_for[origin] = held.life, held.number
            advertised = held.texts.values()
            added = tuple((i, text) for i, text in self.own.items() if _meets(text, advertised))
            sent = self._sent.get(origin)
            if sent.added != added if sent is not None else added:
                number = 1 if sent is None else sent.number + 1
                life = self.life
                sent = Entries(INTERESTS, self.node, life, number, 0, 0, added, ())
                self._sent[origin] = sent
                self._unconfirmed[origin] = None
                self._carrier.send(origin, sent, out)
                if self._retry_at is None:
                    self._retry_at = self._patience.ask(now)
        self._check(now, out)

    def _forget(self, origin: str) -> None:
        for kept in (self._sent, self._sent_for, self._unconfirmed):
            kept.pop(origin, None)

    def _is_known_to(self, origin: str) -> bool:
        """Whether an advertiser has confirmed what it needs to know of this node, for all that it
        has advertised."""
        held = self.advertised.held[origin]
        considered = self._sent_for.get(origin) == (held.life, held.number)
        return considered and origin not in self._unconfirmed

    def _check(self, now: int, out: list[Action]) -> None:
        if self._unconfirmed:
            return
        self._retry_at = None
        self._patience.answered(now)
        waiting, self._waiting = tuple(self._waiting), {}
        if waiting:
            self._established(waiting, out)

    # Packets

    def entries(self, neighbour: str, packet: Entries, now: int, out: list[Action]) -> None:
        """Advertisements of others; or interests, in a parcel for this node."""
        if packet.kind == ADVERTISEMENTS:
            self.advertised.entries(neighbour, packet, now, out)
            self._update(now, out)
            self.advertised.confirm(packet.origin, out)
            return
        record = self._plane.records.get(packet.origin)
        if record is None or record.life != packet.life:
            out.append(Drop("of another life", packet))
            return
        held = self.held.get(packet.origin)
        if held is None or held.life != packet.life:
            held = self.held[packet.origin] = Holding(packet.life)
        if packet.number > held.number:
            self.advertised.hold(held, packet)
        counted = held.number, 0
        kept = Kept(INTERESTS, self.node, held.life, *counted, 0)
        self._carrier.send(packet.origin, kept, out)

    def kept(self, neighbour: str, packet: Kept, now: int, out: list[Action]) -> None:
        """Someone confirms an advertisement, or an advertiser confirms interests."""
        if packet.kind == ADVERTISEMENTS:
            self.advertised.kept(neighbour, packet, now, out)
            return
        sent = self._sent.get(packet.origin)
        if sent is not None and packet.life == self.life and packet.number == sent.number:
            self._unconfirmed.pop(packet.origin, None)
            self.advertised.confirm(packet.origin, out)
            self._check(now, out)

    def compare(self, neighbour: str, out: list[Action]) -> None:
        """Tell a neighbour which advertisements this node holds."""
        self.advertised.compare(neighbour, out)

    def holdings(self, neighbour: str, packet: Holdings, out: list[Action]) -> None:
        """A neighbour says which advertisements it holds: send it what it lacks."""
        self.advertised.holdings(neighbour, packet, out)

    # Time and topology

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(self._retry_at, self.advertised.timer())

    def wake(self, now: int, out: list[Action]) -> None:
        """Repeat what was not confirmed."""
        self.advertised.wake(now, out)
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = self._patience.ask(now)
            for origin in self._unconfirmed:
                self._carrier.send(origin, self._sent[origin], out)

    def rerouted(self, now: int, out: list[Action]) -> None:
        """Routes are new: forget who has gone, tell those who have come."""
        for origin, held in list(self.held.items()):
            record = self._plane.records.get(origin)
            if record is None or record.life != held.life:
                del self.held[origin]
        self.advertised.rerouted(now, out)
        self._update(now, out)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "advertised": self.advertised.snapshot(),
            "interests": {o: dict(sorted(h.texts.items())) for o, h in sorted(self.held.items())},
        }


@lru_cache(16_384)
def _may_meet(one: str, other: str) -> bool:
    """Whether an event may match both predicates; errs towards yes."""
    try:
        return predicate_of(readable(one)).intersects(predicate_of(readable(other)))
    except NormalFormError:
        return True


def _meets(text: str, others: Iterable[str]) -> bool:
    return any(_may_meet(text, other) for other in others)


def wrong_replicas(replicas: Mapping[str, Replica], situation: Situation) -> Iterator[str]:
    """Where a node holds other interests of a node in reach than that node's users have."""
    for name, replica in replicas.items():
        reach = situation.truth.reaches(name).keys() - {name}
        for other in sorted(reach):
            held = replica.held.get(other)
            texts = {} if held is None else held.texts
            wanted = situation.subscriptions.get(other, {})
            if texts != wanted:
                yield f"{name} holds {sorted(texts)} of {other}, not {sorted(wanted)}"
        if situation.exact and replica.held.keys() - reach:
            yield f"{name} holds interests of {sorted(replica.held.keys() - reach)}, who have gone"
