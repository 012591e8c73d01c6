"""The substrates by name, and the options with which a protocol chooses one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from tidings.overlay.ideal import LEAVES, IdealRing, ideal_pastry, ideal_ring
from tidings.overlay.keys import Circle

MOST_LEAVES: Final = 64


class SubstrateOptions(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """On which structured overlay a protocol stands: alike at all nodes."""

    substrate: Literal["chord", "pastry"] = "chord"
    leaves: Annotated[int, Meta(ge=1, le=MOST_LEAVES)] = LEAVES  # on either side, in Pastry


Ideal = Callable[[Iterable[str]], IdealRing]


def ideal_of(options: Any) -> Ideal:
    """What the overlay of some nodes must look like at rest, by the options of a protocol.

    >>> type(ideal_of(SubstrateOptions(substrate="pastry"))(["a", "b"])).__name__
    'IdealPastry'
    """
    if isinstance(options, SubstrateOptions) and options.substrate == "pastry":
        leaves = options.leaves
        return lambda names: ideal_pastry(frozenset(names), Circle(), leaves)
    return lambda names: ideal_ring(frozenset(names), Circle())
