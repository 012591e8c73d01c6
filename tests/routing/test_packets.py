"""Packets as bytes."""

from typing import Any

import msgspec

from tidings.routing.packets import (
    Consignment,
    Hello,
    Lane,
    Listed,
    Packet,
    Publication,
    Record,
    Records,
    Sealed,
    Spread,
    Stored,
    Summary,
    Walk,
    Walked,
    application_of,
    lane_of,
)


def test_packets_travel_as_short_arrays() -> None:
    record = Record("a", 1, 2, 3, (("b", 4),))
    packets: list[Packet] = [
        Hello(1, 2, 3),
        Records((record,)),
        Summary((("a", 2, 1),)),
        Publication("a", 1, 1, {"price": 3, "tags": ["x", None, {"deep": 1.5}]}),
    ]
    for packet in packets:
        data = msgspec.msgpack.encode(packet)
        assert msgspec.msgpack.decode(data, type=Packet) == packet
    assert len(msgspec.msgpack.encode(Hello(1, 1, 1))) == 5


def test_each_leg_of_an_event_has_a_lane_of_its_own() -> None:
    """So that no two lanes wait for each other in a circle, and applications never do."""
    event = Publication("a", 1, 1, {})
    stops = (("b", ()), ("c", ()))

    def listed(inner: Any, root: str = "a", topology: int = 5, turns: int = 0) -> Lane | None:
        return lane_of(Listed(("z",), topology, turns, inner, root))

    walk = Walk("x", "a", 1, 1, 0, 1, stops, event, b"", ())
    lanes = [
        listed(walk),
        listed(walk, root="b"),
        listed(walk, topology=6),
        listed(walk, turns=1),
        listed(msgspec.structs.replace(walk, stops=stops[1:])),
        listed(msgspec.structs.replace(walk, application="y")),
        listed(Consignment("x", event)),
        listed(Consignment("y", b"sealed")),
        lane_of(event),
    ]
    assert None not in lanes
    assert len(set(lanes)) == len(lanes)
    assert listed(Sealed("x", b"", 2)) == listed(walk)
    for control in (Sealed("x", b""), Walked("x", 1, 1, 0, 1, ()), Stored("x", "a", 1, 1, True)):
        assert listed(control) is None
    spread = Spread("x", "a", 1, 1, 5, False, b"sealed")
    assert lane_of(spread) == lane_of(msgspec.structs.replace(spread, number=2))
    assert application_of(spread) == application_of(Listed((), 0, 0, walk)) == "x"
    assert application_of(event) == ""
