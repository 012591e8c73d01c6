"""Paper F, section 2.1 (F2): the protocol as it is printed, and as it is mended here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidings.lab.experiment import (
    BEYOND,
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    generator,
    identity,
    select,
    values,
)
from tidings.lab.intervals import Mean, mean_of
from tidings.lab.zoo import origin_of, path_of, sample
from tidings.routing.protocol import MILLISECOND, SECOND, Timing
from tidings.routing.source_trees.letter import LetterRouter
from tidings.sim.trial import Options, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOPOLOGIES: Final = {"full": 40, "quick": 5, "tiny": 2}
NODES: Final = (4, 40)  # of a network, at least and at most
SECONDS: Final = {"full": 40, "quick": 10, "tiny": 6}  # of use
PRINTED: Final = "cbcb-2003"
MENDED: Final = "cbcb"
PULLS: Final = (2, 10)  # seconds between two requests of a node
PUBLISH: Final = 20 * MILLISECOND  # between two events anywhere, on average
CHURN: Final = 100 * MILLISECOND  # between two changes of a subscription anywhere
SETTLING: Final = 12 * SECOND  # links, then one pull of every node


def sweep(setting: Setting) -> list[Parameters]:
    return [
        {"topology": text, "protocol": name, "pull": pull, "seconds": SECONDS[setting]}
        for text in sample(TOPOLOGIES[setting], NODES)
        for name in (MENDED, PRINTED)
        for pull in PULLS
    ]


def measure(parameters: Parameters) -> Iterator[Row]:
    shared = {name: parameters[name] for name in ("topology", "pull", "seconds")}
    options = Options(
        # Both protocols see the same users: the seed does not depend on the protocol.
        seed=int(generator("f2-protocols", identity(shared)).integers(1 << 32)),
        topology=path_of(parameters["topology"]),
        protocol=MENDED,  # the judge's row: the printed protocol confirms nothing
        kinds=(),
        timing=Timing(pull=parameters["pull"] * SECOND),
        gentle=(0.0, 0.0, 0.0),
        skewed=False,
        storm_ns=0,
        faults=0,
        publish_ns=PUBLISH,
        churn_ns=CHURN,
        delay_ns=20 * MILLISECOND,
    )
    trial = Trial(options, LetterRouter if parameters["protocol"] == PRINTED else None)
    trial.network.run(SETTLING)
    trial.stable = True
    trial.oracle.found_right(trial.situation(exact=False))
    ledger = trial.ledger
    packets, size = ledger.control_packets, ledger.control_bytes
    trial.use(parameters["seconds"] * SECOND)
    routers: list[Any] = [node.router for node in trial.network.nodes.values()]
    yield {
        "nodes": len(routers),
        "published": ledger.published,
        "expected": ledger.expected - ledger.withdrawn,
        "missed": ledger.lost + ledger.lost_when_stable,
        "event_packets": ledger.event_packets,
        "spam_packets": ledger.spam_packets,
        "control_packets": ledger.control_packets - packets,
        "control_bytes": ledger.control_bytes - size,
        "state": sum(len(text) for router in routers for text in router.table.values()),
    }


COLUMNS: Final = dict.fromkeys(
    (
        "nodes", "published", "expected", "missed", "event_packets", "spam_packets",
        "control_packets", "control_bytes", "state",
    ),
    int,
)  # fmt: skip


COSTS: Final = {
    "control packets": "control_packets",
    "control bytes": "control_bytes",
    "state": "state",
}


def _cost(rows: Rows, column: str) -> float:
    """How much more of something the mended protocol has."""
    mended, printed = (
        sum(r[column] for r in select(rows, protocol=name)) for name in (MENDED, PRINTED)
    )
    return float(mended / max(1, printed))


def _share(rows: Rows, column: str, of: str) -> float:
    part: int = sum(r[column] for r in rows)
    whole: int = sum(r[of] for r in rows)
    return part / max(1, whole)


def claims(rows: Rows) -> list[Claim]:
    printed, mended = (select(rows, protocol=name) for name in (PRINTED, MENDED))
    return [
        Claim(
            "2.1",
            "pruning advertisements avoids paths that are already set up with forwarding state",
            f"as printed, {_by_pull(printed, 'missed', 'expected')} of the deliveries to "
            "subscriptions that are held are missed; mended, "
            f"{_by_pull(mended, 'missed', 'expected')} (means over networks). {origin_of(rows)}",
            sum(r["missed"] for r in printed) <= sum(r["missed"] for r in mended),
            "Agrees if nothing more is missed than by the mended protocol, which only misses what "
            "is published before an advertisement has arrived. As printed, an advertisement stops "
            "at an interface that has heard of others who want the same, and nodes beyond it never "
            "hear of the new receiver until they pull. docs/decisions/0004-content-plane.md has an "
            "example.",
        ),
        Claim(
            BEYOND,
            "what the repairs cost",
            "of the mended protocol, as a multiple of the printed one's: "
            + ", ".join(f"{name} {_cost(rows, column):.2f}" for name, column in COSTS.items())
            + "; packets of events in vain: mended "
            f"{_share(mended, 'spam_packets', 'event_packets'):.1%}, printed "
            f"{_share(printed, 'spam_packets', 'event_packets'):.1%}",
            None,
            "The mended protocol confirms advertisements and lets them travel further. Control "
            "traffic includes hellos and records of links, which both have alike.",
        ),
    ]


def _mean_share(rows: Rows, column: str, of: str) -> Mean:
    """The mean over networks of each network's share."""
    networks = (select(rows, topology=text) for text in values(rows, "topology"))
    return mean_of(_share(network, column, of) for network in networks)


def _by_pull(rows: Rows, column: str, of: str) -> str:
    return " and ".join(
        f"{_mean_share(select(rows, pull=pull), column, of):.2%} (a pull every {pull} s)"
        for pull in values(rows, "pull")
    )


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, (missed, control) = panels(2)
    for number, name in enumerate((MENDED, PRINTED)):
        for pull, fill in zip(values(rows, "pull"), ("full", "none"), strict=False):
            found = select(rows, protocol=name, pull=pull)
            lines = [
                (
                    same[0]["nodes"],
                    100 * _share(same, "missed", "expected"),
                    _share(same, "control_bytes", "nodes") / same[0]["seconds"] / 1e3,
                )
                for text in values(found, "topology")
                if (same := select(found, topology=text))
            ]
            nodes, shares, rates = zip(*sorted(lines), strict=True)
            style: dict[str, Any] = {
                "color": COLOURS[number], "marker": MARKERS[number], "linestyle": "none",
                "fillstyle": fill, "label": f"{name}, pull every {pull} s",
            }  # fmt: skip
            missed.plot(nodes, shares, **style)
            control.plot(nodes, rates, **style)
    missed.set_ylabel("deliveries missed, %")
    control.set_ylabel("control traffic, kB/s a node")
    for axes in (missed, control):
        axes.set_xlabel("nodes")
        axes.set_ylim(0, 1.6 * axes.get_ylim()[1])  # room for the legend
        axes.legend(loc="upper left")
    return figure


EXPERIMENT: Final = Experiment(
    name="f2-protocols",
    parts=("F2",),
    title="The protocol as printed, and mended",
    question="What does the pruning rule of the paper lose while subscriptions change, and what do "
    "the repairs cost?",
    paper="Describes the protocol in a page, no measurement.",
    here="Both protocols in the simulator on networks of the Topology Zoo, with the same users: "
    "50 events and 10 changes of a subscription a second. No link fails and no packet gets lost. "
    "Users differ from network to network, so a mean over networks has its 95 % interval.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
