"""The data pipeline: matching events and subscriptions on Spark.

`match(events, subscriptions)` returns a DataFrame of matches; `matching(subscriptions)` is the same
as a step of `events.transform`. `compile` prepares subscriptions for many frames.
`Compiled.rejected` has the bad subscriptions, `rejected_events` the rows that are not valid events.
`match_stream` matches a stream with a `Store`, a folder of subscriptions that may change while the
stream runs. `session` starts Spark on this machine, `register` adds functions to SQL, `ship` sends
Tidings to the executors of a cluster, and `explained` puts an error in one line. All take the
session from the DataFrames that they get. `register_source` makes `format("tidings")` known, which
reads from the live network and publishes to it; `subscribe` is a stream of what matches.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidings.spark.compiled import Compiled, SubscriptionsRejected, compile
    from tidings.spark.counts import with_counts
    from tidings.spark.failures import explained
    from tidings.spark.feed import received
    from tidings.spark.matches import (
        EventsRejected,
        UnknownNames,
        match,
        matching,
        rejected_events,
    )
    from tidings.spark.samples import statistics
    from tidings.spark.sessions import session
    from tidings.spark.shipping import ship
    from tidings.spark.source import Subscribed, register_source, subscribe
    from tidings.spark.sql import register
    from tidings.spark.store import Store
    from tidings.spark.stream import batches, for_each_batch, match_stream
    from tidings.spark.workloads import workload

__all__ = [
    "Compiled",
    "EventsRejected",
    "Store",
    "Subscribed",
    "SubscriptionsRejected",
    "UnknownNames",
    "batches",
    "compile",
    "explained",
    "for_each_batch",
    "match",
    "match_stream",
    "matching",
    "received",
    "register",
    "register_source",
    "rejected_events",
    "session",
    "ship",
    "statistics",
    "subscribe",
    "with_counts",
    "workload",
]

# Each is loaded with its first use, so that finding a Java needs no Spark. No file of this room may
# have the name of one of these: once loaded, the module would replace it.
_HOMES = {
    "Compiled": "compiled",
    "EventsRejected": "matches",
    "Store": "store",
    "Subscribed": "source",
    "SubscriptionsRejected": "compiled",
    "UnknownNames": "matches",
    "batches": "stream",
    "compile": "compiled",
    "explained": "failures",
    "for_each_batch": "stream",
    "match": "matches",
    "match_stream": "stream",
    "matching": "matches",
    "received": "feed",
    "register": "sql",
    "register_source": "source",
    "rejected_events": "matches",
    "session": "sessions",
    "ship": "shipping",
    "statistics": "samples",
    "subscribe": "source",
    "with_counts": "counts",
    "workload": "workloads",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        try:
            return getattr(import_module(f"tidings.spark.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            from tidings.spark.failures import naming_extra

            raise naming_extra(error) from None
    raise AttributeError(f"module 'tidings.spark' has no attribute {name!r}")
