"""The views of the network that a node forwards by: the newest one, and former ones for a while.

A *view* is a topology as this node computed it, its routes, and a table of what is wanted behind
each interface. While links are added, nodes see them at different moments. If each node forwarded
by its newest view, an event would meet nodes that disagree about its tree, and get lost. So every
event names the view by which its source publishes it, and each node forwards it by that view.

A node publishes by its former view until it knows that every node has the newest one: only a node
that sees the same topology answers a pull. If a link of the former view is gone, it does not wait.
Advertisements widen the tables of all views, so no view hides a receiver
(`docs/decisions/0010-views.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidings.routing.planes.interests import NOTHING
from tidings.routing.planes.topology import Routes
from tidings.routing.protocol import SECOND

KEPT: Final = 120 * SECOND  # for which a node keeps a former view
MOST: Final = 32  # views that a node keeps

Join = Callable[[Iterable[str]], str]  # the disjunction of predicates
Beyond = Callable[[str, str], str]  # what one predicate adds to another


class View:
    """A node's place in one topology, and what is wanted behind each of its interfaces there."""

    __slots__ = ("_beyond", "_join", "former_since", "routes", "table")

    def __init__(self, routes: Routes, join: Join, beyond: Beyond) -> None:
        self.routes = routes
        self._join = join
        self._beyond = beyond
        self.table: dict[str, str] = {}
        self.former_since = 0  # when a newer one replaced it

    def widen(self, interface: str, predicate: str) -> None:
        """Add a predicate to an interface."""
        known = self.table.get(interface, NOTHING)
        if self._beyond(predicate, known) != NOTHING:
            self.table[interface] = self._join((known, predicate))


class Views:
    """The views that a node keeps, by the digest of their topology."""

    def __init__(self, routes: Routes, join: Join, beyond: Beyond) -> None:
        self._algebra = join, beyond
        self.newest = View(routes, join, beyond)
        self.used = self.newest  # the one by which this node publishes
        self._kept = {routes.digest: self.newest}

    def find(self, topology: int) -> View | None:
        """The view of a topology, if it is kept."""
        return self._kept.get(topology)

    def former(self) -> list[View]:
        """All views except the newest."""
        return [view for view in self._kept.values() if view is not self.newest]

    def adopt(self, routes: Routes, now: int) -> None:
        """Take new routes; nothing changes if they are those of the newest view.

        The new table hides no receiver that the last one did not hide: where the first hop to a
        node has changed, the new interface also gets the predicate of the old one.
        """
        former = self.newest
        if routes.digest == former.routes.digest:
            return
        former.former_since = now
        view = self._kept.pop(routes.digest, None)  # it may have come back
        if view is None:
            view = View(routes, *self._algebra)
            view.table = {name: text for name, text in former.table.items() if text != NOTHING}
        else:
            for interface, predicate in former.table.items():
                view.widen(interface, predicate)
        for old, new in _moved(former.routes, routes):
            if old in former.table:
                view.widen(new, former.table[old])
        self._kept[routes.digest] = self.newest = view
        self._forget(now)

    def _forget(self, now: int) -> None:
        """Forget the oldest former views, except the one in use."""
        former = [view for view in self.former() if view is not self.used]
        old = {view.routes.digest for view in former if now - view.former_since > KEPT}
        old.update(view.routes.digest for view in former[: max(0, len(self._kept) - MOST)])
        for digest in old:
            del self._kept[digest]

    def is_behind(self) -> bool:
        """Whether this node publishes by a former view."""
        return self.used is not self.newest

    def has_lost_links(self) -> bool:
        """Whether a link of the view in use is gone from the newest one."""
        links = self.newest.routes.topology.adjacency
        used = self.used.routes
        return any(
            not before.keys() <= links.get(node, {}).keys()
            for node, before in used.topology.adjacency.items()
            if node == used.node or node in used.hop  # what is out of reach does not matter
        )

    def use_newest(self) -> None:
        """Publish by the newest view from now on."""
        self.used = self.newest

    def widen(self, issuer: str, predicate: str) -> None:
        """Add what a node wants to all tables, at the interface by which each view reaches it.

        The newest view comes first: if the steps do not last, the others are coarser.
        """
        for view in (self.newest, *self.former()):
            interface = view.routes.hop.get(issuer)
            if interface is not None:
                view.widen(interface, predicate)


def _moved(before: Routes, after: Routes) -> list[tuple[str, str]]:
    """The old and the new first hop to some node, where they differ."""
    return list(
        {
            (before.hop[node], hop): None
            for node, hop in after.hop.items()
            if before.hop.get(node, hop) != hop
        }
    )
