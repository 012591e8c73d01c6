"""Networks of nodes with two layers, at work in the simulator."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tests.routing.running import Log, network_of
from tidings.overlay.graph import Graph
from tidings.routing.layers.router import LayeredRouter
from tidings.routing.layers.settings import Layering
from tidings.routing.protocol import SECOND, Publish, Subscribe
from tidings.sim.network import Network


def layered(
    graph: Graph, options: Layering, make: Callable[..., Any] = LayeredRouter
) -> tuple[Network, Log]:
    """A network of layered nodes that has come to rest."""
    return network_of(graph, make=partial(make, options=options))


def subscribed(network: Network, wants: Mapping[str, list[str]]) -> None:
    """Let users subscribe at nodes, and wait until all is established."""
    for node, texts in wants.items():
        for number, text in enumerate(texts):
            network.tell(node, Subscribe(f"{node}/{number}", text))
    network.run(network.now + 3 * SECOND)


def published(network: Network, log: Log, source: str, event: dict[str, Any]) -> list[str]:
    """The subscriptions that get an event which is published at a node, sorted."""
    log.deliveries.clear()
    log.sends.clear()
    network.tell(source, Publish(event))
    network.run(network.now + 2 * SECOND)
    return sorted(id for _, ids, _ in log.deliveries for id in ids)
