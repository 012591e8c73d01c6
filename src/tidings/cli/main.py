"""The command `tidings`: it puts the commands together, and turns errors into one line each.

A command is a function that returns its exit code: 0 for success, 1 for bad data of the user's, 2
if the command could not be carried out. Every error is one line on standard error that ends in a
hint; `--debug` shows the trace instead. A command imports what it needs when it runs, so that help
is fast.
"""

from __future__ import annotations

import os
import sys
from itertools import takewhile
from typing import Annotated

import typer

from tidings.cli.check import check
from tidings.cli.explain import explain
from tidings.cli.extras import advice
from tidings.cli.lab import app as lab
from tidings.cli.match import match
from tidings.cli.network import status, trace, why
from tidings.cli.plan import plan
from tidings.cli.publish import publish, subscribe
from tidings.cli.serve import serve, up
from tidings.cli.simulate import simulate
from tidings.cli.store import app as store
from tidings.cli.terminal import INTERRUPTED, OutputClosed, complain, write
from tidings.cli.topology import topology
from tidings.cli.translate import translate

OUTPUT_CLOSED = 141  # 128 and the number of SIGPIPE
BUG = 70  # EX_SOFTWARE of sysexits

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def tidings(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traces of errors.")] = False,
) -> int:
    """Content-based publish/subscribe: a subscription is a predicate on the content of events.

    \b
    Example:
      tidings explain "severity > 2" --event '{"severity": 3}'
    """
    if version:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        try:
            write(f"tidings {installed('tidings')}")
        except PackageNotFoundError:
            write("tidings (not installed, run from its source)")
        raise typer.Exit
    if context.invoked_subcommand is None:
        write(context.get_help())
    return 0


app.command()(check)
app.command()(explain)
app.command()(simulate)
app.command()(topology)
app.command()(plan)
app.command()(match)
app.command()(translate)
for live in (serve, up, publish, subscribe, trace, why, status):
    app.command()(live)
app.add_typer(store, name="store")
app.add_typer(lab, name="lab")


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; the entry of the console script."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in takewhile(lambda argument: argument.startswith("-"), given)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # write escapes for what the encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(given)
        sys.stdout.flush()
    except (OutputClosed, BrokenPipeError):
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if debug:
            raise
        return _report(error)
    return code if isinstance(code, int) else 0


def _run(given: list[str]) -> object:
    """Run a command; `app` itself would make a silent exit code of an interrupt."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("tidings", list(given)) as context:
            return command.invoke(context)
    except typer.Exit as done:
        return done.exit_code


def _report(error: Exception) -> int:
    """One line for an error, and the exit code."""
    from tidings.language.explanation import printable

    # A mistake in the command line. Typer has its own Click or uses the installed one; the bases of
    # its error are the right class in both cases.
    if isinstance(error, typer.BadParameter.__bases__):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "tidings"
        message = printable(" ".join(error.format_message().split())).rstrip(".")  # type: ignore[attr-defined]
        complain(f"{command}: {message} (see {command} --help)")
        return 2
    if isinstance(error, OSError):
        complain(f"tidings: {printable(str(error))} (tidings --debug shows the trace)")
        return 2
    if isinstance(error, ModuleNotFoundError) and (needed := advice(error)) is not None:
        complain(f"tidings: {needed}")
        return 2
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    complain(f"tidings: a bug in Tidings: {printable(summary)} (tidings --debug shows the trace)")
    return BUG


if __name__ == "__main__":
    sys.exit(main())
