"""Schemes side by side: the same events on the same network, and what each scheme made of them.

`compare` matches every event once; then every scheme decides at every node that a packet reaches.
That costs a few microseconds a packet; reducing the interests of nodes, once, mostly costs more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidings.routing.delivery import Outcome, deliver, judge
from tidings.routing.memory import Footprint, Scale, Shape, shape_of
from tidings.routing.network import Event, Matched, Network
from tidings.routing.scheme import Scheme

Step = Callable[[str, int, int], None]  # what goes on, how much of it is done, how much there is


@dataclass(frozen=True)
class Measures:
    """What was measured of one scheme: its row in the comparison."""

    scheme: str
    events: int
    expected: int  # deliveries that should be made
    delivered: int
    packets: int
    packets_per_event: float
    relayed: int
    spam: int
    duplicates: int
    stretch_mean: float
    stretch_max: float
    header_bits_mean: float  # of a packet
    state_bits: int | None  # None where there are too many filters to reduce
    state_bits_by_node: list[int] | None
    state_bits_unreduced: int
    advantage: float | None  # size of reduced predicates by size of unreduced ones
    formula_bits: int | None  # with the measured advantage
    formula_bits_unreduced: int | None  # without; None where the paper has no formula
    correct: bool  # in all events
    latency_minimal: bool
    ideal: bool


def compare(
    network: Network,
    schemes: Iterable[Scheme],
    events: Iterable[tuple[int, Event]],
    step: Step = lambda what, done, whole: None,
) -> list[Measures]:
    """Publish events, each given with its source, under each scheme."""
    step("matching", 0, 1)
    asked = [(source, network.interested(event)) for source, event in events]
    scale = Scale(network, lambda done, whole: step("comparing filters", done, whole))
    shape = shape_of(network)
    rows = []
    for scheme in schemes:
        step(f"{scheme.name}: building", 0, 1)
        states, graph = scheme.build(network), scheme.graph(network)
        totals = _Totals()
        for number, (source, interested) in enumerate(asked):
            if number % 64 == 0:
                step(f"{scheme.name}: publishing", number, len(asked))
            delivery = deliver(scheme, states, graph, source, Matched(interested))
            totals.add(judge(network, delivery, interested))
        step(f"{scheme.name}: weighing", 0, 1)
        footprint = scale.weigh(map(scheme.size, states))
        rows.append(_measures(scheme, totals, footprint, shape))
    return rows


class _Totals:
    """The outcomes of many events, added up."""

    def __init__(self) -> None:
        self.events = self.expected = self.delivered = 0
        self.packets = self.relayed = self.spam = self.duplicates = self.header_bits = 0
        self.stretch_sum = self.stretch_max = 0.0
        self.correct = self.latency_minimal = self.ideal = True

    def add(self, outcome: Outcome) -> None:
        self.events += 1
        self.expected += outcome.expected
        self.delivered += outcome.delivered
        self.packets += outcome.packets
        self.relayed += outcome.relayed
        self.spam += outcome.spam
        self.duplicates += outcome.duplicates
        self.header_bits += outcome.header_bits
        self.stretch_sum += sum(outcome.stretches)
        self.stretch_max = max(self.stretch_max, max(outcome.stretches, default=0.0))
        self.correct &= outcome.correct
        self.latency_minimal &= outcome.latency_minimal
        self.ideal &= outcome.ideal


def _measures(scheme: Scheme, totals: _Totals, state: Footprint, shape: Shape) -> Measures:
    def formula(advantage: float | None) -> int | None:
        bits = None if advantage is None else scheme.formula(shape, advantage)
        return None if bits is None else round(bits)

    return Measures(
        scheme=scheme.name,
        events=totals.events,
        expected=totals.expected,
        delivered=totals.delivered,
        packets=totals.packets,
        packets_per_event=totals.packets / max(totals.events, 1),
        relayed=totals.relayed,
        spam=totals.spam,
        duplicates=totals.duplicates,
        stretch_mean=totals.stretch_sum / max(totals.delivered, 1),
        stretch_max=totals.stretch_max,
        header_bits_mean=totals.header_bits / max(totals.packets, 1),
        state_bits=None if state.by_node is None else sum(state.by_node),
        state_bits_by_node=state.by_node,
        state_bits_unreduced=sum(state.by_node_unreduced),
        advantage=state.advantage,
        formula_bits=formula(state.advantage),
        formula_bits_unreduced=formula(1.0),
        correct=totals.correct,
        latency_minimal=totals.latency_minimal,
        ideal=totals.ideal,
    )
