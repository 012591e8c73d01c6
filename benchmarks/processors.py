"""What the processes of a Spark job have used of the processor: the JVMs and the Python workers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Used(NamedTuple):
    """Seconds of the processor."""

    all: float
    python: float  # of all but the JVMs


class Process(NamedTuple):
    """A process that this one has started, or that such a one has."""

    name: str
    seconds: float


def processes(more: tuple[int, ...] = ()) -> dict[int, Process]:
    """All processes below this one, and `more` with those below them, by their ids."""
    facts: dict[int, tuple[int, Process]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            head, _, tail = (folder / "stat").read_text().rpartition(")")
        except OSError:
            continue
        fields = tail.split()
        ticks = sum(map(int, fields[11:13]))
        one = Process(head.partition("(")[2], ticks / os.sysconf("SC_CLK_TCK"))
        facts[int(folder.name)] = int(fields[1]), one
    found = {process: facts[process][1] for process in more if process in facts}
    ours = {os.getpid(), *found}
    while ours:
        ours = {process for process, (parent, _) in facts.items() if parent in ours} - found.keys()
        found |= {process: facts[process][1] for process in ours}
    return found


def used_since(before: dict[int, Process], more: tuple[int, ...] = ()) -> Used:
    """What the processes have used since then; those that ended meanwhile were idle workers."""
    total = python = 0.0
    for process, (name, seconds) in processes(more).items():
        used = seconds - (before[process].seconds if process in before else 0.0)
        total += used
        python += 0.0 if name == "java" else used
    return Used(total, python)
