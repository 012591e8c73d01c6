"""What all tests share: the seed, the profiles of Hypothesis, golden files, and one Spark session.

Every run has one seed, and its header names it. TIDINGS_SEED sets it; TIDINGS_PROFILE and
TIDINGS_SOAK say how hard to try (`tests/effort.py`); TIDINGS_GOLDEN=rewrite writes the golden files
instead of comparing with them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.effort import BRIEF, EXAMPLES_BY_PROFILE, PROFILE, SOAK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parent / "golden"
# A JVM of the tests lives for seconds or a minute: Java's first compiler is enough for it, and its
# second one would take the cores from the tests.
os.environ.setdefault("SPARK_SUBMIT_OPTS", BRIEF)

for _name, _examples in EXAMPLES_BY_PROFILE.items():
    settings.register_profile(
        _name,
        # Written out although some are defaults: Hypothesis has other defaults where CI is set.
        derandomize=False,
        print_blob=True,
        max_examples=_examples,
        # Nothing here may depend on how fast the machine is.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, and the seed unless the command line has done so."""
    if PROFILE not in EXAMPLES_BY_PROFILE:
        known = ", ".join(EXAMPLES_BY_PROFILE)
        raise pytest.UsageError(f"TIDINGS_PROFILE={PROFILE}: the profiles are {known}")
    settings.load_profile(PROFILE)

    # This comes before Hypothesis's plugin reads the option. The processes of pytest-xdist get
    # the options of the one that starts them, so they find the seed set.
    if config.getoption("hypothesis_seed") is None:
        seed = os.environ.get("TIDINGS_SEED") or str(random.SystemRandom().randrange(2**32))
        if not seed.isdecimal():
            raise pytest.UsageError(f"TIDINGS_SEED={seed}: the seed is a whole number")
        config.option.hypothesis_seed = seed


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed before the tests."""
    return _replay(config)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say the seed again below the failures, where it is looked for."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(_replay(config))


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by these marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they use, and leave out those that only `make soak` runs.

    The Spark tests of a file are one group of pytest-xdist (`--dist loadgroup`): they run in one
    process, and every process that runs some has one JVM.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "golden" in fixtures:
            item.add_marker(pytest.mark.golden)
        if "spark" in fixtures:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group(f"spark {item.path.stem}"))
    if not SOAK:
        long = [item for item in items if item.get_closest_marker("soak") is not None]
        if long:
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if item.get_closest_marker("soak") is None]


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run, for tests that draw without Hypothesis."""
    return int(request.config.getoption("hypothesis_seed"))


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the golden file of this name, or write it there."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("TIDINGS_GOLDEN") == "rewrite":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        place = f"tests/golden/{name}"
        assert file.exists(), f"{place} does not exist; `make golden` writes it"
        assert text == file.read_text(encoding="utf-8"), f"{place} differs; see `make golden`"

    return compare


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that checks what Python hands to the JVM, with compiled tables in a new folder."""
    from pyspark.sql import SparkSession

    from tidings.spark import session

    folder = tmp_path_factory.mktemp("spark")
    options = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDINGS_CACHE", str(folder / "cache"))
        active = SparkSession.getActiveSession()
        if active is not None:  # of a page that was run before, with other options
            active.stop()
        started = session("local[2,4]", **options)  # a task may fail three times
        yield started
        started.stop()


def _replay(config: pytest.Config) -> str:
    seed = config.getoption("hypothesis_seed")
    return f"seed: {seed} (replay with TIDINGS_SEED={seed} make test)"
