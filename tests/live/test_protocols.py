"""Rows of the reverse path over sockets: agreement, explanations, figures, changes under load."""

from __future__ import annotations

import asyncio

import pytest

from tests.live.test_api import QUICK, row_of
from tests.live.test_router import at, run, take, until
from tidings.live.dialling import Dialler
from tidings.live.router import Router
from tidings.live.settings import Dial, Settings
from tidings.routing.protocols import protocol


@pytest.mark.parametrize(
    ("one", "other"),
    [("covering", "cbcb"), ("rooted", "rooted:direction=down"), ("covering", "covering:root=b")],
)
def test_routers_that_do_not_agree_refuse_each_other_with_a_reason(
    one: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with Router(Settings("a", protocol=one), limits=QUICK) as a:
            told: list[str] = []
            settings = Settings("b", links=(Dial("127.0.0.1", a.port),), protocol=other)
            b = Router(settings, limits=QUICK)
            monkeypatch.setattr(Dialler, "_again", lambda *given: told.append(given[-1]))
            async with b:
                await until(lambda: bool(told))
            mine, theirs = protocol(one).agreement, protocol(other).agreement
            assert told[0] == f"protocol: b runs {theirs}, a {mine}"
            assert not a.core.links

    run(scenario())


def test_policies_may_differ() -> None:
    assert protocol("covering").agreement == protocol("covering:policy=merging,waste=5").agreement


def test_a_trace_says_what_covers_a_filter() -> None:
    async def scenario() -> None:
        async with row_of("covering", 2) as (a, b), at(a) as ada:
            await asyncio.gather(ada.subscribe("x > 0"), ada.subscribe("x > 5"))
            await until(lambda: b.core.figures()["filters_held"] == 1)
            taken, why = a.core.protocol.explain_links("b", {"x": 6})["b"]
            assert (taken, why) == (
                False,
                "no node behind it wants this event; x > 5 is covered by x > 0",
            )
            assert b.core.protocol.explain_links("b", {"x": 6})["a"] == (
                True,
                "nodes behind it want: x > 0",
            )
            assert a.core.status()["figures"]["filters_told"] == 1

    run(scenario())


def test_an_advertisement_keeps_filters_away_and_draws_them() -> None:
    async def scenario() -> None:
        options = {"options": {"values": "single", "unadvertised": "refuse"}}
        async with row_of("advertisements", 2, **options) as (a, b), at(a) as ada, at(b) as ben:
            alerts = await ben.subscribe("class = 'alert'")
            assert a.core.figures()["filters_held"] == 0
            why = b.core.protocol.explain_links("a", {"class": "alert"})["a"][1]
            assert why.endswith("no advertisement behind this link meets class = 'alert'")
            await ada.advertise("class = 'metric'")
            assert a.core.figures()["filters_held"] == 0
            await ada.advertise("class = 'alert' and severity > 2")
            assert a.core.figures()["filters_held"] == 1
            await ada.publish({"class": "alert", "severity": 3})
            assert await take(alerts, 1) == [{"class": "alert", "severity": 3}]

    run(scenario())


@pytest.mark.parametrize(
    "name",
    [
        "subscriptions",
        "covering",
        "covering:policy=adaptive,trial=64",
        "merging",
        "advertisements",
        "rooted",
        "path-cost",
        "path-entries",
        "cbcb:covering=paths",
        "hermes",
        "scribe",
        "chord-trees",
    ],
)
def test_a_subscription_changes_under_load_and_nothing_is_missed(name: str) -> None:
    """Make before break: what matches both predicates comes, whenever it is published."""

    async def scenario() -> None:
        async with row_of(name, 3) as (a, _, c), at(a) as ada, at(c) as ben:
            wanted = await ben.subscribe("n >= 0 and n < 500")

            async def publish() -> None:
                for number in range(100):
                    await ada.publish({"n": number})

            async def change() -> None:
                for turn in range(10):
                    await wanted.replace(f"n >= 0 and n < {600 + turn}")

            await asyncio.gather(publish(), change())
            assert [event["n"] for event in await take(wanted, 100)] == list(range(100))

    run(scenario())
