"""Makes the connections to the configured neighbours, and makes them again when they break.

A greeting says which numbers of the neighbour this router holds, so that a link can go on where it
broke. But a router does not know who listens at an address until the neighbour has answered. If it
turns out to be a neighbour whose numbers this router holds, the router connects and greets once
more, with these numbers. It does not dial while the link has a connection, whichever end made it.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

from tidings.live.access import client_tls
from tidings.live.connection import Connection
from tidings.live.journal import journal
from tidings.live.settings import Dial
from tidings.wire import messages as m
from tidings.wire.errors import WireError

if TYPE_CHECKING:
    from tidings.live.router import Router

GREETING_S: Final = 5.0  # within which the greeting must arrive
REDIAL_S: Final = (0.05, 1.0)  # between attempts: doubles from the first to the second


async def keep_link(router: Router, dial: Dial) -> None:
    """Connect to a neighbour, again and again, for ever."""
    tls: ssl.SSLContext | None = client_tls(router.settings.authority) if dial.tls else None
    loop = asyncio.get_running_loop()
    delay = REDIAL_S[0]
    neighbour = ""
    while True:
        known = router.links.get(neighbour)
        if known is not None and known.connection is not None:
            await asyncio.sleep(REDIAL_S[0])
            continue
        call = Call(router, dial, neighbour)
        connection: Connection | None = None
        try:
            _, connection = await loop.create_connection(
                call.connection, dial.host, dial.port, ssl=tls
            )
            neighbour = await asyncio.wait_for(call.joined, GREETING_S)
            delay = REDIAL_S[0]
            await call.ended
        except (OSError, WireError, TimeoutError) as error:
            if connection is not None:  # it did not answer in time, or is closed already
                connection.abort()
            if delay >= REDIAL_S[1]:
                where = f"{dial.host}:{dial.port}"
                journal("no link", node=router.node, to=where, why=str(error))
            await asyncio.sleep(delay)
            delay = min(2 * delay, REDIAL_S[1])


class Call:
    """One attempt to reach a neighbour."""

    def __init__(self, router: Router, dial: Dial, neighbour: str) -> None:
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[str] = loop.create_future()  # the neighbour's name
        self.ended: asyncio.Future[None] = loop.create_future()
        self._router = router
        self._dial = dial
        self._neighbour = neighbour  # the expected name, or empty if it is not known

    def connection(self) -> Connection:
        """The connection, for the event loop."""
        return Connection("greeting", self._greeted, self._end, self._made)

    def _made(self, connection: Connection) -> None:
        router, cost = self._router, self._dial.cost
        token = router.settings.link_token
        link = router.links.get(self._neighbour)
        if link is None:
            connection.send(m.Join(m.VERSION, router.node, router.life, token, cost, 0, 0))
        else:
            connection.send(link.greeting(m.VERSION, router.node, router.life, token, cost))

    def _greeted(self, connection: Connection, message: Any) -> None:
        if type(message) is m.Failed:
            if message.code == "linked":  # the detail is the neighbour's name
                self._tell(message.detail)
                connection.close()
                return
            raise WireError("denied" if message.code == "denied" else "stopping", message.detail)
        if type(message) is not m.Join:
            raise WireError("out-of-turn", f"a {type(message).__name__} for a greeting")
        if message.version != m.VERSION:
            raise WireError("version", f"{message.version}, here it is {m.VERSION}")
        link = self._router.link_to(message.node)
        if self._neighbour != message.node and link.life:
            self._tell(message.node)
            connection.close()
            return
        link.cost = max(link.cost, self._dial.cost)
        self._router.join(connection, link, message, dialled=True)
        self._tell(message.node)

    def _tell(self, neighbour: str) -> None:
        if not self.joined.done():
            self.joined.set_result(neighbour)

    def _end(self, connection: Connection, error: Exception | None) -> None:
        self._router.ended(connection, error)
        if not self.joined.done():
            self.joined.set_exception(error or ConnectionError("the connection was closed"))
            self.joined.exception()  # retrieved, so that asyncio does not complain
        if not self.ended.done():
            self.ended.set_result(None)
