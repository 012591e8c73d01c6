"""Where routers that build trees by path cost disagree with the true network (S17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidings.routing.protocol import Timing
from tidings.routing.reverse_path.filters import matched_by
from tidings.routing.truth import Hops, Situation, wrong_interfaces, wrong_subscriptions
from tidings.routing.twin import Links


def converges_within(timing: Timing, crossing: int) -> int:
    """How long a network takes to be right after its last change, if no packet gets lost then.

    The silence of a link is noticed (`dead`, at the next hello), and the link is up again after two
    hellos. Each wrong path ends when it has been offered on, a little longer each time, as far as
    there are nodes to offer it. What got lost before is repeated, later and later.
    """
    noticed = timing.dead + 3 * timing.hello
    offered = 20 * timing.gather + 10 * crossing
    return noticed + offered + 6 * timing.retry


def disagreements(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    """What is wrong, node by node: paths, children in the tree of each source, and tables."""
    truth = situation.truth
    wrong = next(truth.wrong_paths(situation.hops), None)
    if wrong is not None:
        yield wrong
        return
    for name in truth.running:
        if not nodes[name].is_settled():
            yield f"{name} is not settled"
            return
    for name in truth.running:
        for source in truth.reaches(name):
            below = {n for n in truth.costs[name] if situation.hops[n].get(source) == name}
            found = set(nodes[name].paths.children(source))
            if found != below:
                yield f"{name} has the children {sorted(found)} for {source}, not {sorted(below)}"
                return

    wanting: dict[tuple[str, int], Mapping[str, str]] = {}  # by node and sample: asked once

    def sends(name: str, interface: str, event: dict[str, Any]) -> bool:
        key = name, id(event)
        if key not in wanting:
            wanting[key] = nodes[name].wanting(event)
        return interface in wanting[key]

    yield from wrong_interfaces(situation, sends)
    if situation.exact:
        yield from wrong_subscriptions(nodes, situation)


def entries(situation: Situation, hops: Hops, event: dict[str, Any]) -> dict[str, set[str]]:
    """By node: the neighbours by which subscriptions came there that an event matches."""
    wanting = [
        name
        for name, held in situation.subscriptions.items()
        if any(matched_by(text).matches(event) for text in held.values())
    ]
    return {name: {hop[o] for o in wanting if o in hop} for name, hop in hops.items()}


def objection_to_entries(
    options: Any,
    situation: Situation,
    hops: Hops,
    source: str,
    event: dict[str, Any],
    taken: Links,
) -> str | None:
    """What is wrong with the links that an event has taken, where all matching entries are used.

    A node sends to every neighbour by which a matching subscription came, except the one from which
    the first copy came; which one that is depends on the time. It may be any neighbour that has the
    event, because probes also come from neighbours that did not mean to send them (strays).
    """
    links = entries(situation, hops, event)
    sent: dict[str, set[str]] = {}
    for one, other in taken:
        sent.setdefault(one, set()).add(other)
    for name, others in sent.items():
        if not others <= links[name]:
            return f"took {name} → {sorted(others - links[name])}, from where nobody wants it"
    having = sorted({source, *(end for ends in taken for end in ends)})
    for name in having:
        left = links[name] - sent.get(name, set())
        if len(left) > (name != source) or not left <= set(having):
            return f"did not go from {name} to {sorted(left)}"
    return None
