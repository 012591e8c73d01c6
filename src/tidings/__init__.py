"""Tidings: content-based publish/subscribe for Python and Spark.

A subscription is a predicate on the content of events. `parse` reads one; `Predicate.matches` asks
it about an event; `covers`, `intersects`, `|`, `&`, `~` and `reduce` are its algebra.
`read_subscriptions` reads files of them. `Table` tells which of very many an event satisfies,
`ForwardingTable` through which interfaces it goes on; `connect` makes a client of a live network.
These, and what they need, are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidings.language.errors import (
    EventError,
    NormalFormError,
    PredicateError,
    TranslationError,
)
from tidings.language.event import Event
from tidings.language.files.subscriptions import (
    BadSubscription,
    Subscription,
    SubscriptionFileError,
    read_subscriptions,
)
from tidings.language.predicate import MAX_FILTERS, Predicate, parse, union

if TYPE_CHECKING:
    from tidings.live.connect import connect
    from tidings.matching.forwarding import ForwardingTable
    from tidings.matching.table import Table

__all__ = [
    "MAX_FILTERS",
    "BadSubscription",
    "Event",
    "EventError",
    "ForwardingTable",
    "NormalFormError",
    "Predicate",
    "PredicateError",
    "Subscription",
    "SubscriptionFileError",
    "Table",
    "TranslationError",
    "connect",
    "parse",
    "read_subscriptions",
    "union",
]

__version__ = "0.1.0"

_LOADED_LATER = {
    "Table": "tidings.matching.table",
    "ForwardingTable": "tidings.matching.forwarding",
    "connect": "tidings.live.connect",
}


def __getattr__(name: str) -> Any:
    """Load what is heavy when it is asked for."""
    if name in _LOADED_LATER:
        return getattr(import_module(_LOADED_LATER[name]), name)
    raise AttributeError(f"module 'tidings' has no attribute {name!r}")
