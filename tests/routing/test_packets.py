"""Packets as bytes."""

import msgspec

from tidings.routing.packets import Hello, Packet, Publication, Record, Records, Summary


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
