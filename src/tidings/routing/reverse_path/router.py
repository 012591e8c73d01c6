"""The router that learns by the reverse path (S10–S14): one router, a few knobs.

A node keeps all that its neighbours tell it, and what its own users want. What it tells a neighbour
is a function of that: what anyone but that neighbour wants, summed up by the policy of the link. An
event goes back along the links by which filters came that it matches.

With *advertisements* (S11) a filter is told to a link only if something advertised behind that link
may match it; whatever is wanted stays held, and is looked at again when advertisements change. In a
*rooted* tree (S14) subscriptions go towards the root only, and every event climbs to the root.

Nodes use the links of one spanning tree. Invariant: at every moment what a node has told a link
covers all that anyone else wants of what may be published behind it. Changes are atomic, so an
event that matches an established subscription finds a filter that covers it at each node.

While the tree changes, former links and new ones make cycles. A filter that nobody wants any more
would travel round them, told and withdrawn in turn, as fast as links carry it. So a node whose own
links change withdraws what it has told only a while later: until then such filters are *kept*.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tidings.matching.scan import Scan
from tidings.routing.packets import (
    Answer,
    Audit,
    Change,
    Climb,
    Hello,
    Packet,
    Publication,
    Records,
    Reminder,
    Returned,
    Standing,
    Summary,
)
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import EVERYTHING, shortened
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.link_table import Link, LinkTables, Taken, digest_of
from tidings.routing.planes.local import Local
from tidings.routing.planes.once import Once
from tidings.routing.planes.replies import Replies
from tidings.routing.planes.spanning import Spanning, linger
from tidings.routing.planes.steady import Steady
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    USUAL,
    Action,
    Advertise,
    Cause,
    Decline,
    Drop,
    Established,
    Feedback,
    InForce,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Timing,
    Unadvertise,
    Unsubscribe,
    Woken,
    earliest,
)
from tidings.routing.reverse_path.adapting import Ladder, size_of
from tidings.routing.reverse_path.advertising import IMPLICIT, Advertised
from tidings.routing.reverse_path.covering import Covers
from tidings.routing.reverse_path.filters import HERE, Held, filters_of, matched_by
from tidings.routing.reverse_path.knobs import Knobs, Rooted
from tidings.routing.reverse_path.merging import SEEN, TUNE, Mergers

USUAL_SIZE: Final = 128  # bytes of an event, before any was seen
SHOWN: Final = 3  # filters of which an explanation says how they are told
MOST_WASTE: Final = 1 << 40  # bytes a second that are reported
MOST_HELD: Final = 1 << 17  # filters from a neighbour; of more, only that it wants everything
MOST_QUEUED: Final = 4_096  # events that wait for an advertisement


class _Subscribed(NamedTuple):
    """A subscription that waits to be established."""

    id: str


class _InForce(NamedTuple):
    """An advertisement that waits to be in force."""

    id: str
    turn: int


class ReversePathRouter:
    """A node.

    >>> node = ReversePathRouter("a")
    >>> node.handle(Subscribe("ada", "severity > 2"), 0)
    [Established(subscriptions=('ada',))]
    >>> [action.subscriptions for action in node.handle(Publish({"severity": 3}), 0)]
    [('ada',)]
    """

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
        matcher: Callable[[], Any] = Scan,
        board: Board | None = None,
        options: Knobs | None = None,
    ) -> None:
        self.knobs = options or Knobs()
        self.timing = timing
        self.local = Local(node, life, None if board is not None else matcher)
        self.plane = self.plane_of(node, life, timing, topologies or Topologies())
        self.spanning = self.spanning_of(self.plane, self.knobs.root)
        self.tables = self.tables_of(life, timing)
        self.wanted = Held()
        self.covers = self.covers_of(self.wanted)
        self.base: dict[str, dict[str, None]] = {}  # by link: what to tell, before any merging
        self.merged: dict[str, Mergers] = {}  # by link
        self.ladders: dict[str, Ladder] = {}  # by link, if each chooses its policy
        self.advertised = Advertised(self.knobs, linger(timing))
        self.replies = self.replies_of(node, life, self.plane_hop)
        self.seen: deque[dict[str, Any]] = deque(maxlen=SEEN)  # events, the newest last
        self.bursts: Counter[int] = Counter()  # filters added by changes that remove one
        self.dead_ends = 0  # packets that came in vain
        self.repairs = 0  # links to which everything was told anew
        self._links = matcher()  # all filters held, by text
        self._uses: Counter[str] = Counter()  # of a filter, by subscriptions here
        self._dirty: dict[str, None] = {}  # filters that someone has begun or ceased to want
        self._retell: dict[str, None] = {}  # links to which everything is looked at again
        self._took: list[tuple[str, int]] = []  # changes of neighbours, taken just now
        self._departing: dict[tuple[str, str], int] = {}  # what is withdrawn later (`lazy`)
        self._queued: list[Publication] = []  # events that wait for an advertisement
        self._up: dict[str, bool] = {}  # by link: whether it led to the root, when last told
        self._joining: list[_InForce] = []  # advertisements to settle, after the first links came
        self._kept: dict[str, dict[str, int]] = {}  # by link: what is withdrawn later, and when
        self._kept_adverts: dict[str, int] = {}  # by link: when the next of them are withdrawn
        self._past: set[str] = set()  # links with more to tell than `most_told`
        self._overrun: dict[str, int] = {}  # how much neighbours tell, if more than `MOST_HELD`
        self._reports: dict[str, int] = {}  # by link: waste, as it is reported
        self._tune_at: int | None = None
        self._wake_at: int | None = None  # as of the last cause that may have changed it
        self._usual_size = USUAL_SIZE  # of an event, in bytes
        self._clock = Steady()
        self._once = self.once_of()
        self._climbed = self.once_of()

    plane_of: type[LinkState] = LinkState
    spanning_of: type[Spanning] = Spanning
    tables_of: type[LinkTables] = LinkTables
    covers_of: type[Covers] = Covers
    replies_of: type[Replies] = Replies
    mergers_of: type[Mergers] = Mergers
    ladder_of: type[Ladder] = Ladder
    once_of: type[Once] = Once
    is_switching = False

    def plane_hop(self, node: str) -> str | None:
        """The neighbour that leads to a node."""
        return self.plane.routes.hop.get(node)

    # Causes

    def handle(self, cause: Cause, now: int) -> list[Action]:
        """What to do about a cause."""
        out: list[Action] = []
        now = self._clock.read(now)
        match cause:
            case Received(neighbour, packet):
                if type(packet) is Publication:
                    self._event(neighbour, packet, now, out)
                    if neighbour not in self.ladders or not self.ladders[neighbour].is_due:
                        return out
                else:
                    self._received(neighbour, packet, now, out)
            case Publish(event):
                self._publish(event, now, out)
            case Woken():
                self.plane.wake(now, out)
                self.tables.wake(now, out)
                self._audit(now, out)
                self._tune(now)
                self._depart(now)
                self._changed_adverts(self.advertised.wake(now))
            case LinkUp(neighbour, cost):
                self.plane.link_up(neighbour, cost, now, out)
            case LinkDown(neighbour):
                self.plane.link_down(neighbour, now)
            case Subscribe(id, predicate):
                self._subscribe(id, predicate)
                self._follow(now, out)
                self.tables.forget(_Subscribed(id))
                self.tables.wait(_Subscribed(id))
            case Unsubscribe():
                id = self.local.meant(cause)
                self._forget(self.local.unsubscribe(id), now)
                self.tables.forget(_Subscribed(id))
            case Advertise(id, predicate):
                self._advertise(id, predicate, now, out)
            case Unadvertise(id):
                self._unadvertise(id, now, out)
            case Feedback():
                self.replies.reply(cause, out)
            case Decline():
                self.replies.decline(cause, out)
            case Leave():
                self.plane.leave(now, out)
            case _:
                raise TypeError(f"no cause: {cause!r}")
        self._follow(now, out)
        self._wake_at = self._deadline()
        return out

    def _subscribe(self, id: str, predicate: str) -> None:
        before = self.local.subscribe(id, predicate)
        for text in filters_of(predicate):
            self._uses[text] += 1
            self.want(text, HERE)
        self._forget(before, None)

    def _forget(self, predicate: str | None, now: int | None) -> None:
        """A subscription here has gone."""
        for text in () if predicate is None else filters_of(predicate):
            self._uses[text] -= 1
            if not self._uses[text]:
                del self._uses[text]
                self.unwant(text, HERE, now)

    # What is wanted, and by whom

    def want(self, text: str, who: str) -> None:
        """Someone wants a filter: a neighbour's side, or users here."""
        self._departing.pop((text, who), None)
        new = text not in self.wanted.who
        self.wanted.put(text, who)
        self._dirty[text] = None  # even if it is held: perhaps by mistake, and was never told on
        if new:
            self._links.add(text, matched_by(text))

    def unwant(self, text: str, who: str, now: int | None) -> None:
        """They no longer want it. With a time, and if the knob says so, that is told later."""
        if (
            now is not None
            and self.knobs.uncover == "lazy"
            and who in self.wanted.who.get(text, ())
        ):
            self._departing[text, who] = now + linger(self.timing)
            return
        self._departing.pop((text, who), None)
        self._dirty[text] = None  # even if it is not held: perhaps it got lost, and was told on
        if self.wanted.take(text, who) and text not in self.wanted.who:
            self._links.remove(text)

    def _depart(self, now: int) -> None:
        """Withdraw all at once what was to be withdrawn later, if some of it is due."""
        if any(now >= due for due in self._departing.values()):
            for text, who in list(self._departing):
                self.unwant(text, who, None)

    # Advertisements

    def _advertise(self, id: str, predicate: str, now: int, out: list[Action]) -> None:
        self.local.advertise(id, predicate)
        if not self.advertised.active:  # what is published needs no advertisement
            out.append(InForce((id,)))
            return
        self._changed_adverts(self.advertised.advertise(id, predicate, now))
        self._follow(now, out)
        self.tables.wait(_InForce(id, self.advertised.turn))

    def _unadvertise(self, id: str, now: int, out: list[Action]) -> None:
        self.local.unadvertise(id)
        self._changed_adverts(self.advertised.unadvertise(id, now))
        self._await_implicit(now, out)

    def _await_implicit(self, now: int, out: list[Action]) -> None:
        """Note when the implicit advertisement is in force, if there is one and it is not yet."""
        turn = self.advertised.implied
        if turn is not None:
            self._follow(now, out)
            self.tables.forget(_InForce(IMPLICIT, turn))
            self.tables.wait(_InForce(IMPLICIT, turn))

    def _changed_adverts(self, changed: bool) -> None:
        """What is advertised here has changed: neighbours must hear it."""
        if changed:
            self.advertised.news.update(dict.fromkeys(self.tables.links))

    # What follows: tell the neighbours, and whoever waits

    def _follow(self, now: int, out: list[Action]) -> None:
        """Tell each link the difference, in one change; then settle what can be settled."""
        self._links_in_use(now)
        affected: Mapping[str, None] = self._dirty
        if self._dirty and self.knobs.policy != "exact":
            affected = self.covers.update(self._dirty)
        for name, link in self.tables.links.items():
            if affected or self._may_differ(link):
                self._tell(name, affected, now, out)
        self._dirty = {}
        self._retell = {}
        for what in self._joining:
            self.tables.forget(what)
            self.tables.wait(what)
        self._joining = []
        for name, number in self._took:
            self.tables.follow(name, number)
        self._took = []
        self._settled(self.tables.flush(self._reports, now, out), now, out)

    def _settled(self, found: Iterable[object], now: int, out: list[Action]) -> None:
        established, in_force = [], []
        for what in found:
            if isinstance(what, _Subscribed):
                established.append(what.id)
            elif isinstance(what, _InForce):
                news = self.advertised.settle(what.id, what.turn, now)
                in_force += [what.id] if news and what.id != IMPLICIT else []
        if established:
            out.append(Established(tuple(established)))
        if in_force:
            out.append(InForce(tuple(in_force)))
        while self._queued and self.advertised.allows(self._queued[0].event, now):
            self._start(self._queued.pop(0), out)

    def _links_in_use(self, now: int) -> None:
        closed, opened = self.spanning.refresh(now)
        for name in closed:
            self.tables.close(name)
            self.lose(name)
            del self.base[name], self._up[name], self._kept[name]
            self._kept_adverts.pop(name, None)
            self.merged.pop(name, None)
            self.ladders.pop(name, None)
            self._past.discard(name)
        if closed:
            self._dirty.update(dict.fromkeys(self._unnoticed()))
        if opened and len(self.tables.links) == 0:
            self._joins()
        for name in opened:
            self.tables.open(name, self.spanning.branches[name].life)
            self.base[name] = {}
            self._kept[name] = {}
            self._up[name] = False
            if self.knobs.policy == "adaptive":
                self.ladders[name] = self.ladder_of(self.knobs.trial)
            elif self.knobs.policy == "merging":
                self._begin_merging(name, now)
            self._retell[name] = None
        if isinstance(self.knobs, Rooted):
            for name, branch in self.spanning.branches.items():
                if branch.up is not self._up[name]:
                    self._up[name] = branch.up
                    self._retell[name] = None

    def _unnoticed(self) -> list[str]:
        """Filters that are wanted otherwise than when they were last told on: memory was wrong.

        Audits find that while the link lasts. Once it is down, nobody tells those filters anew.
        """
        found = self.covers.unnoticed()
        for name, base in self.base.items():
            found += [text for text in base if not self.wanted.besides(text, name)]
        return found

    def _joins(self) -> None:
        """The first links come: what this node advertises is in force when they have settled."""
        for id, turn in self.advertised.unsettle():
            self._joining.append(_InForce(id, turn))

    def lose(self, name: str) -> None:
        """A link is down: forget what the neighbour told."""
        self._overrun.pop(name, None)
        for text in list(self.wanted.by(name)):
            self.unwant(text, name, None)
        if self.advertised.lose(name):
            self._changed_adverts(True)

    def policy_of(self, name: str) -> str:
        """The policy of a link."""
        ladder = self.ladders.get(name)
        return self.knobs.policy if ladder is None else ladder.policy

    def tells(self, name: str) -> bool:
        """Whether subscriptions are told to a neighbour."""
        return not isinstance(self.knobs, Rooted) or self.spanning.branches[name].up

    def is_told(self, text: str, name: str) -> bool:
        """Whether to tell a neighbour a filter, before any merging."""
        if not self.wanted.besides(text, name) or not self.tells(name):
            return False
        if self.policy_of(name) != "exact" and self.covers.cover(text, name) is not None:
            return False
        return self.advertised.meets(text, name)

    def is_due(self, text: str, name: str) -> bool:
        """Whether a neighbour must hear of a filter, by this or by one that covers it."""
        wanted = self.wanted.besides(text, name) and self.tells(name)
        return wanted and self.advertised.meets(text, name)

    def _may_differ(self, link: Link) -> bool:
        """Whether a link may have to hear something although no filter has changed."""
        name = link.name
        return (
            not link.number
            or bool(self._kept[name])
            or name in self._retell
            or name in self.advertised.retold
            or name in self._past
            or self.knobs.policy not in ("exact", "covering")
            or len(link.told) > self.knobs.most_told
            or self.advertised.has_news_for(name, link.advertised)
        )

    def _tell(self, name: str, affected: Mapping[str, None], now: int, out: list[Action]) -> None:
        link, base, kept = self.tables.links[name], self.base[name], self._kept[name]
        if name in self._retell or name in self.advertised.retold:
            self.advertised.retold.pop(name, None)
            affected = {**affected, **base, **dict.fromkeys(self.wanted.who)}
        due = self._kept_until_now(kept, now) if kept else ()
        if due:
            affected = dict.fromkeys((*affected, *due))
        added, removed = [], []
        for text in affected:
            if self.is_told(text, name):
                kept.pop(text, None)
                if text not in base:
                    added.append(text)
            elif text in base and not self.keeps(text, name, now):
                removed.append(text)
        for text in added:
            base[text] = None
        for text in removed:
            del base[text]
        if removed and added:
            self.bursts[len(added)] += 1
        if name in self.ladders:
            added, removed = self._adapt(name, affected, added, removed, now)
        elif self.knobs.policy == "merging":
            added, removed = self._merge(name, added, removed)
        elif self.knobs.policy == "everything":
            added, removed = _difference(_everything(base), link.told)
        for text in due:
            kept.pop(text, None)
        added, removed = self._bounded(name, added, removed)
        more, less = self._adverts_for(name, now)
        if added or removed or more or less or not link.number:
            self.tables.tell(name, added, removed, more, less, now, out)

    def keeps(self, text: str, name: str, now: int) -> bool:
        """Whether a filter that a link need not be told any more is withdrawn later."""
        if not self.spanning.is_moving:
            return False
        return now < self._kept[name].setdefault(text, now + linger(self.timing))

    def _kept_until_now(self, kept: Mapping[str, int], now: int) -> list[str]:
        """The filters that are kept no longer."""
        moving = self.spanning.is_moving
        return [text for text, until in kept.items() if not moving or now >= until]

    def _adverts_for(self, name: str, now: int) -> tuple[list[str], list[str]]:
        """What to advertise to a link, and what to withdraw; the latter later, as with filters."""
        more, less = self.advertised.news_for(name, self.tables.links[name].advertised)
        until = now + linger(self.timing)
        moving = less and self.spanning.is_moving
        if moving and now < self._kept_adverts.setdefault(name, until):
            self.advertised.news[name] = None  # look again
            return more, []
        self._kept_adverts.pop(name, None)
        return more, less

    def _bounded(
        self, name: str, added: list[str], removed: list[str]
    ) -> tuple[list[str], list[str]]:
        """The same change, unless that is too much for a link: then `true` stands for all."""
        told, most = self.tables.links[name].told, self.knobs.most_told
        if name in self._past:
            self._past.discard(name)
            if 4 * len(self._target(name)) > 3 * most:
                self._past.add(name)
        elif len(told) + len(added) - len(removed) > most:
            self._past.add(name)
        else:
            return added, removed
        return _difference(self._target(name), told)

    def _target(self, name: str) -> Mapping[str, None]:
        """All that a link is to have been told."""
        base, policy = self.base[name], self.policy_of(name)
        if name in self._past or policy == "everything":
            return _everything(base)
        if policy == "merging":
            return self.merged[name].told()
        return self.ladders[name].precise if name in self.ladders else base

    def _audit(self, now: int, out: list[Action]) -> None:
        """Say what is held of neighbours, from time to time.

        One that has told too much is asked to begin anew when it is not too much any more.
        """
        for link in self.tables.due_audits(now):
            if 4 * self._overrun.get(link.name, 0) <= 3 * MOST_HELD:
                held = self.wanted.by(link.name), self.advertised.held.by(link.name)
                packet = Audit(link.life, link.theirs, link.here, digest_of(*held))
                out.append(Send(link.name, packet))

    def _tell_anew(self, name: str, now: int, out: list[Action]) -> None:
        """A neighbour holds something else than it was told: tell it what is right."""
        self.repairs += 1
        told = self._target(name)
        self.tables.tell_anew(name, told, self.advertised.told_to(name), now, out)

    def _merge(
        self, name: str, added: list[str], removed: list[str]
    ) -> tuple[list[str], list[str]]:
        """What to tell a link, and what to take back, after merging."""
        mergers = self.merged[name]
        for text in removed:
            mergers.remove(text)
        for text in added:
            mergers.add(text)
        return _difference(mergers.told(), self.tables.links[name].told)

    def _begin_merging(self, name: str, now: int) -> None:
        """From now on, what a link is told is merged."""
        mergers = self.merged[name] = self.mergers_of(self.knobs.most_filters)
        for text in self.base[name]:
            mergers.add(text)
        if self._tune_at is None:
            self._tune_at = now + TUNE

    def _adapt(
        self,
        name: str,
        affected: Mapping[str, None],
        added: list[str],
        removed: list[str],
        now: int,
    ) -> tuple[list[str], list[str]]:
        """What to tell a link that chooses its policy; its base has changed by these."""
        ladder, base, told = self.ladders[name], self.base[name], self.tables.links[name].told
        precise = ladder.precise
        more = [text for text in added if text not in precise]
        less = [
            text
            for text in affected
            if text in precise and not self.is_due(text, name) and not self.keeps(text, name, now)
        ]
        for text in more:
            precise[text] = None
        for text in less:
            del precise[text]
        known = size_of(more, less)
        ladder.merges = len(base) > self.knobs.most_filters
        once = stepped = ladder.step()
        if stepped:
            self.merged.pop(name, None)
            added, removed = [], []
        match ladder.policy:
            case "covering":
                added, removed = _difference(precise, told) if stepped else (more, less)
                if ladder.looks():
                    superfluous = [text for text in precise if text not in base]
                    if ladder.tidies(superfluous):
                        once = True
                        for text in superfluous:
                            del precise[text]
                        added, removed = _difference(precise, told)
            case "merging":
                if stepped:
                    self._begin_merging(name, now)
                added, removed = self._merge(name, added, removed)
                if ladder.looks() and ladder.tidies(removed):
                    once = True
                else:
                    removed = [text for text in removed if text not in precise]
            case "everything":
                target = _everything(base)
                added = [text for text in target if text not in told]
                removed = []
                if not base or ladder.looks():
                    removed = [text for text in told if text not in target]
                    once |= not base or ladder.tidies(removed)
                    removed = removed if once else []
        ladder.told(size_of(added, removed), known, once)
        return added, removed

    def _tune(self, now: int) -> None:
        """A window ends: mergers are taken apart and joined."""
        if self._tune_at is None or now < self._tune_at:
            return
        self._tune_at = now + TUNE
        for name, mergers in self.merged.items():
            mergers.tune(max(0, self.knobs.waste - self._behind(name)), self.seen)
        # Once a window only: while the tree changes, reports may travel round a cycle and grow.
        self._reports = {name: self._report(name) for name in self.tables.links}

    def _behind(self, name: str) -> int:
        """The bytes a second in vain that all links but one report."""
        return sum(link.waste for other, link in self.tables.links.items() if other != name)

    def _report(self, name: str) -> int:
        """What this node reports to a neighbour: its own waste, and that of those behind it."""
        mine = self.merged.get(name)
        return min((0 if mine is None else mine.rate) + self._behind(name), MOST_WASTE)

    # Packets

    def _received(self, neighbour: str, packet: Packet, now: int, out: list[Action]) -> None:
        match packet:
            case Hello():
                self.plane.hello(neighbour, packet, now, out)
            case _ if neighbour not in self.plane.neighbours.known:
                out.append(Drop("no such link", packet))
            case Records():
                self.plane.news(neighbour, packet, now, out)
            case Summary():
                self.plane.summary(neighbour, packet, now, out)
            case Change():
                for taken in self.tables.change(neighbour, packet, now, out):
                    self._take(neighbour, taken)
            case Standing():
                self.tables.standing(neighbour, packet, now, out)
                if neighbour in self.ladders:
                    self.ladders[neighbour].reported(packet.unsent, self._usual_size)
                if packet.waste and self._tune_at is None:  # to report it on
                    self._tune_at = now + TUNE
            case Reminder():
                self.tables.reminder(neighbour, packet, out)
            case Audit():
                if self.tables.differs(neighbour, packet, out):
                    self._tell_anew(neighbour, now, out)
            case Climb(publication):
                self._climb(neighbour, publication, out)
            case Answer():
                self.replies.answer(neighbour, packet, out)
            case Returned():
                self.replies.returned(neighbour, packet, out)
            case _:
                out.append(Drop("not of this protocol", packet))

    def _take(self, neighbour: str, taken: Taken) -> None:
        """Apply a change of a neighbour: first what is added, then what is removed."""
        held, adverts = self.wanted.by(neighbour), self.advertised.held.by(neighbour)
        if taken.anew:
            self._overrun.pop(neighbour, None)
        count = 0 if taken.anew else self._overrun.get(neighbour, len(held) + len(adverts))
        count += len(taken.added) - len(taken.removed)
        count += len(taken.advertised) - len(taken.withdrawn)
        if neighbour in self._overrun:  # it wants everything, until it begins anew
            self._overrun[neighbour] = count
            taken = taken._replace(added=(), removed=(), advertised=(), withdrawn=())
        elif count > MOST_HELD:
            self._overrun[neighbour] = count
            advertised = (EVERYTHING,) if taken.advertised or adverts else ()
            taken = taken._replace(anew=True, added=(EVERYTHING,), advertised=advertised)
        removed: Iterable[str] = taken.removed
        withdrawn: Iterable[str] = taken.withdrawn
        if taken.anew:
            kept, promised = frozenset(taken.added), frozenset(taken.advertised)
            removed = [text for text in held if text not in kept]
            withdrawn = [text for text in adverts if text not in promised]
        for text in taken.added:
            self.want(text, neighbour)
        for text in removed:
            self.unwant(text, neighbour, None)
        if self.advertised.take(neighbour, taken.advertised, withdrawn):
            self._changed_adverts(True)
        self._took.append((neighbour, taken.number))

    # Events

    def _publish(self, event: dict[str, Any], now: int, out: list[Action]) -> None:
        publication = self.local.publish(event)
        if not self._queued and self.advertised.allows(event, now):
            self._start(publication, out)
        elif not self.advertised.implies or len(self._queued) >= MOST_QUEUED:
            out.append(Drop("not advertised", publication))
        else:
            self._queued.append(publication)
            self._changed_adverts(self.advertised.imply(now))
            self._await_implicit(now, out)

    def _start(self, publication: Publication, out: list[Action]) -> None:
        """An event sets out from here."""
        if isinstance(self.knobs, Rooted) and self.knobs.direction == "down":
            self._climb(HERE, publication, out)
        else:
            self._once.first(publication)
            self._forward(publication, HERE, out)

    def _event(self, neighbour: str, packet: Publication, now: int, out: list[Action]) -> None:
        if neighbour not in self.spanning.branches:
            out.append(Drop("not a link of the tree", packet))
        elif self._once.first(packet):
            self._forward(packet, neighbour, out)
        else:
            out.append(Drop("a duplicate", packet))

    def _climb(self, neighbour: str, publication: Publication, out: list[Action]) -> None:
        """An event on its path to the root: it is delivered on its path down."""
        if neighbour != HERE and neighbour not in self.spanning.branches:
            out.append(Drop("not a link of the tree", publication))
        elif not self._climbed.first(publication):
            out.append(Drop("a duplicate", publication))
        else:
            above = [name for name in self._above() if name != neighbour]
            out.extend(Send(name, Climb(publication)) for name in above)
            # A former root knows what its tree wants; the new one has yet to hear it. A node that
            # was alone is one, too: its neighbour may not use the link yet, and drop what climbs.
            if self.spanning.is_root and self._once.first(publication):
                self._forward(publication, HERE, out)

    def _above(self) -> list[str]:
        """The links that lead to the root, or did until recently."""
        return [name for name, branch in self.spanning.branches.items() if branch.up]

    def wanting(self, event: dict[str, Any]) -> dict[str, None]:
        """The neighbours, and perhaps `HERE`, that want an event."""
        found: dict[str, None] = {}
        for text in self._links.match(event):
            found.update(self.wanted.who[str(text)])
        return found

    def _forward(self, publication: Publication, origin: str, out: list[Action]) -> None:
        event = publication.event
        self.local.deliver(publication, out)
        found = self.wanting(event)
        if self.merged or self.ladders:
            self._note(publication, origin, found)
        if isinstance(self.knobs, Rooted) and self.knobs.direction == "both":
            found.update(dict.fromkeys(self._above()))
        for name, link in self.tables.links.items():
            if name == origin:
                continue
            if name in found:
                out.append(Send(name, publication))
            else:
                link.unsent += 1

    def _note(self, publication: Publication, origin: str, found: dict[str, None]) -> None:
        """Measure what coarse filters attract: does anyone want it but where it comes from?"""
        event = publication.event
        self.seen.append(event)
        in_vain = not (found.keys() - {origin})
        mergers, ladder = self.merged.get(origin), self.ladders.get(origin)
        if mergers is not None and mergers.mergers:
            self.dead_ends += in_vain
            mergers.note(event, len(msgspec.msgpack.encode(event)), in_vain)
        elif ladder is not None and ladder.policy == "everything":
            self.dead_ends += in_vain
        if self.ladders:
            size = len(msgspec.msgpack.encode(publication))
            self._usual_size += (size - self._usual_size) // 8
            if ladder is not None:
                ladder.came(size if in_vain and self.tells(origin) else 0)

    # What those around it must know

    def timer(self) -> int | None:
        """When to wake."""
        return self._clock.shown(self._wake_at)

    def _deadline(self) -> int | None:
        when = earliest(self.plane.timer(), self.spanning.timer(), self.tables.timer())
        when = earliest(when, self.advertised.timer(), self._tune_at)
        for kept in self._kept.values():
            if kept:
                when = earliest(when, next(iter(kept.values())))  # the first is due first
        if self._kept_adverts or self._departing:
            when = earliest(when, *self._kept_adverts.values(), *self._departing.values())
        return when

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        held = {text: sorted(who) for text, who in sorted(self.wanted.who.items())}
        told = {name: sorted(link.told) for name, link in sorted(self.tables.links.items())}
        return {
            **self.plane.snapshot(),
            "root": self.spanning.root,
            "subscriptions": dict(sorted(self.local.subscriptions.items())),
            "wanted": held,
            "told": told,
            "advertised": self.advertised.snapshot(),
            "settled": self.is_settled(),
        }

    def figures(self) -> dict[str, int]:
        """Counts for metrics: filters held and told, mergers, and what came in vain."""
        return {
            "filters_held": len(self.wanted.who),
            "filters_told": sum(len(link.told) for link in self.tables.links.values()),
            "changes": self.tables.changes,
            "advertisements_held": len(self.advertised.held.who),
            "mergers": sum(len(mergers.mergers) for mergers in self.merged.values()),
            "events_in_vain": self.dead_ends,
            "links_merging": len(self.merged),
            "links_everything": sum(
                self.policy_of(name) == "everything" for name in self.tables.links
            ),
            "links_past_bound": len(self._past) + len(self._overrun),
            "repairs": self.repairs,
            "steps": sum(ladder.steps for ladder in self.ladders.values()),
        }

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        """The places of the events that somebody may want: all of them."""
        return range(len(events))

    def is_settled(self) -> bool:
        """Whether this node is at rest."""
        resting = not self.spanning.is_changing and self.tables.is_settled()
        return resting and self.plane.is_settled() and not self._departing

    @property
    def hops(self) -> Mapping[str, str]:
        """The neighbour that leads to each node, once that has been the same for a while."""
        return self.spanning.hops

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it is in no reach."""
        return self.plane.life_of(node)

    @property
    def table(self) -> dict[str, str]:
        """Nothing: it keeps filters, not a predicate for each interface."""
        return {}

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        """For each link, whether an event of this source would take it from here, and why.

        Also what this node tells the link about such events, where that is not the filter itself.
        """
        matching = sorted(str(text) for text in self._links.match(event))
        refused = source == self.local.node and not self.advertised.covers(event)
        found: dict[str, tuple[bool, str]] = {}
        for name in self.plane.neighbours.known:
            takes, why = self._explain(name, matching, source)
            if refused and takes:
                why += "; no advertisement in force here covers it: it waits for one"
            found[name] = takes, "; ".join((why, *self._said(name, matching)))
        return found

    def _explain(self, name: str, matching: list[str], source: str) -> tuple[bool, str]:
        branch = self.spanning.branches.get(name)
        if branch is None:
            up = self.plane.neighbours.is_up(name)
            return False, "the link is not of the tree" if up else "the link is down"
        if isinstance(self.knobs, Rooted) and branch.up:
            down = self.knobs.direction == "down"
            if not down or source != self.spanning.root:
                return True, f"every event climbs to the root, {self.spanning.root}"
        wanted = next((text for text in matching if name in self.wanted.who[text]), None)
        if wanted is not None:
            return True, f"nodes behind it want: {shortened(wanted)}"
        return False, "no node behind it wants this event"

    def _said(self, name: str, matching: list[str]) -> Iterator[str]:
        """Why a link is not told, or not told as they are, filters that an event matches."""
        if name not in self.tables.links or not self.tells(name):
            return
        mergers = self.merged.get(name)
        for text in matching[:SHOWN]:
            if not self.wanted.besides(text, name):
                continue
            if name in self._past:
                yield f"more than {self.knobs.most_told} filters are told to it as true"
                return
            cover = self.covers.cover(text, name) if self.policy_of(name) != "exact" else None
            merger = None if mergers is None else mergers.merger_of(text)
            if not self.advertised.meets(text, name):
                yield f"no advertisement behind this link meets {shortened(text)}"
            elif cover is not None:
                yield f"{shortened(text)} is covered by {shortened(cover)}"
            elif merger is not None:
                wasted = f"wasted {merger.wasted} of {merger.carried}"
                yield f"{shortened(text)} is merged into {shortened(merger.text)}; {wasted}"


def _everything(base: Mapping[str, None]) -> Mapping[str, None]:
    """What stands for all filters: `true`, if there are any."""
    return {EVERYTHING: None} if base else {}


def _difference(
    target: Mapping[str, None], told: Mapping[str, None]
) -> tuple[list[str], list[str]]:
    """What to tell, and what to take back, so that what is told is the target."""
    return [t for t in target if t not in told], [t for t in told if t not in target]
