"""The settings of a router, from the command line or from a TOML file.

A mistake in a file stops the router before it listens. Nothing is guessed: an unknown name is an
error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tidings.live.access import ConfigurationError, Principal, is_loopback, read_principals
from tidings.live.sharing import Application, check_nodes, read_applications, read_keys
from tidings.routing.layers.sealing import Keyring
from tidings.routing.options import OptionsError
from tidings.routing.protocol import MILLISECOND, SECOND, Timing
from tidings.routing.protocols import SIMULATED, Chosen, protocol
from tidings.wire.messages import MAX_NAME, is_name

# A link notices a broken or silent connection itself, long before hellos are missing. So `dead` is
# long: a busy machine that sends its hellos late is no reason to change routes.
LIVE: Final = Timing(hello=500 * MILLISECOND, dead=30 * SECOND)
SHARED: Final = "everywhere-list"  # the protocol of nodes that several applications share


@dataclass(frozen=True)
class Dial:
    """A neighbour to connect to."""

    host: str
    port: int
    cost: int = 1
    tls: bool = False


@dataclass(frozen=True)
class Settings:
    """The settings of one router."""

    node: str
    host: str = "127.0.0.1"
    port: int = 0
    links: tuple[Dial, ...] = ()
    protocol: str = "cbcb"  # perhaps with options: `name:key=value,...`
    options: Mapping[str, Any] = field(default_factory=dict)  # of the protocol
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    principals: tuple[Principal, ...] = ()
    link_token: str = ""  # shown to neighbours
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    record: Path | None = None
    grace_s: float = 1.0  # within which a broken link may reconnect unnoticed
    linger_s: float = 30.0  # within which a client may resume its session
    timing: Timing = field(default=LIVE)
    applications: Mapping[str, Application] = field(default_factory=dict)  # that share the nodes
    keys: Mapping[str, tuple[Keyring, ...]] = field(default_factory=dict)  # of sealed ones

    def __post_init__(self) -> None:
        if not self.node or not is_name(self.node) or "/" in self.node:
            raise ConfigurationError(f"node: expected a name without a slash, found {self.node!r}")
        if not is_name(self.link_token):
            raise ConfigurationError(
                f"link_token: expected a text of at most {MAX_NAME} characters"
            )
        try:
            beyond = self.chosen.row.needs & SIMULATED
        except OptionsError as error:
            raise ConfigurationError(f"protocol: {error}") from None
        if beyond:
            raise ConfigurationError(
                f"protocol: {self.chosen.name} needs {', '.join(sorted(beyond))}, "
                "which only the simulator has"
            )
        if self.applications and not self.chosen.row.shares:
            raise ConfigurationError(
                "application: expected a protocol of two layers, such as everywhere-list, "
                f"found {self.chosen.name}"
            )
        for name in self.keys:
            if name not in self.applications:
                known = ", ".join(self.applications) or "none"
                raise ConfigurationError(f"keys: expected one of {known}, found {name!r}")
        if self.keys and self.record is not None:
            raise ConfigurationError(
                "record: expected no keys, because it would show what they seal"
            )
        if not is_loopback(self.host) and not self.principals:
            raise ConfigurationError(
                f"listen: other machines can reach {self.host}: expected [[access]] tables "
                "that say who may do what"
            )
        if self.http_port is not None and not is_loopback(self.http_host):
            raise ConfigurationError(
                f"http: expected an address of this machine, found {self.http_host}"
            )
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("tls: expected both certificate and key, or neither")

    @cached_property
    def chosen(self) -> Chosen:
        """The protocol that this router runs, and its options."""
        return protocol(self.protocol, dict(self.options))

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each application that has a name."""
        return {name: one.weight for name, one in self.applications.items()}

    def sharing(self) -> dict[str, Any]:
        """What a protocol that carries several applications must know of them."""
        if not self.applications:
            return {}
        layerings = {name: one.layering for name, one in self.applications.items()}
        return {"applications": layerings, "keys": dict(self.keys)}


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
    """Read a router's settings from a file; `ConfigurationError` says what is wrong with it."""
    return settings_of(_load(path), str(path), path.parent)


def read_network(path: Path) -> list[Settings]:
    """Read a file for `tidings up`: tables `[[node]]`, each like a router's own file."""
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
        raise ConfigurationError(f"{path}: two nodes have the same name")
    for settings in found:
        check_nodes(settings.applications, names, str(path))
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def settings_of(content: dict[str, Any], where: str, folder: Path) -> Settings:
    """Read a router's settings from a TOML table."""
    given: dict[str, Any] = {"protocol": SHARED} if content.get("application") else {}
    for key, value in content.items():
        if key == "name":
            given["node"] = _text(value, where, key)
        elif key == "listen":
            given["host"], given["port"] = read_address(_text(value, where, key), f"{where}: {key}")
        elif key == "http":
            host, port = read_address(_text(value, where, key), f"{where}: {key}")
            given["http_host"], given["http_port"] = host, port
        elif key == "protocol":
            given["protocol"] = _text(value, where, key)
        elif key == "options":
            if not isinstance(value, dict):
                raise ConfigurationError(f"{where}: options: expected a table, found {value!r:.40}")
            given["options"] = value
        elif key == "link":
            rows = value if isinstance(value, list) else [value]
            given["links"] = tuple(_dial(row, f"{where}: link") for row in rows)
        elif key == "access":
            given["principals"] = tuple(read_principals(value, where))
        elif key == "application":
            given["applications"] = read_applications(value, where)
        elif key == "keys":
            given["keys"] = read_keys(value, where, folder)
        elif key == "link_token":
            given["link_token"] = _text(value, where, key)
        elif key == "record":
            given["record"] = folder / _text(value, where, key)
        elif key == "tls":
            if not isinstance(value, dict) or set(value) - {"certificate", "key", "authority"}:
                raise ConfigurationError(f"{where}: tls: expected certificate, key, authority")
            given |= {name: folder / _text(path, where, name) for name, path in value.items()}
        else:
            known = (
                "name, listen, http, protocol, options, link, access, application, keys, "
                "link_token, record, tls"
            )
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
        raise ConfigurationError(f"{where}: expected cost from 1 to 1,000,000, tls true or false")
    return Dial(*read_address(_text(row["address"], where, "address"), where), cost, tls)
