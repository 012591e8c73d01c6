"""How often `covers` and `intersects` err on the safe side, by operator.

`python -m benchmarks.incompleteness [--pairs N] [--seed N]` prints a table. Of every N pairs of
random predicates it counts the pairs in which one contains the other and `covers` does not find it,
and the pairs that are disjoint and `intersects` does not find it; for attributes that may hold
lists, and for `lists=False`. A wrong answer on the unsafe side ends the program.

How: the truth comes from a decision procedure that shares nothing with the algebra but the text of
the predicates. All constants are few and small, and so is the domain: 12,000 scalars, among them
every text of up to five letters out of six. For each attribute the program collects the truth
vectors of the constraints: those of the scalars, the one of the absent attribute, and for lists the
unions of these. It then evaluates both predicates on every combination. That is exact on the
domain; a pair whose only witness lies outside of it counts as missed, so the figures are upper
bounds.
"""

from __future__ import annotations

import argparse
import math
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

from tidings import parse

# Texts of all letters that constants have, a neighbour of each in either case, and one below all;
# and longer ones, in which several patterns have room beside each other.
SHAPES: Final = (*((length, "0abABz") for length in range(6)), (6, "abA"), (7, "abA"))
TEXTS: Final = ["".join(t) for length, letters in SHAPES for t in product(letters, repeat=length)]
NUMBERS: Final[list[Any]] = [
    *range(-3, 8),
    *(step / 4 for step in range(-12, 32)),
    *(10**30, -(10**30), math.inf, -math.inf, math.nan),
]
DOMAIN: Final[list[Any]] = [*TEXTS, *NUMBERS, True, False]
ORDERS: Final = ("=", "!=", "<", "<=", ">", ">=", "between", "in")
PATTERNS: Final = ("prefix", "suffix", "contains", "like", "=", "in")
FOLDING: Final = ("i=", "i!=", "iin", "iprefix", "isuffix", "icontains", "ilike")
REGEXES: Final = ("matches", "imatches")
WILDCARDS: Final = ("a%", "%b", "%a%", "a_", "_%", "a%b", "%a%b%", "%_b", "b", "__%", "%a_%")
EXPRESSIONS: Final = ("a", "^a", "b$", "^ab", "a+b", "^[ab]+$", "^a|b$", "ba?", "^a.*b$", "^$")
ALL: Final = ORDERS + PATTERNS[:4] + FOLDING + REGEXES
# The rows of the table: what it is called, the operators, constraints of a filter, filters.
ROWS: Final = (
    ("`" + " ".join(ORDERS) + "`", ORDERS, 3, 1),
    ("`" + " ".join(PATTERNS) + "`", PATTERNS, 3, 1),
    ("`" + " ".join(FOLDING) + "`", FOLDING, 3, 1),
    ("all of these mixed", ORDERS + PATTERNS[:4] + FOLDING, 3, 1),
    ("`matches` `imatches` among them", (*REGEXES, *REGEXES, *PATTERNS, *FOLDING), 3, 1),
    ("one constraint, any operator", ALL, 1, 1),
    ("two or three filters, no regular expression", ORDERS + PATTERNS[:4] + FOLDING, 2, 3),
)


class Condition(NamedTuple):
    """A constraint: an attribute, a type or none, an operator and its operand."""

    name: str
    type: str
    operator: str
    operand: Any
    negated: bool

    def __str__(self) -> str:
        if self.operator == "between":
            operand = " and ".join(map(_written, self.operand))
        elif isinstance(self.operand, tuple):
            operand = f"({', '.join(map(_written, self.operand))})"
        else:
            operand = _written(self.operand)
        text = f"{self.type} {self.name} {self.operator} {operand}".strip()
        return f"not {text}" if self.negated else text


Predicate = tuple[tuple[Condition, ...], ...]  # a disjunction of conjunctions


def _written(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)


def text_of(predicate: Predicate) -> str:
    """The predicate as Tidings reads it."""
    return " or ".join(" and ".join(map(str, filter)) for filter in predicate)


# What operators mean


def _fits(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern of `like`: the positions that the pattern can have reached."""
    reached = {0}
    for symbol in pattern:
        if symbol == "%":
            reached = set(range(min(reached, default=len(text) + 1), len(text) + 1))
        else:
            fitting = {at for at in reached if at < len(text) and symbol in ("_", text[at])}
            reached = {at + 1 for at in fitting}
    return len(text) in reached


MEANINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda v, c: v == c,
    "!=": lambda v, c: v == v and v != c,
    "<": lambda v, c: v < c,
    "<=": lambda v, c: v <= c,
    ">": lambda v, c: v > c,
    ">=": lambda v, c: v >= c,
    "between": lambda v, c: c[0] <= v <= c[1],
    "in": lambda v, c: any(v == one for one in c),
    "prefix": lambda v, c: v[: len(c)] == c,
    "suffix": lambda v, c: c == "" or v[-len(c) :] == c,
    "contains": lambda v, c: v.find(c) >= 0,
    "like": lambda v, c: _fits(c, v),
    "matches": lambda v, c: re.search(c.replace("$", r"\Z"), v) is not None,
}


def satisfies(test: Condition, value: Any) -> bool:
    """Whether a scalar is in the set of a test; negation aside."""
    operator, operand = test.operator, test.operand
    example = operand[0] if isinstance(operand, tuple) else operand
    if isinstance(value, bool) or isinstance(value, str) != isinstance(example, str):
        return False
    if (test.type == "int" and type(value) is not int) or (
        test.type == "real" and type(value) is not float
    ):
        return False
    if operator not in MEANINGS:  # one that ignores case
        operator, value = operator[1:], value.lower()
        operand = tuple(map(str.lower, operand)) if isinstance(operand, tuple) else operand.lower()
    return MEANINGS[operator](value, operand)


# The truth


@cache
def mask(test: Condition) -> int:
    """The scalars of the domain that satisfy a test, as bits."""
    return sum(1 << at for at, value in enumerate(DOMAIN) if satisfies(test, value))


def vectors(tests: list[Condition], lists: bool) -> list[int]:
    """The combinations of tests that one attribute can satisfy at once, as bits."""
    masks = [mask(test._replace(negated=False)) for test in tests]
    found = {0}
    left = (1 << len(DOMAIN)) - 1
    while left:  # take all scalars that satisfy the same tests at once
        lowest = left & -left
        vector, alike = 0, left
        for at, one in enumerate(masks):
            inside = bool(one & lowest)
            vector |= inside << at
            alike &= one if inside else ~one
        found.add(vector)
        left &= ~alike
    if lists:
        closed = set(found)
        for vector in found:
            closed |= {vector | other for other in closed}
        found = closed
    return sorted(found)


def relation(p: Predicate, q: Predicate, lists: bool) -> tuple[bool, bool]:
    """Whether p contains q, and whether the two overlap, on the domain."""
    tests = sorted({test._replace(negated=False) for f in (*p, *q) for test in f}, key=repr)
    names = sorted({test.name for test in tests})
    by_name = {name: [test for test in tests if test.name == name] for name in names}
    contains, overlaps = True, False
    for combination in product(*(vectors(by_name[name], lists) for name in names)):
        true = {
            test
            for name, vector in zip(names, combination, strict=True)
            for at, test in enumerate(by_name[name])
            if vector >> at & 1
        }
        in_p, in_q = (
            any(all((t._replace(negated=False) in true) != t.negated for t in f) for f in one)
            for one in (p, q)
        )
        contains &= in_p or not in_q
        overlaps |= in_p and in_q
        if not contains and overlaps:
            break
    return contains, overlaps


# Pairs of predicates


def _constant(chance: random.Random, texts: bool) -> Any:
    if texts:
        return "".join(chance.choices("abA", k=chance.choice((0, 1, 1, 2))))
    return chance.choice((0, 1, 2, 3, 0.5, 1.5, 2.0, 2.5))


def _test(chance: random.Random, operators: tuple[str, ...]) -> Condition:
    operator = chance.choice(operators)
    texts = operator not in ORDERS or chance.random() < (0.7 if "prefix" in operators else 0.3)
    operand: Any
    match operator:
        case "like" | "ilike":
            operand = chance.choice(WILDCARDS)
        case "matches" | "imatches":
            operand = chance.choice(EXPRESSIONS)
        case "in" | "iin":
            operand = tuple(_constant(chance, texts) for _ in range(chance.choice((1, 2, 3))))
        case "between":
            operand = tuple(sorted(_constant(chance, texts) for _ in range(2)))
        case _:
            operand = _constant(chance, texts)
    kind = "" if texts else chance.choice(("", "", "", "int", "real"))
    name = "x" if chance.random() < 0.85 else "y"
    return Condition(name, kind, operator, operand, chance.random() < 0.3)


def pairs(
    chance: random.Random, operators: tuple[str, ...], constraints: int, filters: int, count: int
) -> Iterator[tuple[Predicate, Predicate]]:
    """Pairs of predicates; in half of them the first is made from parts of the second."""

    def one() -> Predicate:
        several = range(chance.randint(min(2, filters), filters))
        return tuple(
            tuple(_test(chance, operators) for _ in range(chance.randint(1, constraints)))
            for _ in several
        )

    for _ in range(count):
        p, q = one(), one()
        if chance.random() < 0.5:
            kept = [tuple(t for t in f if chance.random() < 0.6) or f[:1] for f in q]
            p = tuple(kept) if constraints > 1 else p
        yield p, q


class Count(NamedTuple):
    """How many pairs are in a relation, and in how many of them the algebra missed it."""

    missed: int = 0
    of: int = 0

    def with_one(self, holds: bool, found: bool) -> Count:
        """The count with one more pair."""
        return Count(self.missed + (holds and not found), self.of + holds)

    def __str__(self) -> str:
        share = f" ({100 * self.missed / self.of:.0f} %)" if self.missed else ""
        return f"{self.missed} of {self.of}{share}"


def measure(row: int, count: int, seed: int) -> tuple[Count, Count, Count, Count]:
    """Covers missed with and without lists, then intersects missed with and without lists."""
    _, operators, constraints, filters = ROWS[row]
    chance = random.Random(f"{seed} {row}")
    covers, overlaps = [Count(), Count()], [Count(), Count()]
    for p, q in pairs(chance, operators, constraints, filters, count):
        first, second = parse(text_of(p)), parse(text_of(q))
        for at, lists in enumerate((True, False)):
            contains, overlap = relation(p, q, lists)
            covered = first.covers(second, lists=lists)
            met = first.intersects(second, lists=lists)
            if (covered and not contains) or (overlap and not met):
                raise AssertionError(f"wrong: {first} and {second}, lists={lists}")
            covers[at] = covers[at].with_one(contains, covered)
            overlaps[at] = overlaps[at].with_one(not overlap, not met)
    return covers[0], covers[1], overlaps[0], overlaps[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2_000, help="pairs of predicates a row")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("| operators | `covers` | with `lists=False` | `intersects` | with `lists=False` |")
    print("|---|---|---|---|---|")
    for row, (name, *_) in enumerate(ROWS):
        cells = measure(row, arguments.pairs, arguments.seed)
        print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
