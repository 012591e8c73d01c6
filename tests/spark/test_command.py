"""`tidings match` goes from files to files, and tells what it found, or in a line what is wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidings.cli.main import main
from tidings.spark.store import Store

RULES = """\
ada    class = 'alert' and severity > 2
ben    device prefix 'web-'
cleo   severity > high
"""
EVENTS = [
    '{"class": "alert", "severity": 5, "device": "web-1"}',
    '{"class": "notice", "severity": 1, "device": "web-2"}',
    '{"class": "alert",',
    '{"class": "alert", "severity": 3, "tags": ["a"]}',
    "[1, 2]",
]
GOOD = {"ada": "class = 'alert' and severity > 2", "ben": "device prefix 'web-'"}
WANTED = Counter([(EVENTS[0], "ada"), (EVENTS[0], "ben"), (EVENTS[1], "ben"), (EVENTS[3], "ada")])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rules.txt").write_text(RULES)
    (tmp_path / "day.jsonl").write_text("\n".join(EVENTS))
    return tmp_path


def test_a_day_of_events_is_matched_and_summed_up(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--events", "day.jsonl", "--subscriptions", "rules.txt", "--out", "out"]
    assert main(["match", *words]) == 0
    printed = re.sub(r"\d+\.\d s", "S", capsys.readouterr().out)
    assert printed == (
        "events                      5\n"
        "subscriptions               2\n"
        "matches                     4\n"
        "rejected                    2 events\n"
        '  {"class": "alert",: not JSON: the end of the text came too early (line 1, column 19)\n'
        "  [1, 2]: expected a JSON object, found list\n"
        "rejected                    1 subscription\n"
        "  rules.txt:3:19: expected a number or a text (texts stand in single quotes; "
        "to compare two attributes, write jms('a > b')), found 'high'\n"
        "busiest subscriptions\n"
        "  ada                                                 2 events\n"
        "  ben                                                 2 events\n"
        "time: read subscriptions S, compile S, open events S, match and write S, summarise S\n"
        "matches are in out\n"
    )
    found = spark.read.parquet(str(Path("out").absolute())).collect()
    assert Counter((row["event"], row["subscription"]) for row in found) == WANTED
    bad = spark.read.parquet(str(Path("out/_rejected").absolute())).collect()
    assert {row["event"] for row in bad} == {EVENTS[2], EVENTS[4]}


def test_csv_is_read_by_its_header_and_lists_are_written(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("day.csv").write_text(
        'class,severity,device\nalert,5,web-1\nnotice,1,"web-2"\nalert,4,db-1,more\nalert,3,\n'
    )
    rules = "id,predicate\n7,severity > 2\n8,not exists device\n9,severty > 1\n"
    Path("rules.csv").write_text(rules)
    words = ["--events", "day.csv", "--subscriptions", "rules.csv", "--out", "out"]
    assert main(["match", *words, "--write", "json", "--output", "lists"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^events +4$", printed, re.M), printed
    assert "no column is named severty, which subscriptions ask about" in printed
    assert re.search(
        r"^rejected +1 event\n  alert,4,db-1,more: the line does not fit", printed, re.M
    )
    rows = [json.loads(line) for file in Path("out").glob("*.json") for line in file.open()]
    assert Counter(
        (row["severity"], tuple(sorted(row["subscriptions"]))) for row in rows
    ) == Counter({(5, ("7",)): 1, (1, ()): 1, (3, ("7", "8")): 1})


def test_parquet_and_a_store_are_read_and_counts_are_written(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in range(2):
        pq.write_table(pa.table({"x": [1, 2, 3 + part]}), f"{part}.parquet")
    Store("store").add({7: "x > 1", 8: "x = 4", 9: "x = 5"})
    words = ["--events", "0.parquet", "--events", "1.parquet", "--subscriptions", "store"]
    assert main(["match", *words, "--out", "out", "--output", "counts"]) == 0
    counts = {
        row["subscription"]: row["events"]
        for row in spark.read.parquet(str(Path("out").absolute())).collect()
    }
    assert counts == {7: 4, 8: 1}
    printed = capsys.readouterr().out
    assert re.search(r"^events +6\nsubscriptions +3\nmatches +5$", printed, re.M), printed
    assert main(["match", *words, "--out", "out"]) == 2
    assert "out exists already; name another, or --overwrite it" in capsys.readouterr().err
    assert main(["match", *words, "--out", "out", "--overwrite"]) == 0
    assert spark.read.parquet(str(Path("out").absolute())).count() == 5


def test_explain_shows_the_plan_and_matches_nothing(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--events", "day.jsonl", "--subscriptions", "rules.txt", "--explain"]
    assert main(["match", *words]) == 0
    printed = capsys.readouterr().out
    assert "2 subscriptions, 2 filters, 3 constraints" in printed
    assert "Spark's plan" in printed
    assert "ArrowEvalPython" in printed
    assert sorted(path.name for path in Path().iterdir()) == ["cache", "day.jsonl", "rules.txt"]


def test_strict_matches_nothing_if_something_is_wrong(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--events", "day.jsonl", "--out", "out", "--strict"]
    assert main(["match", *words, "--subscriptions", "rules.txt"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("tidings match: 1 of 3 subscriptions are bad; the first is at")
    Store("store").add(GOOD)
    assert main(["match", *words, "--subscriptions", "store"]) == 1
    assert "some rows are not valid events, for example" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_stream_of_files_is_followed_from_where_it_was(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store("store")
    store.add(GOOD)
    Path("incoming").mkdir()
    Path("incoming/1.jsonl").write_text("\n".join(EVENTS))
    words = ["--events", "incoming", "--subscriptions", "store", "--out", "out"]
    assert main(["match", *words, "--stream", "--once"]) == 0
    store.add({"dan": "true"})
    Path("incoming/2.jsonl").write_text(EVENTS[3])
    assert main(["match", *words, "--stream", "--once"]) == 0
    assert capsys.readouterr().out == (
        "batch 0: version 1, 5 events, 4 matches, 2 rejected\n"
        "1 batch; run it again to continue from out/_checkpoint\n"
        "batch 1: version 2, 1 event, 2 matches\n"
        "1 batch; run it again to continue from out/_checkpoint\n"
    )
    found = spark.read.parquet(str(Path("out").absolute())).collect()
    more = [(EVENTS[3], "ada"), (EVENTS[3], "dan")]
    assert Counter((row["event"], row["subscription"]) for row in found) == WANTED + Counter(more)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--events nowhere.jsonl --out out", "nowhere.jsonl: no such file or folder"),
        ("--events day.jsonl", "say where the matches go: --out PATH"),
        ("--events day.jsonl --out out --once", "--once and --checkpoint are for --stream"),
        ("--events day.data --out out", "expected files that all have one of the endings"),
        ("--events bad.parquet --out out", "bad.parquet"),
        ("--events day.jsonl --out out --stream", "expected a store; tidings store add makes one"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line(
    words: str, message: str, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("day.data").write_text("{}")
    Path("bad.parquet").write_text("no Parquet, this")
    assert main(["match", "--subscriptions", "rules.txt", *words.split()]) == 2
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tidings")]
    assert len(said) == 1, said
    assert message in said[0]
    assert not Path("out").exists()


def test_a_stream_is_stopped_by_an_interrupt_and_java_is_not_heard(folder: Path) -> None:
    Store("store").add(GOOD)
    Path("incoming").mkdir()
    Path("incoming/1.jsonl").write_text(EVENTS[0])
    words = ["--events", "incoming", "--subscriptions", "store", "--out", "out", "--stream"]
    command = [sys.executable, "-u", "-m", "tidings.cli.main", "match", "--master", "local[1]"]
    run = subprocess.Popen(
        [*command, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert run.stdout is not None
        first = run.stdout.readline()
        assert first == "batch 0: version 1, 1 event, 2 matches\n", run.communicate()[1]
        time.sleep(0.5)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to Java as well
        out, err = run.communicate(timeout=120)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
    assert (out, err) == (
        "1 batch; run it again to continue from out/_checkpoint\n",
        "tidings match: stopping after this batch\n",
    )
    assert run.returncode == 0
