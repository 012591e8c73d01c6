"""The options of the data source `tidings`, read and checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidings.language.errors import PredicateError
from tidings.language.predicate import Predicate, parse
from tidings.live.client import read_url
from tidings.live.client_core import Address
from tidings.live.connect import Connector, connect
from tidings.wire.messages import LEVELS

MAX_BATCH: Final = 100_000  # events
JOURNAL_BYTES: Final = 1 << 30


class OptionError(ValueError):
    """An option that is missing or wrong: its name, what was expected and what was found."""


class Link(NamedTuple):
    """How to reach the network. It goes to the executors, so they must reach it too."""

    urls: tuple[str, ...]
    token: str = ""
    authority: str | None = None
    timeout_s: float = 10.0

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where the routers listen."""
        return tuple(map(read_url, self.urls))

    def connect(self) -> Connector:
        """A connection, for blocking code."""
        return connect(
            self.urls, token=self.token, authority=self.authority, timeout_s=self.timeout_s
        )


class Options:
    """The options of a reader or a writer; names ignore case, as Spark's do."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def text(self, name: str) -> str | None:
        """An option as text; None if it is not there, or empty."""
        return self._given.get(name.lower()) or None

    def number(self, name: str, usual: float | None = None) -> float | None:
        """An option that is a positive number."""
        text = self.text(name)
        if text is None:
            return usual
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            raise OptionError(f"option {name}: expected a positive number, found {text!r}")
        return value

    def flag(self, name: str, usual: bool) -> bool:
        """An option that is true or false."""
        text = (self.text(name) or str(usual)).lower()
        if text not in ("true", "false"):
            raise OptionError(f"option {name}: expected true or false, found {text!r}")
        return text == "true"

    def count(self, name: str, usual: int) -> int:
        """An option that is a positive integer."""
        return int(self.number(name, usual) or usual)

    def link(self) -> Link:
        """Where the network is."""
        text = self.text("url")
        if text is None:
            raise OptionError(
                "option url: expected the address of a router, tidings://HOST:PORT, found none"
            )
        urls = tuple(part.strip() for part in text.split(",") if part.strip())
        for url in urls:
            try:
                read_url(url)
            except ValueError as error:
                raise OptionError(f"option url: {error}") from None
        timeout_s = self.number("timeoutSeconds", 10.0) or 10.0
        return Link(urls, self._token(), self.text("authority"), timeout_s)

    def _token(self) -> str:
        file = self.text("tokenFile")
        if file is None:
            return self.text("token") or ""
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"option tokenFile: {error}") from None

    def subscription(self) -> Predicate | None:
        """The predicate of the subscription, if one is given."""
        text = self.text("subscription")
        if text is None:
            return None
        try:
            return parse(text)
        except PredicateError as error:
            raise OptionError(f"option subscription: {str(error).splitlines()[0]}") from None

    def needed_subscription(self) -> Predicate:
        """The predicate of the subscription; an error asks for one by name."""
        found = self.subscription()
        if found is None:
            raise OptionError(
                "option subscription: expected the predicate of the events to take, such as "
                "\"severity > 2 and device prefix 'web-'\", found none; 'true' takes every event"
            )
        return found

    def level(self) -> str:
        """How far an event must get before it counts as written."""
        level = self.text("level") or "received"
        if level not in LEVELS:
            raise OptionError(f"option level: expected {', '.join(LEVELS)}, found {level!r}")
        return level
