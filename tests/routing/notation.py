"""How scenarios write things: links, drawings, durations and events in; packets and states out."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, Final, get_args

from tidings.routing.packets import (
    Advertisement,
    Audit,
    Change,
    Climb,
    Hello,
    Packet,
    Publication,
    Receipt,
    Records,
    Reminder,
    Reply,
    Request,
    Standing,
    Summary,
    Switch,
    Switched,
)
from tidings.routing.planes.interests import NOTHING
from tidings.routing.protocol import MILLISECOND, SECOND

KINDS: Final = [kind.__name__ for kind in get_args(Packet)]
UNITS_NS: Final = {"ms": MILLISECOND, "s": SECOND}

Links = dict[tuple[str, str], int]


# What stands in commands


def fields(text: str, pattern: str, form: str) -> list[str]:
    """The parts of a text that has this form."""
    found = re.fullmatch(pattern, text)
    if found is None:
        raise ValueError(f"expected {form}, found {text!r}")
    return [part or "" for part in found.groups()]


def nanoseconds(text: str) -> int:
    """A duration such as 500ms or 3s."""
    count, unit = fields(text, r"(\d+)(ms|s)", "a duration such as 500ms")
    return int(count) * UNITS_NS[unit]


def kinds(text: str) -> list[str]:
    """Kinds of packets, checked."""
    for kind in text.split():
        if kind not in KINDS:
            raise ValueError(f"unknown packet {kind!r}; there are {', '.join(KINDS)}")
    return text.split()


def event_of(text: str) -> dict[str, Any]:
    """An event: JSON in which names need no quotes."""
    event: dict[str, Any] = json.loads(re.sub(r"(?<=[{ ,])(\w+)(?=:)", r'"\1"', text))
    return event


def links_listed(words: list[str]) -> Links:
    """The links that words list: `line a b c`, `ring a b c`, `links a-b b-c:2`."""
    match words:
        case ["line", *names]:
            return dict.fromkeys(pairwise(names), 1)
        case ["ring", *names]:
            return dict.fromkeys(pairwise([*names, names[0]]), 1)
        case ["links", *ends]:
            found: Links = {}
            for text in ends:
                one, other, cost = fields(text, r"(\w+)-(\w+)(?::(\d+))?", "a link such as a-b:2")
                found[one, other] = int(cost or 1)
            return found
        case _:
            raise ValueError("expected line, ring or links, or a drawing below the command")


def links_drawn(drawing: list[str]) -> Links:
    """The links of a drawing: dashes across, bars and slashes down, a number for a cost."""
    node_at: dict[tuple[int, int], str] = {}
    found: Links = {}
    for row, line in enumerate(drawing):
        words = list(re.finditer(r"[A-Za-z]\w*", line))
        for word in words:
            node_at |= {(row, column): word[0] for column in range(*word.span())}
        for one, other in pairwise(words):
            across = re.fullmatch(r" *-+(\d*)-+ *", line[one.end() : other.start()])
            if across:
                found[one[0], other[0]] = int(across[1] or 1)
    for (row, column), name in node_at.items():
        for mark, step in (("|", 0), ("/", -1), ("\\", 1)):
            path = ""
            here = row + 1, column + step
            while (sign := _at(drawing, *here)) == mark or sign.isdigit():
                path += sign
                here = here[0] + 1, here[1] + step
            if mark in path and here in node_at:
                found[name, node_at[here]] = int(path.replace(mark, "") or 1)
    return found


def _at(drawing: list[str], row: int, column: int) -> str:
    line = drawing[row] if row < len(drawing) else ""
    return line[column] if 0 <= column < len(line) else " "


# What stands in transcripts


def packet_text(packet: Packet) -> str:
    """A packet in short."""
    kind = type(packet).__name__
    match packet:
        case Hello(_, heard, _):
            return f"{kind}, hearing {'you' if heard else 'nobody'}"
        case Records(records):
            return f"{kind}: " + "; ".join(
                f"{r.origin}#{r.number} with "
                + (" ".join(name + cost_text(cost) for name, cost in r.links) or "no links")
                for r in records
            )
        case Summary(known):
            numbers = " ".join(f"{origin}#{number}" for origin, number, _ in known)
            return f"{kind}: {numbers or 'nothing'}"
        case Advertisement(issuer, _, number, _, predicate) | Reply(issuer, number, predicate):
            said = "nothing" if predicate == NOTHING else predicate
            return f"{kind} {issuer}#{number}: {said}"
        case (
            Receipt(issuer, number)
            | Request(issuer, _, number, _)
            | Switch(issuer, _, number, _)
            | Switched(issuer, number)
        ):
            return f"{kind} {issuer}#{number}"
        case Publication(source, _, number, event):
            return f"{kind} {source}#{number} {event_text(event)}"
        case Change():
            return f"{kind} {packet.number}: {change_text(packet)}"
        case Standing():
            return f"{kind}: taken {packet.taken}, settled {packet.settled}"
        case Reminder() | Audit():
            return kind
        case Climb(publication):
            return f"{kind} {packet_text(publication)}"
        case _:
            raise TypeError(f"no packet: {packet!r}")


def event_text(event: dict[str, Any]) -> str:
    """An event as it is written in commands."""
    return "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in event.items()) + "}"


def cost_text(cost: int) -> str:
    """What follows the name of a link."""
    return "" if cost == 1 else f":{cost}"


def shown(value: Any) -> str:
    """A value of a snapshot."""
    match value:
        case dict():
            return (
                "{" + ", ".join(f"{name or 'here'}: {shown(v)}" for name, v in value.items()) + "}"
            )
        case list():
            return "[" + ", ".join(map(shown, value)) + "]"
        case True | False:
            return "yes" if value else "no"
        case _:
            return str(value)


def change_text(change: Change) -> str:
    """What a change adds and removes."""
    wanted = [*change.added, *(f"not {text}" for text in change.removed)]
    advertised = [f"advertised {text}" for text in change.advertised]
    said = [*wanted, *advertised, *(f"withdrawn {text}" for text in change.withdrawn)]
    return "; ".join(said) or "nothing"
