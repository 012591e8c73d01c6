"""CloudEvents SQL 1.0 translated to expressions of ours.

An event passes a filter if the expression is true and no error occurs (section 1.2). So an
expression is true, false or an error, and becomes two expressions of ours: one holds where it is
true, the other where it is false. AND and OR evaluate from the left and stop early: an error on the
left makes the whole an error, an error on the right does so only if evaluation reaches it. `leaves`
translates the tests between them.

Events may hold values that CloudEvents do not. A null, an empty list and a record count as missing
attributes; reals and integers past 32 bits count as texts, as section 3.2 says of other types. A
test that reads one attribute is true on a list if it is true for any element, else false if it is
false for any, else an error. A test that reads several attributes takes a list of two or more
values as an error. Arithmetic that overflows 32 bits is a math error.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.language.constraint import Check, Constraint
from tidings.language.dialects.cesql.evaluation import passes
from tidings.language.dialects.cesql.leaves import Leaf, leaf_of
from tidings.language.dialects.cesql.parts import (
    MAX_FILTERS,
    Part,
    TooLarge,
    all_of,
    any_of,
    residual,
)
from tidings.language.dialects.cesql.syntax import read_expression
from tidings.language.dialects.sql_syntax import Node
from tidings.language.dialects.sql_syntax import names as names_in
from tidings.language.expression import Expression


def read(given: str) -> Expression:
    """The expression that holds for the events that pass a filter."""
    node = read_expression(given)
    if node.operator == "name":
        return Constraint(str(node.value), "=", "bool", False, True)
    return _Translation().of(node, wanted=True).expression


def names(given: str) -> frozenset[str]:
    """The attributes that a filter reads."""
    return names_in(read_expression(given))


def test(given: str) -> Check:
    """A filter as a function: whether an event passes it."""
    return passes(read_expression(given))


class _Translation:
    """One translation, with a cache of what each node has become."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, bool], Part] = {}
        self.leaves: dict[int, Leaf] = {}

    def of(self, node: Node, wanted: bool) -> Part:
        """Holds exactly where the node is as wanted, true or false, without an error."""
        key = (id(node), wanted)
        if key not in self.found:
            try:
                self.found[key] = self.exact(node, wanted)
            except TooLarge:
                self.found[key] = residual(node, wanted)
        return self.found[key]

    def exact(self, node: Node, wanted: bool) -> Part:
        match node.operator:
            case "and" | "or":
                if wanted is (node.operator == "and"):
                    return self.conjunction(node.parts, wanted)
                return self.first(node.parts, wanted)
            case "xor":
                left, right = node.parts
                pairs = ((True, False), (False, True)) if wanted else ((True, True), (False, False))
                return any_of(all_of((self.of(left, a), self.of(right, b))) for a, b in pairs)
            case "not":
                return self.of(node.parts[0], not wanted)
            case _:
                leaf = self.leaf(node)
                return leaf.true if wanted else leaf.false

    def conjunction(self, nodes: Sequence[Node], wanted: bool) -> Part:
        """All nodes are as wanted; one that would multiply the filters too often is a residual."""
        parts: list[Part] = []
        filters = 1
        for node in nodes:
            part = self.of(node, wanted)
            if filters * part.filters > MAX_FILTERS:
                part = residual(node, wanted)
            filters *= part.filters
            parts.append(part)
        return all_of(parts)

    def first(self, nodes: Sequence[Node], wanted: bool) -> Part:
        """One node is as wanted, and the ones before it are not as wanted, without an error.

        For the ones before it, "without an error" is enough where that is simple to say: if one of
        them is as wanted, the disjunction holds already.
        """
        parts: list[Part] = []
        before: list[Part] = []
        for node in nodes:
            parts.append(all_of((*before, self.of(node, wanted))))
            unfailing = self.unfailing(node)
            before.append(self.of(node, not wanted) if unfailing is None else unfailing)
        return any_of(parts)

    def unfailing(self, node: Node) -> Part | None:
        """Where a node gives no error, if that is simple to say."""
        match node.operator:
            case "and" | "or" | "xor":
                found = {self.unfailing(part) for part in node.parts}
                return found.pop() if len(found) == 1 else None
            case "not":
                return self.unfailing(node.parts[0])
            case _:
                return self.leaf(node).unfailing

    def leaf(self, node: Node) -> Leaf:
        if id(node) not in self.leaves:
            self.leaves[id(node)] = leaf_of(node)
        return self.leaves[id(node)]
