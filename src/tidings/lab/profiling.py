"""What the applications of Table 1 need, from samples of their workloads and from measured times.

A profile says how many and how often. How even keys are, how many an event has and how many a
subscription covers follows from a sample. How long matching takes is measured, with processor time,
and fitted: a + b * n ** gamma.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from tidings.lab.planning import Machine, Needs
from tidings.language.event import lookup
from tidings.matching.contract import Matcher
from tidings.matching.table import Table
from tidings.matching.workload import (
    APPLICATIONS,
    ApplicationWorkload,
    Record,
    Subscription,
    Workload,
)
from tidings.routing.layers.rendezvous import ByHash, ByRange, Rendezvous, cuts_of

SAMPLE: Final = 2_000  # subscriptions, and as many events
PLACED: Final = 500  # subscriptions of which the keys are counted, which is slow
FINE: Final = 64  # keys, to measure how even and how wide they are
MATCHED: Final = 400  # events that are matched with the sample
EXPONENTS: Final = np.linspace(0.0, 1.5, 151)  # that a fit tries

# Which key each application has; `one` if most subscriptions would lie at too many keys.
KEYS: Final = {
    "games": "range",
    "feeds": "hash",
    "quotes": "hash",
    "alerts": "one",
    "places": "range",
}


def rendezvous_for(name: str, workload: ApplicationWorkload) -> Rendezvous | None:
    """The rendezvous function of an application, with cuts from a sample; None for `one`."""
    attribute = workload.profile.key
    if KEYS[name] == "one":
        return None
    if KEYS[name] == "hash":
        return ByHash(attribute)
    values = [v for event in workload.events(0, SAMPLE) for v in lookup(event, attribute)]
    return ByRange(attribute, cuts_of(values, FINE - 1))


# a and b of matching times in microseconds, and gamma: `Table` on one machine, by `l5-match`.
# There is no growth to speak of in `places` before 100,000 subscriptions, so gamma is 1.
TIMES: Final = {
    "games": (1.6, 0.000_93, 0.91),
    "feeds": (2.2, 0.000_77, 0.92),
    "quotes": (1.4, 0.004_3, 0.99),
    "alerts": (2.0, 0.005_7, 1.12),
    "places": (1.6, 0.000_09, 1.0),
}


def machine_for(name: str) -> Machine:
    """A node with the matching times that were measured for an application."""
    fixed, growth, exponent = TIMES[name]
    return Machine(match_fixed_us=fixed, match_growth_us=growth, match_exponent=exponent)


@lru_cache(maxsize=32)
def needs_of(name: str, machine: Machine | None = None, seed: int = 0) -> Needs:
    """What an application of Table 1 needs."""
    machine = machine or machine_for(name)
    workload = APPLICATIONS[name](seed=seed)
    profile = workload.profile
    subscriptions = list(workload.subscriptions(0, SAMPLE))
    events = workload.events(0, SAMPLE)
    table = Table(dict(subscriptions))
    matched = [len(table.match(event)) / SAMPLE for event in events[:MATCHED]]
    written = [len(str(predicate).encode()) for _, predicate in subscriptions]
    found = Needs(
        name=name,
        subscriptions=profile.population,
        events_per_second=_peak(workload),
        event_bytes=profile.event_bytes,
        latency_ms=profile.latency_s * 1e3,
        subscription_bytes=round(float(np.mean(written))),
        renewals_per_second=profile.renewals,
        matched=float(np.mean(matched)),
        nodes=machine,
    )
    rendezvous = rendezvous_for(name, workload)
    if rendezvous is None:
        return found
    at = Counter[int]()  # events by key
    keys = 0
    for event in events:
        here = rendezvous.event(event, FINE)
        at.update(here)
        keys += len(here)
    lies = Counter[int]()
    covered: list[int] = []
    unkeyed = 0
    for _, predicate in subscriptions[:PLACED]:
        places = rendezvous.places(predicate, FINE)
        if places is None:
            unkeyed += 1
        else:
            lies.update(places)
            covered.append(len(places))
    return msgspec.structs.replace(
        found,
        rendezvous=f"{KEYS[name]}:{profile.key}",
        hot_subscriptions=_excess(lies),
        hot_events=_excess(at),
        width=(float(np.mean(covered)) - 1) / FINE,
        keys=keys / len(events),
        unkeyed=unkeyed / PLACED,
    )


def _peak(workload: ApplicationWorkload) -> float:
    """Events a second when it is busiest: of bursts the greatest second, else the mean."""
    rate = workload.profile.rate
    busiest = max(Counter(workload.times(0, SAMPLE).astype(int).tolist()).values())
    return float(busiest) if busiest > 3 * rate else rate


def _excess(counts: Counter[int]) -> float:
    """The share by which the fullest of `FINE` keys exceeds an even share."""
    fullest = max(counts.values()) / counts.total()
    return max(0.0, (fullest - 1 / FINE) / (1 - 1 / FINE))


# Matching times


def matching_times(
    workload: Workload,
    make: Callable[[list[Subscription]], Matcher],
    sizes: Sequence[int],
    events: int = 200,
    least_s: float = 0.05,
) -> list[tuple[int, float]]:
    """Seconds of processor time to match an event, by the number of subscriptions.

    The events are objects already: nothing is decoded.
    """
    sample = workload.events(0, events)
    held = list(workload.subscriptions(0, max(sizes)))
    found = []
    for size in sizes:
        matcher = make(held[:size])
        for event in sample[:10]:
            matcher.match(event)
        found.append((size, _seconds(matcher, sample, least_s)))
    return found


def _seconds(matcher: Matcher, sample: Sequence[Record], least_s: float) -> float:
    gc.collect()
    gc.disable()  # it would count the subscriptions' objects as matching
    try:
        matched, begun = 0, time.process_time()
        while time.process_time() - begun < least_s:
            matcher.match(sample[matched % len(sample)])
            matched += 1
        return (time.process_time() - begun) / matched
    finally:
        gc.enable()


def fitted(times: Sequence[tuple[int, float]]) -> tuple[float, float, float]:
    """a, b and gamma of a + b * n ** gamma, with the least relative squares; none is negative.

    >>> fitted([(n, 2e-6 + 1e-8 * n) for n in (10, 100, 1000, 10_000)])
    (2e-06, 1e-08, 1.0)
    """
    sizes, seconds = (np.array(column, dtype=np.float64) for column in zip(*times, strict=True))
    best = (np.inf, 0.0, 0.0, 0.0)
    for exponent in EXPONENTS:
        powers = sizes**exponent
        columns = np.stack([1 / seconds, powers / seconds], axis=1)
        fixed, growth = np.linalg.lstsq(columns, np.ones(len(seconds)), rcond=None)[0]
        if fixed < 0 or exponent == 0:
            fixed, growth = 0.0, float((powers / seconds).sum() / ((powers / seconds) ** 2).sum())
        if growth < 0:
            fixed, growth = float((1 / seconds).sum() / ((1 / seconds) ** 2).sum()), 0.0
        off = float((((fixed + growth * powers) / seconds - 1) ** 2).sum())
        if off < best[0] - 1e-12:
            best = (off, float(fixed), float(growth), float(exponent))
    return _rounded(best[1]), _rounded(best[2]), round(best[3], 3)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def measured_machine(name: str, sizes: Sequence[int], machine: Machine) -> Machine:
    """A machine with the matching times of this one, for an application."""
    fixed, growth, exponent = fitted(matching_times(APPLICATIONS[name](), Table, sizes))
    return msgspec.structs.replace(
        machine,
        match_fixed_us=fixed * 1e6,
        match_growth_us=growth * 1e6,
        match_exponent=exponent,
    )
