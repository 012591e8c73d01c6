"""The parallel search tree of Gryphon (paper S, section II), as a matcher.

Paper S has it from its references 5 and 11. Attributes have an order, the most constrained first
(fewest `*` near the root, as Gryphon advises). A filter is a path through the tree: each edge is
labelled with all constraints of the filter on one attribute, in the order of attributes, and
filters that begin alike share the beginning. The node at the end of a path holds the subscriptions
with that filter. An event follows every edge whose label holds, in parallel, and matches the
subscriptions of all nodes that it reaches.

- A level whose only edge is `*` ("don't care") is left out, Gryphon's known optimisation: an edge
  names its attribute, and edges of several attributes may leave one node. So the depth of a path is
  the number of attributes that its filter constrains, and no `*` is stored.
- A label that is a single equality is found by hash. Each other label is tested at most once per
  event, however many edges carry it.
- The subscriptions given at the start fix the order. An attribute that comes later goes to the end,
  so no path ever moves; an attribute that no subscription mentions any more leaves the order.
- Every edge leads to a node of its own, so a walk visits each node at most once.

A predicate without a normal form has no filters; it is kept beside the tree and evaluated directly.
Link matching (paper S, section IV) will annotate the nodes: `nodes` gives them bottom-up, `path`
those on a filter's path, and `Walk.follow` goes down from any of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from tidings.language.constraint import Constraint, check, value_test
from tidings.language.errors import NormalFormError
from tidings.language.event import lookup, read
from tidings.language.filter import Filter, by_name
from tidings.language.predicate import Predicate
from tidings.language.text import write_constraint
from tidings.language.values import SCALARS, Scalar, is_unicode
from tidings.matching.contract import (
    Batch,
    EventLike,
    Id,
    Stats,
    bytes_of,
    check_id,
    duplicate,
    match_rows,
    stats_of,
    unknown,
)

Key = Scalar | tuple[str, Scalar]  # by which an equality edge is found


class OrderedAttribute:
    """An attribute and its place in the order."""

    __slots__ = ("__weakref__", "name", "rank")

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank


class Label:
    """The constraints of a filter on one attribute, unless they are a single equality."""

    __slots__ = ("__weakref__", "constraints", "holds")

    def __init__(self, constraints: tuple[Constraint, ...]) -> None:
        self.constraints = constraints
        self.holds = _test(constraints)


class Edges:
    """The edges of one attribute that leave one node."""

    __slots__ = ("equal", "tested")

    def __init__(self) -> None:
        self.equal: dict[Key, Node] = {}
        self.tested: dict[Label, Node] = {}


class Node:
    """A beginning that filters share: the subscriptions of filters that end here, and the edges."""

    __slots__ = ("edges", "leaves")

    def __init__(self) -> None:
        self.edges: dict[OrderedAttribute, Edges] = {}
        self.leaves: dict[Id, None] = {}  # a set, in insertion order

    def children(self) -> Iterator[Node]:
        """The nodes one edge below."""
        for edges in self.edges.values():
            yield from edges.equal.values()
            yield from edges.tested.values()


class Walk:
    """One event on its way down the tree, with the values read and the labels tested so far."""

    __slots__ = ("event", "said", "values")

    def __init__(self, event: Mapping[str, Any]) -> None:
        self.event = event
        self.values: dict[OrderedAttribute, tuple[list[Scalar], tuple[Key, ...]]] = {}
        self.said: dict[Label, bool] = {}

    def follow(self, node: Node, into: list[Node]) -> None:
        """Append to `into` the children of a node that the event reaches."""
        said = self.said
        for attribute, edges in node.edges.items():
            known = self.values.get(attribute)
            if known is None:
                known = self.values[attribute] = self.ask(attribute.name)
            values, keys = known
            if edges.equal:
                for key in keys:
                    child = edges.equal.get(key)
                    if child is not None:
                        into.append(child)
            for label, child in edges.tested.items():
                holds = said.get(label)
                if holds is None:
                    holds = said[label] = label.holds(values, self.event)
                if holds:
                    into.append(child)

    def ask(self, name: str) -> tuple[list[Scalar], tuple[Key, ...]]:
        """The values of an attribute, and the keys of the equality edges that they satisfy."""
        if not name:  # a test of the whole event
            return [], ()
        value: Any = self.event.get(name)
        plain = type(value) in SCALARS and "." not in name
        if plain and type(value) is str and not is_unicode(value):
            return [], ()
        values: list[Scalar] = [value] if plain else lookup(self.event, name)
        if len(values) == 1:
            return values, _keys_of(values[0])
        return values, tuple(dict.fromkeys(key for v in values for key in _keys_of(v)))


class SearchTree:
    """Subscriptions as a parallel search tree.

    >>> from tidings import parse
    >>> tree = SearchTree()
    >>> tree.add("S1", parse("symbol = 'EDP' and price < 4 and volume > 10000"))
    >>> tree.add("S2", parse("price < 2 and volume > 1000000"))
    >>> tree.add("S3", parse("symbol = 'PT' and price = 10.4"))
    >>> sorted(tree.match({"symbol": "EDP", "price": 1.5, "volume": 2000000}))
    ['S1', 'S2']
    >>> print(tree)
    symbol = 'EDP'
      price < 4
        volume > 10000: 'S1'
    symbol = 'PT'
      price = 10.4: 'S3'
    price < 2
      volume > 1000000: 'S2'
    """

    def __init__(self, subscriptions: Iterable[tuple[Id, Predicate]] = ()) -> None:
        self.subscriptions: dict[Id, Predicate] = {}
        self.beside: dict[Id, Predicate] = {}  # those without a normal form
        self.root = Node()
        # Both hold only what some edge refers to.
        self.attributes: WeakValueDictionary[str, OrderedAttribute] = WeakValueDictionary()
        self.labels: WeakValueDictionary[tuple[Constraint, ...], Label] = WeakValueDictionary()
        self.ranks = count()
        given = list(subscriptions)
        kept = self._order(filter for _, predicate in given for filter in _filters(predicate))
        for id, predicate in given:
            self.add(id, predicate)
        del kept  # the edges hold the attributes now

    # The contract

    def add(self, id: Id, predicate: Predicate) -> None:
        check_id(id)
        if id in self.subscriptions:
            raise duplicate(id)
        try:
            filters = predicate.filters
        except NormalFormError:
            self.beside[id] = predicate
        else:
            for filter in filters:
                self._grow(filter).leaves[id] = None
        self.subscriptions[id] = predicate

    def remove(self, id: Id) -> None:
        predicate = self.subscriptions.pop(id, None)
        if predicate is None:
            raise unknown(id)
        if self.beside.pop(id, None) is None:
            for filter in predicate.filters:
                self._cut(filter, id)

    def match(self, event: EventLike) -> list[Id]:
        attributes = read(event)
        found = [id for id, p in self.beside.items() if p.matches(attributes)]
        walk = Walk(attributes)
        pending = [self.root]
        while pending:
            node = pending.pop()
            if node.leaves:
                found.extend(node.leaves)
            if node.edges:
                walk.follow(node, pending)
        return list(dict.fromkeys(found))  # an event may satisfy several filters of a predicate

    def match_batch(self, batch: Batch, json: str | None = None) -> pa.Table:
        return match_rows(self.match, self.subscriptions, batch, json)

    def stats(self) -> Stats:
        """The sizes; `bytes` counts the tree and the predicates beside it.

        The predicates kept only to find a subscription again when it is removed are not counted.
        """
        beside = list(self.beside.values())
        index = bytes_of(self.root, self.attributes, self.labels, beside)
        return stats_of(self.subscriptions.values(), index + sys.getsizeof(self.subscriptions))

    # The tree

    def nodes(self) -> Iterator[Node]:
        """Every node, after all those below it; the root is the last."""
        found = [self.root]
        for node in found:  # grows as it goes
            found.extend(node.children())
        return reversed(found)

    def path(self, filter: Filter) -> list[Node]:
        """The nodes of a filter in the tree, from the root to the one that holds its leaves."""
        path = [self.root]
        for name, same in self._steps(filter):
            edges = path[-1].edges[self.attributes[name]]
            child = edges.equal[key] if (key := _key(same)) is not None else None
            path.append(edges.tested[self.labels[same]] if child is None else child)
        return path

    def _grow(self, filter: Filter) -> Node:
        """The node at the end of a filter's path; makes the nodes that are missing."""
        node = self.root
        kept = self._order((filter,))
        for name, same in self._steps(filter):
            attribute = self.attributes[name]
            edges = node.edges.get(attribute)
            if edges is None:
                edges = node.edges[attribute] = Edges()
            key = _key(same)
            if key is not None:
                child = edges.equal.get(key)
                if child is None:
                    child = edges.equal[key] = Node()
            else:
                label = self.labels.get(same)
                if label is None:
                    label = self.labels[same] = Label(same)
                child = edges.tested.get(label)
                if child is None:
                    child = edges.tested[label] = Node()
            node = child
        del kept  # the edges hold the attributes now
        return node

    def _cut(self, filter: Filter, id: Id) -> None:
        """Remove a leaf from the end of a filter's path, and the nodes that are then empty."""
        path = self.path(filter)
        del path[-1].leaves[id]
        steps = self._steps(filter)
        while steps and not path[-1].leaves and not path[-1].edges:
            name, same = steps.pop()
            path.pop()
            attribute = self.attributes[name]
            edges = path[-1].edges[attribute]
            key = _key(same)
            if key is not None:
                del edges.equal[key]
            else:
                del edges.tested[self.labels[same]]
            if not edges.equal and not edges.tested:
                del path[-1].edges[attribute]

    def _order(self, filters: Iterable[Filter]) -> list[OrderedAttribute]:
        """Put the new attributes of filters at the end of the order.

        Among themselves they are sorted by how many filters constrain them, most first, then by how
        many do so by an equality, which is found by hash. Tests of the whole event cost most and
        come last.
        """
        constrained: Counter[str] = Counter()
        equalities: Counter[str] = Counter()
        for filter in filters:
            for name, same in by_name(filter).items():
                if name not in self.attributes:
                    constrained[name] += 1
                    equalities[name] += _key(tuple(same)) is not None
        ordered = sorted(constrained, key=lambda n: (not n, -constrained[n], -equalities[n], n))
        new = [OrderedAttribute(name, next(self.ranks)) for name in ordered]
        self.attributes.update((attribute.name, attribute) for attribute in new)
        return new

    def _steps(self, filter: Filter) -> list[tuple[str, tuple[Constraint, ...]]]:
        """The constraints of a filter by attribute, in the order of attributes."""
        if len(filter) == 1:
            return [(filter[0].name, tuple(filter))]
        attributes = self.attributes
        steps = [(name, tuple(same)) for name, same in by_name(filter).items()]
        steps.sort(key=lambda step: attributes[step[0]].rank)
        return steps

    def __repr__(self) -> str:
        nodes = sum(1 for _ in self.nodes())
        return (
            f"SearchTree({len(self.subscriptions)} subscriptions, {nodes} nodes, "
            f"{len(self.attributes)} attributes, {len(self.beside)} beside the tree)"
        )

    def __str__(self) -> str:
        """The tree as text: one edge a line, edges below it indented, subscriptions after it."""
        lines = [f"always{_ends(self.root)}"] if self.root.leaves else []
        lines.extend(_lines(self.root, ""))
        lines.extend(f"beside the tree, {p}: {id!r}" for id, p in self.beside.items())
        return "\n".join(lines)


def _filters(predicate: Predicate) -> tuple[Filter, ...]:
    """The filters of a predicate; none if it has no normal form."""
    try:
        return predicate.filters
    except NormalFormError:
        return ()


def _key(constraints: tuple[Constraint, ...]) -> Key | None:
    """The key of an edge whose label is a single equality; None for any other label.

    In Python 1 == 1.0 == True. The first two are one number in the language too, so a number is its
    own key; if the constraint narrows the type, the type is part of the key.
    """
    (_, operator, kind, negated, operand), *others = constraints
    if others or negated or operator != "=":
        return None
    return operand if kind in ("number", "string") else (kind, operand)  # type: ignore[return-value]


def _keys_of(value: Scalar) -> tuple[Key, ...]:
    """The keys of the equalities that a value satisfies."""
    match value:
        case bool():
            return (("bool", value),)
        case str():
            return (value,)
        case int():
            return (value, ("int", value))
        case float():
            return (value, ("real", value)) if value == value else ()  # NaN equals nothing


def _test(
    constraints: tuple[Constraint, ...],
) -> Callable[[list[Scalar], Mapping[str, Any]], bool]:
    """A test of all constraints on the values of an attribute; some read the whole event."""
    if len(constraints) > 1:
        parts = [_test((constraint,)) for constraint in constraints]
        return lambda values, event: all(part(values, event) for part in parts)
    if constraints[0].operator == "holds":
        whole = check(constraints[0])
        return lambda _, event: whole(event)
    test = value_test(constraints[0])
    wanted = not constraints[0].negated

    def holds(values: list[Scalar], _: Mapping[str, Any]) -> bool:
        for value in values:
            if test(value):
                return wanted
        return not wanted

    return holds


def _lines(node: Node, indent: str) -> Iterator[str]:
    """The lines of text for the tree below a node."""
    for attribute, edges in node.edges.items():
        children = [(_equality(attribute.name, key), child) for key, child in edges.equal.items()]
        children += [
            (" and ".join(map(write_constraint, label.constraints)), child)
            for label, child in edges.tested.items()
        ]
        for text, child in children:
            yield f"{indent}{text}{_ends(child)}"
            yield from _lines(child, indent + "  ")


def _equality(name: str, key: Key) -> str:
    """The text of an equality edge."""
    if isinstance(key, tuple):
        kind, operand = key
    else:
        kind, operand = ("string" if isinstance(key, str) else "number"), key
    return write_constraint(Constraint(name, "=", kind, False, operand))


def _ends(node: Node) -> str:
    """The subscriptions that a node holds, as text."""
    return f": {', '.join(map(repr, node.leaves))}" if node.leaves else ""
