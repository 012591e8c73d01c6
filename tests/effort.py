"""How hard a run of the tests tries: its profile, and whether it soaks.

TIDINGS_PROFILE is `quick` (`make quick`), `default` or `thorough`. TIDINGS_SOAK=1 (`make soak`)
adds the tests marked `soak` and lengthens those that ask `SOAK`.
"""

import os
from typing import Final

EXAMPLES_BY_PROFILE: Final = {"quick": 15, "default": 100, "thorough": 5000}
PROFILE: Final = os.environ.get("TIDINGS_PROFILE") or "default"
BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # options of a JVM that lives briefly
SOAK: Final = os.environ.get("TIDINGS_SOAK", "") not in ("", "0")


def examples(usual: int) -> int:
    """How many examples a property draws that draws `usual` in a default run, at least three."""
    return max(3, usual * EXAMPLES_BY_PROFILE.get(PROFILE, 100) // 100)
