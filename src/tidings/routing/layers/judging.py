"""Where the nodes of layered applications disagree with the truth, seen from above.

The slow twin of placement: from the true nodes, their lives and what subscribers hold, it computes
anew which node must hold which subscription, and compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidings.routing.layers.matching import SOMETHING, Matching, places_of
from tidings.routing.packets import Slot
from tidings.routing.planes.interests import EVERYTHING
from tidings.routing.planes.topology import digest_of


def wrong_placements(
    name: str,
    matching: Matching,
    lives: Mapping[str, int],
    held: Mapping[str, Mapping[str, str]],
    exact: bool,
) -> Iterator[str]:
    """What is wrong at one node, given the nodes in its reach and what subscribers hold at each.

    If `exact`, it must hold nothing else.
    """
    if dict(matching.epochs.used.lives) != dict(lives):
        yield f"{name} publishes by the nodes {sorted(matching.epochs.used.lives.items())}"
        return
    expected: dict[str, dict[Slot, str]] = {}
    settings = matching.settings
    members = tuple(node for node in lives if not settings.nodes or node in settings.nodes)
    if members:
        placement = settings.placement(matching.application, members)
        for owner in lives:
            for id, text in held.get(owner, {}).items():
                if settings.matching == "nowhere":
                    id, text = SOMETHING, EVERYTHING
                for key in places_of(settings, text, placement.shape.regions):
                    home = placement.shape.home(key, digest_of(f"{owner} {id} {key}"))
                    if name in placement.members(home):
                        slot = (id, placement.shape.regions, home, key)
                        expected.setdefault(owner, {})[slot] = text
    for owner in sorted(expected.keys() | matching.store.holdings.keys()):
        found: Any = {
            s: matching.seal.open_text(t) for s, t in matching.store.entries(owner).items()
        }
        wanted = expected.get(owner, {})
        missing = sorted(wanted.items() - found.items())
        surplus = sorted(found.items() - wanted.items())
        if missing or (exact and surplus):
            yield f"{name} lacks {missing} and has {surplus} of {owner}"
