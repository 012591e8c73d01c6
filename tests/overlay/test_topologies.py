"""Topologies: every row makes what it says, the same for a seed, and refuses what it cannot."""

import json
from pathlib import Path

import pytest

from tests.places import DATA
from tidings.overlay.topologies import TOPOLOGIES, TopologyError, topology

ZOO = DATA / "topology-zoo"
needs_zoo = pytest.mark.skipif(not ZOO.exists(), reason="../shared is absent")

DRAWN = ["tree:40", "waxman:40", "ba:40", "ring:9,weights=1-50"]
FIXED = ["line:5", "ring:5", "star:5", "grid:3x4"]


@pytest.mark.parametrize("text", [*FIXED, *DRAWN, "waxman:2", "line:1", "ba:3"])
def test_nodes_of_a_made_graph_reach_each_other(text: str, seed: int) -> None:
    assert len(topology(text, seed).components) == 1


@pytest.mark.parametrize("text", DRAWN)
def test_the_seed_decides(text: str, seed: int) -> None:
    assert topology(text, seed) == topology(text, seed)
    assert topology(text, seed) != topology(text, seed + 1)


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("line:4", [1, 2, 2, 1]),
        ("ring:4", [2, 2, 2, 2]),
        ("star:4", [3, 1, 1, 1]),
        ("grid:2x3", [2, 3, 2, 2, 3, 2]),
    ],
)
def test_shapes(text: str, degrees: list[int]) -> None:
    graph = topology(text)
    assert [len(graph.neighbours(node)) for node in range(graph.nodes)] == degrees
    assert {weight for _, _, weight in graph.links} == {1}


def test_a_tree_is_all_bridges(seed: int) -> None:
    graph = topology("tree:60", seed)
    assert len(graph.links) == 59
    assert graph.bridges() == graph.links


def test_a_power_law_graph_has_hubs(seed: int) -> None:
    graph = topology("ba:400", seed)
    degrees = sorted(len(graph.neighbours(node)) for node in range(graph.nodes))
    assert degrees[200] <= 4
    assert degrees[-1] >= 15


def test_links_of_waxman_are_short(seed: int) -> None:
    lengths = [weight for _, _, weight in topology("waxman:300,weights=distance", seed).links]
    assert 0 < sum(lengths) / len(lengths) < 400  # any two points are 521 apart in the mean


def test_drawn_weights_stay_in_their_range(seed: int) -> None:
    weights = {weight for _, _, weight in topology("ba:300,weights=3-5", seed).links}
    assert weights == {3, 4, 5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ring", "expected one of line:N"),
        ("cube:3", "expected one of line:N"),
        ("ring:2", "3 to 100000 nodes"),
        ("ring:six", "3 to 100000 nodes"),
        ("line:999999999", "1 to 100000 nodes"),
        ("waxman:50000", "2 to 10000 nodes"),
        ("grid:3", "such as grid:10x10"),
        ("grid:0x5", "nodes"),
        ("ring:5,weights=0-3", "a range such as 1-9"),
        ("ring:5,weights=9-3", "a range such as 1-9"),
        ("ring:5,weights=distance", "no places"),
        ("file:no/such/file", "cannot be read"),
        ("file:no/such/archive#Name", "cannot be read"),
    ],
)
def test_wrong_texts_are_refused(text: str, expected: str) -> None:
    with pytest.raises(TopologyError, match=expected):
        topology(text)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain text", "expected GraphML"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>", "without a DOCTYPE"),
        ("<\0g\0r\0a\0p\0h\0m\0l\0/\0>\0", "in UTF-8"),
        ("<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><graph/></graphml>", "1 to"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "some.graphml"
    file.write_text(content)
    with pytest.raises(TopologyError, match=expected):
        topology(f"file:{file}")


def test_a_file_gives_names_places_and_one_link_a_pair(tmp_path: Path) -> None:
    def node(id: int, label: str, latitude: float | None) -> str:
        place = f"<data key='la'>{latitude}</data><data key='lo'>0</data>"
        return (
            f"<node id='{id}'><data key='l'>{label}</data>"
            f"{place if latitude is not None else ''}</node>"
        )

    file = tmp_path / "some.graphml"
    file.write_text(
        "<graphml xmlns='http://graphml.graphdrawing.org/xmlns'>"
        "<key attr.name='label' attr.type='string' for='node' id='l'/>"
        "<key attr.name='Latitude' attr.type='double' for='node' id='la'/>"
        "<key attr.name='Longitude' attr.type='double' for='node' id='lo'/>"
        "<graph edgedefault='undirected'>"
        + node(0, "Oslo", 0)
        + node(1, "Bergen", 1)
        + node(2, "Bergen", 3)
        + node(3, "Lima", None)
        + "<edge source='0' target='1'/><edge source='1' target='0'/><edge source='1' target='2'/>"
        + "<edge source='2' target='3'/><edge source='3' target='3'/></graph></graphml>"
    )
    graph = topology(f"file:{file},weights=distance")
    assert graph.names == ("Oslo", "Bergen", "Bergen (2)", "Lima")
    # A degree of latitude is 111 km; the place of Lima is not known.
    assert graph.links == ((0, 1, 111), (1, 2, 222), (2, 3, 111))


@needs_zoo
def test_topologies_of_the_zoo_have_the_sizes_of_its_index() -> None:
    index = {row["file"]: row for row in json.loads((ZOO / "index.json").read_text())}
    for name in ("Abilene", "Geant2012", "Garr201201", "Cogentco"):
        graph = topology(f"file:{ZOO / 'graphml.tar.xz'}#{name}")
        row = index[f"{name}.graphml"]
        assert (graph.nodes, len(graph.links)) == (row["nodes"], row["edges"])
        assert (len(graph.components) == 1) == row["connected"]


@needs_zoo
def test_an_archive_without_the_name_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"holds no file Atlantis\.graphml"):
        topology(f"file:{ZOO / 'graphml.tar.xz'}#Atlantis")


def test_every_row_says_its_form() -> None:
    assert all(row.form.startswith(f"{name}:") for name, row in TOPOLOGIES.items())
