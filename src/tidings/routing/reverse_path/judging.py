"""Where routers that learn by the reverse path disagree with the true network.

All nodes must agree on the tree; both ends of each link on what was told; and each node must hold
for a link all that is wanted behind it, of what may be published on this side. At rest what is told
is filter for filter what the definition of the policy gives, unless filters are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidings.overlay.paths import tree_of
from tidings.routing.planes.spanning import linger
from tidings.routing.planes.topology import weight_of
from tidings.routing.protocol import Timing
from tidings.routing.reverse_path.filters import HERE, matched_by
from tidings.routing.reverse_path.knobs import Knobs, Rooted
from tidings.routing.schemes import scheme
from tidings.routing.truth import Hops, Situation, Truth, wrong_subscriptions
from tidings.routing.twin import Links, Twin


def converges_within(timing: Timing, crossing: int) -> int:
    """How long a network takes to be right after its last change, if no packet gets lost then.

    The silence of a link is noticed (`dead`), records cross the network and routes are computed,
    lost news is found at the second hello that differs. Then former links stay in use for a while,
    and what was not answered is repeated, later and later.
    """
    routes = timing.dead + 4 * timing.hello + timing.gather + timing.hold_most + 2 * crossing
    return routes + timing.age // 3 + 2 * linger(timing) + 5 * timing.retry + 6 * crossing


def true_tree(truth: Truth, knobs: Knobs) -> dict[str, str]:
    """By node: its parent in the tree that all nodes must have found; a root has none."""
    adjacency = {
        name: {
            other: weight_of(min(name, other), max(name, other), cost)
            for other, cost in links.items()
        }
        for name, links in truth.costs.items()
    }
    parents: dict[str, str] = {}
    left = set(truth.running)
    while left:
        part = truth.reaches(min(left))
        root = knobs.root if knobs.root in part else min(part)
        parents |= dict(tree_of(adjacency, root).parent)
        left -= part.keys()
    return parents


class Bits:
    """The samples as bits: which of them match a filter, or are wanted or published by a node."""

    def __init__(self, situation: Situation) -> None:
        self.samples = situation.samples
        self.all = (1 << len(self.samples)) - 1
        self._of: dict[str, int] = {}

    def of(self, text: str) -> int:
        """The samples that match a filter."""
        found = self._of.get(text)
        if found is None:
            check = matched_by(text)
            found = 0
            for place, (event, _) in enumerate(self.samples):
                found |= check.matches(event) << place
            self._of[text] = found
        return found

    def wanted(self, name: str) -> int:
        """The samples that a node wants."""
        found = 0
        for place, (_, who) in enumerate(self.samples):
            found |= (name in who) << place
        return found

    def union(self, texts: Mapping[str, Any]) -> int:
        """The samples that match some filter."""
        found = 0
        for text in texts:
            found |= self.of(text)
        return found


def disagreements(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong, node by node."""
    truth = situation.truth
    if not truth.running:
        return
    knobs: Knobs = nodes[truth.running[0]].knobs
    wrong = next(truth.wrong_paths(situation.hops), None)
    if wrong is not None:
        yield wrong
        return
    for name in truth.running:
        if not nodes[name].is_settled():
            yield f"{name} is not settled"
            return
    parents = true_tree(truth, knobs)
    links: dict[str, set[str]] = {name: set() for name in truth.running}
    for child, parent in parents.items():
        links[child].add(parent)
        links[parent].add(child)
    for name, mine in links.items():
        used = sorted(nodes[name].spanning.branches)
        if used != sorted(mine):
            yield f"{name} uses the links {used}, not {sorted(mine)}"
            return
        for other in mine:
            told, held = nodes[name].tables.links[other].told, nodes[other].wanted.by(name)
            if told.keys() != held.keys():
                yield f"{name} has told {other} {sorted(told)}, and it holds {sorted(held)}"
                return
    yield from _tables(nodes, situation, knobs, parents, links)
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)


def _tables(
    nodes: Mapping[str, Any],
    situation: Situation,
    knobs: Knobs,
    parents: dict[str, str],
    links: dict[str, set[str]],
) -> Iterator[str]:
    bits = Bits(situation)
    wanted = {name: bits.wanted(name) for name in links}
    published = {name: _published(nodes[name], bits) for name in links}
    for name, mine in links.items():
        sides = {other: _side(links, other, name) for other in mine}
        for other, side in sides.items():
            held = bits.union(nodes[name].wanted.by(other))
            behind, here = 0, published[name]
            for one in side:
                behind |= wanted[one]
            for another, rest in sides.items():
                if another != other:
                    for one in rest:
                        here |= published[one]
            if isinstance(knobs, Rooted) and parents.get(name) == other:
                behind = 0  # every event goes there, whether it is wanted or not
            missing = behind & here & ~held
            if missing:
                event = bits.samples[missing.bit_length() - 1][0]
                yield f"{name} hides a receiver of {event} behind {other}"
            surplus = held & ~behind
            if situation.exact and surplus:
                event = bits.samples[surplus.bit_length() - 1][0]
                yield f"{name} sends {event} to {other}, where nobody wants it"
            if situation.exact:
                yield from _by_definition(nodes[name], name, other)
            elif other in nodes[name].ladders:
                yield from _adapted(nodes[name], name, other)


def _by_definition(node: Any, name: str, other: str) -> Iterator[str]:
    """Whether a node has told a neighbour just what its policy says."""
    told = node.tables.links[other].told.keys()
    if not node.tells(other):
        right: set[str] = set()
    elif node.policy_of(other) == "exact":
        right = {text for text in node.wanted.who if node.wanted.besides(text, other)}
    else:
        right = node.covers.by_definition(other)
    advertised = node.advertised
    if advertised.active:
        behind = advertised.held.by(other)
        right = {text for text in right if advertised.meeting(text, behind)}
    if told != right:
        yield f"{name} has told {other} {sorted(told)}, not {sorted(right)}"


def _adapted(node: Any, name: str, other: str) -> Iterator[str]:
    """Whether a link that has chosen to cover is told enough, and nothing that nobody wants."""
    told = node.tables.links[other].told.keys()
    if node.policy_of(other) == "covering":
        wanted = {text for text in node.wanted.who if node.is_due(text, other)}
        least = node.covers.by_definition(other) & wanted
        if not least <= told <= wanted:
            yield f"{name} has told {other} {sorted(told)}, not {sorted(least)} or more"


def _published(node: Any, bits: Bits) -> int:
    """The samples that a node may publish."""
    if not node.advertised.active:
        return bits.all
    return bits.union(node.advertised.held.by(HERE))


def _side(links: dict[str, set[str]], start: str, but: str) -> list[str]:
    """The nodes behind a link of the tree."""
    found = [start]
    before = {start: but}
    for one in found:  # grows while it is read
        for other in links[one]:
            if other != before[one]:
                before[other] = one
                found.append(other)
    return found


def objection(
    options: Any,
    situation: Situation,
    hops: Hops,
    source: str,
    event: dict[str, Any],
    taken: Links,
) -> str | None:
    """What is wrong with the links that an event has taken; None if nothing is."""
    text = f"shared-tree:root={options.root}"
    if isinstance(options, Rooted):
        text = f"rooted:root={options.root},direction={options.direction}"
    wanting = {
        name
        for name, held in situation.subscriptions.items()
        if any(matched_by(predicate).matches(event) for predicate in held.values())
    }
    twin = situation.twins.get(text)
    if twin is None:
        twin = situation.twins[text] = Twin(scheme(text), situation, hops)
    found: str | None = twin.objection(taken, source, wanting, situation.exact)
    return found
