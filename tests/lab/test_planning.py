"""Plans: the fewest nodes by brute force, the constraint that binds, and what is refused."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.effort import examples
from tidings.lab.planning import (
    CONSTRAINTS,
    Machine,
    Needs,
    PlanError,
    evaluated,
    plan,
    read_needs,
    serves,
)
from tidings.lab.profiling import TIMES, fitted, machine_for, matching_times, needs_of
from tidings.matching.scan import Scan
from tidings.matching.workload import WORKLOADS

MACHINES = st.builds(
    Machine,
    match_fixed_us=st.sampled_from([1.0, 50.0, 1_000.0]),
    match_growth_us=st.sampled_from([0.0, 0.01, 1.0]),
    match_exponent=st.sampled_from([0.5, 1.0]),
    memory=st.sampled_from([300, 1_000, 5_000]),
    hop_ms=st.sampled_from([0.0, 1.0, 5.0]),
)
NEEDS = st.builds(
    Needs,
    name=st.just("a"),
    subscriptions=st.sampled_from([100, 1_000, 4_000]),
    events_per_second=st.sampled_from([0.0, 10.0, 1_000.0, 20_000.0]),
    event_bytes=st.just(100),
    latency_ms=st.sampled_from([3.0, 10.0, 100.0]),
    renewals_per_second=st.sampled_from([0.0, 100.0, 3_000.0]),
    rendezvous=st.sampled_from(["one", "hash:k"]),
    hot_subscriptions=st.sampled_from([0.0, 0.2, 0.9]),
    hot_events=st.sampled_from([0.0, 0.2, 0.9]),
    width=st.sampled_from([0.0, 0.3, 1.0]),
    keys=st.sampled_from([1.0, 2.5]),
    unkeyed=st.sampled_from([0.0, 0.2]),
    replicas=st.integers(1, 3),
    nodes=MACHINES,
)


def rivals(needs: Needs) -> list[Needs]:
    return [needs, msgspec.structs.replace(needs, rendezvous="one")]


def fewest_by_brute_force(needs: Needs, nodes: int) -> int | None:
    found = [
        regions * replicas
        for one in rivals(needs)
        for regions in range(1, nodes + 1)
        for hops in range(regions if one.rendezvous == "one" else 1, regions + 1)
        for replicas in range(1, nodes // regions + 1)
        if not serves(one, regions, hops, replicas)
    ]
    return min(found, default=None)


@hypothesis_settings(max_examples=examples(150), deadline=None)
@given(needs=NEEDS, nodes=st.integers(1, 14))
def test_a_plan_has_the_fewest_nodes_that_serve(needs: Needs, nodes: int) -> None:
    fewest = fewest_by_brute_force(needs, nodes)
    if fewest is None:
        with pytest.raises(PlanError, match=r"^a: "):
            plan(needs, nodes)
        return
    found = plan(needs, nodes)
    assert found.nodes == fewest
    one = msgspec.structs.replace(needs, rendezvous=found.rendezvous)
    assert serves(one, found.regions, found.hops, found.replicas) == ""
    assert found.stored <= needs.nodes.memory
    assert found.busy <= needs.nodes.utilisation + 1e-9
    assert found.latency_ms <= found.latency_p99_ms <= needs.latency_ms + 1e-9
    assert found.replicas >= needs.replicas
    assert found.greatest_rate >= needs.events_per_second


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(needs=NEEDS)
def test_what_binds_is_what_costs_nodes(needs: Needs) -> None:
    try:
        found = plan(needs, 14)
    except PlanError:
        assume(False)
    if found.binds == "nothing":
        assert found.nodes == 1
    elif found.binds in CONSTRAINTS:
        relaxed = {
            "memory": lambda: msgspec.structs.replace(
                needs, nodes=msgspec.structs.replace(needs.nodes, memory=10**11)
            ),
            "latency": lambda: msgspec.structs.replace(needs, latency_ms=1e11),
            "replicas": lambda: msgspec.structs.replace(needs, replicas=1),
            "load": lambda: msgspec.structs.replace(needs, events_per_second=0.0),
        }[found.binds]()
        if found.binds != "load":  # storing subscriptions is load as well
            assert plan(relaxed, 14).nodes < found.nodes


BASE: dict[str, Any] = {
    "name": "orders",
    "subscriptions": 100_000,
    "events_per_second": 1_000.0,
    "event_bytes": 300,
    "latency_ms": 50.0,
    "rendezvous": "hash:customer",
}
SLOW = Machine(match_fixed_us=100.0, match_growth_us=0.1, match_exponent=1.0, memory=30_000)


@pytest.mark.parametrize(
    ("binds", "changed"),
    [
        ("memory", {"events_per_second": 0.0}),
        ("load", {"nodes": msgspec.structs.replace(SLOW, memory=10**6)}),
        ("latency", {"events_per_second": 1.0, "latency_ms": 1.5}),
        ("replicas", {"replicas": 5, "subscriptions": 1_000, "events_per_second": 1.0}),
    ],
)
def test_each_constraint_can_bind(binds: str, changed: dict[str, Any]) -> None:
    needs = Needs(**({**BASE, "nodes": SLOW} | changed))
    assert plan(needs, 200).binds == binds


def test_a_refusal_says_how_many_nodes_it_takes_and_what_binds() -> None:
    needs = Needs(**BASE, nodes=SLOW)
    wanted = plan(needs, 500).nodes
    assert wanted > 3
    expected = rf"orders: expected at least {wanted} nodes \(R = .*; bound by .*\), found 3"
    with pytest.raises(PlanError, match=expected):
        plan(needs, 3)
    far = Needs(**BASE, nodes=Machine(hop_ms=60.0))
    with pytest.raises(PlanError, match="no plan for 5 nodes: bound by latency: no shape"):
        plan(far, 5)
    with pytest.raises(PlanError, match="nodes: expected 1 to 100,000, found 0"):
        plan(needs, 0)


def test_hotter_keys_take_more_nodes() -> None:
    machine = msgspec.structs.replace(SLOW, memory=10**6)
    counts = [
        plan(Needs(**BASE, nodes=machine, hot_subscriptions=h, hot_events=h), 2_000).nodes
        for h in (0.0, 0.1, 0.5)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_the_model_of_a_shape_is_that_of_the_paper() -> None:
    """All at one key: I = N / (H * R), so a node has S / H and R nodes share the events."""
    needs = Needs(**BASE, nodes=SLOW, hot_subscriptions=1.0, hot_events=1.0)
    found = evaluated(needs, regions=8, hops=4, replicas=2)
    assert found.stored == pytest.approx(100_000 / 4)
    match_ms = 0.1 + 0.1e-3 * 25_000
    assert found.match_ms == pytest.approx(match_ms)
    assert found.greatest_rate == pytest.approx(2 / (match_ms / 1e3))
    idle = evaluated(msgspec.structs.replace(needs, events_per_second=0.0), 8, 4, 2)
    assert idle.latency_ms == idle.latency_p99_ms == pytest.approx(4 * (1.0 + match_ms))


# Files


def written(folder: Path, text: str) -> Path:
    path = folder / "profile.toml"
    path.write_text(text, encoding="utf-8")
    return path


GOOD = """
name = "orders"
subscriptions = 100000
events_per_second = 1000
event_bytes = 300
latency_ms = 50
rendezvous = "hash:customer"

[nodes]
memory = 30000
"""


def test_a_profile_is_read_from_toml(tmp_path: Path) -> None:
    found = read_needs(written(tmp_path, GOOD))
    assert found == Needs(**BASE, nodes=Machine(memory=30_000))
    assert asdict(plan(found, 12))["binds"] == "memory"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("latency_ms = 50", "", "missing required field `latency_ms`"),
        ("latency_ms = 50", "latency_ms = -1", "latency_ms: expected 1e-06 to 1e.12, found -1"),
        ("latency_ms = 50", "latency = 50", "unknown field `latency`"),
        ("latency_ms = 50", "latency_ms = 'soon'", r"Expected `float`, got `str` - at `\$.lat"),
        ("latency_ms = 50", "latency_ms = nan", "latency_ms: expected"),
        ("memory = 30000", "memory = 0", r"nodes\.memory: expected 1 to 1e.12, found 0"),
        ("memory = 30000", "memory = 1.5", r"Expected `int`, got `float` - at `\$.nodes.memory"),
        ("[nodes]", "[nodes", "expected TOML"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(PlanError, match=expected) as caught:
        read_needs(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="expected a TOML file that can be read"):
        read_needs(path)


# The applications of Table 1


@pytest.mark.parametrize("name", TIMES)
def test_every_application_has_a_plan(name: str) -> None:
    needs = needs_of(name)
    profile = WORKLOADS[name]().profile  # type: ignore[attr-defined]
    assert needs.subscriptions == profile.population
    assert needs.events_per_second == profile.rate or name == "alerts"  # which come in bursts
    found = plan(needs, 100)
    assert found.latency_ms <= needs.latency_ms
    assert plan(msgspec.structs.replace(needs, replicas=3), 100).replicas >= 3


def test_quotes_must_be_near_each_other() -> None:
    """At 10 ms, H hops of k1 must fit: one site, and few hops."""
    quotes = needs_of("quotes")
    small = msgspec.structs.replace(machine_for("quotes"), memory=300_000)
    assert plan(msgspec.structs.replace(quotes, nodes=small), 50).hops <= 5
    far = msgspec.structs.replace(small, hop_ms=10.0)
    with pytest.raises(PlanError, match="latency"):
        plan(msgspec.structs.replace(quotes, nodes=far), 50)


# Matching times


@given(
    fixed=st.floats(1e-7, 1e-4),
    growth=st.floats(1e-9, 1e-6),
    exponent=st.integers(30, 120).map(lambda percent: percent / 100),
)
def test_a_fit_finds_the_times_that_it_was_given(
    fixed: float, growth: float, exponent: float
) -> None:
    sizes = (100, 1_000, 10_000, 100_000, 1_000_000)
    times = [(n, fixed + growth * n**exponent) for n in sizes]
    a, b, gamma = fitted(times)
    for n, seconds in times:
        assert a + b * n**gamma == pytest.approx(seconds, rel=0.02)


def test_constant_times_have_no_growth() -> None:
    a, b, gamma = fitted([(n, 3e-6) for n in (10, 100, 1_000)])
    assert a + b * 10_000**gamma == pytest.approx(3e-6)


def test_matching_times_are_measured_for_any_matcher() -> None:
    times = matching_times(WORKLOADS["quotes-table"](), Scan, (10, 100), events=5, least_s=0.0005)
    assert [n for n, _ in times] == [10, 100]
    assert all(seconds > 0 for _, seconds in times)
