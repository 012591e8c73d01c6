"""Tidings: content-based publish/subscribe for Python and Spark.

A subscription is a predicate on the content of events. `parse` reads a predicate;
`Predicate.matches` tests an event; `covers`, `intersects`, `|`, `&`, `~` and `reduce` are the
algebra of predicates. `read_subscriptions` reads files of subscriptions. `Table` finds the
subscriptions that an event matches among a million, `ForwardingTable` the interfaces that a router
sends it to. `connect` makes a client of a live network, and `spark` is the room for Spark jobs.
These four load their packages with their first use.
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
    from tidings import spark
    from tidings.live.connect import connect
    from tidings.live.errors import (
        DisconnectedError,
        NetworkError,
        RefusedError,
        TimedOutError,
        UnknownOutcomeError,
    )
    from tidings.matching.forwarding import ForwardingTable
    from tidings.matching.table import Table

__all__ = [
    "MAX_FILTERS",
    "BadSubscription",
    "DisconnectedError",
    "Event",
    "EventError",
    "ForwardingTable",
    "NetworkError",
    "NormalFormError",
    "Predicate",
    "PredicateError",
    "RefusedError",
    "Subscription",
    "SubscriptionFileError",
    "Table",
    "TimedOutError",
    "TranslationError",
    "UnknownOutcomeError",
    "connect",
    "parse",
    "read_subscriptions",
    "spark",
    "union",
]

__version__ = "0.1.0"

_LOADED_LATER = {
    "Table": "tidings.matching.table",
    "ForwardingTable": "tidings.matching.forwarding",
    "connect": "tidings.live.connect",
    "DisconnectedError": "tidings.live.errors",
    "NetworkError": "tidings.live.errors",
    "RefusedError": "tidings.live.errors",
    "TimedOutError": "tidings.live.errors",
    "UnknownOutcomeError": "tidings.live.errors",
}


def __getattr__(name: str) -> Any:
    """Load a heavy part with its first use."""
    if name in _LOADED_LATER:
        return getattr(import_module(_LOADED_LATER[name]), name)
    if name == "spark":
        return import_module("tidings.spark")
    raise AttributeError(f"module 'tidings' has no attribute {name!r}")
