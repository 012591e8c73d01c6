"""Files of subscriptions are read to their end, and every mistake in them is found in its place."""

import csv
import gzip
import io
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import parse
from tidings.language.files import lines, subscriptions
from tidings.language.files.csv_rows import Rows
from tidings.language.files.lines import BadLine, Lines
from tidings.language.files.subscriptions import (
    BadSubscription,
    Subscription,
    SubscriptionFileError,
    read_subscriptions,
)


def read(data: bytes, format: str) -> list[Subscription | BadSubscription]:
    return list(read_subscriptions(io.BytesIO(data), format))


def brief(data: bytes, format: str) -> list[tuple[Any, ...]]:
    """Good ones as (line, id), bad ones as (line, column, id, what was expected)."""
    return [
        (one.line, one.id)
        if isinstance(one, Subscription)
        else (one.line, one.column, one.id, one.expected)
        for one in read(data, format)
    ]


GOOD = {
    "csv": b"id,predicate\na,x = 1\nb,y > 2\n",
    "jsonl": b'{"id": "a", "predicate": "x = 1"}\n{"predicate": "y > 2", "id": "b", "more": []}\n',
    "text": b"a x = 1\nb\t y > 2\n",
}
FIRST_LINE = {"csv": 2, "jsonl": 1, "text": 1}


@pytest.mark.parametrize("format", GOOD)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last_end", [True, False])
@pytest.mark.parametrize("compressed", [False, True])
def test_formats_give_the_same_subscriptions(
    format: str, bom: bytes, end: bytes, last_end: bool, compressed: bool
) -> None:
    data = bom + GOOD[format].replace(b"\n", end)
    data = data if last_end else data.removesuffix(end)
    first = FIRST_LINE[format]
    assert read(gzip.compress(data) if compressed else data, format) == [
        Subscription("a", parse("x = 1"), first),
        Subscription("b", parse("y > 2"), first + 1),
    ]


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("s.csv", "csv"),
        ("s.jsonl", "jsonl"),
        ("s.ndjson", "jsonl"),
        ("s.txt", "text"),
        ("S.TXT", "text"),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_name_tells_the_format(name: str, format: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / (name + ending)
    path.write_bytes(gzip.compress(GOOD[format]) if ending else GOOD[format])
    assert [one.id for one in read_subscriptions(path)] == ["a", "b"]
    assert [one.id for one in read_subscriptions(str(path))] == ["a", "b"]


def test_csv_columns_come_in_any_order_among_others() -> None:
    data = b'note,predicate,"id"\n"x, y",x = 1,a\n,"x in (1, 2)",b\n\n"""",x=3,c\n'
    assert brief(data, "csv") == [(2, "a"), (3, "b"), (5, "c")]


def test_csv_record_over_several_lines_is_placed_where_it_begins() -> None:
    data = b'id,predicate\na,"x = 1\n\nand y = \'p\nq\'"\nb,"x = 1\r\nor ""y z"" ="\nc,x\n'
    first, second, third = read(data, "csv")
    assert isinstance(first, Subscription)
    assert (first.line, first.id) == (2, "a")
    assert first.predicate.matches({"x": 1, "y": "p\nq"})
    assert isinstance(second, BadSubscription)
    assert (second.line, second.column, second.id) == (6, None, "b")
    assert second.error is not None
    assert (second.error.line, second.error.column) == (2, 11)
    assert isinstance(third, BadSubscription)
    assert (third.line, third.column) == (8, 4)


@pytest.mark.parametrize(
    ("data", "format", "character"),
    [
        ("id,predicate\nü,x = 1 and ?", "csv", "?"),
        ('id,predicate\n"ü","x = 1 and ?"', "csv", "?"),
        ('predicate,id\n"""ü x"" in (1, 2) and ?",7', "csv", "?"),
        ('id,predicate\n"a ""b""",x = 1 and ?', "csv", "?"),
        ("\tü \t x = 1 and ?", "text", "?"),
        ('{"id": 1, "predicate": "x = 1 and ?"}', "jsonl", "?"),
        (
            '{"id": "ü", "predicate" : "\\"x\\\\y\\" = \'\\u00fc\\ud83d\\ude00\' and ?"}',
            "jsonl",
            "?",
        ),
    ],
)
def test_column_is_that_of_the_line_in_the_file(data: str, format: str, character: str) -> None:
    (bad,) = read(data.encode(), format)
    assert isinstance(bad, BadSubscription)
    line = data.splitlines()[bad.line - 1]
    assert bad.column == line.index(character) + 1
    assert bad.found == "'?'"


def test_json_column_is_left_open_where_it_cannot_be_told() -> None:
    (bad,) = read(b'{"id": 1, "x": {"predicate": ""}, "predicate": "x ="}', "jsonl")
    assert isinstance(bad, BadSubscription)
    assert bad.column is None
    assert bad.error is not None
    assert bad.error.column == 4


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        (
            b"a,x = 1,2",
            (
                2,
                None,
                None,
                "2 fields like the header (a field that holds a comma stands in double quotes)",
            ),
        ),
        (b"a", (2, None, None, "2 fields like the header")),
        (b",x = 1", (2, None, None, "an id")),
        (b" ,x = 1", (2, None, " ", "an id")),
        (b"a,", (2, 3, "a", "a name, not, exists or ( (for all events, write true)")),
        (b"a\0,x = 1", (2, None, "a\0", "an id without NUL characters")),
        (b"a,x = 1\0", (2, 8, "a", "and, or, or the end of the text")),
        (b"a,x = '\xff'", (2, 8, None, "UTF-8")),
        (b"a,\"x = '\xff'\"", (2, 9, None, "UTF-8")),
        (b"a,\"x = 1\n and y = '\xff'\"", (2, None, None, "UTF-8")),
        (
            b'a,"b c" = 3',
            (2, 8, None, 'a comma or the end after a quoted field (a quote within is doubled: "")'),
        ),
        (b'a,"x = 1', (2, 3, None, "a closing double quote")),
        (b"good,x = 1", (3, None, "good", "an id used once")),
    ],
)
def test_csv_mistake_is_found_and_reading_goes_on(line: bytes, bad: tuple[Any, ...]) -> None:
    data = b"id,predicate\n" + line + b"\ngood,y = 2\n"
    *_, last = data.rstrip(b"\n").count(b"\n") + 1, data.count(b"\n")
    found = brief(data, "csv")
    if bad[2] == "good":
        assert found == [(2, "good"), bad]
    else:
        assert found == [bad, (last, "good")]


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        (b'{"id": 1, "predicate": }', (1, 24, None, "JSON")),
        (b'{"id": 1, "predicate": "x', (1, 26, None, "JSON")),
        (b'{"id": 1} {}', (1, 11, None, "JSON")),
        (b"[" * 5000, (1, 5001, None, "JSON")),
        (b"7", (1, None, None, "a JSON object")),
        (b'{"predicate": "x = 1"}', (1, None, None, 'a field "id"')),
        (b'{"id": 1}', (1, None, 1, 'a field "predicate"')),
        (b'{"id": true, "predicate": "x = 1"}', (1, None, None, 'text or an integer as "id"')),
        (b'{"id": 1.5, "predicate": "x = 1"}', (1, None, None, 'text or an integer as "id"')),
        (b'{"id": null, "predicate": "x = 1"}', (1, None, None, 'text or an integer as "id"')),
        (b'{"id": 1, "predicate": 2}', (1, None, 1, 'text as "predicate"')),
        (b'{"id": "", "predicate": "x = 1"}', (1, None, None, "an id")),
        (
            b'{"id": 9223372036854775808, "predicate": "x = 1"}',
            (1, None, 2**63, "a 64-bit integer as id"),
        ),
        (
            b'{"id": "\\u0000", "predicate": "x = 1"}',
            (1, None, "\0", "an id without NUL characters"),
        ),
        (b'{"id": "\xc3", "predicate": "x = 1"}', (1, 9, None, "UTF-8")),
        (b'{"id": "\\ud800", "predicate": "x = 1"}', (1, 15, None, "JSON")),
        (b'{"id": 0, "predicate": "x"}', (1, 26, 0, None)),
    ],
)
def test_jsonl_mistake_is_found_and_reading_goes_on(line: bytes, bad: tuple[Any, ...]) -> None:
    first, second = brief(line + b'\n{"id": "good", "predicate": "y = 2"}', "jsonl")
    assert first[:3] == bad[:3]
    assert bad[3] is None or first[3] == bad[3]
    assert second == (2, "good")


def test_text_skips_comments_and_finds_mistakes() -> None:
    data = b"# first\n\n  \n #second\nword\n\xff x = 1\na x = \nb x = 1\nb x = 2\n"
    assert [one[:3] for one in brief(data, "text")] == [
        (5, None, "word"),
        (6, 1, None),
        (7, 6, "a"),
        (8, "b"),
        (9, None, "b"),
    ]


def test_number_and_its_text_are_two_ids() -> None:
    data = b'{"id": 7, "predicate": "x = 1"}\n{"id": "7", "predicate": "x = 1"}\n'
    assert brief(data, "jsonl") == [(1, 7), (2, "7")]


def test_open_quote_costs_only_its_own_line() -> None:
    lines = [f"i{number},x = {number}" for number in range(3000)]
    lines[5] = 'i5,"x = 5'
    lines[1000] = 'i1000,"x = 1000'
    lines[2000] = 'i2000,"x in (1, 2)"'
    found = read(("id,predicate\n" + "\n".join(lines)).encode(), "csv")
    assert [one.line for one in found] == list(range(2, 3002))
    assert [one.line for one in found if isinstance(one, BadSubscription)] == [7, 1002]


def test_long_lines_and_ids_are_bad_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_RECORD_BYTES", 2000)
    good = {
        "csv": b"good,x = 1\n",
        "jsonl": b'{"id": "good", "predicate": "x = 1"}\n',
        "text": b"good x = 1\n",
    }
    long = {
        "csv": b"a,x = '%s'\n" % (b"y" * 9000),
        "jsonl": b'{"id": "a", "predicate": "x = 1"%s}\n' % (b" " * 9000),
        "text": b"a x = 1%s\n" % (b" " * 9000),
    }
    long_id = b"i" * 1025
    long_ids = {
        "csv": long_id + b",x = 1\n",
        "jsonl": b'{"id": "%s", "predicate": "x = 1"}\n' % long_id,
        "text": long_id + b" x = 1\n",
    }
    for format in good:
        header = b"id,predicate\n" if format == "csv" else b""
        data = header + long[format] + long_ids[format] + good[format]
        first, second, third = read(data, format)
        assert isinstance(first, BadSubscription)
        assert first.expected == "a line of at most 2000 bytes"
        assert len(first.text) <= subscriptions.MAX_TEXT_KEPT
        assert isinstance(second, BadSubscription)
        assert second.expected == "an id of at most 1024 characters"
        assert third == Subscription("good", parse("x = 1"), first.line + 2)
    spanning = b'id,predicate\na,"x\n' + b"b,x = 1\n" * 400
    found = read(spanning, "csv")
    assert isinstance(found[0], BadSubscription)
    assert found[0].expected == "a closing double quote within 2000 bytes"
    assert (found[1].line, found[1].id, len(found)) == (3, "b", 401)


def test_fields_of_the_csv_module_are_no_bound_here() -> None:
    before = csv.field_size_limit()
    text = "x in (" + ", ".join(map(str, range(30_000))) + ")"
    assert len(text) > before
    (one,) = read(f'id,predicate\na,"{text}"\n'.encode(), "csv")
    assert isinstance(one, Subscription)
    assert csv.field_size_limit() == before


def test_empty_files() -> None:
    assert read(b"", "text") == read(b"\n\n", "jsonl") == read(b"\xef\xbb\xbf", "text") == []
    assert read(b"id,predicate", "csv") == []
    with pytest.raises(SubscriptionFileError, match="found an empty file"):
        read(b"", "csv")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"id,text\n", "the columns 'id', 'text'"),
        (b"id,id,predicate\n", "the columns 'id', 'id', 'predicate'"),
        (b"\xff\xfei\0d\0", "an invalid first line (expected UTF-8, found the byte 0xff)"),
        (
            b'"id,predicate\n',
            "an invalid first line (expected a closing double quote, found the end of the file)",
        ),
    ],
)
def test_csv_without_its_columns_is_refused(header: bytes, found: str) -> None:
    with pytest.raises(SubscriptionFileError) as caught:
        read(header, "csv")
    assert caught.value.found == found
    assert caught.value.expected == "a CSV header with the columns id and predicate, once each"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)


def test_file_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.txt.gz"
    broken.write_bytes(gzip.compress(b"a x = 1\n" * 1000)[:-10])
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    for path in (tmp_path / "none.csv", broken, folder, tmp_path / "name.xml"):
        with pytest.raises(SubscriptionFileError, match=path.name):
            list(read_subscriptions(path))
    with pytest.raises(ValueError, match="expected a format"):
        list(read_subscriptions(broken, "xml"))
    with pytest.raises(TypeError, match="stream of bytes"):
        list(read_subscriptions(io.StringIO(""), "csv"))  # type: ignore[arg-type]


def test_reading_does_not_run_ahead_and_leaves_a_stream_open() -> None:
    class Stream(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            Stream.taken += len(data)
            return data

    data = "".join(f"i{number} x = {number}\n" for number in range(100_000)).encode()
    stream = Stream(data)
    found: Iterator[Any] = read_subscriptions(stream, "text")
    assert next(found).id == "i0"
    assert Stream.taken < len(data) / 10
    assert sum(1 for _ in found) == 99_999
    assert not stream.closed


FIELDS = st.text(alphabet=st.sampled_from("ab,\"\n\r 'ü😀="), max_size=8)


@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=6))
def test_csv_is_taken_apart_like_the_csv_module_does(rows: list[tuple[str, str, str]]) -> None:
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(["note", "id", "predicate"])
    writer.writerows(rows)
    data = written.getvalue()
    rows_read = Rows(Lines(io.BytesIO(data.encode())))
    found = [row[2] for row in rows_read if not isinstance(row, BadLine)]
    assert found == list(csv.reader(io.StringIO(data, newline=""), strict=True))


@given(st.binary(max_size=60), st.sampled_from(["csv", "jsonl", "text"]))
def test_no_bytes_whatever_raise_another_error(data: bytes, format: str) -> None:
    header = b"id,predicate\n" if format == "csv" else b""
    try:
        found = read(header + data, format)
    except SubscriptionFileError:
        assert data.startswith(b"\x1f\x8b")  # compressed, or so it says
        return
    for one in found:
        assert isinstance(one, Subscription) or one.reason.startswith("expected ")


@given(
    st.lists(st.sampled_from([b'"', b",", b"\n", b"a", b'""', b"x = 1", b'{"id":1', b"}", b"\\"]))
)
def test_no_mixture_of_quotes_raises_or_loses_a_line(parts: list[bytes]) -> None:
    data = b"id,predicate\n" + b"".join(parts)
    lines = [one.line for one in read(data, "csv")]
    assert lines == sorted(set(lines))
    list(read(b"".join(parts), "jsonl"))


def test_predicate_that_ends_in_a_line_break_is_bad_like_another() -> None:
    (bad,) = read(b'id,predicate\na,"x = 1 and\n"\n', "csv")
    assert isinstance(bad, BadSubscription)
    assert bad.error is not None
    assert (bad.error.line, bad.error.column) == (2, 1)
    assert json.dumps(bad.reason)
