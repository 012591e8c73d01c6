"""Simulated streams: bytes arrive in order or not at all, and ends learn what they would."""

from random import Random

import pytest

from tidings.routing.protocol import MILLISECOND, SECOND
from tidings.sim.network import Endless
from tidings.sim.streams import Agenda, End, Process, Quality, Wire


class Reader:
    """A stream that keeps what it reads."""

    def __init__(self, end: End) -> None:
        self.end = end
        self.data = b""
        self.ends: list[Exception | None] = []
        self.chokes = 0
        self.unchokes = 0
        self.unsent = b""
        end.stream = self

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self, error: Exception | None) -> None:
        self.ends.append(error)

    def choke(self) -> None:
        self.chokes += 1

    def unchoke(self) -> None:
        self.unchokes += 1

    def flush(self) -> None:
        data, self.unsent = self.unsent, b""
        self.end.write(data)

    def send(self, data: bytes) -> None:
        self.unsent += data
        self.end.schedule()


class Place:
    """Two processes with one wire between them."""

    def __init__(self, seed: int = 1, quality: Quality | None = None) -> None:
        self.agenda = Agenda(most_steps=100_000)
        self.processes = Process("a"), Process("b")
        quality = quality or Quality(room=100, piece=7, ns_per_byte=1_000)
        self.closed: list[Wire] = []
        chance = Random(seed)
        self.wire = Wire(
            self.agenda, chance, self.processes, ("a", "b"), (quality, quality), self.closed.append
        )
        self.a, self.b = Reader(self.wire.dialler), Reader(self.wire.acceptor)

    def run(self, lasts: int = SECOND) -> None:
        self.agenda.run(self.agenda.now + lasts)


DATA = bytes(Random(1).randbytes(3_000))


def test_bytes_arrive_in_order_however_they_are_split() -> None:
    traces = set()
    for seed in range(10):
        place = Place(seed)
        place.a.send(DATA)
        place.b.send(DATA[::-1])
        place.run()
        assert (place.b.data, place.a.data) == (DATA, DATA[::-1])
        traces.add(place.agenda.trace)
    assert len(traces) == 10
    again = Place(9)
    again.a.send(DATA)
    again.b.send(DATA[::-1])
    again.run()
    assert again.agenda.trace in traces


def test_what_is_not_read_fills_the_line_and_then_chokes_the_sender() -> None:
    place = Place()
    place.wire.dialler.high_water = 200
    place.wire.acceptor.pause()
    place.a.send(DATA)
    place.run()
    assert place.b.data == b""
    assert (place.a.chokes, place.a.unchokes) == (1, 0)
    assert place.wire.dialler.waiting() == len(DATA) - 100
    place.wire.acceptor.resume()
    place.run()
    assert place.b.data == DATA
    assert (place.a.unchokes, place.wire.dialler.waiting()) == (1, 0)


def test_closing_delivers_everything_first_and_aborting_nothing_that_waits() -> None:
    place = Place()
    place.a.send(DATA)
    place.run(0)
    place.wire.dialler.close()
    place.run()
    assert place.b.data == DATA
    assert (place.a.ends, place.b.ends) == ([None], [None])
    assert place.closed
    place = Place()
    place.a.send(DATA)
    place.run(2 * MILLISECOND)
    place.wire.dialler.abort()
    place.run()
    assert DATA.startswith(place.b.data)
    assert len(place.b.data) < len(DATA)
    assert place.a.ends == [None]
    assert isinstance(place.b.ends[0], ConnectionResetError)


@pytest.mark.parametrize("lose", [False, True])
def test_a_break_tells_both_ends(lose: bool) -> None:
    place = Place()
    place.a.send(DATA)
    place.run(2 * MILLISECOND)
    before = len(place.b.data)
    place.wire.cut(lose)
    place.run()
    assert DATA.startswith(place.b.data)
    assert (len(place.b.data) > before) == (not lose)
    assert len(place.a.ends) == len(place.b.ends) == 1
    assert place.closed


def test_a_held_line_carries_nothing_until_it_is_released() -> None:
    place = Place()
    release = place.wire.hold(there=True, back=False)
    place.a.send(DATA)
    place.b.send(DATA)
    place.run()
    assert (place.b.data, place.a.data) == (b"", DATA)
    release()
    place.run()
    assert place.b.data == DATA


def test_a_paused_process_reads_when_it_goes_on() -> None:
    place = Place()
    place.processes[1].pause()
    place.a.send(DATA)
    place.run()
    assert place.b.data == b""
    place.processes[1].go_on()
    place.run()
    assert place.b.data == DATA


@pytest.mark.parametrize("silently", [False, True])
def test_who_dies_silently_leaves_the_other_end_half_open(silently: bool) -> None:
    place = Place()
    place.processes[1].end()
    place.wire.kill(place.wire.acceptor, silently)
    place.a.send(DATA)
    place.run()
    assert len(place.a.ends) == (0 if silently else 1)
    assert place.b.data == b""


def test_more_steps_than_allowed_are_endless() -> None:
    agenda = Agenda(most_steps=50)

    def again() -> None:
        agenda.soon(again)

    again()
    with pytest.raises(Endless):
        agenda.run(1)
