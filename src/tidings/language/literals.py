"""Literals: finds, among many constraints on texts, those that a given one may imply.

What begins with, ends in, contains or is a text can only follow from a constraint that itself has
this text in it. So the constraints are looked up by their texts, ignoring case, and the many that
have other texts are not compared. All others, ranges and negations among them, are always compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tidings.language import wildcard
from tidings.language.constraint import Constraint
from tidings.language.folding import fold
from tidings.language.work import Work

# The place that an operator gives its text.
_START, _END, _INSIDE, _WHOLE = "start", "end", "inside", "whole"
_PLACES: Final = {
    "prefix": _START,
    "iprefix": _START,
    "suffix": _END,
    "isuffix": _END,
    "contains": _INSIDE,
    "icontains": _INSIDE,
    "i=": _WHOLE,
}
# Texts of all kinds satisfy these, so none of the above follows from them.
_VAGUE: Final = frozenset({"exists", "!=", "i!=", "matches", "imatches"})


class Literals:
    """The positive constraints with a text by place and text, and the others."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        self.all = list(constraints)
        self.others: list[Constraint] = []
        self.by_text: dict[str, dict[str, list[Constraint]]] = {}
        for constraint in self.all:
            place = _PLACES.get(constraint.operator)
            if place is None or constraint.negated:
                self.others.append(constraint)
            else:
                texts = self.by_text.setdefault(place, {})
                texts.setdefault(fold(str(constraint.operand)), []).append(constraint)
        self.lengths = {
            place: sorted(set(map(len, texts))) for place, texts in self.by_text.items()
        }

    def candidates(self, given: Constraint, work: Work) -> list[Constraint]:
        """All constraints here that a positive one may imply, and few that it does not."""
        if given.type not in ("string", "any") or given.operator in _VAGUE:
            return self.others
        pieces = _pieces(given)
        work.spend(1 + len(str(given.operand)) // 64)
        if pieces is None:
            return self.all
        found = list(self.others)
        for place, texts in self.by_text.items():
            for key in dict.fromkeys(self._keys(place, pieces, work)):
                found.extend(texts.get(key, ()))
        return found

    def _keys(self, place: str, pieces: list[str], work: Work) -> Iterator[str]:
        """The texts of a place that the pieces have."""
        lengths = self.lengths[place]
        first, last = pieces[0], pieces[-1]
        if place == _WHOLE:
            if len(pieces) == 1:
                yield first
            return
        if place == _INSIDE:
            texts = self.by_text[place]
            long = sum(map(len, pieces))
            each = len(texts) * (1 + len(pieces) // 2 + long // 256)
            work.spend(min(each, long * len(lengths)) // 4)
            if each < long * len(lengths):
                yield from (text for text in texts if any(text in piece for piece in pieces))
            else:
                for piece in pieces:
                    for length in lengths:
                        for begin in range(len(piece) - length + 1):
                            yield piece[begin : begin + length]
            return
        work.spend(len(lengths) // 4)
        for length in lengths:
            if place == _START and length <= len(first):
                yield first[:length]
            elif place == _END and length <= len(last):
                yield last[-length:]


def _pieces(given: Constraint) -> list[str] | None:
    """The plain texts in a constraint from its start to its end, folded; None if they vary.

    The first is empty if the start may be any text, the last if the end may be.
    """
    text = fold(str(given.operand))
    match given.operator:
        case "=" | "i=":
            return [text]
        case "prefix" | "iprefix":
            return [text, ""]
        case "suffix" | "isuffix":
            return ["", text]
        case "contains" | "icontains":
            return ["", text, ""]
        case "like" | "ilike":
            return wildcard.pieces(text)
        case _:
            return None
