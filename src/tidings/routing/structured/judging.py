"""How protocols on structured overlays are judged: against the ideal ring of the true nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tidings.overlay.ideal import IdealRing
from tidings.routing.planes.interests import predicate_of
from tidings.routing.protocol import Timing
from tidings.routing.truth import Hops, Situation, wrong_subscriptions
from tidings.routing.twin import Links


def converges_within(timing: Timing, crossing: int) -> int:
    """How long a network takes to be right after its last change, if no packet gets lost then.

    A silent link is noticed and told, and nodes compute routes. Then the ring takes a few rounds to
    find its successors, and as many to find its fingers; tables are told from node to node, as
    often as a tree is deep. Whatever was lost before is said again.
    """
    noticed = timing.dead + 3 * timing.hello
    told = 2 * timing.gather + crossing
    ring = timing.hold_most + timing.dead + 8 * 2 * timing.hello + 8 * crossing
    tables = 4 * timing.retry + timing.refresh + 12 * crossing
    return noticed + told + ring + tables


def wrong_rings(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong with routes and rings."""
    truth = situation.truth
    wrong = next(truth.wrong_paths(situation.hops), None)
    if wrong is not None:
        yield wrong
        return
    for name in truth.running:
        ideal = IdealRing(truth.reaches(name))
        chord = nodes[name].substrate
        if len(ideal.nodes) > 1:
            if chord.successors[:1] != [ideal.successor(name)]:
                yield f"{name} has the successors {chord.successors}"
            if chord.predecessor != ideal.predecessor(name):
                yield f"{name} has the predecessor {chord.predecessor}"
        elif chord.successors:
            yield f"{name} has successors, and is alone"


def wrong_trees(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong at nodes with a tree per publisher: rings, portions, and tables."""
    wrong = list(wrong_rings(nodes, situation))
    if wrong:
        yield from wrong
        return
    truth = situation.truth
    for name in truth.running:
        ideal = IdealRing(truth.reaches(name))
        arcs = nodes[name].service.arcs
        if situation.exact and not nodes[name].is_settled():
            yield f"{name} is not settled"
        for end, arc in arcs.arcs.items():
            if arc.used != ideal.split(name, end):
                yield f"{name} divides its arc to {end:x} into {arc.used}"
                return
        if arcs.root.covers.nodes != len(ideal.nodes):
            yield f"{name} has tables of {arcs.root.covers.nodes} nodes"
            return
        for event, who in situation.samples:
            for portion, sent in [p for end in arcs.arcs for p in arcs.choose(end, event)]:
                wanted = any(member in who for member in ideal.members(*portion))
                if wanted and not sent:
                    yield f"{name} hides a receiver of {event} behind {portion.head}"
                elif situation.exact and sent and not wanted:
                    yield f"{name} sends {event} to {portion.head}, where nobody wants it"
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)


def path(hops: Hops, source: str, target: str) -> Iterator[tuple[str, str]]:
    """The links on the path between two nodes."""
    while source != target:
        yield source, hops[source][target]
        source = hops[source][target]


def links_of_trees(ring: IdealRing, hops: Hops, source: str, wanting: set[str]) -> Links:
    """The links that an event takes in the tree of its publisher."""
    links: Links = Counter()
    pending = [(source, ring.circle.key(source))]
    for node, end in pending:  # grows while it is read
        for head, stop in ring.split(node, end):
            if any(member in wanting for member in ring.members(head, stop)):
                links.update(path(hops, node, head))
                pending.append((head, stop))
    return links


def objection_to_trees(
    options: Any,
    situation: Situation,
    hops: Hops,
    source: str,
    event: dict[str, Any],
    taken: Links,
) -> str | None:
    """What is wrong with the links that an event has taken at rest; None if nothing is."""
    ring = IdealRing(situation.truth.reaches(source))
    wanting = {
        name
        for name, held in situation.subscriptions.items()
        if any(predicate_of(text).matches(event) for text in held.values())
    }
    expected = links_of_trees(ring, hops, source, wanting)
    right = taken == expected if situation.exact else not expected - taken
    return None if right else f"took {sorted(taken.elements())}, not {sorted(expected.elements())}"
