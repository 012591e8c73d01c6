"""Keys on a circle, arcs between them, and digits: the arithmetic of structured overlays.

A key is a whole number of `bits` bits; behind the largest comes 0 again. An arc goes clockwise from
one key to another. Where both are equal, an arc is the whole circle: an empty one has no name here,
and whoever could have one asks before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidings.overlay.ring import BITS, identifier

DIGIT_BITS: Final = 4  # of the digits by which Pastry compares keys


class Circle(NamedTuple):
    """The keys of a structured overlay: tests use few bits, so that nodes lie close together."""

    bits: int = BITS

    @property
    def size(self) -> int:
        return 1 << self.bits

    def key(self, name: str) -> int:
        """The key of a name."""
        return identifier(name) >> (BITS - self.bits)

    def distance(self, start: int, end: int) -> int:
        """How far it is clockwise.

        >>> Circle(4).distance(14, 3)
        5
        """
        return (end - start) % (1 << self.bits)

    def length(self, start: int, end: int) -> int:
        """The length of an arc: the whole circle if it ends where it starts.

        >>> Circle(4).length(14, 3), Circle(4).length(3, 3)
        (5, 16)
        """
        return (end - start - 1) % (1 << self.bits) + 1

    def inside(self, start: int, key: int, end: int) -> bool:
        """Whether a key lies on an arc behind its start and before its end.

        >>> circle = Circle(4)
        >>> circle.inside(14, 0, 3), circle.inside(14, 3, 3), circle.inside(3, 14, 3)
        (True, False, True)
        """
        return 0 < self.distance(start, key) < self.length(start, end)

    def reaches(self, start: int, key: int, end: int) -> bool:
        """Whether a key lies on an arc behind its start, its end included.

        >>> circle = Circle(4)
        >>> circle.reaches(14, 3, 3), circle.reaches(14, 14, 3), circle.reaches(3, 3, 3)
        (True, False, True)
        """
        return self.length(start, key) <= self.length(start, end)

    def near(self, one: int, other: int) -> int:
        """How far two keys are from each other, in the shorter direction."""
        return min(self.distance(one, other), self.distance(other, one))

    @property
    def digits(self) -> int:
        """How many digits a key has."""
        return -(-self.bits // DIGIT_BITS)

    def digit(self, key: int, place: int) -> int:
        """A digit of a key, the first being at place 0.

        >>> Circle(8).digit(0x3A, 0), Circle(8).digit(0x3A, 1)
        (3, 10)
        """
        return key >> DIGIT_BITS * (self.digits - 1 - place) & ((1 << DIGIT_BITS) - 1)

    def shared(self, one: int, other: int) -> int:
        """How many digits two keys share from the first on.

        >>> Circle(16).shared(0x3A4F, 0x3A9F)
        2
        """
        differ = one ^ other
        return self.digits - -(-differ.bit_length() // DIGIT_BITS)

    def cell(self, key: int, count: int) -> tuple[int, int]:
        """The keys that share so many digits with a key: the first, and the first beyond.

        >>> [f"{end:x}" for end in Circle(16).cell(0x3A4F, 2)]
        ['3a00', '3b00']
        """
        places = DIGIT_BITS * (self.digits - count)
        low = key >> places << places
        return low, min(low + (1 << places), self.size)

    def mark(self, key: int, place: int, digit: int) -> int:
        """A key with one digit replaced.

        >>> f"{Circle(16).mark(0x3A4F, 1, 7):x}"
        '374f'
        """
        places = DIGIT_BITS * (self.digits - 1 - place)
        return key ^ (self.digit(key, place) ^ digit) << places

    def rank(self, key: int, other: int) -> tuple[int, int]:
        """How far another key is from a key, so that no two keys are equally far.

        >>> Circle(4).rank(3, 5) < Circle(4).rank(3, 1) < Circle(4).rank(3, 6)
        True
        """
        return self.near(key, other), self.distance(key, other)
