"""Many applications on the same live routers (L4), apart from each other, changed as they run."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.effort import SOAK
from tests.live.networks import PATIENCE_S, free_ports
from tests.live.test_router import run, take, until
from tests.places import ROOT
from tidings.cli.sharing import gathered
from tidings.language.predicate import parse
from tidings.live.access import ConfigurationError
from tidings.live.client import Client
from tidings.live.connect import Connector, connect
from tidings.live.errors import DisconnectedError, NetworkError, RefusedError, TimedOutError
from tidings.live.limits import LIMITS
from tidings.live.recorder import replay
from tidings.live.router import Router
from tidings.live.settings import Settings, read_network, read_settings
from tidings.live.sharing import Application, written
from tidings.routing.layers.sealing import Keyring, keyring_of
from tidings.routing.layers.settings import Layering

EXAMPLE = (ROOT / "examples" / "applications.toml").read_text(encoding="utf-8")
BEFORE, AFTER = "replicas = 3\nhops = 1\n", "replicas = 2\nhops = 4\n"
WANTS = {
    "quotes": ["symbol = 'A'", "symbol = 'B' and price > 50", "price < 20", "symbol prefix 'C'"],
    "alerts": ["symbol = 'A'", "price >= 90", "not symbol = 'A' and price < 5"],
    "games": ["x < 150", "x between 90 and 310", "symbol = 'A' and x > 350"],
}


def event_of(number: int) -> dict[str, Any]:
    return {
        "n": number,
        "symbol": "ABCD"[number % 4],
        "price": number * 37 % 100,
        "x": number * 53 % 450,
    }


def network_file(folder: Path, nodes: int = 12) -> tuple[Path, dict[str, int]]:
    """The example with ports that are free, and the port of each router."""
    text = EXAMPLE
    ports = free_ports(12)
    for number, port in enumerate(ports):
        text = text.replace(f"127.0.0.1:{7471 + number}", f"127.0.0.1:{port}")
    if nodes < 12:
        text = "[[node]]".join(text.split("[[node]]")[: nodes + 1])
    path = folder / "network.toml"
    path.write_text(text, encoding="utf-8")
    names = [settings.node for settings in read_network(path)]
    return path, dict(zip(names, ports, strict=False))


CHESS = """
[[application]]
name = "chess"
matching = "regions"
rendezvous = "hash:game"
replicas = 2
hops = 2

[[application]]
name = "quotes"
"""


class Crowd:
    """Subscribers and publishers of three applications, and what they got."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports
        self.stack = AsyncExitStack()
        self.got: Counter[tuple[str, str, int]] = Counter()
        self.published: dict[str, set[int]] = {name: set() for name in WANTS}
        self.stop = False
        self._tasks: list[asyncio.Task[None]] = []
        self._publishing: list[asyncio.Task[None]] = []

    def connect(self, node: str, application: str = "") -> Connector:
        url = f"tidings://127.0.0.1:{self.ports[node]}"
        return connect(url, application=application, timeout_s=PATIENCE_S)

    async def begin(self) -> None:
        """Let clients at different routers subscribe and publish."""
        names = sorted(self.ports)
        asked = []
        for place, (application, texts) in enumerate(WANTS.items()):
            for number, text in enumerate(texts):
                at = names[(5 * number + 3 * place) % len(names)]
                net = await self.stack.enter_async_context(self.connect(at, application))
                asked.append(self._subscribe(net, application, text))
        await asyncio.gather(*asked)
        for place, application in enumerate(WANTS):
            for number in (0, 1):
                at = names[(7 * number + place) % len(names)]
                net = await self.stack.enter_async_context(self.connect(at, application))
                publishing = self._publish(net, application, number)
                self._publishing.append(asyncio.ensure_future(publishing))

    async def _subscribe(self, net: Client, application: str, text: str) -> None:
        subscription = await net.subscribe(text, timeout_s=PATIENCE_S)

        async def listen() -> None:
            with suppress(NetworkError):
                async for event in subscription:
                    self.got[application, text, event["n"]] += 1

        self._tasks.append(asyncio.ensure_future(listen()))

    async def _publish(self, net: Client, application: str, first: int) -> None:
        number = first
        while not self.stop:
            number += 2
            await net.publish(event_of(number))
            self.published[application].add(number)
            await asyncio.sleep(0.01)

    async def play_chess(self) -> None:
        """Use the application that has come."""
        async with self.connect("a", "chess") as one, self.connect("c", "chess") as other:
            subscription = await one.subscribe("game = 3 and move > 0", timeout_s=PATIENCE_S)
            for number in range(1, 6):
                await other.publish({"game": 3, "move": number})
            moves = sorted(event["move"] for event in await take(subscription, 5))
            assert moves == [1, 2, 3, 4, 5]

    def expected(self) -> Counter[tuple[str, str, int]]:
        """What the oracle says: each subscriber gets each event that matches, once."""
        return Counter(
            (application, text, number)
            for application, texts in WANTS.items()
            for text in texts
            for number in self.published[application]
            if parse(text).matches(event_of(number))
        )

    async def end(self) -> None:
        """Publish no more, and see that everybody got what is theirs."""
        self.stop = True
        await asyncio.gather(*self._publishing)
        expected = self.expected()
        for _ in range(round(PATIENCE_S / 0.05)):
            if self.got.total() >= expected.total():
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)  # nothing more comes
        lost, more = expected - self.got, self.got - expected
        assert (sorted(lost)[:5], sorted(more)[:5]) == ([], [])
        assert expected.total() > 20

    async def close(self) -> None:
        for task in (*self._tasks, *self._publishing):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._publishing, return_exceptions=True)
        await self.stack.aclose()


async def applications(net: Client) -> dict[str, dict[str, Any]]:
    findings = await net.ask("status")
    findings.sort(key=lambda finding: finding.get("hops", 0))
    return gathered(findings)


async def rested(net: Client, nodes: int, **settings: int) -> dict[str, dict[str, Any]]:
    """Wait until all routers know each other, and use these settings for quotes."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    found: dict[str, dict[str, Any]] = {}
    while asyncio.get_running_loop().time() < deadline:
        found = await applications(net)
        there = all(one["agreeing"] == nodes for one in found.values())
        if found and there and settings.items() <= found["quotes"].items():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"not at rest: {found}")


@asynccontextmanager
async def routers_of(path: Path) -> AsyncIterator[list[Router]]:
    """The routers of a file in this process, on sockets."""
    async with AsyncExitStack() as stack:
        nodes = [replace(settings, grace_s=60) for settings in read_network(path)]
        yield [await stack.enter_async_context(Router(one)) for one in nodes]


def test_changing_an_application_as_it_runs_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Twelve routers, three applications, everybody publishes: and one gets another (R, H).

    Connections between routers break meanwhile, and come back.
    """

    async def scenario() -> None:
        path, ports = network_file(tmp_path)
        async with routers_of(path) as routers:
            crowd = Crowd(ports)
            try:
                async with crowd.connect("a") as net:
                    first = await rested(net, 12, replicas=3, hops=1)
                    await crowd.begin()
                    await asyncio.sleep(0.3)
                    path.write_text(path.read_text().replace(BEFORE, AFTER))
                    changed = read_network(path)
                    for router, settings in zip(routers, changed, strict=True):
                        assert router.reconfigure(replace(settings, grace_s=60)) == []  # SIGHUP
                        await asyncio.sleep(0)
                        for link in list(router.core.links.values())[:1]:
                            if link.stream is not None:  # connections break as well
                                link.stream.abort()
                    last = await rested(net, 12, replicas=2, hops=4)
                    await asyncio.sleep(0.3)
                    await crowd.end()
                    found = await applications(net)
            finally:
                await crowd.close()
        assert first["quotes"]["epoch"] != last["quotes"]["epoch"]
        for other in ("alerts", "games"):
            assert first[other]["epoch"] == last[other]["epoch"]
            assert found[other]["changes"] == 0
        assert found["quotes"]["changes"] >= 1
        for name, one in found.items():
            assert one["published"] == len(crowd.published[name])
            assert one["subscriptions"] == len(WANTS[name])
            assert one["bytes"] > 1_000
            assert one["matched"] > 0

    run(scenario())


@pytest.mark.slow
def test_tidings_up_runs_applications_and_reads_its_file_again(tmp_path: Path) -> None:
    """The same with processes, as a user does it; twelve of them where there is time."""

    async def scenario() -> None:
        nodes = 12 if SOAK else 4
        path, ports = network_file(tmp_path, nodes)
        code = "import sys; from tidings.cli.main import main; sys.exit(main())"
        up = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, "up", str(path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert up.stderr is not None
        crowd = Crowd(ports)
        try:
            async with crowd.connect("a") as net:
                await rested(net, nodes, replicas=3, hops=1)
                await crowd.begin()
                text = path.read_text().replace(BEFORE, AFTER)
                path.write_text(text.replace(AFTER, "replicas = 99\n"))
                up.send_signal(signal.SIGHUP)
                refusal = (await up.stderr.readline()).decode()
                assert refusal.startswith("tidings up: nothing is changed: ")
                assert f"replicas: expected at most {nodes}, the nodes that match" in refusal
                path.write_text(text.replace('[[application]]\nname = "quotes"\n', CHESS, 1))
                up.send_signal(signal.SIGHUP)
                await rested(net, nodes, replicas=2, hops=4)
                await crowd.play_chess()
                await crowd.end()
            shown = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", code, "status", "--applications"),
                *("--url", f"tidings://127.0.0.1:{ports['b']}"),
                stdout=asyncio.subprocess.PIPE,
            )
            out = (await shown.communicate())[0].decode().splitlines()
        finally:
            await crowd.close()
            up.terminate()
            await up.wait()
        assert out[0] == "alerts: everywhere-tree"
        assert out[4].startswith("chess: regions-list, R = 2, H = 2, X = ")
        assert out[12].startswith("quotes: regions-list, R = 2, H = 4, X = ")
        assert f"{nodes} of {nodes} routers at rest" in out[13]

    run(scenario())


# One router


def shared(**layerings: Layering) -> Settings:
    applications = {name: Application(one) for name, one in layerings.items()}
    return Settings("a", protocol="everywhere-list", applications=applications)


def at(router: Router, application: str = "", **options: Any) -> Connector:
    url = f"tidings://127.0.0.1:{router.port}"
    return connect(url, application=application, **options)


def test_clients_of_different_applications_hear_nothing_of_each_other() -> None:
    async def scenario() -> None:
        settings = shared(quotes=Layering(), alerts=Layering(matching="nowhere"))
        async with (
            Router(settings) as router,
            at(router, "quotes") as q,
            at(router, "alerts") as a,
            at(router) as none,
        ):
            mine, theirs, neither = [await net.subscribe("n > 0") for net in (q, a, none)]
            for number, net in enumerate((q, a, none), 1):
                await net.publish({"n": number})
            found = [await take(one, 1) for one in (mine, theirs, neither)]
            assert [[event["n"] for event in some] for some in found] == [[1], [2], [3]]
            await q.feedback(found[0][0], {"seen": 1})
            assert await q.replies.get() == (1, {"seen": 1})
            with pytest.raises(RefusedError, match="was not delivered to this client"):
                await a.feedback(found[0][0], {"seen": 1})
            assert a.replies.empty()
            (traced,) = await q.ask("trace", {"n": 1})
            assert traced["subscriptions"] == [mine.name]
            (why,) = await a.ask("why", {"n": 1}, mine.name)
            assert why["subscription"] == {"held": False}  # predicates are nobody else's

    run(scenario())


def test_an_application_that_is_not_there_is_an_error() -> None:
    async def scenario() -> None:
        sealed = Layering(seal="application")
        async with Router(shared(quotes=Layering(), secret=sealed)) as router:
            for name, why in (
                ("chess", "application: expected one of quotes, secret, found 'chess'"),
                ("secret", "application: secret is sealed, and a has no key for it"),
            ):
                with pytest.raises(DisconnectedError, match=why):
                    async with at(router, name):
                        pass

    run(scenario())


def test_a_strict_application_refuses_what_has_no_key() -> None:
    async def scenario() -> None:
        strict = Layering(
            matching="regions", rendezvous="hash:symbol", unkeyed="strict", regions=2, replicas=1
        )
        async with Router(shared(quotes=strict)) as router, at(router, "quotes") as net:
            with pytest.raises(RefusedError, match="expected a predicate with one key"):
                await net.subscribe("price > 3")
            await net.subscribe("symbol = 'A'")

    run(scenario())


def test_tokens_may_be_limited_to_applications(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = tmp_path / "a.toml"
        text = """
            name = "a"
            [[application]]
            name = "quotes"
            [[access]]
            name = "q"
            token = "a token for quotes"
            applications = ["quotes"]
        """
        file.write_text(text)
        async with Router(read_settings(file)) as router:
            token = "a token for quotes"
            async with at(router, "quotes", token=token) as net:
                with pytest.raises(DisconnectedError, match="denied"):
                    async with at(router, token=token):
                        pass
                subscription = await net.subscribe("n > 0")
                file.write_text(text.replace('["quotes"]', "[]"))
                router.reconfigure(read_settings(file))
                with pytest.raises(DisconnectedError, match="denied"):
                    await asyncio.wait_for(subscription.__anext__(), PATIENCE_S)

    run(scenario())


def test_a_recording_of_applications_can_be_replayed(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "recording"
        quotes = Application(Layering(matching="regions", rendezvous="hash:symbol"))
        settings = Settings(
            "a", protocol="everywhere-list", applications={"quotes": quotes}, record=path
        )
        async with Router(settings) as router, at(router, "quotes") as net:
            subscription = await net.subscribe("symbol = 'A'")
            await net.publish({"symbol": "A"})
            await take(subscription, 1)
            both = {"quotes": quotes, "alerts": Application()}
            assert router.reconfigure(replace(settings, applications=both)) == []
            async with at(router, "alerts") as other:
                await other.subscribe("n > 0")
        count, differences = replay(path)
        assert count > 2
        assert not differences

    run(scenario())


# Keys


SECRET, NEXT = keyring_of(b"the first secret of an application"), keyring_of(bytes(range(40)))


def test_keys_can_be_changed_one_router_after_the_other(tmp_path: Path) -> None:
    """Events go on while some routers seal with the new key, and others with the old."""
    pytest.importorskip("cryptography")

    async def scenario() -> None:
        path, ports = network_file(tmp_path, 3)
        key = tmp_path / "quotes.key"
        text = path.read_text().replace("replicas = 2\n", "replicas = 3\n")
        text = text.replace('name = "quotes"\n', 'name = "quotes"\nseal = "application"\n')
        path.write_text(text.replace("[[node]]", '[keys]\nquotes = "quotes.key"\n\n[[node]]', 1))
        key.write_text(written([SECRET]))
        async with routers_of(path) as routers:
            names = list(ports)
            async with at(routers[0], "quotes") as one, at(routers[2], "quotes") as other:
                await until(lambda: len(routers[0].status()["reaches"]) == len(names) - 1)
                subscription = await one.subscribe("n > 0", timeout_s=PATIENCE_S)
                number = 0
                for held in ([SECRET, NEXT], [NEXT, SECRET], [NEXT]):
                    key.write_text(written(held))
                    for router, settings in zip(routers, read_network(path), strict=True):
                        assert router.reconfigure(settings) == []
                        number += 1
                        await other.publish({"n": number, "symbol": "A"})
                        assert [event["n"] for event in await take(subscription, 1)] == [number]
                with pytest.raises(RefusedError, match="is sealed: a query would show it"):
                    await one.ask("trace", {"n": 1})
                assert all(not router.status()["drops"] for router in routers)

    run(scenario())


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("key = 3", r"expected 1 to 8 tables \[\[key\]\]"),
        ("[[key]]\napplication = 'zz'", "key 1: application: expected hexadecimal digits"),
        ("[[key]]\napplication = 'abcd'", "key application: expected 32 bytes, found 2"),
        ("[[key]]\nsecret = 'abcd'", "key 1: expected some of application, matching_public"),
        ("= secret", r"expected TOML with tables \[\[key\]\]$"),
    ],
)
def test_a_bad_file_of_keys_is_an_error_that_shows_no_key(
    tmp_path: Path, content: str, error: str
) -> None:
    (tmp_path / "quotes.key").write_text(content)
    (tmp_path / "a.toml").write_text(
        'name = "a"\n[keys]\nquotes = "quotes.key"\n[[application]]\nname = "quotes"\n'
    )
    with pytest.raises(ConfigurationError, match=error) as raised:
        read_settings(tmp_path / "a.toml")
    assert "abcd" not in str(raised.value)


def test_keys_and_recordings_do_not_go_together(tmp_path: Path) -> None:
    quotes = Application(Layering(seal="application"))
    with pytest.raises(ConfigurationError, match="record: expected no keys"):
        Settings(
            "a",
            protocol="everywhere-list",
            applications={"quotes": quotes},
            keys={"quotes": (Keyring(),)},
            record=tmp_path / "recording",
        )


# Settings


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("replicas = 3", "replicas = 13"), "'quotes': replicas: expected at most 12, the nodes"),
        (("hops = 1", "hops = 0"), r"'quotes': Expected `int` >= 1 - at `\$.hops`"),
        (("hops = 1", "hopps = 1"), "'quotes': expected one of name, weight, matching, .*'hopps'"),
        (("hash:symbol", "sum:symbol"), "'quotes': rendezvous: expected one of one, hash"),
        (('"alerts"', '"quotes"'), "two applications have the name 'quotes'"),
        (('name = "alerts"', "name = 3"), "application 2: name: expected a name of 1 to 128"),
        (("weight = 2 ", "weight = 0 "), "'quotes': weight: expected an integer from 1 to 1000"),
        (("hops = 1", 'nodes = ["z"]'), "'quotes': nodes: expected some of a, b, .*found 'z'"),
        (
            ("hops = 1", 'gather = true\nseal = "subscriber"'),
            "gather: expected false with seal 'subscriber'",
        ),
        (
            ("[[application]]", 'protocol = "cbcb"\n[[application]]'),
            "application: expected a protocol of two layers, such as everywhere-list, found cbcb",
        ),
        (("[[application]]", '[keys]\nx = "y"\n[[application]]'), "y: No such file"),
    ],
)
def test_settings_that_cannot_be_are_errors(
    tmp_path: Path, change: tuple[str, str], error: str
) -> None:
    path = tmp_path / "network.toml"
    assert EXAMPLE.count(change[0])
    path.write_text(EXAMPLE.replace(*change, 1))
    with pytest.raises(ConfigurationError, match=error):
        read_network(path)


def test_what_a_running_network_cannot_change_is_refused_and_changes_nothing() -> None:
    async def scenario() -> None:
        async with Router(shared(quotes=Layering())) as router:
            before = router.settings
            with pytest.raises(ConfigurationError, match="seal: expected 'none', which cannot"):
                router.reconfigure(shared(quotes=Layering(seal="application")))
            assert router.settings is before
        async with Router(Settings("a")) as router:  # of another protocol
            changed = shared(quotes=Layering())
            assert router.reconfigure(changed) == ["protocol", "applications"]
            async with at(router) as net:
                subscription = await net.subscribe("n > 0")
                await net.publish({"n": 1})
                await take(subscription, 1)

    run(scenario())


# Applications that come and go


async def reread(path: Path, routers: list[Router]) -> None:
    """What SIGHUP does, at one router after the other."""
    for router, settings in zip(routers, read_network(path), strict=True):
        assert router.reconfigure(replace(settings, grace_s=60)) == []
        await asyncio.sleep(0.05)


def test_an_application_comes_and_goes_while_others_run(tmp_path: Path) -> None:
    """Nobody restarts, the others lose nothing; and one that comes again works as before."""

    async def scenario() -> None:
        path, ports = network_file(tmp_path, 4)
        without = path.read_text()
        added = without.replace('[[application]]\nname = "quotes"\n', CHESS, 1)
        assert added != without
        async with routers_of(path) as routers:
            crowd = Crowd(ports)
            try:
                async with crowd.connect("a") as net:
                    await rested(net, 4)
                    await crowd.begin()
                    for text in (added, without, added):
                        path.write_text(text)
                        await reread(path, routers)
                        found = await rested(net, 4)
                        assert ("chess" in found) == (text == added)
                        if text == added:
                            await crowd.play_chess()
                            kept = await crowd.stack.enter_async_context(
                                crowd.connect("b", "chess")
                            )
                            await kept.subscribe("game = 1", timeout_s=PATIENCE_S)
                            continue
                        with pytest.raises(
                            DisconnectedError, match="application: chess is no longer at b"
                        ):
                            await until_failed(kept)
                    assert all("chess" in router.core.layers for router in routers)
                    await crowd.end()
            finally:
                await crowd.close()

    run(scenario())


async def until_failed(net: Client) -> None:
    """Publish until the client hears that its application is no longer there."""
    for _ in range(round(PATIENCE_S / 0.05)):
        await net.publish({"game": 1}, timeout_s=PATIENCE_S)
        await asyncio.sleep(0.05)


def test_what_waits_for_the_subscribers_of_an_application_has_its_share() -> None:
    """Each session keeps less than it may; together they keep what the application may."""

    async def scenario() -> None:
        limits = replace(LIMITS, waiting_bytes=30_000)
        settings = shared(quotes=Layering(), alerts=Layering())
        async with Router(settings, limits=limits) as router, AsyncExitStack() as stack:
            slow = [
                await stack.enter_async_context(at(router, "quotes", policy="drop", window=1))
                for _ in range(4)
            ]
            kept = [await net.subscribe("n >= 0") for net in slow]
            other = await stack.enter_async_context(at(router, "alerts", window=1))
            everything = await other.subscribe("n >= 0")
            for n in range(30):
                for net in (slow[0], other):
                    await net.publish({"n": n, "text": 300 * "x"})
            figures = router.status()["applications"]
            assert 5_000 < figures["quotes"]["waiting_bytes"] <= 10_000  # four keep 30 each without
            assert [event["n"] for event in await take(everything, 30)] == list(range(30))
            for subscription in kept:
                assert (await take(subscription, 1))[0]["n"] == 0
            await until(lambda: router.status()["applications"]["alerts"]["waiting_bytes"] == 0)

    run(scenario())


def test_subscribers_of_one_application_do_not_take_the_room_of_others() -> None:
    """Each application has its share of what a router holds, and hears which bound it meets."""

    async def scenario() -> None:
        limits = replace(LIMITS, held=30, held_bytes=3_000, sessions=9)
        settings = shared(quotes=Layering(), alerts=Layering())
        async with Router(settings, limits=limits) as router, AsyncExitStack() as stack:
            nets = [await stack.enter_async_context(at(router, "quotes")) for _ in range(3)]
            with pytest.raises(TimedOutError, match="quotes has at most 3 sessions at a router"):
                async with at(router, "quotes", timeout_s=0.2):  # it tries again and again
                    pass
            alerts = await stack.enter_async_context(at(router, "alerts"))
            held = [await nets[n % 3].subscribe(f"n > {n}") for n in range(10)]
            refused = "the application quotes holds at most 10 subscriptions at a router"
            for net in nets:
                with pytest.raises(RefusedError, match=refused):
                    await net.subscribe("n > 99")
            for n in range(8):
                await alerts.subscribe(f"n > {n}")
            long = "text = '" + 1_000 * "x" + "'"
            with pytest.raises(RefusedError, match="holds at most 1,000 bytes of predicates"):
                await alerts.subscribe(long)
            await held[0].unsubscribe()
            await nets[1].subscribe("n > 99")
            figures = router.status()["applications"]
            assert figures["quotes"]["held_bytes"] == sum(len(f"n > {n}") for n in range(1, 10)) + 6
            assert (figures["quotes"]["sessions"], figures["alerts"]["sessions"]) == (3, 1)

    run(scenario())


def test_the_figures_are_json_and_metrics() -> None:
    from tidings.live.gateway import RouterCollector

    async def scenario() -> None:
        async with Router(shared(quotes=Layering(matching="regions"))) as router:
            json.dumps(router.status())
            metrics = {one.name: one for one in RouterCollector(router).collect()}
            (sample,) = metrics["tidings_application_published"].samples
            assert (sample.labels, sample.value) == ({"application": "quotes"}, 0)
            assert router.status()["applications"]["quotes"]["replicas"] == 3

    run(scenario())
