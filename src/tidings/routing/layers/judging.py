"""How layered applications are judged: where nodes are wrong, and which links an event may take.

The slow twin of placement, seen from above. From the true nodes, their lives and what subscribers
hold, it computes anew which node must hold which subscription, and follows an event past every
choice of nodes that its walk could make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, product
from math import lcm
from random import Random
from typing import Any, Final

from tidings.routing.layers.epochs import Epoch
from tidings.routing.layers.matching import SOMETHING, Matching, places_of
from tidings.routing.layers.rendezvous import keys_of, wide
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Slot
from tidings.routing.planes.interests import EVERYTHING, predicate_of
from tidings.routing.planes.topology import digest_of
from tidings.routing.protocol import MILLISECOND, Timing
from tidings.routing.truth import Hops, Situation, wrong_subscriptions
from tidings.routing.twin import Links

LOOKS: Final = 30  # until no load is left that would change anything
MOST_CHOICES: Final = 256  # of the nodes that a walk visits; beyond it the twin does not follow


def converges_within(timing: Timing, crossing: int) -> int:
    """How long a network takes to be right after its last change, if no packet gets lost then.

    A silent link is noticed and told, and nodes compute routes. Then subscriptions are put where
    the new epoch wants them, and answered; nodes report, publish by the new epoch, and report that.
    Whatever was lost before is said again.
    """
    noticed = timing.dead + 3 * timing.hello
    told = 2 * timing.gather + crossing
    placed = timing.hold + 2 * crossing + timing.retry
    used = timing.retry + 3 * crossing
    return noticed + told + placed + used


def calms(settings: Layering) -> int:
    """How long places may follow a load that has ended: rates halve with every look."""
    return LOOKS * settings.adapt_ms * MILLISECOND if settings.adapts() else 0


def resets(chance: Random) -> dict[str, Any]:
    """Other settings that a running application may get."""
    return {
        "replicas": chance.randint(1, 4),
        "hops": chance.randint(1, 4),
        "rendezvous": chance.choice(("one", "hash:kind", "range:kind:1,2,3")),
        "scatter": chance.random() < 0.3,
        "gather": chance.random() < 0.3,
    }


def has(node: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a node has these settings, and publishes by them."""
    used = in_use(node, Layering()).settings
    return all(getattr(used, name) == value for name, value in settings.items())


def disagreements(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong, node by node: routes, epochs, and who holds which subscription."""
    truth = situation.truth
    wrong = next(truth.wrong_paths(situation.hops), None)
    if wrong is not None:
        yield wrong
        return
    unsettled = [name for name in truth.running if not nodes[name].is_settled()]
    if unsettled:
        waits_for = nodes[unsettled[0]].layers.matching.waits_for() or "routes"
        yield f"{unsettled[0]} is not settled: it waits for {waits_for}"
        return
    for name in truth.running:
        lives = {other: nodes[other].plane.life for other in truth.reaches(name)}
        matching = nodes[name].layers.matching
        yield from wrong_placements(name, matching, lives, situation)
        if situation.exact and matching.walks.count:
            yield f"{name} still waits for answers to {matching.walks.count} walks"
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)


def wrong_placements(
    name: str, matching: Matching, lives: Mapping[str, int], situation: Situation
) -> Iterator[str]:
    """What is wrong at one node, given the nodes in its reach.

    It must hold what it should; if the situation is exact, it must hold nothing else.
    """
    if dict(matching.epochs.used.lives) != dict(lives):
        yield f"{name} publishes by the nodes {sorted(matching.epochs.used.lives.items())}"
        return
    expected: dict[str, dict[Slot, str]] = {}
    epoch = Epoch.of("", matching.settings, dict(lives), matching.adapted)
    for owner, slot, text, members in lying(epoch, situation):
        if name in members:
            expected.setdefault(owner, {})[slot] = text
    for owner in sorted(expected.keys() | matching.store.holdings.keys()):
        found = matching.store.entries(owner)
        wanted = expected.get(owner, {})
        missing = sorted(wanted.items() - found.items())
        surplus = sorted(found.items() - wanted.items())
        if missing or (situation.exact and surplus):
            yield f"{name} lacks {missing} and has {surplus} of {owner}"


def lying(epoch: Epoch, situation: Situation) -> Iterator[tuple[str, Slot, str, tuple[str, ...]]]:
    """Where every subscription lies: owner, slot, text, and the nodes that hold it."""
    settings, placement = epoch.settings, epoch.placement
    if placement is None:
        return
    shape = placement.shape
    for owner in epoch.lives:
        for id, text in situation.subscriptions.get(owner, {}).items():
            if settings.matching == "nowhere":
                id, text = SOMETHING, EVERYTHING
            for key in places_of(settings, text, shape.regions):
                for home in shape.homes(key, digest_of(f"{owner} {id} {key}")):
                    yield owner, (id, shape.regions, home, key), text, placement.members(home)


def links_of_event(
    epoch: Epoch, situation: Situation, hops: Hops, source: str, event: dict[str, Any]
) -> Iterator[Links]:
    """The links that an event may take, for every choice of nodes that its walk can make."""
    settings, placement = epoch.settings, epoch.placement
    if placement is None:
        yield Counter()
        return
    shape = placement.shape
    keys = keys_of(settings.function(), event, shape.regions)
    if settings.unkeyed == "spread" and settings.places < shape.regions + 1:
        keys |= {wide(shape.regions)}
    # Where several regions hold the same, all steps of all keys take the same of them in turn.
    spreads = [len(run) for key in keys for run in shape.runs(key)]
    for draw in range(lcm(*spreads)):
        asked: dict[tuple[str, ...], set[tuple[int, int]]] = {}
        for key in sorted(keys):
            for home in shape.visits(key, draw):
                asked.setdefault(placement.members(home), set()).add((home, key))
        yield from _links_of_walks(epoch, situation, hops, source, event, asked)


def _links_of_walks(
    epoch: Epoch,
    situation: Situation,
    hops: Hops,
    source: str,
    event: dict[str, Any],
    asked: Mapping[tuple[str, ...], set[tuple[int, int]]],
) -> Iterator[Links]:
    """The same, for given regions: the nodes of each, and what is asked there."""
    settings = epoch.settings
    found: dict[tuple[str, ...], dict[str, None]] = {members: {} for members in asked}
    for owner, (_, _, home, key), text, members in lying(epoch, situation):
        if (home, key) in asked.get(members, ()) and predicate_of(text).matches(event):
            found[members][owner] = None
    options = [
        (source,) if source in members and not settings.capacities else members for members in asked
    ]
    for chosen in product(*options):
        links: Links = Counter()
        here = source
        gathered: dict[str, None] = {}
        for stop, owners in zip(chosen, found.values(), strict=True):
            links.update(_path(hops, source if settings.scatter else here, stop))
            gathered.update(owners)
            here = stop
            if settings.scatter or not settings.gather or stop == chosen[-1]:
                links.update(_delivered(settings, situation, hops, stop, tuple(gathered)))
                gathered = {}
        yield links


def _path(hops: Hops, source: str, target: str) -> Iterator[tuple[str, str]]:
    while source != target:
        yield source, hops[source][target]
        source = hops[source][target]


def _delivered(
    settings: Layering, situation: Situation, hops: Hops, sender: str, owners: tuple[str, ...]
) -> Links:
    """The links from the node that hands an event over to those that want it."""
    others = [owner for owner in owners if owner != sender]
    if settings.delivery == "unicast":
        return Counter(link for owner in others for link in _path(hops, sender, owner))
    if settings.delivery == "tree" and others:
        others = [node for node in situation.truth.reaches(sender) if node != sender]
    return Counter({link for owner in others for link in _path(hops, sender, owner)})


def in_use(node: Any, options: Layering) -> Epoch:
    """By what a node works: options may have changed while it ran, and places follow load."""
    used: Epoch = node.layers.matching.epochs.used
    return used


def objection(
    used: Epoch,
    situation: Situation,
    hops: Hops,
    source: str,
    event: dict[str, Any],
    taken: Links,
) -> str | None:
    """What is wrong with the links that an event has taken at rest; None if nothing is.

    Nodes that relay keep nothing of what they pass on, so what a link repeats goes on twice.
    """
    lives = dict.fromkeys(situation.truth.reaches(source), 0)
    epoch = Epoch.of("", used.settings, lives, used.adapted)
    possible = list(islice(links_of_event(epoch, situation, hops, source, event), MOST_CHOICES))
    if len(possible) >= MOST_CHOICES:
        return None
    if any(links.keys() == taken.keys() and links <= taken for links in possible):
        return None
    return f"took {sorted(taken.elements())}, not {sorted(possible[0].elements())}"
