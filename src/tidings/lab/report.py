"""Writes the report from stored results: one HTML file that opens without a network.

A conclusion comes first: the statements of each paper, each counted once, and what does not hold.
For each experiment it shows the question, the figure, the paper's statements beside the
measurements, the parameters, the machine, the code and the command that repeats it. At the end it
lists every part of the five papers, those that work first.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from tidings.lab.code import commit
from tidings.lab.experiment import BEYOND, Claim, Experiment, Parameters, Setting
from tidings.lab.figures import picture
from tidings.lab.parts import PAPERS, PARTS
from tidings.lab.results import Found, find

AGREES, FAILS, READING, OPEN, TIME, OURS = (
    "agrees",
    "does not agree",
    "depends on the reading",
    "undecided",
    "not comparable",
    BEYOND,
)
CLASSES: Final = {  # of the style sheet
    AGREES: "yes", FAILS: "no", READING: "some", OPEN: "open", TIME: "open", OURS: "open",
}  # fmt: skip
COUNTED: Final = (AGREES, FAILS, READING, TIME, OPEN)  # as the summary of a paper lists them
MANY: Final = {AGREES: "agree", FAILS: "do not agree", READING: "depend on the reading"}
SHOWN_ERRORS: Final = 5
MAX_VALUES: Final = 12  # of a parameter that the report lists


class Section(NamedTuple):
    """An experiment in the report."""

    experiment: Experiment
    found: Found
    claims: list[Claim]
    figure: str  # SVG; empty if it could not be drawn
    trouble: str  # why claims and figure are missing


def write_report(
    folder: Path, experiments: Iterable[Experiment], setting: Setting, to: Path
) -> list[Section]:
    """Write the report of a setting, from the results in a folder."""
    sections = [_section(folder, experiment, setting) for experiment in experiments]
    to.parent.mkdir(parents=True, exist_ok=True)
    draft = to.with_name(f".{to.name}.draft")
    draft.write_text(_page(sections, setting), encoding="utf-8")
    draft.replace(to)
    return sections


def _section(folder: Path, experiment: Experiment, setting: Setting) -> Section:
    found = find(folder, experiment, experiment.sweep(setting))
    if not found.rows:
        return Section(experiment, found, [], "", "there are no results yet")
    try:
        claims = experiment.claims(found.rows)
        figure = picture(experiment.draw, found.rows, experiment.name)
    except (IndexError, KeyError, StopIteration, ValueError, ZeroDivisionError) as error:
        why = f"{found.missing} of its rows are not measured yet, {len(found.failed)} failed"
        return Section(experiment, found, [], "", f"{why} ({type(error).__name__}: {error})")
    return Section(experiment, found, claims, figure, "")


# HTML


class Statement(NamedTuple):
    """A statement of a paper, with all claims about it, perhaps of several experiments."""

    paper: str
    text: str
    claims: list[tuple[str, Claim]]  # each with the name of its experiment

    @property
    def verdict(self) -> str:
        verdicts = {verdict(claim) for _, claim in self.claims} - {OPEN}
        if not verdicts:
            return OPEN
        return verdicts.pop() if len(verdicts) == 1 else READING


def verdict(claim: Claim) -> str:
    """The verdict on a claim, in words."""
    if claim.place == BEYOND:
        return OURS
    if not claim.comparable:
        return TIME
    if claim.agrees is None:
        return OPEN
    return AGREES if claim.agrees else FAILS


def statements(sections: Iterable[Section]) -> list[Statement]:
    """What the papers say, each statement once, whatever measures it and in however many readings.

    What no paper says is left out.
    """
    found: dict[tuple[str, str], Statement] = {}
    for section in sections:
        paper = section.experiment.name[0].upper()
        for claim in section.claims:
            if claim.place != BEYOND:
                key = paper, claim.statement
                statement = found.setdefault(key, Statement(*key, []))
                statement.claims.append((section.experiment.name, claim))
    return list(found.values())


def _page(sections: list[Section], setting: Setting) -> str:
    body = [
        "<h1>The papers, measured again</h1>",
        f"<p>{len(sections)} experiments in the setting <b>{setting}</b>{_code(sections)} "
        f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.</p>",
        *_other_code(sections),
        *_conclusion(statements(sections)),
        *_overview(sections),
        *(line for section in sections for line in _article(section, setting)),
        *_parts(),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Tidings: the papers, measured again</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _code(sections: list[Section]) -> str:
    """Which code measured the results: one commit, unless some are by other code."""
    here = commit()
    if not here or not any(section.found.rows for section in sections):
        return "."
    if other_code(sections):
        return f"; the report is written at commit <b>{_text(here)}</b>."
    return f", measured by the code of commit <b>{_text(here)}</b>."


def other_code(sections: Iterable[Section]) -> list[Section]:
    """The experiments whose results were measured by code that has changed since."""
    return [section for section in sections if section.found.rows and not section.found.current]


def _other_code(sections: list[Section]) -> Iterator[str]:
    for section in other_code(sections):
        name, at = section.experiment.name, ", ".join(section.found.commits) or "an unknown commit"
        yield (
            f'<p class="trouble"><a href="#{name}">{name}</a> was measured at {_text(at)}, and the '
            "code that it depends on has changed since.</p>"
        )


def _conclusion(found: list[Statement]) -> Iterator[str]:
    """What holds, what does not, and why."""
    yield "<h2>In short</h2><ul>"
    for paper in sorted({statement.paper for statement in found}):
        counts = Counter(statement.verdict for statement in found if statement.paper == paper)
        text = ", ".join(
            f'<span class="{CLASSES[name]}">{_counted(counts[name], name)}</span>'
            for name in COUNTED
            if counts[name]
        )
        different = (
            "one statement" if counts.total() == 1 else f"{counts.total()} different statements"
        )
        yield f"<li><b>{_text(PAPERS.get(paper, 'no paper'))}</b>: {different}: {text}.</li>"
    yield "</ul>"
    against = [one for one in found if one.verdict in (FAILS, READING)]
    if not against:
        return
    yield "<p>What does not hold here, or not in every reading, and why:</p><ol>"
    for statement in against:
        name, claim = next((n, c) for n, c in statement.claims if verdict(c) == FAILS)
        yield (
            f'<li><a href="#{name}">{_text(statement.text)}</a> <i>({statement.paper}, '
            f"{_text(claim.place)})</i>. {_text(_first_sentence(claim.why or claim.measured))}</li>"
        )
    yield "</ol>"


def _counted(count: int, name: str) -> str:
    """How many statements have a verdict, in words."""
    return f"{count} {name if count == 1 else MANY.get(name, name)}"


def _first_sentence(text: str) -> str:
    """A text up to its first full stop; what a verdict tolerates is no reason."""
    sentences = [one for one in re.split(r"(?<=[.])\s+(?=[A-Z])", text) if one]
    reasons = [one for one in sentences if not one.startswith("Agrees ")]
    return (reasons or sentences)[0]


def _overview(sections: list[Section]) -> Iterator[str]:
    yield "<table><tr><th>experiment</th><th>shows</th><th>statements</th></tr>"
    for section in sections:
        marks = "".join(
            f'<span class="mark {CLASSES[verdict(c)]}" title="{html.escape(c.statement)}"></span>'
            for c in section.claims
        )
        name = section.experiment.name
        title = _text(section.experiment.title)
        yield (
            f'<tr><td><a href="#{name}">{name}</a></td><td>{title}</td>'
            f"<td>{marks or _text(section.trouble)}</td></tr>"
        )
    yield "</table>"


def _article(section: Section, setting: Setting) -> Iterator[str]:
    experiment, found = section.experiment, section.found
    yield f'<article id="{experiment.name}"><h2>{_text(experiment.title)}'
    yield f'<span class="name">{experiment.name}</span></h2>'
    yield f'<p class="question">{_text(experiment.question)}</p>'
    yield f"<p><b>The paper.</b> {_text(experiment.paper)}</p>"
    yield f"<p><b>Here.</b> {_text(experiment.here)}</p>"
    if section.trouble:
        yield f'<p class="trouble">No figure: {_text(section.trouble)}.</p>'
    else:
        yield f"<figure>{section.figure}</figure>"
        yield '<table class="claims"><tr><th>the paper says</th><th>measured</th>'
        yield "<th>verdict</th></tr>"
        for claim in section.claims:
            why = f'<div class="why">{_text(claim.why)}</div>' if claim.why else ""
            yield (
                f"<tr><td>{_text(claim.statement)} <i>({_text(claim.place)})</i></td>"
                f'<td>{_text(claim.measured)}{why}</td><td class="verdict '
                f'{CLASSES[verdict(claim)]}">{verdict(claim)}</td></tr>'
            )
        yield "</table>"
    yield from _about(experiment, found, setting)
    yield "</article>"


def _about(experiment: Experiment, found: Found, setting: Setting) -> Iterator[str]:
    option = "" if setting == "full" else f" --{setting}"
    facts = {
        "parts": ", ".join(experiment.parts),
        "parameters": "; ".join(_parameters(experiment.sweep(setting))),
        "results": f"{len(found.rows):,} rows; {found.missing} rows of parameters not measured, "
        f"{len(found.failed)} failed; {found.seconds:,.0f} s of work",
        "timing": f"one task at a time; the load of the machine was at most {found.load:.1f} when "
        "a row began"
        if experiment.timed
        else "nothing is timed; tasks run side by side",
        "machine": "; ".join(found.machines),
        "commit": (found.current and commit()) or ", ".join(found.commits),
        "code": f"{found.version}" + ("" if found.current else ", which has changed since"),
        "again": f"tidings lab run {experiment.name}{option}",
    }
    yield '<dl class="about">'
    for name, value in facts.items():
        shown = f"<code>{_text(value)}</code>" if name == "again" else _text(value)
        yield f"<dt>{name}</dt><dd>{shown or '-'}</dd>"
    yield "</dl>"
    for row in found.failed[:SHOWN_ERRORS]:
        error = row.pop("error")
        yield f'<p class="trouble">Failed: {_text(json.dumps(row))}: {_text(error)}</p>'


def _parameters(sweep: Iterable[Parameters]) -> Iterator[str]:
    """Each parameter and the values it takes."""
    found: dict[str, dict[str, None]] = {}
    for row in sweep:
        for name, value in row.items():
            many = value if isinstance(value, list) else [value]
            found.setdefault(name, {}).update(dict.fromkeys(map(_number, many)))
    for name, taken in found.items():
        listed = list(taken)
        if len(listed) > MAX_VALUES:
            listed = [*listed[:3], f"… {len(listed) - 4} more …", listed[-1]]
        yield f"{name} = {', '.join(listed)}"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _parts() -> Iterator[str]:
    works = sum(part.works for part in PARTS.values())
    yield f'<article id="parts"><h2>Every part of the five papers</h2><p>{works} of {len(PARTS)} '
    yield "parts work, each shown by a test or an experiment; the others do not exist yet.</p>"
    yield "<table><tr><th>part</th><th></th><th>state</th><th>shown by</th></tr>"
    for part in sorted(PARTS.values(), key=lambda part: not part.works):
        state = "works" if part.works else "not yet"
        shown = "<br>".join(map(_text, part.shown_by))
        kind = "yes" if part.works else "open"
        paper = _text(PAPERS[part.id[0]])
        yield (
            f'<tr><td title="{paper}">{part.id}</td><td>{_text(part.title)}</td>'
            f'<td class="verdict {kind}">{state}</td><td class="shown">{shown}</td></tr>'
        )
    yield "</table></article>"


def _text(text: object) -> str:
    """A text as HTML; what is between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(str(text)))


STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;color:#1c1c1c;background:#fff;max-width:62em;margin:2em
auto; padding:0 1em}
h1{font-size:1.7em}h2{font-size:1.25em;margin:0 0 .3em}
article{border-top:1px solid #ddd;margin-top:2.2em;padding-top:1.4em}
.question{font-size:1.1em;color:#333;margin:.2em 0 .8em}
figure{margin:1em 0}figure svg{width:100%;height:auto;max-height:46em}
table{border-collapse:collapse;width:100%;margin:1em 0}
th,td{text-align:left;vertical-align:top;padding:.45em .7em;border-bottom:1px solid #e4e4e4}
th{font-weight:600;background:#f6f6f6}
.claims{table-layout:fixed}.claims th:first-child{width:27%}.claims th:last-child{width:9.5em}
.name{font:.65em ui-monospace,monospace;color:#777;margin-left:.8em}
.verdict{white-space:nowrap;font-weight:600}
.yes{color:#0a6b45}.no{color:#b3261e}.some{color:#9a6a00}.open{color:#777}
.mark{display:inline-block;width:.8em;height:.8em;border-radius:50%;margin-right:.3em;
background:currentColor}
.why{color:#555;font-size:.92em;margin-top:.3em}
.about{display:grid;grid-template-columns:7em 1fr;gap:.15em 1em;font-size:.88em;color:#444;
overflow-wrap:anywhere}
.about dt{font-weight:600}.about dd{margin:0}
.trouble{color:#b3261e}.shown{font-size:.85em;overflow-wrap:anywhere}
code{background:#f3f3f3;padding:.1em .3em}
@media(max-width:40em){body{margin:1em auto;padding:0 .7em}th,td{padding:.4em .3em}
td{overflow-wrap:anywhere}.verdict{white-space:normal}.about{grid-template-columns:1fr}
.about dd{margin-bottom:.4em}.claims tr:first-child{display:none}
.claims,.claims tbody,.claims tr,.claims td{display:block}.claims td{border:0;padding:.15em 0}
.claims td:first-child{font-weight:600}.claims tr{border-bottom:1px solid #e4e4e4;padding:.5em 0}
figure{overflow-x:auto}figure svg{min-width:36em}}
"""
