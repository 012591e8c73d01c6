"""`tidings lab`: the results of the papers, measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.extras import GRAPHS, SPARK, require
from tidings.cli.terminal import colour, complain, progress_bar, write

if TYPE_CHECKING:
    from tidings.lab.experiment import Experiment, Setting

FOLDER = Path("results")
REPORT = Path("report.html")
COLOURS = {"agrees": "green", "does not agree": "red"}

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
)

Results = Annotated[Path, typer.Option(metavar="PATH", help="The folder of results.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Smaller parameters: minutes instead of an hour or more.")
]
Tiny = Annotated[
    bool, typer.Option("--tiny", help="The smallest parameters, only to show that it works.")
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Experiments; by default all."),
]


@app.callback()
def measure_again(context: typer.Context) -> int:
    """Run the experiments of the papers on Spark, and report their results."""
    if context.invoked_subcommand is None:
        write(context.get_help())
    return 0


@app.command("list")
def list_parts(
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object a line.")] = False,
) -> int:
    """List every part of the five papers, and the tests and experiments that show that it works.

    \b
    Example:
      tidings lab list
    """
    from tidings.lab.parts import PAPERS, PARTS

    if as_json:
        for part in PARTS.values():
            row = {"id": part.id, "title": part.title, "works": part.works}
            write(json.dumps(row | {"shown_by": list(part.shown_by)}))
        return 0
    for letter, paper in PAPERS.items():
        write(f"{letter}: {paper}")
        for part in PARTS.values():
            if part.id[0] == letter:
                state = colour("works  ", "green") if part.works else "not yet"
                write(f"  {part.id:4} {state} {part.title}")
                for shown in part.shown_by:
                    write(f"               {shown}")
    works = sum(part.works for part in PARTS.values())
    write(f"{works} of {len(PARTS)} parts work")
    return 0


@app.command()
def run(
    context: typer.Context,
    names: Names = None,
    quick: Quick = False,
    tiny: Tiny = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's master; by default this machine.")
    ] = None,
    results: Results = FOLDER,
    shared: Annotated[
        bool, typer.Option("--shared", help="All machines of the cluster see the results' folder.")
    ] = False,
) -> int:
    """Run experiments on Spark and keep their results.

    A result that was measured with the same parameters and the same code is kept and not measured
    again, so an interrupted run continues where it stopped. Experiments that measure time run one
    task at a time; leave the machine idle otherwise. On a cluster whose machines see the folder of
    results, say so by --shared: then all rows run in one job, and tasks store their results.

    Exits with 0, 1 if a row failed (the results keep its error), 2 if there is no such experiment
    or Spark does not start.

    \b
    Examples:
      tidings lab run --quick
      tidings lab run u8-figures6-7 u7-figure5
    """
    chosen = _chosen("run", names)
    setting = _setting("run", quick, tiny)
    if chosen is None or setting is None:
        return 2
    require(*SPARK, *GRAPHS)
    try:
        failed = _run_all(chosen, setting, master, results, shared)
    except Exception as error:
        if context.find_root().params.get("debug"):
            raise
        return _report(error)
    return 1 if failed else 0


def _run_all(
    chosen: list[Experiment], setting: Setting, master: str | None, results: Path, shared: bool
) -> int:
    """Run experiments, and return how many rows failed."""
    from tidings.lab.run import run_all
    from tidings.spark.job import session_is_active
    from tidings.spark.sessions import session

    failed = 0
    with progress_bar() as step:
        step("starting Spark", 0, 1)
        ours = not session_is_active()
        spark = session(master)
        try:
            if not (master or "local").startswith("local"):
                from tidings.spark.shipping import ship

                ship(spark)
            sweeps = [(experiment, experiment.sweep(setting)) for experiment in chosen]
            for experiment, found in run_all(spark, sweeps, results, step, shared or None):
                before = f", {found.known} known before" if found.known else ""
                bad = colour(f", {found.failed} failed", "red") if found.failed else ""
                write(
                    f"{experiment.name:14} {found.rows} rows{before}{bad} ({found.seconds:.0f} s)"
                )
                failed += found.failed
        finally:
            if ours:
                spark.stop()
    return failed


@app.command()
def report(
    names: Names = None,
    quick: Quick = False,
    tiny: Tiny = False,
    results: Results = FOLDER,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file to write.")] = REPORT,
) -> int:
    """Write the results of experiments as one HTML file that loads nothing from the network.

    Reads the results that tidings lab run kept for the same setting, and runs nothing.

    \b
    Example:
      tidings lab report --quick --out report.html
    """
    chosen = _chosen("report", names)
    setting = _setting("report", quick, tiny)
    if chosen is None or setting is None:
        return 2
    from tidings.lab.report import other_code, verdict, write_report

    sections = write_report(results, chosen, setting, out)
    for section in sections:
        write(f"{section.experiment.name}: {section.experiment.title}")
        if section.trouble:
            write(colour(f"  {section.trouble}", "red"))
        for claim in section.claims:
            shown = colour(f"{verdict(claim):16}", COLOURS.get(verdict(claim), "yellow"))
            write(f"  {shown}  {claim.statement}")
            write(f"                    {claim.measured}")
    for section in other_code(sections):
        complain(f"{section.experiment.name} was measured by code that has changed since")
    write(f"the report is {out}")
    return 0


def _chosen(command: str, names: list[str] | None) -> list[Experiment] | None:
    from tidings.lab.catalogue import EXPERIMENTS
    from tidings.language.explanation import printable

    unknown = [name for name in names or () if name not in EXPERIMENTS]
    if unknown:
        known = ", ".join(EXPERIMENTS)
        complain(
            f"tidings lab {command}: expected some of {known}, found {printable(unknown[0])!r}"
        )
        return None
    return [EXPERIMENTS[name] for name in names or EXPERIMENTS]


def _setting(command: str, quick: bool, tiny: bool) -> Setting | None:
    if quick and tiny:
        complain(f"tidings lab {command}: expected --quick or --tiny, found both")
        return None
    return "quick" if quick else "tiny" if tiny else "full"


def _report(error: Exception) -> int:
    """One line for an error of Spark or Java; any other is raised again."""
    from tidings.language.explanation import printable
    from tidings.spark.failures import explained, is_sparks

    if not is_sparks(error):
        raise error
    complain(f"tidings lab: {printable(explained(error))} (tidings --debug shows the trace)")
    return 2
