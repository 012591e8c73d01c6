"""Races: threads match single events and batches while others add and remove, and merges run.

`make native-race` runs `python -m tests.matching.racing SECONDS` with native modules that the
thread sanitizer watches; a race ends it with an error. An event satisfies a thousand subscriptions.
Each is removed only when its successor is there, so at every moment a thousand are found.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from tidings.language.predicate import parse
from tidings.matching.table import Table

HELD: Final = 1_000
KINDS: Final = [
    parse(text)
    for text in (
        "a = 1",
        "a > 0 and b prefix 'x'",
        "a between 0 and 2 and c between 5 and 9",
        "b suffix 'z' or a < 0",
        "b like 'x%z' and not exists d",
    )
]
EVENT: Final = {"a": 1, "b": "xyz", "c": 7}


def race(seconds: float) -> str:
    """Run for a while; raises if an answer is wrong, and says how often each thread went round."""
    table = Table((number, KINDS[number % len(KINDS)]) for number in range(HELD))
    batch = pa.Table.from_pylist([EVENT] * 8)
    done = threading.Event()

    def change(first: int) -> int:
        number = first
        while not done.is_set():
            table.add(number, KINDS[number % len(KINDS)])
            table.remove(number - HELD)
            number += 2
        return (number - first) // 2

    def single() -> int:
        rounds = 0
        while not done.is_set():
            assert HELD <= len(table.match(EVENT)) <= HELD + 2
            rounds += 1
        return rounds

    def batched() -> int:
        rounds = 0
        while not done.is_set():
            found = table.match_batch(batch).num_rows
            assert 8 * HELD <= found <= 8 * (HELD + 2), found
            rounds += 1
        return rounds

    with ThreadPoolExecutor(4) as pool:
        running: dict[str, Future[int]] = {
            "updates": pool.submit(change, HELD),
            "more updates": pool.submit(change, HELD + 1),
            "events": pool.submit(single),
            "batches": pool.submit(batched),
        }
        end = time.monotonic() + seconds
        while time.monotonic() < end and not any(future.done() for future in running.values()):
            time.sleep(0.05)
        done.set()
    return ", ".join(f"{future.result():,} {name}" for name, future in running.items())


if __name__ == "__main__":
    print(race(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0))
