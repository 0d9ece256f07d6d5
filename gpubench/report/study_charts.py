"""The charts of a study that its records allow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Collection as Container

from gpubench.report import formats, ranks, tables, verdict
from gpubench.report.axes import AXES, SIZES
from gpubench.report.cells import HEADLINE_MODES, Cell, StudyRun, Subject
from gpubench.report.figures import (
    Axis,
    Bar,
    BarChart,
    BarPanel,
    Chart,
    Line,
    Panel,
    describe,
    line_chart,
)
from gpubench.report.verdict import Scan
from gpubench.studies.claims import CLAIMS

_MOST_LINES = 12  # more in one panel cannot be told apart
_MOST_BARS = 100  # in one panel
_NAMED = {
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
    "inputs": (
        "Effect of inputs that take turns",
        "The same work on one input again and again, and on several of as many particles in turn,"
        " none of which finds its own data in the cache if together they do not fit.",
    ),
}


def charts(run: StudyRun, slug: str) -> list[Chart | BarChart]:
    """Return the figures of a study that its records allow."""
    made = [
        _phases(run, slug),
        _particle_steps(run, slug),
        *ranks.charts(run, slug),
        *_times(run, slug),
        _parameters(run, slug),
        _ratios(run, slug),
        _rounds(run, slug),
        _copy_share(run, slug),
        *(_named(run, slug, axis) for axis in _NAMED),
    ]
    return [chart for chart in made if chart is not None]


def _phases(run: StudyRun, slug: str) -> BarChart | None:
    """Draw what each step is made of.

    There is a panel for each size, and for each scan along the skin; or where there are more
    sizes than algorithms, for each algorithm.
    """
    panels = []
    by_subject: dict[Subject, list[Cell]] = {}
    for scan in verdict.scans(run):
        ranked = [(r.value, r.cells) for r in verdict.rankings(run, scan)]
        cells = [cell for _, at_value in ranked for cell in at_value]
        if scan.axis == "skin":
            tried = Counter(cell.subject for cell in cells)
            skinned = [cell for cell in cells if tried[cell.subject] > 1]
            panels.append(_bars(run, scan.title(), skinned))
        elif run.has_many_sizes:
            for cell in cells:
                by_subject.setdefault(cell.subject, []).append(cell)
        else:
            panels += [_bars(run, AXES[scan.axis].say(value), cells) for value, cells in ranked]
    panels += [_bars(run, run.labels[s], by_subject[s]) for s in run.subjects if s in by_subject]
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
        )
    made = BarChart(f"{slug}-phases", title, caption, label, run.phases, shown)
    return made if shown else None


def _bars(run: StudyRun, title: str, cells: Sequence[Cell]) -> BarPanel:
    skins = len({cell.place.skin for cell in cells}) > 1
    are_shares = run.study.phases == "share"
    bars = []
    if not run.has_many_sizes:
        cells = sorted(cells, key=lambda cell: cell.median_ms)
    if len(cells) > _MOST_BARS:
        every = len(cells)
        cells = cells[:: math.ceil(every / _MOST_BARS)]
        title += f" ({len(cells)} of {every:,})"
    for cell in cells:
        label = run.labels[cell.subject]
        if run.has_many_sizes:
            label = AXES["particles"].write(cell.place.particles)
        if skins:
            label += f", {AXES['skin'].say(cell.place.skin)}"
        per_particle = 1e6 * cell.median_ms / (cell.place.particles or 1)  # nanoseconds
        length = 100.0 if are_shares else per_particle
        parts = [length * (cell.phase_share(name) or 0.0) for name in run.phases]
        if any(parts):
            text = f"{formats.significant(cell.median_ms)} ms" if are_shares else ""
            bars.append(Bar(label, parts, text))
    lengths = ", ".join(
        f"{bar.label} {bar.text or formats.significant(sum(bar.parts))}" for bar in bars
    )
    first = ", ".join(
        f"{name} {formats.significant(part)}{' %' if are_shares else ''}"
        for bar in bars[:1]
        for name, part in zip(run.phases, bar.parts, strict=True)
        if part
    )
    unit = "Time of the step" if are_shares else "ns per particle and step"
    text = f"Phases of a step, {title}. {unit}: {lengths}. Of the first: {first}."
    return BarPanel(title, bars, text)


def _particle_steps(run: StudyRun, slug: str) -> Chart | None:
    """Draw particle-steps per second against the size, with the best form of each algorithm."""
    scans = [scan for scan in verdict.scans(run) if run.is_simulation and scan.axis == "particles"]
    named = dict.fromkeys(subject.algorithm for subject in run.subjects)
    best = {verdict.best_form(run, name) for name in named}
    what = "Particle-steps per second"
    panels = []
    for scan in scans:
        lines = [
            line
            for line in _lines(run, _columns(run, scan), _millions_per_s, only=best)
            if len(line.x) > 1
        ]
        text = describe(
            f"{what} against {AXES[scan.axis].label}", scan.title(), lines, "10⁶ a second"
        )
        panels.append(Panel(scan.title(), lines, text))
    return line_chart(
        f"{slug}-rate",
        f"{what} against particles",
        "Particles times steps over the time of the whole step, for the best form of each"
        " algorithm: higher is better.",
        _figure_axis("particles"),
        Axis("10⁶ particle-steps per second", "number"),
        panels,
    )


def _millions_per_s(cell: Cell) -> float | None:
    rate = cell.particle_steps_per_s
    return rate / 1e6 if rate else None


def _times(run: StudyRun, slug: str) -> list[Chart | None]:
    """Draw time against each axis that a study goes along, with a panel for each scan."""
    scans = verdict.scans(run)
    if scans and scans[0].axis == "per_cell" and len(run.values("particles")) > 1:
        scans = [Scan("particles", {"per_cell": p}) for p in run.values("per_cell")]
    by_axis: dict[str, list[Scan]] = {}
    for scan in scans:
        if run.is_simulation and scan.axis == "particles":
            continue  # particle-steps per second show the same
        by_axis.setdefault(scan.axis, []).append(scan)
    made: list[Chart | None] = []
    for name, along in by_axis.items():
        what = f"Time against {AXES[name].label}"
        panels = []
        for scan, title in zip(along, _titles(along), strict=True):
            lines = _lines(run, _columns(run, scan), _unit_time(run), band=True)
            if len(lines) <= _MOST_LINES:
                panels.append(Panel(title, lines, describe(what, title, lines, _unit(run))))
        made.append(
            line_chart(
                f"{slug}-time" if not made else f"{slug}-time-{formats.slug(name)}",
                what,
                "Bands are the 95 % intervals of the medians." + _crossings(run, name),
                _figure_axis(name),
                _time_axis(run),
                panels,
            )
        )
    return made


def _crossings(run: StudyRun, axis: str) -> str:
    """Name the places where the lines of the rivals cross, if that is what a study is about."""
    found = [
        f"{run.labels[each.subject]} {formats.significant(each.crossing)}"
        for each in verdict.overtakings(run)
        if each.crossing and axis == verdict.scans(run)[0].axis
    ]
    if not found or len(found) > _MOST_LINES:
        return ""
    name = verdict.rivals(run)[0][0].algorithm
    return (
        f" The medians meet those of the best form of {name} near ({AXES[axis].label}):"
        f" {formats.listing(found)}."
    )


def _parameters(run: StudyRun, slug: str) -> Chart | None:
    """Draw time against the parameter with the most values, a line for each set of the others."""
    tried: dict[str, set[float]] = {}
    for subject in run.subjects:
        for name, value in subject.parameters:
            tried.setdefault(name, set()).add(value)
    name = max(tried, key=lambda key: len(tried[key]), default="")
    if len(tried.get(name, ())) < 2:
        return None
    swept = {(s.algorithm, s.form) for s in run.subjects if name in dict(s.parameters)}
    panels = []
    for scan in verdict.scans(run)[:1]:
        for value in scan.values(run):
            points: dict[str, list[tuple[float, float, tuple[float, float]]]] = {}
            cells = scan.at(run, value)
            if not any(name in dict(cell.subject.parameters) for cell in cells):
                continue
            for cell in cells:
                given = dict(cell.subject.parameters)
                if name not in given and (cell.subject.algorithm, cell.subject.form) in swept:
                    continue  # its default is one of the values, but which is not known here
                x = [given.pop(name)] if name in given else sorted(tried[name])
                rest = " ".join(f"{key}={number:.12g}" for key, number in given.items())
                if cell.ok:
                    label = rest or _without_parameters(run, cell.subject)
                    points.setdefault(label, []).extend(
                        (at, cell.median_ms, cell.interval_ms) for at in x
                    )
            lines = [_line(label, sorted(p), i, 0) for i, (label, p) in enumerate(points.items())]
            title = AXES[scan.axis].say(value)
            text = describe(f"Time against {name}", title, lines, "ms")
            panels.append(Panel(title, lines, text))
    return line_chart(
        f"{slug}-parameters",
        f"Time against {name}",
        "One line for each value of the other parameters; what has no parameters is level.",
        Axis(name, "number"),
        _time_axis(run),
        panels,
    )


def _without_parameters(run: StudyRun, subject: Subject) -> str:
    """Name a subject by its algorithm, and by its form where the study has several."""
    forms = {other.form for other in run.subjects if other.algorithm == subject.algorithm}
    return f"{subject.algorithm} {subject.form}" if len(forms) > 1 else subject.algorithm


def _ratios(run: StudyRun, slug: str) -> Chart | None:
    """Draw the ratio of columns of a published table: printed, measured, and as claimed."""
    published = run.study.published
    if published is None or not published.algorithms:
        return None
    grid = verdict.matches(run, published, verdict.best_forms(run, published))
    panels = []
    for pair in verdict.pairs(published):
        printed = [line[pair.over].printed / line[pair.under].printed for line in grid]
        lines = [Line("printed", published.rows, printed, colour=5, variant=1)]
        ratios = [verdict.measured_ratio(line[pair.over], line[pair.under]) for line in grid]
        both = [(x, y) for x, y in zip(published.rows, ratios, strict=True) if y is not None]
        if not both:
            continue
        xs, ys = zip(*both, strict=True)
        lines.append(Line("measured", xs, ys))
        if run.study.name in CLAIMS:
            name, claim = CLAIMS[run.study.name]
            claimed = [claim(row) for row in published.rows]
            lines.append(Line(name, published.rows, claimed, colour=1, variant=2))
        title = f"{published.columns[pair.over]} / {published.columns[pair.under]}"
        panels.append(Panel(title, lines, describe("Ratio of two columns", title, lines, "ratio")))
    return line_chart(
        f"{slug}-ratio",
        "Ratio of the columns, printed and measured",
        "The time of one printed column divided by that of another, and the same of the best"
        " forms measured here.",
        _figure_axis(published.row_axis),
        Axis("ratio of times", "linear"),
        panels,
    )


def _rounds(run: StudyRun, slug: str) -> Chart | None:
    grids = verdict.grids(run)
    along = [scan for scan in grids if scan.axis == grids[0].axis]
    panels = []
    for subject in run.subjects:
        lines = []
        for index, (scan, label) in enumerate(zip(along, _titles(along, short=True), strict=True)):
            points = [
                (x, rounds)
                for x, cells in _columns(run, scan)
                for cell in cells
                if cell.subject == subject and cell.ok
                if (rounds := cell.number("rounds")) is not None
            ]
            if points:
                xs, ys = zip(*points, strict=True)
                lines.append(Line(label if len(along) > 1 else "rounds", xs, ys, colour=index))
        if lines:
            title = run.labels[subject]
            text = describe(f"Rounds against {AXES[along[0].axis].label}", title, lines, "rounds")
            panels.append(Panel(title, lines, text))
    if len(panels) > _MOST_LINES:
        return None
    counts = [y for panel in panels for line in panel.lines for y in line.y]
    steep = counts and min(counts) > 0 and max(counts) > 100 * min(counts)
    return line_chart(
        f"{slug}-rounds",
        "Rounds against " + ("occupancy" if _first_axis(run) == "per_cell" else "input"),
        "A round links at most one particle of a cell, so the fullest cell sets the least number.",
        _figure_axis(_first_axis(run)),
        Axis("rounds", "number" if steep else "linear"),
        panels,
    )


def _copy_share(run: StudyRun, slug: str) -> Chart | None:
    grids = verdict.grids(run)
    along = [scan for scan in grids if scan.axis == grids[0].axis]
    if _first_axis(run) == "per_cell":
        ends = {verdict.largest_size(run), max(run.values("particles"), default=None)}
        along = [scan for scan in along if scan.fixed["particles"] in ends]
    panels = []
    for scan, title in zip(along, _titles(along), strict=True):
        lines = _lines(
            run,
            _columns(run, scan),
            lambda cell: None if cell.copy_share is None else 100 * cell.copy_share,
        )
        text = describe("Share of the copy bandwidth", title, lines, "%")
        if len(lines) <= _MOST_LINES:
            panels.append(Panel(title, lines, text))
    return line_chart(
        f"{slug}-bandwidth",
        "Share of the copy bandwidth",
        "Least traffic over time, as a share of the measured bandwidth of a copy (dotted); data in"
        " a cache can go above.",
        _figure_axis(_first_axis(run)),
        Axis("% of copy bandwidth", "number"),
        panels,
        reference=100,
    )


def _named(run: StudyRun, slug: str, axis: str) -> Chart | None:
    """Draw time against an axis whose values are names, a panel for each size."""
    sizes = [name for name in SIZES if run.values(name)]
    found = {getattr(place, axis) for _, place in run.cells}
    if axis != "inputs":  # there None is one input
        found -= {None}
    names = AXES[axis].order([getattr(p, axis) for _, p in run.cells if getattr(p, axis) in found])
    if len(names) < 2:
        return None
    panels = []
    measured = {tuple(getattr(place, name) for name in sizes) for _, place in run.cells}
    for values in sorted(each for each in measured if None not in each):
        at = dict(zip(sizes, values, strict=True))
        columns = [(i, run.at(**at, **{axis: name})) for i, name in enumerate(names)]
        columns = _in_common_modes(columns)
        if sum(any(cell.ok for cell in cells) for _, cells in columns) < 2:
            continue
        lines = _lines(run, columns, _unit_time(run), band=True)
        lines = [line for line in lines if len(line.x) > 1]
        title = ", ".join(AXES[name].say(value) for name, value in at.items())
        text = describe(f"Time against {AXES[axis].label}", title, lines, _unit(run))
        panels.append(Panel(title, lines, text))
    title, caption = _NAMED[axis]
    short = AXES[axis].names or {}
    labels = tuple(short.get(name, formats.plain(name)) for name in names)
    x = Axis("", "names", labels)
    return line_chart(f"{slug}-{formats.slug(axis)}", title, caption, x, _time_axis(run), panels)


def _in_common_modes(
    columns: Sequence[tuple[int, Sequence[Cell]]],
) -> list[tuple[int, list[Cell]]]:
    """Take the cells of each subject in one mode, in which all that have a time were timed."""
    common: dict[Subject, list[str]] = {}
    for cell in (cell for _, cells in columns for cell in cells if cell.ok):
        timed = [
            mode
            for mode in HEADLINE_MODES
            if mode in cell.by_mode and cell.by_mode[mode]["status"] == "ok"
        ]
        before = common.get(cell.subject, timed)
        common[cell.subject] = [mode for mode in before if mode in timed]
    return [
        (x, [cell.in_mode(mode) for cell in cells if cell.ok for mode in common[cell.subject][:1]])
        for x, cells in columns
    ]


def _first_axis(run: StudyRun) -> str:
    return next((scan.axis for scan in verdict.grids(run)), "per_cell")


def _titles(scans: Sequence[Scan], short: bool = False) -> list[str]:
    """Name each scan by what tells it from the others, by its sizes where it is alone.

    short: leave out what the values are of, where one axis tells them apart.
    """
    names = list(dict.fromkeys(name for scan in scans for name in scan.fixed))
    telling = [n for n in names if len({scan.fixed.get(n) for scan in scans}) > 1]
    telling = telling or [name for name in names if name in SIZES]
    if short and len(telling) == 1 and len(scans) > 1:
        return [AXES[telling[0]].write(scan.fixed.get(telling[0])) for scan in scans]
    return [
        ", ".join(AXES[name].say(scan.fixed[name]) for name in telling if name in scan.fixed)
        for scan in scans
    ]


def _columns(run: StudyRun, scan: Scan) -> list[tuple[float, list[Cell]]]:
    return [(value, scan.at(run, value)) for value in scan.values(run) if value is not None]


def _unit(run: StudyRun) -> str:
    return tables.unit_name(run.unit)


def _unit_time(run: StudyRun) -> Callable[[Cell], float]:
    return lambda cell: cell.median_ms / cell.unit_ms(run.unit)


def _time_axis(run: StudyRun) -> Axis:
    return Axis(f"median time, {_unit(run)}", "number")


def _figure_axis(name: str) -> Axis:
    return Axis(AXES[name].label, AXES[name].kind)


def _lines(
    run: StudyRun,
    columns: Sequence[tuple[float, Sequence[Cell]]],
    value: Callable[[Cell], float | None],
    band: bool = False,
    only: Container[Subject | None] | None = None,
) -> list[Line]:
    """Make one line for each subject, or of those `only`, from the cells at each x."""
    lines = []
    for subject in run.subjects if only is None else [s for s in run.subjects if s in only]:
        points = []
        for x, cells in columns:
            for cell in cells:
                if cell.subject == subject and cell.ok and (y := value(cell)):
                    scale = y / cell.median_ms
                    low, high = cell.interval_ms
                    points.append((x, y, (low * scale, high * scale) if band else (y, y)))
        if points:
            lines.append(_line(run.labels[subject], points, *_look(run, subject)))
    return lines


def _line(
    label: str,
    points: Sequence[tuple[float, float, tuple[float, float]]],
    colour: int,
    variant: int,
) -> Line:
    xs, ys, intervals = zip(*points, strict=True)
    low, high = zip(*intervals, strict=True)
    return Line(label, xs, ys, low, high, colour, variant)


def _look(run: StudyRun, subject: Subject) -> tuple[int, int]:
    """Return a subject's colour, that of its algorithm or full sort, and its dashes, its own."""
    hues = [run.full_sorts.get(s.algorithm, s.algorithm) for s in run.subjects]
    own = run.full_sorts.get(subject.algorithm, subject.algorithm)
    siblings = [s for s, hue in zip(run.subjects, hues, strict=True) if hue == own]
    return list(dict.fromkeys(hues)).index(own), siblings.index(subject)
