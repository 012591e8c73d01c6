"""What a Python user would pick today: rules evaluated one by one, in three languages.

`WAYS` names them. Each writes a predicate in its own language, guards an attribute that may be
absent, and evaluates rule after rule: none of them indexes. Only constraints on one plain value
can be said in all three; `can_say` tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from tidings import Predicate
from tidings.language.constraint import Constraint
from tidings.language.wildcard import MANY, ONE, tokens

Record = dict[str, Any]
Rules = Callable[[Record], list[int]]  # an event: the numbers of the rules that it satisfies
COMPARISONS: Final = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
PARTS: Final = frozenset({"prefix", "suffix", "contains", "like"})


def can_say(predicates: Iterable[Predicate]) -> bool:
    """Whether all constraints can be written in each of the languages."""
    known = COMPARISONS.keys() | PARTS | {"between"}
    return all(
        c.operator in known and not c.negated and c.type in ("number", "string")
        for predicate in predicates
        for filter in predicate.filters
        for c in filter
    )


def variable(name: str) -> str:
    """An attribute's name as an identifier."""
    return "v_" + re.sub(r"\W", "_", name)


def renamed(event: Record) -> Record:
    """An event under the names that the rules use."""
    return {variable(name): value for name, value in event.items() if value is not None}


def _expression(pattern: str) -> str:
    """A pattern of `like` as a regular expression of the whole text."""
    parts = (
        ".*" if part == MANY else "." if part == ONE else re.escape(str(part))
        for part in tokens(pattern)
    )
    return f"^{''.join(parts)}$"


def _text(predicate: Predicate, write: Callable[[Constraint], str], both: str, any: str) -> str:
    """A predicate in some language, from how that writes one constraint."""
    return any.join(
        f"({both.join(write(constraint) for constraint in filter)})" for filter in predicate.filters
    )


def lambdas(predicates: list[Predicate]) -> Rules:
    """Python itself: a lambda a rule, compiled."""

    def write(c: Constraint) -> str:
        value = f"(v := e.get({variable(c.name)!r})) is not None and "
        match c.operator:
            case "between":
                low, high = _bounds(c)
                return f"{value}{low!r} <= v <= {high!r}"
            case "prefix":
                return f"{value}v.startswith({c.operand!r})"
            case "suffix":
                return f"{value}v.endswith({c.operand!r})"
            case "contains":
                return f"{value}{c.operand!r} in v"
            case "like":
                return f"{value}fits({_expression(str(c.operand))!r}, v) is not None"
            case operator:
                return f"{value}v {COMPARISONS[operator]} {c.operand!r}"

    known = {"fits": re.fullmatch}
    checks = [
        eval(f"lambda e: {_text(predicate, write, ' and ', ' or ')}", known)
        for predicate in predicates
    ]
    return lambda event: [number for number, holds in enumerate(checks) if holds(event)]


def rule_engine(predicates: list[Predicate]) -> Rules:
    """The package rule-engine."""
    import rule_engine as engine  # type: ignore[import-untyped]

    def write(c: Constraint) -> str:
        name = variable(c.name)
        match c.operator:
            case "between":
                low, high = _bounds(c)
                test = f"{name} >= {_literal(low)} and {name} <= {_literal(high)}"
            case "prefix":
                test = f"{name}.starts_with({_literal(c.operand)})"
            case "suffix":
                test = f"{name}.ends_with({_literal(c.operand)})"
            case "contains":
                test = f"{_literal(c.operand)} in {name}"
            case "like":
                test = f"{name} =~ {_literal(_expression(str(c.operand)))}"
            case operator:
                test = f"{name} {COMPARISONS[operator]} {_literal(c.operand)}"
        return f"{name} != null and {test}"

    # With a resolver of its own an absent attribute costs no exception.
    context = engine.Context(resolver=lambda event, name: event.get(name))
    rules = [
        engine.Rule(_text(predicate, write, " and ", " or "), context=context)
        for predicate in predicates
    ]
    return lambda event: [number for number, rule in enumerate(rules) if rule.matches(event)]


def cel(predicates: list[Predicate]) -> Rules:
    """The package cel-python, compiled.

    Numbers are doubles: CEL compares no integer with a double. The guard is `in`, because `has`
    fails in the compiled form (0.5.0), which is several times as fast as the other.
    """
    import celpy
    from celpy.adapter import json_to_cel

    def write(c: Constraint) -> str:
        name = f"e.{variable(c.name)}"
        match c.operator:
            case "between":
                low, high = _bounds(c)
                test = f"{name} >= {_double(low)} && {name} <= {_double(high)}"
            case "prefix":
                test = f"{name}.startsWith({_literal(c.operand)})"
            case "suffix":
                test = f"{name}.endsWith({_literal(c.operand)})"
            case "contains":
                test = f"{name}.contains({_literal(c.operand)})"
            case "like":
                test = f"{name}.matches({_literal(_expression(str(c.operand)))})"
            case operator:
                test = f"{name} {COMPARISONS[operator]} {_double(c.operand)}"
        return f'"{variable(c.name)}" in e && {test}'

    environment = celpy.Environment(runner_class=celpy.CompiledRunner)
    programs = [
        environment.program(environment.compile(_text(predicate, write, " && ", " || ")))
        for predicate in predicates
    ]

    def run(event: Record) -> list[int]:
        doubles = {n: v if isinstance(v, str) else float(v) for n, v in event.items()}
        activation: Any = {"e": json_to_cel(doubles)}
        return [n for n, program in enumerate(programs) if program.evaluate(activation)]

    return run


def _bounds(constraint: Constraint) -> tuple[Any, Any]:
    """The two ends of a `between`."""
    low, high = cast("tuple[Any, Any]", constraint.operand)
    return low, high


def _literal(value: Any) -> str:
    """A constant as rule-engine and CEL write it."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def _double(value: Any) -> str:
    return _literal(value if isinstance(value, str) else float(value))


WAYS: Final[dict[str, Callable[[list[Predicate]], Rules]]] = {
    "lambdas": lambdas,
    "rule-engine": rule_engine,
    "cel-python": cel,
}
