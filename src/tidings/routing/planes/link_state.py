"""The broadcast plane (F, section 2.1): who is connected to whom, and the tree of every source.

Each node floods a record of its links, with a number that grows and an age. A node replaces an
older record by a newer one and passes it on; to a neighbour that sends an older one it sends the
newer. Hellos carry a digest of all records, so nodes notice what got lost and catch up: nothing
here relies on a packet arriving. A record that its origin does not renew expires. A node that has
lost its memory learns from its own old record which number it must exceed. If that record exceeds
its own in turn, again and again, then another node tells it: two have one name (`life_of`).

A node computes its routes once links have been at rest for a moment, so a storm of news costs one
computation.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.routing.packets import Hello, Record, Records, Summary
from tidings.routing.planes.neighbours import Neighbours
from tidings.routing.planes.topology import Routes, Topologies, digest_of, digest_of_link, weight_of
from tidings.routing.protocol import MILLISECOND, SECOND, Action, Drop, Send, Timing, earliest

SWEEP = SECOND  # how often a node looks for old records
RIVALRY = 4  # times that another life exceeds ours, from which on it is no memory of a former one
LONG_AGO = -(1 << 62)  # before any time that a clock shows, also one that began below 0


class LinkState:
    """One node's part in the broadcast plane."""

    def __init__(self, node: str, life: int, timing: Timing, topologies: Topologies) -> None:
        self.node = node
        self.life = life
        self.timing = timing
        self.neighbours = Neighbours(life, timing)
        self.records: dict[str, Record] = {}
        self.routes = Routes(node, topologies.of(0, {}))
        self._topologies = topologies
        self._received_at: dict[str, int] = {}
        self._adjacency: dict[str, dict[str, int]] = {}
        self._graph_digest = 0
        self._digest = 0  # of all records
        self.beside = 0  # a digest of what else neighbours must agree on (`replica`)
        self._number = 0
        self._rival = 0  # another life that has told our own record
        self._exceeded = 0  # how often another life has exceeded what we have told
        self._exceeded_at = LONG_AGO
        self._hello_at: int | None = None
        self._tell_at: int | None = None
        self._sweep_at = LONG_AGO
        self._refresh_at = LONG_AGO
        self._news_since: int | None = None
        self._settle_at: int | None = None

    # What happens

    def link_up(self, neighbour: str, cost: int, now: int, out: list[Action]) -> None:
        """There is a new link."""
        if self._hello_at is None:
            self._hello_at = now + self.timing.hello
        self.neighbours.remove(neighbour)
        self._links_changed(now)
        self.neighbours.add(neighbour, cost, self._digest ^ self.beside, out)

    def link_down(self, neighbour: str, now: int) -> None:
        """A link is gone."""
        if self.neighbours.remove(neighbour):
            self._links_changed(now)
        if not self.neighbours.known:
            self._exceeded = 0

    def hello(self, neighbour: str, hello: Hello, now: int, out: list[Action]) -> bool:
        """A neighbour says hello; returns whether the two now compare what they know."""
        known = self.neighbours.known.get(neighbour)
        if known is None:
            out.append(Drop("no such link", hello))
            return False
        digest = self._digest ^ self.beside
        lost, came = self.neighbours.heard(neighbour, hello, now, digest, out)
        if lost or came:
            self._links_changed(now)
        compares = came or (known.up and self.neighbours.doubt(neighbour, hello.digest != digest))
        if compares:
            out.append(Send(neighbour, self._summary()))
        return compares

    def summary(self, neighbour: str, summary: Summary, now: int, out: list[Action]) -> None:
        """A neighbour says what it knows: send it what is newer here."""
        theirs = {origin: (number, life) for origin, number, life in summary.known}
        newer = tuple(
            self._aged(record, now)
            for origin, record in self.records.items()
            if theirs.get(origin, (-1, 0)) < (record.number, record.life)
        )
        if newer:
            out.append(Send(neighbour, Records(newer)))

    def news(self, neighbour: str, packet: Records, now: int, out: list[Action]) -> None:
        """A neighbour sends records: keep and pass on the new ones, answer the old ones."""
        fresh, stale = [], []
        for record in packet.records:
            if record.origin == self.node:
                self.recover(record, now)
            elif record.age_ms * MILLISECOND < self.timing.age:
                known = self.records.get(record.origin)
                if known is None or self.is_newer(record, known):
                    self._install(record, now)
                    fresh.append(record)
                elif self.is_newer(known, record):
                    stale.append(self._aged(known, now))
        if stale:
            out.append(Send(neighbour, Records(tuple(stale))))
        if fresh:
            self._flood(tuple(fresh), neighbour, out)

    def is_newer(self, record: Record, known: Record) -> bool:
        """Whether a record replaces the one that is known."""
        return (record.number, record.life) > (known.number, known.life)

    def leave(self, now: int, out: list[Action]) -> None:
        """Say good-bye: a record without links."""
        self._originate((), now, out)
        self._hello_at = self._tell_at = self._settle_at = None

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(self._hello_at, self._tell_at, self._settle_at)

    def wake(self, now: int, out: list[Action]) -> bool:
        """Do what is due; True if links have changed and come to rest, so that routes are new."""
        if self._hello_at is not None and now >= self._hello_at:
            self._hello_at = now + self.timing.hello
            if self.neighbours.expire(now):
                self._links_changed(now)
            if now >= self._refresh_at:
                self._tell(now, out)
            if now >= self._sweep_at:
                self._sweep_at = now + SWEEP
                self.sweep(now)
            self.neighbours.greet(lambda name: self._digest ^ self.beside, out)
        if self._tell_at is not None and now >= self._tell_at:
            self._tell(now, out)
        if self._settle_at is None or now < self._settle_at:
            return False
        self._news_since = self._settle_at = None
        if self.routes.digest != self._graph_digest:
            topology = self._topologies.of(self._graph_digest, self._adjacency)
            self.routes = Routes(self.node, topology)
        return True

    def is_settled(self) -> bool:
        """Whether the routes follow from all records that are known."""
        return self._settle_at is None and self._tell_at is None

    # Records

    def _links_changed(self, now: int) -> None:
        """Flood a new record soon, not at once: more may change at the same time."""
        if self._tell_at is None:
            self._tell_at = now + self.timing.gather

    def _tell(self, now: int, out: list[Action]) -> None:
        """Flood a record of our links."""
        self._originate(self.links(), now, out)

    def links(self) -> tuple[tuple[str, int], ...]:
        """The links that are up, and their costs."""
        known = self.neighbours.known
        return tuple(sorted((name, known[name].cost) for name in known if known[name].up))

    def _originate(self, links: tuple[tuple[str, int], ...], now: int, out: list[Action]) -> None:
        self._number += 1
        self._tell_at = None
        self._refresh_at = now + self.timing.refresh
        record = Record(self.node, self.life, self._number, 0, links)
        self._install(record, now)
        self._flood((record,), None, out)

    def recover(self, record: Record, now: int) -> None:
        """A record of our own has come back: exceed its number if it is of a former life."""
        ahead = record.number - self._number
        if ahead > 0 or (ahead == 0 and record.life != self.life):
            if record.life != self.life and self._tell_at is None:  # it answers what we have told
                recent = now - self._exceeded_at < self.timing.refresh
                self._exceeded = self._exceeded + 1 if recent else 1
                self._exceeded_at, self._rival = now, record.life
            self._number = record.number
            self._links_changed(now)

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node; 0 if it is in no reach.

        Of two nodes with our name the one with the greater life keeps it.
        """
        if node == self.node:
            return max(self.life, self._rival) if self._exceeded >= RIVALRY else self.life
        if node in self.routes.hop and self._adjacency.get(node):
            return self.records[node].life
        return 0

    def _flood(self, records: tuple[Record, ...], but: str | None, out: list[Action]) -> None:
        packet = Records(records)
        for name, neighbour in self.neighbours.known.items():
            if neighbour.up and name != but:
                out.append(Send(name, packet))

    def _summary(self) -> Summary:
        return Summary(
            tuple((origin, r.number, r.life) for origin, r in sorted(self.records.items()))
        )

    def _aged(self, record: Record, now: int) -> Record:
        held_ms = (now - self._received_at[record.origin]) // MILLISECOND
        if record.origin == self.node or not held_ms:
            return record
        return msgspec.structs.replace(record, age_ms=record.age_ms + held_ms)

    def sweep(self, now: int) -> None:
        """Forget the records that are too old."""
        for origin, record in list(self.records.items()):
            held = now - self._received_at[origin]
            if origin != self.node and record.age_ms * MILLISECOND + held >= self.timing.age:
                self._remove(record, now)

    def _install(self, record: Record, now: int) -> None:
        origin = record.origin
        known = self.records.get(origin)
        if known is not None:
            self._digest ^= _digest_of_record(known)
        self._digest ^= _digest_of_record(record)
        self.records[origin] = record
        self._received_at[origin] = now
        if known is None or known.links != record.links:
            self._relink(origin, record.links)
            self._note_news(now)
        elif record.life != known.life or record.number != known.number + 1:
            # It has lost its memory; or there is a gap: links may have changed unseen, and packets
            # been lost.
            self._note_news(now)

    def _remove(self, record: Record, now: int) -> None:
        self._relink(record.origin, ())
        self._note_news(now)
        self._digest ^= _digest_of_record(record)
        del self.records[record.origin], self._received_at[record.origin]

    # The graph that follows from the records: links that both ends name

    def _relink(self, origin: str, links: tuple[tuple[str, int], ...]) -> None:
        for other in list(self._adjacency.get(origin, ())):
            self._graph_digest ^= self._digest_of(origin, other)
            del self._adjacency[origin][other], self._adjacency[other][origin]
        for other, cost in links:
            back = self.records.get(other)
            if back is None or other == origin:
                continue
            for name, cost_back in back.links:
                if name == origin:
                    self._link(origin, other, max(cost, cost_back))

    def _note_news(self, now: int) -> None:
        if self._news_since is None:
            self._news_since = now
        latest = self._news_since + self.timing.hold_most
        self._settle_at = min(now + self.timing.hold, latest)

    def weight(self, low: str, high: str, cost: int) -> int:
        """The cost of a link, made unique so that there are no ties."""
        return weight_of(low, high, cost)

    def _link(self, one: str, other: str, cost: int) -> None:
        low, high = (one, other) if one < other else (other, one)
        weight = self.weight(low, high, cost)
        self._adjacency.setdefault(one, {})[other] = weight
        self._adjacency.setdefault(other, {})[one] = weight
        self._graph_digest ^= digest_of_link(low, high, weight)

    def _digest_of(self, one: str, other: str) -> int:
        low, high = (one, other) if one < other else (other, one)
        return digest_of_link(low, high, self._adjacency[one][other])

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "links": self.neighbours.snapshot(),
            "records": {o: [r.life, r.number] for o, r in sorted(self.records.items())},
            "topology": self.routes.digest,
            "hops": dict(sorted(self.routes.hop.items())),
        }


def _digest_of_record(record: Record) -> int:
    return digest_of(f"{record.life} {record.number} {record.origin}")
