"""Whole routers and clients on simulated streams, driven by hand: what they owe after a break."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from tidings.language.predicate import parse
from tidings.live.access import Principal
from tidings.live.client_core import Address, ClientCore, Options
from tidings.live.errors import RefusedError
from tidings.live.inbox import Inbox
from tidings.live.limits import LIMITS, Limits
from tidings.live.settings import Dial, Settings
from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.cluster import PORT, Cluster
from tidings.sim.streams import Agenda
from tidings.wire.frames import frame
from tidings.wire.messages import VERSION, Open, encode

LIMITED = replace(LIMITS, queued=2, short_predicate=0)
TOKEN = "a token of sixteen"


class World:
    """Routers, and clients that are connected to them."""

    def __init__(self, **links: tuple[str, ...]) -> None:
        self.cluster = Cluster("by hand", Agenda())
        for name, others in links.items():
            self.start(Settings(name, links=tuple(Dial(one, PORT) for one in others)))
        self.go(3 * SECOND)

    def start(self, settings: Settings) -> None:
        self.cluster.start_router(settings.node, settings, LIMITED)

    def restart(self, name: str, limits: Limits = LIMITED) -> None:
        """A router dies, and is back at once without its memory."""
        settings = self.cluster.routers[name].settings
        self.cluster.kill(self.cluster.routers[name])
        self.cluster.start_router(name, settings, limits)
        self.go(3 * SECOND)

    def go(self, lasts: int = SECOND) -> None:
        agenda = self.cluster.agenda
        agenda.run(agenda.now + lasts)

    def client(self, name: str, *places: str, **options: Any) -> ClientCore:
        addresses = tuple(Address(place, PORT) for place in places)
        machine = self.cluster.start_client(name, Options(addresses, **options), LIMITED)
        machine.do(machine.core.start)
        self.go()
        return machine.core

    def do(self, name: str, function: Callable[[], Any]) -> Any:
        """What a function returns that the machine of a client runs."""
        found = []
        self.cluster.clients[name].do(lambda: found.append(function()))
        return found[0]

    def subscribe(self, name: str, predicate: str) -> Inbox:
        core = self.cluster.clients[name].core
        inbox = self.do(name, lambda: core.subscribe(predicate, lambda error, done: None))
        assert isinstance(inbox, Inbox)
        self.go()
        assert inbox.established
        return inbox

    def publish(self, name: str, event: dict[str, Any]) -> list[Exception | None]:
        """The outcome, as soon as it is known."""
        core, outcome = self.cluster.clients[name].core, list[Exception | None]()
        settled = lambda count, error: outcome.append(error)  # noqa: E731
        self.do(name, lambda: core.publish(event, "received", settled))
        return outcome


def taken(inbox: Inbox) -> list[dict[str, Any]]:
    found = []
    while (event := inbox.take()) is not None:
        found.append(dict(event))
    return found


def test_a_client_learns_of_drops_that_were_told_on_a_connection_that_broke() -> None:
    world = World(a=())
    world.client("ada", "a")
    ben = world.client("ben", "a", policy="drop", window=1)
    world.subscribe("ben", "kind = 1")
    release = world.cluster.hold("ben", "a")
    for _ in range(10):
        world.publish("ada", {"kind": 1})
    world.go()
    world.cluster.cut("ben", "a", lose=True)
    release()
    world.go()
    (dropped,) = (s.dropped for s in world.cluster.routers["a"].core.sessions.values() if s.dropped)
    assert ben.dropped == dropped == 8
    router = world.cluster.routers["a"]
    world.cluster.kill(router)
    world.start(router.settings)
    world.go(3 * SECOND)
    for _ in range(10):
        world.publish("ada", {"kind": 1})
    world.go()
    assert ben.interruptions == 1
    assert ben.dropped == 2 * dropped  # of both sessions


def test_a_new_session_learns_what_its_client_publishes_before_it_gets_publications() -> None:
    world = World(a=())
    ada = world.client("ada", "a")
    world.do("ada", lambda: ada.advertise("kind = 1", lambda error, done: None))
    world.go()
    router = world.cluster.routers["a"]
    world.cluster.kill(router)
    world.go(100 * MILLISECOND)
    good, bad = world.publish("ada", {"kind": 1}), world.publish("ada", {"kind": 2})
    world.start(router.settings)
    world.go(3 * SECOND)
    assert ada.interruptions == 1
    assert good == [None]
    assert [str(one) for one in bad] == ["the event does not match what this client has advertised"]


def test_so_does_the_session_after_one_that_was_lost_before_it_had_learned_it() -> None:
    world = World(a=())
    ada = world.client("ada", "a")
    world.do("ada", lambda: ada.advertise("kind = 1", lambda error, done: None))
    world.go()
    world.cluster.kill(world.cluster.routers["a"])
    world.go(100 * MILLISECOND)
    good, bad = world.publish("ada", {"kind": 1}), world.publish("ada", {"kind": 2})
    interruptions = ada.interruptions
    world.start(Settings("a"))
    while ada.interruptions == interruptions:  # until there is a session
        world.go(MILLISECOND)
    world.cluster.kill(world.cluster.routers["a"])
    world.go(100 * MILLISECOND)
    assert not good
    assert not bad
    world.start(Settings("a"))
    world.go(3 * SECOND)
    assert good == [None]
    assert [type(error) for error in bad] == [RefusedError]


def test_an_event_that_one_router_has_delivered_does_not_come_again_from_the_next() -> None:
    world = World(a=("c",), b=("c",), c=())
    world.client("ada", "c")
    ben, cat = world.client("ben", "a", "b"), world.client("cat", "b")
    ours, other = world.subscribe("ben", "kind = 1"), world.subscribe("cat", "kind = 1")
    release = world.cluster.hold("c", "b")
    world.publish("ada", {"kind": 1, "n": 1})
    world.go()
    assert taken(ours) == [{"kind": 1, "n": 1}]
    world.cluster.kill(world.cluster.routers["a"])
    world.go(2 * SECOND)
    assert ben.node == cat.node == "b"
    release()
    world.go(4 * SECOND)
    world.publish("ada", {"kind": 1, "n": 2})
    world.go()
    assert [event["n"] for event in taken(other)] == [1, 2]
    assert [event["n"] for event in taken(ours)] == [2]


def test_a_predicate_that_is_read_while_rights_change_gets_the_new_ones() -> None:
    world = World()
    holder = Principal("holder", sha256(TOKEN.encode()).digest())
    narrower = replace(holder, receive=parse("public = true"))
    world.start(Settings("a", principals=(holder,)))
    ben = world.client("ben", "a", token=TOKEN)
    core = world.cluster.routers["a"].core
    inbox = world.do("ben", lambda: ben.subscribe("kind = 1", lambda error, done: None))
    (session,) = core.sessions.values()
    while not session._busy:
        world.go(MILLISECOND // 2)
    settings = Settings("a", principals=(narrower,))
    world.cluster.routers["a"].do(lambda: core.reconfigure(settings))
    world.go()
    assert inbox.established
    for public in (True, False):
        world.publish("ben", {"kind": 1, "public": public})
    world.go()
    assert [event["public"] for event in taken(inbox)] == [True]


def test_what_goes_on_while_a_client_comes_back_is_told_once() -> None:
    """The client takes events while it is away, and its publications wait for that room."""
    world = World(a=())
    ada = world.client("ada", "a")
    ours = world.subscribe("ada", "kind = 1")
    outcomes = [world.publish("ada", {"kind": 1, "n": n}) for n in range(4)]
    refused = world.publish("ada", {"tidings:x": 1})
    world.go()
    (session,) = world.cluster.routers["a"].core.sessions.values()
    assert session.is_held
    assert refused == []
    for _ in range(2):  # the second greeting says how many notices have come
        world.cluster.cut("ada", "a", lose=True)
        world.do("ada", lambda: taken(ours))
        world.go(2 * SECOND)
        assert ada.failure is None
    assert outcomes == [[None]] * 4
    assert [type(one) for one in refused] == [RefusedError]
    assert ada.unreceived == 0


def test_a_session_expires_also_after_a_greeting_that_cannot_be_true() -> None:
    for heard, noticed in ((10**6, 0), (0, 10**6)):
        world = World(a=())
        ada = world.client("ada", "a")
        position = ada.position(Inbox(1, "true", print), 0)
        world.cluster.kill(world.cluster.clients["ada"])
        world.go()
        says = Open(VERSION, "", position.session, heard, heard, noticed, "block", 4)
        world.cluster.intrude("liar", "a", frame(encode(says)), reads=True)
        world.go()
        router = world.cluster.routers["a"].core
        assert len(router.sessions) == 1
        world.go(round(router.settings.linger_s * SECOND))
        assert not router.sessions


def held_by(world: World, router: str) -> set[int]:
    """The numbers of the subscriptions that a router holds for its only client."""
    (session,) = world.cluster.routers[router].core.sessions.values()
    return set(session.subscriptions)


def test_a_replacement_that_is_refused_changes_nothing() -> None:
    world = World(a=())
    ben = world.client("ben", "a")
    inbox = world.subscribe("ben", "n = 1")
    heard: list[Exception | None] = []
    changes: list[bool] = []
    inbox.on_change = lambda: changes.append(inbox.established)
    for predicate in ("n = (", "n = 2", "n = )"):  # one after the other, before any answer
        world.do(
            "ben", partial(ben.replace, inbox, predicate, lambda error, _: heard.append(error))
        )
    assert not inbox.established
    world.go()
    assert [type(error) for error in heard] == [RefusedError, type(None), RefusedError]
    assert inbox.established
    assert changes[-1]
    assert inbox.predicate == "n = 2"
    world.restart("a")  # the new session gets the one that was accepted last
    assert inbox.established
    for number in (1, 2):
        world.publish("ben", {"n": number})
    world.go()
    assert taken(inbox) == [{"n": 2}]


def test_a_replacement_that_a_new_session_refuses_leaves_the_one_before() -> None:
    world = World(a=())
    ben = world.client("ben", "a")
    inbox = world.subscribe("ben", "n = 1")
    release = world.cluster.hold("ben", "a")
    heard: list[Exception | None] = []
    world.do("ben", lambda: ben.replace(inbox, "n = (", lambda error, _: heard.append(error)))
    world.cluster.kill(world.cluster.routers["a"])
    release()
    world.start(Settings("a"))
    world.go(3 * SECOND)
    assert [type(error) for error in heard] == [RefusedError]
    assert ben.interruptions == 1
    assert inbox.established
    world.publish("ben", {"n": 1})
    world.go()
    assert taken(inbox) == [{"n": 1}]


def test_nothing_is_held_of_a_subscription_that_was_refused_and_whose_replacement_was() -> None:
    world = World(a=())
    ben = world.client("ben", "a")
    first = world.subscribe("ben", "n = 1")
    release = world.cluster.hold("ben", "a")
    # The router is back with room for one; when the second is refused, the first is given up.
    second = world.do("ben", lambda: ben.subscribe("n = 2", lambda error, _: ben.give_up(first)))
    heard: list[Exception | None] = []
    world.do("ben", lambda: ben.replace(second, "n = 3", lambda error, _: heard.append(error)))
    world.cluster.kill(world.cluster.routers["a"])
    release()
    world.cluster.start_router("a", Settings("a"), replace(LIMITED, subscriptions=1))
    world.go(3 * SECOND)
    assert [type(error) for error in heard] == [RefusedError]
    assert ben.interruptions == 1
    assert not ben.inboxes
    assert held_by(world, "a") == set()


def test_sessions_that_are_lost_again_and_again_do_not_pile_up_requests() -> None:
    world = World(a=())
    ben = world.client("ben", "a")
    inbox = world.subscribe("ben", "n = 1")
    for _ in range(3):  # lost before the router has accepted anything
        ben._begin_anew(None)  # type: ignore[arg-type]
    asked = [*ben._asked.values(), *ben._unasked]
    assert [one.message.predicate for one in asked] == ["n = 1"]
    assert (inbox.interruptions, inbox.established) == (3, False)
