"""The figure of docs/routing.md is what its script draws now."""

import subprocess
import sys

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow


def test_the_figure_is_up_to_date() -> None:
    script = ROOT / "examples" / "delivery_trees.py"
    run = subprocess.run([sys.executable, script], capture_output=True, check=True)
    figure = ROOT / "docs" / "figures" / "delivery-trees.svg"
    assert run.stdout == figure.read_bytes(), f"run {script.name} and keep what it prints"
