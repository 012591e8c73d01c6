"""What holds for every protocol. Scenarios of each are in `cases/`, properties in its folder."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.overlay.graphs import graphs, trees
from tests.routing.networks import EVENTS, TEXTS, networks
from tests.routing.running import network_of, router_of
from tidings.language.errors import PredicateError
from tidings.overlay.graph import Graph
from tidings.routing.planes.interests import NOTHING
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Action,
    Cause,
    Deliver,
    LinkDown,
    Publish,
    Subscribe,
    Unsubscribe,
    Woken,
)
from tidings.routing.protocols import PROTOCOLS


class Recorder:
    """A router that remembers what happened to it and what it did."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.history: list[tuple[bytes, int, list[Action]]] = []

    def handle(self, cause: Cause, now: int) -> list[Action]:
        actions: list[Action] = self.made.handle(cause, now)
        self.history.append((msgspec.msgpack.encode(cause), now, actions))
        return actions

    def timer(self) -> int | None:
        return self.made.timer()  # type: ignore[no-any-return]

    def is_settled(self) -> bool:
        return self.made.is_settled()  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        return self.made.snapshot()  # type: ignore[no-any-return]

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        return self.made.look_ahead(events)  # type: ignore[no-any-return]

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        return self.made.explain_links(source, event)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_recorded_run_replayed_gives_the_same_actions_and_state(name: str) -> None:
    row = PROTOCOLS[name]
    links = [(0, 1, 1), (1, 2, 1), (2, 3, 2)]
    graph = Graph(4, links if not row.any_graph else [*links, (3, 0, 1)])

    def make(node: str, life: int, topologies: Topologies) -> Recorder:
        return Recorder(row.make(node, life, topologies=topologies))

    network, _ = network_of(graph, name, make)
    chance = Random(7)
    for turn in range(60):
        node = str(chance.randrange(4))
        causes: list[Cause] = [
            Publish({"a": chance.randrange(3), "b": "x"}),
            Subscribe(f"s{turn % 9}", chance.choice(TEXTS) or NOTHING),
            Unsubscribe(f"s{chance.randrange(9)}"),
        ]
        network.tell(node, chance.choice(causes))
        if turn == 30:
            network.unlink("0", "1")
        if turn == 45:
            network.relink("0", "1")
        network.run(network.now + 100 * MILLISECOND)
    for place in network.nodes.values():
        recorder: Any = place.router
        again = row.make(place.name, place.life)
        for cause, now, actions in recorder.history:
            assert again.handle(msgspec.msgpack.decode(cause, type=Cause), now) == actions
        assert again.snapshot() == recorder.snapshot()
        assert again.timer() == recorder.timer()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_is_no_cause_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="no cause"):
        PROTOCOLS[name].make("a").handle("hello", 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_waking_for_nothing_and_giving_up_nothing_do_nothing(name: str) -> None:
    router = PROTOCOLS[name].make("a")
    assert router.timer() is None
    assert router.handle(Woken(), 0) == []
    assert router.handle(Unsubscribe("nobody"), 0) == []
    assert router.handle(LinkDown("nobody"), 0) == []


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_bad_predicate_is_refused_and_changes_nothing(name: str) -> None:
    router = PROTOCOLS[name].make("a")
    router.handle(Subscribe("s", "price > 5"), 0)
    before = router.snapshot()
    with pytest.raises(PredicateError):
        router.handle(Subscribe("s", "price >> 5"), 0)
    assert router.snapshot() == before
    (delivered,) = router.handle(Publish({"price": 6}), 0)
    assert isinstance(delivered, Deliver)
    assert delivered.subscriptions == ("s",)


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_an_event_takes_the_links_that_were_explained(name: str, data: st.DataObject) -> None:
    """Except, at most, the one by which it came: not every protocol knows that one before."""
    shapes = graphs(6) if PROTOCOLS[name].any_graph else trees(6)
    global_view = data.draw(networks(shapes))
    network, log = network_of(global_view.graph, name)
    for node, interest in enumerate(global_view.interests):
        network.tell(str(node), Subscribe(f"s{node}", str(interest)))
    network.run(network.now + 2 * SECOND)
    source = data.draw(st.sampled_from(global_view.graph.names))
    for event in EVENTS[::3]:
        network.tell(source, Publish(dict(event)))
        network.run(network.now + SECOND // 4)
        taken = log.links_taken()
        for here in {source, *(target for _, target in taken)}:
            explained = router_of(network, here).explain_links(source, event)
            assert all(why for _, why in explained.values())
            said = {link for link, (takes, _) in explained.items() if takes}
            sent = {target for one, target in taken if one == here}
            came_by = {one for one, target in taken if target == here}
            assert sent <= said
            if not PROTOCOLS[name].foretells:
                continue
            assert said - sent <= came_by
            assert len(said - sent) <= 1
