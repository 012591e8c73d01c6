"""The journal writes one JSON object a line, with the given fields."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tidings.live.journal import journal, warn, write_journal


@contextmanager
def written(warnings_only: bool = False) -> Iterator[io.StringIO]:
    """A stream to which the journal is written meanwhile."""
    stream = io.StringIO()
    logger = logging.getLogger("tidings.live")
    before = logger.handlers[:], logger.level, logger.propagate
    try:
        write_journal(stream, warnings_only)
        yield stream
    finally:
        logger.handlers[:], logger.level, logger.propagate = before


def test_a_line_is_one_json_object_whatever_the_fields_hold() -> None:
    with written() as stream:
        journal("link lost", node="a", neighbour="b\n\x1b[31m", why=OSError("gone"))
        journal("listening", port=7471)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["what"], first["node"], first["neighbour"]) == ("link lost", "a", "b\n\x1b[31m")
    assert (first["level"], first["why"]) == ("info", "gone")
    assert (second["what"], second["port"]) == ("listening", 7471)
    assert "\x1b" not in stream.getvalue()


def test_warnings_are_written_where_nobody_asked_for_the_journal() -> None:
    with written(warnings_only=True) as stream:
        journal("listening", port=7471)
        warn("bad settings", node="a", why="replicas: expected at most 3, found 99")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["what"], line["node"]) == ("warning", "bad settings", "a")
