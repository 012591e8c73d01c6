"""`tidings store` changes a store, and says what it took and what it did not."""

import io
import json
import os
import pickle
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.cli.main import main
from tidings.spark.store import Store

FILE = """\
# who  what
ada    class = 'alert' and severity > 2
ben    device prefix 'web-'
cleo   severity > high
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alerts.txt").write_text(FILE)
    return Store(tmp_path / "alerts")


def held(store: Store) -> dict[str | int, str]:
    return {row["subscription"]: row["predicate"] for row in store.snapshot().to_pylist()}


def test_a_life_of_a_store(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    lives = [
        ("add alerts.txt", 1),
        ("add --id dan --predicate 'x = 1'", 0),
        ("add --id ada --predicate 'x = 1'", 1),
        ("replace --id ada --predicate 'y = 1'", 0),
        ("replace --id zoe --predicate 'y = 1'", 1),
        ("remove ben zoe", 1),
        ("list", 0),
        ("list --version 1 --json", 0),
        ("list --history", 0),
        ("compact --before 2", 0),
    ]
    for command, code in lives:
        name, *words = [w.strip("'") for w in re.findall(r"'[^']*'|\S+", command)]
        assert main(["store", name, "--store", "alerts", *words]) == code, command
    printed = capsys.readouterr().out
    assert re.sub(r"  \d{4}-.*?\+00:00  ", "  TIME  ", printed) == (
        "alerts.txt:4:19: expected a number or a text (texts stand in single quotes; "
        "to compare two attributes, write jms('a > b')), found 'high'\n"
        "version 1: 2 added, 1 refused; 2 subscriptions\n"
        "version 2: 1 added, 0 refused; 3 subscriptions\n"
        "ada: the id is in the store already; replace it\n"
        "version 2: 0 added, 1 refused; 3 subscriptions\n"
        "version 3: 1 replaced, 0 refused; 3 subscriptions\n"
        "zoe: the id is not in the store\n"
        "version 3: 0 replaced, 1 refused; 3 subscriptions\n"
        "zoe: the id is not in the store\n"
        "version 4: 1 removed, 1 refused; 2 subscriptions\n"
        "version 4: 2 subscriptions\n"
        "  dan  x = 1\n"
        "  ada  y = 1\n"
        '{"id": "ada", "predicate": "class = \'alert\' and severity > 2"}\n'
        '{"id": "ben", "predicate": "device prefix \'web-\'"}\n'
        "version 1  TIME  2 added, 0 removed, 0 replaced\n"
        "version 2  TIME  1 added, 0 removed, 0 replaced\n"
        "version 3  TIME  0 added, 0 removed, 1 replaced\n"
        "version 4  TIME  0 added, 1 removed, 0 replaced\n"
        "saved the state of version 4\n"
        "removed 0 files of versions before 2 (older than an hour)\n"
    )


def test_strict_takes_all_or_nothing(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "add", "--store", "alerts", "--strict", "alerts.txt"]) == 1
    assert not store.exists()
    assert "nothing was changed (--strict)" in capsys.readouterr().err
    store.add({"ada": "x = 1"})
    assert main(["store", "remove", "--store", "alerts", "--strict", "ada", "zoe"]) == 1
    assert "cannot remove subscription 'zoe': the id is not in" in capsys.readouterr().err
    assert held(store) == {"ada": "x = 1"}


def test_a_bad_predicate_makes_no_store(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    one = ["store", "add", "--store", "alerts", "--id", "ada", "--predicate", "x >"]
    assert main(one) == 1
    out, err = capsys.readouterr()
    assert out.startswith("ada: line 1, column 4: expected a number or a text")
    assert out.endswith("\nno store was made: 0 added, 1 refused\n")
    assert err == ""
    assert main([*one, "--strict"]) == 1
    assert "cannot add subscription 'ada'" in capsys.readouterr().err
    Path("bad.txt").write_text("ada  x >\n")
    assert main(["store", "add", "--store", "alerts", "bad.txt"]) == 1
    assert not Path(store.path).exists()


def test_what_is_no_store_is_no_bug(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["list"], ["compact"], ["remove", "ada"], ["add", "alerts.txt"]):
        name, *more = words
        assert main(["store", name, "--store", "hdfs://alerts", *more]) == 2
        assert "expected a folder" in capsys.readouterr().err
    (Path(store.path) / "changes").mkdir(parents=True)
    (Path(store.path) / "changes" / f"{1:020}.parquet").write_text("nonsense")
    assert main(["store", "remove", "--store", "alerts", "ada"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_ids_that_are_one_text_are_refused(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": id, "predicate": "x = 1"} for id in ("a", 7, "7")]
    Path("s.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["store", "add", "--store", "alerts", "s.jsonl"]) == 1
    out = capsys.readouterr().out
    assert "s.jsonl:3: expected an id used once, found '7', the same text as the id on line" in out
    assert list(held(store)) == ["a", "7"]


def test_ids_are_what_they_are_in_the_store(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.jsonl").write_text('{"id": 1, "predicate": "x = 1"}\n{"id": 2, "predicate": "x = 2"}\n')
    Path("more.csv").write_text("id,predicate\n3,x = 3\n")
    pq.write_table(pa.table({"subscription": [4], "predicate": ["x = 4"]}), "four.parquet")
    assert main(["store", "add", "--store", "alerts", "s.jsonl"]) == 0
    assert main(["store", "add", "--store", "alerts", "more.csv", "four.parquet"]) == 0
    assert main(["store", "add", "--store", "alerts", "--id", "5", "--predicate", "x = 5"]) == 0
    assert main(["store", "remove", "--store", "alerts", "1"]) == 0
    assert held(store) == {2: "x = 2", 3: "x = 3", 4: "x = 4", 5: "x = 5"}
    assert main(["store", "remove", "--store", "alerts", "ada"]) == 1
    assert "expected an integer as id" in capsys.readouterr().err


def test_predicates_of_other_dialects_are_taken(store: Store) -> None:
    words = ["--id", "ada", "--dialect", "jms", "--predicate", "severity BETWEEN 2 AND 4"]
    assert main(["store", "add", "--store", "alerts", *words]) == 0
    (row,) = store.snapshot().to_pylist()
    assert row == {
        "subscription": "ada",
        "predicate": "severity BETWEEN 2 AND 4",
        "dialect": "jms",
    }


def test_standard_input_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = SimpleNamespace(buffer=io.BytesIO(b"ada x = 1\nben x = 2\n"))
    monkeypatch.setattr("sys.stdin", lines)
    assert main(["store", "add", "--store", "alerts", "-"]) == 2
    assert "standard input needs a format" in capsys.readouterr().err
    assert main(["store", "add", "--store", "alerts", "-", "--format", "text"]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("ben\n"))
    assert main(["store", "remove", "--store", "alerts", "-"]) == 0
    assert held(store) == {"ada": "x = 1"}


def test_many_are_listed_up_to_a_limit(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.add({f"s{number}": f"x = {number}" for number in range(30)})
    assert main(["store", "list", "--store", "alerts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[-1]) == (22, "  … 10 more (--limit 0 lists all)")
    assert main(["store", "list", "--store", "alerts", "--limit", "0", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("list --store nowhere", "tidings store list: nowhere: there is no store"),
        ("compact --store nowhere", "nowhere: there is no store"),
        ("add --store alerts", "name files, or one subscription by --id and --predicate"),
        ("add --store alerts --id ada", "name files, or one subscription by"),
        ("add --store alerts absent.csv", "absent.csv"),
        ("add --store alerts absent.parquet", "absent.parquet"),
        ("remove --store nowhere ada", "nowhere: there is no store"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line(
    words: str, message: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["store", *words.split()])
    said = capsys.readouterr()
    assert code == 2
    assert message in said.err + said.out
    assert said.err.count("\n") <= 1


def run(command: str, *words: str) -> int:
    return main(["store", command, "--store", "alerts", *words])


def test_subscriptions_end_and_old_versions_go(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    assert run("add", "--id", "ada", "--predicate", "x = 1", "--expires", "12h") == 0
    assert run("add", "--id", "ben", "--predicate", "x = 2", "--expires", "2020-01-31T12:00Z") == 0
    assert run("add", "--id", "cleo", "--predicate", "x = 3") == 0
    ends = store.snapshot(ends=True).column("expires").to_pylist()
    assert timedelta(hours=12) <= ends[0] - now < timedelta(hours=13)
    assert ends[1:] == [datetime(2020, 1, 31, 12, tzinfo=UTC), None]
    capsys.readouterr()
    assert run("list") == 0
    assert "\n  ben   x = 2  (until 2020-01-31 12:00:00+00:00)\n" in capsys.readouterr().out
    assert run("list", "--json", "--limit", "2") == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [datetime.fromisoformat(one["expires"]) for one in shown] == ends[:2]
    assert run("expire") == 0
    assert capsys.readouterr().out == "version 4: 1 ended; 2 subscriptions\n"
    assert run("expire") == 0
    assert capsys.readouterr().out == "version 4: 0 ended; 2 subscriptions\n"
    assert run("replace", "--id", "ada", "--predicate", "x = 4") == 0
    assert store.snapshot(ends=True).column("expires").to_pylist() == [None, None]
    old = time.time() - 86_400
    for file in (Path("alerts") / "changes").iterdir():
        os.utime(file, (old, old))
    capsys.readouterr()
    assert run("compact", "--keep", "2d") == 0
    assert run("compact", "--keep", "12h") == 0
    assert capsys.readouterr().out == (
        "saved the state of version 5\nremoved 0 files of versions replaced more than 2d ago\n"
        "saved the state of version 5\nremoved 5 files of versions replaced more than 12h ago\n"
    )
    assert held(store) == {"cleo": "x = 3", "ada": "x = 4"}
    assert held(pickle.loads(pickle.dumps(Store("alerts", keep=timedelta(1))))) == held(store)


@pytest.mark.parametrize(
    ("command", "words", "complaint"),
    [
        ("add", ("--expires", "soon"), "--expires: expected a number and a unit"),
        ("add", ("--expires", "-1h"), "--expires: expected a number and a unit"),
        ("add", ("--expires", "9" * 400 + "d"), "--expires: expected a number and a unit"),
        ("add", ("--expires", "2030-01-31T12:00"), "expected a moment with a zone"),
        ("add", ("--expires", "99999999d"), "expected an end before the year 10000"),
        ("compact", ("--keep", "2030-01-31"), "--keep: expected a number and a unit"),
        ("compact", ("--keep", "1h", "--before", "1"), "name --before or --keep, and not both"),
        ("expire", (), "there is no store"),
    ],
)
def test_times_that_are_none_are_refused(
    store: Store,
    command: str,
    words: tuple[str, ...],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = ("--id", "ada", "--predicate", "x = 1") if command == "add" else ()
    assert run(command, *one, *words) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
    assert not store.exists()


def test_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store"]) == 0
    assert "compact" in capsys.readouterr().out
