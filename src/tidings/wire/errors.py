"""The one error that bytes from a stranger can cause."""

from __future__ import annotations

from typing import Final

CODES: Final = {
    "too-long": "a frame is longer than it may be",
    "empty": "a frame holds nothing",
    "damaged": "the checksum of a frame is not that of its bytes",
    "malformed": "a frame holds no message that may come here",
    "out-of-turn": "a message came when another was due",
    "version": "the other end speaks another version",
    "denied": "the token is not known, or does not allow this",
    "full": "there is no room for another connection",
    "silent": "nothing has come for too long",
    "linked": "there is a link between the two routers already",
    "replaced": "another connection has taken the place of this one",
    "slow": "deliveries were not taken in time",
    "stopping": "the router stops",
    "bug": "this end failed at what came; its journal tells more",
}


class WireError(Exception):
    """The peer's mistake: a code out of `CODES`, and what was found. The connection ends with it.

    >>> str(WireError("too-long", "5000 bytes, the bound is 4096"))
    'too-long: 5000 bytes, the bound is 4096'
    """

    def __init__(self, code: str, detail: str = "") -> None:
        if code not in CODES:
            raise ValueError(f"no such code: {code!r}")
        self.code = code
        self.detail = detail or CODES[code]
        super().__init__(f"{code}: {self.detail}")
