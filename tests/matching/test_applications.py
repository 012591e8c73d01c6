"""The five applications of Table 1 of paper L, each held to its column (L6)."""

import gzip
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.places import DATA
from tidings.language.predicate import Predicate, parse
from tidings.matching.table import Table
from tidings.matching.workload import (
    APPLICATIONS,
    WORKLOADS,
    AlertsWorkload,
    ApplicationWorkload,
    FeedsWorkload,
    GamesWorkload,
    PlacesWorkload,
    QuotesWorkload,
)
from tidings.matching.workloads import games, places, quotes
from tidings.matching.workloads.profile import PADDING

pytestmark = pytest.mark.slow

each_application = pytest.mark.parametrize("make", APPLICATIONS.values(), ids=APPLICATIONS)

# Spans of Table 1: publishers, events a second (of all), bits a second of a publisher, latency,
# subscribers. None: the table gives no number.
TABLE_1 = {
    "games": ((1e2, 1e3), (1e3, 1e4), (30e3, 30e3), (0.1, 1.0), (1e2, 1e3)),
    "feeds": ((1e4, 1e4), (1e2, 1e2), None, (10.0, 10.0), (1e6, 1e6)),
    "quotes": ((1, 10), (1e3, 1e3), None, (0.01, 0.01), (1e3, 1e3)),
    "alerts": ((1e3, 1e3), None, None, (0.1, 1.0), (1e6, 1e6)),
    "places": ((1e6, 1e6), (1e5, 1e6), (1e3, 1e3), (0.1, 1.0), (1e6, 1e6)),
}
# The mean share of the subscriptions that an event matches.
SELECTIVITY = {
    "games": (0.002, 0.02),
    "feeds": (0.001, 0.02),
    "quotes": (0.08, 0.14),
    "alerts": (0.02, 0.3),
    "places": (0.0002, 0.002),
}


def fitted_exponent(counts: Counter[Any], ranks: int) -> float:
    """The exponent of the power law that the counts of the most frequent values follow."""
    frequent = [count for _, count in counts.most_common(ranks)]
    slope, _ = np.polyfit(np.log(np.arange(1, ranks + 1)), np.log(frequent), 1)
    return float(-slope)


def selectivity(workload: ApplicationWorkload, subscriptions: int, events: int) -> float:
    table = Table(dict(workload.subscriptions(0, subscriptions)))
    found = [len(table.match(event)) for event in workload.events(0, events)]
    return float(np.mean(found)) / subscriptions


def operands(workload: ApplicationWorkload, name: str, rows: int) -> list[Any]:
    return [
        constraint.operand
        for _, predicate in workload.subscriptions(0, rows)
        for constraint in predicate.filters[0]
        if constraint.name == name
    ]


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_is_its_column_of_table_1(name: str) -> None:
    profile = APPLICATIONS[name]().profile
    found = (
        profile.publishers,
        profile.rate,
        profile.publisher_bits_per_second,
        profile.latency_s,
        profile.subscribers,
    )
    for value, span in zip(found, TABLE_1[name], strict=True):
        assert span is None or span[0] <= value <= span[1]
    renewals = {"games": 600, "quotes": 200}  # a second: high, medium; the others are low
    assert profile.renewals == pytest.approx(renewals.get(name, 0.4), rel=0.5)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_events_have_the_size_and_the_rate_of_the_profile(name: str) -> None:
    workload = APPLICATIONS[name](seed=2)
    profile = workload.profile
    sizes = [len(msgspec.json.encode(event)) for event in workload.events(0, 200)]
    assert set(sizes) == {profile.event_bytes}
    times = workload.times(0, 30_000)
    assert (np.diff(times) >= 0).all()
    assert 30_000 / times[-1] == pytest.approx(profile.rate, rel=0.15)
    assert (workload.times(4_090, 4_100) == times[4_090:4_100]).all()


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_event_matches_the_share_it_should_at_every_scale(name: str) -> None:
    low, high = SELECTIVITY[name]
    assert low < selectivity(APPLICATIONS[name](seed=3), 4_000, 400) < high
    small = APPLICATIONS[name](seed=3, scale=10)
    assert small.profile.publishers * 10 == APPLICATIONS[name]().profile.publishers
    assert small.profile.subscribers * 10 == APPLICATIONS[name]().profile.subscribers
    assert small.profile.rate * 10 == pytest.approx(APPLICATIONS[name]().profile.rate)
    assert low / 2 < selectivity(small, 4_000, 400) < 2 * high


@each_application
def test_a_scale_below_one_is_refused(make: Callable[..., ApplicationWorkload]) -> None:
    with pytest.raises(ValueError, match="scale: expected 1 or more, found 0"):
        _ = make(scale=0).profile


# Clustering: power laws


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.2])
def test_popularity_follows_the_power_law_it_is_asked_for(exponent: float) -> None:
    feeds = Counter(operands(FeedsWorkload(exponent=exponent), "feed", 40_000))
    assert fitted_exponent(feeds, 30) == pytest.approx(exponent, abs=0.12)
    symbols = Counter(operands(QuotesWorkload(exponent=exponent), "symbol", 40_000))
    assert fitted_exponent(symbols, 30) == pytest.approx(exponent, abs=0.12)


def test_installed_products_follow_a_power_law() -> None:
    """A host lists a product once, so the most popular ones are somewhat fewer than drawn."""
    lists = operands(AlertsWorkload(), "affects", 4_000)
    products = Counter(name for one in lists if isinstance(one, tuple) for name in one)
    assert fitted_exponent(products, 300) == pytest.approx(0.8, abs=0.2)
    sizes = [len(one) for one in lists if isinstance(one, tuple)]
    assert 5 <= min(sizes) < max(sizes) <= 200
    both = sum(len(p.filters[0]) == 2 for _, p in AlertsWorkload().subscriptions(0, 4_000))
    assert both / 4_000 == pytest.approx(0.1, abs=0.02)


# Clustering: modes


def test_areas_of_interest_lie_around_hot_spots() -> None:
    workload = GamesWorkload(seed=4)
    spots = np.round(workload._crowd.centres(), 1)
    assert len(spots) == workload.maps * workload.spots
    areas = zip(operands(workload, "x", 1_000), operands(workload, "y", 1_000), strict=True)
    centres = np.array([[sum(x) / 2, sum(y) / 2] for x, y in areas])
    distance = np.linalg.norm(centres[:, None] - spots[None], axis=2)
    reach = 3 * workload._crowd.spread + workload._crowd.reach
    assert (distance.min(axis=1) < reach).mean() > 0.97
    assert len(set(distance.argmin(axis=1))) == len(spots)


def test_boxes_lie_around_cities_of_unlike_size() -> None:
    workload = PlacesWorkload(seed=4)
    cities = workload._crowd.centres() + places.CORNER
    boxes = zip(operands(workload, "lon", 4_000), operands(workload, "lat", 4_000), strict=True)
    centres = np.array([[sum(lon) / 2, sum(lat) / 2] for lon, lat in boxes])
    distance = np.linalg.norm(centres[:, None] - cities[None], axis=2)
    assert (distance.min(axis=1) < 1.0).mean() > 0.98
    share = Counter(distance.argmin(axis=1).tolist())
    assert share.most_common(1)[0][1] / 4_000 == pytest.approx(0.23, abs=0.05)


def test_an_avatar_replaces_its_area_as_it_walks() -> None:
    workload = GamesWorkload(seed=5, scale=10)
    population = workload.profile.population
    rows = [p for _, p in workload.subscriptions(0, 3 * population)]
    for avatar in range(0, population, 7):
        event = workload.events(avatar, avatar + 1)[0]
        assert rows[avatar].matches(event), "an avatar stands in its own area"
        one, other = (rows[avatar + i * population].filters[0][1].operand for i in (0, 1))
        assert isinstance(one, tuple)
        assert isinstance(other, tuple)
        moved = abs(float(one[0]) - float(other[0]))
        assert moved < 60 * 2 * np.pi * 1.3 * 1.5 / 60, "a walk, not a leap"
    assert len({str(p) for p in rows}) > 2.9 * population


def test_devices_walk_and_come_back() -> None:
    workload = PlacesWorkload(seed=5, scale=1_000)
    publishers = workload.profile.publishers
    found = [workload.events(n * publishers, n * publishers + 1)[0] for n in range(50)]
    assert {event["device"] for event in found} == {0}
    lons = [event["lon"] for event in found]
    assert 0 < max(lons) - min(lons) < 0.03


# The others


def test_alerts_come_in_bursts_about_one_product() -> None:
    workload = AlertsWorkload(seed=6)
    times = workload.times(0, 8_192)
    counts = np.bincount(times.astype(int))
    assert counts.var() / counts.mean() > 20  # 1 where alerts are independent
    products = [event["product"] for event in workload.events(0, 8_192)]
    same = [one == other for one, other in pairwise(products)]
    assert np.mean(same) > 0.5
    affected = [event["affects"] for event in workload.events(0, 2_000)]
    assert {len(one) for one in affected} == {1, 2, 3, 4, 5}


def test_feeds_publish_alike_and_at_any_time() -> None:
    workload = FeedsWorkload(seed=7, scale=100)
    feeds = Counter(event["feed"] for event in workload.events(0, 10_000))
    assert len(feeds) == 100
    assert max(feeds.values()) < 2 * min(feeds.values())
    gaps = np.diff(workload.times(0, 4_096))
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.1)  # exponential
    kinds = Counter(
        "+".join(sorted({c.name for c in p.filters[0]}))
        for _, p in workload.subscriptions(0, 8_000)
    )
    shares = {name: count / 8_000 for name, count in kinds.items()}
    assert shares == pytest.approx({"feed": 0.7, "feed+title": 0.2, "title": 0.1}, abs=0.02)


def test_quotes_are_asked_for_as_by_padres() -> None:
    kinds = Counter(
        tuple(sorted(c.name for c in p.filters[0]))
        for _, p in QuotesWorkload().subscriptions(0, 20_000)
    )
    for names, share in quotes.TEMPLATES:
        assert kinds[tuple(sorted(("class", *names)))] / 20_000 == pytest.approx(share, abs=0.01)
    for event in QuotesWorkload().events(0, 100):
        assert event["low"] <= min(event["open"], event["close"])
        assert event["high"] >= max(event["open"], event["close"])


def test_both_readings_of_quotes_can_be_had() -> None:
    assert WORKLOADS["quotes-table"]().profile.population == 1_000  # type: ignore[attr-defined]
    plain = QuotesWorkload(event_bytes=125).profile
    assert plain.rate == pytest.approx(100_000)
    assert plain.rate * plain.event_bytes * 8 == pytest.approx(100e6)


# Real data


def shares_of(texts: list[str]) -> dict[str, float]:
    counts = Counter("+".join(sorted(c.name for c in parse(text).filters[0])) for text in texts)
    return {name: count / len(texts) for name, count in counts.items()}


@pytest.mark.skipif(not DATA.is_dir(), reason="the data is not beside this clone")
def test_quotes_look_like_those_of_padres() -> None:
    operators = {"eq": "=", ">": ">", "<": "<"}
    with gzip.open(DATA / "padres-stockquotes" / "subscriptions_10000.jsonl.gz", "rt") as file:
        asked = [
            " and ".join(
                f"{name} {operators[operator]} {value!r}"
                for name, operator, value in json.loads(line)["predicates"]
            )
            for line in file
        ]
    ours = [str(p) for _, p in QuotesWorkload().subscriptions(0, 10_000)]
    assert shares_of(ours) == pytest.approx(shares_of(asked), abs=0.06)
    with lzma.open(DATA / "padres-stockquotes" / "stockquotes.jsonl.xz", "rt") as file:
        real = json.loads(next(file))
    made = QuotesWorkload().events(0, 1)[0]
    assert made.keys() - {PADDING} == real.keys() - {"date"}
    assert [type(made[name]) for name in made.keys() - {PADDING}] == [
        type(real[name]) for name in made.keys() - {PADDING}
    ]


@pytest.mark.skipif(not DATA.is_dir(), reason="the data is not beside this clone")
def test_subscriptions_to_quotes_match_as_many_real_quotes_as_expected() -> None:
    """Every 40th of PADRES's subscriptions; the counts were computed with another library."""
    folder = DATA / "padres-stockquotes"
    operators = {"eq": "=", ">": ">", "<": "<"}
    with gzip.open(folder / "subscriptions_10000.jsonl.gz", "rt") as file:
        rows = [json.loads(line)["predicates"] for line in file][::400]
    expected = json.loads((folder / "expected_counts.json").read_text())["counts"][::400]
    predicates: dict[int, Predicate] = {
        number: parse(" and ".join(f"{n} {operators[o]} {v!r}" for n, o, v in row))
        for number, row in enumerate(rows)
    }
    with lzma.open(folder / "stockquotes.jsonl.xz", "rb") as file:
        quoted = [msgspec.json.decode(line) for line in file]
    table = Table(predicates)
    found: Counter[Any] = Counter(id for quote in quoted for id in table.match(quote))
    assert [found[number] for number in range(len(rows))] == expected


@pytest.mark.skipif(not DATA.is_dir(), reason="the data is not beside this clone")
def test_real_walkers_are_multimodal_as_ours_are() -> None:
    """Vehicles of Zurich crowd into few cells of the map; uniform points would not."""
    text = (DATA / "mobility-ns2" / "ns2_zurich_unterstrass_99vehicles.mob").read_text()
    real = [
        (float(x), float(y))
        for x, y in re.findall(r"^[$].* setdest ([\d.]+) ([\d.]+) ", text, re.MULTILINE)
    ]
    events = GamesWorkload(seed=8).events(0, 5_000)
    ours = [(event["x"], event["y"]) for event in events]

    def crowding(points: list[tuple[float, float]]) -> float:
        """The share of points in the fullest tenth of 400 cells; a tenth if they are uniform."""
        found, _ = np.histogramdd(np.array(points), bins=20)
        return float(np.sort(found.ravel())[-40:].sum() / found.sum())

    assert crowding(ours) > 0.3
    assert crowding(real) > 0.3
    assert games.WORLD == 1_000
