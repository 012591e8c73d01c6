"""Draws one event under each scheme, as SVG: the figure of docs/routing.md.

    python examples/delivery_trees.py > docs/figures/delivery-trees.svg

The network is Abilene as the Internet Topology Zoo has it (Knight et al., CC BY 4.0): eleven nodes
across the United States; links weigh their length. Los Angeles publishes an event; New York,
Seattle and Atlanta want it.
"""

from typing import Any

from tidings.overlay.graph import Graph
from tidings.routing.delivery import Delivery, Outcome, deliver, judge
from tidings.routing.flooding.scheme import Header
from tidings.routing.network import Matched, Network, members
from tidings.routing.scheme import Scheme
from tidings.routing.schemes import SCHEMES

PLACES = {  # of nodes in the figure: west to east, north to south, spread where it is crowded
    "NY": (305, 85),
    "CHI": (225, 70),
    "DC": (300, 145),
    "SEA": (40, 60),
    "SV": (35, 150),
    "LA": (75, 210),
    "DEN": (120, 115),
    "KC": (175, 135),
    "HOU": (165, 215),
    "ATL": (250, 195),
    "IND": (230, 130),
}
BELOW = {"LA", "HOU", "ATL", "DC"}  # nodes whose name stands below them
LINKS = [  # and their lengths in kilometres
    *(("NY", "CHI", 1146), ("NY", "DC", 328), ("CHI", "IND", 263), ("DC", "ATL", 872)),
    *(("SEA", "SV", 1139), ("SEA", "DEN", 1641), ("SV", "LA", 503), ("SV", "DEN", 1504)),
    *(("LA", "HOU", 2207), ("DEN", "KC", 892), ("KC", "HOU", 1042), ("KC", "IND", 731)),
    *(("HOU", "ATL", 1128), ("ATL", "IND", 688)),
]
SOURCE = "LA"
WANTED = ("NY", "SEA", "ATL")
SHOWN = ("flooding", "psf", "ips", "pif", "drp")

NAMES = list(PLACES)
WIDTH, HEIGHT = 345, 255
COLOURS = {"useful": "#1f6feb", "spam": "#d1242f", "duplicate": "#8c959f"}
STYLE = (
    "text{font:11px sans-serif;fill:#24292f}.title{font-weight:bold;font-size:13px}"
    ".header{font-size:9px;fill:#57606a}"
)


def main() -> None:
    """Write the figure to standard output."""
    graph = Graph(len(NAMES), [(NAMES.index(a), NAMES.index(b), km) for a, b, km in LINKS], NAMES)
    # The other nodes want other events, so that tables hold their interests as well.
    interests = [f"class = '{'alert' if name in WANTED else 'report'}'" for name in NAMES]
    network = Network(graph, interests)
    wanted = network.interested({"class": "alert"})
    event = Matched(wanted)
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * WIDTH} {2 * HEIGHT}" '
        f'role="img" aria-label="One event under each routing scheme"><style>{STYLE}</style>'
    )
    print(f'<rect width="{3 * WIDTH}" height="{2 * HEIGHT}" fill="white"/>')
    for place, scheme in enumerate(map(SCHEMES.__getitem__, SHOWN)):
        states = scheme.build(network)
        delivery = deliver(scheme, states, graph, NAMES.index(SOURCE), event)
        outcome = judge(network, delivery, wanted)
        print(f'<g transform="translate({place % 3 * WIDTH} {place // 3 * HEIGHT})">')
        print(
            *panel(scheme, graph, delivery, outcome, labels(scheme, states, delivery, event)),
            sep="\n",
        )
        print("</g>")
    print(f'<g transform="translate({2 * WIDTH} {HEIGHT})">', *legend(), "</g>", sep="\n")
    print("</svg>")


def labels(scheme: Scheme, states: list[Any], delivery: Delivery, event: Matched) -> list[str]:
    """What to write beside each packet: the source or the receivers that its header names."""
    headers: list[Any] = []
    for sender, receiver, cause in zip(
        delivery.senders, delivery.receivers, delivery.causes, strict=True
    ):
        (arrived,) = scheme.init(states[sender], event) if cause < 0 else (headers[cause],)
        headers.append(dict(scheme.send(states[sender], arrived, event))[receiver])
    return list(map(label, headers, delivery.receivers))


def label(header: Any, receiver: int) -> str:
    """What a header says, as far as it differs from packet to packet."""
    match header:
        case int():  # a source
            return NAMES[header]
        case dict():  # receivers by neighbour
            return " ".join(NAMES[node] for node in members(header[receiver]))
        case Header():  # of flooding: the source and the sender
            return ""
        case _:
            raise TypeError(f"no header: {header!r}")


def panel(
    scheme: Scheme, graph: Graph, delivery: Delivery, outcome: Outcome, texts: list[str]
) -> list[str]:
    """One scheme: its links, the packets on them, and the nodes."""
    drawn = [
        f'<text class="title" x="12" y="20">{scheme.name}</text>',
        f'<text x="90" y="20">{outcome.packets} packets, {outcome.spam} spam, '
        f"{outcome.duplicates} duplicates</text>",
    ]
    for one, other, _ in graph.links:
        (x1, y1), (x2, y2) = spot(one), spot(other)
        drawn.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#d0d7de"/>')
    kinds = kinds_of(delivery)
    # The useful packets last, above the others.
    for place in sorted(range(len(kinds)), key=lambda place: -list(COLOURS).index(kinds[place])):
        ends = delivery.senders[place], delivery.receivers[place]
        drawn.append(arrow(*ends, COLOURS[kinds[place]], texts[place]))
    for node, name in enumerate(NAMES):
        x, y = spot(node)
        fill = "#1f6feb" if name in WANTED else "#24292f" if name == SOURCE else "white"
        drawn.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{fill}" stroke="#24292f"/>')
        lower = 19 if name in BELOW else -9
        drawn.append(f'<text text-anchor="middle" x="{x}" y="{y + lower}">{name}</text>')
    return drawn


def kinds_of(delivery: Delivery) -> list[str]:
    """For each packet, whether it is useful, spam or a duplicate, as `judge` counts them."""
    wanted, seen = set(map(NAMES.index, WANTED)), {delivery.source}
    kinds = ["spam"] * len(delivery.receivers)
    for place, node in enumerate(delivery.receivers):
        kinds[place] = "duplicate" if node in seen else "useful" if node in wanted else "spam"
        seen.add(node)
    for place in reversed(range(len(kinds))):
        if kinds[place] == "useful" and delivery.causes[place] >= 0:
            kinds[delivery.causes[place]] = "useful"
    return kinds


def arrow(sender: int, receiver: int, colour: str, text: str) -> str:
    """A packet: a little to the right of its link, to keep the two directions apart."""
    start, end = complex(*spot(sender)), complex(*spot(receiver))
    along = (end - start) / abs(end - start)
    across = along * 1j
    start, end = start + 7 * along + 2 * across, end - 8 * along + 2 * across
    tip = [end + 2 * along, end - 5 * along + 3 * across, end - 5 * along - 3 * across]
    points = " ".join(f"{point.real:.1f},{point.imag:.1f}" for point in tip)
    beside = (start + end) / 2 + 8 * across
    return (
        f'<line x1="{start.real:.1f}" y1="{start.imag:.1f}" x2="{end.real:.1f}" '
        f'y2="{end.imag:.1f}" stroke="{colour}" stroke-width="2"/>'
        f'<polygon points="{points}" fill="{colour}"/><text class="header" text-anchor="middle" '
        f'x="{beside.real:.1f}" y="{beside.imag + 3:.1f}">{text}</text>'
    )


def legend() -> list[str]:
    """What the colours mean."""
    lines = [
        ("#1f6feb", "a packet on the way to one who wants it"),
        ("#d1242f", "spam: leads to nobody who does"),
        ("#8c959f", "a duplicate"),
    ]
    drawn = []
    for row, (colour, text) in enumerate(lines):
        y = 60 + 24 * row
        drawn.append(
            f'<line x1="20" y1="{y}" x2="50" y2="{y}" stroke="{colour}" stroke-width="2"/>'
        )
        drawn.append(f'<text x="60" y="{y + 4}">{text}</text>')
    nodes = [("#24292f", "publishes"), ("#1f6feb", "wants it"), ("white", "does not")]
    for row, (colour, text) in enumerate(nodes):
        y = 60 + 24 * (row + len(lines))
        drawn.append(f'<circle cx="35" cy="{y}" r="5" fill="{colour}" stroke="#24292f"/>')
        drawn.append(f'<text x="60" y="{y + 4}">{text}</text>')
    drawn.append('<text class="header" x="20" y="216">Beside a packet: the source or the</text>')
    drawn.append('<text class="header" x="20" y="228">receivers that its header names.</text>')
    return drawn


def spot(node: int) -> tuple[float, float]:
    """Where a node is drawn."""
    return PLACES[NAMES[node]]


if __name__ == "__main__":
    main()
