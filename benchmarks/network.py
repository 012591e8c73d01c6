"""The live network: events a second and latency, beside NATS with filtering in the client.

`python -m benchmarks.network [--json] [--events N] [--subscriptions N,N]` measures all cases in one
run: one router and a chain of three, with 1, 1,000 and 100,000 subscriptions of which ten match a
wanted event (one, if there is only one); events of 1 kB; 100 clients; five routers in a ring, each
with a publisher and a subscriber two hops on; and then what crosses a link, pruned and flooded. It
ends with the tables of docs/network.md.

How: routers, servers, publishers and subscribers are processes of their own, all clients are in
Python. One event in a hundred is wanted; ten clients, in two processes, hold the subscriptions, ten
of each text. The clock runs from the first publication until every client has every event it
wanted, so the figures are end to end. `per_s` counts all events published, `useful_per_s`
those that were wanted. NATS delivers every event to every client, and each filters with the table
of Tidings (or, for one subscription, the predicate). Its three servers are a cluster, in which a
message takes one hop. Latency is measured apart, from before the publication to the program that
takes it out of its iterator: at a gentle rate, and at half of the rate that was just measured.

`router_us`, `publisher_us` and `subscriber_us` are the processor time that the busiest process of
each kind takes for an event published, in microseconds. Unlike rates they hardly depend on what
else the machine does (Linux only).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

CLIENTS: Final = 10
TEXT: Final = 64  # characters of a text in each event, which nobody asks about
RING: Final = 5  # routers of the case with cross traffic
TICK_S: Final = 0.005  # between bursts at half load
PROCESSES: Final = 2  # of subscribers
WANTED: Final = 100  # one event in this many
WARM_UP: Final = 1_000
PACE_S: Final = 0.002  # between events when latency is measured
PATIENCE_S: Final = 300.0
PROCESSOR: Final = ("router_us", "publisher_us", "subscriber_us")


# The workload


def topics(subscriptions: int, clients: int = CLIENTS) -> int:
    """How many texts there are; each is held by all clients."""
    return max(1, subscriptions // clients)


def events(
    start: int, count: int, size: int, wanted: int, text: int = TEXT
) -> Iterator[dict[str, Any]]:
    """Events of which one in `wanted` is for somebody; `size` is the number of topics."""
    for n in range(start, start + count):
        topic = f"t{n // wanted % size}" if n % wanted == 0 else f"u{n % 997}"
        yield {"topic": topic, "price": n % 90 + 10, "site": "Oslo", "n": n, "text": "x" * text}


def predicates(size: int) -> list[str]:
    """What one client asks for."""
    return [f"topic = 't{n}' and price > {n % 10}" for n in range(size)]


def due(count: int, wanted: int) -> int:
    """How many of the first events are wanted."""
    return -(-count // wanted)


# Roles: each is a process that writes lines of JSON


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


async def subscriber(options: dict[str, Any]) -> None:
    """Some clients: subscribe, then count and time what comes."""
    counts = [0] * options["clients"]
    latencies: list[int] = []
    waiting = asyncio.Event()

    def came(client: int, event: dict[str, Any]) -> None:
        counts[client] += 1
        if "at" in event:
            latencies.append(time.monotonic_ns() - event["at"])
        if min(counts) >= goal[0]:
            waiting.set()

    goal = [options["goals"][0]]
    start = subscribe_tidings if options["system"] == "tidings" else subscribe_nats
    began = time.monotonic()
    closing = await start(options, came)
    say(ready=True, seconds=round(time.monotonic() - began, 2))
    for index, aim in enumerate(options["goals"]):
        goal[0] = aim
        if min(counts) >= aim:
            waiting.set()
        await asyncio.wait_for(waiting.wait(), PATIENCE_S)
        waiting.clear()
        say(phase=index, at=time.monotonic_ns(), latencies=latencies)
        latencies.clear()
    await closing()


async def subscribe_tidings(options: dict[str, Any], came: Any) -> Any:
    from tidings.live.connect import connect

    connectors = []
    tasks = []

    async def listen(client: int, subscription: Any) -> None:
        async for event in subscription:
            came(client, event)

    for client in range(options["clients"]):
        connectors.append(connect(options["url"], window=8_192))
        net = await connectors[-1].__aenter__()
        made = []
        texts = options.get("texts") or predicates(options["topics"])
        for start in range(0, len(texts), 1_000):
            some = (net.subscribe(text, wait=False) for text in texts[start : start + 1_000])
            made += await asyncio.gather(*some)
        for one in made:
            await one.established()
        tasks += [asyncio.ensure_future(listen(client, one)) for one in made]

    async def close() -> None:
        for connector in connectors:
            await connector.__aexit__(None, None, None)
        for task in tasks:
            task.cancel()

    return close


async def subscribe_nats(options: dict[str, Any], came: Any) -> Any:
    import nats

    from tidings import Table, parse

    texts = options.get("texts") or predicates(options["topics"])
    clients = []
    decode = msgspec.msgpack.Decoder(dict[str, Any]).decode
    for client in range(options["clients"]):
        net = await nats.connect(options["url"], pending_size=64 * 1024 * 1024)
        clients.append(net)
        if len(texts) == 1:
            predicate = parse(texts[0])
            wanted: Any = predicate.matches
        else:
            wanted = Table(dict(enumerate(texts))).match

        async def take(message: Any, client: int = client, wanted: Any = wanted) -> None:
            event = decode(message.data)
            if wanted(event):
                came(client, event)

        await net.subscribe(
            "events", cb=take, pending_msgs_limit=10**7, pending_bytes_limit=4 * 1024**3
        )
        await net.flush()

    async def close() -> None:
        for net in clients:
            await net.close()

    return close


async def publisher(options: dict[str, Any]) -> None:
    """Publish in phases, each when told to by a line on standard input."""
    encode = msgspec.msgpack.Encoder().encode
    loop = asyncio.get_running_loop()
    if options["system"] == "tidings":
        from tidings.live.connect import connect

        net: Any = await connect(options["url"]).__aenter__()
    else:
        import nats

        net = await nats.connect(options["url"], pending_size=64 * 1024 * 1024)

    async def publish_all(some: Iterator[dict[str, Any]]) -> None:
        if options["system"] == "tidings":
            await net.publish_all(some)
            return
        for event in some:
            await net.publish("events", encode(event))
        await net.flush(timeout=int(PATIENCE_S))

    say(ready=True)
    for count, wanted, paced in options["phases"]:
        rate = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
        stream = events(0, count, options["topics"], wanted, options["text"])
        if paced:
            burst, pace = max(1, round(rate * TICK_S)), TICK_S if rate else PACE_S
            due_at = time.monotonic()
            while some := list(islice(stream, burst)):
                for event in some:
                    event["at"] = time.monotonic_ns()
                await publish_all(iter(some))
                due_at += pace
                await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            say(done=True)
            continue
        prepared = list(stream)
        for event in prepared:
            event.update(options.get("also", {}))
        begin, used = time.monotonic_ns(), time.process_time()
        await publish_all(iter(prepared))
        say(begin=begin, end=time.monotonic_ns(), used=time.process_time() - used)
    await net.close()


# The parts put together


class Process:
    """A role in a process of its own."""

    def __init__(self, role: str, options: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "benchmarks.network", "--role", role]
        self.process = subprocess.Popen(
            [*command, "--options", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f"a process ended early with {self.process.wait()}")
        found: dict[str, Any] = json.loads(text)
        return found

    def go(self, rate: float = 0.0) -> None:
        """Begin the next phase; at a rate, if it is one for latency."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rate}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Network(NamedTuple):
    """Routers or servers that run as processes."""

    urls: list[str]
    pids: list[int]


class Meter:
    """The processor time that processes use from now on."""

    def __init__(self, pids: list[int]) -> None:
        # The processor clock of another process, as Linux numbers them.
        self._clocks = [(~pid << 3) | 2 for pid in pids] if sys.platform == "linux" else []
        self._before = self._read()

    def _read(self) -> list[float]:
        return [time.clock_gettime(clock) for clock in self._clocks]

    def busiest_s(self) -> float:
        """How much the process has used that used most; 0 where nobody can tell."""
        return max(map(float.__sub__, self._read(), self._before), default=0.0)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def tidings_network(count: int, protocol: str = "cbcb", closed: bool = False) -> Iterator[Network]:
    """Routers in a row, or in a ring if `closed`, as processes."""
    code = "import sys; from tidings.cli.main import main; sys.exit(main())"
    ports = [free_port() for _ in range(count)]
    processes = []
    try:
        for index, port in enumerate(ports):
            command = ["serve", "--listen", f"127.0.0.1:{port}", "--name", f"r{index}"]
            command += ["--protocol", protocol]
            if index:
                command += ["--link", f"127.0.0.1:{ports[index - 1]}"]
            if closed and index == count - 1:
                command += ["--link", f"127.0.0.1:{ports[0]}"]
            process = subprocess.Popen(
                [sys.executable, "-c", code, *command], stdout=subprocess.PIPE, text=True
            )
            processes.append(process)
            assert process.stdout is not None
            process.stdout.readline()
        wait_for_routers(ports[0], count)
        urls = [f"tidings://127.0.0.1:{port}" for port in ports]
        yield Network(urls, [process.pid for process in processes])
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for_routers(port: int, count: int) -> None:
    from tidings.live.connect import connect

    with connect(f"tidings://127.0.0.1:{port}") as net:
        while True:
            found = net.ask("status")
            ready = all(one.get("settled") and not one["loading"] for one in found)
            if len(found) == count and ready:
                if all(len(one["reaches"]) == count - 1 for one in found) or count == 1:
                    return
                if all(one["protocol"] == "flood" for one in found):
                    return
            time.sleep(0.1)


@contextmanager
def nats_network(count: int) -> Iterator[Network]:
    """NATS servers, several as a cluster."""
    binary = shutil.which("nats-server") or str(Path(sys.executable).parent / "nats-server")
    ports = [free_port() for _ in range(count)]
    routes = [free_port() for _ in range(count)]
    processes = []
    try:
        for index in range(count):
            command = [binary, "-a", "127.0.0.1", "-p", str(ports[index])]
            if count > 1:
                command += ["--cluster_name", "c", "--cluster", f"nats://127.0.0.1:{routes[index]}"]
                command += ["--routes", f"nats://127.0.0.1:{routes[0]}"]
            processes.append(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
        for port in ports:
            for _ in range(200):
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
        time.sleep(1.0)
        urls = [f"nats://127.0.0.1:{port}" for port in ports]
        yield Network(urls, [process.pid for process in processes])
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Case(NamedTuple):
    """What is measured with both systems."""

    routers: int
    subscriptions: int
    clients: int = CLIENTS
    text: int = TEXT

    def __str__(self) -> str:
        routers = f"{self.routers} router{'s' * (self.routers > 1)}"
        return f"{routers}, subscriptions: {self.what}"

    @property
    def what(self) -> str:
        """Its subscriptions, and what else is unusual."""
        parts = [f"{self.subscriptions:,}"]
        if self.clients > CLIENTS:
            parts.append(f"{self.clients} clients")
        if self.text > TEXT:
            parts.append(f"events of {self.text // 1_000} kB")
        return ", ".join(parts)


Pair = tuple[Case, dict[str, Any], dict[str, Any]]  # what both systems did


def measure(system: str, case: Case, count: int, paced: int) -> dict[str, Any]:
    """One case: warm up, throughput, latency at a gentle rate, latency at half load."""
    hops = case.routers
    network = tidings_network(hops) if system == "tidings" else nats_network(hops)
    clients = case.clients if case.subscriptions > 1 else 1
    processes = min(PROCESSES, clients)
    size = topics(case.subscriptions, clients)
    phases = [(WARM_UP, WANTED, False), (count, WANTED, False), (paced, 5, True)]
    phases.append((count // 2, WANTED, True))
    goals, whole = [], 0
    for number, wanted, _ in phases:
        whole += due(number, wanted)
        goals.append(whole)
    with ExitStack() as stack:
        urls, pids = stack.enter_context(network)
        shared = {"system": system, "topics": size, "text": case.text}
        share = {**shared, "clients": clients // processes, "goals": goals, "url": urls[-1]}
        listening = [Process("subscriber", share) for _ in range(processes)]
        for one in listening:
            stack.callback(one.end)
        setup = max(one.line()["seconds"] for one in listening)
        if system == "tidings":
            wait_for_routers(int(urls[0].rpartition(":")[2]), hops)
        source = Process("publisher", {**shared, "url": urls[0], "phases": phases})
        stack.callback(source.end)
        source.line()
        source.go()
        source.line()
        for one in listening:
            one.line()
        routing, taking = Meter(pids), Meter([one.process.pid for one in listening])
        source.go()
        sent = source.line()
        finished = max(one.line()["at"] for one in listening)
        used = (routing.busiest_s(), sent["used"], taking.busiest_s())
        seconds = (max(finished, sent["end"]) - sent["begin"]) / 1e9
        latencies = []
        for rate in (0.0, count / seconds / 2):
            source.go(rate)
            source.line()
            latencies.append(sorted(n for one in listening for n in one.line()["latencies"]))
    gentle, loaded = latencies
    return {
        "case": f"{system}, {case}",
        "system": system,
        "routers": hops,
        "subscriptions": case.subscriptions,
        "clients": clients,
        "events": count,
        "per_s": round(count / seconds),
        "taken_per_s": round(count / ((sent["end"] - sent["begin"]) / 1e9)),
        "useful_per_s": round(due(count, WANTED) / seconds, 1),
        **per_event(used, count),
        "p50_ms": round(statistics.median(gentle) / 1e6, 2),
        "p99_ms": round(gentle[int(len(gentle) * 0.99)] / 1e6, 2),
        "half_load_p50_ms": round(statistics.median(loaded) / 1e6, 2),
        "half_load_p99_ms": round(loaded[int(len(loaded) * 0.99)] / 1e6, 2),
        "subscribing_s": setup,
    }


def per_event(used: tuple[float, float, float], count: int) -> dict[str, float]:
    """The processor time of a router, a publisher and a subscriber for an event published."""
    return {name: round(one / count * 1e6, 2) for name, one in zip(PROCESSOR, used, strict=True)}


def cross_traffic(count: int) -> dict[str, Any]:
    """A ring: every router has a publisher, and a subscriber two hops further on."""
    with ExitStack() as stack:
        urls, pids = stack.enter_context(tidings_network(RING, closed=True))
        listening, sources = [], []
        shared: dict[str, Any] = {"system": "tidings", "topics": 1, "text": TEXT, "clients": 1}
        for index, url in enumerate(urls):
            goals = [WARM_UP, WARM_UP + count]
            wants = {"url": url, "goals": goals, "texts": [f"to = {index}"]}
            listening.append(Process("subscriber", {**shared, **wants}))
            phases = [(WARM_UP, WANTED, False), (count, WANTED, False)]
            sends = {"url": url, "phases": phases, "also": {"to": (index + 2) % RING}}
            sources.append(Process("publisher", {**shared, **sends}))
        for one in [*listening, *sources]:
            stack.callback(one.end)
            one.line()
        wait_for_routers(int(urls[0].rpartition(":")[2]), RING)
        for _ in range(2):
            routing, taking = Meter(pids), Meter([one.process.pid for one in listening])
            for one in sources:
                one.go()
            sent = [one.line() for one in sources]
            finished = max(one.line()["at"] for one in listening)
            publishing = max(one["used"] for one in sent)
            used = (routing.busiest_s(), publishing, taking.busiest_s())
    seconds = (finished - min(one["begin"] for one in sent)) / 1e9
    return {
        "case": f"tidings, ring of {RING} routers, everyone publishes two hops on",
        "system": "tidings",
        "routers": RING,
        "events": RING * count,
        "per_s": round(RING * count / seconds),
        **per_event(used, count),
    }


def crossing(protocol: str, count: int = 10_000, wanted: int = 100) -> dict[str, Any]:
    """What crosses the link of two routers when one event in a hundred is wanted behind it."""
    from tidings.live.connect import connect

    with (
        tidings_network(2, protocol) as ((first, last), _),
        connect(first) as source,
        connect(last) as target,
    ):
        subscription = target.subscribe("topic = 't0'")
        before = source.ask("status")[0]["links"]["r1"]["bytes_out"]
        source.publish_all(events(0, count, 1, wanted))
        for _ in range(count // wanted):
            assert subscription.get(PATIENCE_S) is not None
        link = source.ask("status")[0]["links"]["r1"]
    return {
        "case": f"link, {protocol}",
        "protocol": protocol,
        "events": count,
        "wanted": count // wanted,
        "events_crossed": link["events_out"],
        "bytes_crossed": link["bytes_out"] - before,
    }


# The tables of docs/network.md


def rates(pairs: list[Pair]) -> Iterator[list[str]]:
    """Events a second, and the processor time that each kind of process takes for one."""
    names = "routers|subscriptions|Tidings, events/s|NATS, events/s|times NATS"
    yield [*names.split("|"), "router, µs", "publisher, µs", "subscriber, µs"]
    for case, ours, theirs in pairs:
        speeds = f"{ours['per_s']:,}", f"{theirs['per_s']:,}", f"{ours['times_nats']:.1f}"
        yield [str(case.routers), case.what, *speeds, *(f"{ours[name]:.1f}" for name in PROCESSOR)]


def latencies(pairs: list[Pair]) -> Iterator[list[str]]:
    """Milliseconds from the publication to the program: half of all events, and 99 in 100."""
    names = "routers|subscriptions|Tidings|NATS|Tidings at half load|NATS at half load"
    yield names.split("|")
    for case, *both in pairs:
        within = [
            f"{one[f'{when}p50_ms']:.1f}, {one[f'{when}p99_ms']:.1f}"
            for when in ("", "half_load_")
            for one in both
        ]
        yield [str(case.routers), case.what, *within]


def markdown(rows: Iterator[list[str]]) -> str:
    """Rows as a table, the first as its head."""
    head, *lines = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---:|" * (head.count("|") - 1), *lines])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.network", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line a case")
    parser.add_argument("--events", type=int, default=50_000, help="published in each case")
    parser.add_argument("--paced", type=int, default=1_000, help="events to measure latency by")
    parser.add_argument("--subscriptions", default="1,1000,100000", help="with commas between")
    parser.add_argument("--routers", default="1,3", help="with commas between")
    parser.add_argument("--plain", action="store_true", help="only chains of routers")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--options", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        from tidings.live.serving import run

        run(
            {"subscriber": subscriber, "publisher": publisher}[given.role](
                json.loads(given.options)
            )
        )
        return
    command = " ".join(["python -m benchmarks.network", *sys.argv[1:]])
    rows = []

    def show(row: dict[str, Any]) -> None:
        rows.append(row)
        if given.json:
            print(json.dumps({**row, "command": command}), flush=True)
        else:
            facts = "  ".join(f"{k} {v:,}" for k, v in row.items() if isinstance(v, int | float))
            print(f"{row['case']}: {facts}", flush=True)

    sizes = [int(one) for one in given.subscriptions.split(",")]
    cases = [Case(int(hops), size) for hops in given.routers.split(",") for size in sizes]
    if not given.plain:
        cases += [Case(1, 1_000, text=1_000), Case(1, 1_000, clients=100)]
    pairs: list[Pair] = []
    for case in cases:
        ours = measure("tidings", case, given.events, given.paced)
        theirs = measure("nats", case, given.events, given.paced)
        ours["times_nats"] = round(ours["useful_per_s"] / theirs["useful_per_s"], 2)
        show(ours)
        show(theirs)
        pairs.append((case, ours, theirs))
    if not given.plain:
        show(cross_traffic(given.events // 2))
    pruned, flooded = crossing("cbcb"), crossing("flood")
    pruned["times_fewer"] = round(flooded["bytes_crossed"] / pruned["bytes_crossed"], 1)
    show(pruned)
    show(flooded)
    if not given.json:
        print(f"\n{markdown(rates(pairs))}\n\n{markdown(latencies(pairs))}")
        print(f"\nPython {platform.python_version()}, {platform.machine()}; again with: {command}")


if __name__ == "__main__":
    main()
