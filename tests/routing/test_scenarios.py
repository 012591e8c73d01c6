"""The scenarios in `cases/`: what the nodes do is what their transcripts say.

TIDINGS_GOLDEN=rewrite (`make golden`) writes the transcripts anew: read the diff.
"""

import os
import re
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.routing.notation import links_drawn
from tests.routing.scenario import COMMANDS, ScenarioError, play

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)


def name_of(case: Path) -> str:
    return case.relative_to(ROOT).as_posix()


def difference(expected: str, found: str, name: str) -> str:
    """Where two texts differ: the first line with its place, and the diff."""
    lines = expected.splitlines(), found.splitlines()
    both = zip(*lines, strict=False)
    same = next((i for i, (a, b) in enumerate(both) if a != b), min(map(len, lines)))
    diff = unified_diff(*lines, name, "what the nodes did", lineterm="")
    return "\n".join([f"{name}:{same + 1}: the transcript differs; see `make golden`", *diff])


@pytest.mark.golden
@every_case
def test_nodes_do_what_the_transcript_says(case: Path) -> None:
    found = play(case, name_of(case))
    if os.environ.get("TIDINGS_GOLDEN") == "rewrite":
        case.write_text(found, encoding="utf-8")
    expected = case.read_text(encoding="utf-8")
    if found != expected:
        pytest.fail(difference(expected, found, name_of(case)), pytrace=False)


@every_case
def test_a_scenario_begins_by_saying_what_it_shows_and_of_which_part(case: Path) -> None:
    comment, _, _ = case.read_text(encoding="utf-8").partition("\n\n")
    assert all(line.startswith("#") for line in comment.splitlines())
    assert re.search(r"\((F|U|S)\d+", comment), "expected a part of a paper, such as (F2)"


# The interpreter


def played(tmp_path: Path, text: str) -> str:
    case = tmp_path / "some.txt"
    case.write_text(text, encoding="utf-8")
    return play(case, "some.txt")


def test_blank_lines_and_comments_stay_and_transcripts_are_written_anew(tmp_path: Path) -> None:
    first = "# Says.\n\n\nnetwork flood line a b\n----\n"
    second = "\n\n# More.\npublish a {x: 1}\n----\n"
    found = played(tmp_path, f"{first}stale\n{second}\n")
    sent = "    0 ms  a -> b  Publication a#1 {x: 1}\n"
    assert found == f"{first}links a-b\n{second}{sent}\n"
    assert played(tmp_path, found) == found


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "network flood line a b\nfly a\n----\n",
            "some.txt:2: unknown command 'fly'; the commands",
        ),
        ("network flood line a b\n----\n\n\nrun 5h\n----\n", "some.txt:5: expected a duration"),
        ("publish a {}\n----\n", "some.txt:1: expected `network` before"),
        ("network bgp line a b\n----\n", "some.txt:1: expected one of cbcb, .* found 'bgp'"),
        ("network cbcb\n    a --- b\ncut a-c\n----\n", "some.txt:3: there is no link a-c"),
        ("network cbcb speed=3 line a b\n----\n", "some.txt:1: unknown option speed=3"),
        ("network cbcb cloud a b\n----\n", "some.txt:1: expected line, ring or links"),
        ("network cbcb links a-b:0\n----\n", "some.txt:1: expected links that cost 1 or more"),
        ("network flood line a b\npublish c {}\n----\n", "some.txt:2: there is no node 'c'"),
        ("network flood line a b\nshow Letter\n----\n", "some.txt:2: unknown packet 'Letter'"),
        ("network flood line a b\nstate a mood\n----\n", "some.txt:2: a has no mood"),
        ("network flood line a b\ncrash a\nstate a\n----\n", "some.txt:3: a does not run"),
        ("network flood line a b\nsubscribe a s x >> 1\n----\n", "some.txt:2: .*expected"),
        ("network flood line a b\npublish a {x: }\n----\n", "some.txt:2: "),
        ("network flood line a b\n----\n\nrun 1s\n", "some.txt:4: expected ---- after"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ScenarioError, match=error):
        played(tmp_path, text)


def test_a_difference_names_the_file_and_the_line() -> None:
    found = difference("one\ntwo\nthree\n", "one\n2\nthree\n", "cases/some.txt")
    assert found.startswith("cases/some.txt:2: the transcript differs")
    assert "-two\n+2" in found
    assert difference("one\n", "one\ntwo\n", "x").startswith("x:2:")


def test_drawings_are_read_as_they_look() -> None:
    drawing = [
        "  a --- b -12- c     far",
        r"   \    |     /       |  ",
        r"    4   7    /        |",
        r"     \  |   /         |",
        "      \\ | even      away",
        "        d",
    ]
    assert links_drawn(drawing) == {
        ("a", "b"): 1,
        ("b", "c"): 12,
        ("b", "d"): 7,
        ("c", "even"): 1,
        ("far", "away"): 1,
    }
    assert links_drawn(["a", r" \ ", "  b"]) == {("a", "b"): 1}


def test_every_command_is_told_of() -> None:
    import tests.routing.scenario as scenario

    assert all(re.search(rf"\b{command}\b", scenario.__doc__ or "") for command in COMMANDS)
