"""Queries about the network: they travel from router to router and collect the answers.

`trace` follows the route of an event. Each router on it tells which links the event takes, which
links are pruned and why, and which subscriptions it matches; nothing is delivered. `why` travels to
the router that holds a subscription, on the route that an event would take if nothing were pruned.
`status` goes to every router. The answer marks a router that does not answer in time as silent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidings.live.access import check_event
from tidings.wire import messages as m

if TYPE_CHECKING:
    from tidings.live.link import Link
    from tidings.live.router_core import RouterCore
    from tidings.live.session import Session
    from tidings.live.timers import Timer

MAX_SHOWN: Final = 100  # subscriptions of one router in an answer
MAX_FINDINGS: Final = 4_096  # in one message
MOST_HOPS: Final = 12


class Query:
    """An open query: who asked, which neighbours have not answered, and the findings so far."""

    __slots__ = ("asked_by", "findings", "request", "timer", "waiting")

    def __init__(self, asked_by: Session | Link, request: int, findings: list[Any]) -> None:
        self.asked_by = asked_by
        self.request = request  # the client's number of it; 0 from a link
        self.findings = findings
        self.waiting: set[str] = set()
        self.timer: Timer | None = None


class Probes:
    """The open queries of one router."""

    def __init__(self, router: RouterCore) -> None:
        self._router = router
        self._open: dict[str, Query] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, session: Session, ask: m.Ask) -> None:
        """A client asks."""
        if len(self._open) >= self._router.limits.queries:
            session.say(m.Answer(ask.request, "the router has too many open queries", []))
            return
        id = f"{self._router.entropy(64):016x}"
        node = self._router.node
        name = session.hosted.name
        probe = m.Probe(id, ask.kind, node, ask.event, ask.subscription, 0, name)
        self._ask(session, ask.request, probe, None)

    def came(self, link: Link, probe: m.Probe) -> None:
        """A neighbour passes a query on."""
        full = len(self._open) >= self._router.limits.queries or probe.hops > MOST_HOPS
        if full or probe.id in self._open or check_event(probe.event) is not None:
            if link.stream is not None:
                link.stream.send(m.Found(probe.id, []))
            return
        self._ask(link, 0, probe, link.neighbour)

    def found(self, link: Link, found: m.Found) -> None:
        """A neighbour answers."""
        query = self._open.get(found.id)
        if query is not None and link.neighbour in query.waiting:
            query.waiting.discard(link.neighbour)
            query.findings += found.findings
            if not query.waiting:
                self._answer(found.id)

    def _ask(self, who: Session | Link, request: int, probe: m.Probe, source: str | None) -> None:
        finding, onward = self._look(probe, source)
        query = self._open[probe.id] = Query(who, request, [finding])
        on = msgspec.structs.replace(probe, hops=probe.hops + 1)
        for name in onward:
            link = self._router.links.get(name)
            if link is not None and link.stream is not None:
                query.waiting.add(name)
                link.stream.send(on)
        if not query.waiting:
            self._answer(probe.id)
            return
        limits, timers = self._router.limits, self._router.timers
        step = limits.patience_step
        patience = max(step, limits.patience - step * probe.hops)
        query.timer = timers.after(patience, partial(self._answer, probe.id))

    def _answer(self, id: str) -> None:
        query = self._open.pop(id, None)
        if query is None:
            return
        if query.timer is not None:
            query.timer.cancel()
        for name in sorted(query.waiting):
            query.findings.append({"node": name, "silent": True})
        from tidings.live.session import Session

        asked_by = query.asked_by
        if isinstance(asked_by, Session):
            if not asked_by.over:
                findings = fitting(query.findings, self._router.limits.findings_bytes)
                asked_by.say(m.Answer(query.request, "", findings))
        elif asked_by.stream is not None:
            findings = fitting(query.findings, self._router.limits.router_frame // 2)
            asked_by.stream.send(m.Found(id, findings))

    def _look(self, probe: m.Probe, came_from: str | None) -> tuple[dict[str, Any], list[str]]:
        """This router's finding, and the neighbours to pass the query to."""
        router = self._router
        finding: dict[str, Any] = {"node": router.node, "hops": probe.hops}
        if probe.kind == "status":
            finding |= router.status()
            return finding, [name for name in router.links if name != came_from]
        if probe.application not in router.applications:
            finding["unknown application"] = probe.application
            return finding, []
        explained = router.explain_links(probe.application, probe.source, probe.event)
        links = {
            name: {"taken": taken, "why": why}
            for name, (taken, why) in explained.items()
            if name != came_from
        }
        if probe.kind == "trace":
            numbers = router.applications[probe.application].edge.match(probe.event)
            finding["links"] = links
            finding["matches"] = len(numbers)
            finding["subscriptions"] = [f"{router.node}/{n}" for n in numbers[:MAX_SHOWN]]
            return finding, [name for name, link in links.items() if link["taken"]]
        target, _, number = probe.subscription.rpartition("/")
        if target == router.node:
            held = None
            if number.isdecimal():
                held = router.explain(int(number), probe.event, probe.application)
            finding["subscription"] = held or {"held": False}
            return finding, []
        hop = (router.protocol.hops or {}).get(target)
        if hop is None:
            finding["unreachable"] = target
            return finding, []
        finding["links"] = {hop: links.get(hop, {"taken": False, "why": "there is no such link"})}
        return finding, [hop]


def fitting(findings: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """As many findings as fit into a message; of the rest only the routers' names."""
    kept: list[dict[str, Any]] = []
    for finding in findings[:MAX_FINDINGS]:
        size = len(m.encode(finding))
        if size > most:
            finding = {"node": finding.get("node", ""), "left out": f"{size} bytes"}
            size = len(m.encode(finding))
        most -= size
        if most < 0:
            break
        kept.append(finding)
    return kept
