"""What a router is told when it starts: from the command line, or from a file in TOML.

A mistake in a file stops the router before it listens; nothing is guessed, and a name that is not
known is an error.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidings.live.access import ConfigurationError, Principal, is_loopback, read_principals
from tidings.routing.protocol import MILLISECOND, SECOND, Timing
from tidings.routing.protocols import PROTOCOLS

# A connection that ends or is silent for too long is noticed by its link, long before hellos would
# be missed: a busy machine may not get to them for a while, which is no reason for other ways.
LIVE: Final = Timing(hello=500 * MILLISECOND, dead=30 * SECOND)
SCHEMES: Final = {"content": "cbcb", "flooding": "flood"}


@dataclass(frozen=True)
class Dial:
    """A neighbour to connect to."""

    host: str
    port: int
    cost: int = 1
    tls: bool = False


@dataclass(frozen=True)
class Settings:
    """A router's."""

    node: str
    host: str = "127.0.0.1"
    port: int = 0
    links: tuple[Dial, ...] = ()
    scheme: str = "content"
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    principals: tuple[Principal, ...] = ()
    link_token: str = ""  # shown to neighbours
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    record: Path | None = None
    grace_s: float = 1.0  # for which a broken link may come back unnoticed
    linger_s: float = 30.0  # for which a client may come back to its session
    timing: Timing = field(default=LIVE)

    def __post_init__(self) -> None:
        if not 1 <= len(self.node) <= 128 or "/" in self.node:
            raise ConfigurationError(f"node: expected a name without a slash, found {self.node!r}")
        if self.scheme not in SCHEMES:
            raise ConfigurationError(
                f"scheme: expected one of {', '.join(SCHEMES)}, found {self.scheme!r}"
            )
        if not is_loopback(self.host) and not self.principals:
            raise ConfigurationError(
                f"listen: {self.host} can be reached from elsewhere: expected [[access]] tables "
                "that say who may do what"
            )
        if self.http_port is not None and not is_loopback(self.http_host):
            raise ConfigurationError(f"http: expected an address of this machine, {self.http_host}")
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("tls: expected both certificate and key, or neither")

    @property
    def protocol(self) -> str:
        """The row of PROTOCOLS that it runs."""
        name = SCHEMES[self.scheme]
        assert name in PROTOCOLS
        return name


def read_address(text: str, where: str) -> tuple[str, int]:
    """A host and a port from `HOST:PORT`.

    >>> read_address("[::1]:7000", "listen")
    ('::1', 7000)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(f"{where}: expected HOST:PORT, found {text!r}")
    return host.strip("[]"), int(port)


def read_settings(path: Path) -> Settings:
    """The settings in a file; `ConfigurationError` says what is wrong with it."""
    return settings_of(_load(path), str(path), path.parent)


def read_network(path: Path) -> list[Settings]:
    """The routers of a file for `tidings up`: tables `[[node]]`, each as in a router's own file."""
    content = _load(path)
    nodes = content.pop("node", None)
    if not isinstance(nodes, list) or not nodes:
        raise ConfigurationError(f"{path}: expected tables [[node]]")
    found: list[Settings] = []
    for row in nodes:
        if not isinstance(row, dict):
            raise ConfigurationError(f"{path}: expected tables [[node]]")
        settings = settings_of({**content, **row}, f"{path}: node {len(found) + 1}", path.parent)
        if settings.port == 0:
            raise ConfigurationError(f"{path}: {settings.node}: listen: expected a port")
        found.append(settings)
    names = [settings.node for settings in found]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"{path}: two nodes of one name")
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def settings_of(content: dict[str, Any], where: str, folder: Path) -> Settings:
    """The settings of a table."""
    given: dict[str, Any] = {}
    for key, value in content.items():
        if key == "name":
            given["node"] = _text(value, where, key)
        elif key == "listen":
            given["host"], given["port"] = read_address(_text(value, where, key), f"{where}: {key}")
        elif key == "http":
            host, port = read_address(_text(value, where, key), f"{where}: {key}")
            given["http_host"], given["http_port"] = host, port
        elif key == "scheme":
            given["scheme"] = _text(value, where, key)
        elif key == "link":
            rows = value if isinstance(value, list) else [value]
            given["links"] = tuple(_dial(row, f"{where}: link") for row in rows)
        elif key == "access":
            given["principals"] = tuple(read_principals(value, where))
        elif key == "link_token":
            given["link_token"] = _text(value, where, key)
        elif key == "record":
            given["record"] = folder / _text(value, where, key)
        elif key == "tls":
            if not isinstance(value, dict) or set(value) - {"certificate", "key", "authority"}:
                raise ConfigurationError(f"{where}: tls: expected certificate, key, authority")
            given |= {name: folder / _text(path, where, name) for name, path in value.items()}
        else:
            known = "name, listen, http, scheme, link, access, link_token, record, tls"
            raise ConfigurationError(f"{where}: expected one of {known}, found {key!r}")
    if "node" not in given:
        raise ConfigurationError(f"{where}: name: expected the router's name")
    try:
        return Settings(**given)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _text(value: Any, where: str, key: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where}: {key}: expected a text, found {value!r:.40}")
    return value


def _dial(row: Any, where: str) -> Dial:
    """`HOST:PORT`, or a table with address, cost and tls."""
    if isinstance(row, str):
        return Dial(*read_address(row, where))
    if not isinstance(row, dict) or set(row) - {"address", "cost", "tls"} or "address" not in row:
        raise ConfigurationError(f"{where}: expected HOST:PORT, or address, cost and tls")
    cost, tls = row.get("cost", 1), row.get("tls", False)
    if type(cost) is not int or not 1 <= cost <= 1_000_000 or not isinstance(tls, bool):
        raise ConfigurationError(f"{where}: expected cost from 1 to 1,000,000, and tls true, false")
    return Dial(*read_address(_text(row["address"], where, "address"), where), cost, tls)
