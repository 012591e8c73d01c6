"""Walks through router processes: does latency grow with H as the model of paper L says (L5)?

    python -m benchmarks.layers [--json] [--matching 4] [--hops 1,2,4] [--events 200]

For each H a network of its own runs, all at the same time: a hub, `--matching` routers that match,
and one router with a publisher and a subscriber, each a process. Events are published one after the
other, in turn to each network, so whatever else the machine does strikes all alike. With few
processors only the shape counts: the median latency by that of the first H. The model says
(c + H) / (c + 1), where c is what an event takes besides its walk, in hops; it is fitted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks.network import free_port, wait_for_routers

KEYS: Final = 50
WARM_UP: Final = 20
CODE: Final = "import sys; from tidings.cli.main import main; sys.exit(main())"


def network_file(folder: Path, matching: int, hops: int) -> tuple[Path, int]:
    """A file for `tidings up`, and the port of the router where users are."""
    names = ["hub", *(f"m{number}" for number in range(matching)), "edge"]
    ports = {name: free_port() for name in names}
    options = {
        "nodes": names[1:-1],
        "replicas": 1,
        "regions": matching,
        "hops": hops,
        "rendezvous": "hash:key",
        "places": matching + 2,
    }
    written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
    lines = []
    for name in names:
        lines += ["[[node]]", f'name = "{name}"', f'listen = "127.0.0.1:{ports[name]}"']
        lines += ['protocol = "regions-list"', f"options = {{ {written} }}"]
        if name != "hub":
            lines.append(f'link = ["127.0.0.1:{ports["hub"]}"]')
    path = folder / f"hops-{hops}.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, ports["edge"]


def measure(matching: int, hops: list[int], events: int) -> dict[int, list[float]]:
    """Seconds from before an event is published until it is there, by H."""
    from tidings.live.connect import connect

    took: dict[int, list[float]] = {one: [] for one in hops}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nets: dict[int, tuple[Any, Any]] = {}
        for one in hops:
            path, port = network_file(folder, matching, one)
            process = subprocess.Popen(
                [sys.executable, "-c", CODE, "up", str(path)], stdout=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            _wait_for(port)
            wait_for_routers(port, matching + 2)
            net = stack.enter_context(connect(f"tidings://127.0.0.1:{port}"))
            subscribed = [net.subscribe(f"key = {key}") for key in range(KEYS)]
            nets[one] = (net, subscribed)
        for number in range(events + WARM_UP):
            for one, (net, subscribed) in nets.items():
                key = number % KEYS
                begun = time.perf_counter()
                net.publish({"key": key, "number": number})
                assert next(iter(subscribed[key]))["number"] == number
                if number >= WARM_UP:
                    took[one].append(time.perf_counter() - begun)
    return took


def _wait_for(port: int) -> None:
    """Wait until a router listens."""
    import socket

    for _ in range(1_200):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"no router listens on {port}")


def main() -> None:
    """Print the medians, and how they compare with a straight line in H."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--matching", type=int, default=4)
    parser.add_argument("--hops", default="1,2,4")
    parser.add_argument("--events", type=int, default=200)
    arguments = parser.parse_args()
    hops = [int(text) for text in arguments.hops.split(",")]
    took = measure(arguments.matching, hops, arguments.events)
    medians = {one: statistics.median(found) * 1e3 for one, found in took.items()}
    slope, rest = statistics.linear_regression(list(medians), list(medians.values()))
    for one, median in medians.items():
        row = {
            "hops": one,
            "events": len(took[one]),
            "median_ms": round(median, 3),
            "by_first": round(median / medians[hops[0]], 2),
            "line_ms": round(rest + slope * one, 3),
        }
        print(json.dumps(row) if arguments.json else "  ".join(f"{k} {v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
