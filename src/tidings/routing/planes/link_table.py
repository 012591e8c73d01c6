"""Link tables: what a node tells each neighbour, kept alike at both ends (S10–S14).

The state of a link, in one direction, is a set of filters that someone on the sender's side wants,
and a set of filters of what someone there publishes. It is told by numbered, atomic changes and
acknowledged twice. *Taken*: the change is applied at the neighbour. *Settled*: so is everything
that followed from it, however far away. A change from one link has settled here when all that this
node has told its other links by then has settled; the direction back is not waited for, so in a
network without cycles the waiting ends. A link that goes down counts as settled.

Both sets share one row of numbers, and an acknowledgement counts only once its receiver has taken
what the sender had told before it (`after`). So the acknowledgement of an advertisement never
overtakes the subscriptions that it draws, although packets overtake each other.

A *session* is one telling from its beginning; its first change replaces all that the neighbour
held. A node starts another when the neighbour has forgotten: it opens the link anew and has heard
nothing. Packets may get lost, repeated and reordered: changes are buffered, repeated until taken,
and applied in order.

Should memory go wrong, at either end, an *audit* finds it (anti-entropy): now and then each end
sends a digest of what it holds, and the other end tells everything anew if that is not what it has
told.

This file knows nothing of what filters mean, or of what follows from a change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from zlib import crc32

from tidings.routing.packets import Audit, Change, Reminder, Standing
from tidings.routing.planes.patience import Patience
from tidings.routing.protocol import Action, Drop, Send, Timing, earliest

MOST_FILTERS: Final = 4_096  # in one packet
MOST_CHARACTERS: Final = 131_072
MOST_EARLY: Final = 256  # changes that wait for one that is missing

Marks = list[tuple["Link", int]]  # links, and the number that must settle at each


class Taken(NamedTuple):
    """What a neighbour has told, in one change."""

    number: int
    anew: bool  # whether it replaces all that is held
    added: tuple[str, ...]
    removed: tuple[str, ...]
    advertised: tuple[str, ...]
    withdrawn: tuple[str, ...]


class Link:
    """Both directions of one link, while it is open."""

    def __init__(self, name: str, life: int, session: int, patience: Patience) -> None:
        self.name = name
        self.life = life  # of the neighbour
        self.is_open = True
        # What this node tells
        self.session = session
        self.first = 1
        self.number = 0
        self.taken = 0
        self.acknowledged = 0  # the neighbour's session in which it has taken something
        self.settled = 0
        self.told: dict[str, None] = {}
        self.advertised: dict[str, None] = {}
        self.unanswered: dict[int, Change] = {}
        self.remind_at: int | None = None
        self.audit_at: int | None = None
        self.patience = patience
        self.early: list[Standing] = []  # that count when more is taken here
        # What the neighbour tells
        self.theirs = 0  # its session; 0 if nothing has come
        self.theirs_first = 1
        self.missed = 0  # its session of which something came before this node used the link
        self.here = 0  # the number up to which its changes are applied
        self.settled_here = 0
        self.waiting: dict[int, Change] = {}  # ahead of one that is missing
        self.parts: list[Change] = []  # of a change of which more must come
        self.following: deque[tuple[int, Marks]] = deque()  # its changes, and what must settle
        self.unsent = 0  # events that were not sent over the link
        self.waste = 0  # that the neighbour reports
        self.reported = 0  # to the neighbour
        self.owes = False  # whether the neighbour must hear how we stand

    @property
    def heard(self) -> int:
        """The neighbour's session, if its beginning has come."""
        return self.theirs if self.here >= self.theirs_first else 0


class LinkTables:
    """The open links of a node."""

    def __init__(self, life: int, timing: Timing) -> None:
        self.life = life
        self.timing = timing
        self.links: dict[str, Link] = {}
        self.changes = 0  # told so far
        self._sessions = 0
        self._missed: dict[str, int] = {}  # by neighbour: the session that came too early
        self._waits: list[tuple[object, Marks]] = []  # who waits for what to settle

    def open(self, name: str, life: int) -> None:
        """Begin to tell a neighbour; `tell` must follow, even if there is nothing to say."""
        self._sessions += 1
        self.links[name] = Link(name, life, self._sessions, Patience(self.timing.retry))
        self.links[name].missed = self._missed.pop(name, 0)

    def close(self, name: str) -> None:
        """The link is down: what it was to settle counts as settled."""
        self.links.pop(name).is_open = False

    # Telling

    def tell(
        self,
        name: str,
        added: Iterable[str],
        removed: Iterable[str],
        advertised: Iterable[str],
        withdrawn: Iterable[str],
        now: int,
        out: list[Action],
    ) -> None:
        """Tell a neighbour one change, in as many packets as it needs; removals come last."""
        link = self.links[name]
        self.changes += 1
        for text in added:
            link.told[text] = None
        for text in removed:
            link.told.pop(text, None)
        for text in advertised:
            link.advertised[text] = None
        for text in withdrawn:
            link.advertised.pop(text, None)
        parts = list(_parts(added, removed, advertised, withdrawn))
        for place, part in enumerate(parts, 1):
            link.number += 1
            change = Change(
                *(self.life, link.session, link.first, link.number, link.heard, link.missed),
                *(place < len(parts), *part),
            )
            link.unanswered[link.number] = change
            out.append(Send(name, change))
        self._remind(link, now)

    def _remind(self, link: Link, now: int) -> None:
        if link.remind_at is None and link.settled < link.number:
            link.patience.begin()
            link.remind_at = link.patience.ask(now)

    def _again(self, link: Link, now: int, out: list[Action]) -> None:
        """The neighbour has forgotten: begin a session that tells everything."""
        self._sessions += 1
        link.session = self._sessions
        link.first = link.number + 1
        link.unanswered.clear()
        told, advertised = list(link.told), list(link.advertised)
        link.told.clear()
        link.advertised.clear()
        self.tell(link.name, told, (), advertised, (), now, out)

    def tell_anew(
        self, name: str, told: Iterable[str], advertised: Iterable[str], now: int, out: list[Action]
    ) -> None:
        """Begin a session that tells just this: memory was wrong at one end."""
        link = self.links[name]
        link.told = dict.fromkeys(told)
        link.advertised = dict.fromkeys(advertised)
        self._again(link, now, out)

    def standing(self, name: str, packet: Standing, now: int, out: list[Action]) -> None:
        """A neighbour says how far it is with our changes."""
        link = self.links.get(name)
        if link is None or packet.life != self.life or packet.session != link.session:
            out.append(Drop("not of this session", packet))
            return
        if packet.mine < link.theirs:  # perhaps the neighbour has forgotten since
            out.append(Drop("not of this session", packet))
            return
        if packet.taken > link.number or packet.settled > packet.taken:
            out.append(Drop("acknowledges what was not told", packet))
            return
        if packet.mine > link.acknowledged > 0 and packet.taken < link.taken:
            # It has forgotten, and has less than it had: of changes that came to it once more.
            link.acknowledged = packet.mine
            self._again(link, now, out)
            return
        for number in range(link.taken + 1, packet.taken + 1):
            link.unanswered.pop(number, None)
        if packet.taken >= link.first:
            link.taken = max(link.taken, packet.taken)
            link.acknowledged = packet.mine
        link.waste = packet.waste
        if self.in_turn(link, packet):
            self._settle(link, packet.settled, now)
        elif len(link.early) < MOST_EARLY:
            link.early.append(packet)

    def in_turn(self, link: Link, packet: Standing) -> bool:
        """Whether everything that came before an acknowledgement has been taken."""
        return link.theirs == packet.mine and link.here >= packet.after

    def _settle(self, link: Link, settled: int, now: int) -> None:
        if settled > link.settled:
            link.settled = settled
            link.patience.answered(now)
            link.remind_at = None
            if settled < link.number:
                link.remind_at = link.patience.ask(now)

    # Hearing

    def change(self, name: str, packet: Change, now: int, out: list[Action]) -> list[Taken]:
        """A neighbour tells a change; returns what can be applied now, in order."""
        link = self.links.get(name)
        if link is None:
            out.append(Drop("not a link of the tree", packet))
            self._missed[name] = packet.session
            return []
        former = packet.life != link.life or packet.session < link.theirs
        if former or not 1 <= packet.first <= packet.number:
            out.append(Drop("not of this session", packet))
            return []
        link.owes = True
        if packet.session > link.theirs:
            self._new_session(link, packet, now, out)
        if packet.number <= link.here:
            out.append(Drop("a duplicate", packet))
            return []
        if len(link.waiting) < MOST_EARLY or packet.number == link.here + 1:
            link.waiting[packet.number] = packet
        found: list[Taken] = []
        while link.here + 1 in link.waiting:
            link.here += 1
            link.parts.append(link.waiting.pop(link.here))
            if not link.parts[-1].more:
                found.append(_whole(link.parts))
                link.parts = []
        if found:
            held_back, link.early = link.early, []
            for standing in held_back:
                if self.in_turn(link, standing):
                    self._settle(link, standing.settled, now)
                else:
                    link.early.append(standing)
        return found

    def _new_session(self, link: Link, packet: Change, now: int, out: list[Action]) -> None:
        link.theirs = packet.session
        link.theirs_first = packet.first
        link.here = packet.first - 1
        link.waiting.clear()
        link.parts = []
        link.following.clear()
        link.settled_here = 0
        if packet.heard == link.session or link.acknowledged == packet.session:
            return
        if link.taken >= link.first:  # it has opened the link anew, and forgotten
            self._again(link, now, out)
        elif packet.missed == link.session:  # it has opened the link after we did
            out.extend(Send(link.name, change) for change in link.unanswered.values())

    def due_audits(self, now: int) -> list[Link]:
        """The links whose neighbours must hear what is held here."""
        found: list[Link] = []
        for link in self.links.values():
            if link.audit_at is None or now >= link.audit_at:
                if link.audit_at is not None and link.heard and not link.parts:
                    found.append(link)
                link.audit_at = now + self.timing.pull
        return found

    def differs(self, name: str, packet: Audit, out: list[Action]) -> bool:
        """Whether a neighbour holds something else than what it was told and has taken."""
        link = self.links.get(name)
        if link is None or (packet.life, packet.session) != (self.life, link.session):
            out.append(Drop("not of this session", packet))
            return False
        now_told = packet.number == link.number == link.taken
        return now_told and packet.digest != digest_of(link.told, link.advertised)

    def follow(self, name: str, number: int) -> None:
        """All that follows here from a neighbour's change has been told: settle it after that."""
        link = self.links.get(name)
        if link is not None:
            link.following.append((number, self.outstanding(name)))

    def reminder(self, name: str, packet: Reminder, out: list[Action]) -> None:
        """A neighbour asks how we stand."""
        link = self.links.get(name)
        if link is None or (packet.life, packet.session) != (link.life, link.theirs):
            out.append(Drop("not of this session", packet))
        else:
            link.owes = True

    # Settling

    def outstanding(self, but: str | None = None) -> Marks:
        """What must settle, at all links but one, until all that was told by now has."""
        return [
            (link, link.number)
            for name, link in self.links.items()
            if name != but and link.settled < link.number
        ]

    def wait(self, what: object) -> None:
        """Let `flush` return this when all that has been told by now has settled."""
        self._waits.append((what, self.outstanding()))

    def forget(self, what: object) -> None:
        """Wait for this no more."""
        self._waits = [(one, marks) for one, marks in self._waits if one != what]

    def flush(self, wastes: Mapping[str, int], now: int, out: list[Action]) -> list[object]:
        """Tell the neighbours how we stand, where that has changed; returns what has settled."""
        for link in self.links.values():
            waste = wastes.get(link.name, 0)
            while link.following and _all_settled(link.following[0][1]):
                link.settled_here = link.following.popleft()[0]
                link.owes = True
            changed = waste != link.reported and _differs(waste, link.reported)
            if link.owes or (link.theirs and changed):
                link.owes = False
                link.reported = waste
                self._say_standing(link, waste, out)
        if not self._waits:
            return []
        found = [what for what, marks in self._waits if _all_settled(marks)]
        if found:
            self._waits = [wait for wait in self._waits if not _all_settled(wait[1])]
        return found

    def _say_standing(self, link: Link, waste: int, out: list[Action]) -> None:
        settled = min(link.settled_here, link.here)
        how_far = link.here, settled, link.session, link.number
        standing = Standing(link.life, link.theirs, *how_far, waste, link.unsent)
        out.append(Send(link.name, standing))

    def is_settled(self) -> bool:
        """Whether all that was told has settled."""
        return all(link.settled == link.number for link in self.links.values())

    # Time

    def timer(self) -> int | None:
        """When to remind a neighbour, or to send a digest."""
        when: int | None = None
        for link in self.links.values():
            when = earliest(when, link.remind_at, link.audit_at)
        return when

    def wake(self, now: int, out: list[Action]) -> None:
        """Repeat what was not taken; ask after what has not settled."""
        for link in self.links.values():
            if link.remind_at is None or now < link.remind_at:
                continue
            link.remind_at = link.patience.ask(now)
            if link.unanswered:
                out.extend(Send(link.name, change) for change in link.unanswered.values())
            else:
                out.append(Send(link.name, Reminder(self.life, link.session)))


def digest_of(wanted: Iterable[str], advertised: Iterable[str]) -> int:
    """A digest of what a neighbour wants and advertises, whatever the order.

    >>> digest_of(["x > 5", "x > 7"], []) == digest_of(["x > 7", "x > 5"], [])
    True
    """
    total = sum(crc32(text.encode()) for text in wanted)
    total += sum(crc32(text.encode(), 1) for text in advertised)
    return total & 0xFFFF_FFFF


def _all_settled(marks: Marks) -> bool:
    return all(not link.is_open or link.settled >= number for link, number in marks)


def _differs(one: int, other: int) -> bool:
    """Whether a rate has changed enough to be told: by an eighth."""
    return abs(one - other) * 8 > max(one, other)


def _whole(parts: list[Change]) -> Taken:
    """The change that some packets make."""
    last = parts[-1]
    joined = (
        tuple(text for part in parts for text in getattr(part, name))
        for name in ("added", "removed", "advertised", "withdrawn")
    )
    return Taken(last.number, parts[0].number == parts[0].first, *joined)


Part = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _parts(
    added: Iterable[str],
    removed: Collection[str] | Iterable[str],
    advertised: Iterable[str],
    withdrawn: Iterable[str],
) -> Iterator[Part]:
    """A change in pieces that fit into packets; at least one."""
    piece: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])
    count = characters = 0
    for place, texts in ((0, added), (2, advertised), (1, removed), (3, withdrawn)):
        for text in texts:
            if count and (count == MOST_FILTERS or characters + len(text) > MOST_CHARACTERS):
                yield _piece(piece)
                piece = ([], [], [], [])
                count = characters = 0
            piece[place].append(text)
            count += 1
            characters += len(text)
    yield _piece(piece)


def _piece(piece: tuple[list[str], list[str], list[str], list[str]]) -> Part:
    added, removed, advertised, withdrawn = map(tuple, piece)
    return added, removed, advertised, withdrawn
