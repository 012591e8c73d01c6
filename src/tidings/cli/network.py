"""`tidings trace`, `tidings why` and `tidings status`: what the network would do, and does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.publish import URL, Authority, Token, Url, on_network, token_of
from tidings.cli.terminal import colour, complain, write

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON object.")]


def trace(
    event: Annotated[str, typer.Argument(help="The event, as JSON.")],
    url: Url = URL,
    as_json: AsJson = False,
    token_file: Token = None,
    authority: Authority = None,
) -> int:
    """Show which links an event would take if it were published at this router, and why.

    Nothing is delivered. Exits with 0 if somebody would get the event, 1 if nobody would or the
    event is bad, 2 if there is no router.

    \b
    Example:
      tidings trace '{"class": "alert", "severity": 3}'
    """
    return on_network("trace", _ask("trace", event, "", url, as_json, token_file, authority))


def why(
    subscription: Annotated[str, typer.Argument(help="Its name, ROUTER/NUMBER.")],
    event: Annotated[str, typer.Argument(help="The event, as JSON.")],
    url: Url = URL,
    as_json: AsJson = False,
    token_file: Token = None,
    authority: Authority = None,
) -> int:
    """Tell why a subscription does or does not get an event that is published at this router.

    Exits with 0 if it does, 1 if it does not or the event is bad, 2 if there is no router.

    \b
    Example:
      tidings why b/1 '{"class": "alert", "severity": 3}'
    """
    return on_network("why", _ask("why", event, subscription, url, as_json, token_file, authority))


def status(
    url: Url = URL,
    as_json: AsJson = False,
    token_file: Token = None,
    authority: Authority = None,
) -> int:
    """Show the routers of the network, their links, and what has happened.

    \b
    Example:
      tidings status
    """
    return on_network("status", _ask("status", "{}", "", url, as_json, token_file, authority))


async def _ask(
    kind: str,
    text: str,
    subscription: str,
    url: str,
    as_json: bool,
    token: Path | None,
    authority: Path | None,
) -> int:
    from tidings.language.errors import EventError
    from tidings.language.event import read
    from tidings.language.explanation import printable
    from tidings.live.connect import connect

    try:
        event = dict(read(text))
    except EventError as error:
        complain(f"tidings {kind}: bad event: {printable(str(error))}")
        return 1
    async with connect(url, token=token_of(token), authority=authority) as net:
        findings = await net.ask(kind, event, subscription)
    findings.sort(key=lambda finding: (finding.get("hops", 0), str(finding.get("node"))))
    if as_json:
        write(json.dumps({kind: findings}))
    else:
        for line in SHOW[kind](findings):
            write(printable(line) if "\x1b" not in line else line)
    return VERDICT[kind](findings)


def _trace_lines(findings: list[dict[str, Any]]) -> Iterator[str]:
    for finding in findings:
        indent = "  " * finding.get("hops", 0)
        if finding.get("silent"):
            yield f"{finding['node']}: no answer"
            continue
        names = ", ".join(finding["subscriptions"]) or "nobody"
        yield f"{indent}{finding['node']}: for {names}"
        for neighbour, link in sorted(finding["links"].items()):
            mark = "takes" if link["taken"] else "not"
            yield f"{indent}  {mark} the link to {neighbour}: {link['why']}"


def _why_lines(findings: list[dict[str, Any]]) -> Iterator[str]:
    for finding in findings:
        node = finding["node"]
        if finding.get("silent"):
            yield f"{node}: no answer"
        elif "unreachable" in finding:
            yield f"{node}: no route leads to {finding['unreachable']}"
        elif "subscription" in finding:
            held = finding["subscription"]
            if held.get("held") is False:
                yield f"{node}: there is no such subscription here (any more)"
                continue
            if not held["established"]:
                yield f"{node}: it is not established yet"
            yield from (f"{node}: {line}" for line in held["explanation"].splitlines())
        else:
            for neighbour, link in finding["links"].items():
                mark = "takes" if link["taken"] else "does not take"
                yield f"{node}: {mark} the link to {neighbour}: {link['why']}"


def _status_lines(findings: list[dict[str, Any]]) -> Iterator[str]:
    for finding in findings:
        node = finding["node"]
        if finding.get("silent"):
            yield f"{node}: no answer"
            continue
        counts, up_s = finding["counts"], max(finding["up_s"], 0.1)
        state = "settled" if finding["settled"] else colour("finding routes", "yellow")
        yield (
            f"{node}: {state}, up {finding['up_s']:.0f} s, {finding['connected']} clients, "
            f"{finding['subscriptions']} subscriptions, {counts['published']} published "
            f"({counts['published'] / up_s:.1f}/s), {counts['delivered']} delivered, "
            f"{finding['dropped']} dropped"
        )
        for neighbour, link in finding["links"].items():
            mark = "up" if link["up"] else colour("down", "red")
            interest = finding["interests"].get(neighbour, "")
            yield (
                f"  link to {neighbour}: {mark}, events {link['events_in']} in, "
                f"{link['events_out']} out, bytes {link['bytes_in']} in, {link['bytes_out']} out"
                + (f"; behind it: {interest}" if interest else "")
            )


def _delivered(findings: list[dict[str, Any]]) -> int:
    taken = all(link["taken"] for f in findings for link in f.get("links", {}).values())
    held = [f["subscription"] for f in findings if "subscription" in f]
    return 0 if taken and held and held[0].get("matches") else 1


SHOW: dict[str, Callable[[list[dict[str, Any]]], Iterator[str]]] = {
    "trace": _trace_lines,
    "why": _why_lines,
    "status": _status_lines,
}
VERDICT: dict[str, Callable[[list[dict[str, Any]]], int]] = {
    "trace": lambda findings: 0 if any(f.get("matches") for f in findings) else 1,
    "why": _delivered,
    "status": lambda findings: 0,
}
