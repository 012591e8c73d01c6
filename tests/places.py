"""Where things are: the root of this repository, and the data beside it that some tests read."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"  # not part of the repository; tests skip where it is absent
