"""Routers in a thread of their own, for tests whose code blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.live.networks import PATIENCE_S
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings


class Background:
    """An event loop in a thread, and the routers in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.routers: dict[str, Router] = {}

    def start(self, name: str, *links: str, **options: Any) -> str:
        """Start a router that is linked to others; return its URL."""
        dials = tuple(Dial("127.0.0.1", self.routers[other].port) for other in links)

        async def begin() -> Router:
            return await Router(Settings(name, links=dials, **options)).__aenter__()

        self.routers[name] = self._do(begin())
        return f"tidings://127.0.0.1:{self.routers[name].port}"

    def stop(self, name: str) -> None:
        """Stop a router."""
        self._do(self.routers.pop(name).__aexit__(None, None, None))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so, asked in the thread of the routers."""

        async def watch() -> None:
            while not condition():
                await asyncio.sleep(0.01)

        self._do(watch())

    def close(self) -> None:
        """Stop everything."""
        for name in list(self.routers):
            self.stop(name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> Any:
        waiting = asyncio.wait_for(work, PATIENCE_S)
        return asyncio.run_coroutine_threadsafe(waiting, self._loop).result()


@contextmanager
def background() -> Iterator[Background]:
    """Routers that end with the block."""
    routers = Background()
    try:
        yield routers
    finally:
        routers.close()
