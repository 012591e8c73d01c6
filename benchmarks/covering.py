"""How long a change of one filter takes at a node that holds very many (S12).

    python -m benchmarks.covering [--filters N] [--changes N]

A node with four links holds filters on stock quotes: a symbol, and often a range of prices or a
volume; some name an exchange only. Then filters come and go, one at a time, and each is told to the
neighbours. The time is processor time of `handle`, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import time
from random import Random

from tidings.routing.packets import Change, Hello, Record, Records, Standing
from tidings.routing.protocol import SECOND, Action, LinkUp, Received, Send, Woken
from tidings.routing.reverse_path.knobs import Covering
from tidings.routing.reverse_path.router import ReversePathRouter

LINKS = ("b", "c", "d", "e")


class Blind:
    """In place of a matcher: no event is published, so nothing is matched."""

    def add(self, id: str, predicate: object) -> None:
        """Hold nothing."""

    def remove(self, id: str) -> None:
        """Hold nothing."""


def filter_text(chance: Random) -> str:
    """A filter on stock quotes."""
    draw = chance.random()
    if draw < 0.002:
        return f"exchange = 'X{chance.randrange(20)}'"
    text = f"symbol = 'S{int(chance.paretovariate(0.7)) % 4_000}'"
    if draw < 0.05:
        return text
    if draw < 0.7:
        low = chance.randrange(1, 500)
        text += f" and price >= {low} and price < {low + chance.randrange(1, 300)}"
    if draw > 0.5:
        text += f" and volume > {chance.randrange(1, 200) * 100}"
    return text


class Node:
    """The node, and neighbours that say yes to everything."""

    def __init__(self) -> None:
        self.router = ReversePathRouter("a", matcher=Blind, options=Covering())
        self.now = 0
        self.numbers = dict.fromkeys(LINKS, 0)
        for place, name in enumerate(LINKS, 2):
            self.router.handle(LinkUp(name, 1), self.now)
            self.receive(name, Hello(place, 1, 0))
            record = Record(name, place, 1, 0, (("a", 1),))
            self.receive(name, Records((record,)))
        for _ in range(8):
            self.now += SECOND // 8
            self.answer(self.router.handle(Woken(), self.now))
        assert set(self.router.tables.links) == set(LINKS)

    def receive(self, name: str, packet: object) -> float:
        """Let a packet come; returns the seconds that it took."""
        cause = Received(name, packet)  # type: ignore[arg-type]
        begin = time.process_time()
        out = self.router.handle(cause, self.now)
        took = time.process_time() - begin
        self.answer(out)
        return took

    def answer(self, out: list[Action]) -> None:
        """Take and settle what the node tells."""
        for action in out:
            if isinstance(action, Send) and isinstance(action.packet, Change):
                change, name = action.packet, action.neighbour
                number = self.numbers[name]
                how_far = change.number, change.number, 1 if number else 0, number
                self.router.handle(
                    Received(name, Standing(1, change.session, *how_far, 0)), self.now
                )

    def change(self, name: str, added: tuple[str, ...], removed: tuple[str, ...]) -> float:
        """A neighbour tells a change."""
        self.numbers[name] += 1
        life = LINKS.index(name) + 2
        numbers = 1, 1, self.numbers[name], self.router.tables.links[name].session, 0
        return self.receive(name, Change(life, *numbers, False, added, removed, (), ()))


def measure(filters: int, changes: int, seed: int = 1) -> dict[str, float | int]:
    """The figures of one run."""
    chance = Random(seed)
    node = Node()
    held: list[tuple[str, str]] = []
    begin = time.process_time()
    for name in LINKS:
        mine = list({filter_text(chance): None for _ in range(filters // len(LINKS))})
        held += [(name, text) for text in mine]
        for start in range(0, len(mine), 2_000):
            node.change(name, tuple(mine[start : start + 2_000]), ())
    filling = time.process_time() - begin
    took: list[float] = []
    told: list[int] = []
    for _ in range(changes):
        before = sum(len(link.told) for link in node.router.tables.links.values())
        if chance.random() < 0.5:
            name, text = held.pop(chance.randrange(len(held)))
            took.append(node.change(name, (), (text,)))
        else:
            name, text = chance.choice(LINKS), filter_text(chance)
            held.append((name, text))
            took.append(node.change(name, (text,), ()))
        after = sum(len(link.told) for link in node.router.tables.links.values())
        told.append(abs(after - before))
    took.sort()
    return {
        "filters": len(node.router.wanted.who),
        "told_a_link": len(node.router.tables.links["b"].told),
        "filling_s": round(filling, 1),
        "p50_us": round(took[len(took) // 2] * 1e6),
        "p99_us": round(took[len(took) * 99 // 100] * 1e6),
        "max_us": round(took[-1] * 1e6),
        "largest_burst": max(told),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="The time of a change under covering.")
    parser.add_argument("--filters", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=2_000)
    given = parser.parse_args()
    print(json.dumps(measure(given.filters, given.changes), indent=2))


if __name__ == "__main__":
    main()
