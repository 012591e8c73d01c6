"""The applications of a configuration (L4): tables `[[application]]`, and the files of their keys.

    [[application]]
    name = "quotes"
    matching = "regions"
    replicas = 3
    hops = 1
    rendezvous = "hash:symbol"
    weight = 2

    [keys]
    quotes = "quotes.key"

A file of keys is TOML with tables `[[key]]`. What is sent is sealed with the first; what comes may
be sealed with any of them, so keys can be changed one router after the other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tidings.live.access import ConfigurationError
from tidings.routing.layers.rendezvous import RendezvousError
from tidings.routing.layers.sealing import Keyring, SealError
from tidings.routing.layers.settings import Layering
from tidings.wire.messages import MAX_NAME

MOST_APPLICATIONS: Final = 64
MOST_WEIGHT: Final = 1_000
MOST_KEYS: Final = 8  # in a file


class Application(msgspec.Struct, frozen=True):
    """How an application is configured, and what part of each link it may fill."""

    layering: Layering = Layering()
    weight: int = 1  # its share of a link, beside the others


def read_applications(rows: Any, where: str) -> dict[str, Application]:
    """Read the tables `[[application]]`."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigurationError(f"{where}: expected tables [[application]]")
    if len(rows) > MOST_APPLICATIONS:
        raise ConfigurationError(
            f"{where}: expected at most {MOST_APPLICATIONS} applications, found {len(rows)}"
        )
    found: dict[str, Application] = {}
    for number, row in enumerate(rows, 1):
        name = row.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
            raise ConfigurationError(
                f"{where}: application {number}: name: expected a name of 1 to {MAX_NAME} "
                f"characters, found {name!r:.60}"
            )
        if name in found:
            raise ConfigurationError(f"{where}: two applications have the name {name!r}")
        found[name] = _application(row, f"{where}: application {name!r}")
    return found


def _application(row: dict[str, Any], where: str) -> Application:
    weight = row.get("weight", 1)
    if type(weight) is not int or not 1 <= weight <= MOST_WEIGHT:
        raise ConfigurationError(
            f"{where}: weight: expected an integer from 1 to {MOST_WEIGHT}, found {weight!r:.40}"
        )
    given = {key: value for key, value in row.items() if key not in ("name", "weight")}
    unknown = sorted(given.keys() - set(Layering.__struct_fields__))
    if unknown:
        known = ", ".join(["name", "weight", *Layering.__struct_fields__])
        raise ConfigurationError(f"{where}: expected one of {known}, found {unknown[0]!r}")
    try:
        layering = msgspec.convert(given, Layering)
        layering.function()
    except (msgspec.ValidationError, RendezvousError) as error:
        raise ConfigurationError(f"{where}: {error}") from None
    return Application(layering, weight)


def check_nodes(applications: Mapping[str, Application], nodes: Iterable[str], where: str) -> None:
    """Refuse applications that these nodes cannot carry."""
    names = list(nodes)
    for name, application in applications.items():
        settings = application.layering
        for what, named in (("nodes", settings.nodes), ("capacities", settings.weights)):
            strange = sorted(set(named) - set(names))
            if strange:
                raise ConfigurationError(
                    f"{where}: application {name!r}: {what}: expected some of {', '.join(names)}, "
                    f"found {strange[0]!r}"
                )
        count = len(set(settings.nodes)) or len(names)
        if settings.matching != "regions":
            continue
        for what, wanted in (("replicas", settings.replicas), ("regions", settings.regions)):
            if wanted > count:
                raise ConfigurationError(
                    f"{where}: application {name!r}: {what}: expected at most {count}, the nodes "
                    f"that match, found {wanted}"
                )


def check_change(before: Mapping[str, Application], after: Mapping[str, Application]) -> None:
    """Refuse a change of settings that a running network cannot make."""
    for name in before.keys() & after.keys():
        seals = before[name].layering.seal, after[name].layering.seal
        if seals[0] != seals[1]:
            raise ConfigurationError(
                f"application {name!r}: seal: expected {seals[0]!r}, which cannot change while it "
                f"runs, found {seals[1]!r}"
            )


def read_keys(rows: Any, where: str, folder: Path) -> dict[str, tuple[Keyring, ...]]:
    """Read the table `[keys]`: for each application the file that holds its keys."""
    if not isinstance(rows, dict) or not all(isinstance(path, str) for path in rows.values()):
        raise ConfigurationError(f"{where}: keys: expected a table of files by application")
    return {name: read_keyrings(folder / path) for name, path in rows.items()}


def read_keyrings(path: Path) -> tuple[Keyring, ...]:
    """The keys in a file, the one to seal with first."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The error would show the line, and a key is never shown.
        raise ConfigurationError(f"{path}: expected TOML with tables [[key]]") from None
    rows = content.get("key")
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_KEYS or len(content) > 1:
        raise ConfigurationError(f"{path}: expected 1 to {MOST_KEYS} tables [[key]]")
    return tuple(_keyring(row, f"{path}: key {number}") for number, row in enumerate(rows, 1))


def _keyring(row: Any, where: str) -> Keyring:
    known = Keyring.__struct_fields__
    if not isinstance(row, dict) or not row or row.keys() - set(known):
        raise ConfigurationError(f"{where}: expected some of {', '.join(known)}")
    found: dict[str, bytes] = {}
    for name, text in row.items():
        try:
            found[name] = bytes.fromhex(text)
        except (ValueError, TypeError):
            raise ConfigurationError(f"{where}: {name}: expected hexadecimal digits") from None
    keyring = Keyring(**found)
    try:
        keyring.check()
    except SealError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    return keyring


def written(keyrings: Iterable[Keyring]) -> str:
    """A file of keys."""
    parts = []
    for keyring in keyrings:
        named = ((name, getattr(keyring, name)) for name in keyring.__struct_fields__)
        parts.append("\n".join(["[[key]]", *(f'{n} = "{k.hex()}"' for n, k in named if k)]))
    return "\n\n".join(parts) + "\n"
