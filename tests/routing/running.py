"""Protocols at work in a simulated network, and everything they did, written down.

`tests/sim` breaks networks of them; here they run undisturbed, or one thing at a time.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tidings.overlay.graph import Graph
from tidings.routing import network as whole
from tidings.routing.packets import Packet, Publication, publication_of
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import MILLISECOND, SECOND, Deliver, Drop, Established, Subscribe
from tidings.routing.protocols import PROTOCOLS
from tidings.sim.network import Network, Node, UserAction


class Log:
    """A watcher that writes everything down."""

    def __init__(self) -> None:
        self.sends: list[tuple[str, str, Packet]] = []
        self.deliveries: list[tuple[str, tuple[str, ...], Publication]] = []
        self.settled: list[tuple[int, str, tuple[str, ...]]] = []
        self.drops: list[str] = []
        self.notices: list[tuple[str, UserAction]] = []

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        self.sends.append((node.name, target, packet))

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        self.deliveries.append((node.name, action.subscriptions, action.publication))

    def established(self, now: int, node: Node, action: Established) -> None:
        self.settled.append((now, node.name, action.subscriptions))

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        self.drops.append(action.reason)

    def told(self, now: int, node: Node, action: UserAction) -> None:
        self.notices.append((node.name, action))

    def links_taken(self) -> set[tuple[str, str]]:
        """The links that publications have taken since the last time of asking."""
        taken = {(a, b) for a, b, packet in self.sends if publication_of(packet) is not None}
        self.sends.clear()
        return taken


def network_of(
    graph: Graph, protocol: str = "cbcb", make: Callable[..., Any] | None = None
) -> tuple[Network, Log]:
    """A network that has been started, at rest; links delay by their cost."""
    log = Log()
    topologies = Topologies()
    made = make or PROTOCOLS[protocol].make
    network = Network(
        lambda name, life: made(name, life, topologies=topologies),
        log,
        Random(f"{graph.links}"),
        PROTOCOLS[protocol].needs,
    )
    for name in graph.names:
        network.add_node(name)
    for one, other, weight in graph.links:
        delay = MILLISECOND * min(weight, 40)
        network.add_link(graph.names[one], graph.names[other], weight, delay)
    for name in graph.names:
        network.start(name)
    network.run(network.now + 3 * SECOND)
    most = network.now + 3 * SECOND
    while network.now < most and not all(router_of(network, n).is_settled() for n in graph.names):
        network.run(network.now + 100 * MILLISECOND)
    return network, log


def subscribed(network: Network, log: Log, whole_network: whole.Network) -> None:
    """Let every node want what the global view says it wants, and wait until all know."""
    for node, interest in enumerate(whole_network.interests):
        network.tell(str(node), Subscribe(f"s{node}", str(interest)))
    network.run(network.now + 2 * SECOND)
    assert sorted(id for _, _, ids in log.settled for id in ids) == sorted(
        f"s{node}" for node in range(whole_network.graph.nodes)
    )


def router_of(network: Network, name: str) -> Any:
    return network.nodes[name].router
