"""Structured logs: one JSON object a line, through `logging`.

`journal("link lost", node="a", neighbour="b")` is a line with these fields. Nothing that a client
says in confidence, a token or an event, is ever among them.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_logger = logging.getLogger("tidings.live")


def journal(what: str, **fields: Any) -> None:
    """Note that something has happened."""
    if _logger.isEnabledFor(logging.INFO):
        _logger.info(what, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "what": record.getMessage()}
        return json.dumps(line | getattr(record, "fields", {}), ensure_ascii=True, default=str)


def write_journal(stream: TextIO | None = None) -> None:
    """Write the journal to a stream, standard error if none is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    _logger.addHandler(handler)
    _logger.setLevel(logging.INFO)
    _logger.propagate = False
