"""Link tables over links that lose, repeat and reorder: both ends agree, and in order."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tidings.routing.packets import Change, Packet, Reminder, Standing
from tidings.routing.planes import link_table
from tidings.routing.planes.link_table import LinkTables
from tidings.routing.protocol import SECOND, USUAL, Action, Drop, Send


class End:
    """One end of a link, and what it has heard, by the order in which it took it."""

    def __init__(self, name: str, life: int) -> None:
        self.name = name
        self.tables = LinkTables(life, USUAL)
        self.held: set[str] = set()
        self.seen: list[frozenset[str]] = []

    def open(self, other: End, out: list[Action]) -> None:
        self.tables.open(other.name, other.tables.life)
        self.tables.tell(other.name, (), (), (), (), 0, out)

    def change(self, other: str, texts: set[str], now: int, out: list[Action]) -> None:
        """Tell that from now on these are wanted."""
        told = self.tables.links[other].told
        self.tables.tell(
            other, sorted(texts - told.keys()), sorted(told.keys() - texts), (), (), now, out
        )

    def received(self, other: str, packet: Packet, now: int, out: list[Action]) -> None:
        match packet:
            case Change():
                for taken in self.tables.change(other, packet, now, out):
                    self.held = set() if taken.anew else self.held
                    self.held = (self.held | set(taken.added)) - set(taken.removed)
                    self.seen.append(frozenset(self.held))
                    self.tables.follow(other, taken.number)
            case Standing():
                self.tables.standing(other, packet, now, out)
            case Reminder():
                self.tables.reminder(other, packet, out)
        self.tables.flush({}, now, out)


class Pair:
    """Two ends and a bad link."""

    def __init__(self, seed: int, bad: bool) -> None:
        self.chance = Random(seed)
        self.bad = bad
        self.now = 0
        self.a, self.b = End("a", 1), End("b", 2)
        self.under_way: list[tuple[End, Packet]] = []
        self.dropped: list[str] = []
        out: list[Action] = []
        self.a.open(self.b, out)
        self.send(self.b, out)
        if seed % 2:
            self.deliver(3)  # b opens the link later, and drops what has come
        out = []
        self.b.open(self.a, out)
        self.send(self.a, out)

    def send(self, to: End, out: list[Action]) -> None:
        for action in out:
            if isinstance(action, Drop):
                self.dropped.append(action.reason)
            elif isinstance(action, Send):
                for _ in range(self.chance.choice((0, 1, 1, 2)) if self.bad else 1):
                    self.under_way.append((to, action.packet))

    def deliver(self, count: int) -> None:
        for _ in range(count):
            if self.under_way:
                place = self.chance.randrange(len(self.under_way)) if self.bad else 0
                to, packet = self.under_way.pop(place)
                out: list[Action] = []
                other = self.b if to is self.a else self.a
                to.received(other.name, packet, self.now, out)
                self.send(other, out)

    def change(self, texts: set[str]) -> None:
        out: list[Action] = []
        self.a.change("b", texts, self.now, out)
        self.send(self.b, out)

    def rest(self) -> None:
        """Let all packets arrive, and repeat until nothing is open."""
        self.bad = False
        for _ in range(20):
            while self.under_way:
                self.deliver(1)
            self.now += 10 * SECOND
            for one, other in ((self.a, self.b), (self.b, self.a)):
                out: list[Action] = []
                one.tables.wake(self.now, out)
                self.send(other, out)


steps = st.lists(st.sets(st.sampled_from("uvwxyz"), max_size=4), max_size=12)


@settings(max_examples=examples(60))
@given(steps, st.integers(0, 10_000), st.booleans())
def test_both_ends_agree_and_every_change_is_atomic_and_in_order(
    changes: list[set[str]], seed: int, bad: bool
) -> None:
    pair = Pair(seed, bad)
    for texts in changes:
        pair.change(texts)
        pair.deliver(pair.chance.randrange(4))
    pair.rest()
    told = [frozenset(), *map(frozenset, changes)]
    assert pair.b.held == told[-1]
    assert pair.b.seen == told  # each state once, none skipped, none half
    assert pair.a.tables.is_settled()
    assert pair.b.tables.is_settled()
    assert pair.a.tables.timer() is None


@settings(max_examples=examples(40))
@given(steps, st.integers(0, 10_000))
@example([set()] * 6, 2325)  # it takes repeated changes of before, and says so
def test_a_neighbour_that_forgets_is_told_everything_again(
    changes: list[set[str]], seed: int
) -> None:
    pair = Pair(seed, bad=True)
    for place, texts in enumerate(changes):
        pair.change(texts)
        pair.deliver(pair.chance.randrange(6))
        if place == len(changes) // 2:
            pair.b.tables.close("a")
            pair.b.held = set()
            out: list[Action] = []
            pair.b.open(pair.a, out)
            pair.send(pair.a, out)
    pair.rest()
    assert pair.b.held == (changes[-1] if changes else set())
    assert pair.a.tables.is_settled()


def test_a_large_change_comes_in_parts_and_is_applied_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(link_table, "MOST_FILTERS", 3)
    pair = Pair(0, bad=False)
    pair.change(set("abcdefgh"))
    pair.change({"z"})
    parts = [packet for _, packet in pair.under_way if isinstance(packet, Change)]
    assert [part.more for part in parts[2:]] == [True, True, False, True, True, False]
    pair.rest()
    assert pair.b.seen == [frozenset(), frozenset("abcdefgh"), frozenset("z")]


def test_a_change_settles_after_all_that_follows_from_it() -> None:
    """b tells c what a has told it, and says so to a only when c has settled it."""
    out: list[Action] = []
    tables = LinkTables(2, USUAL)
    for name in "ac":
        tables.open(name, 1)
        tables.tell(name, (), (), (), (), 0, out)
    tables.links["c"].settled = 1
    tables.change("a", Change(1, 1, 1, 1, 0, 0, False, ("x",), (), (), ()), 0, out)
    tables.tell("c", ("x",), (), (), (), 0, out)
    tables.follow("a", 1)
    out.clear()
    tables.flush({}, 0, out)
    assert out == [Send("a", Standing(1, 1, 1, 0, 1, 1, 0))]
    out.clear()
    tables.standing("c", Standing(2, 2, 2, 2, 9, 1, 0), 0, out)  # it counts after change 1 of c
    tables.flush({}, 0, out)
    assert out == []
    tables.change("c", Change(1, 9, 1, 1, 2, 0, False, (), (), (), ()), 0, out)
    tables.follow("c", 1)
    tables.flush({}, 0, out)
    assert out[0] == Send("a", Standing(1, 1, 1, 1, 1, 1, 0))


def test_what_waits_goes_on_when_the_link_goes_down() -> None:
    out: list[Action] = []
    tables = LinkTables(1, USUAL)
    tables.open("b", 2)
    tables.tell("b", ("x",), (), (), (), 0, out)
    tables.wait("established")
    assert tables.flush({}, 0, out) == []
    tables.close("b")
    assert tables.flush({}, 0, out) == ["established"]


def test_acknowledgements_of_what_was_never_told_are_dropped() -> None:
    out: list[Action] = []
    tables = LinkTables(1, USUAL)
    tables.open("b", 2)
    tables.tell("b", ("x",), (), (), (), 0, out)
    out.clear()
    tables.standing("b", Standing(1, 1, 7, 7, 0, 0, 0), 0, out)
    assert [type(action) for action in out] == [Drop]
    assert not tables.is_settled()
