"""Saved tables: the same answers after loading, through changes, and no wrong file unnoticed."""

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language import strategies
from tests.places import ROOT
from tidings import Predicate, parse
from tidings.language.expression import And, Expression, Or
from tidings.matching import storage
from tidings.matching.storage import TableFileError
from tidings.matching.table import Table

MIXED = {"a": "x = 1", 7: "x > 0", "7": "name prefix 'web'", 2**70: "x = 1 and y = 2"}


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(strategies.expressions(size=4), max_size=8),
    st.lists(strategies.flat_events, min_size=1, max_size=4),
)
def test_a_loaded_table_answers_the_same(
    expressions: list[Expression], events: list[dict[str, Any]]
) -> None:
    table = Table((number, Predicate(e)) for number, e in enumerate(expressions))
    with tempfile.TemporaryDirectory() as folder:
        table.save(f"{folder}/table")
        loaded = Table.load(f"{folder}/table", verify=True)
        loaded.save(f"{folder}/again")
        again = Table.load(f"{folder}/again", verify=True)
        for event in events:
            expected = sorted(table.match(event), key=str)
            assert sorted(loaded.match(event), key=str) == expected
            assert sorted(again.match(event), key=str) == expected
            for id, _ in enumerate(expressions):
                assert loaded.explain(event, id).matches is (id in expected)
        assert loaded.stats() == table.stats() == again.stats()
        loaded.compact()
        for event in events:
            assert sorted(loaded.match(event), key=str) == sorted(table.match(event), key=str)


@pytest.mark.parametrize(
    "ids",
    [
        [0, 1, 2, 3],
        [9, -4, 2, 2**63 - 1],
        ["b", "a", "0", "ß"],
        ["a", 7, "8", 2**70],
    ],
    ids=["counted", "integers", "texts", "both"],
)
def test_ids_are_kept_as_they_are(tmp_path: Path, ids: list[Any]) -> None:
    table = Table((id, f"x >= {number}") for number, id in enumerate(ids))
    table.save(tmp_path / "table")
    loaded = Table.load(tmp_path / "table")
    assert list(map(repr, loaded.match({"x": 2}))) == list(map(repr, table.match({"x": 2})))
    assert len(loaded) == 4
    assert all(id in loaded for id in ids)
    assert "absent" not in loaded
    assert 55 not in loaded
    batch = pa.table({"x": [0, 3]})
    assert loaded.match_batch(batch).equals(table.match_batch(batch))
    loaded.save(tmp_path / "table")
    assert list(Table.load(tmp_path / "table").match({"x": 9})) == table.match({"x": 9})


@pytest.mark.parametrize("ids", [[0, 1, 2, 3], ["b", "a", "0", 1]], ids=["counted", "both"])
def test_changes_after_loading(tmp_path: Path, ids: list[Any]) -> None:
    Table((id, f"x = {number}") for number, id in enumerate(ids)).save(tmp_path / "table")
    table = Table.load(tmp_path / "table")
    table.remove(ids[0])
    table.replace(ids[1], "x = 11")
    table.add("new", "x = 0")
    with pytest.raises(KeyError, match="in the table already"):
        table.add(ids[2], "x = 5")
    with pytest.raises(KeyError, match="is not in the table"):
        table.remove(ids[0])
    table.remove(ids[3])
    table.add(ids[3], "x = 33")

    def check(table: Table) -> None:
        assert len(table) == 4
        assert ids[0] not in table
        assert table.match({"x": 0}) == ["new"]
        assert table.match({"x": 1}) == table.match({"x": 3}) == []
        assert table.match({"x": 2}) == [ids[2]]
        assert table.match({"x": 11}) == [ids[1]]
        assert table.match({"x": 33}) == [ids[3]]
        assert table.explain({"x": 33}, ids[3]).matches
        assert table.explain({"x": 11}, ids[1]).matches
        assert not table.explain({"x": 1}, ids[1]).matches
        assert table.match_batch(pa.table({"x": [11, 0]})).num_rows == 2

    check(table)
    table.save(tmp_path / "table")
    check(table)
    check(Table.load(tmp_path / "table", verify=True))
    table.compact()
    check(table)


def test_a_loaded_table_merges_in_the_background(tmp_path: Path) -> None:
    Table((n, f"x = {n % 5}") for n in range(50)).save(tmp_path / "table")
    table = Table.load(tmp_path / "table")
    for n in range(50, 500):
        table.add(n, f"x = {n % 5}")
        table.remove(n - 50)
    table.save(tmp_path / "table")
    for one in (table, Table.load(tmp_path / "table")):
        assert sorted(one.match({"x": 3})) == list(range(453, 500, 5))


def test_matching_parses_no_predicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Table({"a": "x = 1 or y > 2", "b": "name suffix 's'"}).save(tmp_path / "table")

    def refuse(*_: Any) -> Any:
        raise AssertionError("parsed")

    monkeypatch.setattr(storage, "parse", refuse)
    table = Table.load(tmp_path / "table")
    assert sorted(table.match({"x": 1, "name": "yes"})) == ["a", "b"]
    assert table.match_batch(pa.table({"y": [3]})).to_pylist() == [
        {"event": 0, "subscription": "a"}
    ]
    table.remove("a")
    table.add("c", "x = 1")
    assert table.match({"x": 1}) == ["c"]


@pytest.mark.slow
def test_residuals_and_predicates_past_the_bound_survive(tmp_path: Path) -> None:
    hard = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(20))
    predicates: dict[str, str | Predicate] = {
        "like": "name like 'a%b_c' and x = 1",
        "ilike": "name ilike 'A\\%%C' escape '\\'",
        "matches": "name matches '^a+''b'",
        "hard": hard,
        "small": parse("(x = 1 or x = 2) and (y = 1 or y = 2)", max_filters=2),
    }
    table = Table(predicates)
    table.save(tmp_path / "table")
    loaded = Table.load(tmp_path / "table")
    every: dict[str, Any] = {f"a{i}": 1 for i in range(20)}
    for event, expected in (
        ({"name": "a--b-c", "x": 1}, {"like"}),
        ({"name": "a%--c", "x": 2}, {"ilike"}),
        ({"name": "aa'b", "x": 1, "y": 2}, {"matches", "small"}),
        (every, {"hard"}),
    ):
        assert set(loaded.match(event)) == set(table.match(event)) == expected
    assert loaded._predicates["small"].max_filters == 2


@pytest.mark.slow
def test_two_processes_share_a_table(tmp_path: Path) -> None:
    Table(MIXED).save(tmp_path / "table")
    script = (
        "import sys; from tidings.matching.table import Table; "
        "table = Table.load(sys.argv[1]); "
        "print(sorted(map(repr, table.match({'x': 1, 'y': 2, 'name': 'web-1'}))))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "table")]
    pipes: Any = {"stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    running = [subprocess.Popen(command, **pipes) for _ in range(2)]
    expected = str(sorted(map(repr, MIXED)))
    assert [process.communicate()[0].strip() for process in running] == [expected] * 2


def saved(folder: Path) -> Path:
    Table(MIXED).save(folder / "table")
    return folder / "table"


@pytest.mark.parametrize("name", ["segment.bin", "subscriptions.arrow", "table.json"])
def test_truncated_and_missing_files_are_found(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path) / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(TableFileError, match=rf"{name} (has \d+ bytes where|is damaged)"):
        Table.load(tmp_path / "table")
    file.unlink()
    with pytest.raises(TableFileError, match=rf"{name}( is missing|$)"):
        Table.load(tmp_path / "table")


@pytest.mark.parametrize("name", ["segment.bin", "subscriptions.arrow"])
def test_changed_bytes_are_found_by_verify(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path) / name
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(TableFileError, match=f"{name} is not what was saved: its checksum differs"):
        Table.load(tmp_path / "table", verify=True)


def _meant(content: bytes | bytearray) -> Any:
    """What a file says: in JSON one kind of white space is as good as another."""
    try:
        return json.loads(content)
    except ValueError:
        return bytes(content)


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_garbage_raises_no_other_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder))
        file = path / data.draw(st.sampled_from([f.name for f in sorted(path.iterdir())]))
        original = file.read_bytes()
        content = bytearray(original)
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        file.write_bytes(content)
        if _meant(content) != _meant(original):
            with pytest.raises(TableFileError, match=r"\A[^\n]+\Z"):
                Table.load(path, verify=True)


def test_other_formats_and_other_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableFileError, match="does not exist"):
        Table.load(tmp_path / "table")
    with pytest.raises(TableFileError, match="is not a saved table"):
        Table.load(tmp_path)
    file = saved(tmp_path) / "table.json"
    file.write_text(file.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(TableFileError, match="has the format 99, and this version"):
        Table.load(tmp_path / "table")


def test_saving_leaves_other_things_alone(tmp_path: Path) -> None:
    table = Table({1: "x = 1"})
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "table.json").write_text("{}")
    for name in ("file", "folder"):
        with pytest.raises(TableFileError, match="it is left as it is"):
            table.save(tmp_path / name)
    path = saved(tmp_path)
    (path / "notes.txt").write_text("mine")
    with pytest.raises(TableFileError, match="it is left as it is"):
        table.save(path)
    assert (tmp_path / "file").read_text() == (path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "folder" / "table.json").read_text() == "{}"


def test_a_failed_save_leaves_the_older_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(storage, "_write_segment", fail)
    with pytest.raises(OSError, match="no space left"):
        Table({1: "x = 1"}).save(path)
    assert len(Table.load(path, verify=True)) == len(MIXED)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table"]


def test_a_crash_between_the_renames_loses_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.rename(tmp_path / ".table.previous")
    assert len(Table.load(path)) == len(MIXED)
    Table({1: "x = 1"}).save(path)
    assert len(Table.load(path)) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["table"]


@pytest.mark.slow
def test_a_table_is_replaced_under_its_readers(tmp_path: Path) -> None:
    """Who loads while others save gets the one table or the other; who has loaded keeps it."""
    one, other = (Table(dict.fromkeys(range(size), "x = 1")) for size in (5, 9))
    one.save(tmp_path / "table")
    first = Table.load(tmp_path / "table")
    done = threading.Event()

    def replace() -> None:
        for number in range(40):
            (other, one)[number % 2].save(tmp_path / "table")
        done.set()

    saver = threading.Thread(target=replace)
    saver.start()
    while not done.is_set():
        loaded = Table.load(tmp_path / "table")
        assert len(loaded.match({"x": 1})) == len(loaded) in (5, 9)
    saver.join()
    assert len(first.match({"x": 1})) == 5


@pytest.mark.slow
def test_a_predicate_without_readable_text_is_refused(tmp_path: Path) -> None:
    deep: Expression = parse("x = 1").expression
    for number in range(140):
        kind = Or if number % 2 else And
        deep = kind((deep, parse(f"y = {number}").expression))
    table = Table([("deep", Predicate(deep)), ("plain", "x = 1")])
    with pytest.raises(TableFileError, match="the subscription 'deep' has no text"):
        table.save(tmp_path / "table")
    assert not list(tmp_path.iterdir())


def test_an_empty_table_is_saved(tmp_path: Path) -> None:
    Table().save(tmp_path / "table")
    loaded = Table.load(tmp_path / "table", verify=True)
    assert loaded.match({"x": 1}) == []
    loaded.add(0, "x = 1")
    assert loaded.match({"x": 1}) == [0]


def test_numbers_that_are_free_stay_free(tmp_path: Path) -> None:
    """A table that has changed is saved with the numbers that it has."""
    table = Table({f"s{n}": f"x >= {n}" for n in range(200)})
    for n in range(0, 200, 3):
        table.remove(f"s{n}")
    table.save(tmp_path / "table")
    loaded = Table.load(tmp_path / "table", verify=True)
    expected = sorted(f"s{n}" for n in range(100) if n % 3)
    assert sorted(loaded.match({"x": 99})) == expected
    loaded.add("more", "x = 99")
    loaded.remove("s1")
    expected = sorted(["more", *(id for id in expected if id != "s1")])
    assert sorted(loaded.match({"x": 99})) == expected
    loaded.save(tmp_path / "table")
    assert sorted(Table.load(tmp_path / "table").match({"x": 99})) == expected


@pytest.mark.parametrize("change", ["layout", "format"])
def test_a_table_of_another_version_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    with monkeypatch.context() as patch:
        if change == "layout":
            patch.setattr(storage, "layout", lambda: "another")
        else:
            patch.setattr(storage, "FORMAT", 1)
        file = saved(tmp_path) / "table.json"
    (tmp_path / "table" / "segment.bin").unlink()
    with pytest.warns(UserWarning, match="another layout; it is compiled anew from its texts"):
        loaded = Table.load(tmp_path / "table")
    assert set(loaded.match({"x": 1, "y": 2, "name": "web-1"})) == set(MIXED)
    loaded.save(tmp_path / "table")
    assert json.loads(file.read_text())["layout"] == storage.layout()
