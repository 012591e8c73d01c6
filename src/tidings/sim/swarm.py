"""Many seeds, one after the other: each is a network, a load and a storm of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidings.routing.options import OptionsError
from tidings.routing.protocols import protocol
from tidings.sim.faults import FAULTS
from tidings.sim.trial import ALL_FAULTS, Verdict, draw_options, run_trial


class SwarmError(ValueError):
    """The user asks for what does not exist, or for what does not fit together."""


def fault_kinds(text: str) -> tuple[str, ...]:
    """The kinds of faults that a text names: `all`, `none`, or some, separated by commas.

    >>> fault_kinds("crash, cut")
    ('cut', 'crash')
    """
    if text == "all":
        return ALL_FAULTS
    if text == "none":
        return ()
    named = [kind.strip() for kind in text.split(",")]
    for kind in named:
        if kind not in FAULTS:
            known = ", ".join(FAULTS)
            raise SwarmError(f"--faults: expected all, none or some of {known}, found {kind!r}")
    return tuple(kind for kind in FAULTS if kind in named)


def check_protocol(text: str, topology_is_tree: bool) -> None:
    """Refuse a protocol that does not exist, or that cannot run on such a network."""
    try:
        chosen = protocol(text)
    except OptionsError as error:
        raise SwarmError(f"--protocol: {error}") from None
    if not chosen.row.any_graph and not topology_is_tree:
        where = f"--protocol {chosen.name}"
        raise SwarmError(f"{where}: expected a network without cycles, such as tree:30 or line:5")


def swarm(
    topology: str, protocol_text: str, kinds: tuple[str, ...], seeds: Iterable[int]
) -> Iterator[Verdict]:
    """The result of each seed; `small` draws a small topology for each."""
    for seed in seeds:
        yield run_trial(draw_options(seed, topology, protocol_text, kinds))
