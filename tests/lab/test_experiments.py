"""Every experiment on its smallest parameters: its columns, its claims, its figure."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidings.lab import quotes, results, routers, zoo
from tidings.lab.catalogue import EXPERIMENTS
from tidings.lab.code import version_of
from tidings.lab.experiment import SETTINGS, Experiment, generator, identity
from tidings.lab.experiments import dnf_model, general_model, network_effect
from tidings.lab.figures import picture
from tidings.lab.intervals import mean_of
from tidings.lab.routers import drawn, router
from tidings.lab.run import measure_row, run
from tidings.lab.terms import TERMS
from tidings.language.filter import Filter
from tidings.matching.workload import ForwardingWorkload

every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)

# Claims that must agree even on the smallest parameters; none depends on the machine's speed.
SURE = {
    "f8-figure11": ["each further round excludes less"],
    "f8-network": ["with routers of 20 interfaces"],
    "f9-headline": ["with 1,000 names, the first 10"],
    "u1-schemes": ["PSF, iPS, PIF and DRP are correct", "iPS sends what PSF", "DRP is ideal if"],
    "u1-ideal": ["PSF is ideal: every packet"],
    "u6-memory": ["the totals M(PSF)", "how state grows", "on a tree iPS needs"],
    "u7-figure5": ["uniform predicates follow the closed form", "uniform predicates save least"],
    "s17-cycles": ["routing by the entries", "with notification trees as well"],
    "l1-layers": ["content-based matching solutions", "different applications need"],
    "l5-bound": ["in the worst case", "the load of regions follows"],
    "l5-latency": ["assuming that all nodes are idle", "to optimize latency", "when the node"],
    "l5-throughput": ["the maximum matching throughput", "N / (H I_r", "bottleneck links"],
    "l5-protocol": ["assuming that all nodes are idle", "in the worst case"],
    "l6-applications": ["the diversity in requirements"],
    "l7-protocol": [
        "it would be desirable to have a small",
        "adapting is worth its price",
        "adapting ends at constant load",
    ],
    "l7-caveats": ["it would be desirable to have a small", "adapting ends at constant load"],
    "u8-figures6-7": ["combining more predicates", "no scenario is consistently"],
}


@every_experiment
def test_an_experiment_measures_claims_and_draws(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, without Spark; `test_run.py` shows that tasks call the same function."""
    monkeypatch.setattr(routers, "MIN_REPEATS", 1)
    monkeypatch.setattr(routers, "MAX_REPEATS", 1)
    sweep = experiment.sweep("tiny")
    for parameters in sweep:
        rows = measure_row(experiment.measure, identity(parameters), {"commit": ""})
        table = pa.Table.from_pylist(rows, results.schema_of(experiment))
        results.append(tmp_path, experiment.name, version_of(experiment.measure), table)
    found = results.find(tmp_path, experiment, sweep)
    assert (found.failed, found.missing) == ([], 0)
    for row in found.rows:
        assert row.keys() >= experiment.columns.keys()
        for name, kind in experiment.columns.items():
            assert row[name] is None or type(row[name]) is kind
    claims = experiment.claims(found.rows)
    verdicts = {claim.statement: claim.agrees for claim in claims}
    for beginning in SURE.get(experiment.name, []):
        assert [v for s, v in verdicts.items() if s.startswith(beginning)] == [True], verdicts
    drawn = picture(experiment.draw, found.rows, experiment.name)
    assert drawn.startswith("<svg")
    assert drawn == picture(experiment.draw, found.rows, experiment.name)


def test_an_experiment_with_compiled_tables_runs_in_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    experiment = EXPERIMENTS["f8-figure9"]
    sweep = experiment.sweep("tiny")
    assert run(spark, experiment, sweep, tmp_path).failed == 0
    assert results.find(tmp_path, experiment, sweep).missing == 0


@every_experiment
def test_settings_have_rows_that_differ(experiment: Experiment) -> None:
    for setting in SETTINGS:
        keys = [results.key_of(row) for row in experiment.sweep(setting)]
        assert keys
        assert len(set(keys)) == len(keys)
    assert len(experiment.sweep("tiny")) <= len(experiment.sweep("full"))


def test_filters_follow_the_distributions_of_paper_u() -> None:
    parameters = {"law": "zipf", "names": 500, "terms": "uniform"}
    drawn = dnf_model.filters(generator("test"), 40_000, parameters)
    lengths = np.bincount([len(filter) for filter in drawn], minlength=7)[1:] / len(drawn)
    assert np.allclose(lengths, dnf_model.SIZES, atol=0.01)
    constraints = [constraint for filter in drawn for constraint in filter]
    for kind, operators, shares in (
        ("string", dnf_model.STRING_OPERATORS, dnf_model.STRING_SHARES),
        ("number", dnf_model.INT_OPERATORS, dnf_model.INT_SHARES),
    ):
        of_kind = [c.operator for c in constraints if c.type == kind]
        found = [of_kind.count(operator) / len(of_kind) for operator in operators]
        assert np.allclose(found, shares, atol=0.02)
    integers = {c.operand for c in constraints if c.type == "number"}
    assert integers == set(range(-100, 101))
    assert {c.operand for c in constraints if c.type == "string"} == set(TERMS)
    kinds = {(c.name, c.type) for c in constraints}
    assert len(kinds) == len({name for name, _ in kinds}), "a name has one type"
    names = [c.name for c in constraints]
    assert names.count("a0") / len(names) == pytest.approx(0.147, abs=0.01)


def test_reduction_is_counted_as_the_paper_counts() -> None:
    """Compared with a slow twin, which compares all pairs."""
    parameters = {"law": "uniform", "names": 50, "terms": "uniform", "predicates": 60}
    (row,) = dnf_model.measure(parameters | {"first": 0, "sets": 1})
    drawn = dnf_model.filters(generator("u8-figures6-7", identity(parameters), 0), 60, parameters)
    slim = {_without_implied(filter) for filter in drawn}
    kept = [f for f in slim if not any(g != f and g.covers(f) for g in slim)]
    assert row["constraints"] == sum(map(len, drawn))
    assert row["reduced"] == sum(map(len, kept))


def _without_implied(filter: Filter) -> Filter:
    kept = list(dict.fromkeys(filter))
    for constraint in list(kept):
        others = [c for c in kept if c != constraint]
        if any(Filter([constraint]).covers(Filter([other])) for other in others):
            kept = others
    return Filter(sorted(kept))


def test_there_are_200_terms() -> None:
    assert len(TERMS) == len(set(TERMS)) == 200


def test_the_closed_form_is_the_share_that_is_covered() -> None:
    """Two predicates of two of four messages each: on average 3 of the 4 are in one of them."""
    assert general_model.closed_form(2, 2, 4) == pytest.approx(3 / 4)
    assert general_model.closed_form(1, 7, 100) == pytest.approx(1)


def test_a_tree_of_routers_is_as_deep_as_it_must_be() -> None:
    assert network_effect.tree_hops(20, 20) == 1
    assert network_effect.tree_hops(20, 21) == 3
    assert network_effect.tree_hops(20, 20 * 19) == 3
    assert network_effect.tree_hops(20, 20 * 19 + 1) == 5


@pytest.mark.parametrize("ends", [(0, 59), (0, 1), (17, 41)])
def test_a_message_reaches_a_destination_of_the_tree_if_its_filter_holds(
    ends: tuple[int, int],
) -> None:
    """Each router asks the tables of its own interfaces, and not where the message came from."""
    made = drawn(60, seed=3)
    hops = network_effect.path(*ends, 60, 4)
    assert hops[0].behind[hops[0].arrival] == range(ends[0], ends[0] + 1)
    assert len(hops) <= network_effect.tree_hops(4, 60) == 7
    held = made.counting.subscriptions
    for hop in hops:
        assert len(hop.behind) <= 4
        assert sorted(n for behind in hop.behind.values() for n in behind) == list(range(60))
    for event in ForwardingWorkload(seed=3, type_by="draw").events(0, 400):
        passed = []
        for hop in hops:
            others = hop.behind.keys() - {hop.arrival}
            found = made.counting.join(hop.behind).match(event, others)
            assert sorted(found) == sorted(
                port for port in others if any(held[n].matches(event) for n in hop.behind[port])
            )
            passed.append(hop.onward in found)
        assert all(passed) == held[ends[1]].matches(event)


def test_routers_that_lead_down_the_tree_have_the_tables_of_those_that_lead_up() -> None:
    destinations = 20 * 19 * 19  # so that nothing is rounded
    hops = network_effect.path(0, destinations - 1, destinations, 20)
    rising = network_effect.path_to_root(destinations, 20)
    assert hops[: len(rising)] == rising
    assert len(hops) == network_effect.tree_hops(20, destinations) == 2 * len(rising) - 1
    for up, down in zip(rising[:-1], reversed(hops), strict=False):
        sizes = [sorted(map(len, hop.behind.values())) for hop in (up, down)]
        assert sizes[0] == sizes[1]
        assert len(up.behind[up.onward]) == len(down.behind[down.arrival])
        assert len(up.behind[up.arrival]) == len(down.behind[down.onward])


def test_a_router_has_exactly_the_filters_it_is_asked_for() -> None:
    one_each = router(200, 200, seed=1)
    assert [len(p.filters) for p in one_each.counting.subscriptions.values()] == [1] * 200
    for filters, interfaces in ((4_000, 10), (4_000, 2_000), (1_000, 999)):
        few = router(filters, interfaces, seed=1)
        counts = [len(p.filters) for p in few.counting.subscriptions.values()]
        assert (len(counts), sum(counts)) == (interfaces, filters)
        assert min(counts) >= 1
        assert max(counts) < 2 * filters / interfaces
        assert len(few.messages) == 100


def test_sizes_of_interfaces_are_uniform() -> None:
    sizes = np.array(routers.sizes_of(200_000, 2_000, seed=1))
    counts, _ = np.histogram(sizes, bins=4, range=(1, 200))
    assert counts == pytest.approx(500, rel=0.15)


def test_a_time_counts_only_if_the_interfaces_are_right() -> None:
    made = router(200, 20, seed=1)
    with pytest.raises(AssertionError, match="does not find what ours finds"):
        routers.timed(lambda message: [21], made.messages, made.found)


def test_means_over_seeds_have_intervals() -> None:
    """Of a thousand samples of five, about 95 % of the intervals hold the true mean."""
    source = np.random.Generator(np.random.Philox(5))
    found = [mean_of(source.normal(10, 3, 5)) for _ in range(1_000)]
    assert sum(abs(one.mean - 10) <= one.off for one in found) / 1_000 == pytest.approx(0.95, 0.02)
    assert f"{mean_of([0.5]):.0%}" == "50%"


def test_without_the_zoo_networks_are_generated_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    zoo.networks.cache_clear()
    try:
        found = zoo.networks()
        assert "not beside this clone" in found.origin
        assert all(zoo.graph_of(text).nodes >= 10 for text in found.texts[:6])
        assert EXPERIMENTS["u1-schemes"].sweep("tiny")
    finally:
        zoo.networks.cache_clear()


def test_without_padres_quotes_are_drawn_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotes, "FOLDER", tmp_path / "absent")
    experiment = EXPERIMENTS["s12-covering"]
    sweep = [row for row in experiment.sweep("tiny") if row["subscriptions"] == 12]
    assert {row["source"] for row in sweep} == {"drawn"}
    found = [{**row, **result} for row in sweep for result in experiment.measure(row)]
    assert any("are not beside this clone" in claim.why for claim in experiment.claims(found))
