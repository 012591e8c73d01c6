"""Bugs planted in nodes with two layers, for `plants`: each is easily got wrong.

`LAYER_BUGS` has for each a node with that bug, and the protocol and options it is run with.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tidings.routing.layers.application import Layers
from tidings.routing.layers.asking import regions_of
from tidings.routing.layers.epochs import Epoch, Epochs
from tidings.routing.layers.lists import Lists
from tidings.routing.layers.matching import Matching
from tidings.routing.layers.placement import Regions
from tidings.routing.layers.rendezvous import Keys
from tidings.routing.layers.router import LayeredRouter
from tidings.routing.layers.store import ANY
from tidings.routing.layers.walks import Choice, Walks
from tidings.routing.packets import Adapted, Listed, Report, Walk
from tidings.routing.planes.once import Numbered, Once
from tidings.routing.protocol import Action, Drop, Timing

KEYED: Final = "regions-list:rendezvous=hash:kind,hops=2,replicas=2,places=2"
FOLLOWING: Final = (  # places follow load, and soon
    "regions-list:rendezvous=hash:kind,hops=3,replicas=1,adapt_ms=500,room=3,rate=10"
)


class LiteralWindow(Matching):
    """Draws the region of a subscription from [-H/2, H/2], as paper L has it: one too many."""

    def homes(self, shape: Regions, key: int, draw: int) -> tuple[int, ...]:
        offsets = range(-(shape.hops // 2), shape.hops // 2 + 1)
        return ((key + offsets[draw % len(offsets)]) % shape.regions,)


class LastRegionLeftOut(Walks):
    """Ends the walk one region too early."""

    def choices(self, epoch: Epoch, keys: Keys, draw: int = 0) -> list[Choice]:
        found = super().choices(epoch, keys, draw)
        return found[:-1] if len(found) > 1 else found


class WalkRestarts(Walks):
    """Begins a walk anew at its first region when an answer is late."""

    def __init__(self, node: str, timing: Timing) -> None:
        super().__init__(node, timing)
        self._whole: dict[tuple[int, int], tuple[Walk, list[Choice]]] = {}

    def begin(
        self, walk: Walk, choices: list[Choice], now: int, part: int = 0, epoch: int = 0
    ) -> None:
        super().begin(walk, choices, now, part, epoch)
        self._whole[walk.number, part] = (walk, choices)

    def late(self, now: int) -> list[tuple[Walk, bool]]:
        for name, walking in self._walking.items():
            if walking.at <= now:
                walking.walk, walking.choices = self._whole[name]
        return super().late(now)


class MetTwice(Walks):
    """Asks for the subscriptions of every key, so one with two places may be met at both."""

    def choices(self, epoch: Epoch, keys: Keys, draw: int = 0) -> list[Choice]:
        return [
            choice._replace(asked=tuple((home, ANY) for home, _ in choice.asked))
            for choice in super().choices(epoch, keys, draw)
        ]


class OneAnswerIsEnough(Matching):
    """Says that a subscription is established once one node holds it."""

    def _lies(self, id: str) -> bool:
        lies, slots = self.placing.lies, self._slots[id]
        return not slots or any(lies(node, slot, text) for (node, slot), text in slots.items())


class UsedAtOnce(Epochs):
    """Publishes by the newest epoch before all nodes have placed their subscriptions by it."""

    def advance(self, all_placed: bool) -> bool:
        before = self.used
        changed = super().advance(all_placed)
        self.used = self.newest
        return changed or before is not self.used


class BreakBeforeMake(Epochs):
    """Forgets earlier epochs when a new one comes, though events still travel by them."""

    def adopt(self, epoch: Epoch) -> bool:
        changed = super().adopt(epoch)
        self.kept = self.kept[-1:]
        return changed


class OwnRegions(Matching):
    """Asks about as many regions as the node itself knows of, not as the event says."""

    def received_walk(self, walk: Walk, now: int, out: list[Action]) -> None:
        own = regions_of(self.epochs.newest)
        stops = tuple((n, tuple((h % own, k) for h, k in asked)) for n, asked in walk.stops)
        fields = {name: getattr(walk, name) for name in walk.__struct_fields__}
        super().received_walk(Walk(**{**fields, "regions": own, "stops": stops}), now, out)


class ForgetsNobody(Matching):
    """Keeps the subscriptions of nodes that are gone."""

    def _forget_the_gone(self, now: int, out: list[Action]) -> None:
        pass


class RemovalNotTold(Matching):
    """Leaves a subscription where it lies when its user gives it up."""

    def unsubscribe(self, id: str, now: int, out: list[Action]) -> None:
        self.subscriptions.pop(id, None)
        self._slots.pop(id, None)
        self._established.pop(id, None)
        self._unestablished.pop(id, None)


class NothingHeld(Lists):
    """Drops a packet whose view it does not know, instead of waiting for its own routes."""

    def _hold(self, packet: Listed, now: int, until: int | None, out: list[Action]) -> None:
        out.append(Drop("no path", packet))


class OneOfTheRun(Matching):
    """Puts a subscription into one region, where several should hold the same."""

    def homes(self, shape: Regions, key: int, draw: int) -> tuple[int, ...]:
        return super().homes(shape, key, draw)[:1]


class AdaptsAtOnce(Matching):
    """Publishes by what the leader has decided before subscriptions lie so."""

    def received_adapted(self, adapted: Adapted, now: int, out: list[Action]) -> None:
        super().received_adapted(adapted, now, out)
        self.epochs.used = self.epochs.newest


class ForgetsTooMuch(Epochs):
    """Forgets all epochs that nobody uses, though events may still be on their walk by some."""

    def heard(self, report: Report) -> bool:
        return super().heard(msgspec.structs.replace(report, walking=0))

    def prune(self, chosen: frozenset[int]) -> bool:
        self.walking = 0
        return super().prune(self.unneeded())


class NeverSeenBefore(Once):
    """Takes every copy for a new event."""

    def first(self, publication: Numbered) -> bool:
        return True


def _with(
    matching: type[Matching] = Matching,
    epochs: type[Epochs] = Epochs,
    walks: type[Walks] = Walks,
    lists: type[Lists] = Lists,
    once: type[Once] = Once,
) -> Any:
    """A node with some part exchanged."""
    odd = type(matching.__name__, (matching,), {"epochs_of": epochs, "walks_of": walks})
    layers = type("Layers", (Layers,), {"matching_of": odd, "once_of": once})
    return type("Planted", (LayeredRouter,), {"layers_of": layers, "lists_of": lists})


class LayerBug(NamedTuple):
    """A planted bug, and the protocol whose nodes have it."""

    make: Any
    protocol: str = KEYED
    first: int = 0


LAYER_BUGS: Final[dict[str, LayerBug]] = {
    "literal window": LayerBug(_with(LiteralWindow)),
    "last region left out": LayerBug(_with(walks=LastRegionLeftOut)),
    "walk restarts": LayerBug(_with(walks=WalkRestarts), first=17),
    "met twice by two places": LayerBug(_with(walks=MetTwice)),
    "one answer is enough": LayerBug(_with(OneAnswerIsEnough)),
    "used at once": LayerBug(_with(epochs=UsedAtOnce)),
    "break before make": LayerBug(_with(epochs=BreakBeforeMake)),
    "own regions": LayerBug(_with(OwnRegions)),
    "forgets nobody": LayerBug(_with(ForgetsNobody)),
    "removal not told": LayerBug(_with(RemovalNotTold)),
    "nothing held": LayerBug(_with(lists=NothingHeld), "everywhere-list"),
    "one of the run": LayerBug(_with(OneOfTheRun), FOLLOWING),
    "adapts at once": LayerBug(_with(AdaptsAtOnce), FOLLOWING, 2),
    "forgets too much": LayerBug(_with(epochs=ForgetsTooMuch), FOLLOWING, 4),
    "never seen before": LayerBug(_with(once=NeverSeenBefore)),
}
