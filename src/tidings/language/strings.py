"""Decides whether some text in an interval fits given patterns and none of others.

A pattern of characters, `_` and `%` is a small automaton whose set of states fits one integer. All
patterns run in parallel over one imagined text, and a breadth-first search visits the combinations
of states that they can reach. It needs only one character of each class that the patterns
distinguish. It is exact up to a bound on its steps: several `contains` multiply the states.

Regular expressions are opaque: a text that was found is tried on them, but nothing is concluded
from them except that an expression equals itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from tidings.language.constraint import Constraint, Test, value_test
from tidings.language.folding import fold, orbit
from tidings.language.wildcard import MANY, ONE, Token, tokens
from tidings.language.work import THOROUGH, OutOfSteps, Work

MAX_SEARCH: Final = 20_000  # steps: characters tried, times patterns
_MAX_PIECES: Final = 64  # intervals, or members of `iin`, examined one by one
_STRANGERS: Final = ("\ue000", "\x01", "\U0010fffe")  # characters that patterns hardly contain

_LITERAL: Final = ("prefix", "contains", "suffix", "=")  # the text contains the operand itself
_OPAQUE: Final = ("matches", "imatches")
_COMPILED: Final = 2_000  # steps for a regular expression

Span = tuple[str, str | None]  # [low, high); None means no upper end
_Pattern = tuple[list[Token], bool]


def no_text(
    spans: Sequence[Span],
    fits: Sequence[Constraint],
    fails: Sequence[Constraint],
    work: Work = THOROUGH,
) -> bool:
    """Whether surely no text in the spans satisfies all of `fits` and none of `fails`.

    The constraints are those with a pattern: suffix, contains, like, matches, and all that ignore
    case. The spans ascend and are not empty. Unless the work is thorough it does not search and
    reports only what is evident.
    """
    required, forbidden = _without_differences(fits, fails)
    long = sum(map(_length, (*required, *forbidden))) // 64
    work.spend(len(spans) // 8 + (1 + long + len(required)) * (1 + len(forbidden)))
    if _evident(spans, required, forbidden):
        return True
    if not work.thorough:
        return False
    # The bound is this question's own, so the answer does not depend on what was asked before.
    search = Work(MAX_SEARCH, within=True)
    try:
        return _nothing_found(spans, required, forbidden, search)
    except OutOfSteps:
        return False
    finally:
        work.spend(MAX_SEARCH - max(int(search.left), 0))


def _nothing_found(
    spans: Sequence[Span],
    required: Sequence[Constraint],
    forbidden: Sequence[Constraint],
    search: Work,
) -> bool:
    """Whether a complete search finds no text."""
    search.spend(sum(map(_length, (*required, *forbidden))) + len(spans))
    accept = list(map(_text_test, required))
    refuse = list(map(_text_test, forbidden))
    if all(high == low + "\0" for low, high in spans):
        return not any(_passes(low, accept, refuse, search) for low, _ in spans)
    if any(_passes(text, accept, refuse, search) for text in _guesses(spans, required, search)):
        return False
    choices: list[list[_Pattern]] = [[]]
    for constraint in required:
        if constraint.operator not in _OPAQUE:
            alternatives = _patterns(constraint)
            if len(choices) * len(alternatives) > _MAX_PIECES:
                return False
            choices = [[*choice, pattern] for choice in choices for pattern in alternatives]
    refused = [p for c in forbidden if c.operator not in _OPAQUE for p in _patterns(c)]
    if len(spans) > _MAX_PIECES:
        spans = [(spans[0][0], spans[-1][1])]  # wider, so an empty answer stays certain
    return all(_search(span, choice, refused, search) for span in spans for choice in choices)


def _length(constraint: Constraint) -> int:
    """About how many steps it takes to make a pattern ready."""
    operand = constraint.operand
    if constraint.operator in _OPAQUE:
        return _COMPILED
    texts = operand if isinstance(operand, tuple) else (operand,)
    return 4 * len(texts) + sum(map(len, map(str, texts)))


def _text_test(constraint: Constraint) -> Test:
    """The test on one text, without a compiled expression where one is not needed."""
    if constraint.operator not in ("like", "ilike"):
        return value_test(constraint)
    ((pattern, ignore_case),) = _patterns(constraint)
    return _Automaton(pattern, ignore_case).accepts


def _without_differences(
    fits: Sequence[Constraint], fails: Sequence[Constraint]
) -> tuple[list[Constraint], list[Constraint]]:
    """Rewrite `i!=`: a text fits `i!=` exactly if it fails `i=`."""
    required = [c for c in fits if c.operator != "i!="]
    forbidden = [c for c in fails if c.operator != "i!="]
    required += [c._replace(operator="i=") for c in fails if c.operator == "i!="]
    forbidden += [c._replace(operator="i=") for c in fits if c.operator == "i!="]
    return required, forbidden


def _evident(
    spans: Sequence[Span], required: Sequence[Constraint], forbidden: Sequence[Constraint]
) -> bool:
    """Whether the spans, or one required constraint alone, lie within a forbidden constraint."""
    start = _common_start(spans[0][0], spans[-1][1])
    for no in forbidden:
        if any(yes.operator == no.operator and yes.operand == no.operand for yes in required):
            return True
        ignoring = no.operator[0] == "i"
        plain = no.operator[1:] if ignoring else no.operator
        if plain not in ("prefix", "contains", "suffix"):
            continue
        wanted = fold(str(no.operand)) if ignoring else str(no.operand)
        here = fold(start) if ignoring else start
        if wanted in here if plain == "contains" else plain == "prefix" and here.startswith(wanted):
            return True
        for yes in required:
            if yes.operator[0] == "i" and not ignoring:
                continue
            text = fold(str(yes.operand)) if ignoring else str(yes.operand)
            kind = yes.operator[1:] if yes.operator[0] == "i" else yes.operator
            if (
                (plain == "contains" and kind in _LITERAL and wanted in text)
                or (plain == "prefix" and kind in ("prefix", "=") and text.startswith(wanted))
                or (plain == "suffix" and kind in ("suffix", "=") and text.endswith(wanted))
            ):  # fmt: skip
                return True
    return False


def _common_start(low: str, high: str | None) -> str:
    """The common beginning of all texts from low to below high."""
    if high is None:
        return ""
    shared = 0
    while shared < min(len(low), len(high)) and low[shared] == high[shared]:
        shared += 1
    # One more if high is exactly the end of a prefix's interval: prefix 'ab' is ['ab', 'ac').
    if shared + 1 == len(high) and shared < len(low) and ord(high[shared]) == ord(low[shared]) + 1:
        shared += 1
    return low[:shared]


def _passes(text: str, accept: Sequence[Test], refuse: Sequence[Test], search: Work) -> bool:
    search.spend((len(accept) + len(refuse)) * (1 + len(text) // 8))
    return all(test(text) for test in accept) and not any(test(text) for test in refuse)


def _patterns(constraint: Constraint) -> list[_Pattern]:
    """A constraint as patterns, one of which a text must fit; each with whether it ignores case."""
    operand = constraint.operand
    match constraint.operator:
        case "suffix":
            parts = [[MANY, *str(operand)]]
        case "contains":
            parts = [[MANY, *str(operand), MANY]]
        case "like":
            parts = [tokens(str(operand))]
        case "i=":
            parts = [[*fold(str(operand))]]
        case "iin":
            assert isinstance(operand, tuple)
            parts = [[*fold(str(member))] for member in operand]
        case "iprefix":
            parts = [[*fold(str(operand)), MANY]]
        case "isuffix":
            parts = [[MANY, *fold(str(operand))]]
        case "icontains":
            parts = [[MANY, *fold(str(operand)), MANY]]
        case "ilike":
            parts = [tokens(fold(str(operand)))]
        case operator:
            raise AssertionError(f"{operator!r} is not a pattern")
    return [(pattern, constraint.operator[0] == "i") for pattern in parts]


def _guesses(spans: Sequence[Span], required: Sequence[Constraint], search: Work) -> Iterator[str]:
    """A few texts that are likely to fit; in most cases one does, and no search is needed."""
    guesses = search.left // 2
    patterns = [_patterns(c)[0][0] for c in required if c.operator not in _OPAQUE]
    for stranger in _STRANGERS:
        whole = ""
        for pattern in patterns:
            short = "".join(stranger if p == ONE else "" if p == MANY else str(p) for p in pattern)
            long = "".join(stranger if p in (ONE, MANY) else str(p) for p in pattern)
            whole += long
            if search.left < guesses:
                return  # the other half is for the search
            yield from (text for text in (short, long, long.upper()) if _within(text, spans))
        for low, high in (*spans[:2], *spans[-1:]):
            text = low + stranger + whole
            if high is None or text < high:
                yield text
    for low, _ in spans[:8]:
        yield low


def _within(text: str, spans: Sequence[Span]) -> bool:
    return any(low <= text and (high is None or text < high) for low, high in spans)


class _Automaton:
    """A pattern as an automaton: a state is a place between characters, a set of states is bits.

    The first state is place 0. `step` keeps the places before a `%`, and moves on from the places
    before a character that fits.
    """

    def __init__(self, pattern: Sequence[Token], ignore_case: bool) -> None:
        self.loops = 0  # places that any character keeps
        self.any = 0  # places from which any character moves on
        self.moves: dict[str, int] = {}
        self.moving: list[str] = []  # the characters that move on from each place
        for part in pattern:
            place = len(self.moving)
            if part == MANY:
                self.loops |= 1 << place
                continue
            if part == ONE:
                self.any |= 1 << place
                self.moving.append("")
            else:
                self.moving.append(orbit(str(part)) if ignore_case else str(part))
                for character in self.moving[-1]:
                    self.moves[character] = self.moves.get(character, 0) | 1 << place
        self.moving.append("")
        self.end = 1 << len(self.moving) - 1

    def step(self, states: int, character: str) -> int:
        moving = states & (self.moves.get(character, 0) | self.any)
        return moving << 1 | states & self.loops

    def characters(self, states: int, search: Work) -> Iterator[str]:
        """The characters that do not do the same as all others."""
        places = states.bit_count()
        search.spend(min(places, len(self.moves)))
        if len(self.moves) <= places:
            yield from (c for c, moving in self.moves.items() if moving & states)
            return
        while states:
            yield from self.moving[(states & -states).bit_length() - 1]
            states &= states - 1

    def accepts(self, text: str) -> bool:
        """Whether a whole text fits the pattern."""
        states = 1
        for character in text:
            states = self.step(states, character)
        return bool(states & self.end)


def _search(span: Span, fits: Sequence[_Pattern], fails: Sequence[_Pattern], search: Work) -> bool:
    """Whether a complete search of a span finds no text that fits all `fits` and no `fails`."""
    low, high = span
    inside = [_Automaton(*pattern) for pattern in fits]
    outside = [_Automaton(*pattern) for pattern in fails]
    told_apart = {c for automaton in inside + outside for c in automaton.moves}
    search.spend(len(told_apart) + len(low) + len(high or "") + len(inside) + len(outside))
    alphabet = _alphabet(told_apart | set(low) | set(high or ""))
    stranger = next(c for c in alphabet if c not in told_apart)
    cost = 1 + len(inside) + len(outside)
    # The position: how much of each bound the text equals so far (None: it has left the bound, on
    # the right side), and the states of each automaton.
    start: tuple[int | None, int | None, tuple[int, ...], tuple[int, ...]] = (
        0 if low else None,
        None if high is None else 0,
        (1,) * len(inside),
        (1,) * len(outside),
    )
    seen = {start}
    queue = deque([start])
    while queue:
        at_low, at_high, good, bad = queue.popleft()
        if (
            at_low is None
            and all(states & a.end for states, a in zip(good, inside, strict=True))
            and not any(states & a.end for states, a in zip(bad, outside, strict=True))
        ):
            return False
        characters: Sequence[str] = alphabet
        if at_low is None and at_high is None:  # the order does not matter any more
            pairs = (*zip(inside, good, strict=True), *zip(outside, bad, strict=True))
            special = dict.fromkeys(c for a, states in pairs for c in a.characters(states, search))
            characters = [*special, stranger]
        search.spend(cost * len(characters))
        for character in characters:
            next_low: int | None = None
            if at_low is not None:
                if character < low[at_low]:
                    continue
                if character == low[at_low] and at_low + 1 < len(low):
                    next_low = at_low + 1
            next_high: int | None = None
            if at_high is not None and high is not None:
                if character > high[at_high]:
                    continue
                if character == high[at_high]:
                    next_high = at_high + 1
                    if next_high == len(high):
                        continue
            next_good = tuple(
                a.step(states, character) for states, a in zip(good, inside, strict=True)
            )
            if not all(next_good):
                continue
            following = (
                next_low,
                next_high,
                next_good,
                tuple(a.step(states, character) for states, a in zip(bad, outside, strict=True)),
            )
            if following not in seen:
                seen.add(following)
                queue.append(following)
    return True


def _alphabet(told_apart: set[str]) -> list[str]:
    """The characters that matter, and one for each gap between them."""
    alphabet = []
    previous = -1
    for character in [*sorted(told_apart), None]:
        code = 0x110000 if character is None else ord(character)
        between = previous + 1
        if 0xD800 <= between < 0xE000:
            between = 0xE000
        if between < code:
            alphabet.append(chr(between))
        if character is not None:
            alphabet.append(character)
        previous = code
    return alphabet
