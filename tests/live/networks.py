"""Networks of router processes that tests start, cut, kill, restart and query.

Links between routers lead through proxies in the test's own event loop, which can be cut.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from random import SystemRandom
from typing import Any

from tidings.live.client import Client
from tidings.live.connect import Connector, connect

PATIENCE_S = 60.0  # within which everything that must happen happens, even on a slow machine


# Below the ports that systems give to outgoing connections: one of those could take the port of a
# stopped router.
PORTS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on."""
    free: list[int] = []
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == count:
            return free
    raise AssertionError(f"there are no {count} free ports")


class Proxy:
    """A link that passes bytes through while it is not cut."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.cut = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.break_now()

    def break_now(self) -> None:
        """Break the present connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    def set_cut(self, cut: bool) -> None:
        self.cut = cut
        if cut:
            self.break_now()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cut:
            writer.transport.abort()
            return
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, forth}
        with suppress(Exception):
            await asyncio.gather(self._copy(reader, forth), self._copy(back, writer))
        for one in (writer, forth):
            self._writers.discard(one)
            one.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.transport.abort()


class RouterNetwork:
    """Routers `a`, `b`, … as processes, and links between them."""

    def __init__(self, nodes: int, links: Iterable[tuple[int, int]], **options: str) -> None:
        self.names = [chr(ord("a") + node) for node in range(nodes)]
        self.links: dict[tuple[str, str], Proxy] = {}
        self.options = options
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        pairs = [(self.names[one], self.names[other]) for one, other in links]
        ports = free_ports(nodes + len(pairs))
        self.ports = dict(zip(self.names, ports[:nodes], strict=True))
        for (one, other), port in zip(pairs, ports[nodes:], strict=True):
            self.links[one, other] = Proxy(port, self.ports[other])

    async def __aenter__(self) -> RouterNetwork:
        for proxy in self.links.values():
            await proxy.start()
        await asyncio.gather(*map(self.start, self.names))
        return self

    async def __aexit__(self, *error: object) -> None:
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.wait() for process in self.processes.values()))
        for proxy in self.links.values():
            await proxy.stop()

    async def start(self, name: str) -> None:
        """Start a router, and wait until it listens."""
        command = ["serve", "--listen", f"127.0.0.1:{self.ports[name]}", "--name", name]
        for (one, _), proxy in self.links.items():
            if one == name:
                command += ["--link", f"127.0.0.1:{proxy.port}"]
        for option, value in self.options.items():
            command += [f"--{option}", value.format(name=name)]
        code = "import sys; from tidings.cli.main import main; sys.exit(main())"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, *command, stdout=asyncio.subprocess.PIPE
        )
        self.processes[name] = process
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        assert line, f"{name} does not start on port {self.ports[name]}"
        assert json.loads(line)["node"] == name

    async def kill(self, name: str) -> None:
        """Kill a router at once."""
        process = self.processes.pop(name)
        process.kill()
        await process.wait()

    async def terminate(self, name: str) -> int:
        """Ask a router to stop; return its exit code."""
        process = self.processes.pop(name)
        process.terminate()
        return await asyncio.wait_for(process.wait(), PATIENCE_S)

    def connect(self, name: str, **options: Any) -> Connector:
        """A client of a router."""
        return connect(f"tidings://127.0.0.1:{self.ports[name]}", **options)

    def expected_links(self) -> dict[str, set[str]]:
        """The links that must be up: those that are not cut, between running routers."""
        up: dict[str, set[str]] = {name: set() for name in self.processes}
        for (one, other), proxy in self.links.items():
            if not proxy.cut and one in up and other in up:
                up[one].add(other)
                up[other].add(one)
        return up

    def is_connected(self, without_links: set[tuple[str, str]], without: set[str]) -> bool:
        """Whether all other routers reach each other when these links and routers are gone."""
        names = set(self.names) - without
        pairs = {p for p in self.links if p not in without_links and names.issuperset(p)}
        reached = {min(names)}
        while more := {n for pair in pairs if reached & set(pair) for n in pair} - reached:
            reached |= more
        return reached == names

    async def settled(self, net: Client) -> None:
        """Wait until every router knows the current links and interests."""
        expected = self.expected_links()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        seen: Any = None
        while loop.time() < deadline:
            found = {one["node"]: one for one in await net.ask("status") if not one.get("silent")}
            up = {
                name: {link for link, state in one["links"].items() if state["up"]}
                for name, one in found.items()
            }
            topologies = {one["topology"] for one in found.values()}
            seen = up, topologies, {name: one["settled"] for name, one in found.items()}
            settled = all(one["settled"] for one in found.values())
            if settled and up == expected and len(topologies) == 1:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"not settled: expected {expected}, seen {seen}")

    async def story(self, net: Client) -> dict[str, Any]:
        """The routers' counters of losses, for the message of a failed test."""
        found = await net.ask("status")
        kept = ("late", "links_lost", "malformed", "published")
        return {
            one["node"]: {
                **{name: one["counts"][name] for name in kept},
                "drops": one["drops"],
                "resent": {name: link["resent"] for name, link in one["links"].items()},
            }
            for one in found
            if not one.get("silent")
        }


def environment_note() -> str:
    """The machine, for the message of a failed test."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
