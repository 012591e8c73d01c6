"""Paper L, section 2.1 (L5): no scheme can have few hops, few replicas and even load at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import exp
from typing import TYPE_CHECKING, Final

import numpy as np

from tidings.lab.experiment import (
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
from tidings.lab.layer_model import imbalance, stores, visits
from tidings.lab.trips import Layer, drawn, popularity
from tidings.routing.layers.placement import Regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = {"full": 1_000, "quick": 120, "tiny": 24}
EVENTS: Final = {"full": 20_000, "quick": 3_000, "tiny": 300}
SEEDS: Final = {"full": 3, "quick": 2, "tiny": 1}
SKEWS: Final = ("0.0", "0.6", "1.0", "1.4", "one")
SHAPES: Final = ((1, 1), (1, 4), (3, 1), (3, 2), (3, 4), (6, 2), (6, 8))  # R, H

FEW: Final = ((1, 1), (3, 1), (3, 4))


def sweep(setting: Setting) -> list[Parameters]:
    fixed = {"nodes": NODES[setting], "events": EVENTS[setting]}
    rows: list[Parameters] = []
    for seed in range(SEEDS[setting]):
        for skew in SKEWS:
            for replicas, hops in FEW if setting == "tiny" else SHAPES:
                shape = {"replicas": replicas, "hops": hops, "skew": skew, "seed": seed}
                rows.append(fixed | shape | {"scheme": "regions", "division": "rank"})
                if skew == "0.0" and hops == 1:
                    rows.append(fixed | shape | {"scheme": "regions", "division": "width"})
                if skew == "0.0" and hops > 1:
                    rows.append(fixed | shape | {"scheme": "literal", "division": "rank"})
            rivals = {"everywhere": (NODES[setting], 1), "nowhere": (1, NODES[setting])}
            for scheme, (replicas, hops) in rivals.items():
                shape = {"replicas": replicas, "hops": hops, "skew": skew, "seed": seed}
                rows.append(fixed | shape | {"scheme": scheme, "division": "rank"})
    return rows


def measure(parameters: Parameters) -> Iterator[Row]:
    nodes, replicas, hops = (parameters[name] for name in ("nodes", "replicas", "hops"))
    shape = Regions(max(1, round(nodes / replicas)), hops)
    names = [f"n{parameters['seed']}-{number}" for number in range(nodes)]
    layer = Layer("bound", names, shape, parameters["division"])
    source = generator("l5-bound", identity(parameters))
    order = source.permutation(shape.regions)
    likely = popularity(shape.regions, parameters["skew"], order)
    subscriptions = 5 * parameters["events"] // 10
    held: Counter[int] = Counter(source.choice(order, subscriptions, p=likely[order]).tolist())
    asked: list[int] = source.choice(order, parameters["events"], p=likely[order]).tolist()
    homes: set[tuple[int, int]] = set()
    for key, count in held.items():
        for number in range(count):
            if parameters["scheme"] == "literal":
                home = _literal_home(shape, key, number)
                layer.store(key, home)
            else:
                home = layer.put(number, key)
            homes.add((key, home))
    for number, key in enumerate(asked):
        layer.route(number, [key])
    published = Counter(asked)
    met = sum(layer.met(key) * count for key, count in published.items())
    due = sum(held[key] * count for key, count in published.items())
    row = {
        "regions": shape.regions,
        "steps": len(shape.window()),
        "storage": imbalance([layer.stored[name] for name in names]),
        "routing": imbalance([layer.visited[name] for name in names]),
        "lost": 1 - met / due if due else 0.0,
        "empty": sum(not members for members in layer.placement.nodes_of) / shape.regions,
    }
    if parameters["scheme"] == "literal":  # it misses matches, so the law asks nothing of it
        yield row | dict.fromkeys(("predicted", "law_storage", "law_routing"))
        return
    assert met == due, "every match is met exactly once"
    kept = layer.checked_law(
        subscriptions,
        parameters["events"],
        max(held[key] for key in published),
        [((home,), published[key]) for key, home in homes],
    )
    yield row | {
        "predicted": _predicted(layer, held, published),
        "law_storage": kept.storage,
        "law_routing": kept.routing,
    }


def _literal_home(shape: Regions, key: int, number: int) -> int:
    """The home if r is drawn from [-H/2, H/2], as the paper says."""
    half = min(shape.hops, shape.regions) // 2
    return (key - half + drawn("put", number, key) % (2 * half + 1)) % shape.regions


def _predicted(layer: Layer, held: Counter[int], published: Counter[int]) -> float:
    """I_r, from the counts of each key and the sizes of regions."""
    shape = layer.placement.shape
    seen = visits([published[key] for key in range(shape.regions)], shape)
    assert sum(stores([held[key] for key in range(shape.regions)], shape)) > 0
    each = []
    for region, count in enumerate(seen):
        members = layer.placement.nodes_of[region]
        each += [count / len(members)] * len(members) if members else []
    return imbalance(each)


COLUMNS: Final = {
    "regions": int,
    "steps": int,  # of an event: H, or X where that is less
    "storage": float,
    "routing": float,
    "lost": float,
    "empty": float,
    "predicted": float,
    "law_storage": float,
    "law_routing": float,
}


def claims(rows: Rows) -> list[Claim]:
    exact = [r for r in rows if r["scheme"] != "literal"]
    least = min(min(r["law_storage"], r["law_routing"]) for r in exact)
    nodes = max(values(rows, "nodes"))
    regions = select(rows, scheme="regions", division="rank")
    hot = [r for r in regions if r["skew"] == "one"]
    even = [r for r in regions if r["skew"] == "0.0"]
    literal = select(rows, scheme="literal")
    wide = select(rows, division="width")
    empty = [
        (replicas, float(np.mean([r["empty"] for r in select(wide, replicas=replicas)])))
        for replicas in values(wide, "replicas")
    ]
    near = [r["routing"] / r["predicted"] for r in regions]
    return [
        Claim(
            "2.1",
            "in the worst case, H R I_s >= N and H R I_r >= N",
            f"with one key for everything, H R I_s / N is {_span(hot, 'storage')} and H R I_r / N "
            f"is {_span(hot, 'routing')}; in its form H R I >= f N, with the shares f of each run, "
            f"it held in all {len(exact)} runs of every scheme and skew, by a factor of at least "
            f"{least:.3f}",
            least >= 1 - 1e-9 and min(_products(hot, "storage")) >= 1 - 1e-9,
            "Every run asserts it. The paper leaves its proof to a private communication; "
            "`src/tidings/lab/layer_model.py` has one.",
        ),
        Claim(
            "4.2",
            "the load balancing of the solution is I_r = N / (H R) and I_s = N / (H R)",
            f"with one hot key I_r is {_span(hot, 'routing')} times that, with even keys "
            f"{_span(even, 'routing')} times",
            max(_products(hot, "routing")) < 1.6,
            "It is what the worst case gives, not what the architecture does: a window of H "
            "regions smooths skew, and with even keys the load is even at any R and H.",
        ),
        Claim(
            "2.1",
            "optimizing some aspects (such as H and R) will lead to less scalability on the "
            "remaining dimension",
            "with one hot key and H = R = 1, the busiest node has "
            f"{max(r['routing'] for r in hot if r['replicas'] == r['hops'] == 1):.0f} times the "
            f"mean of {nodes} nodes; with even keys at most {max(r['routing'] for r in even):.1f} "
            "times",
            max(r["routing"] for r in hot) > 2 * max(r["routing"] for r in even),
            "True where keys are skewed; even keys have all three at once.",
        ),
        Claim(
            "4.2",
            "r is a random integer in [-H/2, H/2], and the walk begins at t - H/2 and visits H "
            "nodes",
            f"read literally, {min(r['lost'] for r in literal):.0%} to "
            f"{max(r['lost'] for r in literal):.0%} of the matches are never met, one in H + 1",
            max(r["lost"] for r in literal) == 0,
            "For even H that is one region more than the walk visits. Tidings draws r from the H "
            "regions of the walk.",
        ),
        Claim(
            "not in the paper",
            "the load of regions follows from the loads of keys in their window",
            f"measured I_r is {min(near):.2f} to {max(near):.2f} times the predicted one",
            max(near) < 2.0,
            "Replicas are chosen by chance, so the busiest of many nodes is above the mean.",
        ),
        Claim(
            "4.2",
            "the nodes (approximately R) that belong to the same part of the space form a cluster",
            "; ".join(
                f"R = {replicas}: {share:.0%} of the regions are empty (e^-R is "
                f"{exp(-replicas):.0%})"
                for replicas, share in empty
            ),
            all(share == 0 for _, share in empty),
            "Identifiers at random leave regions empty. Tidings cuts the ring into runs of equally "
            "many nodes instead (`rank`), for which it needs all names, as the paper assumes.",
        ),
    ]


def _products(rows: Rows, name: str) -> list[float]:
    return [r["steps"] * r[name] / r["regions"] for r in rows]


def _span(rows: Rows, name: str) -> str:
    found = _products(rows, name)
    return f"{min(found):.2f} to {max(found):.2f}"


def draw(rows: Rows) -> Figure:
    from tidings.lab.figures import COLOURS, MARKERS, panels

    figure, axes = panels(2)
    for panel, name in zip(axes, ("storage", "routing"), strict=True):
        for number, (replicas, hops) in enumerate(SHAPES):
            found = select(rows, scheme="regions", division="rank", replicas=replicas, hops=hops)
            if not found:
                continue
            means = [float(np.mean(_products(select(found, skew=s), name))) for s in SKEWS]
            panel.plot(
                range(len(SKEWS)), means, color=COLOURS[number], marker=MARKERS[number],
                label=f"R = {replicas}, H = {hops}",
            )  # fmt: skip
        panel.axhline(1, color="black", linewidth=0.7, linestyle=":")
        panel.set_xticks(range(len(SKEWS)), SKEWS)
        panel.set_yscale("log")
        panel.set_xlabel("skew of keys (exponent; one: one key)")
        panel.set_ylabel(f"H R I / N, {name}")
    axes[0].legend()
    return figure


EXPERIMENT: Final = Experiment(
    name="l5-bound",
    parts=("L5",),
    title="Hops, replicas and even load",
    question="Does the bound on H, R and I hold, and is the architecture on it?",
    paper="States the bound in section 2.1 and the balance of the architecture in 4.2; no proof "
    "and no measurement.",
    here="Subscriptions and events with keys by Zipf's law or one hot key, on up to 1,000 nodes; "
    "every match must be met exactly once, and every run asserts the bound with its own shares. "
    "Beside it everything everywhere (R = N, H = 1) and nowhere (R = 1, H = N).",
    sweep=sweep,
    columns=COLUMNS,
    measure=measure,
    claims=claims,
    draw=draw,
)
