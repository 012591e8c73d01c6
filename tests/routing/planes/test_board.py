"""One search finds what matching each by itself finds, however tables and subscriptions change."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.routing.networks import EVENTS
from tests.routing.networks import TEXTS as ALL_TEXTS
from tidings.language.predicate import parse
from tidings.matching.scan import Scan
from tidings.routing.planes import board as module
from tidings.routing.planes.board import Board
from tidings.routing.planes.interests import NOTHING, predicate_of

TEXTS = [text for text in ALL_TEXTS if text]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.sampled_from(TEXTS)),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just("")),
        st.tuples(
            st.just("link"), st.integers(0, 2), st.sampled_from([*TEXTS, "true", "false", ""])
        ),
        st.tuples(st.just("ask"), st.integers(0, len(EVENTS) - 1), st.just("")),
        st.tuples(st.just("look ahead"), st.integers(0, len(EVENTS)), st.just("")),
    ),
    max_size=40,
)


class Counting(Scan):
    """A matcher that counts its searches and its changes."""

    searches = changes = 0

    def match(self, event: Any) -> Any:
        self.searches += 1
        return super().match(event)

    def add(self, id: Any, predicate: Any) -> None:
        self.changes += 1
        super().add(id, predicate)

    def remove(self, id: Any) -> None:
        self.changes += 1
        super().remove(id)


@given(steps, st.sampled_from([1, 10_000]))
def test_a_board_finds_what_each_predicate_by_itself_matches(
    actions: list[tuple[str, int, str]], long: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG", long)
        board = Board(Scan())
        held: dict[int, str] = {}
        table: dict[str, str] = {}
        ahead: list[dict[str, Any]] = []
        for action, number, text in actions:
            if action == "put" and number not in held:
                held[number] = text
                board.add(number, parse(text))
            elif action == "remove" and held.pop(number, None) is not None:
                board.remove(number)
            elif action == "link":
                table[f"n{number}"] = text or NOTHING
            elif action == "look ahead":
                ahead = [dict(event) for event in EVENTS[:number]]
                places = board.look_ahead(ahead, table)
                for place, event in enumerate(ahead):
                    assert place in places or not any(truth(event, held, table))
            elif action == "ask":
                event = ahead[number] if number < len(ahead) else dict(EVENTS[number])
                links, numbers = truth(event, held, table)
                assert board.links(event, table) == links
                assert sorted(board.numbers(event)) == numbers


def truth(
    event: dict[str, Any], held: dict[int, str], table: dict[str, str]
) -> tuple[set[str], list[int]]:
    """The interfaces and the subscriptions that want an event, each looked at by itself."""
    links = {name for name, wanted in table.items() if predicate_of(wanted).matches(event)}
    return links, sorted(n for n, wanted in held.items() if parse(wanted).matches(event))


def test_links_and_subscriptions_take_one_search() -> None:
    matcher = Counting()
    board = Board(matcher)
    board.add(1, parse("price > 1"))
    event = {"price": 2}
    table = {"b": "price > 0", "c": "price > 5", "d": "true"}
    assert board.links(event, table) == {"b", "d"}
    assert board.links(event, table) == {"b", "d"}
    assert board.numbers(event) == [1]
    assert matcher.searches == 1
    table["c"] = "price > 1"
    assert board.links(event, table) == {"b", "c", "d"}
    assert matcher.searches == 2


def test_a_look_ahead_saves_searches_until_something_changes() -> None:
    matcher = Counting()
    board = Board(matcher)
    board.add(1, parse("price > 1"))
    events = [{"price": n} for n in range(4)]
    assert board.look_ahead(events, {"b": "price = 0"}) == [0, 2, 3]
    assert matcher.searches == 4
    assert board.links(events[0], {"b": "price = 0"}) == {"b"}
    assert board.numbers(events[2]) == [1]
    assert matcher.searches == 4
    changes = board.changes
    board.add(2, parse("price > 2"))
    assert board.changes > changes
    assert board.numbers(events[3]) == [1, 2]
    assert matcher.searches == 5


def test_a_change_of_a_long_interest_changes_only_what_differs() -> None:
    matcher = Counting()
    board = Board(matcher)
    filters = [f"site{n} = 'somewhere' and price > {n}" for n in range(200)]
    board.links({}, {"b": " or ".join(filters)})
    assert matcher.changes == 200
    board.links({}, {"b": " or ".join([*filters[1:], "price = 1"])})
    assert matcher.changes == 202
