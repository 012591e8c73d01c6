"""Every bound of the live layer: sizes, counts and times, in one place.

A router and a client get a `Limits`, and the simulator gives them tiny ones, so that it meets every
bound in every run. Sizes are bytes, times are nanoseconds. `docs/protocol.md` lists the usual ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.wire.frames import MAX_CLIENT, MAX_FIRST, MAX_ROUTER
from tidings.wire.messages import MAX_PREDICATE

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True)
class Limits:
    """The bounds of a router and of a client."""

    # Frames and connections
    first_frame: int = MAX_FIRST  # before the greeting is over
    client_frame: int = MAX_CLIENT
    router_frame: int = MAX_ROUTER
    high_water: int = 512 * KIB  # written and not yet sent; beyond that an owner sends no more
    ping: int = SECOND  # between signs of life
    silence: int = 10 * SECOND  # without anything received, or without progress in sending
    greeting: int = 5 * SECOND  # within which the greeting must arrive
    redial: tuple[int, int] = (50 * MILLISECOND, SECOND)  # doubles from the first to the second
    connections: int = 10_000
    ungreeted: int = 1_000  # connections that have not said who they are
    denial: int = SECOND  # until a connection with a wrong token hears that it is denied
    # Events and predicates
    event_bytes: int = 256 * KIB
    predicate_length: int = MAX_PREDICATE  # characters
    short_predicate: int = 64  # characters; longer ones are parsed off the event loop
    # What all clients of a router have together; each application has its share, by its weight
    held: int = 4_000_000  # subscriptions
    held_bytes: int = 2_048 * MIB  # of their predicates
    waiting_bytes: int = 2_048 * MIB  # of deliveries that wait in sessions
    # Sessions
    sessions: int = 20_000  # of clients that are connected or may come back; shared as well
    subscriptions: int = 200_000  # of a session
    advertisements: int = 1_000  # of a session
    presumed: int = 3 * SECOND  # until a subscription counts as established, if nobody confirms it
    queued: int = 16_384  # deliveries that wait in a session
    queued_bytes: int = 16 * MIB
    open_bytes: int = MIB  # of deliveries sent and not yet taken
    delivery_ids: int = 65_536  # of subscriptions in one delivery
    delivery_batch: int = 256  # deliveries in a frame
    delivery_batch_bytes: int = 512 * KIB
    block: int = 10 * SECOND  # for which publishers wait for a client that takes nothing
    notice_bytes: int = 4 * MIB  # of notices that the client has not acknowledged
    requests: int = 1_024  # that a client may have unanswered
    credit: int = 8_192  # publications that a client may have unacknowledged
    credit_bytes: int = MIB
    stretch: int = 64  # publications that a router looks at together
    # Links
    lane: int = 64  # unprocessed events that every lane may have on a link
    lane_bytes: int = MIB
    lane_most: int = 4_096  # that one lane may have while there is room
    lane_most_bytes: int = 8 * MIB
    link: int = 8_192  # of all lanes, beyond which each has only what is its own
    link_bytes: int = 16 * MIB
    kept_bytes: int = 256 * MIB  # of unacknowledged packets; beyond that the link is lost
    packet_batch: int = 512  # packets in a frame
    packet_batch_bytes: int = 512 * KIB
    # Queries
    queries: int = 1_000  # open at a router
    findings_bytes: int = 512 * KIB  # of an answer to a client
    patience: int = 3 * SECOND  # for answers; less by `patience_step` at each further hop
    patience_step: int = 200 * MILLISECOND
    # Clients
    publish_batch: int = 512  # events in a frame
    publish_batch_bytes: int = 128 * KIB
    window: int = 32_768  # publications that a client keeps; beyond that the program waits
    window_bytes: int = 16 * MIB
    notices: int = 128  # that a client counts before it acknowledges them
    replies: int = 65_536  # that the program has not read
    closing: int = 5 * SECOND  # for the acknowledgements of what was published


LIMITS: Final = Limits()
