"""The table of experiments by name; a new one is a file in `experiments` and a row here."""

from __future__ import annotations

from typing import Final

from tidings.lab.experiment import Experiment
from tidings.lab.experiments import (
    chord_trees,
    dnf_model,
    general_model,
    headline,
    hermes,
    interfaces,
    layer_applications,
    layer_bound,
    layer_caveats,
    layer_latency,
    layer_match,
    layer_protocol,
    layer_throughput,
    memory,
    network_effect,
    one_filter,
    ratio,
    rounds,
    schemes,
)

EXPERIMENTS: Final[dict[str, Experiment]] = {
    "f8-figure8": one_filter.EXPERIMENT,
    "f8-figure9": interfaces.EXPERIMENT,
    "f8-figure10": ratio.EXPERIMENT,
    "f8-figure11": rounds.EXPERIMENT,
    "f8-network": network_effect.EXPERIMENT,
    "f9-headline": headline.EXPERIMENT,
    "u1-schemes": schemes.EXPERIMENT,
    "u6-memory": memory.EXPERIMENT,
    "u7-figure5": general_model.EXPERIMENT,
    "u8-figures6-7": dnf_model.EXPERIMENT,
    "l5-bound": layer_bound.EXPERIMENT,
    "l5-match": layer_match.EXPERIMENT,
    "l5-latency": layer_latency.EXPERIMENT,
    "l5-throughput": layer_throughput.EXPERIMENT,
    "l5-protocol": layer_protocol.EXPERIMENT,
    "l6-applications": layer_applications.EXPERIMENT,
    "l7-caveats": layer_caveats.EXPERIMENT,
    "s15-hermes": hermes.EXPERIMENT,
    "s16-chord-trees": chord_trees.EXPERIMENT,
}
