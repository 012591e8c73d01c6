"""Where the nodes of CBCB disagree with the true network: routes, records, tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidings.routing.planes.interests import wants
from tidings.routing.source_trees.cycle_covers import Below
from tidings.routing.truth import Situation, wrong_interfaces


def disagreements(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong, node by node.

    Routes must be shortest paths in the true network, the same in both directions. A node must let
    through whatever any node behind an interface wants. If the situation is exact, it must let
    through nothing else, and there must be records of exactly the nodes that run.
    """
    truth = situation.truth
    wrong = next(truth.wrong_paths(situation.hops), None)
    if wrong is not None:
        yield wrong
        return
    unsettled = [name for name in truth.running if not nodes[name].is_settled()]
    if unsettled:
        yield f"{unsettled[0]} is not settled"
        return
    if situation.exact:
        for name in truth.running:
            records = sorted(nodes[name].plane.records)
            if records != sorted(truth.reaches(name)):
                yield f"{name} has records of {records}"

    def sends(name: str, interface: str, event: dict[str, Any]) -> bool:
        return bool(nodes[name].is_wanted(interface, event, nodes[name].views.newest))

    yield from wrong_interfaces(situation, sends)
    yield from wrong_covers(nodes, situation)


def wrong_covers(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """Where a node counts on a cover that some node behind a link does not have (S17).

    By definition: whoever's path to the issuer of a cover comes over the link must send towards the
    issuer whatever the cover matches.
    """
    for name in situation.truth.running:
        for neighbour, issuers in nodes[name].covers.known.items():
            for issuer, texts in issuers.items():
                matched = [e for e, _ in situation.samples if any(wants(t, e) for t in texts)]
                if not matched:
                    continue
                for other in Below.by_definition(situation.hops, issuer, neighbour, name):
                    interface = situation.hops[other][issuer]
                    node = nodes[other]
                    for event in matched:
                        if not node.is_wanted(interface, event, node.views.newest):
                            yield f"{name} counts on {other} for {event}, which has no such cover"
                            return
