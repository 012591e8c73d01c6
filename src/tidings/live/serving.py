"""Runs a router as a process: its event loop, its HTTP pages, and the signals that end it."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from tidings.live.access import ConfigurationError
from tidings.live.journal import warn
from tidings.live.router import Router
from tidings.live.settings import Settings


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on uvloop where it is available, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def serve(
    settings: Settings,
    ready: Callable[[Router, int | None], None],
    read: Callable[[], Settings] | None = None,
) -> None:
    """Run a router until a signal ends it; call `ready` with it and the port of its pages.

    SIGHUP reads the settings again with `read`. A mistake in them leaves everything as it is.
    """
    _raise_limit()
    gc.set_threshold(100_000, 20, 20)  # subscriptions are many and live long, so collect rarely
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Router(settings) as router:
        loop.add_signal_handler(signal.SIGHUP, _reload, router, read)
        gateway = None
        if settings.http_port is not None:
            from tidings.live.gateway import Gateway

            gateway = Gateway(router, settings.http_host, settings.http_port)
            await gateway.start()
        ready(router, gateway.port if gateway is not None else None)
        await stop.wait()
        if gateway is not None:
            await gateway.stop()


def _raise_limit() -> None:
    """Allow as many open connections as the system lets this process have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems give a bound that they do not accept
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _reload(router: Router, read: Callable[[], Settings] | None) -> None:
    """Take other settings; a router without a configuration has nothing to read."""
    if read is None:
        warn("no settings", node=router.node, why="the router has no configuration file")
        return
    try:
        ignored = router.reconfigure(read())
    except (ConfigurationError, OSError) as error:
        warn("bad settings", node=router.node, why=str(error))
        return
    if ignored:
        warn("restart needed", node=router.node, to_change=ignored)
