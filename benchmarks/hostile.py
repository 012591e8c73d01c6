"""Predicates made to be slow, each as large as a client may send to a router: 64 Ki characters.

`HOSTILE` names them, `OPERATIONS` is what the algebra does with them. `benchmarks.language --worst`
prints the processor time, and the tests count the calls.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Final

from tidings import NormalFormError, Predicate, parse, union
from tidings.language.coarseness import coarser
from tidings.wire.messages import MAX_PREDICATE

_RANDOM: Final = random.Random(1)
EVENT: Final = {"x": "a1b", "a": 1, "b": 0, "y": 5, "h": "some text", "a0": 1}


def _letters(length: int) -> str:
    return "".join(_RANDOM.choices("abcdefghijklmnopqrstuvwxyz", k=length))


def _filled(one: Callable[[int], str], between: str) -> str:
    """As many parts as fit the bound."""
    parts: list[str] = []
    size = 0
    for number in count():
        part = one(number)
        size += len(part) + len(between)
        if size > MAX_PREDICATE:
            return between.join(parts)
        parts.append(part)
    raise AssertionError


def _factors(one: Callable[[int], str], number: int) -> str:
    return " and ".join(f"({one(i)})" for i in range(number))


def _patterns() -> Iterator[tuple[str, str]]:
    long, other = ("".join(map(chr, range(first, first + 600))) for first in (0x4E00, 0x6E00))
    refused = " and ".join(f"not x = 'c{i}'" for i in range(60))
    yield (
        "search: 600 different characters",
        f"x like '%{long}%' and x like '_%{long}' and not x suffix '{long}'",
    )
    yield (
        "search: the same and 60 values refused",
        f"x like '_%{long[:300]}%' and not x like '%{long[:300]}%' and {refused}",
    )
    yield (
        "search: strangers refused",
        "x like '%a%' and "
        + " and ".join(
            f"not x like '%{c}%{i}_%'" for i in range(20) for c in "\ue000\x01\U0010fffe"
        ),
    )
    yield "search: like '%a%a%a…'", f"x like '{'%a' * 500}' and not x like '{'%a' * 499}%b'"
    yield (
        "search: 60 patterns on one attribute, 30 times",
        " or ".join(
            " and ".join(f"x like '%{_letters(1)}_{_letters(1)}%'" for _ in range(60))
            for _ in range(30)
        ),
    )
    yield (
        "search: one long run of a character",
        " or ".join(f"x like '%{'a' * n}_%' and x contains '{'a' * n}'" for n in range(500, 530)),
    )
    yield (
        "search: two alphabets",
        f"x like '%{long[:200]}%{other[:200]}%' and not x like '%{other[:200]}%{long[:200]}%'",
    )


def _disjunctions() -> Iterator[tuple[str, str]]:
    for constraint in (
        "x prefix 'a{}'",
        "x contains 'a{}b'",
        "x iprefix 'a{}b'",
        "x icontains 'a{}b'",
        "x isuffix 'a{}b'",
        "x i= 'a{}b'",
        "x i!= 'a{}'",
        "x ilike '%a{}%b%'",
        "x like '%a{}_b%c_d%'",
        "x matches 'a{}'",
        "x > 'a{}'",
        "x between {} and 9999",
        "a > {0} and b < {0}",
        "x > {0} and y < {0} and z > 1{0}",
        "y > {0} and x icontains 'a{0}b'",
        "not x contains 'a{}b'",
        "not x prefix 'a{}'",
        "a{} = 1",
        "a={}",
        "x in ({0}, 1{0}, 2{0})",
    ):
        yield f"or: {constraint}", _filled(constraint.format, " or ")
    yield (
        "or: icontains 32 letters",
        " or ".join(f"h icontains '{_letters(32)}'" for _ in range(1_000)),
    )
    yield (
        "or: contains, all lengths",
        " or ".join(f"x contains '{_letters(n)}'" for n in range(1, 340)),
    )


def _conjunctions() -> Iterator[tuple[str, str]]:
    for number in (10, 12, 20, 1_000):
        yield (
            f"and: {number} factors",
            _factors(lambda i: f"a{i} = 1 or b{i} > 0", number),
        )
    yield (
        "and: 5 factors, 200 times",
        " or ".join(_factors(lambda i, j=j: f"a{i} > {j} or b{i} < {j}", 5) for j in range(200)),  # type: ignore[misc]
    )
    yield "and: 1,000 factors on two attributes", _factors(lambda i: f"a = {i} or b > {i}", 1_000)
    for number, each in ((2, 60), (3, 16)):
        yield (
            f"and: {number} lists of {each} substrings",
            _factors(
                lambda _, each=each: " or ".join(  # type: ignore[misc]
                    f"x icontains '{_letters(8)}'" for _ in range(each)
                ),
                number,
            ),
        )
    for constraint in ("x != 'a{}'", "a{} = 1", "x i= 'a{}'", "not x = {}", "x contains 'a{}'"):
        yield f"and: {constraint}", _filled(constraint.format, " and ")
    members = [",".join(f"{i * k}" for i in range(1_000)) for k in range(1, 13)]
    yield "and: lists of 1,000", " and ".join(f"x in ({numbers})" for numbers in members)
    yield (
        "and: lists of 500, ignoring case",
        " and ".join(
            "x iin (" + ",".join(f"'a{i * k}'" for i in range(500)) + ")" for k in range(1, 13)
        ),
    )
    nested = "a0 = 1 or c0 = 2"
    for level in range(1, 60):
        nested = f"not ({nested} and (a{level} = 1 or b{level} = 2))"
    yield "not (… and not (… and …))", nested


def _expressions() -> Iterator[tuple[str, str]]:
    yield "matches: one of 36,000 instructions", " or ".join([r"x matches 'a\pL{30}1'"] * 300)
    yield (
        "matches: many",
        " or ".join(
            rf"x matches '\pL{i}[^a]*$'" if i < 30 else f"x matches '{i}+'" for i in range(1_600)
        ),
    )


HOSTILE: Final = dict([*_patterns(), *_disjunctions(), *_conjunctions(), *_expressions()])


def another(text: str) -> str:
    """A text of the same shape that says something else."""
    return text.replace("'a", "'b").replace("a > ", "a > 1").replace("'%a", "'%b")


OPERATIONS: Final[dict[str, Callable[[Predicate, Predicate], Any]]] = {
    "parse": lambda p, _: parse(str(p)),
    "normal form": lambda p, _: _fresh(p).filters,
    "reduce": lambda p, _: p.reduce(),
    "union": lambda p, q: union([p, q]),
    "covers": lambda p, q: p.covers(q),
    "covers, one value": lambda p, q: q.covers(p, lists=False),
    "intersects": lambda p, q: p.intersects(q),
    "intersects, one value": lambda p, q: p.intersects(q, lists=False),
    "coarser": lambda p, _: coarser(p, 4_096, 512, 64),
    "first event": lambda p, _: _fresh(p).matches(EVENT),
}


def _fresh(predicate: Predicate) -> Predicate:
    """The same, with nothing known yet."""
    return Predicate(predicate.expression)


def seconds(operation: str, p: Predicate, q: Predicate) -> float:
    """The processor time of an operation."""
    start = time.process_time()
    with suppress(NormalFormError):
        OPERATIONS[operation](p, q)
    return time.process_time() - start


def print_worst() -> None:
    """Print for each predicate the processor time of every operation, the longest last."""
    longest = 0.0
    print("milliseconds of processor time of each operation: " + ", ".join(OPERATIONS))
    for name, text in HOSTILE.items():
        p, q = parse(text), parse(another(text))
        assert parse(str(p)) == p
        assert coarser(p, 4_096, 512, 64).matches(EVENT) >= p.matches(EVENT)
        with suppress(NormalFormError):
            _ = p.filters, q.filters
        times = [seconds(operation, p, q) * 1e3 for operation in OPERATIONS]
        longest = max(longest, *times)
        print(f"{name:45}{len(text):7,}", *(f"{ms:4.0f}" for ms in times), flush=True)
    print(f"the longest: {longest:.0f} ms")
