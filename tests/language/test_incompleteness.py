"""The program that measures what the algebra misses: its own truth is the language's."""

import random

import pytest

from benchmarks import incompleteness as measured
from tests.effort import examples
from tidings import parse

CHANCE = random.Random(5)
SAMPLE = CHANCE.sample(measured.DOMAIN, 60) + measured.NUMBERS + ["", "a", "A", "ab", True]


@pytest.mark.parametrize("row", range(len(measured.ROWS)))
def test_its_operators_mean_what_the_language_says(row: int, seed: int) -> None:
    _, operators, constraints, filters = measured.ROWS[row]
    chance = random.Random(seed)
    for p, _ in measured.pairs(chance, operators, constraints, filters, examples(10)):
        predicate = parse(measured.text_of(p))
        for x in SAMPLE:
            y = chance.choice(SAMPLE)
            expected = any(
                all(
                    measured.satisfies(test, {"x": x, "y": y}[test.name]) != test.negated
                    for test in conjunction
                )
                for conjunction in p
            )
            assert predicate.matches({"x": x, "y": y}) is expected, (predicate, x, y)


@pytest.mark.parametrize("row", range(len(measured.ROWS)))
def test_the_algebra_is_never_wrong_and_misses_only_what_the_page_says(row: int, seed: int) -> None:
    measured.measure(row, examples(10), seed)  # raises where the algebra is wrong
    counts = measured.measure(row, examples(10), 1)  # no witness of these is outside the domain
    if "matches" not in measured.ROWS[row][1] and measured.ROWS[row][3] == 1:
        assert [count.missed for count in counts] == [0, 0, 0, 0]
