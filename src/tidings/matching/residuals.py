"""Residuals: tests that the engine leaves to Python.

Equal residuals share one function, so each is evaluated once for an event, whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from tidings.language.expression import Expression, compile_check

Check = Callable[[Mapping[str, Any]], bool]
_CHECKS: Final[WeakValueDictionary[Expression, Check]] = WeakValueDictionary()


def shared_check(asked: Expression) -> Check:
    """The function that evaluates a residual, made once and shared."""
    check = _CHECKS.get(asked)
    if check is None:
        check = _CHECKS[asked] = compile_check(asked)
    return check
