"""Tokens, TLS, settings, and a router's HTTP pages."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.live.test_router import at, chain, run, take, until
from tidings.language.predicate import parse
from tidings.live.access import ANYONE, ConfigurationError, Principal, read_principals
from tidings.live.connect import connect
from tidings.live.errors import DisconnectedError, RefusedError
from tidings.live.gateway import Gateway
from tidings.live.inbox import Tiding
from tidings.live.limits import Limits
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings, read_network, read_settings
from tidings.routing.protocol import MILLISECOND

TOKENS = {"ops": "o" * 20, "news": "n" * 20, "peer": "p" * 20}
PRINCIPALS = tuple(
    read_principals(
        [
            {"name": "ops", "token": TOKENS["ops"], "status": True},
            {
                "name": "news",
                "token": TOKENS["news"],
                "publish": "class = 'news'",
                "receive": "public = true",
            },
            {"name": "peer", "token": TOKENS["peer"], "router": True},
        ],
        "test",
    )
)


def test_a_token_bounds_what_its_holder_publishes_and_receives() -> None:
    async def scenario() -> None:
        async with (
            Router(Settings("a", principals=PRINCIPALS)) as a,
            at(a, token=TOKENS["ops"]) as ops,
            at(a, token=TOKENS["news"]) as news,
        ):
            everything = await news.subscribe("true")
            await ops.publish_all([{"n": 1, "public": False}, {"n": 2, "public": True}])
            await everything.replace("n > 0")
            await ops.publish_all([{"n": 3}, {"n": 4, "public": True}])
            assert [event["n"] for event in await take(everything, 2)] == [2, 4]
            await news.publish({"class": "news"})
            with pytest.raises(RefusedError, match="may not publish"):
                await news.publish({"class": "order"})
            with pytest.raises(RefusedError, match="may not ask"):
                await news.ask("status")
            assert await ops.ask("status")
            assert not everything.waiting

    run(scenario())


QUICK = Limits(denial=MILLISECOND)


def test_without_a_token_nobody_gets_in() -> None:
    async def scenario() -> None:
        async with Router(Settings("a", principals=PRINCIPALS), limits=QUICK) as a:
            for token in ("", "x" * 20, TOKENS["ops"][:-1]):
                with pytest.raises(DisconnectedError, match="denied"):
                    async with at(a, token=token):
                        pass
            assert a.core.counts.denied == 3

    run(scenario())


def test_routers_join_with_a_token_for_routers() -> None:
    async def scenario() -> None:
        async with Router(Settings("a", principals=PRINCIPALS)) as a:
            link = (Dial("127.0.0.1", a.port),)
            async with Router(Settings("b", links=link, link_token=TOKENS["ops"])):
                await asyncio.sleep(0.3)
                assert not a.core.links
            async with Router(Settings("c", links=link, link_token=TOKENS["peer"])):
                while "c" not in a.core.links:
                    await asyncio.sleep(0.01)

    run(scenario())


def test_the_router_installs_the_conjunction_of_subscription_and_permission(seed: int) -> None:
    chance = Random(f"access {seed}")
    texts = ["x > 1", "x < 3", "y = 'a'", "not x > 1", "x = 2 or y = 'b'", "exists y", "true"]
    for _ in range(200):
        asked, allowed = chance.choice(texts), chance.choice(texts)
        principal = Principal("p", receive=parse(allowed))
        event = {"x": chance.randrange(5), "y": chance.choice("abc")}
        both = parse(asked).matches(event) and parse(allowed).matches(event)
        assert principal.restrict(parse(asked)).matches(event) == both
    assert ANYONE.restrict(parse("x > 1")) == parse("x > 1")


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key)),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_clients_and_routers_speak_tls(tmp_path: Path) -> None:
    async def scenario() -> None:
        cert, key = certificate(tmp_path)
        async with Router(Settings("a", certificate=cert, key=key)) as a:
            dial = Dial("localhost", a.port, tls=True)
            async with Router(Settings("b", links=(dial,), authority=cert)) as b:
                while not b.status()["reaches"]:
                    await asyncio.sleep(0.02)
                url = f"tidings+tls://localhost:{a.port}"
                async with connect(url, authority=cert) as ada, at(b) as ben:
                    subscription = await ben.subscribe("x = 1")
                    await ada.publish({"x": 1}, "routed")
                    assert await take(subscription, 1) == [{"x": 1}]
            with pytest.raises(DisconnectedError, match="certificate"):  # nobody trusted signed it
                async with connect(f"tidings+tls://localhost:{a.port}"):
                    pass

    run(scenario())


def test_strangers_that_never_shake_hands_do_not_keep_others_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        cert, key = certificate(tmp_path)
        limits = Limits(ungreeted=20)
        async with Router(Settings("a", certificate=cert, key=key), limits=limits) as a:
            silent = [await asyncio.open_connection("127.0.0.1", a.port) for _ in range(60)]
            await until(lambda: a.core.counts.evicted >= 40)
            url = f"tidings+tls://localhost:{a.port}"
            async with connect(url, authority=cert) as net:
                await net.publish({"x": 1})
            ended = [await asyncio.wait_for(reader.read(), 10) for reader, _ in silent[:40]]
            assert ended == [b""] * 40  # the oldest go
            assert not any(reader.at_eof() for reader, _ in silent[45:])
            for _, writer in silent:
                writer.close()

    run(scenario())


def test_a_handshake_must_come_to_its_end_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        cert, key = certificate(tmp_path)
        limits = Limits(greeting=200 * MILLISECOND)
        async with Router(Settings("a", certificate=cert, key=key), limits=limits) as a:
            reader, writer = await asyncio.open_connection("127.0.0.1", a.port)
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()

    run(scenario())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listen = '127.0.0.1:1'", "name: expected"),
        ("name = 'a'\nlisten = 'here'", "listen: expected HOST:PORT"),
        ("name = 'a'\nlisten = '0.0.0.0:7000'", "expected [[access]] tables"),
        (
            "name = 'a'\nprotocol = 'magic'",
            "protocol: expected one of cbcb, subscriptions",
        ),
        ("name = 'a'\noptions = 'fast'", "options: expected a table"),
        ("name = 'a'\noptions = {characters = 'x'}", "option: characters: expected `int`"),
        ("name = 'a'\ncolour = 'red'", "found 'colour'"),
        ("name = 'a'\n[[access]]\nname = 'x'\ntoken = 'short'", "token: expected"),
        (
            "name = 'a'\n[[access]]\nname = 'x'\ntoken = '0123456789abcdef'\nreceive = '('",
            "receive",
        ),
        ("name = 'a'\n[[access]]\nname = 'x'\ntoken = '0123456789abcdef'\nroot = true", "expected"),
        ("name = 'a'\nhttp = '0.0.0.0:80'", "this machine"),
        ("name = 'a'\n[tls]\ncertificate = 'x'", "both certificate and key"),
        ("name = ", "Invalid value"),
        ("name = 'a/b'", "without a slash"),
        ("name = 'a'\nlink = [7]", "link: expected"),
        (f"name = 'a'\nlink_token = '{'x' * 129}'", "link_token: expected a text of at most 128"),
    ],
)
def test_a_mistake_in_the_settings_is_an_error_that_says_where(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_settings(file)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_a_network_file_has_a_router_for_each_table(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(
        "protocol = 'flood'\n"
        "[[node]]\nname = 'a'\nlisten = '127.0.0.1:7001'\n"
        "[[node]]\nname = 'b'\nlisten = '127.0.0.1:7002'\n"
        "link = [{address = '127.0.0.1:7001', cost = 3}]\n",
        encoding="utf-8",
    )
    a, b = read_network(file)
    assert (a.node, a.port, a.protocol, b.links) == (
        *("a", 7001, "flood"),
        (Dial("127.0.0.1", 7001, 3),),
    )


def test_pages_show_health_status_and_metrics() -> None:
    async def scenario() -> None:
        async with chain(2) as (a, b), at(a) as ada, at(b) as ben:
            subscription = await ben.subscribe("x = 1")
            await ada.publish_all([{"x": 1}, {"x": 2}])
            await take(subscription, 1)
            gateway = Gateway(a, "127.0.0.1", 0)
            await gateway.start()

            def get(page: str) -> str:
                with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/{page}") as answer:
                    text: str = answer.read().decode()
                    return text

            assert json.loads(await asyncio.to_thread(get, "health")) == {
                "node": "a",
                "healthy": True,
                "why": [],
            }
            status = json.loads(await asyncio.to_thread(get, "status"))
            assert status["counts"]["published"] == 2
            assert status["announcements"] == 0  # the subscription is at the other router
            metrics = await asyncio.to_thread(get, "metrics")
            assert "tidings_published_total 2.0" in metrics
            assert "tidings_announcements_now 0.0" in metrics
            assert "# HELP tidings_settled Whether routes are up to date." in metrics
            assert 'tidings_link_events_out_total{neighbour="b"} 1.0' in metrics
            with pytest.raises(urllib.error.HTTPError):
                await asyncio.to_thread(get, "secret")
            await gateway.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("event", "is_allowed"),
    [
        ({"class": "news"}, True),
        ({"class": ["news"]}, True),
        ({"class": ["news", "news"]}, True),
        ({"class": ["news", "alert"]}, False),
        ({"class": "news", "tags": ["a", "b"]}, True),
        ({"class": "news", "secret": ["no", "yes"]}, False),
        ({"class": "news", "who": [{"secret": "no"}, {"secret": "yes"}]}, True),
        ({"class": ["news"] * 40, "tags": list(range(40))}, False),  # too many to try
    ],
)
def test_lists_do_not_widen_what_a_token_may_publish(
    event: dict[str, Any], is_allowed: bool
) -> None:
    reporter = Principal("reporter", publish=parse("class = 'news' and not secret = 'yes'"))
    assert reporter.may_publish(event) is is_allowed


def test_only_who_got_an_event_may_reply_to_its_publisher() -> None:
    async def scenario() -> None:
        async with chain(2) as (a, b), at(a) as ada, at(b) as ben, at(b) as eve:
            some = await ben.subscribe("x = 1")
            number = await ada.publish({"x": 1})
            (event,) = await take(some, 1)
            guessed = Tiding({}, event.source, event.life, event.number, 12345)
            with pytest.raises(RefusedError, match="was not delivered to this client"):
                await eve.feedback(guessed, {"no": 1})
            await ben.feedback(event, {"yes": 1})
            assert await asyncio.wait_for(ada.replies.get(), 10) == (number, {"yes": 1})

    run(scenario())


def test_a_wrong_token_hears_so_late_and_is_counted() -> None:
    async def scenario() -> None:
        limits = Limits(denial=200 * MILLISECOND)
        async with Router(Settings("a", principals=PRINCIPALS), limits=limits) as a:
            loop = asyncio.get_running_loop()
            began = loop.time()
            guesses = (connect(f"tidings://127.0.0.1:{a.port}", token="x" * 16) for _ in range(5))
            found = await asyncio.gather(
                *(one.__aenter__() for one in guesses), return_exceptions=True
            )
            assert {type(one) for one in found} == {DisconnectedError}
            assert loop.time() - began >= 0.2
            assert a.status()["counts"]["denied"] == 5

    run(scenario())


def test_new_settings_narrow_and_revoke_tokens_without_losing_a_session() -> None:
    one, other = "1" * 16, "2" * 16

    def settings(*rows: dict[str, Any]) -> Settings:
        return Settings("a", principals=tuple(read_principals(list(rows), "test")))

    async def scenario() -> None:
        before = settings(
            {"name": "one", "token": one, "status": True}, {"name": "other", "token": other}
        )
        async with Router(before) as a, at(a, token=one) as ada, at(a, token=other) as ben:
            mine, theirs = await ada.subscribe("x > 0"), await ben.subscribe("x > 0")
            await ada.publish({"x": 1, "public": False})
            assert len(await take(mine, 1)) == len(await take(theirs, 1)) == 1
            a.reconfigure(settings({"name": "one", "token": one, "receive": "public = true"}))
            with pytest.raises(DisconnectedError, match="denied"):
                await take(theirs, 1)
            await ada.publish({"x": 2, "public": False})
            await ada.publish({"x": 3, "public": True})
            assert [event["x"] for event in await take(mine, 1)] == [3]
            with pytest.raises(RefusedError, match="may not ask"):
                await ada.ask("status")
            assert ada.reconnections == 0
            a.reconfigure(settings({"name": "one", "token": one}))
            await ada.publish({"x": 4, "public": False})
            assert [event["x"] for event in await take(mine, 1)] == [4]

    run(scenario())


def test_new_settings_add_and_remove_links() -> None:
    async def scenario() -> None:
        async with Router(Settings("a")) as a, Router(Settings("b")) as b:
            link = (Dial("127.0.0.1", a.port),)
            assert b.reconfigure(Settings("b", links=link)) == []
            await until(lambda: a.status()["reaches"] == ["b"])
            await until(lambda: b.core.troubles() == [])
            assert b.reconfigure(Settings("b", protocol="flood")) == ["protocol"]
            await until(lambda: not a.core.links and not b.status()["reaches"])

    run(scenario())


def test_a_signal_makes_a_router_read_its_file_again(tmp_path: Path) -> None:
    """A mistake in the file changes nothing; a token that is gone ends its sessions."""
    config = tmp_path / "node.toml"
    one, other = "1" * 16, "2" * 16
    before = "name = 'a'\nlisten = '127.0.0.1:0'\n"
    rows = [f"[[access]]\nname = 'n{token[0]}'\ntoken = '{token}'\n" for token in (one, other)]

    async def scenario() -> None:
        config.write_text(before + "".join(rows))
        code = "import sys; from tidings.cli.main import main; sys.exit(main())"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, "serve", "--config", str(config),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            port = json.loads(await process.stdout.readline())["port"]
            url = f"tidings://127.0.0.1:{port}"
            async with connect(url, token=one) as ada, connect(url, token=other) as ben:
                mine, theirs = await ada.subscribe("x > 0"), await ben.subscribe("x > 0")
                config.write_text("name = [")
                process.send_signal(signal.SIGHUP)
                await asyncio.sleep(0.3)
                await ben.publish({"x": 1})
                assert len(await take(mine, 1)) == len(await take(theirs, 1)) == 1
                config.write_text(before + rows[0])
                process.send_signal(signal.SIGHUP)
                with pytest.raises(DisconnectedError, match="denied"):
                    await take(theirs, 1)
                await ada.publish({"x": 2})
                assert [event["x"] for event in await take(mine, 1)] == [2]
                assert ada.reconnections == 0
        finally:
            process.kill()
            await process.wait()

    run(scenario())
