"""The benchmark of walks through live routers asks for a network that there can be."""

from pathlib import Path

from benchmarks.layers import network_file
from tidings.live.settings import read_network
from tidings.routing.layers.settings import Layering


def test_its_file_has_a_hub_routers_that_match_and_one_for_users(tmp_path: Path) -> None:
    path, port = network_file(tmp_path, matching=3, hops=2)
    nodes = read_network(path)
    assert [settings.node for settings in nodes] == ["hub", "m0", "m1", "m2", "edge"]
    assert nodes[-1].port == port
    for settings in nodes:
        options = settings.chosen.options
        assert isinstance(options, Layering)
        assert options.nodes == ("m0", "m1", "m2")
        assert (options.hops, options.regions, options.replicas) == (2, 3, 1)
