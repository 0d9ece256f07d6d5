"""The charts of a study that its records allow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from gpubench.evidence.ranking import Subject
from gpubench.report import formats, ranks, tables
from gpubench.report.axes import AXES, SIZES
from gpubench.report.cells import MODES, Cell, grouped
from gpubench.report.figures import (
    MOST_LINES,
    Axis,
    Bar,
    BarChart,
    BarPanel,
    Chart,
    Line,
    Panel,
    Point,
    line_chart,
    panel,
    time_point,
)
from gpubench.report.machines import StudyRun
from gpubench.report.scans import Scan, rankings, scans

_MOST_BARS = 100  # in one panel
_NAMED = {
    "setting": ("Effect of a parameter", "The same workload with other values of a parameter."),
    "order": (
        "Effect of the initial order",
        "The same particles given in another order: at random, in cell order with 1 % swapped,"
        " along a Morton curve of the cells, in cell order.",
    ),
    "distribution": (
        "Effect of the distribution",
        "As many particles in as many cells, distributed in other ways.",
    ),
    "record_bytes": ("Effect of the record size", "As many records, each of more bytes."),
    "nulls": ("Effect of how nulls are marked", "By a value of the record, or beside it."),
    "key_order": ("Effect of the order of keys", "As many keys, in other orders."),
    "key_type": ("Effect of the type of keys", "As many keys, of other types."),
    "inputs": (
        "Effect of inputs that take turns",
        "The same work on one input again and again, and on several of as many particles in turn,"
        " none of which finds its own data in the cache if together they do not fit.",
    ),
}
Columns = Sequence[tuple[float, Sequence[Cell]]]


def charts(run: StudyRun, slug: str) -> list[Chart | BarChart]:
    """Return the figures of a study that its records allow."""
    made = [
        _phases(run, slug),
        ranks.chart(run, slug),
        *_times(run, slug),
        *(_named(run, slug, axis) for axis in _NAMED),
    ]
    return [chart for chart in made if chart is not None]


def _phases(run: StudyRun, slug: str) -> BarChart | None:
    """Draw what each step is made of.

    There is a panel for each size, and for each scan along the skin or the time step; or where
    there are more sizes than algorithms, for each algorithm.
    """
    panels = []
    sized: list[Cell] = []
    several = len(run.values("workload")) > 1
    for scan in scans(run):
        ranked = [(r.value, r.cells) for r in rankings(run, scan)]
        cells = [cell for _, at_value in ranked for cell in at_value]
        if scan.axis != "particles":
            tried = Counter(cell.subject for cell in cells)
            varied = [cell for cell in cells if tried[cell.subject] > 1]
            panels.append(_bars(run, scan.title(), varied, scan.axis))
        elif run.has_many_sizes:
            sized += cells
        else:
            where = f"{scan.fixed['workload']}, " if several else ""
            panels += [_bars(run, where + AXES[scan.axis].say(value), own) for value, own in ranked]
    by_subject = grouped(sized, lambda cell: (cell.place.workload if several else "", cell.subject))
    panels += [
        _bars(run, ", ".join(filter(None, (workload, run.labels[s]))), own)
        for (workload, s), own in by_subject.items()
    ]
    shown = [panel for panel in panels if panel.bars]
    first = "By size" if by_subject else "Fastest step first"
    if run.study.phases == "share":
        title, label = "Share of each task in a step", "% of the step"
        caption = (
            "How the time of a step is divided into its phases, timed by device events; behind each"
            f" bar stands the time of the step. {first}."
        )
    else:
        title, label = "Phases of a step", "ns per particle and step"
        caption = (
            "The time of a step over the number of particles, divided as its phases are."
            f" {first}, each panel on a scale of its own; bars with an arrow are cut off."
            " Phases are timed by themselves after the step, so they do not add up to it exactly."
        )
    made = BarChart(f"{slug}-phases", title, caption, label, run.phases, shown)
    return made if shown else None


def _bars(run: StudyRun, title: str, cells: Sequence[Cell], along: str = "skin") -> BarPanel:
    """Draw steps; along: an axis on which they may differ besides their sizes."""
    varies = len({getattr(cell.place, along) for cell in cells}) > 1
    are_shares = run.study.phases == "share"
    bars = []
    if not run.has_many_sizes and along != "time_step":
        cells = sorted(cells, key=lambda cell: cell.median_ms)
    if len(cells) > _MOST_BARS:
        every = len(cells)
        cells = cells[:: math.ceil(every / _MOST_BARS)]
        title += f" ({len(cells)} of {every:,})"
    for cell in cells:
        label = run.labels[cell.subject]
        if run.has_many_sizes:
            label = AXES["particles"].write(cell.place.particles)
        if varies:
            label += f", {AXES[along].say(getattr(cell.place, along))}"
        per_particle = 1e6 * cell.median_ms / (cell.place.particles or 1)  # nanoseconds
        length = 100.0 if are_shares else per_particle
        parts = [length * (cell.phase_share(name) or 0.0) for name in run.phases]
        if any(parts):
            text = f"{formats.significant(cell.median_ms)} ms" if are_shares else ""
            bars.append(Bar(label, parts, text))
    unit = "Time of the step" if are_shares else "ns per particle and step"
    lengths = ", ".join(
        f"{bar.label} {bar.text or formats.significant(sum(bar.parts))}" for bar in bars
    )
    return BarPanel(title, bars, f"Phases of a step, {title}. {unit}: {lengths}.")


def _times(run: StudyRun, slug: str) -> list[Chart | None]:
    """Draw time against each axis that a study goes along, with a panel for each scan."""
    along = scans(run)
    if along and along[0].axis == "per_cell" and len(run.values("particles")) > 1:
        along = [Scan("particles", {"per_cell": p}) for p in run.values("per_cell")]
    made: list[Chart | None] = []
    for name, own in grouped(along, lambda scan: scan.axis).items():
        what = f"Time against {AXES[name].label}"
        made.append(
            line_chart(
                f"{slug}-time" if not made else f"{slug}-time-{formats.slug(name)}",
                what,
                "Bands are the 95 % intervals of the medians.",
                Axis(AXES[name].label, AXES[name].kind),
                _time_axis(run),
                _panels(run, own, what),
            )
        )
    return made


def _panels(run: StudyRun, along: Sequence[Scan], what: str) -> list[Panel]:
    """Return a panel for each scan, but for those with more lines than can be told apart."""
    made = [
        panel(title, _lines(run, _columns(run, scan)), what, tables.unit_name(run.unit))
        for scan, title in zip(along, _titles(along), strict=True)
    ]
    return [each for each in made if len(each.lines) <= MOST_LINES]


def _named(run: StudyRun, slug: str, axis: str) -> Chart | None:
    """Draw time against an axis whose values are names, a panel for each size."""
    names_of_sizes = [name for name in SIZES if run.values(name)]
    places = [place for _, place in run.cells]
    found = {getattr(place, axis) for place in places}
    if axis != "inputs":  # there None is one input
        found -= {None}
    names = AXES[axis].order([getattr(p, axis) for p in places if getattr(p, axis) in found])
    if len(names) < 2:
        return None
    panels = []
    measured = {tuple(getattr(place, name) for name in names_of_sizes) for place in places}
    for values in sorted(each for each in measured if None not in each):
        at = dict(zip(names_of_sizes, values, strict=True))
        columns: Columns = [(i, run.at(**at, **{axis: name})) for i, name in enumerate(names)]
        columns = _in_common_modes(columns)
        if sum(any(cell.ok for cell in cells) for _, cells in columns) < 2:
            continue
        lines = [line for line in _lines(run, columns) if len(line.points) > 1]
        title = ", ".join(AXES[name].say(value) for name, value in at.items())
        what = f"Time against {AXES[axis].label}"
        panels.append(panel(title, lines, what, tables.unit_name(run.unit)))
    title, caption = _NAMED[axis]
    short = AXES[axis].names or {}
    x = Axis("", "names", tuple(short.get(name, formats.plain(name)) for name in names))
    return line_chart(f"{slug}-{formats.slug(axis)}", title, caption, x, _time_axis(run), panels)


def _in_common_modes(columns: Columns) -> list[tuple[float, list[Cell]]]:
    """Take the cells of each subject in one mode, in which all that have a time were timed."""
    timed = (cell for _, cells in columns for cell in cells if cell.ok)
    modes = {
        subject: next((m for m in MODES if all(c.is_timed(m) for c in own)), None)
        for subject, own in grouped(timed, lambda cell: cell.subject).items()
    }
    return [
        (x, [c.modes[mode] for c in cells if c.ok and (mode := modes[c.subject]) is not None])
        for x, cells in columns
    ]


def _titles(along: Sequence[Scan]) -> list[str]:
    """Name each scan by what tells it from the others, by its sizes where it is alone."""
    names = list(dict.fromkeys(name for scan in along for name in scan.fixed))
    telling = [n for n in names if len({scan.fixed.get(n) for scan in along}) > 1]
    telling = telling or [name for name in names if name in SIZES]
    return [
        ", ".join(AXES[name].say(scan.fixed[name]) for name in telling if name in scan.fixed)
        for scan in along
    ]


def _columns(run: StudyRun, scan: Scan) -> Columns:
    found = [(value, scan.at(run, value)) for value in scan.values(run) if value is not None]
    return _in_common_modes(found) if scan.axis == "time_step" else found


def _time_axis(run: StudyRun) -> Axis:
    return Axis(f"median time, {tables.unit_name(run.unit)}", "number")


def _lines(run: StudyRun, columns: Columns) -> list[Line]:
    """Make one line for each subject from the times of the cells at each x."""
    found: dict[Subject, list[Point]] = {}
    for x, cell in ((x, cell) for x, cells in columns for cell in cells):
        if cell.ok and cell.median_ms:
            point = time_point(x, cell, 1 / cell.unit_ms(run.unit))
            found.setdefault(cell.subject, []).append(point)
    return [
        Line(run.labels[subject], found[subject], *_look(run, subject))
        for subject in run.subjects
        if subject in found
    ]


def _look(run: StudyRun, subject: Subject) -> tuple[int, int]:
    """Return a subject's colour, that of its algorithm or full sort, and its dashes, its own."""
    hues = [run.full_sorts.get(s.algorithm, s.algorithm) for s in run.subjects]
    own = run.full_sorts.get(subject.algorithm, subject.algorithm)
    siblings = [s for s, hue in zip(run.subjects, hues, strict=True) if hue == own]
    return list(dict.fromkeys(hues)).index(own), siblings.index(subject)
