"""Internet addresses in text, and blocks of them, as event-ruler reads them.

An address is a number and a size in bytes, 4 or 16. One address has several spellings: with leading
zeros, in either case, with `::` for zeros. An IPv6 address that maps an IPv4 address is that IPv4
address. Nothing here looks up host names.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_VERSION_4: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
_VERSION_6: Final = re.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_MAX_TEXT_4: Final = 15
_MAX_TEXT_6: Final = 256
_MAPPED: Final = 0xFFFF << 32


class Address(NamedTuple):
    """An address: 4 or 16 bytes, and the number that they write."""

    size: int
    value: int


class Block(NamedTuple):
    """A range of addresses of one size, from the first to the last."""

    size: int
    first: int
    last: int
    bits: int  # leading bits that all of them share

    def holds(self, text: str) -> bool:
        """Whether a text writes an address of the block."""
        address = read_address(text)
        return (
            address is not None
            and address.size == self.size
            and self.first <= address.value <= self.last
        )


def read_address(text: str) -> Address | None:
    """The address that a text writes; None if the text is not an address.

    >>> read_address("010.0.0.1") == read_address("::ffff:0a00:1")
    True
    """
    if len(text) <= _MAX_TEXT_4 and _VERSION_4.fullmatch(text):
        parts = list(map(int, text.split(".")))
        if max(parts) > 255:
            return None
        return Address(4, int.from_bytes(bytes(parts), "big"))
    if len(text) <= _MAX_TEXT_6 and _VERSION_6.fullmatch(text):
        return _read_version_6(text)
    return None


def _read_version_6(text: str) -> Address | None:
    head, gap, tail = text.partition("::")
    before = head.split(":") if head else []
    after = tail.split(":") if tail else []
    missing = 8 - len(before) - len(after)
    if "::" in tail or "" in before or "" in after or (missing < 1 if gap else missing != 0):
        return None
    groups = [int(group, 16) for group in (*before, *("0" * missing), *after)]
    if max(groups) > 0xFFFF:
        return None
    value = 0
    for group in groups:
        value = value << 16 | group
    return Address(4, value & 0xFFFFFFFF) if value >> 32 << 32 == _MAPPED else Address(16, value)


def read_block(text: str) -> Block | str:
    """The block that a text in CIDR notation writes; else what is expected instead."""
    written, slash, bits = text.partition("/")
    if not slash or "/" in bits:
        return "an address, one / and a number of bits"
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", bits):
        return "an integer after the /"
    address = read_address(written)
    if address is None:
        return "an IPv4 or IPv6 address before the /"
    count, width = int(bits), 8 * address.size
    if not 0 <= count <= width:  # all bits: one address, which event-ruler refuses
        return f"from 0 to {width} bits after the /"
    free = (1 << (width - count)) - 1
    return Block(address.size, address.value & ~free, address.value | free, count)


def single(address: Address) -> Block:
    """The block of one address."""
    return Block(address.size, address.value, address.value, 8 * address.size)
