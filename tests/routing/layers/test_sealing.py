"""Separate domains of trust (L1): nodes that only deliver never hold content."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.routing.layers.network import published, subscribed
from tests.routing.layers.test_layers import every_pair, options
from tests.routing.running import network_of, router_of
from tidings.overlay.topologies import topology
from tidings.routing.layers.matching import Matching
from tidings.routing.layers.router import LayeredRouter
from tidings.routing.layers.sealing import (
    SEALS,
    Keyring,
    Open,
    Seal,
    SealEach,
    SealError,
    keyring_of,
)
from tidings.routing.layers.settings import Layering
from tidings.routing.layers.store import digest_of_all
from tidings.routing.packets import Consignment, Listed, Publication, Put, Sealed, Spread, Walk
from tidings.routing.protocol import Publish, Received, Subscribe

pytest.importorskip("cryptography")

KEYS = keyring_of(b"the secret of an application, at least 32 bytes")
EDGE = Keyring(KEYS.application, KEYS.matching_public)
MATCHES = Keyring(b"", KEYS.matching_public, KEYS.matching_private)
CANARIES = (b"canary", b"yellow", b"finch", b"4711", b"feather")
events = st.dictionaries(
    st.text(max_size=8), st.integers(-(2**63), 2**63) | st.text(max_size=300), max_size=5
)


# What an outsider could find in a node


def held(thing: Any, seen: set[int]) -> Iterator[bytes]:
    """Every text, number and byte that can be reached from an object."""
    if id(thing) in seen or isinstance(thing, type) or callable(thing):
        return
    seen.add(id(thing))
    if isinstance(thing, bytes):
        yield thing
    elif isinstance(thing, str | int | float):
        yield str(thing).encode()
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from held(key, seen)
            yield from held(value, seen)
    elif isinstance(thing, list | tuple | set | frozenset):
        for item in thing:
            yield from held(item, seen)
    else:
        names = [*getattr(thing, "__dict__", ()), *getattr(type(thing), "__slots__", ())]
        names += getattr(thing, "__struct_fields__", ())
        for name in names:
            yield from held(getattr(thing, name, None), seen)


class Watched(LayeredRouter):
    """A node that only delivers, and all that it gets, keeps, says and is asked."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.leaks: list[bytes] = []

    def handle(self, cause: Any, now: int) -> Any:
        actions = super().handle(cause, now)
        self.leaks.append(msgspec.msgpack.encode(cause))  # what it receives, or a recorder writes
        self.leaks += [msgspec.msgpack.encode(action) for action in actions]  # drops are logged
        self.leaks += [repr(action).encode() for action in actions]
        return actions


def canaries_in(node: Watched) -> set[bytes]:
    leaks = [*node.leaks, repr(node.snapshot()).encode()]
    leaks.append(repr(node.explain_links("0", {"unknown": 1})).encode())
    node.leaks = []
    leaks += held(node, set())
    return {canary for canary in CANARIES for leak in leaks if canary in leak}


def domains(who: str, how: str, deliver: Keyring | None = None, seal: str = "application") -> Any:
    """Edges at the ends of a grid, nodes that match in a corner, and the others only deliver."""
    graph = topology("grid:3x4")
    matching = tuple(graph.names[:2]) if who == "regions" else ()
    edges = {graph.names[0], graph.names[3], graph.names[8], graph.names[11]}
    if who != "regions":
        matching = tuple(sorted(edges))

    def make(node: str, life: int, topologies: Any) -> Any:
        chosen = options(who, how, nodes=matching, seal=seal)
        keys = KEYS if node in edges and node in matching else EDGE if node in edges else MATCHES
        if node in edges or node in matching:
            return LayeredRouter(node, life, topologies=topologies, options=chosen, keys=keys)
        return Watched(node, life, topologies=topologies, options=chosen, keys=deliver)

    network, log = network_of(graph, make=make)
    return network, log, sorted(edges)


@every_pair
def test_delivery_nodes_never_hold_content(who: str, how: str) -> None:
    network, log, edges = domains(who, how)
    wants = {edges[0]: ["a = 'canary' and yellow > 4710"], edges[3]: ["feather = 'finch'"]}
    subscribed(network, wants)
    assert published(network, log, edges[1], {"a": "canary", "yellow": 4711}) == [f"{edges[0]}/0"]
    assert published(network, log, edges[2], {"feather": ["finch", "canary"]}) == [f"{edges[3]}/0"]
    relayed = 0
    for name in network.nodes:
        node = router_of(network, name)
        if isinstance(node, Watched):
            relayed += sum(b"canary" not in leak and len(leak) > 200 for leak in node.leaks)
            assert canaries_in(node) == set(), name
    assert relayed


def test_the_search_finds_canaries_where_nothing_is_sealed() -> None:
    network, log, edges = domains("everywhere", "list", seal="none")
    subscribed(network, {edges[0]: ["a = 'canary'"]})
    published(network, log, edges[3], {"a": "canary", "yellow": 4711})
    watched = [router_of(network, n) for n in network.nodes]
    found = [canaries_in(node) for node in watched if isinstance(node, Watched)]
    assert {b"canary", b"yellow", b"4711"} <= set().union(*found)


class Unparsed(Seal):
    """Hides content from nodes by not parsing it: a toy that the search must unmask."""

    def seal_event(self, publication: Publication) -> bytes:
        return msgspec.msgpack.encode(publication)


def test_a_payload_that_is_merely_not_parsed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SEALS, "application", Unparsed)
    network, log, edges = domains("everywhere", "list")
    subscribed(network, {edges[0]: ["a = 'canary'"]})
    published(network, log, edges[3], {"a": "canary"})
    watched = [router_of(network, n) for n in network.nodes]
    found = [canaries_in(node) for node in watched if isinstance(node, Watched)]
    assert b"canary" in set().union(*found)


# The seals


@given(events, st.integers(0, 2**40))
def test_what_is_sealed_can_be_opened_with_the_key_and_only_with_it(
    event: dict[str, Any], number: int
) -> None:
    publication = Publication("a", 7, number, event)
    seal = Seal("quotes", KEYS)
    sealed = seal.seal_event(publication)
    assert seal.open_event(sealed) == publication
    other = Keyring(b"x" * 32, KEYS.matching_public)
    assert Seal("quotes", other).open_event(sealed) is None
    assert Seal("alerts", KEYS).open_event(sealed) is None  # of another application
    assert Seal("quotes", MATCHES).open_event(sealed) is None
    assert Seal("quotes", Keyring()).open_event(sealed) is None
    assert seal.open_event(sealed[:-1] + bytes([sealed[-1] ^ 1])) is None
    assert len(sealed) - 16 in [1 << n for n in range(6, 16)]  # the length tells little


@given(events)
def test_what_goes_to_nodes_that_match_is_read_by_them_alone(event: dict[str, Any]) -> None:
    publication = Publication("a", 7, 1, event)
    walk = Walk("quotes", "a", 7, 1, 0, 4, (("b", ((1, 2),)),), publication, b"sealed", ())
    put = Put("quotes", "a", 7, 1, True, ((("s", 4, 1, 2), "a = 'canary'"),), (), 99)
    for packet in (walk, put):
        box = Seal("quotes", EDGE).wrap(packet)
        assert isinstance(box, Sealed)
        assert b"canary" not in box.box
        assert Seal("quotes", MATCHES).unwrap(box) == packet
        assert Seal("quotes", EDGE).unwrap(box) is None
        assert Seal("quotes", Keyring()).unwrap(box) is None
        assert Seal("alerts", MATCHES).unwrap(box) is None
        assert Seal("quotes", MATCHES).unwrap(Sealed("quotes", box.box[:-1])) is None
        assert Seal("quotes", MATCHES).unwrap(Sealed("quotes", b"")) is None
        assert Seal("quotes", EDGE).wrap(packet) == box  # nothing is drawn: it can be replayed


def test_boxes_never_share_a_key() -> None:
    seal = Seal("quotes", EDGE)
    puts = [Put("quotes", "a", 7, number, False, (), (), 0) for number in range(50)]
    boxes = [seal.wrap(put) for put in puts]
    assert len({box.box[:32] for box in boxes if isinstance(box, Sealed)}) == 50


def test_keys_that_differ_between_domains_are_counted_drops() -> None:
    graph = topology("line:3")
    other = keyring_of(b"another secret, also of at least 32 bytes")
    keys = {"0": KEYS, "1": Keyring(b"", other.matching_public, other.matching_private), "2": KEYS}

    def make(node: str, life: int, topologies: Any) -> Any:
        chosen = Layering(matching="regions", nodes=("1",), seal="application")
        return LayeredRouter(node, life, topologies=topologies, options=chosen, keys=keys[node])

    network, log = network_of(graph, make=make)
    subscribed(network, {"0": ["a = 1"]})
    assert not log.settled  # it is not established, and nobody claims so
    assert "sealed with another key" in log.drops
    assert router_of(network, "1").snapshot()["unreadable"] > 0


# Each subscriber's node has a key of its own


def each(node: str, number: int = 0, matches: bool = False) -> Keyring:
    """The keys of a node in the mode `subscriber`."""
    own = keyring_of(f"the own secret of node {node}, number {number}".encode()).matching_private
    return Keyring(b"", KEYS.matching_public, KEYS.matching_private if matches else b"", own)


def nodes_with_keys(who: str, how: str) -> Any:
    """A ring in which some nodes match and each has a key of its own."""
    graph = topology("ring:6")
    matching = ("0", "3") if who == "regions" else ()

    def make(node: str, life: int, topologies: Any) -> Any:
        chosen = options(who, how, nodes=matching, seal="subscriber")
        keys = each(node, matches=not matching or node in matching)
        return LayeredRouter(node, life, topologies=topologies, options=chosen, keys=keys)

    return network_of(graph, make=make)


@every_pair
def test_an_event_can_be_read_by_its_destinations_alone(who: str, how: str) -> None:
    network, log = nodes_with_keys(who, how)
    subscribed(network, {"1": ["a = 'canary'"], "4": ["a = 'canary'", "b = 2"], "5": ["b = 3"]})
    assert published(network, log, "2", {"a": "canary"}) == ["1/0", "4/0"]
    assert published(network, log, "1", {"b": [2, 3]}) == ["4/1", "5/0"]
    bearers = [packet.inner if isinstance(packet, Listed) else packet for _, _, packet in log.sends]
    payloads = [one.payload for one in bearers if isinstance(one, Spread | Consignment)]
    assert payloads
    for payload in payloads:
        assert isinstance(payload, bytes)
        for node in "012345":
            opened = SealEach("", each(node), node).open_event(payload)
            wanted = who == "nowhere" or node in "45"
            assert (opened is not None) <= wanted, node
    assert "no key of a subscriber's node" not in log.drops
    assert "sealed with another key" not in log.drops


def test_a_key_for_each_destination_costs_80_bytes() -> None:
    seal = SealEach("quotes", each("0", matches=True), "0")
    publics = {str(n): SealEach("quotes", each(str(n)), str(n)).public for n in range(9)}
    publication = Publication("a", 1, 1, {"a": 1})
    sizes = []
    for count in (1, 2, 8):
        payload = seal.addressed(publication, dict(list(publics.items())[:count]))
        assert isinstance(payload, bytes)
        sizes.append(len(payload))
        for node in range(9):
            opened = SealEach("quotes", each(str(node)), str(node)).open_event(payload)
            assert opened == (publication if node < count else None)
    # The key of the event and its tag, and four bytes for the name and the lengths.
    assert [sizes[1] - sizes[0], sizes[2] - sizes[1]] == [84, 6 * 84]


def test_garbage_is_no_event_for_anybody() -> None:
    seal = SealEach("quotes", each("0"), "0")
    for payload in (b"", b"x", msgspec.msgpack.encode([b"", {"0": b""}, b""])):
        assert seal.open_event(payload) is None


# Keys that change


def test_keys_change_one_node_after_the_other_and_nothing_is_lost() -> None:
    """First all nodes accept the new keys, then all use them, then they forget the old ones."""
    old, new = KEYS, keyring_of(b"the second secret of an application, as long")
    for seal in ("application", "subscriber"):
        graph = topology("ring:5")

        def of(node: str, number: int, seal: str = seal) -> Keyring:
            if seal == "application":
                return (old, new)[number]
            keys = (old, new)[number]
            own = each(node, number).subscriber_private
            return Keyring(b"", keys.matching_public, keys.matching_private, own)

        def make(
            node: str, life: int, topologies: Any, seal: str = seal, of: Any = of
        ) -> LayeredRouter:
            chosen = Layering(matching="regions", replicas=2, hops=2, seal=seal)  # type: ignore[arg-type]
            return LayeredRouter(
                node, life, topologies=topologies, options=chosen, keys=of(node, 0)
            )

        network, log = network_of(graph, make=make)
        subscribed(network, {"1": ["a > 0"], "4": ["a > 0"]})
        for numbers in ((0, 1), (1, 0), (1,)):
            for node in graph.names:
                out: list[Any] = []
                keys = [of(node, number) for number in numbers]
                router_of(network, node).layers.rekey(keys, network.now, out)
                network._act(network.nodes[node], out)
                assert published(network, log, "0", {"a": 1}) == ["1/0", "4/0"], (seal, numbers)
        assert "sealed with another key" not in log.drops
        # Who has only the old keys can read nothing any more.
        router_of(network, "4").layers.rekey([of("4", 0)], network.now, [])
        assert published(network, log, "0", {"a": 1}) == ["1/0"]
        assert "sealed with another key" in log.drops


def test_a_node_without_keys_takes_no_users() -> None:
    node = LayeredRouter("a", options=Layering(seal="application"))
    for cause in (Subscribe("s", "a = 1"), Publish({"a": 1})):
        with pytest.raises(SealError, match="is sealed: expected its key to publish"):
            node.handle(cause, 0)


def test_keys_of_another_length_are_refused_and_never_shown() -> None:
    with pytest.raises(SealError, match="key application: expected 32 bytes, found 3"):
        Seal("quotes", Keyring(b"abc"))
    with pytest.raises(SealError, match="secret: expected at least 32 bytes, found 5"):
        keyring_of(b"short")
    assert repr(KEYS) == "<Keyring: application, matching_public, matching_private>"
    assert repr(Keyring()) == "<Keyring: no key>"


def test_what_is_not_sealed_is_passed_as_it_is() -> None:
    publication = Publication("a", 1, 1, {})
    assert Open().seal_event(publication) == b""
    assert Open().open_event(publication) is publication
    assert Open().open_event(b"bytes") is None
    assert Matching.__doc__


# A node without keys that does not only deliver


def network_with_an_outsider(seal: str) -> Any:
    """A ring in which node 5 has no keys, and four nodes match."""

    def make(node: str, life: int, topologies: Any) -> Any:
        chosen = options("regions", "list", nodes=tuple("0123"), seal=seal)
        inside = KEYS if seal == "application" else each(node, matches=True)
        keys = inside if node in "0123" else Keyring()
        return LayeredRouter(node, life, topologies=topologies, options=chosen, keys=keys)

    network, log = network_of(topology("ring:6"), make=make)
    subscribed(network, {"0": ["a = 1"]})
    return network, log


OUTSIDER = SealEach("", Keyring(subscriber_private=b"the outsider's own key, 32 bytes"), "5")


def wants_all(network: Any, public: bytes) -> Put:
    """A subscription of node 5 to everything, with a key for its events."""
    life = router_of(network, "5").plane.life
    slot = ("all", 1, 0, 0)
    return Put("", "5", life, 1, True, ((slot, "true"),), (), digest_of_all({slot: "true"}), public)


@pytest.mark.parametrize("seal", list(SEALS))
def test_who_has_no_keys_can_neither_subscribe_nor_publish(seal: str) -> None:
    network, log = network_with_an_outsider(seal)
    forged = Publication("5", 1, 1, {"a": 1})
    walk = Walk("", "5", 1, 1, 0, 1, (("2", ((0, 0),)),), forged, b"", ())
    for node in "0123":
        router = router_of(network, node)
        before = router.snapshot()["unreadable"]
        for packet in (wants_all(network, OUTSIDER.public), walk):
            cause = Received("5", Listed((node,), 0, 0, packet))
            assert [a.reason for a in router.handle(cause, network.now)] == ["not sealed"]
        assert router.snapshot()["unreadable"] == before + 2
    assert published(network, log, "1", {"a": 1, "secret": "canary"}) == ["0/0"]
    sent = [packet.inner for _, _, packet in log.sends if isinstance(packet, Listed)]
    payloads = [inner.payload for inner in sent if isinstance(inner, Consignment)]
    assert payloads
    assert all(OUTSIDER.open_event(payload) is None for payload in payloads)


@pytest.mark.parametrize(
    "public", [b"short", bytes(32), b"\x01" + bytes(31)], ids=["short", "0", "1"]
)
def test_a_key_with_which_nothing_can_be_sealed_is_refused(public: bytes) -> None:
    network, log = network_with_an_outsider("subscriber")
    box = SealEach("", each("3"), "3").wrap(wants_all(network, public))
    for node in "0123":
        router = router_of(network, node)
        out = router.handle(Received("5", Listed((node,), 0, 0, box)), network.now)
        assert [action.reason for action in out] == ["no key of a subscriber's node"]
    assert published(network, log, "2", {"a": 1}) == ["0/0"]
