"""Checks of workloads in a report: measured and expected values, and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpubench.evidence import physics_results
from gpubench.evidence.physics_results import CheckResults, CheckRun, Finding
from gpubench.report import formats
from gpubench.report.figures import Chart, Curve, Scale, panel
from gpubench.report.machines import when
from gpubench.report.pages import Item, Page, Section, Table, words
from gpubench.report.vega import draw_all

_KINDS = {"linear": "linear", "log": "number"}
_DASHES = {"measured": 0, "fit": 1, "theory": 2}


def page(found: Sequence[CheckResults]) -> Page:
    """Return the page of all runs of checks, in the given order."""
    lead = _agree([run for results in found for run in results.checks], " of the physics")
    sections = [_section(index, results) for index, results in enumerate(found, 1)]
    return Page("checks", "Checks of the physics", f"{lead}.", sections)


def _agree(runs: Sequence[CheckRun], of: str = "") -> str:
    counts = Counter(verdict for run in runs for verdict in run.verdicts)
    compared = counts["agrees"] + counts["differs"]
    return f"{counts['agrees']} of {compared} quantities{of} agree with their reference"


def _section(index: int, found: CheckResults) -> Section:
    slug = f"checks-{found.family}-{index}"
    device = found.environment["device"]
    figures = (figure for run in found.checks for figure in run.figures)
    said, *more = _sentences(found)
    return Section(
        title=f"{found.family}, {device['name']}",
        level=2,
        slug=slug,
        style="abreast",
        verdict=said,
        sentences=[*more, f"Run {when([found.environment])}."],
        measured=[found.environment],
        tables=[_table(run) for run in found.checks],
        figures=draw_all(_chart(f"{slug}-{figure.slug}", figure) for figure in figures),
        command=f"gpubench check {found.family}{' --long' if found.size == 'long' else ''}"
        f" --device {device['backend']}",
    )


def _sentences(found: CheckResults) -> list[str]:
    recorded = sum(verdict == "recorded" for run in found.checks for verdict in run.verdicts)
    said = [
        f"{_agree(found.checks)}; {recorded} have none and are recorded. A quantity agrees where it"
        f" is within the reference's tolerance and {physics_results.SIGMAS} standard errors of its"
        " own."
    ]
    said += [f"{run.name} came to no end: {run.failure}." for run in found.checks if run.failure]
    if found.size == "quick":
        said.append("These are the quick sizes, whose errors are large.")
    return said


def _table(run: CheckRun) -> Table:
    values = ((n, v if isinstance(v, list) else [v]) for n, v in run.setting.items())
    told = ((name.replace("_", " "), map(formats.plain, own)) for name, own in values)
    setting = ", ".join(f"{name} {formats.listing(own)}" for name, own in told)
    return Table.of(
        run.question,
        run.findings,
        ("Quantity", lambda finding: finding.quantity),
        {
            "Measured": lambda finding: finding.written,
            "Reference": _expected,
            "Verdict": lambda f: Item(f.verdict, "words", strong=f.verdict == "differs"),
            "Source and notes": lambda f: words(
                "; ".join(filter(None, (f.reference.source if f.reference else "", f.note)))
            ),
        },
        notes=[f"{run.name}: {setting}."],
    )


def _expected(finding: Finding) -> str:
    if (reference := finding.reference) is None:
        return formats.DASH
    within = f" ± {reference.tolerance:g}" if reference.tolerance else ""
    return f"{reference.value:.4g}{within}"


def _chart(slug: str, figure: physics_results.Figure) -> Chart:
    x, y = (Scale(axis.label, _KINDS[axis.scale]) for axis in (figure.x, figure.y))
    panels = []
    for found in figure.panels:
        lines = []
        for index, s in enumerate(found.series):
            dash, is_own = _DASHES[s.role], s.role == "measured"
            lines.append(Curve.through(s.label, s.x, s.y, index, variant=dash, marked=is_own))
        what = f"{figure.title} against {figure.x.label}"
        panels.append(panel(found.title, lines, what, figure.y.label))
    return Chart(slug, figure.title, figure.caption, x, y, panels)
