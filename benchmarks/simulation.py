"""How fast is the simulator, and how long does a large network take to converge?

    python -m benchmarks.simulation [--json] [--nodes 1000]

`steady`: 100 nodes that publish; packets a second of processor time. `convergence`: a power-law
network starts with nothing but its links; until every node has the right routes, everyone's
interest is established, and every table lets through what is wanted behind it. One core.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from random import Random
from typing import Any

from tidings.overlay.topologies import topology
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import MILLISECOND, SECOND, Publish, Subscribe, Timing
from tidings.routing.source_trees.agreement import disagreements
from tidings.routing.source_trees.content import ContentRouter
from tidings.sim.ledger import Ledger
from tidings.sim.load import draw_event, draw_want
from tidings.sim.network import Network
from tidings.sim.oracle import Oracle, truth_of

# With a thousand nodes, a pull of everyone by everyone is two million packets.
TIMING = Timing(hello=SECOND, dead=4 * SECOND, pull=600 * SECOND, refresh=300 * SECOND)
TIMING = TIMING._replace(age=1_000 * SECOND, retry=5 * SECOND)
SAMPLES = 20
SAID_EVERY_S = 10


def build(nodes: int, seed: int, timing: Timing) -> tuple[Network, Oracle, Ledger, Random]:
    """A network about to start, in which every node has a subscription."""
    ledger = Ledger()
    oracle = Oracle(ledger)
    chance = Random(seed)
    topologies = Topologies()
    network = Network(
        lambda name, life: ContentRouter(name, life, timing, topologies), oracle, Random(seed)
    )
    graph = topology(f"ba:{nodes}", seed)
    for name in graph.names:
        network.add_node(name)
    for one, other, weight in graph.links:
        delay = chance.randint(1, 10) * MILLISECOND
        network.add_link(graph.names[one], graph.names[other], weight, delay)
    for number, name in enumerate(graph.names):
        network.start(name)
        want = draw_want(chance)
        oracle.subscribe(f"s{number}", name, want)
        network.tell(name, Subscribe(f"s{number}", str(want)))
    return network, oracle, ledger, chance


def converge(nodes: int, seed: int) -> dict[str, Any]:
    """From nothing to a network that is right about itself."""
    begin = time.process_time()
    network, oracle, ledger, chance = build(nodes, seed, TIMING)
    samples = [draw_event(chance, -number - 1) for number in range(SAMPLES)]
    truth = truth_of(network)
    said = begin
    while True:
        network.run(network.now + SECOND // 2)
        if time.process_time() > said + SAID_EVERY_S:
            said = time.process_time()
            print(
                f"  converging: {network.now / SECOND:.1f} s simulated, {ledger.packets:,} packets",
                file=sys.stderr,
            )
        settled = all(node.router.is_settled() for node in network.nodes.values())  # type: ignore[union-attr]
        situation = oracle.situation(network, truth, lambda: samples, exact=False)
        nodes_now = {name: node.router for name, node in network.nodes.items()}
        if settled and not any(disagreements(nodes_now, situation)):
            break
    took = time.process_time() - begin
    return {
        "nodes": nodes,
        "links": len(network.links) // 2,
        "simulated_s": network.now / SECOND,
        "packets": ledger.packets,
        "processor_s": round(took, 1),
        "packets_per_processor_s": round(ledger.packets / took),
    }


def steady(nodes: int, seed: int, events: int) -> dict[str, Any]:
    """Events in a network at rest."""
    network, oracle, ledger, chance = build(nodes, seed, Timing())
    network.run(5 * SECOND)
    truth = truth_of(network)
    oracle.found_right(oracle.situation(network, truth, tuple, exact=False))
    before = ledger.packets
    begin = time.process_time()
    for number in range(events):
        name = chance.choice(truth.running)
        event = draw_event(chance, number)
        oracle.publish(event, name, True, truth)
        network.tell(name, Publish(event))
        network.run(network.now + MILLISECOND)
    network.run(network.now + SECOND)
    took = time.process_time() - begin
    for number in range(events):
        oracle.close(number, network.now)
    assert ledger.lost_when_stable == ledger.duplicated == ledger.unexpected == 0
    packets = ledger.packets - before
    return {
        "nodes": nodes,
        "events": events,
        "delivered": ledger.delivered,
        "packets": packets,
        "processor_s": round(took, 2),
        "packets_per_processor_s": round(packets / took),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="a JSON object for each")
    parser.add_argument("--nodes", type=int, default=1_000, help="of the network that converges")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    gc.disable()  # packets and records are values without cycles, and there are millions
    steady(20, given.seed, 50)  # warm up
    for name in ("steady", "convergence"):
        facts = (
            steady(100, given.seed, 3_000)
            if name == "steady"
            else converge(given.nodes, given.seed)
        )
        if given.json:
            print(json.dumps({"case": name, **facts}), flush=True)
            continue
        print(name)
        for field, value in facts.items():
            print(f"  {field:24} {value:,}", flush=True)


if __name__ == "__main__":
    main()
