"""`WireError`, the one error that input from a peer can raise, and its codes."""

from __future__ import annotations

from typing import Final

CODES: Final = {
    "too-long": "a frame is longer than the bound",
    "empty": "a frame has no body",
    "damaged": "the checksum of a frame does not match its body",
    "malformed": "a frame does not hold a message of this conversation",
    "out-of-turn": "a message arrived when another was due",
    "version": "the other end speaks another version of the protocol",
    "protocol": "the routers do not run the same protocol with the same options",
    "denied": "the token is unknown, or does not allow this",
    "application": "the router does not have the application, or not its key",
    "full": "there is no room for another connection, or for another session of the application",
    "silent": "nothing has arrived for too long",
    "name": "another router has this name",
    "linked": "the two routers are linked already",
    "replaced": "another connection has replaced this one",
    "slow": "the receiver did not take its deliveries in time",
    "stopping": "the router stops",
    "bug": "the end that reports this has a bug; its journal has the details",
}


class WireError(Exception):
    """A mistake of the peer: a code of `CODES` and a detail. It ends the connection.

    >>> str(WireError("too-long", "5000 bytes, the bound is 4096"))
    'too-long: 5000 bytes, the bound is 4096'
    """

    def __init__(self, code: str, detail: str = "") -> None:
        if code not in CODES:
            raise ValueError(f"no such code: {code!r}")
        self.code = code
        self.detail = detail or CODES[code]
        super().__init__(f"{code}: {self.detail}")
