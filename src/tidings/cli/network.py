"""`tidings trace`, `tidings why` and `tidings status`: what the network does, or would do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from tidings.cli.publish import URL, Access, Application, Authority, Token, Url, on_network
from tidings.cli.sharing import show_applications
from tidings.cli.terminal import colour, complain, count, write

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON object.")]


def trace(
    event: Annotated[str, typer.Argument(help="The event, as JSON.")],
    url: Url = URL,
    as_json: AsJson = False,
    application: Application = "",
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
    access = Access(url, application, token_file, authority)
    return on_network("trace", _ask("trace", event, "", access, as_json))


def why(
    subscription: Annotated[str, typer.Argument(help="The subscription's name, ROUTER/NUMBER.")],
    event: Annotated[str, typer.Argument(help="The event, as JSON.")],
    url: Url = URL,
    as_json: AsJson = False,
    application: Application = "",
    token_file: Token = None,
    authority: Authority = None,
) -> int:
    """Show why a subscription gets an event that is published at this router, or why not.

    Exits with 0 if it does, 1 if it does not or the event is bad, 2 if there is no router.

    \b
    Example:
      tidings why b/1 '{"class": "alert", "severity": 3}'
    """
    access = Access(url, application, token_file, authority)
    return on_network("why", _ask("why", event, subscription, access, as_json))


def status(
    url: Url = URL,
    applications: Annotated[
        bool, typer.Option("--applications", help="Show the applications that share the network.")
    ] = False,
    as_json: AsJson = False,
    token_file: Token = None,
    authority: Authority = None,
) -> int:
    """Show the routers of the network, their links and their counters.

    With --applications, show for each application how it is configured and what it does, and how
    far its routers agree on that.

    Exits with 0, or with 2 if there is no router.

    \b
    Examples:
      tidings status
      tidings status --applications
    """
    access = Access(url, "", token_file, authority)
    kind = "applications" if applications else "status"
    return on_network("status", _ask("status", "{}", "", access, as_json, kind))


async def _ask(
    kind: str, text: str, subscription: str, access: Access, as_json: bool, shown: str = ""
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
    async with connect(access.url, **access.options()) as net:
        findings = await net.ask(kind, event, subscription)
    findings.sort(key=lambda finding: (finding.get("hops", 0), str(finding.get("node"))))
    if shown == "applications":
        return show_applications(findings, as_json)
    if as_json:
        write(json.dumps({kind: findings}))
        return VERDICT[kind](findings)
    for finding in findings:
        if finding.get("silent"):
            write(printable(f"{finding['node']}: no answer"))
            continue
        for line in SHOW[kind](finding):
            write(line)
    return VERDICT[kind](findings)


# One router's answer as lines. Names and predicates come from other people: they are cleaned.


def _trace_lines(finding: dict[str, Any]) -> Iterator[str]:
    from tidings.language.explanation import printable

    indent = "  " * finding.get("hops", 0)
    if "unknown application" in finding:
        yield printable(f"{indent}{finding['node']}: it does not have the application")
        return
    names = ", ".join(finding["subscriptions"]) or "nobody"
    yield printable(f"{indent}{finding['node']}: for {names}")
    for line in _link_lines(dict(sorted(finding["links"].items()))):
        yield f"{indent}  {line}"


def _why_lines(finding: dict[str, Any]) -> Iterator[str]:
    from tidings.language.explanation import printable

    node = printable(finding["node"])
    if "unknown application" in finding:
        yield f"{node}: it does not have the application"
    elif "unreachable" in finding:
        yield f"{node}: no route leads to {printable(finding['unreachable'])}"
    elif "subscription" not in finding:
        for line in _link_lines(finding["links"]):
            yield f"{node}: {line}"
    elif finding["subscription"].get("held") is False:
        yield f"{node}: there is no such subscription here (any more)"
    else:
        held = finding["subscription"]
        if not held["established"]:
            yield f"{node}: the network does not know it everywhere yet"
        for line in held["explanation"].splitlines():
            yield f"{node}: {printable(line)}"


def _link_lines(links: dict[str, Any]) -> Iterator[str]:
    from tidings.language.explanation import printable

    for neighbour, link in links.items():
        verb = "takes" if link["taken"] else "does not take"
        yield printable(f"{verb} the link to {neighbour}: {link['why']}")


def _status_lines(finding: dict[str, Any]) -> Iterator[str]:
    from tidings.language.explanation import printable

    counts, up_s = finding["counts"], max(finding["up_s"], 0.1)
    state = "settled" if finding["settled"] else colour("finding routes", "yellow")
    yield (
        f"{printable(finding['node'])}: {state}, up {finding['up_s']:.0f} s, "
        f"{count(finding['connected'], 'client')}, "
        f"{count(finding['subscriptions'], 'subscription')}, {counts['published']} published "
        f"({counts['published'] / up_s:.1f}/s), {counts['delivered']} delivered, "
        f"{finding['dropped']} dropped"
    )
    for neighbour, link in finding["links"].items():
        mark = "up" if link["up"] else colour("down", "red")
        interest = finding["interests"].get(neighbour, "")
        yield (
            f"  link to {printable(neighbour)}: {mark}, events {link['events_in']} in, "
            f"{link['events_out']} out, bytes {link['bytes_in']} in, {link['bytes_out']} out"
            + (f"; wanted behind it: {printable(interest)}" if interest else "")
        )


def _delivered(findings: list[dict[str, Any]]) -> int:
    taken = all(link["taken"] for f in findings for link in f.get("links", {}).values())
    held = [f["subscription"] for f in findings if "subscription" in f]
    return 0 if taken and held and held[0].get("matches") else 1


SHOW: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "trace": _trace_lines,
    "why": _why_lines,
    "status": _status_lines,
}
VERDICT: dict[str, Callable[[list[dict[str, Any]]], int]] = {
    "trace": lambda findings: 0 if any(f.get("matches") for f in findings) else 1,
    "why": _delivered,
    "status": lambda findings: 0,
}
