"""What does one hop cost? The processor time of a router's protocol and edge for an event.

    python -m benchmarks.hops [--json]

A node has subscriptions of its own, and links behind which others want something. It takes an event
from a neighbour, decides which links want it, and finds the subscriptions that it matches: with a
matcher for each (`apart`), and in one search (`board`). One event in a hundred is wanted, behind
all links, and here if there are enough subscriptions. One core.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any

from benchmarks.measure import Measurement, command_line, report
from tidings.language.predicate import parse
from tidings.live.edge import Edge, Growing
from tidings.routing.packets import Publication
from tidings.routing.planes.board import Board
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Deliver,
    Received,
    Send,
    Subscribe,
    Unsubscribe,
)
from tidings.routing.source_trees.content import ContentRouter
from tidings.sim.ledger import Ledger
from tidings.sim.network import Network
from tidings.sim.oracle import Oracle

EVENTS = 2_000
WANTED = 100  # one event in so many
SUBSCRIPTIONS = (1, 100_000)
LINKS = (1, 2, 3)


class Hop:
    """A node in the middle of a star, and what its router does with an event."""

    def __init__(self, subscriptions: int, links: int, boarded: bool) -> None:
        board = Board(Growing()) if boarded else None
        topologies = Topologies()

        def make(name: str, life: int) -> ContentRouter:
            matcher: Any = Growing
            if name == "hub":
                return ContentRouter(
                    name, life, topologies=topologies, matcher=matcher, board=board
                )
            return ContentRouter(name, life, topologies=topologies)

        network = Network(make, Oracle(Ledger()), Random(1))
        network.add_node("hub")
        for number in range(links + 1):
            network.add_node(f"n{number}")
            network.add_link("hub", f"n{number}", 1, MILLISECOND)
        for name in network.nodes:
            network.start(name)
        network.run(2 * SECOND)
        router: Any = network.nodes["hub"].router
        self.router = router
        self.life = network.nodes["n0"].life
        self.digest = router.plane.routes.digest
        for number in range(1, links + 1):
            wants = "class = 'alert' and severity > 2 or class = 'alarm'"
            router.views.widen(f"n{number}", f"{wants} or site = '{number}'")

        def tell(id: str, text: str | None) -> None:
            self.router.handle(
                Unsubscribe(id) if text is None else Subscribe(id, text), network.now
            )

        self.edge = Edge(tell, Growing(), board)
        for number in range(subscriptions):
            self.edge.put(number, parse(f"class = 'alert' and device = {number}"))
        self.numbers = 0

    def handle(self, event: dict[str, Any]) -> tuple[int, int]:
        """An event comes from a neighbour; returns how many links and subscriptions get it."""
        self.numbers += 1
        publication = Publication("n0", self.life, self.numbers, event, self.digest)
        sends = here = 0
        for action in self.router.handle(Received("n0", publication), 0):
            if type(action) is Send:
                sends += 1
            elif type(action) is Deliver:
                here += len(self.edge.match(event))
        return sends, here


def events(count: int) -> list[dict[str, Any]]:
    """Events of which one in a hundred is wanted."""
    kinds = ["alert" if n % WANTED == 0 else "metric" for n in range(count)]
    return [{"class": kind, "severity": 5, "device": n % 997} for n, kind in enumerate(kinds)]


def measured(subscriptions: int, links: int, boarded: bool, repeats: int) -> Measurement:
    """The processor time of one case."""
    hop = Hop(subscriptions, links, boarded)
    drawn = events(EVENTS)
    sent = [hop.handle(event) for event in drawn]
    assert sum(sends for sends, _ in sent) == links * EVENTS // WANTED

    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        for event in drawn:
            hop.handle(event)
        seconds.append(time.process_time() - start)
    case = f"{subscriptions} subscriptions, {links} links, {'board' if boarded else 'apart'}"
    return Measurement(case, EVENTS, tuple(seconds))


def main() -> None:
    """Measure, and print."""
    parser, command = command_line("benchmarks.hops", __doc__.split("\n")[0])
    given = parser.parse_args()
    Growing.prepare()
    found = [
        measured(subscriptions, links, boarded, given.repeats)
        for subscriptions in SUBSCRIPTIONS
        for links in LINKS
        for boarded in (False, True)
    ]
    report(found, command, given.json)


if __name__ == "__main__":
    main()
