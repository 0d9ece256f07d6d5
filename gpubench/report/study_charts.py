"""The charts of a study: phases of steps, and times along every axis that varies."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from gpubench.evidence.ranking import MODES, Variant
from gpubench.report import formats, scaling, tables
from gpubench.report.axes import AXES, describe, varying
from gpubench.report.cells import MeasurementRow, grouped, phases_of
from gpubench.report.figures import BarChart, Chart, Curve, Point, Scale, StackedBar, panel
from gpubench.report.machines import StudyRun
from gpubench.report.scans import Scan, scans

_RUN, _DRAM = "Warp instructions, 10⁶", "DRAM, MB"  # headings in MeasurementRow.hardware
_LIMITS = (
    "Limits: the copy bandwidth, and four warp instructions per clock and multiprocessor. A point"
    " is an algorithm on its largest input."
)
Columns = Sequence[tuple[float, Sequence[MeasurementRow]]]


def charts(run: StudyRun, slug: str, axes: Collection[str] = AXES) -> list[Chart | BarChart]:
    """Return the figures that a study has records for: phases, and times along these axes."""
    along = grouped((scan for scan in scans(run) if scan.axis in axes), lambda scan: scan.axis)
    made: list[Chart | BarChart] = [_phases(run, slug)]
    made += [_times(run, slug, axis, own) for axis, own in along.items()]
    made += [*scaling.charts(run, slug), *_roofline(run, slug)]
    return [chart for chart in made if chart.panels]


def _phases(run: StudyRun, slug: str) -> BarChart:
    """Draw the phases of each step: a panel for each input, or for each subject's inputs."""
    stepped = [c for c in run.timed if c.phases_ms and c.place.ranks == run.common["ranks"]]
    stepped.sort(key=lambda cell: (str(cell.place.workload), cell.place.count))
    phases, by_place = phases_of(stepped), grouped(stepped, lambda cell: cell.place)
    names = varying(by_place)
    are_shares = run.study.phases == "share"
    panels: dict[str, list[StackedBar]] = {}
    for place, cells in by_place.items():
        where = describe(place, names)
        for cell in sorted(cells, key=lambda cell: cell.median_ms):
            subject = run.labels[cell.subject]
            title, label = (where, subject) if len(cells) > 1 else (subject, where or subject)
            length = 100.0 if are_shares else 1e6 * cell.median_ms / (cell.place.particles or 1)
            parts = {n: length * share for n in phases if (share := cell.phase_share(n))}
            bar = StackedBar(f"{label}, {formats.significant(cell.median_ms)} ms", parts)
            panels.setdefault(title, []).append(bar)
    usual = "Phases of a step", "ns per particle and step"
    title, label = ("Share of each task in a step", "% of the step") if are_shares else usual
    caption = "Phases are timed by themselves after the step, so they do not add up to it exactly."
    return BarChart(f"{slug}-phases", title, caption, label, panels)


def _roofline(run: StudyRun, slug: str) -> list[Chart]:
    """Draw instructions per second over instructions per byte, below what the GPU can do."""
    seen = sorted((c for c in run.timed if c.hardware.get(_DRAM)), key=lambda c: c.place.count)
    if not seen or not (rate := run.environments[0]["copy_bandwidth_gb_s"]):
        return []
    run_by = {run.labels[c.subject]: (c.hardware[_RUN], c.hardware[_DRAM], c) for c in seen}
    at = {name: (n / moved, n / c.median_ms) for name, (n, moved, c) in run_by.items()}
    clock = max(max(c.record.clocks_sm_mhz or [0]) for c in seen) / 1e3
    peak = 4 * clock * run.environments[0]["device"].get("multiprocessors", 0) or math.inf
    x = [min(at.values())[0] / 2, 2 * max(at.values())[0], peak / rate]
    x = sorted(each for each in x if each < math.inf)
    lines = [Curve.through("limits of the GPU", x, [min(each * rate, peak) for each in x])]
    lines += [Curve.through(name, [x], [y], 1 + n) for n, (name, (x, y)) in enumerate(at.items())]
    return [Chart(
        f"{slug}-roofline", "Roofline of instructions", _LIMITS,
        Scale("warp instructions per byte of DRAM", "number"),
        Scale("10⁹ warp instructions per second", "number"),
        [panel("", lines, "Instructions", "10⁹ per second")],
    )]  # fmt: skip


def _times(run: StudyRun, slug: str, axis: str, along: Sequence[Scan]) -> Chart:
    own, unit = AXES[axis], tables.unit_name(run.unit)
    names = own.order([value for scan in along for value in scan.columns])
    is_named = own.scale == "names"
    what = f"Time against {own.label}"
    panels = []
    for scan in along:
        at = (names.index(value) if is_named else value for value in scan.columns)
        columns = list(zip(at, scan.columns.values(), strict=True))
        lines = [line for line in _lines(run, _in_common_modes(columns)) if len(line.points) > 1]
        title = scan.title or ("the usual input" if len(along) > 1 else "")
        panels.append(panel(title, lines, what, unit))
    written = tuple((own.names or {}).get(name) or own.write(name) for name in names)
    return Chart(
        f"{slug}-{formats.slug(axis)}",
        what,
        "Bands are the 95 % intervals of the medians.",
        Scale("" if is_named else own.label, own.scale, written if is_named else ()),
        Scale(f"median {'device ' * run.has_graphs}time, {unit}", "number"),
        panels,
    )


def _in_common_modes(columns: Columns) -> list[tuple[float, list[MeasurementRow]]]:
    """Restrict each subject to one mode that all its timed cells have; drop it if there is none."""
    timed = (cell for _, cells in columns for cell in cells if cell.ok)
    modes = {
        subject: next((m for m in MODES if all(c.is_timed(m) for c in own)), None)
        for subject, own in grouped(timed, lambda cell: cell.subject).items()
    }
    return [
        (x, [c.modes[mode] for c in cells if c.ok and (mode := modes[c.subject]) is not None])
        for x, cells in columns
    ]


def _lines(run: StudyRun, columns: Columns) -> list[Curve]:
    found: dict[Variant, list[Point]] = {}
    marks: dict[Variant, str] = {}
    for x, cell in ((x, cell) for x, cells in columns for cell in cells):
        if cell.median_ms:
            scale = 1 / cell.unit_ms(run.unit)
            low, high = scale * cell.low_ms, scale * cell.high_ms
            point = Point(x, scale * cell.median_ms, low, high, cell.told)
            found.setdefault(cell.subject, []).append(point)
            marks[cell.subject] = ", launched" * (run.has_graphs and cell.mode != "graph")
    # A colour for each algorithm, dashes for each of its variants.
    names = list(dict.fromkeys(subject.algorithm for subject in run.subjects))
    variants = {name: [s for s in run.subjects if s.algorithm == name] for name in names}
    looks = {s: (names.index(s.algorithm), variants[s.algorithm].index(s)) for s in run.subjects}
    return [Curve(run.labels[s] + marks[s], found[s], *looks[s]) for s in looks if s in found]
