"""The report counts each statement of a paper once, and says first what does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.toy import TOY
from tidings.lab import report
from tidings.lab.experiment import BEYOND, Claim
from tidings.lab.report import Section, _page, statements, verdict
from tidings.lab.results import find

HOLDS = Claim("1", "it holds", "yes", True)
FAILS = Claim("2", "it is half", "no", False, "Agrees within 10 %. Sets are not draws. More.")
OTHER_READING = Claim("2", "it is half", "yes, by draws", True)
SLOW = Claim("3", "it takes 3 ms", "1 ms", True, comparable=False)
OURS = Claim(BEYOND, "ours is faster", "yes", True)
TIMES = Claim("3", "it takes 330 ms", "1 ms", None, comparable=False)
OPEN = Claim("4", "it grows", "too small", None)


def section(tmp_path: Path, name: str, *claims: Claim) -> Section:
    experiment = TOY._replace(name=name, parts=("U1",))
    return Section(experiment, find(tmp_path, experiment, []), list(claims), "<svg/>", "")


def test_verdicts_in_words() -> None:
    claims = (HOLDS, FAILS, SLOW, TIMES, OURS, OPEN)
    assert [verdict(claim) for claim in claims] == [
        "agrees",
        "does not agree",
        "not comparable",
        "not comparable",
        "not in the paper",
        "undecided",
    ]


def test_a_statement_is_counted_once_whatever_measures_it(tmp_path: Path) -> None:
    sections = [
        section(tmp_path, "u1-one", HOLDS, FAILS, OTHER_READING, SLOW, OURS),
        section(tmp_path, "u1-two", HOLDS, OPEN),
    ]
    found = {statement.text: statement.verdict for statement in statements(sections)}
    assert found == {
        "it holds": "agrees",
        "it is half": "depends on the reading",
        "it takes 3 ms": "not comparable",
        "it grows": "undecided",
    }


def test_the_conclusion_comes_first_and_gives_reasons(tmp_path: Path) -> None:
    page = _page([section(tmp_path, "u1-one", HOLDS, FAILS)], "tiny")
    before, _, _ = page.partition("<article")
    assert "2 different statements" in before
    assert "Sets are not draws." in before
    assert "Agrees within" not in before.partition("<ol>")[2].partition("</ol>")[0]
    parts = page.partition('id="parts"')[2]
    assert parts.index(">works<") < parts.index(">not yet<")
    assert ">works<" not in parts[parts.index(">not yet<") :]


def test_the_report_names_one_commit_or_says_what_other_code_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "commit", lambda: "c0ffee")
    row = {"number": 1, "value": 0.5}
    found = find(tmp_path, TOY, [])._replace(rows=[row], commits=["0dd", "abba"])
    same = Section(TOY, found._replace(current=True), [HOLDS], "<svg/>", "")
    page = _page([same], "tiny")
    assert "measured by the code of commit <b>c0ffee</b>" in page
    assert "0dd" not in page
    assert report.other_code([same]) == []
    other = Section(TOY, found._replace(current=False), [HOLDS], "<svg/>", "")
    page = _page([same, other], "tiny")
    assert "measured by the code of" not in page
    assert "was measured at 0dd, abba, and the code that it depends on has changed" in page
    assert report.other_code([same, other]) == [other]
