"""What becomes of one event under a scheme, for tests."""

import pytest

from tests.routing.networks import interested
from tidings.routing.delivery import Delivery, Outcome, deliver, judge
from tidings.routing.network import Event, Matched, Network, nodes_of
from tidings.routing.scheme import Scheme
from tidings.routing.schemes import SCHEMES

every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: scheme.name)


def publish(scheme: Scheme | str, network: Network, source: int, event: Event) -> Delivery:
    scheme = SCHEMES[scheme] if isinstance(scheme, str) else scheme
    matched = Matched(network.interested(event))
    return deliver(scheme, scheme.build(network), scheme.graph(network), source, matched)


def outcome(scheme: Scheme | str, network: Network, source: int, event: Event) -> Outcome:
    delivery = publish(scheme, network, source, event)
    return judge(network, delivery, nodes_of(interested(network, event)))
