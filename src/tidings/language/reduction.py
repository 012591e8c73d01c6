"""Reduction of disjunctions (paper U, 4.2; U8): the same meaning with fewer constraints.

The paper drops constraints that others in their filter imply (`filter.normalise`) and filters that
another covers (`absorb`). Beyond the paper, `merge` joins filters that differ in one attribute only
if one constraint can express two: values become an `in` list, ranges that touch become one.

It never compares all pairs: a tree holds the filters by their constraints (`Coverings`), and the
search for a filter that covers another follows only branches that the other implies.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidings.language.constraint import Constraint
from tidings.language.filter import Filter, by_name, implied, normalise
from tidings.language.literals import Literals
from tidings.language.sets import box, subset
from tidings.language.work import THOROUGH, OutOfSteps, Work


class _Node:
    """A node in the tree of filters: the filters that end here, and branches for the others."""

    __slots__ = ("ends", "equal", "needs", "other")

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.needs = sys.maxsize  # steps from here to the nearest end
        # By name, equalities also by value; two may share it and differ in type: x = 1, int x = 1.
        self.equal: dict[str, dict[Any, dict[Constraint, _Node]]] = {}
        self.other: dict[str, _Branches] = {}


class _Branches:
    """The branches of a node by constraints on one attribute that are no equalities."""

    __slots__ = ("answers", "literals", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[Constraint, _Node] = {}
        self.answers: dict[Constraint, list[_Node]] = {}  # of one constraint, as it was given
        self.literals: Literals | None = None

    def forget(self) -> None:
        """The branches have changed: what was found is not true any more."""
        if self.answers:
            self.answers = {}
        self.literals = None

    def candidates(self, given: Constraint, work: Work) -> Iterable[Constraint]:
        """The constraints here that a positive constraint may imply."""
        if len(self.nodes) <= _FEW:
            return self.nodes
        if self.literals is None:
            self.literals = Literals(self.nodes)
        return self.literals.candidates(given, work)


_FEW = 8  # constraints, up to which it does not pay to look one up
_STEPS_TO_FILE = 4  # a constraint in the tree


class Coverings:
    """A tree of filters that quickly finds one that covers a given filter.

    Each filter is a path of its constraints: first the equalities, then the others, in both halves
    rare attributes before common ones. A step holds the constraints on one attribute in one half. A
    search goes down only if the given filter implies the step's constraints and has enough steps
    left. So it arrives at filters all of whose constraints are implied, which is what covering
    means.
    """

    def __init__(
        self, filters: Sequence[Filter], lists: bool = True, work: Work = THOROUGH
    ) -> None:
        self.lists = lists
        self.work = work
        self.dropped = bytearray(len(filters))
        self.root = _Node()
        work.spend(_STEPS_TO_FILE * sum(map(len, filters)))
        frequency = Counter(constraint.name for filter in filters for constraint in filter)
        ordered = sorted(frequency, key=lambda name: (frequency[name], name))
        self.rank = {name: rank for rank, name in enumerate(ordered)}
        self.beside_equal: set[str] = set()  # attributes with constraints other than equalities
        for number, filter in enumerate(filters):
            self.file(number, filter)

    def _steps(self, filter: Filter) -> dict[tuple[bool, int], list[Constraint]]:
        steps: dict[tuple[bool, int], list[Constraint]] = {}
        for constraint in filter:
            other = not _is_equality(constraint)
            steps.setdefault((other, self.rank[constraint.name]), []).append(constraint)
            if other:
                self.beside_equal.add(constraint.name)
        return steps

    def file(self, number: int, filter: Filter) -> None:
        """Add a filter, whose names have ranks."""
        steps = self._steps(filter)
        node = self.root
        left = len(steps)
        node.needs = min(node.needs, left)
        for step in sorted(steps):
            left -= 1
            for constraint in steps[step]:
                node = _child(node, constraint)
                node.needs = min(node.needs, left)
        node.ends.append(number)

    def unfile(self, number: int, filter: Filter) -> None:
        """Take a filter away, and the branches that lead to no other."""
        path: list[tuple[_Node, Constraint]] = []
        node = self.root
        steps = self._steps(filter)
        for step in sorted(steps):
            for constraint in steps[step]:
                path.append((node, constraint))
                node = _child(node, constraint)
        node.ends.remove(number)
        while path and not (node.ends or node.equal or node.other):
            node, constraint = path.pop()
            _prune(node, constraint)

    def find(self, filter: Filter, but: int = -1) -> int | None:
        """The number of a filter that covers the given one and is neither dropped nor `but`."""
        return next(self.every(filter, but), None)

    def every(self, filter: Filter, but: int = -1) -> Iterator[int]:
        """The numbers of all filters that cover the given one and are neither dropped nor `but`."""
        grouped = by_name(filter)
        rank = self.rank
        names = sorted((name for name in grouped if name in rank), key=rank.__getitem__)
        others = [name for name in names if name in self.beside_equal]
        equal_at = {name: place for place, name in enumerate(names)}
        other_at = {name: place for place, name in enumerate(others, len(names))}
        steps = len(names) + len(others)
        self.work.spend(len(filter))
        pending = [(self.root, 0)]
        while pending:
            node, start = pending.pop()
            if node.needs > steps - start:
                continue
            for number in node.ends:
                if number != but and not self.dropped[number]:
                    yield number
            # Begin with the step that led here: filters may have several constraints on a name.
            first = max(start - 1, 0)
            asked = _common(node.equal, equal_at), _common(node.other, other_at)
            self.work.spend(2 + len(node.ends) // 8 + len(asked[0]) + len(asked[1]))
            for name in asked[0]:
                if name in node.equal and equal_at.get(name, -1) >= first:
                    children = self._equalities(node, name, grouped[name])
                    pending.extend((child, equal_at[name] + 1) for child in children)
            for name in asked[1]:
                if name in node.other and other_at.get(name, -1) >= first:
                    children = self._others(node, name, grouped[name])
                    pending.extend((child, other_at[name] + 1) for child in children)

    def _equalities(self, node: _Node, name: str, same: list[Constraint]) -> list[_Node]:
        """The children of a node by an equality that these constraints imply."""
        values = node.equal.get(name)
        if values is None:
            return []
        if len(same) == 1 or (self.lists and not any(c.negated for c in same)):
            filed = [values.get(c.operand, {}) for c in same if _is_equality(c)]
        else:  # several constraints together may leave a single value
            filed = list(values.values())
        return [
            child
            for entries in filed
            for constraint, child in entries.items()
            if implied(constraint, same, self.lists, self.work)
        ]

    def _others(self, node: _Node, name: str, same: list[Constraint]) -> list[_Node]:
        """The children of a node by another constraint that these imply."""
        branches = node.other.get(name)
        if branches is None:
            return []
        if not name:  # a test of another dialect is implied by itself only
            self.work.spend(1 + len(same) // 4)
            return [branches.nodes[c] for c in same if c in branches.nodes]
        if len(same) == 1:
            return self._by_one(branches, same[0])
        if self.lists and not any(c.negated for c in same):  # then one of them implies it
            return list(dict.fromkeys(n for c in same for n in self._by_one(branches, c)))
        return self._implied(branches, branches.nodes, same)

    def _by_one(self, branches: _Branches, given: Constraint) -> list[_Node]:
        """The branches that one constraint implies."""
        answer = branches.answers.get(given)
        if answer is None:
            filed = branches.nodes if given.negated else branches.candidates(given, self.work)
            answer = branches.answers[given] = self._implied(branches, filed, [given])
        else:
            self.work.spend(1 + len(answer))
        return answer

    def _implied(
        self, branches: _Branches, filed: Iterable[Constraint], same: list[Constraint]
    ) -> list[_Node]:
        return [
            branches.nodes[constraint]
            for constraint in filed
            if implied(constraint, same, self.lists, self.work)
        ]


def _common(some: Mapping[str, Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
    """The smaller of two mappings, whose keys hold all that both have."""
    return some if len(some) < len(others) else others


def _child(node: _Node, constraint: Constraint) -> _Node:
    """The child of a node for a constraint; made if there is none."""
    branches: _Branches | None = None
    if _is_equality(constraint):
        nodes = node.equal.setdefault(constraint.name, {}).setdefault(constraint.operand, {})
    else:
        branches = node.other.get(constraint.name)
        if branches is None:
            branches = node.other[constraint.name] = _Branches()
        nodes = branches.nodes
    child = nodes.get(constraint)
    if child is None:
        child = nodes[constraint] = _Node()
        if branches is not None:
            branches.forget()
    return child


def _prune(node: _Node, constraint: Constraint) -> None:
    """Remove the child of a node for a constraint."""
    name = constraint.name
    if _is_equality(constraint):
        values = node.equal[name]
        del values[constraint.operand][constraint]
        if not values[constraint.operand]:
            del values[constraint.operand]
        if not values:
            del node.equal[name]
        return
    branches = node.other[name]
    del branches.nodes[constraint]
    branches.forget()
    if not branches.nodes:
        del node.other[name]


def absorb(filters: Iterable[Filter], lists: bool = True, work: Work = THOROUGH) -> list[Filter]:
    """The filters without those that another covers, sorted.

    A filter is dropped only if one that is not dropped covers it, so a chain of coverings, even a
    closed one, leaves its last filter. The longest are tried first, so the simplest are kept.
    """
    ordered = sorted(sorted(dict.fromkeys(filters)), key=len, reverse=True)
    if len(ordered) < 2:
        return ordered
    index = Coverings(ordered, lists, work)

    def kept() -> list[Filter]:
        return sorted(f for f, dropped in zip(ordered, index.dropped, strict=True) if not dropped)

    for number, filter in enumerate(ordered):
        try:
            found = index.find(filter, but=number)
        except OutOfSteps:
            raise OutOfSteps(kept()) from None
        if found is not None:
            index.dropped[number] = True
    return kept()


def reduce_filters(
    filters: Iterable[Filter], merge: bool = True, lists: bool = True, work: Work = THOROUGH
) -> list[Filter]:
    """The paper's reduction and, with `merge`, the merges beyond it, until nothing changes.

    Raises `OutOfSteps` with the filters it has reached, which mean the same.
    """
    reached = list(filters)
    try:
        reduced = reached = _irreducible(reached, lists, work)
        while merge:
            reached = _merge(reduced, work)
            if reached == reduced:
                break
            reduced = reached = _irreducible(reached, lists, work)
    except OutOfSteps as error:
        raise OutOfSteps(reached if error.reached is None else error.reached) from None
    return reduced


def _irreducible(filters: Iterable[Filter], lists: bool, work: Work) -> list[Filter]:
    normal = (normalise(filter, lists, work) for filter in filters)
    return absorb((filter for filter in normal if filter is not None), lists, work)


def _is_equality(constraint: Constraint) -> bool:
    return constraint.operator == "=" and not constraint.negated


# Merging


def _merge_refused(filter: Filter) -> Filter:
    """`not x = 1 and not x = 2` is `not x in (1, 2)`."""
    refused: dict[tuple[str, str], list[Constraint]] = {}
    for c in filter:
        if c.negated and c.operator in ("=", "in") and c.type != "bool":
            refused.setdefault((c.name, c.type), []).append(c)
    several = {place: same for place, same in refused.items() if len(same) > 1}
    if not several:
        return filter
    merged = {c for same in several.values() for c in same}
    kept = [c for c in filter if c not in merged]
    for (name, kind), same in several.items():
        kept.append(listed(name, kind, same)._replace(negated=True))
    return Filter(sorted(kept))


def _merge(filters: list[Filter], work: Work) -> list[Filter]:
    """Merge once, one attribute after the other; returns the same list if nothing merges."""
    standing = dict.fromkeys(map(_merge_refused, filters))
    holding: dict[str, list[Filter]] = {}
    for filter in standing:
        for name in {c.name: None for c in filter}:
            holding.setdefault(name, []).append(filter)
    for name in sorted(holding):
        if len(holding[name]) < 2:
            continue
        work.spend(len(holding[name]) // 2 + sum(map(len, holding[name])) // 8)
        same = [f for f in holding[name] if f in standing]
        for old, new in _merge_on(name, same, work):
            for filter in old:
                standing.pop(filter, None)
            for filter in new:
                standing[filter] = None
                for other in {c.name: None for c in filter}:
                    holding[other].append(filter)
    return sorted(standing)


def _merge_on(
    name: str, filters: list[Filter], work: Work
) -> Iterator[tuple[list[Filter], list[Filter]]]:
    """Filters that differ only in their constraints on one attribute, and their merged form."""
    groups: dict[tuple[Constraint, ...], list[Filter]] = {}
    for filter in filters:
        groups.setdefault(tuple(c for c in filter if c.name != name), []).append(filter)
    for rest, alike in groups.items():
        if len(alike) > 1:
            work.spend(2 * len(alike))
            asked = [[c for c in filter if c.name == name] for filter in alike]
            merged = _merge_asked(asked)
            if len(merged) < len(asked):
                yield alike, [Filter(sorted((*rest, *constraints))) for constraints in merged]


def _merge_asked(asked: list[list[Constraint]]) -> list[list[Constraint]]:
    """Alternatives on one attribute; joins those that one constraint or pair can express."""
    result: list[list[Constraint]] = []
    single: dict[str, list[Constraint]] = {}
    pairs: dict[str, list[list[Constraint]]] = {}
    for constraints in asked:
        kinds = {c.type for c in constraints}
        kind = constraints[0].type
        if any(c.negated for c in constraints):
            result.append(constraints)
        elif len(constraints) == 1 and constraints[0].operator in _MERGEABLE and kind != "bool":
            single.setdefault(kind, []).append(constraints[0])
        elif len(constraints) == 2 and len(kinds) == 1 and _pair(constraints) is not None:
            pairs.setdefault(kind, []).append(constraints)
        else:
            result.append(constraints)
    for kind, constraints in single.items():
        result.extend([c] for c in _merge_single(kind, constraints))
    for same in pairs.values():
        result.extend(_merge_pairs(same))
    return result


_MERGEABLE = frozenset({"=", "in", "<", "<=", ">", ">=", "between"})


def _merge_single(kind: str, constraints: list[Constraint]) -> list[Constraint]:
    """Values and ranges of one type: joins ranges that overlap or touch, lists the other values."""
    lists = [c for c in constraints if c.operator == "in"]
    name = constraints[0].name
    ranges = [c for c in constraints if c.operator not in ("=", "in")]
    points = [c for c in constraints if c.operator == "="]
    if ranges:  # a value may touch a range, so split the lists
        points += [
            Constraint(name, "=", kind, False, value)
            for c in lists
            for value in c.operand  # type: ignore[union-attr]
        ]
        lists = []
    merged: list[Constraint] = []
    for constraint in sorted((*ranges, *points), key=_start):
        joined = _join(merged[-1], constraint) if ranges and merged else None
        if joined is None:
            merged.append(constraint)
        else:
            merged[-1] = joined
    values = lists + [c for c in merged if c.operator == "="]
    result = [c for c in merged if c.operator != "="]
    if values:
        result.append(values[0] if len(values) == 1 else listed(name, kind, values))
    return result


def _merge_pairs(pairs: list[list[Constraint]]) -> list[list[Constraint]]:
    """Pairs of a lower and an upper bound; joins ranges that overlap or touch to the outer bounds.

    This is right for lists too. If some value is above the lower of both lower bounds and some is
    below the higher of both upper bounds, and none is within the first upper bound, then all are
    above it, so the second pair holds.
    """
    ordered = sorted(
        (pair for p in pairs if (pair := _pair(p)) is not None), key=lambda p: _start(p[0])
    )
    merged: list[tuple[Constraint, Constraint]] = []
    for lower, upper in ordered:
        if merged and _touch(merged[-1][1], lower):
            first, last = merged[-1]
            merged[-1] = (first, upper if subset(last, upper) else last)
        else:
            merged.append((lower, upper))
    return [list(pair) for pair in merged]


def _pair(constraints: list[Constraint]) -> tuple[Constraint, Constraint] | None:
    """A lower and an upper bound, in this order, or None if the constraints are something else."""
    lower = [c for c in constraints if c.operator in (">", ">=")]
    upper = [c for c in constraints if c.operator in ("<", "<=")]
    return (lower[0], upper[0]) if lower and upper else None


def _start(constraint: Constraint) -> tuple[Any, ...]:
    """A sort key: where a comparison's values begin."""
    spans = box(constraint.operator, constraint.type, constraint.operand)
    assert spans is not None
    return tuple(low for low, _ in reversed(spans))


def _touch(first: Constraint, second: Constraint) -> bool:
    """Whether no value lies between the end of one comparison and the beginning of another."""
    ends = box(first.operator, first.type, first.operand)
    starts = box(second.operator, second.type, second.operand)
    assert ends is not None
    assert starts is not None
    return all(low <= high for (_, high), (low, _) in zip(ends, starts, strict=True))


def _join(first: Constraint, second: Constraint) -> Constraint | None:
    """One comparison for two, the second of which begins no earlier; None if there is none."""
    if not _touch(first, second):
        return None
    if subset(second, first):
        return first
    low, high = _lower_end(first), _upper_end(second)
    if low is None and high is None:
        return None  # every text, or every number except NaN: no comparison says that
    if low is None or high is None:
        operator, operand = high if low is None else low  # type: ignore[misc]
        return first._replace(operator=operator, operand=operand)
    if low[0] != ">=" or high[0] != "<=":
        return None
    return first._replace(operator="between", operand=(low[1], high[1]))


def _lower_end(constraint: Constraint) -> tuple[str, Any] | None:
    match constraint.operator:
        case "<" | "<=":
            return None
        case "between":
            return ">=", constraint.operand[0]  # type: ignore[index]
        case "=":
            return ">=", constraint.operand
        case operator:
            return operator, constraint.operand


def _upper_end(constraint: Constraint) -> tuple[str, Any] | None:
    match constraint.operator:
        case ">" | ">=":
            return None
        case "between":
            return "<=", constraint.operand[1]  # type: ignore[index]
        case "=":
            return "<=", constraint.operand
        case operator:
            return operator, constraint.operand


def listed(name: str, kind: str, constraints: Iterable[Constraint]) -> Constraint:
    """One `in` constraint for several values and lists of values."""
    values: set[Any] = set()
    for constraint in constraints:
        values.update(constraint.operand if constraint.operator == "in" else (constraint.operand,))  # type: ignore[arg-type]
    return Constraint(name, "in", kind, False, tuple(sorted(values)))
