"""Graphs that Hypothesis draws: small, of every shape, with ties or without."""

from itertools import combinations

from hypothesis import strategies as st

from tidings.overlay.graph import Graph, Link


@st.composite
def graphs(
    draw: st.DrawFn, max_nodes: int = 9, connected: bool = True, max_weight: int = 3
) -> Graph:
    """A graph whose small weights make ties likely."""
    nodes = draw(st.integers(1, max_nodes))
    weights = st.integers(1, max_weight)
    ends: set[tuple[int, int]] = set()
    if connected:
        ends |= {(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)}
    if nodes > 1:
        pairs = st.sampled_from(list(combinations(range(nodes), 2)))
        ends |= draw(st.sets(pairs, max_size=2 * nodes))
    return Graph(nodes, [(*pair, draw(weights)) for pair in sorted(ends)])


@st.composite
def graphs_without_ties(draw: st.DrawFn, max_nodes: int = 9) -> Graph:
    """A connected graph in which every shortest path is the only one."""
    graph = draw(graphs(max_nodes))
    # Different powers of two: no two sets of links weigh the same.
    order = draw(st.permutations(range(len(graph.links))))
    links: list[Link] = [
        (one, other, 2**place) for (one, other, _), place in zip(graph.links, order, strict=True)
    ]
    return Graph(graph.nodes, links)


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 9) -> Graph:
    """A tree whose links weigh 1."""
    nodes = draw(st.integers(1, max_nodes))
    return Graph(nodes, [(draw(st.integers(0, n - 1)), n, 1) for n in range(1, nodes)])
