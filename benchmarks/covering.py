"""How long a change of one filter takes at a node that holds very many (S12).

    python -m benchmarks.covering [--load quotes|ranges] [--filters N] [--changes N]

A node with four links holds filters: on stock quotes, a symbol, and often a range of prices or a
volume, and some name an exchange only; or ranges of one number, of which none covers another. Then
filters come and go, one at a time, and each is told to the neighbours; so what a filter has hidden
is told when it goes. The time is processor time of `handle`, in microseconds. Before it is
measured, and after, what the node tells is compared with the definition: of all filters at a small
node, and of a sample of them at the large one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from random import Random

from tidings.language.filter import Filter
from tidings.language.poset import Known, above_by_definition
from tidings.routing.packets import Change, Hello, Record, Records, Standing
from tidings.routing.protocol import SECOND, Action, LinkUp, Received, Send, Woken
from tidings.routing.reverse_path.filters import filter_of
from tidings.routing.reverse_path.knobs import Covering
from tidings.routing.reverse_path.router import ReversePathRouter

LINKS = ("b", "c", "d", "e")
SMALL = 400  # filters of which all are compared with all
SAMPLE = 12  # filters of the large node that are compared with all
MOST_TOLD = 1 << 20  # so that no link is told `true` in the place of very many


class Blind:
    """In place of a matcher: no event is published, so nothing is matched."""

    def add(self, id: str, predicate: object) -> None:
        """Hold nothing."""

    def remove(self, id: str) -> None:
        """Hold nothing."""


def some_range(chance: Random) -> str:
    """A range of one number, as wide as all others."""
    low = chance.randrange(1_000_000)
    return f"price >= {low} and price < {low + 1_000}"


def quote(chance: Random) -> str:
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


Load = Callable[[Random], str]
LOADS: dict[str, Load] = {"quotes": quote, "ranges": some_range}


class Node:
    """The node, and neighbours that say yes to everything."""

    def __init__(self) -> None:
        self.router = ReversePathRouter("a", matcher=Blind, options=Covering(most_told=MOST_TOLD))
        self.now = 0
        self.numbers = dict.fromkeys(LINKS, 0)
        for place, name in enumerate(LINKS, 2):
            self.router.handle(LinkUp(name, 1), self.now)
            self.receive(name, Hello(place, 1, 0))
            record = Record(name, place, 1, 0, (("a", 1),))
            self.receive(name, Records((record,)))
        for _ in range(16):  # until its links have been the same for a while
            self.now += SECOND // 8
            for place, name in enumerate(LINKS, 2):
                self.receive(name, Hello(place, 1, 0))
            self.answer(self.router.handle(Woken(), self.now))
        assert set(self.router.tables.links) == set(LINKS)
        assert not self.router.spanning.is_moving

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


def fill(node: Node, filters: int, chance: Random, draw: Load) -> list[tuple[str, str]]:
    """Let neighbours tell so many filters; returns who wants which."""
    held: list[tuple[str, str]] = []
    for name in LINKS:
        mine = list({draw(chance): None for _ in range(filters // len(LINKS))})
        held += [(name, text) for text in mine]
        for start in range(0, len(mine), 2_000):
            node.change(name, tuple(mine[start : start + 2_000]), ())
    return held


def alter(node: Node, held: list[tuple[str, str]], chance: Random, draw: Load) -> float:
    """One filter goes or comes; returns the seconds that it took."""
    if chance.random() < 0.5:
        name, text = held.pop(chance.randrange(len(held)))
        return node.change(name, (), (text,))
    name, text = chance.choice(LINKS), draw(chance)
    while name in node.router.wanted.who.get(text, ()):
        text = draw(chance)
    held.append((name, text))
    return node.change(name, (text,), ())


def check(node: Node, sample: list[str]) -> None:
    """Compare what the node tells of some filters with the definition of covering."""
    wanted, links = node.router.wanted, node.router.tables.links
    everything = [Known(filter_of_text(text), text) for text in wanted.who]
    for one in [known for known in everything if known.text in set(sample)]:
        above = above_by_definition(everything, one)
        for name in LINKS:
            hidden = any(wanted.besides(other.text, name) for other in above)
            told = wanted.besides(one.text, name) and not hidden
            assert (one.text in links[name].told) == told, (one.text, name)


def filter_of_text(text: str) -> Filter:
    """The filter that a text writes."""
    found = filter_of(text)
    assert found is not None
    return found


def measure(load: str, filters: int, changes: int, seed: int = 1) -> dict[str, float | int]:
    """The figures of one run."""
    small, chance, draw = Node(), Random(seed), LOADS[load]
    held = fill(small, SMALL, chance, draw)
    for _ in range(SMALL):
        alter(small, held, chance, draw)
    check(small, list(small.router.wanted.who))

    node = Node()
    begin = time.process_time()
    held = fill(node, filters, chance, draw)
    filling = time.process_time() - begin
    check(node, chance.sample(sorted(node.router.wanted.who), SAMPLE))
    took: list[float] = []
    told: list[int] = []
    for _ in range(changes):
        before = sum(len(link.told) for link in node.router.tables.links.values())
        took.append(alter(node, held, chance, draw))
        after = sum(len(link.told) for link in node.router.tables.links.values())
        told.append(abs(after - before))
    check(node, chance.sample(sorted(node.router.wanted.who), SAMPLE))
    took.sort()
    return {
        "filters": len(node.router.wanted.who),
        "told_a_link": len(node.router.tables.links["b"].told),
        "filling_s": round(filling, 1),
        "changes": changes,
        "p50_us": round(took[len(took) // 2] * 1e6),
        "p99_us": round(took[len(took) * 99 // 100] * 1e6),
        "max_us": round(took[-1] * 1e6),
        "largest_burst": max(told),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="The time of a change under covering.")
    parser.add_argument("--load", choices=LOADS, default="quotes")
    parser.add_argument("--filters", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=2_000)
    given = parser.parse_args()
    asked = f"--load {given.load} --filters {given.filters} --changes {given.changes}"
    found = measure(given.load, given.filters, given.changes)
    print(json.dumps({"command": f"python -m benchmarks.covering {asked}", **found}, indent=2))


if __name__ == "__main__":
    main()
