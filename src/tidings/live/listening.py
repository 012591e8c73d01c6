"""Listens: accepts connections, and lets them shake hands for TLS.

A stranger may connect and never shake hands. So the handshakes have a time limit and their number
is bounded: beyond it the newest takes the place of the oldest from the address that holds most of
them, as in the `Doorway` behind.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from tidings.live.doorway import oldest_of_most
from tidings.live.journal import journal
from tidings.live.limits import Limits
from tidings.live.sockets import Clock, Socket
from tidings.live.stream import Stream, Transport
from tidings.routing.protocol import SECOND

BACKLOG: Final = 512  # connections that the system holds until the router accepts them
PAUSE_S: Final = 0.1  # until the next attempt when the system has no room for another connection


class Listener:
    """The addresses that a router listens on."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        tls: ssl.SSLContext | None,
        made: Callable[[Transport], Stream],
        evicted: Callable[[], None],
    ) -> None:
        self.port = 0
        self._socket_of = partial(Socket, clock, limits.high_water, made)
        self._limits = limits
        self._tls = tls
        self._evicted = evicted
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._shaking: dict[asyncio.Task[None], str] = {}  # and their hosts; the oldest first

    async def start(self, host: str, port: int) -> None:
        """Listen on all addresses of a host; `OSError` if that cannot be."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                one = socket.create_server(address[:2], family=family, backlog=BACKLOG)
                one.setblocking(False)
                self._sockets.append(one)
        except OSError:
            self._close()
            raise
        self.port = self._sockets[0].getsockname()[1]
        self._accepting = [loop.create_task(self._accept(one)) for one in self._sockets]

    async def stop(self) -> None:
        """Accept nobody any more."""
        tasks = [*self._accepting, *self._shaking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close()

    def _close(self) -> None:
        for one in self._sockets:
            one.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:  # it has gone already, or there are too many
                journal("cannot accept", why=str(error))
                await asyncio.sleep(PAUSE_S)
                continue
            if len(self._shaking) >= self._limits.ungreeted:
                self._evict()
            task = loop.create_task(self._shake(connection))
            self._shaking[task] = address[0]
            task.add_done_callback(lambda done: self._shaking.pop(done, None))

    def _evict(self) -> None:
        task = oldest_of_most(self._shaking)
        del self._shaking[task]
        task.cancel()
        self._evicted()

    async def _shake(self, connection: socket.socket) -> None:
        """Make a connection of what was accepted, after a handshake if there is TLS."""
        loop = asyncio.get_running_loop()
        most_s = None if self._tls is None else self._limits.greeting / SECOND
        try:
            await loop.connect_accepted_socket(
                self._socket_of, connection, ssl=self._tls, ssl_handshake_timeout=most_s
            )
        except (OSError, TimeoutError):  # the handshake has failed
            connection.close()
