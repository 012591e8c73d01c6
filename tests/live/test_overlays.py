"""Routers on structured overlays over sockets: over Pastry, too, and what they report."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.live.test_api import row_of
from tests.live.test_router import at, run, take
from tidings.live.gateway import RouterCollector


@pytest.mark.parametrize(
    ("name", "figure"), [("chord-trees", "tables_held"), ("scribe", "groups"), ("hermes", "trees")]
)
def test_routers_deliver_over_pastry_and_report_figures(name: str, figure: str) -> None:
    async def scenario() -> None:
        options = {"substrate": "pastry", "leaves": 1}
        async with row_of(name, options=options) as (a, b, c), at(a) as ada, at(c) as ben:
            subscription = await ben.subscribe("price > 5")
            await ada.publish({"price": 6})
            assert await take(subscription, 1) == [{"price": 6}]
            figures = [router.status()["figures"] for router in (a, b, c)]
            assert [one["overlay_neighbours"] for one in figures] == [2, 2, 2]
            assert sum(one[figure] for one in figures) > 0
            registry = CollectorRegistry()
            registry.register(RouterCollector(a))
            text = generate_latest(registry).decode()
            assert f'tidings_protocol_now{{what="{figure}"}}' in text
            assert 'tidings_protocol_now{what="overlay_settled"} 1.0' in text

    run(scenario())
