"""The `cesql` dialect: CloudEvents SQL 1.0 as expressions.

An event passes a filter where the expression is true and no error occurs (section 1.2). So an
expression is true, false or an error, and becomes expressions that hold where it is the one or the
other. AND and OR evaluate from the left and stop early: an error on the left is one of the whole,
one on the right only where it is reached. A test of one attribute against constants says for each
type what becomes of its values: integers and booleans by constraints, texts by constraints where no
cast is asked of them, and else by a residual that is about texts alone.

Events may hold what CloudEvents do not. A null, an empty list and a record are missing attributes;
reals and integers past 32 bit are texts, as section 3.2 says of other types. A test that reads one
attribute is true on a list when it is for any element, else false when it is for any, else an
error; one that reads several takes a list of two and more for an error. Arithmetic that leaves 32
bit is a math error.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.language.constraint import Check, Constraint
from tidings.language.dialects.cesql import evaluation as cesql_evaluation
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
    """The expression that holds where a filter lets an event pass."""
    node = read_expression(given)
    if node.operator == "name":
        return Constraint(str(node.value), "=", "bool", False, True)
    return _Translation().true(node).expression


def names(given: str) -> frozenset[str]:
    """The attributes that a filter reads."""
    return names_in(read_expression(given))


def test(given: str) -> Check:
    """A filter as a function: whether it lets an event pass."""
    return cesql_evaluation.passes(read_expression(given))


class _Translation:
    """One translation, and what it has found of each node."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, bool], Part] = {}
        self.leaves: dict[int, Leaf] = {}

    def true(self, node: Node) -> Part:
        """Holds exactly where the node is true and nothing failed."""
        return self.of(node, wanted=True)

    def false(self, node: Node) -> Part:
        """Holds exactly where the node is false and nothing failed."""
        return self.of(node, wanted=False)

    def of(self, node: Node, wanted: bool) -> Part:
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
        """All of them are as wanted; those that would multiply filters too often are residuals."""
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
        """One of them is as wanted, and those before it are not and have not failed.

        Where "neither failed nor as wanted" can be had as "not failed" it is: what is as wanted
        has been asked for already.
        """
        parts: list[Part] = []
        before: list[Part] = []
        for node in nodes:
            parts.append(all_of((*before, self.of(node, wanted))))
            unfailing = self.unfailing(node)
            before.append(self.of(node, not wanted) if unfailing is None else unfailing)
        return any_of(parts)

    def unfailing(self, node: Node) -> Part | None:
        """Where a node does not fail, if that is simple to say."""
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
