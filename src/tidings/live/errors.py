"""The errors of the network that a client program can meet, one family below `NetworkError`."""

from __future__ import annotations


class NetworkError(Exception):
    """The network did not do what the program asked, and why."""


class RefusedError(NetworkError):
    """The router refused a publication or a request, or the client refused to send it."""


class UnknownOutcomeError(NetworkError):
    """The router left before it acknowledged a publication; the client did not send it again."""


class TimedOutError(NetworkError, TimeoutError):
    """The network did not answer in the time that the program gave it."""


class DisconnectedError(NetworkError):
    """The client cannot go on: it was closed, or the router ended its session, and why.

    `code` is one of the codes in `docs/protocol.md`, or `closed`.
    """

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(f"{code}: {detail}")
