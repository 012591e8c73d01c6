"""The schemes by name, and what a scheme is (U1).

A scheme is a file with these functions, over the state of one node, a plain value:

- `build(network) -> states`: the state of every node, from a view of the whole network;
- `init(node, event) -> header`: the header of an event that is published at the node;
- `header(node, header) -> header`: the header of the packets that it sends on;
- `forward(node, header, event) -> links`: the neighbours that it sends them to;
- `header_bits(header, id_bits)`: what a header weighs;
- `size(node)`: what the state holds;
- `formula(shape, advantage)`: the paper's total in bits, None where it gives none.

The law of every scheme: whoever is interested gets the event, wherever it is published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidings.routing import drp, flooding, ips, pif, psf
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


def _row(name: str, description: str, file: Any, suppresses: bool = False) -> Scheme:
    functions = (file.build, file.init, file.header, file.forward)
    sizes = (file.header_bits, file.size, file.formula)
    return Scheme(name, description, *functions, *sizes, suppresses)


SCHEMES: Final[dict[str, Scheme]] = {
    "flooding": _row("flooding", "everywhere, duplicates dropped (S1)", flooding, suppresses=True),
    "psf": _row("psf", "per-source forwarding (U2)", psf),
    "ips": _row("ips", "per-source, indistinguishable sources as one (U3)", ips),
    "pif": _row("pif", "per-interface forwarding in the source's tree (U4)", pif),
    "drp": _row("drp", "receivers listed at the source (U5)", drp),
}
