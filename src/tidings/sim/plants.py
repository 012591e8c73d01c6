"""Bugs planted on purpose (mutants), one row of `PLANTS` each: the checks must find every one.

Each is a protocol with one thing wrong, of the sort that is easily got wrong. If the checks miss
one, they are broken: a run of the simulator proves little unless it catches all of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tidings.matching.scan import Scan
from tidings.routing.flooding.router import FloodRouter
from tidings.routing.packets import (
    Advertisement,
    Answer,
    Parcel,
    Publication,
    Record,
    Request,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import NOTHING, beyond, join
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.neighbours import Neighbours
from tidings.routing.planes.once import Numbered, Once
from tidings.routing.planes.replies import Replies
from tidings.routing.planes.topology import UNIT
from tidings.routing.protocol import (
    Action,
    Cause,
    Established,
    InForce,
    Send,
    Subscribe,
    Unadvertise,
)
from tidings.routing.protocols import Make
from tidings.routing.source_trees.content import ContentRouter
from tidings.routing.source_trees.views import View
from tidings.sim.cycle_plants import CYCLE_BUGS
from tidings.sim.layer_plants import LAYER_BUGS
from tidings.sim.reverse_path_plants import REVERSE_PATH_BUGS
from tidings.sim.structured_plants import STRUCTURED_BUGS
from tidings.sim.trial import ALL_FAULTS, Verdict, draw_options, run_trial


class PruneByInterface(ContentRouter):
    """Stops an advertisement that adds nothing to the interface, as paper F has it."""

    nothing_new = False

    def widen(self, issuer: str, neighbour: str, predicate: str) -> None:
        self.nothing_new = beyond(predicate, self.table.get(neighbour, NOTHING)) == NOTHING
        super().widen(issuer, neighbour, predicate)

    def added(self, predicate: str) -> str:
        stop, self.nothing_new = self.nothing_new, False
        return NOTHING if stop else super().added(predicate)


class CoveringReversed(ContentRouter):
    """Stops an advertisement that covers what this node wants, not one that is covered."""

    def added(self, predicate: str) -> str:
        mine = join(self._confirmed.values())
        return NOTHING if mine != NOTHING and beyond(mine, predicate) == NOTHING else predicate


class AdvertisementReplaces(ContentRouter):
    """Puts an advertised predicate in the place of the interface's."""

    def widen(self, issuer: str, neighbour: str, predicate: str) -> None:
        self.table[neighbour] = NOTHING
        super().widen(issuer, neighbour, predicate)


class ReplyForgetsItself(ContentRouter):
    """Replies what nodes below want, and not what this node wants."""

    def reply(self, found: list[str]) -> str:
        return self.join(found)


class ReplyForgetsOthers(ContentRouter):
    """Replies what this node wants, and not what nodes below want."""

    def reply(self, found: list[str]) -> str:
        return self.interest()


class ReplyTakesOneBranch(ContentRouter):
    """Replies for only one of the children."""

    def reply(self, found: list[str]) -> str:
        return self.join((self.interest(), *found[:1]))


class ReplyOvertakes(ContentRouter):
    """A reply removes what was advertised while it was collected."""

    def widen(self, issuer: str, neighbour: str, predicate: str) -> None:
        self.views.widen(issuer, predicate)


class ReplyWidens(ContentRouter):
    """A reply is added to the interface, so that nothing ever shrinks."""

    def replace(self, neighbour: str, found: list[str]) -> None:
        super().replace(neighbour, [*found, self.table.get(neighbour, NOTHING)])


class AnyView(ContentRouter):
    """Answers requests by the tree it sees, whatever the issuer sees."""

    def same_view(self, packet: Request) -> bool:
        return True


class NoReversePath(ContentRouter):
    """Takes packets from whichever neighbour they come."""

    def on_reverse_path(self, neighbour: str, source: str, view: View) -> bool:
        return source != self.node


class EarlyReceipt(ContentRouter):
    """Confirms an advertisement before those below have."""

    def _advertisement(self, neighbour: str, packet: Advertisement, out: list[Action]) -> None:
        super()._advertisement(neighbour, packet, out)
        passing = self._passing.get(packet.issuer)
        if passing is not None:
            passing.waiting.clear()
            self._confirm_passing(packet.issuer, out)


class EstablishedAtOnce(ContentRouter):
    """Says that a subscription is established as soon as it is made."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        out = super().handle(cause, now)
        if isinstance(cause, Subscribe):
            out.insert(0, Established((cause.id,)))
        return out


class NoRetry(ContentRouter):
    """Sends an advertisement once."""

    def _advertise(self, now: int, out: list[Action]) -> None:
        super()._advertise(now, out)
        self._advertise_at = None


class UnsubscribeIgnored(ContentRouter):
    """Goes on asking for what a subscriber no longer wants."""

    def _subscribe(self, id: str, predicate: str, now: int, out: list[Action]) -> None:
        self.once_wanted = {**getattr(self, "once_wanted", {}), id: predicate}
        super()._subscribe(id, predicate, now, out)

    def interest(self) -> str:
        return self.join(getattr(self, "once_wanted", {}).values())


class UnsubscribedMatches(ContentRouter):
    """Goes on delivering to subscribers that have unsubscribed."""

    def _unsubscribe(self, id: str) -> None:
        if self.local.subscriptions.pop(id, None) is not None:
            self._forget(id)


class LivesNotTold(ContentRouter):
    """Compares the numbers of a new life with those of the last."""

    def is_news(
        self, issuer: str, life: int, number: int, seen: dict[str, tuple[int, int]]
    ) -> bool:
        if number <= seen.get(issuer, (0, 0))[1]:
            return False
        seen[issuer] = life, number
        return True


class ForwardEverywhere(ContentRouter):
    """Sends an event on through every interface that wants it, in the tree or not."""

    def forward(self, publication: Publication, view: View, out: list[Action]) -> None:
        self.local.deliver(publication, out)
        out.extend(
            Send(name, publication)
            for name in self.plane.neighbours.up()
            if self.is_wanted(name, publication.event, view)
            and name != view.routes.hop.get(publication.source)
        )


class ForwardBlindly(ContentRouter):
    """Sends an event on in the whole tree."""

    def wanting(
        self, interfaces: tuple[str, ...], event: dict[str, Any], view: View
    ) -> list[str] | tuple[str, ...]:
        return interfaces


class NeverSeen(Once):
    def first(self, publication: Numbered) -> bool:
        return True


class RepetitionsPass(ContentRouter):
    """Takes every packet for a new one."""

    once_of = NeverSeen


class UnorderedPlane(LinkState):
    def is_newer(self, record: Record, known: Record) -> bool:
        return (record.number, record.life) != (known.number, known.life)


class NumbersNotCompared(ContentRouter):
    """Takes every different record for a newer one."""

    plane_of = UnorderedPlane


class AgelessPlane(LinkState):
    def sweep(self, now: int) -> None:
        pass


class NoAging(ContentRouter):
    """Keeps records for ever."""

    plane_of = AgelessPlane


class OptimisticPlane(LinkState):
    def links(self) -> tuple[tuple[str, int], ...]:
        known = self.neighbours.known
        self.ever = {**getattr(self, "ever", {}), **dict(super().links())}
        return tuple(sorted((name, cost) for name, cost in self.ever.items() if name in known))


class LinkDownNotTold(ContentRouter):
    """Tells of links that are up, and not when they go down unannounced."""

    plane_of = OptimisticPlane


class ForgetfulPlane(LinkState):
    def recover(self, record: Record, now: int) -> None:
        pass


class NumberNotRecovered(ContentRouter):
    """Ignores that others remember a higher number of its own records."""

    plane_of = ForgetfulPlane


class TiedPlane(LinkState):
    def weight(self, low: str, high: str, cost: int) -> int:
        return cost * UNIT


class TiesNotBroken(ContentRouter):
    """Takes links for equally long that cost the same, so that paths tie."""

    plane_of = TiedPlane


class PatientNeighbours(Neighbours):
    def expire(self, now: int) -> list[str]:
        return []


class PatientPlane(LinkState):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.neighbours = PatientNeighbours(self.life, self.timing)


class SilenceNotNoticed(ContentRouter):
    """Takes a link for up until it is told that it is down."""

    plane_of = PatientPlane


class CutShort(ContentRouter):
    """Leaves out what does not fit, where it should say something coarser."""

    def join(self, predicates: Iterable[str]) -> str:
        whole = join(predicates)
        if len(whole) <= self.effort.bounds.characters:
            return whole
        return " or ".join(whole.split(" or ")[:1])


class NothingTold(ContentRouter):
    """Says nothing where what it should say is too long."""

    def reply(self, found: list[str]) -> str:
        whole = join((self.interest(), *found))
        return NOTHING if len(whole) > self.effort.bounds.characters else whole


class FirstTable(Board):
    def _take(self, table: dict[str, str]) -> None:
        if len(self._table) < len(table):
            super()._take(table)


class BoardNeverLooksAgain(ContentRouter):
    """Matches by the table as it was when the last interface came."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.board = FirstTable(Scan())


class FullBoard(Board):
    def _replace(self, interface: str, text: str) -> None:
        self._parts.pop(interface, None)
        super()._replace(interface, text)


class BoardForgetsNothing(ContentRouter):
    """Leaves in the matcher what an interface no longer wants."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.board = FullBoard(Scan())


class NewestView(ContentRouter):
    """Forwards every event by its own newest view, whatever its source sees."""

    def view_of(self, publication: Publication) -> View:
        return self.views.newest


class SwitchAtOnce(ContentRouter):
    """Publishes by new paths as soon as it knows them, and not when every node does."""

    def _rerouted(self, now: int, out: list[Action]) -> None:
        super()._rerouted(now, out)
        self._end_switch(now, out)


class NoMarker(ContentRouter):
    """Publishes by new paths before its earlier events have passed."""

    def _start_switch(self, now: int, out: list[Action]) -> None:
        self._end_switch(now, out)


class FormerViewsForget(ContentRouter):
    """Adds advertisements to the newest view only."""

    def widen(self, issuer: str, neighbour: str, predicate: str) -> None:
        tables = [(view, dict(view.table)) for view in self.views.former()]
        super().widen(issuer, neighbour, predicate)
        for view, table in tables:
            view.table = table


class ReceiptBeforeSwitch(ContentRouter):
    """Confirms the advertisement of a node to which it does not publish yet."""

    def publishes_to(self, issuer: str) -> bool:
        return True


class PrunesTooSoon(ContentRouter):
    """Prunes while other nodes still publish by a former view."""

    def added(self, predicate: str) -> str:
        self._all_switched = True
        return super().added(predicate)


class FloodForEver(FloodRouter):
    """Floods duplicates as well."""

    once_of = NeverSeen


class AnyLife(Replies):
    def is_reborn(self, answer: Answer) -> bool:
        return False


class ReplyToAnyLife(ContentRouter):
    """Hands feedback to whoever has published as many events in this life."""

    replies_of = AnyLife


class Silent(Replies):
    def turn_back(
        self, answer: Answer, came_from: str | None, reason: str, out: list[Action]
    ) -> None:
        pass


class ReplierNotTold(ContentRouter):
    """Tells nobody that feedback did not arrive."""

    replies_of = Silent


class Everywhere(Replies):
    def send(self, answer: Answer, came_from: str | None, out: list[Action]) -> None:
        super().send(answer, came_from, out)
        out.extend(action for action in list(out) if type(action) is Send)


class ReplySentTwice(ContentRouter):
    """Sends feedback twice, so that it takes more packets than the distance."""

    replies_of = Everywhere


class NeverInForce(ContentRouter):
    """Does not say that an advertisement is in force."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        out = super().handle(cause, now)
        return [action for action in out if not isinstance(action, InForce)]


class WithdrawnInForce(FloodRouter):
    """Says of an advertisement that was withdrawn that it is in force."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        out = super().handle(cause, now)
        if isinstance(cause, Unadvertise):
            out.append(InForce((cause.id,)))
        return out


class Parcelled(FloodRouter):
    """Sends envelopes, though the protocol has not declared that it needs paths to any node."""

    def handle(self, cause: Cause, now: int) -> list[Action]:
        return [
            Send(action.neighbour, Parcel("", 1, 1, action.neighbour, 0, action.packet))
            if type(action) is Send and type(action.packet) is Publication
            else action
            for action in super().handle(cause, now)
        ]


class Plant(NamedTuple):
    """A planted bug."""

    protocol: str
    make: Make
    first: int = 0  # the seed to begin with: an earlier one is known not to catch it


PLANTS: Final[dict[str, Plant]] = {
    "pruned by interface": Plant("cbcb", PruneByInterface),
    "covering reversed": Plant("cbcb", CoveringReversed, first=3),
    "advertisement replaces": Plant("cbcb", AdvertisementReplaces),
    "reply forgets itself": Plant("cbcb", ReplyForgetsItself),
    "reply forgets others": Plant("cbcb", ReplyForgetsOthers),
    "reply takes one branch": Plant("cbcb", ReplyTakesOneBranch),
    "reply overtakes": Plant("cbcb", ReplyOvertakes, first=36),
    "reply widens": Plant("cbcb", ReplyWidens),
    "any view": Plant("cbcb", AnyView, first=5),
    "no reverse path": Plant("cbcb", NoReversePath, first=12),
    "early receipt": Plant("cbcb", EarlyReceipt, first=11),
    "established at once": Plant("cbcb", EstablishedAtOnce),
    "no retry": Plant("cbcb", NoRetry),
    "unsubscribe ignored": Plant("cbcb", UnsubscribeIgnored, first=1),
    "unsubscribed matches": Plant("cbcb", UnsubscribedMatches),
    "lives not told": Plant("cbcb", LivesNotTold),
    "forward everywhere": Plant("cbcb", ForwardEverywhere, first=1),
    "forward blindly": Plant("cbcb", ForwardBlindly, first=1),
    "repetitions pass": Plant("cbcb", RepetitionsPass),
    "numbers not compared": Plant("cbcb", NumbersNotCompared),
    "no aging": Plant("cbcb", NoAging, first=9),
    "link down not told": Plant("cbcb", LinkDownNotTold, first=1),
    "number not recovered": Plant("cbcb", NumberNotRecovered, first=16),
    "ties not broken": Plant("cbcb", TiesNotBroken),
    "silence not noticed": Plant("cbcb", SilenceNotNoticed),
    "cut short": Plant("cbcb", CutShort),
    "nothing told": Plant("cbcb", NothingTold),
    "board never looks again": Plant("cbcb", BoardNeverLooksAgain),
    "board forgets nothing": Plant("cbcb", BoardForgetsNothing),
    "newest view": Plant("cbcb", NewestView),
    "switch at once": Plant("cbcb", SwitchAtOnce),
    "no marker": Plant("cbcb", NoMarker),
    "former views forget": Plant("cbcb", FormerViewsForget),
    "receipt before switch": Plant("cbcb", ReceiptBeforeSwitch, first=40),
    "prunes too soon": Plant("cbcb", PrunesTooSoon),
    "flood for ever": Plant("flood", FloodForEver),
    "reply to any life": Plant("cbcb", ReplyToAnyLife, first=15),
    "replier not told": Plant("cbcb", ReplierNotTold, first=4),
    "reply sent twice": Plant("cbcb", ReplySentTwice, first=4),
    "never in force": Plant("cbcb", NeverInForce, first=4),
    "withdrawn in force": Plant("flood", WithdrawnInForce, first=4),
    "not declared": Plant("flood", Parcelled),
    **{name: Plant(bug.protocol, bug.make, bug.first) for name, bug in LAYER_BUGS.items()},
    **{name: Plant(bug.protocol, bug.make, bug.first) for name, bug in REVERSE_PATH_BUGS.items()},
    **{name: Plant(bug.protocol, bug.make, bug.first) for name, bug in STRUCTURED_BUGS.items()},
    **{name: Plant(bug.protocol, bug.make, bug.first) for name, bug in CYCLE_BUGS.items()},
}


def catch(name: str, seeds: int = 200, first: int | None = None) -> Verdict | None:
    """The verdict of the first seed that finds a planted bug; None if none of `seeds` seeds does.

    The seeds begin with the plant's own, or with `first`.
    """
    plant = PLANTS[name]
    begin = plant.first if first is None else first
    for seed in range(begin, begin + seeds):
        options = draw_options(seed, "small", plant.protocol, ALL_FAULTS)
        verdict = run_trial(options, plant.make, first_only=True)
        if verdict.violations:
            return verdict
    return None
