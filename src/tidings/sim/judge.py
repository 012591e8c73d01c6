"""The judge of whole networks: it sees only what programs do and get, and knows what they may get.

It shares no code with what it judges: its predicates are those of `predicates`, and routers and
clients do not know it. For every event it knows who is owed it: the subscriptions of which the
program was told that they are established, whose predicates (old and new, while one is replaced)
all match, and whose holder may receive it. These excuses it accepts, and no others:

- The program has unsubscribed, or was told that the subscription is over; or it has replaced the
  predicate by one that the event does not match; or its router has read other rights for its token.
- The publisher was told that the event is refused, or that it failed before it was sent.
- The program was told of an interruption, and there was a cause for it: its router died or its
  clock leapt, it was away for longer than a session waits, it read nothing, or it has gone on at
  another of its addresses, because the router of its session did not answer.
- Its policy is `drop`, and it was told of at least as many dropped deliveries.
- Links or routers failed while the event was under way, and the subscriber is at another router.

Whatever is delivered twice, to the wrong one, out of the order in which a program has published at
one router, or changed is wrong at all times, and so is `delivered` before the program has taken the
event. While something stands still, events may wait only if their source has had events for it
(`held_back`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tidings.routing.protocol import SECOND
from tidings.sim.oracle import Enough
from tidings.sim.predicates import Event, Predicate

DELIVERED = "delivered"


@dataclass
class Account:
    """What the judge knows of a subscription."""

    id: int
    user: str
    router: str  # where its client is connected
    receives: Predicate | None  # what its holder may receive
    wants: list[tuple[Predicate, int | None]]  # predicates, and when each was given up
    established: bool = False
    over: bool = False
    received: list[tuple[Predicate | None, int]] = field(default_factory=list)  # rights, until when
    narrower: list[Predicate | None] = field(default_factory=list)  # former rights, until all rests
    # By publisher and the router where it published: the last event taken.
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)

    def owed(self, event: Event) -> bool:
        """Whether it must get an event that is published now."""
        if self.over or not self.established:
            return False
        present = [want for want, until in self.wants if until is None]
        rights = [self.receives, *self.narrower]
        return all(one is None or one.holds(event) for one in (*present, *rights))

    def may_get(self, event: Event, published_at: int) -> bool:
        """Whether a predicate and rights that it has had since an event was published match it."""
        rights = [self.receives]
        rights += [one for one, until in self.received if until >= published_at]
        wants = [want for want, until in self.wants if until is None or until >= published_at]
        may = any(one is None or one.holds(event) for one in rights)
        return may and any(want.holds(event) for want in wants)

    def may_attract(self, event: Event) -> bool:
        """Whether it has ever wanted an event: routers may still send it there."""
        return any(want.holds(event) for want, _ in self.wants)


@dataclass
class Entry:
    """What the judge knows of an event."""

    number: int
    event: Event
    user: str
    router: str
    level: str
    at: int
    stable: bool
    may: bool | None  # whether its publisher may publish it; None while that changes
    owed: set[int]  # subscriptions that must get it and have not
    outcome: str = ""  # nothing yet, `ok`, `refused`, `unknown` or `failed`
    early: set[int] = field(default_factory=set)  # not taken when it was said to be delivered


class Judge:
    """Collects what programs do and get; `violations` is what is wrong."""

    def __init__(self, first_only: bool = False) -> None:
        self.first_only = first_only
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.stable = False  # whether no link or router fails, and none has for long enough
        self.accounts: dict[int, Account] = {}
        self.entries: dict[int, Entry] = {}
        self.open: dict[int, Entry] = {}  # of which an outcome is due, or that someone is owed
        self.moved_at = 0  # when a program last got something
        self.largest = 0  # event, in characters, which are at least its bytes
        self._causes: Counter[str] = Counter()  # by user: for which it may be interrupted

    def violated(self, now: int, what: str) -> None:
        """Something is wrong."""
        self.violations.append(f"{now / SECOND:.3f} s: {what}")
        if self.first_only:
            raise Enough

    # Subscriptions

    def subscribe(
        self, id: int, user: str, router: str, want: Predicate, receives: Predicate | None
    ) -> None:
        """A program subscribes."""
        self.accounts[id] = Account(id, user, router, receives, [(want, None)])
        self.counts["subscriptions"] += 1

    def establish(self, id: int, now: int) -> None:
        """A program is told that its subscription is established, with its newest predicate."""
        account = self.accounts[id]
        newest, _ = account.wants[-1]
        account.wants = [
            (want, now if until is None else until) for want, until in account.wants[:-1]
        ]
        account.wants.append((newest, None))
        account.established = True
        self.moved_at = now

    def replace(self, id: int, want: Predicate) -> None:
        """A program asks for another predicate: only what matches both is still owed."""
        self.accounts[id].wants.append((want, None))
        old_only = [entry for entry in self.open.values() if not want.holds(entry.event)]
        self._withdraw([id], "withdrawn", old_only)

    def refuse_replace(self, id: int, want: Predicate, now: int) -> None:
        """A program is told that it does not get another predicate."""
        account = self.accounts[id]
        kept = [(one, until) for one, until in account.wants if one is not want]
        account.wants = [(want, now), *kept]  # the last is the one that it has, or will have

    def finish(self, id: int) -> None:
        """A program unsubscribes, or is told that a subscription is over."""
        self.accounts[id].over = True
        self._withdraw([id], "withdrawn")

    def interrupt(self, user: str, ids: Iterable[int], now: int) -> None:
        """A program is told that its session was lost: events may have been missed."""
        self.counts["interruptions"] += 1
        if not self._causes[user]:
            self.violated(now, f"{user} is interrupted without a cause")
        ids = list(ids)
        for id in ids:
            self.accounts[id].established = False
        self._withdraw(ids, "interrupted")

    def _withdraw(self, ids: list[int], why: str, entries: list[Entry] | None = None) -> None:
        for entry in list(self.open.values()) if entries is None else entries:
            for id in ids:
                if id in entry.owed:
                    entry.owed.discard(id)
                    entry.early.discard(id)
                    self.counts[why] += 1
            self._close(entry)

    # Places and rights

    def move(self, user: str, router: str) -> None:
        """A program goes on at another router."""
        for account in self.accounts.values():
            if account.user == user:
                account.router = router

    def send_later(self, user: str, router: str) -> None:
        """What a program has not sent yet, it sends to this router."""
        for entry in self.open.values():
            if entry.user == user and not entry.outcome:
                entry.router = router

    def restrict(self, user: str, receives: Predicate | None, now: int) -> None:
        """A program may receive something else from now on: only what both allow is still owed."""
        ids = [id for id, account in self.accounts.items() if account.user == user]
        for id in ids:
            account = self.accounts[id]
            account.received.append((account.receives, now))
            account.narrower.append(account.receives)
            account.receives = receives
        if receives is not None:
            forbidden = [one for one in self.open.values() if not receives.holds(one.event)]
            self._withdraw(ids, "withdrawn", forbidden)

    def reconsider(self, user: str, may: Callable[[Event], bool | None]) -> None:
        """What a program may publish changes, also for what is under way to its router."""
        for entry in self.open.values():
            if entry.user == user and not entry.outcome and may(entry.event) is not entry.may:
                entry.may = None

    # Causes

    def cause(self, user: str) -> None:
        """From now on something may interrupt a user."""
        self._causes[user] += 1

    def end_cause(self, user: str) -> None:
        """It may no more."""
        self._causes[user] -= 1

    def may_fail(self, user: str) -> bool:
        """Whether a user may be interrupted now."""
        return self._causes[user] > 0

    # Events

    def publish(
        self,
        number: int,
        event: Event,
        user: str,
        router: str,
        level: str,
        may: bool | None,
        now: int,
    ) -> None:
        """A program publishes."""
        owed: set[int] = set()
        if may is not False:
            owed = {id for id, account in self.accounts.items() if account.owed(event)}
        entry = Entry(number, event, user, router, level, now, self.stable, may, owed)
        self.entries[number] = self.open[number] = entry
        self.largest = max(self.largest, len(repr(event)))
        self.counts["published"] += 1
        self.counts["expected"] += len(owed)

    def settle(self, number: int, outcome: str, now: int) -> None:
        """A program is told the outcome of a publication."""
        entry = self.entries[number]
        self.moved_at = now
        if entry.outcome:
            self.violated(now, f"event {number} of {entry.user} is settled twice")
        entry.outcome = outcome
        self.counts[f"outcome {outcome}"] += 1
        if outcome == "refused":
            if entry.may is True:
                self.violated(now, f"event {number} of {entry.user} is refused: {entry.event}")
            entry.owed.clear()
        elif outcome in ("unknown", "failed"):
            if not self.may_fail(entry.user) and (entry.stable and self.stable):
                excused = outcome == "unknown" and entry.level == DELIVERED
                if not excused:
                    self.violated(now, f"event {number} of {entry.user} is {outcome}")
            self._excuse(entry, "lost", entry.owed)
        elif entry.may is False:
            self.violated(now, f"event {number} of {entry.user} is not refused: {entry.event}")
        elif entry.level == DELIVERED:
            # Their sessions may have ended, and the programs hear of it later.
            entry.early = {id for id in entry.owed if self._must_arrive(entry, id)}
        self._close(entry)

    def take(self, id: int, event: Any, now: int) -> None:
        """A program gets an event from a subscription."""
        account = self.accounts[id]
        self.moved_at = now
        self.counts["delivered"] += 1
        entry = self.entries.get(event.get("n", 0))
        if entry is None:
            self.violated(now, f"invented: {event} for {self.name(id)}")
            return
        number = entry.number
        if repr(dict(event)) != repr(entry.event):
            self.violated(now, f"changed: {entry.event} is {event} for {self.name(id)}")
        if number in account.taken:
            self.counts["duplicated"] += 1
            self.violated(now, f"twice: event {number} for {self.name(id)}")
        if entry.outcome == "refused" or not account.may_get(entry.event, entry.at):
            self.counts["unexpected"] += 1
            self.violated(now, f"unexpected: {entry.event} for {self.name(id)}")
        publisher = entry.user, entry.router
        newest = account.newest.get(publisher, 0)
        if number < newest:
            what = f"event {number} of {entry.user} after {newest} for {self.name(id)}"
            self.violated(now, f"out of order: {what}")
        account.newest[publisher] = max(newest, number)
        account.taken.add(number)
        if id in entry.early:
            what = f"event {number} was said to be delivered, and {self.name(id)}"
            self.violated(now, f"{what} takes it only now")
        entry.owed.discard(id)
        self._close(entry)

    def name(self, id: int) -> str:
        """A subscription, for people."""
        account = self.accounts[id]
        return f"subscription {id} of {account.user} at {account.router}"

    def _close(self, entry: Entry) -> None:
        if entry.outcome and not entry.owed:
            self.open.pop(entry.number, None)

    def _must_arrive(self, entry: Entry, id: int) -> bool:
        """Whether no fault of a link or of another router can excuse that it is missing."""
        return self.accounts[id].router == entry.router or (entry.stable and self.stable)

    def _excuse(self, entry: Entry, why: str, ids: Iterable[int]) -> None:
        ids = list(ids)
        self.counts[why] += len(ids)
        entry.owed.difference_update(ids)

    # Phases

    def at_rest(self) -> bool:
        """Whether nothing that must still come is missing."""
        return not any(
            not entry.outcome or any(self._must_arrive(entry, id) for id in entry.owed)
            for entry in self.open.values()
        )

    def held_back(self, since: int, needs: Callable[[str, list[Account]], bool]) -> set[str]:
        """The routers whose events may wait for what stands still since a time.

        `needs` says whether an event of a router needs it, if these subscriptions want the event.
        If one event of a source does, all later ones may wait behind it.
        """
        accounts = self.accounts.values()
        return {
            entry.router
            for entry in self.entries.values()
            if entry.at >= since
            and needs(entry.router, [one for one in accounts if one.may_attract(entry.event)])
        }

    def waiting(self, since: int, held_back: set[str], careless: set[str]) -> list[str]:
        """What waits although nothing holds it back: events without an outcome, or not taken.

        Some users are careless: they read nothing, or let their router drop what they do not read.
        """
        lax = [account for account in self.accounts.values() if account.user in careless]
        found = []
        for entry in self.open.values():
            if entry.at < since or entry.router in held_back:
                continue
            told: Any = entry.outcome
            if entry.level == DELIVERED:
                told = told or any(account.may_attract(entry.event) for account in lax)
            if not told or {self.accounts[id].user for id in entry.owed} - careless:
                found.append(f"event {entry.number} of {entry.user} at {entry.router}")
        return found

    def unstable(self) -> None:
        """Links or routers begin to fail; what is under way between routers may be lost."""
        self.stable = False

    def killed(self, router: str) -> None:
        """A router has died, and with it the deliveries to its clients."""
        for entry in self.open.values():
            mine = [id for id in entry.owed if self.accounts[id].router == router]
            self._excuse(entry, "lost", mine)
            if entry.router == router:
                self._excuse(entry, "lost", list(entry.owed))

    def close(self, now: int, dropped: dict[str, int]) -> None:
        """Everything that was published must have arrived: account for what has not."""
        missing: dict[str, list[tuple[Entry, int]]] = {}
        for entry in list(self.open.values()):
            if not entry.outcome:
                what = f"event {entry.number} of {entry.user} at {entry.router}"
                self.violated(now, f"stuck: {what}, level {entry.level}, has no outcome")
                entry.outcome = "unknown"
            for id in sorted(entry.owed):
                if self._must_arrive(entry, id):
                    missing.setdefault(self.accounts[id].user, []).append((entry, id))
                else:
                    self.counts["lost"] += 1
            entry.owed.clear()
            self._close(entry)
        for account in self.accounts.values():
            account.narrower.clear()
        for user, pairs in missing.items():
            if len({entry.number for entry, _ in pairs}) <= dropped.get(user, 0):
                self.counts["dropped"] += len(pairs)
                continue
            self.counts["lost when stable"] += len(pairs)
            for entry, id in pairs:
                what = f"event {entry.number} of {entry.user} at {entry.router} ({entry.outcome})"
                self.violated(now, f"lost: {what} for {self.name(id)}")
