"""Any bytes, however they are split, give bodies and messages or one documented error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.routing.packets import Hello, Publication
from tidings.wire import messages as m
from tidings.wire.errors import CODES, WireError
from tidings.wire.frames import HEADER, Frames, frame

BOUND = 64

bodies = st.lists(st.binary(min_size=1, max_size=BOUND), max_size=6)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
events = st.dictionaries(st.text(max_size=8), values, max_size=4)
numbers = st.integers(0, 2**63 - 1)


def outcome(chunks: list[bytes]) -> tuple[list[bytes], str | None]:
    """The bodies in chunks of bytes, and the error that ends them."""
    frames = Frames(BOUND)
    found: list[bytes] = []
    try:
        for chunk in chunks:
            frames.feed(chunk)
            found.extend(frames)
    except WireError as error:
        return found, str(error)
    return found, None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Bytes in pieces."""
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    starts = [0, *ends[:-1]]
    return [data[start:end] for start, end in zip(starts, ends, strict=True)]


def code_of(body: bytes, conversation: str) -> str | None:
    """The code of the error that a body raises; None if it is a message."""
    try:
        m.decode(body, conversation)
    except WireError as error:
        return error.code
    return None


@given(bodies, st.lists(st.integers(0, 1_000), max_size=5))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    sent: list[bytes], places: list[int]
) -> None:
    data = b"".join(map(frame, sent))
    assert outcome(cut(data, places)) == (sent, None)
    assert outcome([data[i : i + 1] for i in range(len(data))]) == (sent, None)


@given(bodies, st.binary(max_size=40), st.lists(st.integers(0, 1_000), max_size=5))
def test_any_bytes_have_one_outcome_however_they_are_cut(
    sent: list[bytes], noise: bytes, places: list[int]
) -> None:
    data = b"".join(map(frame, sent)) + noise
    whole = outcome([data])
    assert outcome(cut(data, places)) == whole
    assert outcome([data[i : i + 1] for i in range(len(data))]) == whole
    assert whole[0][: len(sent)] == sent
    if whole[1] is not None:
        assert whole[1].partition(":")[0] in CODES


@given(bodies.filter(bool), st.data())
def test_a_changed_bit_is_found(sent: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(b"".join(map(frame, sent)))
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    found, _ = outcome([bytes(whole)])
    assert found == sent[: len(found)]
    assert len(found) < len(sent)


def test_nothing_is_kept_of_a_frame_that_is_too_long() -> None:
    frames = Frames(BOUND)
    frames.feed((BOUND + 1).to_bytes(4, "big") + bytes(HEADER - 4) + bytes(10_000))
    for _ in range(2):
        with pytest.raises(WireError, match="too-long: 65 bytes, the bound is 64"):
            next(frames)
    frames.feed(bytes(10_000))
    assert frames.held == 0


@given(st.binary(max_size=64), st.sampled_from(m.CONVERSATIONS))
def test_any_body_is_a_message_or_malformed(body: bytes, conversation: str) -> None:
    assert code_of(body, conversation) in (None, "malformed")


@given(st.integers(1, 60), st.lists(values, max_size=7), st.sampled_from(m.CONVERSATIONS))
def test_any_array_is_a_message_or_malformed(tag: int, rest: list[Any], conversation: str) -> None:
    body = msgspec.msgpack.encode([tag, *rest])
    assert code_of(body, conversation) in (None, "malformed")


@given(numbers, st.integers(0, 2), st.lists(events, max_size=3))
def test_publications_survive_the_wire(first: int, level: int, given_events: list[Any]) -> None:
    sent = m.Publish(first, level, given_events)
    got = m.decode(m.encode(sent), "from client")
    assert repr(got) == repr(sent)  # NaN is not equal to itself


@given(numbers, st.text(max_size=8), numbers, events)
def test_packets_survive_the_wire(first: int, source: str, life: int, event: Any) -> None:
    sent = m.Carry(first, [Publication(source, life, first, event), Hello(life, 1, 2)], [0])
    assert repr(m.decode(m.encode(sent), "between")) == repr(sent)


def test_a_message_of_another_conversation_is_malformed() -> None:
    with pytest.raises(WireError, match="malformed"):
        m.decode(m.encode(m.Carry(1, [], [])), "from client")
    with pytest.raises(WireError, match="malformed"):
        m.decode(m.encode(m.Published(1)), "from client")


@pytest.mark.parametrize("depth", [50, 500, 5_000, 200_000])
def test_depth_is_bounded(depth: int) -> None:
    nested = b"\x94\x0a\x01\x00\x91\x81\xa1a" + b"\x91" * depth + b"\x01"
    assert code_of(nested, "from client") in (None, "malformed")
