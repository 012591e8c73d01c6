"""`tidings publish` and `tidings subscribe`: JSON lines into the network and out of it."""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tidings.cli.terminal import complain, complain_of_predicate, write
from tidings.cli.terminal import count as count_of

if TYPE_CHECKING:
    from tidings.live.client import Client
    from tidings.live.client_core import Change

URL = "tidings://127.0.0.1:7471"
CONNECT_S = 3.0  # within which a router must answer
Url = Annotated[str, typer.Option("--url", help="The router, tidings://HOST:PORT.")]
Token = Annotated[Path | None, typer.Option("--token-file", help="A file that holds a token.")]
Authority = Annotated[
    Path | None, typer.Option("--authority", help="Certificates that tidings+tls:// trusts.")
]
Application = Annotated[
    str, typer.Option("--application", help="One of the applications that share the network.")
]


def publish(
    event: Annotated[
        list[str] | None,
        typer.Argument(help="Events as JSON; without any, the lines of standard input."),
    ] = None,
    url: Url = URL,
    level: Annotated[
        str, typer.Option(help="What to wait for: received, routed or delivered.")
    ] = "received",
    advertise: Annotated[
        list[str] | None,
        typer.Option(help="A predicate that the events match; wait until it is in force."),
    ] = None,
    replies: Annotated[
        float, typer.Option(min=0, help="Then write the replies that come within these seconds.")
    ] = 0.0,
    application: Application = "",
    token_file: Token = None,
    authority: Authority = None,
) -> int:
    """Publish events, one JSON object a line.

    With --advertise, repeatable, the router refuses an event that matches none of the predicates.

    Exits with 0, 1 if an event or a predicate is bad or was not accepted, 2 if there is no router.

    \b
    Examples:
      tidings publish '{"class": "alert", "severity": 3}'
      tail -f events.jsonl | tidings publish --advertise "class = 'alert'"
      tidings publish '{"class": "order", "number": 7}' --replies 2
    """
    access = Access(url, application, token_file, authority)
    return on_network("publish", _publish(event, access, level, advertise or [], replies))


async def _publish(
    given: list[str] | None, access: Access, level: str, advertised: list[str], replies_s: float
) -> int:
    from tidings.language.errors import EventError, PredicateError
    from tidings.language.event import read
    from tidings.language.explanation import printable
    from tidings.language.predicate import parse
    from tidings.live.connect import connect
    from tidings.live.errors import NetworkError

    bad = 0
    try:
        predicates = list(map(parse, advertised))
    except PredicateError as error:
        complain_of_predicate("tidings publish", error)
        return 1
    async with connect(access.url, **access.options()) as net:
        for predicate in predicates:
            await net.advertise(predicate)
        waiting: set[asyncio.Task[str | None]] = set()

        async def one(number: int, content: Any) -> str | None:
            try:
                await net.publish(content, level)
            except NetworkError as error:
                return f"event {number}: {error}"
            return None

        number = 0
        async for line in _lines(given):
            if not line.strip():
                continue
            number += 1
            try:
                content = dict(read(line))
            except EventError as error:
                bad += 1
                complain(f"tidings publish: event {number}: {printable(str(error))}")
                continue
            waiting.add(asyncio.ensure_future(one(number, content)))
            if len(waiting) >= 1_024:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                bad += _report(done)
        if waiting:
            done, _ = await asyncio.wait(waiting)
            bad += _report(done)
        await _write_replies(net, replies_s)
    return 1 if bad else 0


async def _write_replies(net: Client, seconds: float) -> None:
    """Write the replies to what was published, as they come."""
    try:
        async with asyncio.timeout(seconds):
            while seconds:
                number, reply = await net.replies.get()
                write(json.dumps({"event": number, "reply": reply}, default=_encoded))
                sys.stdout.flush()
    except TimeoutError:
        pass


def _report(done: set[asyncio.Task[str | None]]) -> int:
    from tidings.language.explanation import printable

    problems = [problem for task in done if (problem := task.result()) is not None]
    for problem in problems:
        complain(f"tidings publish: {printable(problem)}")
    return len(problems)


async def _lines(given: list[str] | None) -> AsyncIterator[str]:
    """The events to publish, as they arrive."""
    if given:
        for line in given:
            yield line
        return
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        yield line


def subscribe(
    predicate: Annotated[str, typer.Argument(help="The predicate, such as: severity > 2")],
    url: Url = URL,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many events.")] = None,
    policy: Annotated[
        str, typer.Option(help="When the reader is too slow: block, drop or disconnect.")
    ] = "block",
    reply: Annotated[
        str | None, typer.Option(help="Reply to the publisher of each event with this JSON object.")
    ] = None,
    application: Application = "",
    token_file: Token = None,
    authority: Authority = None,
) -> int:
    """Write the events that match, one JSON object a line, until interrupted.

    Writes the subscription's name to standard error as soon as the network knows it.

    Exits with 0 after --count events, 1 if the predicate or the reply is bad, 2 if there is no
    router.

    \b
    Examples:
      tidings subscribe "severity > 2"
      tidings subscribe "class = 'order'" --reply '{"seen": true}'
      tidings subscribe "class = 'alert'" --count 10
    """
    access = Access(url, application, token_file, authority)
    return on_network("subscribe", _subscribe(predicate, access, count, policy, reply))


async def _subscribe(
    predicate: str, access: Access, count: int | None, policy: str, reply: str | None
) -> int:
    from tidings.language.errors import EventError, PredicateError
    from tidings.language.event import read
    from tidings.language.explanation import printable
    from tidings.language.predicate import parse
    from tidings.live.connect import connect

    try:
        parse(predicate)
    except PredicateError as error:
        complain_of_predicate("tidings subscribe", error)
        return 1
    try:
        answer = None if reply is None else dict(read(reply))
    except EventError as error:
        complain(f"tidings subscribe: --reply: {printable(str(error))}")
        return 1
    async with connect(
        access.url, policy=policy, on_change=_tell_change, **access.options()
    ) as net:
        subscription = await net.subscribe(predicate)
        complain(f"subscribed: {printable(subscription.name)}")
        sys.stderr.flush()
        dropped = taken = 0
        async for event in subscription:
            write(json.dumps(event, default=_encoded))
            sys.stdout.flush()
            taken += 1
            if answer is not None:
                await net.feedback(event, answer)
            while not net.unanswered.empty():
                number, reason = net.unanswered.get_nowait()
                complain(f"tidings subscribe: reply {number}: {printable(reason)}")
            if net.dropped > dropped:
                dropped = net.dropped
                complain(f"tidings subscribe: {count_of(dropped, 'event')} dropped so far")
            if count is not None and taken >= count:
                break
    return 0


def _tell_change(change: Change) -> None:
    from tidings.language.explanation import printable

    if change.kind != "connected":
        complain(f"tidings subscribe: {change.kind}: {printable(change.detail)}")


def _encoded(raw: bytes) -> str:
    """Bytes, for which JSON has no type, as Base64."""
    return b64encode(raw).decode()


class Access(NamedTuple):
    """Where a command connects, and as whom."""

    url: str
    application: str
    token_file: Path | None
    authority: Path | None

    def options(self) -> dict[str, Any]:
        """What `connect` takes besides the address."""
        path = self.token_file
        token = "" if path is None else path.read_text(encoding="utf-8").strip()
        return {
            "token": token,
            "authority": self.authority,
            "timeout_s": CONNECT_S,
            "application": self.application,
        }


def on_network(command: str, work: Coroutine[Any, Any, int]) -> int:
    """Run a command's work and return its exit code, 2 where the network cannot do it."""
    from tidings.language.explanation import printable
    from tidings.live.access import ConfigurationError
    from tidings.live.errors import NetworkError, TimedOutError
    from tidings.live.serving import run

    try:
        code: int = run(work)
    except (NetworkError, ConfigurationError, ValueError, OSError) as error:
        hint = ""
        if isinstance(error, TimedOutError):
            hint = " (is there a router? tidings serve starts one)"
        first, *more = str(error).splitlines() or [type(error).__name__]
        complain(f"tidings {command}: {printable(first)}{hint}")
        for line in more:
            complain(printable(line))
        return 2
    return code
