"""An error of Spark in one line that a user can act on.

Spark wraps errors: the JVM's stack trace holds that of a Python worker, which holds the cause.
`explained` finds the innermost cause and adds a hint where it knows one. Commands print this line,
and the whole trace with `--debug`.
"""

from __future__ import annotations

import re
from typing import Final

from tidings.spark.java import JavaNotFoundError

MAX_LINE: Final = 400  # characters
EXTRA: Final = frozenset({"pandas", "py4j", "pyspark"})  # packages that `tidings[spark]` brings

# A pattern in the whole text of an error, and what to do about it. The first that fits is used.
HINTS: Final = (
    (
        r"No module named 'tidings\.matching\.(native|rivals)\.\w+'",
        "the executors' Python or kind of machine is not the driver's: install Tidings there",
    ),
    (
        r"No module named '(pyarrow|numpy|msgspec|tidings|re2)'",
        "the executors' Python lacks {0}: install it there, or set PYSPARK_PYTHON to another",
    ),
    (
        r"JAVA_GATEWAY_EXITED|Java gateway process exited",
        "Java did not start: `python -m tidings.spark.java` shows which one Tidings uses",
    ),
    (r"PATH_NOT_FOUND", "check the path; the executors must be able to read it too"),
    (
        r"Java heap space|OutOfMemoryError|GC overhead",
        "give the JVM more memory: spark.driver.memory, spark.executor.memory",
    ),
    (r"maxResultSize", "raise spark.driver.maxResultSize"),
    (
        r"Python worker exited unexpectedly|MemoryError",
        "a Python worker died, perhaps because it ran out of memory: use a smaller `budget`, or a "
        "smaller spark.sql.execution.arrow.maxRecordsPerBatch",
    ),
    (
        r"Master removed our application|All masters are unresponsive|Failed to connect to",
        "the master does not answer: check its URL",
    ),
    (r"UNRESOLVED_COLUMN", "check the names of the columns"),
    (r"FAILED_READ_FILE", "a file is damaged or has another format"),
)
_PYTHON_CAUSE: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Rejected)): (.+)$", re.M)


def naming_extra(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error with what to install, where the extra `spark` brings the package; else itself."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA:
        return error
    needed = f"this needs {package}, which is not installed: pip install 'tidings[spark]'"
    return ModuleNotFoundError(needed, name=error.name)


def is_sparks(error: BaseException) -> bool:
    """Whether Spark or Java raised an error, or no Java was found; Tidings is not at fault then."""
    package = type(error).__module__.partition(".")[0]
    return package in ("pyspark", "py4j") or isinstance(error, JavaNotFoundError)


def explained(error: BaseException) -> str:
    """An error in one line, with a hint at its end where there is one."""
    whole = _text(error)
    line = _cause(error, whole)
    for pattern, hint in HINTS:
        found = re.search(pattern, whole)
        if found:
            return f"{line} ({hint.format(*found.groups())})"
    return line


def _cause(error: BaseException, whole: str) -> str:
    if isinstance(error, JavaNotFoundError | ValueError) and "\n" not in str(error):
        return _cut(str(error))
    if type(error).__module__.startswith("tidings.") and whole.partition("\n")[0].endswith(":"):
        return _cut(" ".join(line.strip() for line in whole.splitlines()[:2]))  # with one example
    inner = _PYTHON_CAUSE.findall(whole) if "Traceback (most recent call last)" in whole else []
    if inner:
        return _cut(f"{inner[-1][0]}: {inner[-1][1]}")
    lines = [line.strip() for line in whole.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    first = re.sub(r"^An error occurred while calling [\w.]+:? ?", "", first)
    if not first.strip(" :.") and len(lines) > 1:
        first = re.sub(r"^: (?:[\w.$]+: )?", "", lines[1])
    return _cut(re.sub(r"\s*SQLSTATE: \w+[;\s]*$", "", first) or type(error).__name__)


def _text(error: BaseException) -> str:
    """The text of an error and of its Java cause."""
    said = [str(error)]
    java = getattr(error, "java_exception", None)
    if java is not None:
        said.append(str(java))
    return "\n".join(said)


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"
