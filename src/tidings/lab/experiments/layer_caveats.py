"""Paper L, section 4.2 (L7): its four caveats, and what it costs to get past them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from tidings.lab.caveats import ADAPT_S, HOPS, MEASURES
from tidings.lab.experiment import (
    Claim,
    Experiment,
    Parameters,
    Row,
    Rows,
    Setting,
    select,
    values,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = {"full": 240, "quick": 48, "tiny": 24}
EVENTS: Final = {"full": 40_000, "quick": 6_000, "tiny": 600}
SKEWS: Final = ("0.6", "1.0", "1.4")
SECONDS: Final = {"full": 300, "quick": 60, "tiny": 24}  # of a run in which something changes
FEW: Final = 24  # its nodes


def sweep(setting: Setting) -> list[Parameters]:
    size = {"nodes": NODES[setting], "events": EVENTS[setting]}
    rows: list[Parameters] = []
    for skew in SKEWS:
        rows += [
            {"kind": "hops", "skew": skew, "policy": policy, "room": room} | size
            for policy in ("scatter", "fill")
            for room in (1.0, 2.0)  # of a region, by the mean
        ]
        rows += [
            {"kind": "replicas", "skew": skew, "policy": policy} | size
            for policy in ("uniform", "spread")
        ]
    rows += [
        {"kind": "unequal", "policy": policy} | size
        for policy in ("ignored", "arcs", "chosen", "virtual")
    ]
    rows += [{"kind": "slow", "policy": policy} | size for policy in ("chance", "freer of two")]
    rows.append({"kind": "growing"} | size)
    rows += [
        {"kind": "changing", "change": change, "policy": policy}
        | {"nodes": FEW, "seconds": SECONDS[setting]}
        for change in ("none", "moving", "crowd")
        for policy in ("fixed", "spread")
    ]
    return rows


def measure(parameters: Parameters) -> Iterator[Row]:
    yield MEASURES[parameters["kind"]](parameters)


COLUMNS: Final = {
    **dict.fromkeys(("mean_ms", "p99_ms", "calm_p99_ms", "hops_mean", "fullest"), float),
    **dict.fromkeys(("storage", "routing", "absolute", "copies", "rate"), float),
    **dict.fromkeys(("moved_share", "moved_bytes", "changes", "last_change", "adapted_s"), float),
    "nodes_before": int,
}


def claims(rows: Rows) -> list[Claim]:
    fill = select(rows, kind="hops", policy="fill")
    scatter = select(rows, kind="hops", policy="scatter")
    lower = [(r["skew"], r["room"], r["hops_mean"]) for r in fill]
    replicas = {
        skew: {
            policy: select(rows, kind="replicas", skew=skew, policy=policy)[0]
            for policy in ("uniform", "spread")
        }
        for skew in SKEWS
    }
    gains = {
        skew: both["spread"]["rate"] / both["uniform"]["rate"] for skew, both in replicas.items()
    }
    unequal = {r["policy"]: r for r in select(rows, kind="unequal")}
    slow = {r["policy"]: r for r in select(rows, kind="slow")}
    growing = select(rows, kind="growing")[0]
    changing = {(r["change"], r["policy"]): r for r in select(rows, kind="changing")}
    steady = changing["none", "spread"]
    ratio = float(np.mean([f["p99_ms"] / s["p99_ms"] for f, s in zip(fill, scatter, strict=True)]))
    return [
        Claim(
            "4.2",
            "it would be desirable to have a small average(H) and only bound the worst case "
            "routing hops with H",
            f"filling one region after the other, events visit {min(h for *_, h in lower):.2f} to "
            f"{max(h for *_, h in lower):.2f} nodes on average where H = {HOPS}: "
            + "; ".join(f"skew {s}, room {m:g} times the mean: {h:.2f}" for s, m, h in lower)
            + f". p99 latency is {ratio:.2f} times that of scattering",
            max(h for *_, h in lower) < HOPS,
            "Every event met every subscription of its key. The price is load: a hot key no longer "
            "shares its matching with a whole window, so where matching takes longer than hops, "
            "its first region is the busier for it.",
        ),
        Claim(
            "4.2",
            "it would be desirable to correlate an increase in the replication rate of a "
            "subscription with an increase in the number of notifications it matches",
            "; ".join(
                f"skew {skew}: {both['spread']['copies']:.1f} copies, I_r "
                f"{both['spread']['routing']:.1f} instead of {both['uniform']['routing']:.1f}, "
                f"rate x{gains[skew]:.1f}"
                for skew, both in replicas.items()
            ),
            min(gains.values()) > 1,
            "Beside the same number of copies for every key.",
        ),
        Claim(
            "4.2",
            "a better policy would be to provide the minimum number of nodes that supports the "
            "application's load",
            f"`tidings plan` finds it. Growing by a node moves {growing['moved_share']:.0%} of the "
            f"copies, where {growing['nodes_before']} nodes serve with "
            f"{growing['copies']:.0f} replicas",
            growing["moved_share"] < 0.5,
            "Weighted rendezvous hashing keeps the nodes; but the ring is cut anew, so about half "
            "a node for each region changes sides. The ideal were one node's share.",
        ),
        Claim(
            "4.2",
            "the implicit assumption that nodes are homogenous is not the case in a real "
            "environment, as absolute loads need to be taken into account",
            "with capacities 1 to 8, the busiest node by its capacity has "
            + ", ".join(f"{p} {r['absolute']:.1f}" for p, r in unequal.items())
            + " times the mean, and p99 is "
            + ", ".join(f"{p} {r['p99_ms']:.1f} ms" for p, r in unequal.items()),
            unequal["chosen"]["absolute"] < unequal["ignored"]["absolute"],
            "`arcs`: regions of equal capacity. `chosen`: also replicas in proportion to it. "
            "`virtual`: nodes are on the ring as often as they are strong, and store as much more.",
        ),
        Claim(
            "not in the paper",
            "one node at a quarter of its speed",
            f"p99 is {slow['chance']['p99_ms']:.1f} ms if events take any replica, and "
            f"{slow['freer of two']['p99_ms']:.1f} ms if they take the freer of two",
            slow["freer of two"]["p99_ms"] < slow["chance"]["p99_ms"],
        ),
        Claim(
            "not in the paper",
            "a hot key that moves, and a crowd of fifty times the events",
            "; ".join(
                f"{change}: p99 {changing[change, 'fixed']['p99_ms']:.0f} ms fixed, "
                f"{changing[change, 'spread']['p99_ms']:.0f} ms adapted, "
                f"{changing[change, 'spread']['moved_bytes'] / 1e6:.1f} MB moved a minute, "
                f"{changing[change, 'spread']['changes']:.1f} changes a minute, "
                + _after(changing[change, "spread"]["adapted_s"])
                for change in ("moving", "crowd")
            ),
            all(
                changing[change, "spread"]["p99_ms"] <= changing[change, "fixed"]["p99_ms"]
                for change in ("moving", "crowd")
            ),
            f"It looks every {ADAPT_S:g} s and forgets half of what it knew. Copies that move are "
            "work for the nodes that take them.",
        ),
        Claim(
            "not in the paper",
            "adapting ends at constant load",
            f"without a change, {steady['changes']:.1f} changes a minute in the last two thirds of "
            f"{max(values(select(rows, kind='changing'), 'seconds'))} s",
            steady["changes"] <= 2,
            "A key doubles its spread above twice its share and halves it below a quarter, so "
            "the chance of Poisson's arrivals seldom crosses both.",
        ),
    ]


def _after(seconds: float) -> str:
    return "never as before" if seconds < 0 else f"as before after {seconds:.0f} s"


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for number, policy in enumerate(("scatter", "fill")):
        for room, line in ((1.0, "-"), (2.0, ":")):
            found = select(rows, kind="hops", policy=policy, room=room)
            axes[0].plot(
                [float(r["skew"]) for r in found],
                [r["hops_mean"] for r in found],
                color=COLOURS[number],
                marker=MARKERS[number],
                linestyle=line,
                label=f"{policy}, room {room:g}",
            )
        name = ("uniform", "spread")[number]
        found = select(rows, kind="replicas", policy=name)
        axes[1].plot(
            [float(r["skew"]) for r in found],
            [r["rate"] for r in found],
            color=COLOURS[number],
            marker=MARKERS[number],
            label=f"{name} replicas",
        )
    axes[0].set_ylabel("nodes that an event visits, mean")
    axes[1].set_ylabel("events a second at saturation")
    for panel in axes:
        panel.set_xlabel("skew of keys")
        panel.legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l7-caveats",
    parts=("L7",),
    title="Past the caveats",
    question="Can the average be better than the worst case, and what does adapting cost?",
    paper="Names four deficiencies in section 4.2 as problems for future research.",
    here="Simulated nodes that take time. Regions are filled instead of scattered over; hot keys "
    "get more replicas, and lose them again; nodes have unlike capacities; keys heat up and cool "
    "down while it runs, and copies that move are work. Matching asks the subscriptions of the "
    "event's key. Every event must meet every one of them.",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
