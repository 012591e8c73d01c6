"""Networks of nodes with two layers in the simulator: what they did, and the law of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final

from tidings.lab.layer_model import Law, assert_law, law
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Listed, Packet, Walk, publication_of
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import MILLISECOND, SECOND, Deliver, Drop, Established
from tidings.routing.protocols import PROTOCOLS
from tidings.sim.network import Network, Node

MATCHING: Final = 12  # nodes of a star that match
EDGES: Final = 4  # and those where users are
HUB: Final = "hub"  # relays, and takes no time
LINK_NS: Final = MILLISECOND // 4
HOP_NS: Final = 2 * LINK_NS  # from a node to another, past the hub


def star(protocol: str, options: Layering | None) -> tuple[Network, Watch]:
    """A star whose hub has no users; nodes m0 … match, and users are at e0 …"""
    watch, topologies = Watch(), Topologies()
    made = PROTOCOLS[protocol].make
    if options is not None:
        made = partial(made, options=options)
    network = Network(
        lambda name, life: made(name, life, topologies=topologies),
        watch,
        Random("l5-protocol"),
        PROTOCOLS[protocol].needs,
    )
    leaves = [f"m{number}" for number in range(MATCHING)] + [f"e{n}" for n in range(EDGES)]
    for name in (HUB, *leaves):
        network.add_node(name)
    for name in leaves:
        network.add_link(HUB, name, 1, LINK_NS)
    for name in (HUB, *leaves):
        network.start(name)
    network.run(network.now + 3 * SECOND)
    return network, watch


def walk_here(router: Any, packet: Any) -> Walk | None:
    """The walk that a packet brings to this node, if it does."""
    if type(packet) is Listed and type(packet.inner) is Walk:
        walk: Walk = packet.inner
        return walk if walk.stops[0][0] == router.plane.node else None
    return None


class Watch:
    """Who got what and when, and what it took in packets and bytes."""

    def __init__(self) -> None:
        self.delivered_to: Counter[tuple[str, str, int]] = Counter()
        self.last: dict[tuple[str, int], int] = {}  # when an event was last delivered
        self.first: dict[tuple[str, str, int], int] = {}  # when a subscription got an event
        self.settled: set[str] = set()
        self.packets = self.bytes = self.other_bytes = 0

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        if publication_of(packet) is None:
            self.other_bytes += size  # subscriptions, answers, links
        else:
            self.packets += 1
            self.bytes += size

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        event = (action.publication.source, action.publication.number)
        self.last[event] = now
        for id in action.subscriptions:
            self.delivered_to[id, *event] += 1
            self.first.setdefault((id, *event), now)

    def established(self, now: int, node: Node, action: Established) -> None:
        self.settled.update(action.subscriptions)

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        raise AssertionError(f"nothing fails here, and {node.name} drops: {action.reason}")

    def told(self, now: int, node: Node, action: Any) -> None:
        """Nobody advertises here."""


def check_law(
    network: Network,
    match: Sequence[str],
    users: Sequence[str],
    events: Sequence[dict[str, Any]],
    matches: Sequence[Sequence[str]],
) -> Law:
    """The law of the model, asserted of what nodes hold and of the visits that they had.

    `match` are the nodes that match, `users` those where subscribers and publishers are, and
    `matches` the subscriptions that each event matches. Where nobody matches before the
    subscribers do, a subscription has one copy, at its own node, and every such node is asked.
    """
    matched = Counter(id for found in matches for id in found)
    routers: dict[str, Any] = {name: network.nodes[name].router for name in {*match, *users}}
    asking = routers[users[0]].layers.matching
    subscriptions = sum(len(routers[name].local.subscriptions) for name in users)
    if asking.settings.matching == "nowhere":
        stored = [len(routers[name].local.subscriptions) for name in users]
        visited, steps = [len(events)] * len(users), len(users)
        copies = Counter(dict.fromkeys(matched, 1))
    else:
        layers = [routers[name].layers.matching for name in match]
        entries = (one.store.entries(owner) for one in layers for owner in users)
        copies = Counter(slot[0] for held in entries for slot in held)
        stored = [len(one.store) for one in layers]
        visited = [one.counts["visits"] for one in layers]
        epoch = asking.epochs.used
        keys = (asking.asking.keys(epoch, event) for event in events)
        steps = max(len(asking.walks.choices(epoch, found)) for found in keys)
    return assert_law(
        law(
            stored,
            visited,
            steps,
            subscriptions,
            len(events),
            max(map(len, matches)),
            [(count, copies[id]) for id, count in matched.items()],
        )
    )
