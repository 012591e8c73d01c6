"""The survey, VI-E (S17): networks with cycles, and covering on them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import (
    BEYOND,
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    select,
    values,
)
from tidings.lab.reverse_paths import STEP, QuoteNetwork
from tidings.lab.zoo import HOPS, graph_of, sample
from tidings.overlay.graph import Graph
from tidings.routing.protocol import MILLISECOND, SECOND, LinkDown
from tidings.sim.oracle import links_needed, truth_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARED: Final = "covering"  # one tree for all publishers
ENTRIES: Final = "path-entries"
TREES: Final = "path-cost"
PLAIN: Final = "cbcb"
BRIDGES: Final = "cbcb:covering=bridges"
PATHS: Final = "cbcb:covering=paths"
PROTOCOLS: Final = (SHARED, ENTRIES, TREES, PLAIN, BRIDGES, PATHS)

SHAPE: Final = {  # networks, their nodes, subscriptions a node, changes, quotes
    "full": (10, (10, 40), 6, 150, 150),
    "quick": (3, (8, 16), 5, 40, 50),
    "tiny": (2, (8, 12), 2, 4, 6),
}
SYMBOLS: Final = 40
LIMIT: Final = 10 * SECOND  # in which paths must be right after a cut
UNMEASURED: Final = -1.0


def sweep(setting: Setting) -> list[Parameters]:
    most, nodes, subscriptions, changes, quotes = SHAPE[setting]
    return [
        {
            "network": network,
            "protocol": protocol,
            "subscriptions": subscriptions,
            "changes": changes,
            "quotes": quotes,
        }
        for network in cyclic(most, nodes)
        for protocol in PROTOCOLS
    ]


def cyclic(most: int, nodes: tuple[int, int]) -> list[str]:
    """Connected networks with cycles."""
    found = []
    for text in sample(6 * most, nodes):
        graph = graph_of(text, HOPS)
        if len(graph.components) == 1 and len(graph.links) > graph.nodes:
            found.append(text)
    return found[:: max(1, len(found) // most)][:most]


def measure(parameters: Parameters) -> Iterator[Row]:
    graph = graph_of(parameters["network"], HOPS)
    chance = Random(f"cycles {parameters['network']}")  # alike for all protocols
    run = QuoteNetwork(graph, parameters["protocol"])
    run.wait(11 * SECOND)  # every node of cbcb has pulled
    told = _subscribe(run, chance, parameters)
    run.wait(11 * SECOND)  # again: tables have forgotten what nobody wants any more
    events = _publish(run, chance, parameters["quotes"])
    copies = _duplicates(run, chance, parameters["protocol"])
    yield {
        "nodes": graph.nodes,
        "links": len(graph.links),
        "bridges": len(graph.bridges()),
        "state_bytes": float(sum(map(_state, run.nodes())) / graph.nodes),
        **told,
        **events,
        **copies,
        "repaired_ms": _cut(run, graph),
    }


def _draw_filter(chance: Random) -> str:
    """A subscription: one symbol, and in three of four cases a range of prices."""
    text = f"symbol = 'S{chance.randrange(SYMBOLS)}'"
    if chance.random() < 0.25:
        return text
    low = chance.randrange(0, 90, 10)
    return f"{text} and price between {low} and {low + chance.choice((10, 20, 50))}"


def _draw_quote(chance: Random) -> dict[str, Any]:
    return {"symbol": f"S{chance.randrange(SYMBOLS)}", "price": chance.randrange(100)}


def _subscribe(run: QuoteNetwork, chance: Random, parameters: Parameters) -> dict[str, float]:
    """Subscriptions come, then they change; how much nodes tell each other of that."""
    graph, watch = run.graph, run.watch

    def subscribe(node: int) -> None:
        run.subscribe(graph.names[node], _draw_filter(chance))
        run.wait(STEP)

    watch.told_packets.clear()
    watch.told_bytes.clear()
    for _ in range(parameters["subscriptions"]):
        for node in range(graph.nodes):
            subscribe(node)
    for _ in range(parameters["changes"]):
        run.unsubscribe(chance.choice(sorted(run.held)))
        run.wait(STEP)
        subscribe(chance.randrange(graph.nodes))
    run.wait(3 * SECOND)
    quiet = ("Hello", "Records", "Summary")  # of links, whatever is subscribed
    return {
        "advertisements": float(watch.told_packets["Advertisement"]),
        "advertised_bytes": float(watch.told_bytes["Advertisement"] + watch.told_bytes["Receipt"]),
        "told_bytes": float(sum(n for kind, n in watch.told_bytes.items() if kind not in quiet)),
    }


def _publish(run: QuoteNetwork, chance: Random, quotes: int) -> dict[str, float]:
    """Quotes at random nodes: packets, those in vain, and how even the load of the links is."""
    names = run.graph.names
    events = [(chance.choice(names), _draw_quote(chance)) for _ in range(quotes)]
    needed = 0
    hops = {name: dict(r.hops) for name, r in zip(names, run.nodes(), strict=True)}
    for source, event in events:
        needed += links_needed(hops, source, run.wanting(event))
    run.watch.over.clear()
    before = run.watch.duplicates
    found = run.publish(events)
    loads = run.watch.over
    mean = sum(loads.values()) / len(run.graph.links)
    duplicates = (run.watch.duplicates - before) / quotes
    return {
        "packets_an_event": found["packets_an_event"],
        "needed_an_event": needed / quotes,
        "copies_an_event": duplicates,
        "in_vain_an_event": found["packets_an_event"] - needed / quotes - duplicates,
        "busiest_link": max(loads.values(), default=0) / mean if mean else 0.0,
        "links_used": len(loads) / len(run.graph.links),
    }


def _duplicates(run: QuoteNetwork, chance: Random, protocol: str) -> dict[str, float]:
    """Copies of an event that one node wants, that half of them want, and that all want.

    They are predicted where events go by entries alone; otherwise there must be none.
    """
    names = run.graph.names
    halves = set(chance.sample(names, len(names) // 2))
    groups = {"one": {chance.choice(names)}, "half": halves, "all": set(names)}
    for topic, group in groups.items():
        for name in sorted(group):
            run.subscribe(name, f"topic = '{topic}'")
    run.wait(3 * SECOND)
    found: dict[str, float] = {"unpredicted": 0.0}
    for topic, group in groups.items():
        total = low = high = 0
        for source in names[:20]:
            before = run.watch.duplicates
            run.publish([(source, {"topic": topic})], rest=SECOND // 4)
            mine = run.watch.duplicates - before
            least, most = predicted(run, source, group) if protocol == ENTRIES else (0, 0)
            found["unpredicted"] += not least <= mine <= most
            total, low, high = total + mine, low + least, high + most
        count = len(names[:20])
        found[f"copies_{topic}"] = total / count
        found[f"fewest_{topic}"] = low / count
        found[f"most_{topic}"] = high / count
    return found


def predicted(run: QuoteNetwork, source: str, wanting: set[str]) -> tuple[int, int]:
    """The fewest and the most copies of an event, if it goes wherever a match came from.

    Every node that it reaches sends it to all neighbours that lead to someone who wants it, except
    the one by which it first came. Whether that is one of them may depend on the time.
    """
    names = run.graph.names
    hops = {name: r.hops for name, r in zip(names, run.nodes(), strict=True)}
    out = {name: {hops[name][w] for w in wanting if w != name} for name in names}
    reached, pending = {source}, [source]
    for name in pending:  # grows while it is read
        for other in out[name]:
            if other not in reached:
                reached.add(other)
                pending.append(other)
    sends = sum(len(out[name]) for name in reached) - (len(reached) - 1)
    some = always = 0
    for name in reached - {source}:
        came = [other for other in reached if name in out[other]]
        back = [other for other in came if other in out[name]]
        some += bool(back)
        always += len(back) == len(came)
    return sends - some, sends - always


def _state(router: Any) -> int:
    """The bytes of what a node keeps of others: paths or records of links, and what they want."""
    shown = router.snapshot()
    kept = [str(shown[name]) for name in ("paths", "wanted", "table") if name in shown]
    if hasattr(router, "plane"):
        kept += [str((r.origin, r.number, r.links)) for r in router.plane.records.values()]
    return sum(map(len, kept))


def _cut(run: QuoteNetwork, graph: Graph) -> float:
    """A link of a cycle goes down, and both ends notice: after how long are all paths right?"""
    network, bridges = run.network, set(graph.bridges())
    one, other = next(link[:2] for link in graph.links if link not in bridges)
    ends = graph.names[one], graph.names[other]
    for name, far in (ends, ends[::-1]):
        network.links[name, far].cut += 1
        network.tell(name, LinkDown(far))
    truth = truth_of(network)
    begin = network.now
    while network.now < begin + LIMIT:
        run.wait(5 * MILLISECOND)
        hops = {name: dict(r.hops) for name, r in zip(graph.names, run.nodes(), strict=True)}
        if next(truth.wrong_paths(hops), None) is None:
            return (network.now - begin) / MILLISECOND
    return UNMEASURED


COLUMNS: Final = {
    "nodes": int,
    "links": int,
    "bridges": int,
    "state_bytes": float,
    "advertisements": float,
    "advertised_bytes": float,
    "told_bytes": float,
    "packets_an_event": float,
    "needed_an_event": float,
    "copies_an_event": float,
    "in_vain_an_event": float,
    "busiest_link": float,
    "links_used": float,
    "copies_one": float,
    "copies_half": float,
    "copies_all": float,
    "fewest_one": float,
    "fewest_half": float,
    "fewest_all": float,
    "most_one": float,
    "most_half": float,
    "most_all": float,
    "unpredicted": float,
    "repaired_ms": float,
}


def _mean(rows: Rows, protocol: str, column: str) -> float:
    found = [row[column] for row in select(rows, protocol=protocol)]
    return float(sum(found) / len(found))


def _share(rows: Rows, protocol: str, column: str) -> float:
    """What is left with covering of what `cbcb` tells, over all networks."""
    whole = _mean(rows, PLAIN, column)
    return _mean(rows, protocol, column) / whole if whole else 1.0


def claims(rows: Rows) -> list[Claim]:
    entries = select(rows, protocol=ENTRIES)
    cycles = [2 * (row["links"] - row["nodes"] + 1) for row in entries]
    exact = all(
        row["copies_all"] == rank and row["copies_one"] == 0 and not row["unpredicted"]
        for row, rank in zip(entries, cycles, strict=True)
    )
    trees = [row for p in (TREES, PLAIN, BRIDGES, PATHS) for row in select(rows, protocol=p)]
    copies = max(row[f"copies_{who}"] for row in trees for who in ("one", "half", "all"))
    busy = {p: _mean(rows, p, "busiest_link") for p in (SHARED, ENTRIES, TREES)}
    vain = {p: _mean(rows, p, "in_vain_an_event") for p in (TREES, PLAIN)}
    saved = {p: _share(rows, p, "advertisements") for p in (BRIDGES, PATHS)}
    lighter = {p: _share(rows, p, "advertised_bytes") for p in (BRIDGES, PATHS)}
    repaired = [row["repaired_ms"] for p in (TREES, PLAIN) for row in select(rows, protocol=p)]
    return [
        Claim(
            "VI-E",
            "routing by the entries of the subscription trees alone introduces duplicates",
            f"copies of an event, mean of {len(entries)} networks: "
            f"{_mean(rows, ENTRIES, 'copies_one'):.2f} if one node wants it, "
            f"{_mean(rows, ENTRIES, 'copies_half'):.2f} if half of them do "
            f"({_mean(rows, ENTRIES, 'fewest_half'):.2f} to "
            f"{_mean(rows, ENTRIES, 'most_half'):.2f} predicted), "
            f"{_mean(rows, ENTRIES, 'copies_all'):.2f} if all do; "
            f"2 (links - nodes + 1) is {sum(cycles) / len(cycles):.2f}",
            exact and _mean(rows, ENTRIES, "copies_half") > 0,
            "One copy for each direction of each link that closes a cycle, if all want the event: "
            "as many as flooding makes.",
        ),
        Claim(
            "VI-E",
            "with notification trees as well, nobody gets an event twice",
            f"copies of an event, at most: {copies:.2f}, by path cost and by cbcb; all arrived",
            copies == 0,
        ),
        Claim(
            "VI-E",
            "trees of all subscribers use the links more evenly than one shared tree",
            f"packets over the busiest link by those over a mean link: {busy[SHARED]:.2f} with one "
            f"tree, {busy[ENTRIES]:.2f} by entries, {busy[TREES]:.2f} with trees of publishers too",
            busy[ENTRIES] < busy[SHARED] and busy[TREES] < busy[SHARED],
        ),
        Claim(
            "VI-E",
            "the complete approach introduces no false positives",
            f"packets an event that lead to nobody who wants it: {vain[TREES]:.3f} by path cost, "
            f"{vain[PLAIN]:.3f} by cbcb",
            vain[TREES] == 0 and vain[PLAIN] == 0,
            "An entry says that someone behind the link wants the event, not that the tree of its "
            "publisher reaches them by it (paper U, PIF).",
        ),
        Claim(
            BEYOND,
            "covering is possible on cycles, and tells less",
            f"advertisements, as a share of those of cbcb: {saved[BRIDGES]:.2f} with covering "
            f"across bridges, {saved[PATHS]:.2f} on all paths where it is safe; bytes of "
            f"advertisements and receipts: {lighter[BRIDGES]:.2f}, {lighter[PATHS]:.2f}",
            saved[PATHS] <= saved[BRIDGES] < 1,
        ),
        Claim(
            BEYOND,
            "trees by path cost need no records of links, and repair themselves",
            f"after a cut all paths are right in {_mean(rows, TREES, 'repaired_ms'):.0f} ms, "
            f"{_mean(rows, PLAIN, 'repaired_ms'):.0f} ms with records of links (cbcb); bytes kept "
            f"at a node: {_mean(rows, TREES, 'state_bytes'):,.0f}, "
            f"{_mean(rows, PLAIN, 'state_bytes'):,.0f}; bytes told for subscriptions: "
            f"{_mean(rows, TREES, 'told_bytes'):,.0f}, {_mean(rows, PLAIN, 'told_bytes'):,.0f}",
            min(repaired) >= 0,
        ),
    ]


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (copies, told) = panels(2)
    entries = select(rows, protocol=ENTRIES)
    for number, who in enumerate(("one", "half", "all")):
        line = sorted((2 * row["links"] / row["nodes"], row[f"copies_{who}"]) for row in entries)
        copies.plot(
            *zip(*line, strict=True),
            color=COLOURS[number],
            marker=MARKERS[number],
            label=f"wanted by {who}",
        )
    copies.set_xlabel("mean degree")
    copies.set_ylabel("duplicates of an event, by entries alone")
    plain = {row["network"]: row["advertisements"] for row in select(rows, protocol=PLAIN)}
    for number, protocol in enumerate((BRIDGES, PATHS)):
        line = sorted(
            (row["bridges"] / row["links"], row["advertisements"] / max(1, plain[row["network"]]))
            for row in select(rows, protocol=protocol)
            if row["network"] in values(rows, "network")
        )
        told.plot(
            *zip(*line, strict=True),
            color=COLOURS[number],
            marker=MARKERS[number],
            label=protocol,
        )
    told.set_xlabel("share of the links that are bridges")
    told.set_ylabel("advertisements, by those of cbcb")
    for axes in (copies, told):
        axes.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="s17-cycles",
    parts=(),  # S17, once more seeds have tested its protocols
    title="Networks with cycles: trees by path cost, duplicates, and covering",
    question="What do trees for subscriptions and for events save on cycles, and can filters be "
    "covered there?",
    paper="The survey describes trees for subscriptions and for events, and predicts duplicates "
    "without the latter; it measures nothing.",
    here="Networks of the Topology Zoo with cycles, every link at cost 1: the same subscriptions "
    "and events under one shared tree, by entries alone, with trees by path cost, and under cbcb "
    "without covering, across bridges, and on all safe paths. Every delivery is checked.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
