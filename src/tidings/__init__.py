"""Tidings: content-based publish/subscribe for Python and Spark.

A subscription is a predicate on the content of events. `parse` reads one; `Predicate.matches` asks
it about an event; `covers`, `intersects`, `|`, `&`, `~` and `reduce` are its algebra.
`read_subscriptions` reads files of them.
"""

from tidings.language.errors import EventError, NormalFormError, PredicateError
from tidings.language.event import Event
from tidings.language.predicate import MAX_FILTERS, Predicate, parse, union
from tidings.language.subscriptions import (
    BadSubscription,
    Subscription,
    SubscriptionFileError,
    read_subscriptions,
)

__all__ = [
    "MAX_FILTERS",
    "BadSubscription",
    "Event",
    "EventError",
    "NormalFormError",
    "Predicate",
    "PredicateError",
    "Subscription",
    "SubscriptionFileError",
    "parse",
    "read_subscriptions",
    "union",
]

__version__ = "0.1.0"
