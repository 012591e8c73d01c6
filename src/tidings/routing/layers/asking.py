"""Asking who wants an event (L2): a publisher's walk, and what a stop on it does.

A publisher chooses the stops, as the epoch that it uses says. Each stop matches the event with the
subscriptions that it holds, answers the publisher, hands the event over for those who want it, and
sends it on to the next stop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tidings.routing.layers.epochs import Epoch, Epochs
from tidings.routing.layers.lists import Lists
from tidings.routing.layers.placement import MOST_REGIONS
from tidings.routing.layers.rendezvous import Keys, keys_of, wide
from tidings.routing.layers.sealing import Open, Seal
from tidings.routing.layers.settings import Layering
from tidings.routing.layers.store import ANY, Store
from tidings.routing.layers.walks import Choice, Walks
from tidings.routing.packets import Payload, Publication, Walk, Walked
from tidings.routing.planes.topology import digest_of
from tidings.routing.protocol import Action, Drop

Hand = Callable[[Payload, tuple[str, ...], int, list[Action]], None]


def regions_of(epoch: Epoch) -> int:
    """X of an epoch."""
    return 1 if epoch.placement is None else epoch.placement.shape.regions


class Asking:
    """One node's part in the walks of an application's events."""

    def __init__(
        self,
        application: str,
        lists: Lists,
        epochs: Epochs,
        store: Store,
        walks: Walks,
        hand: Hand,
        seal: Seal | Open,
    ) -> None:
        self.application = application
        self.node, self.life = lists.plane.node, lists.plane.life
        self.lists = lists
        self.epochs = epochs
        self.store = store
        self.walks = walks
        self.hand = hand
        self.seal = seal
        self.published: Counter[int] = Counter()  # events by key, where places follow load
        self.counts = {"visits": 0, "matched": 0, "misplaced": 0, "given up": 0, "unreadable": 0}

    @property
    def settings(self) -> Layering:
        """The newest settings of the application."""
        return self.epochs.newest.settings

    def publish(self, publication: Publication, now: int, out: list[Action]) -> None:
        """Find who wants an event: take it past the nodes that know."""
        epoch = self.epochs.used
        if epoch.placement is None:
            out.append(Drop("no node of the matching layer is in reach", publication))
            return
        keys = self.keys(epoch, publication.event)
        if epoch.settings.adapts():
            self.published.update(keys)
        number = 0 if epoch.settings.by_source else publication.number
        draw = digest_of(f"{self.node} {self.life} {number} run")
        choices = self.walks.choices(epoch, keys, draw)
        audit = self.settings.audit
        if audit and digest_of(f"audit {publication.life} {publication.number}") % audit == 0:
            choices = self.walks.all_choices(epoch)
        payload = self.seal.seal_event(publication)
        parts = [[choice] for choice in choices] if epoch.settings.scatter else [choices]
        for part, chosen in enumerate(parts):
            self._walk(publication, epoch, part, chosen, payload, now, out)

    def wanting(self, event: dict[str, Any]) -> set[str]:
        """The nodes that want an event, as far as this node can tell by itself."""
        placement = self.epochs.used.placement
        if placement is None:
            return set()
        asked = [(home, ANY) for home in range(placement.shape.regions)]
        return {owner for owner, _ in self.store.match(placement.shape.regions, asked, event)}

    def keys(self, epoch: Epoch, event: dict[str, Any]) -> Keys:
        """The keys that an event is asked about under."""
        regions = regions_of(epoch)
        found = keys_of(epoch.settings.function(), event, regions)
        if epoch.settings.unkeyed == "spread" and epoch.settings.places < regions + 1:
            found |= {wide(regions)}
        return found

    def _walk(
        self,
        publication: Publication,
        epoch: Epoch,
        part: int,
        choices: list[Choice],
        payload: bytes,
        now: int,
        out: list[Action],
    ) -> None:
        number = 0 if epoch.settings.by_source else publication.number
        stops = tuple(
            self.walks.stop(choice, f"{self.node} {self.life} {number} {part} {place}")
            for place, choice in enumerate(choices)
        )
        walk = Walk(
            self.application,
            self.node,
            self.life,
            publication.number,
            part,
            regions_of(epoch),
            stops,
            publication,
            payload,
            (),
        )
        if any(node != self.node for node, _ in stops):
            self.walks.begin(walk, choices, now, part, epoch.digest)
        self.step(walk, now, out)

    def step(self, walk: Walk, now: int, out: list[Action]) -> None:
        """Match an event here if this is its next stop, and send it on to the one after."""
        if not 1 <= walk.regions <= MOST_REGIONS:
            out.append(Drop("regions that cannot be", walk))
            return
        stops, found = walk.stops, walk.found
        while stops and stops[0][0] == self.node:
            found = self._ask(walk, stops[0][1], found, now, out)
            stops = stops[1:]
            if walk.source == self.node:
                self.walks.walked(self._answer(walk, len(stops), found), now)
        if len(stops) < len(walk.stops) and walk.source != self.node:
            answer = self._answer(walk, len(stops), found)
            self.lists.send((walk.source,), answer, now, out)
        if stops:
            onward = Walk(
                walk.application,
                walk.source,
                walk.life,
                walk.number,
                walk.part,
                walk.regions,
                stops,
                walk.publication,
                walk.payload,
                found,
            )
            self.lists.send((stops[0][0],), self.seal.wrap(onward), now, out)
        elif found:
            self._hand(walk, found, now, out)

    def _hand(self, walk: Walk, nodes: tuple[str, ...], now: int, out: list[Action]) -> None:
        """Hand an event over, sealed as its application wants."""
        payload: Payload = walk.payload
        if not payload:
            publics = self.store.publics(nodes) if self.settings.seal == "subscriber" else {}
            if self.settings.seal == "subscriber" and len(publics) < len(nodes):
                out.append(Drop("no key of a subscriber's node", walk))
                nodes = tuple(publics)
            payload = self.seal.addressed(walk.publication, publics)
        self.hand(payload, nodes, now, out)

    def _answer(self, walk: Walk, left: int, found: tuple[str, ...]) -> Walked:
        return Walked(self.application, walk.life, walk.number, walk.part, left, found)

    def _ask(
        self,
        walk: Walk,
        asked: tuple[tuple[int, int], ...],
        found: tuple[str, ...],
        now: int,
        out: list[Action],
    ) -> tuple[str, ...]:
        """Who wants it, of those whose subscriptions lie here; returns the nodes still to hand."""
        matched = self.store.match(walk.regions, asked, walk.publication.event)
        self.counts["visits"] += 1
        self.counts["matched"] += len(matched)
        if self.settings.audit and self.settings.by_key:
            self._audit(walk, matched, out)
        owners = tuple(sorted({owner for owner, _ in matched}))
        if self.settings.gather:
            return tuple(dict.fromkeys((*found, *owners)))
        if owners:
            self._hand(walk, owners, now, out)
        return found

    def _audit(self, walk: Walk, matched: set[tuple[str, int]], out: list[Action]) -> None:
        """Count what matches and lies where the event would not have come without an audit."""
        event = walk.publication.event
        keys = keys_of(self.settings.function(), event, walk.regions) | {wide(walk.regions)}
        outside = {key for _, key in matched} - keys
        if outside:
            self.counts["misplaced"] += len(outside)
            out.append(Drop("a match outside its window: the rendezvous function is wrong", walk))

    def wake(self, now: int, out: list[Action]) -> None:
        """Send again what was not answered."""
        for walk, given_up in self.walks.late(now):
            if given_up:
                self.counts["given up"] += 1
                out.append(Drop("no node of the region answers", walk))
            if walk.stops:
                self.lists.send((walk.stops[0][0],), self.seal.wrap(walk), now, out)
            elif walk.found:
                self._hand(walk, walk.found, now, out)
