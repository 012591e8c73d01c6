"""Whatever the table of parts claims, a test or an experiment shows."""

import ast
from pathlib import Path

import pytest

from tests.places import ROOT
from tidings.lab.catalogue import EXPERIMENTS
from tidings.lab.parts import PAPERS, PARTS, Part

COUNTS = {"F": 9, "U": 8, "S": 29, "M": 7, "L": 7}

every_part = pytest.mark.parametrize("part", PARTS.values(), ids=lambda part: part.id)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_part_of_the_five_papers_is_listed_once() -> None:
    expected = [f"{letter}{n}" for letter, count in COUNTS.items() for n in range(1, count + 1)]
    assert list(PARTS) == expected
    assert list(PAPERS) == list(COUNTS)


@every_part
def test_what_shows_a_part_exists(part: Part) -> None:
    for name in part.tests:
        file, _, function = name.partition("::")
        assert (ROOT / file).is_file(), f"{part.id}: there is no {file}"
        assert function.startswith("test_"), f"{part.id}: {name} is no test"
        assert function in functions(ROOT / file), f"{part.id}: there is no {name}"
    for name in part.experiments:
        assert name in EXPERIMENTS, f"{part.id}: there is no experiment {name}"


@every_part
def test_a_part_works_exactly_when_something_shows_it(part: Part) -> None:
    assert part.works == bool(part.tests or part.experiments)
    claimed = {name for name, one in EXPERIMENTS.items() if part.id in one.parts}
    assert set(part.experiments) <= claimed
    if claimed:
        assert part.works


def test_experiments_have_the_name_of_their_row_and_parts_that_exist() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert set(experiment.parts) <= PARTS.keys()
        assert experiment.measure.__module__.startswith("tidings.lab.experiments.")
