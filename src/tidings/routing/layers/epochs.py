"""Epochs: who is there and how an application is configured, and who works by which of them.

An epoch is a set of nodes with their lives, the settings of an application, and what load makes of
them (`following`). Where subscriptions lie follows from it alone. The number of the change that
brought the settings belongs to it, too: whoever changes them next must know it, or nobody would
take the change. Nodes learn of a new epoch at different moments, so it takes three steps (make
before break):

1. each node puts its subscriptions where the newest epoch wants them, beside where they lie, and
   reports the epoch as *placed*;
2. a node publishes by an epoch once all nodes of it have reported it as placed, and then reports
   it as *used*;
3. once all nodes use an epoch, and no event walks by an earlier one any more, subscriptions are
   taken from where only earlier ones want them.

So an event always finds the subscriptions that were established when it was published. If a node of
the epoch in use is lost, waiting would help nobody, and the newest one is used at once.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tidings.routing.layers.placement import Placement
from tidings.routing.layers.settings import Layering
from tidings.routing.packets import Adapted, Report
from tidings.routing.planes.topology import digest_of

MOST_EPOCHS: Final = 16  # that a node keeps
UNCHANGED: Final = (0, "")  # number and node of the newest change of settings, if there was none


class Epoch(NamedTuple):
    """The nodes of a network and the settings of an application at one moment."""

    digest: int
    settings: Layering
    lives: dict[str, int]  # of every node in reach, this one included
    placement: Placement | None  # None if no node of the matching layer is in reach
    adapted: Adapted | None = None  # how places follow load, if they do

    @classmethod
    def of(
        cls,
        application: str,
        settings: Layering,
        lives: dict[str, int],
        adapted: Adapted | None = None,
        change: tuple[int, str] = UNCHANGED,
    ) -> Epoch:
        """The epoch of these nodes."""
        adapted = adapted if settings.adapts() else None
        written = msgspec.json.encode((settings, adapted, change)).decode()
        digest = digest_of(f"{written} {sorted(lives.items())}")
        trusted = settings.nodes
        members = tuple(node for node in lives if not trusted or node in trusted)
        placement = settings.placement(application, members, adapted) if members else None
        return cls(digest, settings, lives, placement, adapted)

    def is_of(self, settings: Layering, lives: dict[str, int], adapted: Adapted | None) -> bool:
        """Whether it is the epoch of these nodes."""
        if settings is not self.settings or lives != self.lives:
            return False
        return not settings.adapts() or adapted is self.adapted


class Epochs:
    """The epochs of one application at one node: the newest last, and the one in use."""

    def __init__(self, node: str, first: Epoch) -> None:
        self.node = node
        self.kept: list[Epoch] = [first]
        self.used = first
        self.placed = first.digest  # the newest in which all subscriptions of this node lie
        self.walking = 0  # the oldest before it by which events from here still walk; 0: none
        self.reports: dict[str, Report] = {}

    @property
    def newest(self) -> Epoch:
        return self.kept[-1]

    def adopt(self, epoch: Epoch) -> bool:
        """Take an epoch as the newest; False if it is the newest already."""
        if epoch.digest == self.newest.digest:
            return False
        for node in self.newest.lives.keys() - epoch.lives.keys():
            self.reports.pop(node, None)  # it may come back without its memory
        self.kept = [kept for kept in self.kept if kept.digest != epoch.digest]
        self.kept.append(epoch)
        if len(self.kept) > MOST_EPOCHS:
            self.kept = [k for k in self.kept[:-MOST_EPOCHS] if k is self.used] + self.kept[
                -MOST_EPOCHS:
            ]
        return True

    def heard(self, report: Report) -> bool:
        """Take the report of another node; False if it is an old one."""
        known = self.reports.get(report.node)
        if known is not None:
            if known.life == report.life:
                if known.number >= report.number:
                    return False
            elif known.life == self.newest.lives.get(report.node):
                return False
        self.reports[report.node] = report
        return True

    def _reported(self) -> list[tuple[str, Report | None]]:
        """The other nodes, and what each has reported in its life in the newest epoch."""
        reports = self.reports
        return [
            (node, r if (r := reports.get(node)) is not None and r.life == life else None)
            for node, life in self.newest.lives.items()
            if node != self.node
        ]

    def others(self) -> list[str]:
        """All other nodes of the newest epoch."""
        return [node for node in self.newest.lives if node != self.node]

    def advance(self, all_placed: bool) -> bool:
        """Take the steps that are due; returns whether there is something to report."""
        newest = self.newest
        before = (self.placed, self.used.digest)
        if all_placed:
            self.placed = newest.digest
        if self.used is not newest and (self.is_broken(self.used) or not self.not_placed()):
            self.used = newest
        return before != (self.placed, self.used.digest)

    def is_broken(self, epoch: Epoch) -> bool:
        """Whether a node of an epoch has been lost since: waiting for it helps nobody."""
        lives = self.newest.lives
        return any(lives.get(node) != life for node, life in epoch.lives.items())

    def not_placed(self) -> list[str]:
        """The nodes that have yet to report the newest epoch as placed."""
        digest = self.newest.digest
        found = [node for node, r in self._reported() if r is None or r.placed != digest]
        return found if self.placed == digest else [*found, self.node]

    def not_using(self) -> list[str]:
        """The nodes that have yet to report that they use the newest epoch."""
        digest = self.newest.digest
        found = [node for node, r in self._reported() if r is None or r.used != digest]
        return found if self.used.digest == digest else [*found, self.node]

    def walkers(self) -> list[str]:
        """The nodes whose events still walk by an epoch that they do not use."""
        return [node for node, r in self._reported() if r is not None and r.walking]

    def all_use_a_kept_one(self) -> bool:
        """Whether every node publishes by an epoch in which this one has placed all it has."""
        kept = {epoch.digest for epoch in self.kept}
        return all(r is not None and r.used in kept for _, r in self._reported())

    def unneeded(self) -> frozenset[int]:
        """The oldest epochs, which nobody uses any more, nor any event on its walk."""
        digests = [epoch.digest for epoch in self.kept]
        used = {self.used.digest, self.walking}
        for _, report in self._reported():
            if report is not None:
                used |= {report.used, report.walking}
        places = [digests.index(digest) for digest in used if digest in digests]
        return frozenset(digests[: min(places, default=0)])

    def prune(self, chosen: frozenset[int]) -> bool:
        """Forget those of these epochs that nobody uses; returns whether there were any."""
        before = len(self.kept)
        chosen &= self.unneeded()
        self.kept = [epoch for epoch in self.kept if epoch.digest not in chosen]
        return len(self.kept) < before

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "epoch": self.newest.digest,
            "placed": self.placed,
            "used": self.used.digest,
            "kept": len(self.kept),
        }
