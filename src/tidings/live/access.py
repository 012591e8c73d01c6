"""Who may do what: tokens, the events that their holders may publish and receive, and TLS.

A token's holder is a *principal* with two predicates. Events that it publishes must match the
first. The router joins the second to each of its subscriptions by *and* before it does anything
else with them, so on every path an event that it may not receive does not match. Without tokens
everyone is the same principal, who may do everything; the router then listens on this machine only.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Any

from tidings.language.errors import EventError, PredicateError
from tidings.language.event import Event
from tidings.language.predicate import Predicate, parse
from tidings.wire.errors import WireError
from tidings.wire.events import PLAIN, as_sent

RESERVED = "tidings:"  # attribute names that begin with it are reserved for routers
MAX_EVENT_BYTES = 256 * 1024
MAX_CHOICES = 1_000  # elements of lists that are tested against a token's predicate


class ConfigurationError(Exception):
    """A mistake of the user in a configuration: where it is, what was expected, what was found."""


@dataclass(frozen=True)
class Principal:
    """The holder of a token, and what it may do."""

    name: str
    digest: bytes = b""  # SHA-256 of the token
    publish: Predicate | None = None  # None: any event
    receive: Predicate | None = None
    router: bool = False  # whether it may join as a router
    status: bool = True  # whether it may look at the network
    applications: tuple[str, ...] | None = None  # that it may use; None: any

    def may_use(self, application: str) -> bool:
        """Whether the holder may publish and subscribe in an application."""
        return self.applications is None or application in self.applications

    def may_publish(self, event: dict[str, Any]) -> bool:
        """Whether the holder may publish this event: it matches whichever element of each list it
        is reduced to, so lists cannot widen what the holder may publish."""
        if self.publish is None:
            return True
        if PLAIN.issuperset(map(type, event.values())):
            return self.publish.matches(event)
        return all(map(self.publish.matches, _choices(event)))

    def restrict(self, predicate: Predicate) -> Predicate:
        """The part of a predicate that the holder may receive."""
        return predicate if self.receive is None else predicate & self.receive


def _choices(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An event with lists, then all events that keep one element of each list.

    If there are too many of them, the last is one that matches nothing but `true`.
    """
    flat = Event(event)
    yield flat
    lists = {name: values for name, values in flat.items() if isinstance(values, tuple)}
    if prod(map(len, lists.values())) > MAX_CHOICES:
        yield {}
        return
    for choice in product(*lists.values()):
        yield {**flat, **dict(zip(lists, choice, strict=True))}


ANYONE = Principal("anyone", router=True)


class Access:
    """The principals of a router."""

    def __init__(self, principals: Iterable[Principal] = ()) -> None:
        self._principals = tuple(principals)

    def __bool__(self) -> bool:
        return bool(self._principals)

    def principal(self, token: str) -> Principal:
        """The holder of this token; `WireError` if there is none."""
        if not self._principals:
            return ANYONE
        digest = sha256(token.encode()).digest()
        found = None
        for principal in self._principals:  # all of them, so that the time taken reveals nothing
            if compare_digest(principal.digest, digest):
                found = principal
        if found is None:
            raise WireError("denied")
        return found

    def successor(self, principal: Principal) -> Principal | None:
        """Who holds the token of a former principal now; None if nobody does."""
        if not self._principals:
            return ANYONE if not principal.digest else None
        for one in self._principals:
            if one.digest == principal.digest:
                return one
        return None

    def router(self, token: str) -> Principal:
        """The holder of this token, if it may join as a router; else `WireError`."""
        found = self.principal(token)
        if not found.router:
            raise WireError("denied")
        return found


def check_event(event: dict[str, Any], reserved: bool = False) -> str | None:
    """Why a router refuses an event, or None; `reserved` allows the reserved names."""
    # One search over all names first, because it mostly finds nothing.
    if not reserved and RESERVED in "\n".join(event):
        for name in event:
            if name.startswith(RESERVED):
                return f"the attribute {name!r}: names that begin with {RESERVED} are reserved"
    if not PLAIN.issuperset(map(type, event.values())):
        try:
            as_sent(event)
        except EventError as error:
            return str(error)
    return None


def are_plain(events: Sequence[dict[str, Any]]) -> bool:
    """Whether one look at many events shows that `check_event` refuses none of them."""
    values = chain.from_iterable(map(dict.values, events))
    names = "\n".join(chain.from_iterable(events))
    return PLAIN.issuperset(map(type, values)) and RESERVED not in names


def read_principals(rows: Any, where: str) -> list[Principal]:
    """Read the principals of a configuration."""
    if not isinstance(rows, list):
        raise ConfigurationError(f"{where}: access: expected a list of tables")
    return [_principal(row, f"{where}: access {n}") for n, row in enumerate(rows, 1)]


def _principal(row: Any, where: str) -> Principal:
    known = {"name", "token", "publish", "receive", "router", "status", "applications"}
    if not isinstance(row, dict) or set(row) - known:
        raise ConfigurationError(f"{where}: expected some of {', '.join(sorted(known))}")
    name, token = row.get("name"), row.get("token")
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{where}: name: expected a text")
    if not isinstance(token, str) or not 16 <= len(token) <= 128:
        raise ConfigurationError(f"{where}: token: expected a text of 16 to 128 characters")
    predicates: dict[str, Predicate | None] = {}
    for key in ("publish", "receive"):
        text = row.get(key, "true")
        try:
            predicates[key] = None if text == "true" else parse(text)
        except (PredicateError, TypeError) as error:
            raise ConfigurationError(f"{where}: {key}: {error}") from None
    for key in ("router", "status"):
        if not isinstance(row.get(key, False), bool):
            raise ConfigurationError(f"{where}: {key}: expected true or false")
    applications = row.get("applications")
    if applications is not None:
        named = isinstance(applications, list) and all(isinstance(n, str) for n in applications)
        if not named:
            raise ConfigurationError(f"{where}: applications: expected a list of names")
        applications = tuple(applications)
    return Principal(
        name,
        sha256(token.encode()).digest(),
        predicates["publish"],
        predicates["receive"],
        row.get("router", False),
        row.get("status", False),
        applications,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def server_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """The TLS context of a router that listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"tls: {certificate}, {key}: {error}") from None
    return context


def client_tls(authority: Path | None) -> ssl.SSLContext:
    """The TLS context of an end that connects; it trusts the certificates in `authority`."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"tls: {authority}: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
