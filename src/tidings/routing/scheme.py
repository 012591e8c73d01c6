"""What a scheme is (U1): how nodes decide where a packet goes, seen from above.

A scheme is a file with these functions, over the state of one node, a plain value:

- `build(network) -> states`: the state of every node, from a view of the whole network; a scheme
  with options also takes `options`, a value of its struct;
- `init(node, event) -> headers`: the headers of an event that is published at the node, one for
  each packet that starts on its path there: nearly always one, in a list;
- `send(node, header, event) -> [(link, header), …]`: the neighbours that a packet goes to from
  here, each with the header that it gets. A scheme whose packets all get the same header has two
  functions instead: `forward(node, header, event) -> links` and `header(node, header) -> header`;
- `accepts(node, header, event) -> bool`: whether the node is a receiver of the packet, and not only
  a relay on its path; without it every node that a packet reaches is;
- `graph(network) -> graph`: who is whose neighbour, where that is not the network itself but a
  logical one; a link then weighs the distance of its ends below (`Network.overlay`);
- `header_bits(header, id_bits)`: the size of a header, in bits;
- `size(node)`: what the state holds;
- `formula(shape, advantage)`: the total in bits by the paper's formula, None where it has none.

The law of every scheme: whoever is interested gets the event, wherever it is published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from tidings.overlay.graph import Graph
from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network
from tidings.routing.options import NoOptions

Sends = list[tuple[int, Any]]


def _accepts_all(node: Any, header: Any, event: Content) -> bool:
    return True


def _as_it_is(network: Network) -> Graph:
    return network.graph


class Scheme(NamedTuple):
    """A row of `SCHEMES`."""

    name: str
    description: str
    build: Callable[..., list[Any]]
    init: Callable[[Any, Content], list[Any]]
    send: Callable[[Any, Any, Content], Sends]
    header_bits: Callable[[Any, int], int]
    size: Callable[[Any], Size]
    formula: Callable[[Shape, float], float | None]
    accepts: Callable[[Any, Any, Content], bool] = _accepts_all
    graph: Callable[[Network], Graph] = _as_it_is
    options: type[Struct] = NoOptions
    detours: bool = False  # whether events may take other than shortest paths
    suppresses: bool = False  # whether a node drops a copy of what it has seen before


def same_header(
    forward: Callable[[Any, Any, Content], list[int]], header: Callable[[Any, Any], Any]
) -> Callable[[Any, Any, Content], Sends]:
    """The `send` of a scheme whose packets all get the same header."""

    def send(node: Any, arrived: Any, event: Content) -> Sends:
        links = forward(node, arrived, event)
        if not links:
            return []
        onward = header(node, arrived)
        return [(link, onward) for link in links]

    return send
