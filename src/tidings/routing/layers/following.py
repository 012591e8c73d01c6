"""Places that follow load (L7), in the protocol: past the caveats of paper L, section 4.2.

Every `adapt_ms` each node tells one of them, the *leader*, how many events its users published and
how many subscriptions they have, by key (`Loads`). The leader decides for the whole application
(`decided`), and tells all (`Adapted`):

- *mean H below the bound*: the window of a key has as many steps as its subscriptions need at
  `room` for each region, and never more than H;
- *replication follows load*: a key with more events than one region matches at `rate` for each node
  has 2, 4, 8 … regions for each step, which hold the same;
- *the fewest nodes*: only so many serve as load and subscriptions need, the first by weighted
  rendezvous hashing, so most that serve go on to serve;
- *unlike nodes*: all that counts nodes counts their capacities.

What is decided is part of the epoch. So it comes into use as other settings do, make before break
(`epochs`): nothing is lost or doubled meanwhile. The leader needs no election. It is the smallest
name that may match; where nodes disagree, two may decide, and the larger number counts. Thresholds
lie apart by a factor of two or more, so constant load ends all change. While nodes do not yet agree
on the epoch, nothing is decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from tidings.overlay.weights import first_nodes
from tidings.routing.layers.adapting import followed
from tidings.routing.layers.epochs import Epoch, Epochs
from tidings.routing.layers.lists import Lists
from tidings.routing.layers.placement import Width
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Adapted, Loads
from tidings.routing.protocol import MILLISECOND, SECOND, Action, Drop

MEMORY: Final = 0.5  # of the rates before, that a look keeps
SPARE: Final = 2  # times the load that nodes must bear before others are given up


class Need(NamedTuple):
    """What the users of an application need, by key."""

    rates: Mapping[int, float]  # events a second
    subscriptions: Mapping[int, int]


class Decision(NamedTuple):
    """How places follow load."""

    serving: int  # nodes; 0: all that may
    widths: dict[int, Width]  # of keys


def decided(application: str, epoch: Epoch, need: Need, before: Decision) -> Decision:
    """How places should be, given how they are: the same, unless load is out of its bounds."""
    placement, settings = epoch.placement, epoch.settings
    if placement is None:
        return before
    regions, hops = placement.shape.regions, min(settings.hops, placement.shape.regions)
    weights = settings.weights
    capacity = sum(weights.get(node, 1.0) for nodes in placement.nodes_of for node in nodes)
    share = settings.rate * capacity / regions  # events a second that one region should match
    widths: dict[int, Width] = {}
    usual = Width(hops, 1)
    for key in range(regions + 2):  # one stands for `absent`, one for `wide`
        was = before.widths.get(key, usual)
        steps = hops
        if settings.room:
            steps = _steps(was.steps, need.subscriptions.get(key, 0), settings.room, hops)
        spread = 1
        if settings.rate:
            spread = followed(was.spread, need.rates.get(key, 0.0), share, regions // steps)
        if (steps, spread) != usual:
            widths[key] = Width(steps, spread)
    visits = sum(rate * widths.get(key, usual).steps for key, rate in need.rates.items())
    stored = sum(need.subscriptions.values())
    return Decision(_serving(application, epoch, visits, stored, before.serving), widths)


def _widths(epoch: Epoch) -> dict[int, Width]:
    """The windows of an epoch that are not H steps of one region each."""
    if epoch.placement is None:
        return {}
    shape = epoch.placement.shape
    runs = {key: shape.runs(key) for key in range(shape.regions + 2)}
    widths = {key: Width(len(found), len(found[0])) for key, found in runs.items()}
    usual = Width(min(epoch.settings.hops, shape.regions), 1)
    return {key: width for key, width in widths.items() if width != usual}


def _steps(before: int, subscriptions: int, room: int, hops: int) -> int:
    """How many regions the subscriptions of a key need; fewer than before only if half is enough.

    >>> [_steps(1, count, room=10, hops=4) for count in (0, 10, 11, 35, 90)]
    [1, 1, 2, 4, 4]
    >>> [_steps(4, count, room=10, hops=4) for count in (35, 21, 20, 9)]
    [4, 4, 2, 1]
    """
    needed = min(max(1, -(-subscriptions // room)), hops)
    return needed if needed > before or 2 * needed <= before else min(before, hops)


def _serving(application: str, epoch: Epoch, visits: float, stored: int, before: int) -> int:
    """How many nodes the application needs: more if these are too few, fewer if half would do."""
    settings = epoch.settings
    if not settings.rate:
        return 0
    may = [node for node in epoch.lives if not settings.nodes or node in settings.nodes]
    serving = min(before or len(may), len(may))
    least = _fewest(settings, application, may, visits, stored)
    if least > serving:
        return least
    enough = _fewest(settings, application, may, SPARE * visits, SPARE * stored)
    return enough if enough < serving else before


def _fewest(
    settings: Layering, application: str, may: list[str], visits: float, stored: int
) -> int:
    """The fewest of R, 2 R, 4 R … nodes that match and hold so much; else all there are."""
    weights = settings.weights
    order = first_nodes(application, may, len(may), weights)
    count = settings.replicas
    while count < len(may):
        capacity = sum(weights.get(node, 1.0) for node in order[:count])
        regions = settings.regions or count // settings.replicas
        if visits <= settings.rate * capacity and (
            not settings.room or stored <= settings.room * regions
        ):
            return count
        count *= 2
    return len(may)


class Following:
    """One node's part in letting the places of an application follow load."""

    def __init__(
        self,
        application: str,
        lists: Lists,
        epochs: Epochs,
        published: Counter[int],
        stored: Callable[[int], Iterable[int]],
        adapt: Callable[[Adapted, int, list[Action]], None],
    ) -> None:
        self.application = application
        self.node, self.life = lists.plane.node, lists.plane.life
        self.lists = lists
        self.epochs = epochs
        self.published = published  # events here since this node last told of them, by key
        self._stored = stored  # by X: the keys of the subscriptions here, each as often as it is
        self._adapt = adapt  # takes what this node has decided, and tells all
        self._at: int | None = None  # when to look again
        self._epoch = 0  # in which events have been counted, from `_since` on
        self._since = 0
        self._heard: dict[str, Loads] = {}  # at the leader: of every node in this epoch
        self._rates: dict[int, float] = {}  # at the leader: smoothed, by key
        self._rates_for = 0  # X that their keys are meant for

    def start(self, now: int) -> None:
        """There is a link, or there are other settings: look from now on, if places follow load."""
        if not self.epochs.newest.settings.adapts():
            self._at = None
        elif self._at is None:
            self._at, self._since = now + self._every(), now

    def stop(self) -> None:
        """Nothing more is to be done."""
        self._at = None

    def timer(self) -> int | None:
        """When to look again."""
        return self._at

    def _every(self) -> int:
        return self.epochs.newest.settings.adapt_ms * MILLISECOND

    @property
    def leader(self) -> str:
        """The node that decides: the smallest that may match."""
        epoch = self.epochs.newest
        trusted = epoch.settings.nodes
        return min((n for n in epoch.lives if not trusted or n in trusted), default="")

    def wake(self, now: int, out: list[Action]) -> None:
        """If it is time, tell what users here need; the leader decides."""
        if self._at is None or now < self._at:
            return
        self._at = now + self._every()
        if not self.epochs.newest.settings.adapts():
            self._at = None
            return
        used = self.epochs.used
        events, since = dict(self.published), self._since
        self.published.clear()
        self._since = now
        if self._epoch != used.digest:  # what was counted belongs to several epochs
            self._epoch = used.digest
            return
        regions = 1 if used.placement is None else used.placement.shape.regions
        loads = Loads(
            self.application,
            self.node,
            self.life,
            used.digest,
            max(1, now - since),
            tuple(sorted(events.items())),
            tuple(sorted(Counter(self._stored(regions)).items())),
        )
        leader = self.leader
        if leader == self.node:
            self._heard[self.node] = loads
            self._decide(now, out)
        elif leader:
            self.lists.send((leader,), loads, now, out)

    def received(self, loads: Loads, out: list[Action]) -> None:
        """A node tells this one, the leader, what its users need."""
        used = self.epochs.used
        most = 2 if used.placement is None else used.placement.shape.regions + 2
        if used.lives.get(loads.node) != loads.life or loads.epoch != used.digest:
            return  # of another epoch: it will tell again
        if loads.span < 1 or max(len(loads.events), len(loads.subscriptions)) > most:
            out.append(Drop("more keys than there are", loads))
            return
        self._heard[loads.node] = loads

    def _decide(self, now: int, out: list[Action]) -> None:
        epochs, used = self.epochs, self.epochs.used
        heard = {n: one for n, one in self._heard.items() if one.epoch == used.digest}
        self._heard = {}
        if used is not epochs.newest or epochs.not_placed() or epochs.not_using():
            return
        if used.placement is None or heard.keys() != used.lives.keys():
            self._heard = heard  # some have yet to tell
            return
        regions = used.placement.shape.regions
        need = self._need(heard.values(), regions)
        known = used.adapted
        before = Decision(0 if known is None else known.serving, _widths(used))
        after = decided(self.application, used, need, before)
        if after != before:
            number = 1 if known is None else known.number + 1
            widths_told = tuple((key, *width) for key, width in sorted(after.widths.items()))
            self._adapt(
                Adapted(
                    self.application,
                    number,
                    self.node,
                    after.serving,
                    regions,
                    widths_told,
                    max((width.steps for width in after.widths.values()), default=0),
                ),
                now,
                out,
            )

    def _need(self, heard: Iterable[Loads], regions: int) -> Need:
        """What all users need together; rates are smoothed."""
        rates: Counter[int] = Counter()
        subscriptions: Counter[int] = Counter()
        for loads in heard:
            for key, count in loads.events:
                rates[key] += count * SECOND / loads.span  # type: ignore[assignment]
            subscriptions.update(dict(loads.subscriptions))
        if self._rates_for != regions:
            self._rates, self._rates_for = dict(rates), regions
        else:
            self._rates = {
                key: MEMORY * self._rates.get(key, 0.0) + (1 - MEMORY) * rates[key]
                for key in {*self._rates, *rates}
            }
        return Need(self._rates, subscriptions)
