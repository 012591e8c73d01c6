"""`tidings status --applications`: the applications that share the network, over all routers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tidings.cli.terminal import colour, count, write

SUMS: Final = (
    *("subscriptions", "stored", "published", "visits", "matched", "delivered"),
    *("dropped", "held", "misplaced", "failures", "bytes"),
)


def gathered(findings: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What all routers say about each application, together.

    Its settings are those of the router that was asked, the first. `agreeing` routers use the same
    epoch of the same settings, and are at rest.
    """
    found: dict[str, dict[str, Any]] = {}
    for finding in findings:
        for name, one in finding.get("applications", {}).items():
            if name not in found:
                found[name] = {**one, **dict.fromkeys(SUMS, 0), "routers": 0, "agreeing": 0}
                found[name]["fullest"] = found[name]["busiest"] = 0
            total = found[name]
            total["routers"] += 1
            total["agreeing"] += one["epoch"] == total["epoch"] and one["settled"]
            total["settled"] &= one["settled"]
            total["changes"] = max(total["changes"], one["changes"])
            total["fullest"] = max(total["fullest"], one["stored"])
            total["busiest"] = max(total["busiest"], one["visits"])
            for key in SUMS:
                total[key] += one[key]
    for total in found.values():
        # The paper's imbalance of storage and of routing: the largest load by the mean.
        for key, most, sum_of in (("I_s", "fullest", "stored"), ("I_r", "busiest", "visits")):
            most_of = total.pop(most)
            total[key] = round(most_of * total["routers"] / total[sum_of], 2) if most_of else None
    return dict(sorted(found.items()))


def show_applications(findings: list[dict[str, Any]], as_json: bool) -> int:
    """Write what there is to say about each application."""
    findings.sort(key=lambda finding: finding.get("hops", 0))
    found = gathered(findings)
    if as_json:
        write(json.dumps({"applications": found}))
        return 0
    if not found:
        write("the routers have no applications of their own")
    for name, one in found.items():
        for line in _lines(name, one):
            write(line)
    return 0


def _lines(name: str, one: dict[str, Any]) -> Iterator[str]:
    from tidings.language.explanation import printable

    shape = f"{one['matching']}-{one['delivery']}"
    if one["matching"] == "regions":
        shape += f", R = {one['replicas']}, H = {one['hops']}, X = {one['regions']}"
    if one["adapted"]:
        shape += f", {count(one['serving'], 'node')} by load"
    if one["seal"] != "none":
        shape += f", sealed for each {one['seal']}"
    state = f"{one['agreeing']} of {one['routers']} routers at rest"
    if one["agreeing"] < one["routers"]:
        state = colour(state, "yellow")
    yield printable(f"{name}: {shape}")
    adapted = f", adapted {count(one['adapted'], 'time')}" if one["adapted"] else ""
    yield f"  epoch {one['epoch']}, {count(one['changes'], 'change')}{adapted}, {state}"
    imbalance = ", ".join(f"{key} = {one[key]}" for key in ("I_s", "I_r") if one[key] is not None)
    yield (
        f"  {count(one['subscriptions'], 'subscription')}, {one['stored']:,} stored, "
        f"{count(one['published'], 'event')}, {count(one['visits'], 'visit')}, "
        f"{one['matched']:,} matched, "
        f"{one['delivered']:,} delivered" + (f"; {imbalance}" if imbalance else "")
    )
    yield (
        f"  {one['dropped']:,} dropped, publishers held up {count(one['held'], 'time')}, "
        f"{one['bytes']:,} bytes between routers"
        + (f", {one['misplaced']:,} misplaced" if one["misplaced"] else "")
        + (
            f", the rendezvous function failed {count(one['failures'], 'time')}"
            if one["failures"]
            else ""
        )
    )
