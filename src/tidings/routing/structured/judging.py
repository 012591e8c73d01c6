"""How protocols on structured overlays are judged: against the ideal ring of the true nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from tidings.overlay.ideal import IdealRing
from tidings.routing.planes.interests import predicate_of, wants
from tidings.routing.protocol import Timing
from tidings.routing.structured.arcs import Tries, Wanted
from tidings.routing.structured.hermes import linger
from tidings.routing.structured.substrates import ideal_of
from tidings.routing.structured.types import DIRECTORY, HermesOptions, placed_in, types_of
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


def types_converge_within(timing: Timing, crossing: int) -> int:
    """The same where a new node counts, and a former parent is given up, after a while."""
    return converges_within(timing, crossing) + linger(timing)


def _tries() -> Tries:
    """`any_wants` for one event, which asks each predicate once."""
    known: dict[str, bool] = {}

    def tried(texts: Wanted, event: dict[str, Any]) -> bool:
        for text in texts:
            if text not in known:
                known[text] = wants(text, event)
            if known[text]:
                return True
        return False

    return tried


def wrong_rings(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong with routes and rings."""
    truth = situation.truth
    wrong = next(truth.wrong_paths(situation.hops), None)
    if wrong is not None:
        yield wrong
        return
    for name in truth.running:
        substrate = nodes[name].substrate
        ideal = substrate.ideal(truth.reaches(name))
        right = (ideal.predecessor(name), ideal.successor(name))
        if len(ideal.nodes) == 1:
            right = (None, None)
        if substrate.beside() != right:
            yield f"{name} has {substrate.beside()} beside it, not {right}"


def wrong_trees(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong at nodes with a tree per publisher: rings, portions, and tables."""
    wrong = list(wrong_rings(nodes, situation))
    if wrong:
        yield from wrong
        return
    truth = situation.truth
    tries = [_tries() for _ in situation.samples]
    for name in truth.running:
        ideal = nodes[name].substrate.ideal(truth.reaches(name))
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
        inside = {part: ideal.members(*part) for arc in arcs.arcs.values() for part in arc.used}
        for (event, who), tried in zip(situation.samples, tries, strict=True):
            for portion, sent in [p for end in arcs.arcs for p in arcs.choose(end, event, tried)]:
                wanted = not who.isdisjoint(inside[portion])
                if wanted and not sent:
                    yield f"{name} hides a receiver of {event} behind {portion.head}"
                elif situation.exact and sent and not wanted:
                    yield f"{name} sends {event} to {portion.head}, where nobody wants it"
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)


def wrong_types(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong at nodes with a tree per type: rings, parents, and tables."""
    wrong = list(wrong_rings(nodes, situation))
    if wrong:
        yield from wrong
        return
    truth = situation.truth
    rings: dict[frozenset[str], IdealRing] = {}
    for name in truth.running:
        reach = frozenset(truth.reaches(name))
        rings[reach] = nodes[name].substrate.ideal(reach)
        if situation.exact and not nodes[name].is_settled():
            yield f"{name} is not settled"
    for ring in rings.values():
        yield from _wrong_trees_of_types(
            {name: nodes[name] for name in ring.nodes}, ring, situation
        )
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)


def _wrong_trees_of_types(
    nodes: Mapping[str, Any], ring: IdealRing, situation: Situation
) -> Iterator[str]:
    services = {name: node.service for name, node in nodes.items()}
    some = services[ring.nodes[0]]
    tries = [_tries() for _ in situation.samples]
    types = [{*types_of(some.options, event), DIRECTORY} for event, _ in situation.samples]
    lying: dict[int, list[tuple[str, Wanted]]] = {}  # by tree: who wants what there
    for name in ring.nodes:
        for text in situation.subscriptions.get(name, {}).values():
            for number, part in placed_in(some.options, text).items():
                lying.setdefault(number, []).append((name, (part,)))
    for number in sorted({number for service in services.values() for number in service.trees}):
        key = some.key_of(number)
        above = {name: ring.hop(name, key) for name in ring.nodes}
        for name, service in services.items():
            tree = service.trees.get(number)
            if tree is not None and tree.parent != above[name]:
                yield f"{name} has the parent {tree.parent} in tree {number}, not {above[name]}"
                return
        ups = {name: frozenset(_up(above, name)) for name in ring.nodes}
        for (event, _), of_types, tried in zip(situation.samples, types, tries, strict=True):
            if number not in of_types:
                continue
            wanting = {name for name, part in lying.get(number, ()) if tried(part, event)}
            behind = {name for one in wanting for name in ups[one]}
            for name, parent in above.items():
                tree = None if parent is None else services[parent].trees.get(number)
                twig = None if tree is None else tree.twigs.get(name)
                sent = twig is not None and twig.is_child and tried(twig.theirs, event)
                if name in behind and parent is not None and not sent:
                    yield f"{parent} hides a receiver of {event} below {name} in tree {number}"
                elif situation.exact and sent and name not in behind:
                    yield f"{parent} sends {event} to {name} in tree {number}: not wanted there"
                elsewhere = parent is not None and any(name not in ups[one] for one in wanting)
                if elsewhere and services[name].chosen(number, event, tried)[0].why is None:
                    yield f"{name} keeps {event} in tree {number}: it is wanted elsewhere"


def _lies_and_matches(options: Any, number: int, text: str, event: dict[str, Any]) -> bool:
    part = placed_in(options, text).get(number)
    return part is not None and predicate_of(part).matches(event)


def _up(above: Mapping[str, str | None], name: str | None) -> Iterator[str]:
    """A node and those above it, the root included."""
    while name is not None:
        yield name
        name = above[name]


def objection_to_types(
    options: Any,
    situation: Situation,
    hops: Hops,
    source: str,
    event: dict[str, Any],
    taken: Links,
) -> str | None:
    """What is wrong with the links that an event has taken at rest; None if nothing is.

    It must take those between its source and the nodes that want it, in its trees, and it may climb
    to their roots, and that of the directory.
    """
    ring = ideal_of(options)(situation.truth.reaches(source))
    options = options or HermesOptions()
    must: set[tuple[str, str]] = set()
    may: set[tuple[str, str]] = set()
    for number in (*types_of(options, event), DIRECTORY):
        key = ring.circle.key(f"type {number}")
        above = {name: ring.hop(name, key) for name in ring.nodes}
        climbing = list(_up(above, source))
        may.update(link for a, b in pairwise(climbing) for link in path(hops, a, b))
        for name in ring.nodes:
            texts = situation.subscriptions.get(name, {}).values()
            if any(_lies_and_matches(options, number, text, event) for text in texts):
                for a, b in _between(above, source, name):
                    must.update(path(hops, a, b))
    found = set(taken)
    if must <= found and (not situation.exact or found <= must | may):
        return None
    return f"took {sorted(found)}, not {sorted(must)}, and perhaps {sorted(may - must)}"


def _between(
    above: Mapping[str, str | None], source: str, target: str
) -> Iterator[tuple[str, str]]:
    """The steps from one node to another in a tree."""
    ups, downs = list(_up(above, source)), list(_up(above, target))
    meeting = next(name for name in ups if name in downs)
    yield from pairwise(ups[: ups.index(meeting) + 1])
    yield from pairwise(downs[: downs.index(meeting) + 1][::-1])


def _members(
    types: HermesOptions, situation: Situation, names: Iterable[str]
) -> dict[int, set[str]]:
    """By group, the nodes with a subscription in it."""
    found: dict[int, set[str]] = {}
    for name in names:
        for text in situation.subscriptions.get(name, {}).values():
            for number in placed_in(types, text):
                found.setdefault(number, set()).add(name)
    return found


def _tree(ring: IdealRing, key: int, members: Iterable[str]) -> dict[str, str | None]:
    """The nodes in the tree of a group, each with the one above it."""
    found: dict[str, str | None] = {}
    for name in members:
        at: str | None = name
        while at is not None and at not in found:
            found[at] = ring.hop(at, key)
            at = found[at]
    return found


def wrong_groups(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong at nodes with a multicast group per type: rings, and trees of groups."""
    wrong = list(wrong_rings(nodes, situation))
    if wrong:
        yield from wrong
        return
    truth = situation.truth
    rings = {}
    for name in truth.running:
        reach = frozenset(truth.reaches(name))
        rings[reach] = nodes[name].substrate.ideal(reach)
        if situation.exact and not nodes[name].is_settled():
            yield f"{name} is not settled"
    for ring in rings.values():
        services = {name: nodes[name].service for name in ring.nodes}
        some = services[ring.nodes[0]]
        members = _members(some.types, situation, ring.nodes)
        numbers = {*members, *(number for one in services.values() for number in one.groups)}
        for number in sorted(numbers):
            tree = _tree(ring, some.key_of(number), members.get(number, ()))
            for name, service in services.items():
                group = service.groups.get(number)
                found = set() if group is None else set(group.children)
                expected = {below for below, above in tree.items() if above == name}
                if expected - found or (situation.exact and expected != found):
                    yield f"{name} has the children {found} in group {number}, not {expected}"
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)


def objection_to_groups(
    options: Any,
    situation: Situation,
    hops: Hops,
    source: str,
    event: dict[str, Any],
    taken: Links,
) -> str | None:
    """What is wrong with the links that an event has taken at rest; None if nothing is.

    For each of its groups it climbs to the root, and takes every link of the tree down.
    """
    ring = ideal_of(options)(situation.truth.reaches(source))
    types = options.types()
    members = _members(types, situation, ring.nodes)
    expected: Links = Counter()
    for number in (*types_of(types, event), DIRECTORY):
        key = ring.circle.key(f"group {number}")
        climbing = _up(_tree(ring, key, [source]), source)
        for one, other in pairwise(climbing):
            expected.update(path(hops, one, other))
        for below, above in _tree(ring, key, members.get(number, ())).items():
            if above is not None:
                expected.update(path(hops, above, below))
    right = taken == expected if situation.exact else not expected - taken
    return None if right else f"took {sorted(taken.elements())}, not {sorted(expected.elements())}"


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
    ring = ideal_of(options)(situation.truth.reaches(source))
    wanting = {
        name
        for name, held in situation.subscriptions.items()
        if any(predicate_of(text).matches(event) for text in held.values())
    }
    expected = links_of_trees(ring, hops, source, wanting)
    right = taken == expected if situation.exact else not expected - taken
    return None if right else f"took {sorted(taken.elements())}, not {sorted(expected.elements())}"
