"""Predicates as packets carry them: texts, and the algebra on texts, cached.

A node parses, joins and compares the same few texts over and over, so results are kept. All are
pure functions: the cache changes nothing but the time. A predicate whose normal form is too large
still matches, but never counts as covered.

What nodes tell each other is bounded by size. Past the bounds it becomes coarser: it covers what it
stood for, so a node gets events that nobody behind it wants, and never misses one. A text that
cannot be read stands for everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidings.language.coarseness import coarser
from tidings.language.errors import NormalFormError, PredicateError
from tidings.language.predicate import Predicate, parse, union
from tidings.matching.contract import Matcher

NOTHING: Final = "false"
EVERYTHING: Final = "true"
REMEMBERED: Final = 16_384  # results of each function
LONG: Final = 2_000  # characters from which on a predicate is worth compiling
SHOWN: Final = 200  # characters of a predicate in an explanation
FEW: Final = 32  # predicates, below which to join them is cheap


class Bounds(NamedTuple):
    """The size of a predicate that a node tells its neighbours, at most."""

    characters: int = 131_072
    constants: int = 8_192
    filters: int = 2_048


USUAL_BOUNDS: Final = Bounds()
PARTS: Final = 4  # times the bounds that predicates may have together before they are joined


_predicates: dict[str, Predicate] = {}


def predicate_of(text: str) -> Predicate:
    """The predicate that a text writes; as large as a neighbour's may be."""
    found = _predicates.get(text)
    return _remember(text, parse(text, max_characters=None)) if found is None else found


@lru_cache(REMEMBERED)
def readable(text: str) -> str:
    """A text from another node, or `true` if it cannot be read.

    >>> readable("severity >> 2")
    'true'
    """
    try:
        predicate_of(text)
    except PredicateError:
        return EVERYTHING
    return text


def _remember(text: str, predicate: Predicate) -> Predicate:
    if len(_predicates) >= REMEMBERED:
        _predicates.clear()
    _predicates[text] = predicate
    return predicate


def shortened(text: str) -> str:
    """A predicate for people to read, cut where it is long."""
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


_compile: Callable[[Predicate], Matcher] | None = None


def compile_with(compiler: Callable[[Predicate], Matcher]) -> None:
    """From now on, match long predicates with what this compiles them to."""
    global _compile
    _compile = compiler


def wants(text: str, event: dict[str, Any]) -> bool:
    """Whether an event matches the predicate that a text writes.

    >>> wants("severity > 2", {"severity": 3})
    True
    """
    if _compile is None or len(text) < LONG:
        return predicate_of(text).matches(event)
    return bool(_compiled(text).match(event))


@lru_cache(64)
def _compiled(text: str) -> Matcher:
    assert _compile is not None
    return _compile(predicate_of(text))


def join(texts: Iterable[str], bounds: Bounds = USUAL_BOUNDS) -> str:
    """The disjunction of predicates, reduced; `false` if there is none; coarser past the bounds.

    >>> join(["severity > 2", "severity > 5", "false"])
    'severity > 2'
    >>> join(["class = 'alert'", "class = 'alarm'"], Bounds(characters=20))
    "class prefix 'al'"
    """
    return _joined(texts, bounds)[0]


def _joined(texts: Iterable[str], bounds: Bounds) -> tuple[str, bool]:
    """The disjunction of predicates, and whether it is exact."""
    parts = set(texts)
    parts.discard(NOTHING)
    if not parts:
        return NOTHING, True
    if EVERYTHING in parts:
        return EVERYTHING, True
    return _join(tuple(sorted(parts)), bounds)


@lru_cache(REMEMBERED)
def _join(texts: tuple[str, ...], bounds: Bounds) -> tuple[str, bool]:
    parts = [predicate_of(text) for text in texts]
    exact = True
    if sum(map(len, texts)) > PARTS * bounds.characters:  # too much to compare with each other
        share = bounds.characters * PARTS // len(parts)
        small = [part if len(str(part)) <= share else coarser(part, share) for part in parts]
        exact = all(one is other for one, other in zip(parts, small, strict=True))
        parts = small
    try:
        filters = frozenset(f for part in parts for f in part.filters)
    except NormalFormError:
        whole = union(parts)
    else:
        # `union` depends on the set of filters, not on their order.
        whole = union(Predicate.of((f,)) for f in sorted(filters))
    found = coarser(whole, *bounds)
    return _written(found), exact and found is whole


def _written(predicate: Predicate) -> str:
    text = str(predicate)
    _remember(text, predicate)
    return text


@lru_cache(REMEMBERED)
def beyond(text: str, known: str) -> str:
    """The filters of a predicate that another one does not cover: what it adds to it.

    >>> beyond("a = 1 or b = 2", "b > 0")
    'a = 1'
    """
    if text in (NOTHING, known) or known == EVERYTHING:
        return NOTHING
    if known == NOTHING or text == EVERYTHING:
        return text
    try:
        there = predicate_of(known)
        filters = predicate_of(text).filters
        kept = [f for f in filters if not there.covers(Predicate.of((f,)))]
    except NormalFormError:
        return text
    return text if len(kept) == len(filters) else str(Predicate.of(kept))


def beyond_all(text: str, known: Collection[str]) -> str:
    """The filters of a predicate that none of the others covers.

    A short predicate is compared with the others one by one: to join many takes far longer, and
    would have to be done anew whenever one of them changes. If together they are too large to be
    joined exactly, a long predicate counts as not covered.
    """
    if len(text) >= LONG or len(known) < FEW:
        whole, exact = _joined(known, USUAL_BOUNDS)
        if exact:
            return beyond(text, whole)
        if len(text) >= LONG:
            return text
    for one in known:
        text = beyond(text, one)
        if text == NOTHING:
            break
    return text
