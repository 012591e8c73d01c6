"""Residuals: tests that the kernels leave to Python, each evaluated once per event.

Equal residuals share one function, so an answer that one index has found for an event serves
another index too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from tidings.language.expression import Expression, compile_check

Array = np.ndarray[Any, Any]
Check = Callable[[Mapping[str, Any]], bool]
_CHECKS: Final[WeakValueDictionary[Expression, Check]] = WeakValueDictionary()


class Residuals:
    """Expressions by number; each is compiled to a function when it is first evaluated."""

    def __init__(self, asked: Sequence[Expression] = ()) -> None:
        self._asked = asked
        self._checks: list[Check | None] = [None] * len(asked)
        self._later: dict[Expression, int] = {}

    def __len__(self) -> int:
        return len(self._checks)

    def __getitem__(self, residual: int) -> Expression:
        return self._asked[residual]

    def number_of(self, asked: Expression) -> int:
        """The number of a residual, which is added if it is new."""
        number = self._later.get(asked)
        if number is None:
            self._checks.append(shared_check(asked))
            number = self._later[asked] = len(self._checks) - 1
        return number

    def kept(self, numbers: Array) -> Residuals:
        """The residuals that `number_of` added, renumbered by `numbers`; below zero drops one."""
        others = Residuals()
        order = {int(numbers[old]): asked for asked, old in self._later.items()}
        for number in sorted(number for number in order if number >= 0):
            others._checks.append(self._checks[self._later[order[number]]])
            others._later[order[number]] = number
        return others

    def take_over(self, others: Residuals) -> None:
        """Reuse the functions of `others`, whose residuals are the first ones here."""
        known = others._checks[: len(others._asked)]
        self._checks[: len(known)] = known

    def check(self, residual: int) -> Check:
        """The function that evaluates a residual on an event."""
        check = self._checks[residual]
        if check is None:
            check = self._checks[residual] = shared_check(self._asked[residual])
        return check

    def answered(
        self,
        event: Mapping[str, Any],
        subscriptions: int,
        numbers: Array,
        asked: Array,
        known: dict[Check, bool] | None = None,
    ) -> Array:
        """The numbers found, and those of subscriptions one of whose residuals holds.

        `subscriptions` is how many there are. `asked` alternates the number of a subscription and
        the number of a residual. A residual is not evaluated if all its subscriptions are already
        found or if `known` has its answer for this event.
        """
        found = np.zeros(subscriptions, bool)
        found[numbers] = True
        owners, residuals = asked[::2], asked[1::2]
        left = ~found[owners]
        owners, residuals = owners[left], residuals[left]
        answers = np.zeros(len(self._checks), bool)
        answers[residuals] = True  # to be evaluated
        for residual in np.flatnonzero(answers).tolist():
            check = self.check(residual)
            answer = None if known is None else known.get(check)
            if answer is None:
                answer = check(event)
                if known is not None:
                    known[check] = answer
            answers[residual] = answer
        return np.concatenate((numbers, np.unique(owners[answers[residuals]])))


def shared_check(asked: Expression) -> Check:
    """The function that evaluates a residual, made once and shared."""
    check = _CHECKS.get(asked)
    if check is None:
        check = _CHECKS[asked] = compile_check(asked)
    return check
