"""The verbs of the survey's Table I (S28): every protocol passes the same suite.

publish, subscribe, unsubscribe, advertise and feedback, with the table's meaning. What a row lacks
is refused by name; `tests/live/test_api.py` does the same over sockets.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.routing.running import Log, network_of
from tidings.language.errors import PredicateError
from tidings.language.predicate import parse
from tidings.overlay.paths import tree
from tidings.overlay.topologies import topology
from tidings.routing.packets import Answer
from tidings.routing.planes.local import Local
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Advertise,
    Answered,
    Cause,
    Decline,
    Established,
    Feedback,
    InForce,
    Publish,
    Subscribe,
    Unadvertise,
    Unanswered,
    Unsubscribe,
)
from tidings.routing.protocols import NEEDS, PROTOCOLS, VERBS
from tidings.routing.schemes import SCHEMES
from tidings.sim.network import Network

every_protocol = pytest.mark.parametrize("name", PROTOCOLS)
TREE = "tree:9"  # a network for all; those that bear cycles also get another
CYCLES = "grid:3x3"


def places(name: str) -> Iterator[tuple[Network, Log, Any]]:
    """A network of a protocol at rest, on each topology that it bears."""
    for text in (TREE, CYCLES) if PROTOCOLS[name].any_graph else (TREE,):
        graph = topology(text, 3)
        network, log = network_of(graph, name)
        yield network, log, graph


def tell(network: Network, node: str, cause: Cause) -> None:
    network.tell(node, cause)
    network.run(network.now + 300 * MILLISECOND)


def subscribe(network: Network, name: str, node: str, id: str, predicate: str) -> None:
    """Subscribe, and wait until it is established, or must be."""
    tell(network, node, Subscribe(id, predicate))
    if not PROTOCOLS[name].confirms:
        network.run(network.now + SECOND)


def deliveries(log: Log) -> list[tuple[str, tuple[str, ...], int]]:
    found = sorted((node, ids, event.event["n"]) for node, ids, event in log.deliveries)
    log.deliveries.clear()
    return found


def test_every_row_is_complete() -> None:
    for name, row in PROTOCOLS.items():
        assert row.twin in SCHEMES, name
        assert row.needs <= NEEDS, name
        assert row.lacks <= set(VERBS) - {"publish", "subscribe", "unsubscribe"}, name
        assert row.options() is not None, name


@every_protocol
def test_what_is_published_reaches_every_established_subscription_once(name: str) -> None:
    for network, log, graph in places(name):
        for node in ("1", "5", "8"):
            subscribe(network, name, node, f"s{node}", "price > 5")
        if PROTOCOLS[name].confirms:
            told = sorted(id for _, _, ids in log.settled for id in ids)
            assert told == ["s1", "s5", "s8"]
        for number, node in enumerate(graph.names):
            tell(network, node, Publish({"n": number, "price": 6}))
            wanted = [(one, (f"s{one}",), number) for one in ("1", "5", "8")]
            assert deliveries(log) == wanted
            tell(network, node, Publish({"n": number, "price": 5}))
            assert deliveries(log) == []


@every_protocol
def test_after_unsubscribe_nothing_comes_and_others_are_not_touched(name: str) -> None:
    for network, log, _ in places(name):
        subscribe(network, name, "2", "s", "price > 5")
        subscribe(network, name, "2", "t", "price > 5")  # an equal predicate, by another
        subscribe(network, name, "7", "u", "price > 5")
        tell(network, "2", Unsubscribe("s"))
        tell(network, "0", Publish({"n": 1, "price": 6}))
        assert deliveries(log) == [("2", ("t",), 1), ("7", ("u",), 1)]
        tell(network, "2", Unsubscribe("t"))
        tell(network, "7", Unsubscribe("u"))
        tell(network, "0", Publish({"n": 2, "price": 6}))
        assert deliveries(log) == []
        tell(network, "2", Unsubscribe("t"))  # nothing to give up


@every_protocol
def test_an_advertisement_comes_into_force_and_then_nothing_is_missed(name: str) -> None:
    assert "advertise" not in PROTOCOLS[name].lacks
    for network, log, _ in places(name):
        subscribe(network, name, "5", "s", "price > 5")
        network.tell("0", Advertise("a", "price > 0"))
        assert bool(log.notices) != PROTOCOLS[name].advertises  # at once, where it decides nothing
        for _ in range(100):
            if log.notices:
                break
            network.run(network.now + 20 * MILLISECOND)
        assert log.notices == [("0", InForce(("a",)))]
        tell(network, "0", Publish({"n": 1, "price": 6}))
        assert deliveries(log) == [("5", ("s",), 1)]
        tell(network, "0", Advertise("a", "price > 1"))  # another predicate for it
        assert [action for _, action in log.notices] == [InForce(("a",))] * 2
        tell(network, "0", Unadvertise("a"))
        tell(network, "0", Unadvertise("a"))  # nothing to withdraw
        assert len(log.notices) == 2


@every_protocol
def test_an_advertisement_that_cannot_be_read_is_refused(name: str) -> None:
    router = PROTOCOLS[name].make("a")
    with pytest.raises(PredicateError):
        router.handle(Advertise("a", "price >> 5"), 0)


def delivered(network: Network, log: Log, source: str) -> Any:
    """Publish an event that 8 wants, and take it."""
    tell(network, source, Publish({"n": 1, "price": 6}))
    (_, _, publication) = next(one for one in log.deliveries if one[0] == "8")
    log.deliveries.clear()
    log.sends.clear()
    log.notices.clear()
    return publication


def event_life(network: Network, node: str) -> int:
    return network.nodes[node].life


def feedback(event: Any, id: int = 1) -> Feedback:
    return Feedback(id, event.source, event.life, event.number, {"seen": id})


@every_protocol
def test_feedback_reaches_that_publisher_once_in_as_many_packets_as_the_distance(name: str) -> None:
    assert "feedback" not in PROTOCOLS[name].lacks
    for network, log, graph in places(name):
        subscribe(network, name, "8", "s", "price > 5")
        for id, source in enumerate(("0", "4", "8")):
            event = delivered(network, log, source)
            tell(network, "8", feedback(event, id))
            answered = Answered(event.number, {"seen": id}, "8", event_life(network, "8"), id)
            assert log.notices == [(source, answered)]
            answers = [(a, b) for a, b, packet in log.sends if isinstance(packet, Answer)]
            assert len(answers) == tree(graph, 8).distance[int(source)]
            assert log.deliveries == []


@every_protocol
def test_who_replies_to_a_publisher_that_was_reborn_is_told(name: str) -> None:
    for network, log, _ in places(name):
        subscribe(network, name, "8", "s", "price > 5")
        event = delivered(network, log, "0")
        network.stop("0", forget=True)
        network.start("0")
        network.run(network.now + 3 * SECOND)
        log.notices.clear()
        tell(network, "8", feedback(event, 7))
        (told,) = log.notices
        assert told[0] == "8"
        assert isinstance(told[1], Unanswered)
        assert told[1].id == 7
        routes = network.nodes["8"].router.hops is not None  # type: ignore[union-attr]
        assert ("lost its memory" in told[1].reason) or not routes


@every_protocol
def test_who_replies_to_a_publisher_that_has_gone_is_told(name: str) -> None:
    for network, log, graph in places(name):
        subscribe(network, name, "8", "s", "price > 5")
        event = delivered(network, log, "0")
        for other in graph.neighbours(0):
            network.unlink("0", str(other))
        network.stop("0", forget=True)
        network.run(network.now + 3 * SECOND)
        log.notices.clear()
        tell(network, "8", feedback(event, 7))
        (told,) = log.notices
        assert (told[0], type(told[1])) == ("8", Unanswered)
        assert "no such publisher" in log.drops


@every_protocol
def test_who_replies_to_a_client_that_has_gone_is_told(name: str) -> None:
    """The node is there, and whoever published the event at it is not."""
    for network, log, _ in places(name):
        subscribe(network, name, "8", "s", "price > 5")
        event = delivered(network, log, "0")
        tell(network, "8", feedback(event, 7))
        ((_, answered),) = log.notices
        assert isinstance(answered, Answered)
        whose = answered.replier, answered.replier_life, answered.id
        tell(network, "0", Decline(*whose, "the publisher has gone"))
        assert log.notices[1:] == [("8", Unanswered(7, "the publisher has gone"))]


@every_protocol
def test_a_subscription_is_given_up_by_value_one_at_a_time(name: str) -> None:
    for network, log, _ in places(name):
        for id in ("s", "t"):
            subscribe(network, name, "2", id, "price > 5 and site = 'oslo'")
        event = {"price": 6, "site": "oslo"}
        for number, left in enumerate((("t",), ())):
            tell(network, "2", Unsubscribe("", "site = 'oslo' and price > 5"))
            tell(network, "0", Publish({"n": number, **event}))
            assert deliveries(log) == ([("2", left, number)] if left else [])
        tell(network, "2", Unsubscribe("", "price > 5"))  # nobody has that


@every_protocol
def test_a_reply_that_links_repeat_arrives_once(name: str) -> None:
    for network, log, _ in places(name):
        subscribe(network, name, "8", "s", "price > 5")
        event = delivered(network, log, "0")
        for link in network.links.values():
            link.duplicate = 1.0
            link.disturbed()
        for id in range(1, 6):
            tell(network, "8", feedback(event, id))
        seen = [action.message["seen"] for _, action in log.notices if isinstance(action, Answered)]
        assert seen == [1, 2, 3, 4, 5]


@every_protocol
def test_verbs_at_one_node_need_no_network(name: str) -> None:
    router = PROTOCOLS[name].make("a")
    established = router.handle(Subscribe("s", "price > 5"), 0)
    assert established == ([Established(("s",))] if PROTOCOLS[name].confirms else [])
    router.handle(Publish({"price": 6}), 0)
    answered = Answered(1, {"ok": True}, "a", 1, 1)
    assert router.handle(Feedback(1, "a", 1, 1, {"ok": True}), 0) == [answered]
    assert router.handle(Decline("a", 1, 1, "gone"), 0) == [Unanswered(1, "gone")]
    (*_, told) = router.handle(Feedback(2, "a", 9, 1, {"ok": True}), 0)
    assert isinstance(told, Unanswered)
    (*_, told) = router.handle(Feedback(3, "z", 1, 1, {"ok": True}), 0)
    assert isinstance(told, Unanswered)


def the_newest(self: Local, cause: Unsubscribe) -> str:
    """A planted bug: the newest of the equal subscriptions."""
    wanted = parse(cause.predicate) if not cause.id else None
    held = [id for id, text in self.subscriptions.items() if parse(text) == wanted]
    return cause.id or (held[-1] if held else "")


def by_text(self: Local, cause: Unsubscribe) -> str:
    """A planted bug: only what is written in the same manner is equal."""
    held = self.subscriptions.items()
    return cause.id or next((id for id, text in held if text == cause.predicate), "")


@pytest.mark.parametrize("broken", [the_newest, by_text])
@every_protocol
def test_a_bug_planted_in_unsubscribing_by_value_is_caught(
    name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Local, "meant", broken)
    with pytest.raises(AssertionError):
        test_a_subscription_is_given_up_by_value_one_at_a_time(name)
