"""Serves `/metrics` for Prometheus, and `/status` and `/health` as JSON, over HTTP.

The pages only read, and only on this machine. Each request computes the metrics from the router's
own counters.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from tidings.live.router import Router

COUNTERS = {
    "published": "Events that clients published here.",
    "refused": "Events that the router refused.",
    "delivered": "Deliveries to clients.",
    "late": "Events dropped because a later one overtook them while routes changed.",
    "dropped_packets": "Packets that the protocol dropped.",
    "replies_dropped": "Replies that their publisher did not read in time.",
    "denied": "Connections with a wrong token.",
    "twins": "Connections ended because two routers have one name.",
    "evicted": "Connections ended before their greeting, to make room.",
    "malformed": "Connections ended because of malformed input.",
    "sessions": "Sessions opened.",
    "sessions_resumed": "Sessions that a client resumed.",
    "links_lost": "Links that went down.",
}
LINK_COUNTERS = {
    "events_in": "Events received over a link.",
    "events_out": "Events sent over a link.",
    "bytes_in": "Bytes received over a link.",
    "bytes_out": "Bytes sent over a link.",
    "resent": "Packets sent again after a connection broke.",
}
APPLICATION_COUNTERS = {
    "published": "Events that clients of an application published here.",
    "visits": "Events that came past to be matched here.",
    "matched": "Matches found here.",
    "delivered": "Deliveries to clients of an application.",
    "dropped": "Packets of an application that the protocol dropped.",
    "held": "Times that a publisher had to wait for room.",
    "bytes": "Bytes sent to other routers for an application.",
}
GAUGES = {
    "sessions": "Sessions that are open.",
    "connected": "Clients that are connected.",
    "subscriptions": "Subscriptions of clients here.",
    "announcements": "Predicates announced to the network.",
    "waiting": "Deliveries that clients have not taken yet.",
    "waiting_bytes": "Bytes that sessions hold for their clients.",
    "dropped": "Deliveries dropped in open sessions, by policy drop.",
}
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class RouterCollector(Collector):
    """A router's counts as metrics."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def collect(self) -> Iterator[Metric]:
        """The current metrics."""
        status = self._router.status()
        for name, help in COUNTERS.items():
            yield CounterMetricFamily(f"tidings_{name}", help, value=status["counts"][name])
        for name, help in GAUGES.items():
            yield GaugeMetricFamily(f"tidings_{name}_now", help, value=status[name])
        yield GaugeMetricFamily(
            "tidings_settled", "Whether routes are up to date.", status["settled"]
        )
        figures = GaugeMetricFamily(
            "tidings_protocol_now", "What the protocol counts of itself.", labels=["what"]
        )
        for what, count in status["figures"].items():
            figures.add_metric([what], count)
        yield figures
        drops = CounterMetricFamily("tidings_drops", "Packets dropped, by reason.", labels=["why"])
        for why, count in status["drops"].items():
            drops.add_metric([why], count)
        yield drops
        for name, help in LINK_COUNTERS.items():
            counter = CounterMetricFamily(f"tidings_link_{name}", help, labels=["neighbour"])
            for neighbour, link in status["links"].items():
                counter.add_metric([neighbour], link[name])
            yield counter
        for name, help in APPLICATION_COUNTERS.items():
            metric = f"tidings_application_{name}"
            counter = CounterMetricFamily(metric, help, labels=["application"])
            for application, figures in status["applications"].items():
                counter.add_metric([application], figures[name])
            yield counter
        up = GaugeMetricFamily("tidings_link_up", "Whether a link is up.", labels=["neighbour"])
        for neighbour, link in status["links"].items():
            up.add_metric([neighbour], float(link["up"]))
        yield up


def application(router: Router) -> Starlette:
    """The three pages."""
    registry = CollectorRegistry()
    registry.register(RouterCollector(router))

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST, headers=HEADERS)

    async def status(request: Request) -> Response:
        return _json(router.status())

    async def health(request: Request) -> Response:
        why = router.core.troubles()
        content = {"node": router.node, "healthy": not why, "why": why}
        return _json(content, 200 if not why else 503)

    pages = {"/metrics": metrics, "/status": status, "/health": health}
    return Starlette(routes=[Route(path, page) for path, page in pages.items()])


def _json(content: dict[str, Any], code: int = 200) -> Response:
    return Response(json.dumps(content), code, HEADERS, "application/json")


class _Server(uvicorn.Server):
    """A server that leaves signals to the process that runs the router."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Gateway:
    """The pages of a router, served in its event loop; raises `OSError` if it cannot listen."""

    def __init__(self, router: Router, host: str, port: int) -> None:
        self._socket = socket.create_server((host, port))
        config = uvicorn.Config(
            application(router),
            lifespan="off",
            log_level="error",
            access_log=False,
            limit_concurrency=64,
            timeout_keep_alive=5,
            server_header=False,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen."""
        serving = self._server.serve(sockets=[self._socket])
        self._task = asyncio.get_running_loop().create_task(serving)
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Close."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
