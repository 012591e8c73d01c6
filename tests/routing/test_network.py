"""The whole network seen from above."""

import pytest

from tidings.overlay.topologies import topology
from tidings.routing.network import Network


def test_a_network_has_an_interest_for_each_node() -> None:
    with pytest.raises(ValueError, match="expected 3 interests, found 2"):
        Network(topology("line:3"), ["a = 1", ""])
