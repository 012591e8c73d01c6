"""The journal writes one JSON object a line, with the given fields."""

from __future__ import annotations

import io
import json
import logging

from tidings.live.journal import journal, write_journal


def test_a_line_is_one_json_object_whatever_the_fields_hold() -> None:
    stream = io.StringIO()
    logger = logging.getLogger("tidings.live")
    before = logger.handlers[:], logger.level, logger.propagate
    try:
        write_journal(stream)
        journal("link lost", node="a", neighbour="b\n\x1b[31m", why=OSError("gone"))
        journal("listening", port=7471)
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["what"], first["node"], first["neighbour"]) == ("link lost", "a", "b\n\x1b[31m")
    assert (first["level"], first["why"]) == ("info", "gone")
    assert (second["what"], second["port"]) == ("listening", 7471)
    assert "\x1b" not in stream.getvalue()
