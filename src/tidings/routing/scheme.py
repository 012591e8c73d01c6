"""What a scheme is (U1): how nodes decide where a packet goes, seen from above.

A scheme is a file with these functions, over the state of one node, a plain value:

- `build(network) -> states`: the state of every node, from a view of the whole network;
- `init(node, event) -> header`: the header of an event that is published at the node;
- `header(node, header) -> header`: the header of the packets that it sends on;
- `forward(node, header, event) -> links`: the neighbours that it sends them to;
- `header_bits(header, id_bits)`: the size of a header, in bits;
- `size(node)`: what the state holds;
- `formula(shape, advantage)`: the total in bits by the paper's formula, None where it has none.

The law of every scheme: whoever is interested gets the event, wherever it is published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Network


class Scheme(NamedTuple):
    """A row of `SCHEMES`."""

    name: str
    description: str
    build: Callable[[Network], list[Any]]
    init: Callable[[Any, Content], Any]
    header: Callable[[Any, Any], Any]
    forward: Callable[[Any, Any, Content], list[int]]
    header_bits: Callable[[Any, int], int]
    size: Callable[[Any], Size]
    formula: Callable[[Shape, float], float | None]
    suppresses: bool = False  # whether a node drops an event that it has seen before
