"""Mutated JSON and mutated tables: no answer but the right one, no error but the documented one."""

from random import Random

import pytest

from tests.effort import examples
from tests.matching.fuzzing import TARGETS, mutated


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_raise_nothing_else(name: str, seed: int) -> None:
    target = TARGETS[name]
    for data in mutated(target, Random(seed), examples(300)):
        target.check(data)
