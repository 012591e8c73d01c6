"""Writes structured logs, one JSON object a line, through `logging`.

`journal("link lost", node="a", neighbour="b")` writes a line with these fields, and `warn` one that
somebody should read. No field ever holds a token or an event.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_logger = logging.getLogger("tidings.live")


def journal(what: str, **fields: Any) -> None:
    """Log that something has happened."""
    if _logger.isEnabledFor(logging.INFO):
        _logger.info(what, extra={"fields": fields})


def warn(what: str, **fields: Any) -> None:
    """Log that something is wrong which the user can mend."""
    _logger.warning(what, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of JSON."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "what": record.getMessage()}
        return json.dumps(line | getattr(record, "fields", {}), ensure_ascii=True, default=str)


def write_journal(stream: TextIO | None = None, warnings_only: bool = False) -> None:
    """Write the journal, or its warnings, to a stream; to standard error if none is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    _logger.addHandler(handler)
    _logger.setLevel(logging.WARNING if warnings_only else logging.INFO)
    _logger.propagate = False
