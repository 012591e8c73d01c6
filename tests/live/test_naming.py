"""Two routers of one name: the first stays and loses nothing, the second is kept out and told."""

from dataclasses import replace

import pytest

from tests.live.test_cores import World, taken
from tests.live.test_router import run, until
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings
from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.cluster import PORT, RouterMachine

TOLD = "another router has the name x"


def namesake(world: World, *links: str) -> RouterMachine:
    """A second router with the name `x` starts, at another address."""
    settings = Settings("x", links=tuple(Dial(one, PORT) for one in links))
    machine = world.cluster.start_router("x again", settings, world.cluster.routers["x"].limits)
    world.go(SECOND)
    return machine


def life_at(world: World, router: str) -> int:
    """The life of `x` as a router knows it."""
    return world.cluster.routers[router].core.protocol.life_of("x")


@pytest.mark.parametrize(
    ("hub", "mine"),
    [((), ("hub",)), (("x", "x again"), ()), (("x",), ("hub",))],
    ids=["both dial", "both are dialled", "one is dialled"],
)
def test_a_neighbour_keeps_the_first_router_of_a_name(
    hub: tuple[str, ...], mine: tuple[str, ...]
) -> None:
    world = World(x=mine if hub == () else (), hub=hub)
    first = world.cluster.routers["x"].core
    world.client("ada", "hub")
    world.client("ben", "x")
    inbox = world.subscribe("ben", "kind = 1")
    second = namesake(world, *mine)
    made = world.cluster.connections
    for _ in range(20):
        world.publish("ada", {"kind": 1})
        world.go(SECOND)
        assert taken(inbox) == [{"kind": 1}]
    assert first.links["hub"].up
    assert first.counts.links_lost == 0
    assert world.cluster.connections - made <= 21  # one a second, and no more
    assert TOLD in second.core.troubles()
    assert second.core.counts.twins >= 20
    assert world.cluster.routers["hub"].core.counts.twins >= 20
    assert TOLD not in first.troubles()
    world.cluster.kill(world.cluster.routers["x"])
    world.go(3 * SECOND)
    assert second.core.links["hub"].up
    world.go(10 * SECOND)
    assert TOLD not in second.core.troubles()


def test_a_name_that_is_in_use_far_away_is_refused() -> None:
    world = World(x=(), a=("x",), b=("a",), c=("b",))
    before = life_at(world, "c")
    second = namesake(world, "c")
    world.go(5 * SECOND)
    assert life_at(world, "c") == before == world.cluster.routers["x"].core.life
    assert second.core.troubles() == [f"no link to c:{PORT}", TOLD]
    assert all(one.core.protocol.is_settled() for one in world.cluster.routers.values())


@pytest.mark.parametrize("parted", [False, True], ids=["at once", "in two parts"])
def test_of_two_routers_that_got_in_one_gives_up_its_links(parted: bool) -> None:
    """They come at both ends of a line at once, or while its middle is cut."""
    world = World(x=("a",), a=(), b=("a",), c=("b",))
    settings = world.cluster.routers["x"].settings
    if parted:
        release = world.cluster.hold("a", "b")
        world.go(15 * SECOND)
        second = namesake(world, "c")
        assert second.core.links["c"].up
        release()
    else:
        world.cluster.kill(world.cluster.routers["x"])
        world.go(5 * SECOND)
        world.cluster.start_router("x", settings, world.cluster.routers["a"].limits)
        second = namesake(world, "c")
    world.go(10 * SECOND)
    routers = world.cluster.routers
    twins = [routers["x"].core, second.core]
    kept, other = sorted(twins, key=lambda one: -one.life)
    assert {life_at(world, name) for name in "abc"} == {kept.life}
    assert TOLD in other.troubles()
    made = world.cluster.connections
    world.go(10 * SECOND)
    assert world.cluster.connections - made <= 11
    assert all(one.core.protocol.is_settled() for one in routers.values())
    world.cluster.kill(routers["x"] if kept is routers["x"].core else second)
    world.go(5 * SECOND)
    assert {life_at(world, name) for name in "abc"} == {other.life}


@pytest.mark.parametrize("silently", [False, True])
def test_a_router_that_restarts_is_let_in(silently: bool) -> None:
    world = World(x=("a", "b"), a=("b",), b=(), c=("a",))
    settings = replace(
        world.cluster.routers["x"].settings, links=(Dial("a", PORT), Dial("c", PORT))
    )
    limits = world.cluster.routers["x"].limits
    world.cluster.kill(world.cluster.routers["x"], silently)
    world.go(300 * MILLISECOND)
    machine = world.cluster.start_router("x", settings, limits)
    world.go((limits.silence if silently else 0) + 2 * SECOND)
    assert machine.core.troubles() == []
    assert all(machine.core.links[name].up for name in "ac")


def test_two_routers_of_one_name_do_not_link_to_each_other() -> None:
    world = World(x=(), a=("x",))
    second = namesake(world, "x")
    assert second.core.troubles() == [f"no link to x:{PORT}", TOLD]
    assert set(world.cluster.routers["x"].core.links) == {"a"}


def test_the_second_router_of_a_name_is_refused_on_sockets() -> None:
    async def scenario() -> None:
        async with Router(Settings("hub")) as hub:
            to_hub = (Dial("127.0.0.1", hub.port),)
            async with Router(Settings("x", links=to_hub)) as first:
                await until(lambda: "x" in hub.status()["reaches"])
                second = Router(Settings("x", links=to_hub))
                await second.start()
                await until(lambda: hub.core.counts.twins >= 3)
                assert TOLD in second.core.troubles()
                assert hub.core.links["x"].life == first.core.life
                assert hub.core.counts.links_lost == first.core.counts.links_lost == 0
            await until(lambda: hub.core.protocol.life_of("x") == second.core.life)
            await second.stop()

    run(scenario())
