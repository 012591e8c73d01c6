"""Predicates as packets carry them: texts, and the algebra on texts, cached.

A node parses, joins and compares the same few texts over and over, so results are kept. All are
pure functions: the cache changes nothing but the time. A predicate whose normal form is too large
still matches, but never counts as covered.

What nodes tell each other is bounded by size. Past the bounds it becomes coarser: it covers what it
stood for, so a node gets events that nobody behind it wants, and never misses one. A text that
cannot be read stands for everything.

What a node does about one cause is bounded by steps, too (`Effort`). Past them it neither reduces
nor compares any more, and what it tells is longer or coarser than it needs to be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidings.language import expression as ex
from tidings.language.coarseness import coarser
from tidings.language.errors import NormalFormError, PredicateError
from tidings.language.filter import Filter
from tidings.language.predicate import Predicate, parse, union
from tidings.language.work import measured
from tidings.matching.contract import Matcher

NOTHING: Final = "false"
EVERYTHING: Final = "true"
REMEMBERED: Final = 16_384  # results of each function
LONG: Final = 2_000  # characters from which on a predicate is worth compiling
SHOWN: Final = 200  # characters of a predicate in an explanation
FEW: Final = 32  # predicates, below which to join them is cheap
STEPS: Final = 200_000  # of the algebra for one cause, beyond which a node begins nothing more


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
    return _joined(_parts(texts), bounds).text


class _Joined(NamedTuple):
    """The disjunction of predicates, whether it is exact, and the steps that it took."""

    text: str
    exact: bool = True
    steps: int = 0


def _parts(texts: Iterable[str]) -> tuple[str, ...]:
    """The predicates of a disjunction, each once."""
    parts = set(texts)
    parts.discard(NOTHING)
    return (EVERYTHING,) if EVERYTHING in parts else tuple(sorted(parts))


def _joined(parts: tuple[str, ...], bounds: Bounds) -> _Joined:
    if not parts:
        return _Joined(NOTHING)
    return _Joined(EVERYTHING) if EVERYTHING in parts else _join(parts, bounds)


@lru_cache(REMEMBERED)
def _join(texts: tuple[str, ...], bounds: Bounds) -> _Joined:
    parts = [predicate_of(text) for text in texts]
    exact = True
    _filters(parts)  # what these take counts for the predicates, not for the join
    with measured() as steps:
        if sum(map(len, texts)) > PARTS * bounds.characters:  # too much to compare with each other
            share = bounds.characters * PARTS // len(parts)
            small = [part if len(str(part)) <= share else coarser(part, share) for part in parts]
            exact = all(one is other for one, other in zip(parts, small, strict=True))
            parts = small
        filters = _filters(parts)
        # `union` depends on the set of filters, not on their order.
        whole = union(parts if filters is None else (Predicate.of((f,)) for f in sorted(filters)))
        found = coarser(whole, *bounds)
        return _Joined(written(found), exact and found is whole, steps())


def _filters(parts: Iterable[Predicate]) -> frozenset[Filter] | None:
    """The filters of all predicates; None if one has no normal form."""
    try:
        return frozenset(f for part in parts for f in part.filters)
    except NormalFormError:
        return None


def written(predicate: Predicate) -> str:
    """The text of a predicate; `predicate_of` the text is then this one, with its normal form."""
    text = str(predicate)
    _remember(text, predicate)
    return text


def _listed(parts: tuple[str, ...], bounds: Bounds) -> str:
    """The disjunction of predicates as they are written, which takes no step of the algebra."""
    if len(parts) == 1 and len(parts[0]) <= bounds.characters:
        return parts[0]
    if sum(len(part) + len(" or ()") for part in parts) > bounds.characters:
        return EVERYTHING
    return written(Predicate(ex.disjoin(predicate_of(part).expression for part in parts)))


def beyond(text: str, known: str) -> str:
    """The filters of a predicate that another one does not cover: what it adds to it.

    >>> beyond("a = 1 or b = 2", "b > 0")
    'a = 1'
    """
    return _compared(text, known)[0]


def _compared(text: str, known: str) -> tuple[str, int]:
    """What a predicate adds to another, and the steps to find that."""
    if text in (NOTHING, known) or known == EVERYTHING:
        return NOTHING, 0
    if known == NOTHING or text == EVERYTHING:
        return text, 0
    return _compare(text, known)


@lru_cache(REMEMBERED)
def _compare(text: str, known: str) -> tuple[str, int]:
    there = predicate_of(known)
    try:
        filters = predicate_of(text).filters
        there.filters  # noqa: B018  # they count for the predicate, not for this
    except NormalFormError:
        return text, 0
    with measured() as steps:
        kept = there.uncovered(filters)
        found = text if len(kept) == len(filters) else str(Predicate.of(kept))
        return found, steps()


class Effort:
    """The algebra of a node, and the steps that are left for the present cause.

    A result that is kept costs as many steps as it took to find, so a node answers alike whatever
    else its process has done. Once no step is left, predicates are joined as they are written, and
    `true` if that is too long; and none counts as covered by another.

    >>> effort = Effort()
    >>> effort.join(["severity > 2", "severity > 5"]), effort.beyond("severity > 2", "severity > 1")
    ('severity > 2', 'false')
    >>> effort.left = 0
    >>> effort.join(["severity > 2", "severity > 5"]), effort.beyond("severity > 2", "severity > 1")
    ('severity > 2 or severity > 5', 'severity > 2')
    """

    __slots__ = ("bounds", "left")

    def __init__(self, bounds: Bounds = USUAL_BOUNDS) -> None:
        self.bounds = bounds
        self.left = STEPS

    def begin(self) -> None:
        """There is another cause."""
        self.left = STEPS

    def join(self, texts: Iterable[str]) -> str:
        """The disjunction of predicates, within the bounds."""
        parts = _parts(texts)
        if self.left <= 0 and parts:
            return _listed(parts, self.bounds)
        return self._pay(_joined(parts, self.bounds)).text

    def _pay(self, joined: _Joined) -> _Joined:
        self.left -= joined.steps
        return joined

    def beyond(self, text: str, known: str) -> str:
        """The filters of a predicate that another one does not cover: what it adds to it."""
        if self.left <= 0:
            return NOTHING if text in (NOTHING, known) or known == EVERYTHING else text
        found, steps = _compared(text, known)
        self.left -= steps
        return found

    def beyond_all(self, text: str, known: Collection[str]) -> str:
        """The filters of a predicate that none of the others covers.

        A short predicate is compared with the others one by one: to join many takes far longer, and
        would have to be done anew whenever one of them changes. If together they are too large to
        be joined exactly, a long predicate counts as not covered.
        """
        if self.left > 0 and (len(text) >= LONG or len(known) < FEW):
            whole, exact, _ = self._pay(_joined(_parts(known), USUAL_BOUNDS))
            if exact:
                return self.beyond(text, whole)
            if len(text) >= LONG:
                return text
        for one in known:
            text = self.beyond(text, one)
            if text == NOTHING:
                break
        return text
