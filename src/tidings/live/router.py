"""A live router: a `RouterCore` on sockets."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tidings.live.access import client_tls, server_tls
from tidings.live.journal import journal
from tidings.live.limits import LIMITS, Limits
from tidings.live.listening import Listener
from tidings.live.recorder import Recorder
from tidings.live.router_core import RouterCore
from tidings.live.settings import Dial, Settings
from tidings.live.sharing import check_change
from tidings.live.sockets import Clock, Socket
from tidings.live.store import Store

CONNECT_S: Final = 5.0  # within which a connection to a neighbour must stand


class Router:
    """A node on real sockets.

    `async with Router(Settings("a")) as router:` runs one, which listens on `router.port`.
    """

    def __init__(
        self, settings: Settings, store: Store | None = None, limits: Limits = LIMITS
    ) -> None:
        self.settings = settings
        self.node = settings.node
        self.port = 0
        self._store = store
        self._limits = limits
        self._core: RouterCore | None = None
        self._clock: Clock | None = None
        self._listener: Listener | None = None
        self._tls: ssl.SSLContext | None = None
        self._client_tls: ssl.SSLContext | None = None
        self._recorder: Recorder | None = None
        self._dialling: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen, and connect to the neighbours."""
        settings, limits = self.settings, self._limits
        if settings.certificate is not None and settings.key is not None:
            self._tls = server_tls(settings.certificate, settings.key)
        if any(dial.tls for dial in settings.links):
            self._client_tls = client_tls(settings.authority)
        clock = self._clock = Clock()
        core = self._core = RouterCore(
            settings, self, clock.timers, secrets.randbits, limits, self._store
        )
        self._listener = Listener(clock, limits, self._tls, core.accepted, core.doorway.evicted)
        await self._listener.start(settings.host, settings.port)
        self.port = self._listener.port
        if settings.record is not None:
            self._recorder = Recorder(
                settings.record,
                self.node,
                core.life,
                settings.chosen,
                settings.timing,
                {name: one.layering for name, one in settings.applications.items()},
            )
        with clock:
            core.start(self._recorder)
        journal("listening", node=self.node, host=settings.host, port=self.port)

    async def stop(self) -> None:
        """Tell everyone that this router stops, and close everything."""
        if self._listener is not None:
            await self._listener.stop()
        for task in self._dialling:
            task.cancel()
        if self._core is not None and self._clock is not None:
            with self._clock:
                self._core.stop()
            await asyncio.sleep(0)
            self._clock.stop()
        if self._recorder is not None:
            self._recorder.close()
        journal("stopped", node=self.node)

    async def __aenter__(self) -> Router:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    @property
    def core(self) -> RouterCore:
        """The router itself, once it has started."""
        if self._core is None:
            raise RuntimeError("the router has not started")
        return self._core

    def status(self) -> dict[str, Any]:
        """The state and the counters of the router, as JSON."""
        return self.core.status()

    def reconfigure(self, settings: Settings) -> list[str]:
        """Take other tokens, certificates and links from settings, without losing a session.

        Returns the names of the other settings that differ: they need a restart.
        """
        check_change(self.settings.applications, settings.applications)
        if self._tls is not None and settings.certificate is not None and settings.key is not None:
            server_tls(settings.certificate, settings.key)  # raises before anything changes
            self._tls.load_cert_chain(settings.certificate, settings.key)
        if any(dial.tls for dial in settings.links):
            self._client_tls = client_tls(settings.authority)
        fixed = ("node", "host", "port", "protocol", "options", "http_host", "http_port", "record")
        differ = [name for name in fixed if getattr(settings, name) != getattr(self.settings, name)]
        is_other = settings.applications.keys() != self.settings.applications.keys()
        if is_other and self._core is not None and not self._core.row.shares:
            differ.append("applications")
        if self._clock is not None:
            with self._clock:
                self.core.reconfigure(settings)
        self.settings = settings
        return differ

    # What the core asks of its host

    def dial(self, dial: Dial) -> None:
        """Try to connect to a neighbour."""
        task = asyncio.get_running_loop().create_task(self._dial(dial))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _dial(self, dial: Dial) -> None:
        clock = self._clock
        assert clock is not None
        made = partial(Socket, clock, self._limits.high_water, partial(self.core.dialled, dial))
        loop = asyncio.get_running_loop()
        try:
            await asyncio.wait_for(
                loop.create_connection(
                    made, dial.host, dial.port, ssl=self._client_tls if dial.tls else None
                ),
                CONNECT_S,
            )
        except (OSError, TimeoutError, UnicodeError) as error:  # the last: no name of a host
            with clock:
                self.core.undialled(dial, str(error) or "no answer")

    def work(self, function: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run a function in a thread."""
        assert self._clock is not None
        self._clock.work(function, then)
