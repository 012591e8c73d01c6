"""A tree that all nodes agree on, for protocols that bear no cycles (S10–S14).

The tree is the shortest-path tree of a root: a node that is named, while it is in reach, or else
the node with the smallest name. Costs are unique, so all nodes that know the same links find the
same tree, and each knows its place in it from its own routes. IEEE 802.1D does the same for
bridges. Where links fail, the other links take over; where the root fails, the next one does.

Nodes learn of a change at different moments. So a link that leaves the tree stays in use for a
while, beside those that come instead (make before break). Meanwhile there may be cycles: nodes
drop copies of events, and what travels round a cycle of tables ends with it. A node whose own links
change is *moving* for as long, and each such cycle leads through one: it can see to it that what
travels round is not passed on at once. The neighbour that led to the root keeps that role for as
long, and so does a node that was the root, be it of itself alone.
"""

from __future__ import annotations

from typing import Final

from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.topology import Routes
from tidings.routing.protocol import Timing, earliest

ELECT: Final = "elect"


def linger(timing: Timing) -> int:
    """How long a former link of the tree stays in use."""
    return timing.hold_most + timing.hold


class TreeLink:
    """A link that is in use: of the tree, or no longer."""

    __slots__ = ("life", "until", "up", "up_until")

    def __init__(self, life: int) -> None:
        self.life = life  # of the neighbour
        self.until: int | None = None  # when it goes out of use; None while it is of the tree
        self.up = False  # whether it leads to the root, or did until recently
        self.up_until: int | None = None


class Spanning:
    """One node's place in the tree."""

    def __init__(self, plane: LinkState, root: str = ELECT) -> None:
        self.plane = plane
        self.root = plane.node
        self.parent: str | None = None
        self.branches: dict[str, TreeLink] = {}
        self.hops: dict[str, str] = {}  # paths that have been the same for a while
        self._named = root
        self._routes = plane.routes
        self._version = plane.neighbours.version
        self._due: int | None = None  # when something goes out of use
        self._tree: frozenset[str] = frozenset()
        self._changed_at: int | None = None
        self._moving_until: int | None = None
        self._root_until: int | None = None
        self._linger = linger(plane.timing)

    def refresh(self, now: int) -> tuple[list[str], list[str]]:
        """Follow the routes and the neighbours; returns links that go out of use, and new ones."""
        routes, version = self.plane.routes, self.plane.neighbours.version
        if (
            routes is self._routes
            and version == self._version
            and (self._due is None or now < self._due)
        ):
            return [], []
        self._version = version
        if routes is not self._routes:
            self._routes = routes
            self._changed_at = now
            before, was_root = self._tree, self.parent is None
            self._find(routes)
            if self._tree != before:
                self._moving_until = now + self._linger
            if self.parent is None:
                self._root_until = None
            elif was_root:
                self._root_until = now + self._linger
        elif self._changed_at is not None and now >= self._changed_at + self._linger:
            self._changed_at = None
            self.hops = dict(routes.hop)
        if self._root_until is not None and now >= self._root_until:
            self._root_until = None
        closed, opened = [], []
        known = self.plane.neighbours.known
        for name, branch in list(self.branches.items()):
            neighbour = known.get(name)
            if neighbour is None or not neighbour.up or neighbour.life != branch.life:
                closed.append(name)
            elif name in self._tree:
                branch.until = None
            elif branch.until is None:
                branch.until = now + self._linger
            elif now >= branch.until:
                closed.append(name)
        for name in closed:
            del self.branches[name]
        for name in sorted(self._tree):
            if name not in self.branches and name in known and known[name].up:
                self.branches[name] = TreeLink(known[name].life)
                opened.append(name)
        if opened:
            self._moving_until = now + self._linger
        elif self._moving_until is not None and now >= self._moving_until:
            self._moving_until = None
        for name, branch in self.branches.items():
            self._lead(name, branch, now)
        self._due = self._deadline()
        return closed, opened

    def _find(self, routes: Routes) -> None:
        nodes = routes.hop.keys() | {self.plane.node}
        self.root = self._named if self._named in nodes else min(nodes)
        self.parent = routes.hop.get(self.root)
        above = set() if self.parent is None else {self.parent}
        self._tree = frozenset(above.union(routes.children(self.root)))

    def _lead(self, name: str, branch: TreeLink, now: int) -> None:
        if name == self.parent:
            branch.up, branch.up_until = True, None
        elif branch.up and branch.up_until is None:
            branch.up_until = now + self._linger
        elif branch.up_until is not None and now >= branch.up_until:
            branch.up, branch.up_until = False, None

    @property
    def is_root(self) -> bool:
        """Whether this node is the root, or was until recently."""
        return self.parent is None or self._root_until is not None

    @property
    def is_moving(self) -> bool:
        """Whether links of this node have just come into use, or some are about to go out of it."""
        return self._moving_until is not None or any(
            branch.until is not None for branch in self.branches.values()
        )

    @property
    def is_changing(self) -> bool:
        """Whether former links, or former roles of links, are still in use."""
        if self._changed_at is not None or self._root_until is not None or self.is_moving:
            return True
        return any(branch.up_until is not None for branch in self.branches.values())

    def timer(self) -> int | None:
        """When something goes out of use."""
        return self._due

    def _deadline(self) -> int | None:
        found = None if self._changed_at is None else self._changed_at + self._linger
        found = earliest(found, self._moving_until, self._root_until)
        for branch in self.branches.values():
            found = earliest(found, branch.until, branch.up_until)
        return found
