"""`tidings match`: which events satisfy which subscriptions, on Spark."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from tidings.cli.extras import SPARK, require
from tidings.cli.terminal import INTERRUPTED, colour, complain, count, write

if TYPE_CHECKING:
    from tidings.spark.job import Summary

PULSE_S = 0.25
IDLE_S = 30.0  # that an interrupted stream may take to end its batch
FILES_A_BATCH = 100
WIDTH = 160  # characters of a sample
OPTIONS = {"spark.executor.heartbeatInterval": "1s"}  # so that Spark counts rows while a task runs


class EventFormat(StrEnum):
    """The formats of files of events."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class Written(StrEnum):
    """The formats of the matches."""

    PARQUET = "parquet"
    JSON = "json"


class Output(StrEnum):
    """What a row of the matches is."""

    PAIRS = "pairs"
    LISTS = "lists"
    COUNTS = "counts"


def match(
    context: typer.Context,
    events: Annotated[
        list[str], typer.Option(metavar="PATH", help="Files or folders of events; may be repeated.")
    ],
    subscriptions: Annotated[
        str, typer.Option(metavar="PATH", help="A file of subscriptions or a store.")
    ],
    out: Annotated[
        str | None, typer.Option(metavar="PATH", help="The folder for the matches.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's master; by default this machine.")
    ] = None,
    format: Annotated[
        EventFormat | None,
        typer.Option(help="The format of the events, if their names have no known ending."),
    ] = None,
    written: Annotated[
        Written, typer.Option("--write", help="The format of the matches.")
    ] = Written.PARQUET,
    output: Annotated[
        Output, typer.Option(help="A row for each match, each event or each subscription.")
    ] = Output.PAIRS,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Match nothing if a subscription or event is bad.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan and match nothing.")
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Match new files with a store until interrupted.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="With --stream: stop when all present files are matched.")
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="With --stream: its checkpoint; by default OUT/_checkpoint."
        ),
    ] = None,
) -> int:
    """Match events with subscriptions on Spark, and write the matches.

    Events are JSON lines, CSV with a header, or Parquet. Subscriptions are the files of tidings
    check, Parquet, or a store. The command counts and shows bad events and subscriptions and leaves
    them out; it writes the bad events to OUT/_rejected.

    Exits with 0 if the matches are written, 1 with --strict if a subscription or event is bad, 2 if
    the job could not be carried out.

    \b
    Example:
      tidings match --events day.jsonl --subscriptions alerts.csv --out matches
      tidings match --stream --events incoming --subscriptions store --out matches
    """
    debug = bool(context.find_root().params.get("debug"))
    if out is None and not explain:
        raise typer.BadParameter("say where the matches go: --out PATH")
    if (once or checkpoint is not None) and not stream:
        raise typer.BadParameter("--once and --checkpoint are for --stream")
    if stream and (len(events) != 1 or output != "pairs" or overwrite or explain or strict):
        raise typer.BadParameter(
            "--stream takes one folder of events and writes pairs, without --overwrite, --explain "
            "and --strict"
        )
    _check_paths(events, subscriptions, None if overwrite or stream else out)
    require(*SPARK)
    watch = _Watch()
    try:
        with _spark(master, debug, watch) as spark:
            if stream:
                assert out is not None
                return _follow(
                    spark, watch, events[0], subscriptions, out,
                    checkpoint or os.path.join(out, "_checkpoint"), format, written, once,
                )  # fmt: skip
            from tidings.spark import job

            sources = job.open_sources(
                spark, events, subscriptions, format=format, strict=strict, phase=watch.phase
            )
            if explain:
                watch.close()
                write(job.explain(sources, output.value))
                return 0
            assert out is not None
            summary = job.run(
                spark, sources, out, output=output.value, written=written.value,
                overwrite=overwrite, phase=watch.phase,
            )  # fmt: skip
            watch.close()
            _show(summary, out, watch)
            return 0
    except KeyboardInterrupt:
        watch.close()
        complain(f"tidings match: interrupted after {watch.seconds():.0f} s ({watch.doing})")
        return INTERRUPTED
    except Exception as error:
        watch.close()
        if debug:
            raise
        return _report(error)


def _check_paths(events: list[str], subscriptions: str, new: str | None) -> None:
    """Refuse missing inputs and an existing output before Spark starts; it checks URLs itself."""
    for path in (*events, subscriptions):
        if "://" not in path and "*" not in path and not os.path.exists(path):
            raise typer.BadParameter(f"{path}: no such file or folder")
    if new is not None and os.path.isdir(new) and not os.listdir(new):
        os.rmdir(new)  # an interrupted job left it
    if new is not None and "://" not in new and os.path.exists(new):
        raise typer.BadParameter(f"{new} exists already; name another, or --overwrite it")


@contextmanager
def _spark(master: str | None, debug: bool, watch: _Watch) -> Iterator[Any]:
    """A session; stops it at the end unless it was active before."""
    from tidings.spark.job import session_is_active, start

    if session_is_active():
        spark = start(master, {})
        watch.look_at(spark)
        yield spark
        return
    with watch.phase("start Spark"), _errors_aside(debug):
        spark = start(master, OPTIONS)
    watch.look_at(spark)
    try:
        yield spark
    finally:
        watch.close()
        spark.stop()


@contextmanager
def _errors_aside(debug: bool) -> Iterator[None]:
    """Start Java with its standard error closed; our own line says what went wrong."""
    if debug:
        yield
        return
    logging.getLogger().addHandler(logging.NullHandler())  # or py4j logs to standard error
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _report(error: Exception) -> int:
    """One line for a mistake of the user's or an error of Spark's; any other is raised again."""
    from tidings.language.explanation import printable
    from tidings.spark.failures import explained, is_sparks

    if is_sparks(error):
        complain(f"tidings match: {printable(explained(error))} (tidings --debug shows the trace)")
        return 2
    if not isinstance(error, ValueError):
        raise error
    first, *more = str(error).splitlines()
    complain(f"tidings match: {printable(first)}")
    for line in more:
        complain(printable(line))
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return 1 if kinds & {"SubscriptionsRejected", "EventsRejected"} else 2


# Streams


def _follow(
    spark: Any,
    watch: _Watch,
    events: str,
    store: str,
    out: str,
    checkpoint: str,
    format: EventFormat | None,
    written: Written,
    once: bool,
) -> int:
    from tidings.spark import job
    from tidings.spark.stream import batches

    query = job.follow(
        spark, events, store, out, checkpoint=checkpoint, format=format,
        written=written.value, once=once, files_a_batch=FILES_A_BATCH,
    )  # fmt: skip
    first = max((batch.batch for batch in batches(checkpoint) if batch.done), default=-1)
    shown = first

    def tell() -> None:
        nonlocal shown
        for batch in batches(checkpoint):
            if batch.done and batch.batch > shown:
                shown = batch.batch
                watch.hide()
                bad = f", {batch.rejected} rejected" if batch.rejected else ""
                write(f"batch {batch.batch}: version {batch.version}, "
                      f"{count(batch.events or 0, 'event')}, "
                      f"{count(batch.matches or 0, 'match')}{bad}")  # fmt: skip

    stopped = threading.Event()
    # Not as an exception: it could break a call to Java in the middle.
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    try:
        while query.isActive and not stopped.wait(PULSE_S):
            tell()
        if stopped.is_set():
            watch.hide()
            complain("tidings match: stopping after this batch")
            patience = time.monotonic() + IDLE_S
            while _in_a_batch(query) and time.monotonic() < patience:
                time.sleep(PULSE_S / 10)
            query.stop()
        query.awaitTermination()  # raises the error that ended it
    finally:
        signal.signal(signal.SIGINT, before)
    tell()
    watch.close()
    write(f"{count(shown - first, 'batch')}; run it again to continue from {checkpoint}")
    return 0


def _in_a_batch(query: Any) -> bool:
    return bool(query.isActive and query.status["isTriggerActive"])


# The summary


def _show(summary: Summary, out: str, watch: _Watch) -> None:
    from tidings.language.explanation import printable

    facts = [
        ("events", summary.events),
        ("subscriptions", summary.subscriptions),
        ("matches", summary.matches),
    ]
    for name, number in facts:
        write(f"{name:14} {number:>14,}")
    for what, number, samples in (
        ("events", summary.rejected_events, summary.event_samples),
        ("subscriptions", summary.rejected_subscriptions, summary.subscription_samples),
    ):
        if not number:
            continue
        write(colour(f"{'rejected':14} {number:>14,} {what[:-1] if number == 1 else what}", "red"))
        for sample in samples:
            write(f"  {printable(sample.what)[:WIDTH]}: {printable(sample.reason)[:WIDTH]}")
        if number > len(samples):
            write(f"  … {number - len(samples):,} more")
    if summary.unknown:
        names = ", ".join(map(printable, summary.unknown))
        write(colour(f"no column is named {names}, which subscriptions ask about"[:WIDTH], "red"))
    if summary.busiest:
        write("busiest subscriptions")
        for id, number in summary.busiest:
            noun = "event" if number == 1 else "events"
            write(f"  {printable(str(id)):40} {number:>12,} {noun}"[:WIDTH])
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in watch.phases.items())
    write(f"time: {times}")
    write(f"matches are in {printable(out)}")


class _Watch:
    """Times the phases of a job, and on a terminal shows the current one and Spark's progress."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.phases: dict[str, float] = {}
        self.doing = "start"
        self._spark: Any = None
        self._status: Any = None
        self._terminal: TextIO | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def seconds(self) -> float:
        return time.monotonic() - self.started

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        self.doing = name
        if self._thread is None and sys.stderr.isatty():
            # A copy of standard error, which is closed while Java starts.
            self._terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w")
            self._thread = threading.Thread(target=self._pulse, daemon=True)
            self._thread.start()
        yield
        self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - begun

    def look_at(self, spark: Any) -> None:
        self._spark = spark

    def hide(self) -> None:
        """Clear the line for other output."""
        status, self._status = self._status, None
        if status is not None:
            status.stop()

    def close(self) -> None:
        """Stop to show progress."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.hide()
        if self._terminal is not None:
            self._terminal.close()
            self._terminal = None

    def _pulse(self) -> None:
        from rich.console import Console

        console = Console(file=self._terminal)
        while not self._ending.wait(PULSE_S):
            text = self._text()
            if self._status is None:
                self._status = console.status(text)
                self._status.start()
            else:
                self._status.update(text)

    def _text(self) -> str:
        from tidings.spark.progress import running_stages

        stages = running_stages(self._spark) if self._spark is not None else []
        done, tasks = sum(s.done for s in stages), sum(s.tasks for s in stages)
        rows = sum(s.rows for s in stages)
        far = f": {done} of {tasks} tasks, {rows:,} rows" if tasks else ""
        return f"{self.doing}{far} ({self.seconds():.0f} s)"
