"""The matching layer (L1): who wants this event? At which nodes is that asked (L2)?

Subscriptions lie at nodes that follow from their keys; an event visits nodes that follow from its
own. All three rows of `MATCHING` are this one machine:

- `everywhere`: one region of all nodes, so every node holds all subscriptions, and the node where
  an event is published finds out by itself (MEDYM, S4);
- `regions`: X regions of about R nodes; an event visits H of them (section 4.2 of the paper);
- `nowhere`: as `everywhere`, but a node only says that it wants something; subscribers filter.

This file places subscriptions and keeps them in place; `asking` takes events past them. The layer
hands over an event and the nodes to which it must go (`hand`). It does not know how the event gets
there. Destinations are nodes, each once: the node there matches again, by its own subscriptions, so
whoever finds a node by mistake or by malice causes a packet and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from tidings.matching.contract import Matcher
from tidings.routing.layers.asking import Asking, Hand, regions_of
from tidings.routing.layers.epochs import UNCHANGED, Epoch, Epochs
from tidings.routing.layers.following import Following
from tidings.routing.layers.lists import Lists
from tidings.routing.layers.placement import Regions
from tidings.routing.layers.placing import FORGOTTEN, Placing
from tidings.routing.layers.rendezvous import Keys, placed
from tidings.routing.layers.sealing import Open, Seal
from tidings.routing.layers.settings import Layering
from tidings.routing.layers.store import Store
from tidings.routing.layers.walks import Walks
from tidings.routing.packets import (
    Adapted,
    Publication,
    Put,
    Report,
    Sealed,
    Slot,
    Stored,
    Walk,
    Walked,
)
from tidings.routing.planes.interests import EVERYTHING, predicate_of
from tidings.routing.planes.topology import digest_of
from tidings.routing.protocol import Action, Drop, Established, earliest

MATCHING: Final = {
    "everywhere": "every node holds all subscriptions",
    "regions": "an event visits regions that hold them",
    "nowhere": "subscribers filter",
}
MOST_REMINDERS: Final = 20  # that what an owner had placed here is gone
SOMETHING: Final = ""  # the id of the one entry by which a node says that it wants something


@lru_cache(1 << 14)
def places_of(settings: Layering, text: str, regions: int) -> Keys:
    """The keys at which a subscription lies.

    Where events do not ask at `wide`, it lies at all of its keys, however many. It may have got
    more than one since it was accepted: by other settings, or because there are more regions now.
    """
    most = settings.places if settings.unkeyed == "spread" else regions + 1
    return placed(settings.function(), predicate_of(text), regions, most)


class UnplacedError(ValueError):
    """A predicate that has no place, where the application allows only those that have one."""


class Matching:
    """One node's part in the matching layer of an application."""

    def __init__(
        self,
        application: str,
        settings: Layering,
        lists: Lists,
        matcher: Callable[[], Matcher],
        hand: Hand,
        seal: Seal | Open,
        first: int = 0,
    ) -> None:
        plane = lists.plane
        self.application = application
        self.node, self.life, self.timing = plane.node, plane.life, plane.timing
        self.settings = settings
        self.change = UNCHANGED  # of the settings: its number, and the node that made it
        self.lists = lists
        self.seal = seal
        self.adapted: Adapted | None = None  # how places follow load
        self.epochs = self.epochs_of(self.node, Epoch.of(application, settings, self._lives()))
        self.store = Store(matcher)
        self.placing = self.placing_of(application, self.node, self.life, self.timing, first)
        self.placing.public = seal.public
        self.walks = self.walks_of(self.node, self.timing)
        self.subscriptions: dict[str, str] = {}
        self._slots: dict[str, dict[tuple[str, Slot], str]] = {}  # of each, in all epochs kept
        self._established: dict[str, None] = {}
        self._unestablished: dict[str, None] = {}
        self._owing: dict[str, dict[Slot, str]] = {}  # what the newest epoch lacks, by node
        # Owners of what was dropped here: their lives, when to remind them, and how often yet.
        self._forgotten: dict[str, tuple[int, int, int]] = {}
        self._reported = first
        self._report_at: int | None = None
        self._compare_at: int | None = None
        self._prune_at: int | None = None
        self._prunable: frozenset[int] = frozenset()  # the epochs to forget then
        self.asking = Asking(application, lists, self.epochs, self.store, self.walks, hand, seal)
        self.counts = self.asking.counts
        self.following = Following(
            application, lists, self.epochs, self.asking.published, self._keys, self._decided
        )

    epochs_of: type[Epochs] = Epochs
    placing_of: type[Placing] = Placing
    walks_of: type[Walks] = Walks

    # Subscriptions

    def subscribe(self, id: str, text: str, now: int, out: list[Action]) -> None:
        """Place a subscription, or another predicate for one that is placed."""
        self._check_place(text)
        if id in self.subscriptions:
            self.unsubscribe(id, now, out)
        self.subscriptions[id] = text
        self._unestablished[id] = None
        self._slots[id] = self._slots_of(id)
        for (node, slot), written in self._slots[id].items():
            self.placing.set(node, slot, written)
        self._tell_all({node for node, _ in self._slots[id]}, now, out)
        self._look(now, out)

    def unsubscribe(self, id: str, now: int, out: list[Action]) -> None:
        """Give a subscription up."""
        if self.subscriptions.pop(id, None) is None:
            return
        self._established.pop(id, None)
        self._unestablished.pop(id, None)
        for node, slot in self._unshared(self._slots.pop(id)):
            self.placing.set(node, slot, None)
            self._owing.get(node, {}).pop(slot, None)
            self._tell_all({node}, now, out)
        self._look(now, out)

    def _unshared(self, slots: dict[tuple[str, Slot], str]) -> list[tuple[str, Slot]]:
        """The slots that no other subscription needs: `nowhere` has one for all."""
        if any(slot[0] == SOMETHING for _, slot in slots):
            return [at for at in slots if not any(at in other for other in self._slots.values())]
        return list(slots)

    def _check_place(self, text: str) -> None:
        if self.settings.matching != "regions" or self.settings.unkeyed != "strict":
            return
        regions = regions_of(self.epochs.newest)
        places = self.settings.function().places(predicate_of(text), regions)
        if places is None or len(places) > 1:
            count = "any" if places is None else len(places)
            raise UnplacedError(
                f"application {self.application!r}: expected a predicate with one key of "
                f"{self.settings.rendezvous}, found {count} of {regions + 1}"
            )

    def _slots_of(self, id: str) -> dict[tuple[str, Slot], str]:
        """Where a subscription must lie for the epochs that are kept: nodes, slots and texts."""
        found: dict[tuple[str, Slot], str] = {}
        for epoch in self.epochs.kept:
            found.update(self._slots_in(epoch, id))
        return found

    def _slots_in(self, epoch: Epoch, id: str) -> dict[tuple[str, Slot], str]:
        if epoch.placement is None:
            return {}
        shape = epoch.placement.shape
        text = self.subscriptions[id]
        if epoch.settings.matching == "nowhere":
            id, text = SOMETHING, EVERYTHING
        found: dict[tuple[str, Slot], str] = {}
        for key in self.places(epoch, text):
            for home in self.homes(shape, key, digest_of(f"{self.node} {id} {key}")):
                for member in epoch.placement.members(home):
                    if member in self.epochs.newest.lives:
                        found[member, (id, shape.regions, home, key)] = text
        return found

    def homes(self, shape: Regions, key: int, draw: int) -> tuple[int, ...]:
        """The regions of a subscription."""
        return shape.homes(key, draw)

    def places(self, epoch: Epoch, text: str) -> Keys:
        """The keys of a subscription in an epoch."""
        return places_of(epoch.settings, text, regions_of(epoch))

    def _place_all(self, now: int, out: list[Action]) -> None:
        """Put all subscriptions where some epoch that is kept wants them, and nowhere else."""
        before = {at: None for slots in self._slots.values() for at in slots}
        self._slots = {id: self._slots_of(id) for id in self.subscriptions}
        wanted: dict[tuple[str, Slot], str] = {}
        for slots in self._slots.values():
            wanted.update(slots)
        for node in list(self.placing.channels):
            if node not in self.epochs.newest.lives:
                self.placing.forget(node)
        for node, slot in before:
            if (node, slot) not in wanted and node in self.placing.channels:
                self.placing.set(node, slot, None)
        for (node, slot), text in wanted.items():
            self.placing.set(node, slot, text)
        self._tell_all(self.placing.channels, now, out)

    def _tell_all(self, nodes: Iterable[str], now: int, out: list[Action]) -> None:
        for node in sorted(nodes):
            self._tell(node, self.placing.due(node, now), now, out)

    def _tell(self, node: str, put: Put | None, now: int, out: list[Action]) -> None:
        while put is not None:
            if node != self.node:
                self.lists.send((node,), self.seal.wrap(put), now, out)
                return
            agrees = bool(self.store.put(put))
            kept = Stored(self.application, node, self.life, put.number, agrees)
            put = self.placing.kept(kept, now)

    def received_put(self, put: Put, now: int, out: list[Action]) -> None:
        """An owner says what to hold for it."""
        if put.owner == self.node:  # what is placed here from here is never sent
            out.append(Drop("in the name of this node", put))
            return
        record = self.lists.plane.records.get(put.owner)
        if record is None or record.life != put.life:
            out.append(Drop("of a life that is not there", put))
            return
        if put.public and not self.seal.is_key(put.public):
            out.append(Drop("no key of a subscriber's node", put))
            return
        self._forgotten.pop(put.owner, None)
        agrees = self.store.put(put)
        if agrees is not None:
            answer = Stored(self.application, self.node, put.life, put.number, agrees)
            self.lists.send((put.owner,), answer, now, out)

    def received_kept(self, kept: Stored, now: int, out: list[Action]) -> None:
        """A node says that it holds what it was told to."""
        self._tell(kept.keeper, self.placing.kept(kept, now), now, out)
        self._look(now, out)

    # Epochs

    def _lives(self) -> dict[str, int]:
        plane = self.lists.plane
        found = {self.node: self.life}
        for node in plane.routes.hop:
            record = plane.records.get(node)
            if record is not None:
                found[node] = record.life
        return found

    def members_changed(self, now: int, out: list[Action]) -> None:
        """Nodes may have come, left or begun a new life."""
        lives = self._lives()
        if not self.epochs.newest.is_of(self.settings, lives, self.adapted):
            epoch = Epoch.of(self.application, self.settings, lives, self.adapted, self.change)
            self._adopt(epoch, now, out)

    def configure(
        self, settings: Layering, change: tuple[int, str], now: int, out: list[Action]
    ) -> None:
        """From now on the application has these settings, by this change."""
        self.settings, self.change = settings, change
        self.members_changed(now, out)
        self.following.start(now)

    def _keys(self, regions: int) -> Iterator[int]:
        """The keys of the subscriptions here, each as often as there are some."""
        for slots in self._slots.values():
            yield from {slot[3] for _, slot in slots if slot[1] == regions}

    def _decided(self, adapted: Adapted, now: int, out: list[Action]) -> None:
        """This node has decided how places follow load."""
        self.received_adapted(adapted, now, out)
        self.lists.send(tuple(self.epochs.others()), adapted, now, out)

    def received_adapted(self, adapted: Adapted, now: int, out: list[Action]) -> None:
        """A node has decided how places follow load: all must use the same."""
        known = self.adapted
        if min(adapted.serving, adapted.usual) < 0 or any(
            steps < 1 or spread < 1 for _, steps, spread in adapted.widths
        ):
            out.append(Drop("widths that cannot be", adapted))
        elif known is None or (known.number, adapted.node) < (adapted.number, known.node):
            self.adapted = adapted
            self.members_changed(now, out)

    def _adopt(self, epoch: Epoch, now: int, out: list[Action]) -> None:
        before = self.epochs.newest
        if not self.epochs.adopt(epoch):
            return
        for node, life in epoch.lives.items():
            if before.lives.get(node) != life:
                self.placing.restart(node)  # it may have forgotten what it held
        self._place_all(now, out)
        self._owing = {}
        for id in self.subscriptions:
            for (node, slot), text in self._slots_in(epoch, id).items():
                self._owing.setdefault(node, {})[slot] = text
        self._report(epoch.lives, now, out)
        self._look(now, out)

    def received_report(self, report: Report, now: int, out: list[Action]) -> None:
        """Another node says how far it is."""
        new = self.epochs.heard(report)
        if report.asks and report.node in self.epochs.newest.lives:
            self.lists.send((report.node,), self._own_report(False), now, out)
        if new:
            self._look(now, out)

    def _look(self, now: int, out: list[Action]) -> None:
        """See whether something that was waited for has come."""
        if self._owing:
            self._owing = {
                node: left
                for node, slots in self._owing.items()
                if (left := {s: t for s, t in slots.items() if not self.placing.lies(node, s, t)})
            }
        epochs = self.epochs
        while epochs.advance(not self._owing):
            self._report(epochs.newest.lives, now, out)
        walking = self._walking()
        if walking != epochs.walking:
            epochs.walking = walking
            self._report(epochs.newest.lives, now, out)
        unneeded = epochs.unneeded()
        if unneeded and self._prune_at is None:
            # Of an event on its walk, an earlier copy may still be under way.
            self._prune_at = now + 2 * self.timing.retry + self.timing.hold_most
            self._prunable = unneeded
        if self._report_at is None and self._asked():
            self._report_at = now + self.timing.retry
        self._establish(out)

    def _establish(self, out: list[Action]) -> None:
        if not self._unestablished or not self.epochs.all_use_a_kept_one():
            return
        done = tuple(id for id in self._unestablished if self._lies(id))
        for id in done:
            del self._unestablished[id]
            self._established[id] = None
        if done:
            out.append(Established(done, self.application))

    def _lies(self, id: str) -> bool:
        """Whether a subscription lies wherever some epoch that is kept wants it."""
        if any(epoch.placement is None for epoch in self.epochs.kept):
            return False
        lies = self.placing.lies
        return all(lies(node, slot, text) for (node, slot), text in self._slots[id].items())

    def _missing(self) -> list[str]:
        """The nodes whose report this one waits for."""
        found = [*self.epochs.not_placed(), *self.epochs.not_using()]
        return [node for node in dict.fromkeys(found) if node != self.node]

    def _asked(self) -> list[str]:
        """The nodes to ask for a report: a lost one must not keep an earlier epoch for ever."""
        return list(dict.fromkeys([*self._missing(), *self.epochs.walkers()]))

    def _walking(self) -> int:
        """The oldest epoch before the one in use by which events from here still walk; 0: none."""
        epochs = self.epochs
        for epoch in epochs.kept:
            if epoch is epochs.used:
                break
            if self.walks.goes_by(epoch.digest) and not epochs.is_broken(epoch):
                return epoch.digest
        return 0

    def _own_report(self, asks: bool) -> Report:
        epochs = self.epochs
        epochs.walking = self._walking()
        self._reported += 1
        return Report(
            self.application,
            self.node,
            self.life,
            self._reported,
            epochs.placed,
            epochs.used.digest,
            asks,
            epochs.walking,
        )

    def _report(
        self, nodes: Iterable[str], now: int, out: list[Action], asks: bool = False
    ) -> None:
        others = tuple(node for node in nodes if node != self.node)
        if others:
            self.lists.send(others, self._own_report(asks), now, out)

    # Events

    def publish(self, publication: Publication, now: int, out: list[Action]) -> None:
        """Find who wants an event: take it past the nodes that know."""
        self.asking.publish(publication, now, out)

    def received_walk(self, walk: Walk, now: int, out: list[Action]) -> None:
        """An event comes past on its walk."""
        self.asking.step(walk, now, out)

    def received_walked(self, walked: Walked, now: int, out: list[Action]) -> None:
        """A stop of a walk answers."""
        self.walks.walked(walked, now)
        if self.epochs.walking and self._walking() != self.epochs.walking:
            self._look(now, out)

    def received_box(self, sealed: Sealed, now: int, out: list[Action]) -> None:
        """A packet comes that only nodes of the matching layer can read."""
        match self.seal.unwrap(sealed):
            case Put() as put:
                self.received_put(put, now, out)
            case Walk() as walk:
                self.received_walk(walk, now, out)
            case _:
                self.counts["unreadable"] += 1
                out.append(Drop("sealed with another key", sealed))

    def rekey(self, now: int, out: list[Action]) -> None:
        """The keys of this node are others from now on."""
        self.placing.rekey(self.seal.public)
        self._tell_all(self.placing.channels, now, out)

    # Time

    def timer(self) -> int | None:
        """When to wake."""
        return earliest(
            self._report_at,
            self._compare_at,
            self._prune_at,
            self.following.timer(),
            self.placing.timer(),
            self.walks.timer(),
            self.walks.expires() if self.epochs.walking else None,
        )

    def start(self, now: int) -> None:
        """There is a link: from now on, compare what others hold with what they should."""
        if self._compare_at is None:
            self._compare_at = now + digest_of(f"{self.node} compares") % self._compare_every()
        self.following.start(now)

    def join(self, now: int, out: list[Action]) -> None:
        """The node carries the application from now on; others may have done so before.

        Perhaps this one did, too: it holds nothing any more, and says so.
        """
        self.start(now)
        for node, life in self.epochs.newest.lives.items():
            if node != self.node:
                forgotten = Stored(self.application, self.node, life, FORGOTTEN, False)
                self.lists.send((node,), forgotten, now, out)
        self._report(self.epochs.newest.lives, now, out, asks=True)
        self._look(now, out)

    def _compare_every(self) -> int:
        return max(self.timing.pull, self.timing.refresh)

    def leave(self) -> None:
        """Nothing more is to be done."""
        self._report_at = self._compare_at = self._prune_at = None
        self.following.stop()

    def wake(self, now: int, out: list[Action]) -> None:
        """Do what is due."""
        self._forget_the_gone(now, out)
        for node, put in self.placing.late(now):
            self._tell(node, put, now, out)
        self.asking.wake(now, out)
        self.following.wake(now, out)
        if self.epochs.walking:
            self.walks.expire(now)
            if self._walking() != self.epochs.walking:
                self._look(now, out)
        if self._report_at is not None and now >= self._report_at:
            self._report_at = None
            asked = self._asked()
            if asked:
                self._report(asked, now, out, asks=True)
                self._report_at = now + self.timing.retry
        if self._prune_at is not None and now >= self._prune_at:
            self._prune_at = None
            if self.epochs.prune(self._prunable):
                self._place_all(now, out)
            self._look(now, out)
        if self._compare_at is not None and now >= self._compare_at:
            self._compare_at = now + self._compare_every()
            for node in list(self.placing.channels):
                self._tell(node, self.placing.due(node, now, compare=True), now, out)

    def _forget_the_gone(self, now: int, out: list[Action]) -> None:
        """Drop what owners had placed here who are gone, or have begun a new life.

        One that comes back may not know that it was out of reach: it is told.
        """
        records = self.lists.plane.records
        for owner, (life, at, tries) in list(self._forgotten.items()):
            record = records.get(owner)
            if record is None or now < at:
                continue
            if record.life != life or not tries:
                del self._forgotten[owner]
                continue
            self._forgotten[owner] = (life, now + self.timing.retry, tries - 1)
            answer = Stored(self.application, self.node, life, FORGOTTEN, False)
            self.lists.send((owner,), answer, now, out)
        for owner, holding in list(self.store.holdings.items()):
            record = records.get(owner)
            if (record is None or record.life != holding.life) and owner != self.node:
                self.store.forget(owner)
                self._forgotten[owner] = (holding.life, now, MOST_REMINDERS)

    def waits_for(self) -> str:
        """What it takes until this node is at rest; nothing if it is."""
        missing = self._missing()
        if missing:
            return f"reports of {', '.join(missing)}"
        if self._unestablished:
            return f"subscriptions {', '.join(self._unestablished)}"
        return "" if self.placing.is_settled() else "answers of nodes that hold subscriptions"

    def is_settled(self) -> bool:
        """Whether all nodes use the newest epoch, and all that this one wants lies in place."""
        return not self.waits_for()

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            **self.epochs.snapshot(),
            **self.walks.snapshot(),
            **self.counts,
            "held": {
                owner: sorted([*slot, text] for slot, text in self.store.entries(owner).items())
                for owner in sorted(self.store.holdings)
            },
            "established": sorted(self._established),
            "adapted": 0 if self.adapted is None else self.adapted.number,
        }
