"""What a report says and shows of one rank against several, and of frames beside steps.

A frame is a step and a picture of it. Speed-up is over one rank, of the same algorithm on as many
particles. All is of the algorithm that is fastest on the most inputs, but for what stands beside
a print, which is of the algorithm of the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpubench.evidence.results import is_waiting
from gpubench.report import formats, tables, verdict
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, StudyRun, Subject, phases_of
from gpubench.report.figures import Axis, Chart, Line, Panel, describe, line_chart
from gpubench.report.tables import NOTHING, Item, Row, Table
from gpubench.studies.study import Published, Quantity

_MOST_LINES = 12  # more in one panel cannot be told apart
_FRAME = (
    "A frame is a step and a picture of it drawn on the device, which is timed by itself after the"
    " step."
)
_SPEED_UP = (
    "Speed-up is the time of a step on one rank over that on several, and below it the same of"
    " frames; communication is the share of the phases of a step in which ranks exchange."
)


@dataclass(frozen=True)
class Way:
    """How a step is shared: by how many ranks, and how; None for one rank."""

    ranks: int
    decomposition: str | None

    @property
    def label(self) -> str:
        """A short name for people: "2 ranks, slab"."""
        return "1 rank" if self.ranks == 1 else f"{self.ranks} ranks, {self.decomposition}"

    @property
    def said(self) -> str:
        """The same within a sentence."""
        return "1 rank" if self.ranks == 1 else f"{self.ranks} ranks ({self.decomposition})"


ALONE = Way(1, None)


@dataclass(frozen=True)
class Shared:
    """A cell of several ranks, and that of one rank with the same algorithm and particles."""

    several: Cell
    one: Cell

    @property
    def speed_up(self) -> float:
        """Time of a step on one rank over that on several."""
        return self.one.median_ms / self.several.median_ms

    @property
    def frame_speed_up(self) -> float | None:
        """The same of frames; None where none were drawn."""
        one, several = self.one.frame_ms, self.several.frame_ms
        return None if one is None or several is None else one / several


def ways(run: StudyRun) -> list[Way]:
    """Return in which ways several ranks were timed."""
    found = {
        (place.ranks, place.decomposition)
        for (_, place), cell in run.cells.items()
        if cell.ok and place.ranks not in (None, 1)
    }
    order = AXES["decomposition"].order([name for _, name in found])
    return sorted(
        (Way(r or 1, d) for r, d in found), key=lambda w: (w.ranks, order.index(w.decomposition))
    )


def leader(run: StudyRun) -> Subject | None:
    """Return the subject that is fastest on the most inputs; None where nothing was timed."""
    best: dict[Any, Cell] = {}
    for (_, place), cell in run.cells.items():
        if cell.ok:
            best[place] = min(best.get(place, cell), cell, key=lambda c: c.median_ms)
    wins = Counter(cell.subject for cell in best.values())
    return max(run.subjects, key=lambda s: wins[s]) if wins else None


def find(run: StudyRun, subject: Subject, way: Way, particles: float) -> Cell | None:
    """Return a subject's timed cell of so many particles, shared in a way; None without one."""
    cell = run.find(subject, particles=particles, ranks=way.ranks, decomposition=way.decomposition)
    return cell if cell is not None and cell.ok and cell.median_ms else None


def shared(run: StudyRun, subject: Subject, way: Way) -> list[Shared]:
    """Return what a subject did in a way and on one rank as well, by the number of particles."""
    pairs = [
        (find(run, subject, way, size), find(run, subject, ALONE, size)) for size in _sizes(run)
    ]
    return [Shared(several, one) for several, one in pairs if several and one]


def value(run: StudyRun, subject: Subject, quantity: Quantity, particles: float) -> float | None:
    """Return what was measured of a quantity of a published table; None where it was not."""
    cell = find(run, subject, _way_of(quantity), particles)
    frame_ms = cell.frame_ms if cell else None
    if frame_ms is None:
        return None
    if quantity.what == "frame_ms":
        return frame_ms
    if quantity.what == "frames_per_s":
        return 1e3 / frame_ms
    one = find(run, subject, ALONE, particles)
    return one.frame_ms / frame_ms if one and one.frame_ms else None


def _way_of(quantity: Quantity) -> Way:
    return Way(quantity.ranks or 1, quantity.decomposition)


def _sizes(run: StudyRun) -> list[int]:
    found = {place.particles for (_, place), cell in run.cells.items() if cell.ok}
    return sorted(size for size in found if size is not None)


# What is said


def sentences(run: StudyRun) -> list[str]:
    """Return what is to be said of several ranks, and of the print beside them."""
    subject = leader(run)
    if subject is None:
        return []
    said = [_speed_ups(run, subject), _communication(run, subject)]
    published = run.study.published
    if published is not None and published.quantities:
        said += [_against_print(run, published), _printed_speed_up(run, published)]
    return [sentence for sentence in [*said, _waiting(run)] if sentence]


def _speed_ups(run: StudyRun, subject: Subject) -> str:
    parts = []
    for way in ways(run):
        found = shared(run, subject, way)
        if found:
            best = max(found, key=lambda s: s.speed_up)
            factors = formats.span([s.speed_up for s in found])
            at = AXES["particles"].say(best.several.place.particles)
            most = f", most at {at}" if len(found) > 1 else f" at {at}"
            parts.append(f"{factors} times as fast on {way.said}{most}")
    label = run.labels[subject]
    return f"Against one rank, a step of {label} is {'; '.join(parts)}." if parts else ""


def _communication(run: StudyRun, subject: Subject) -> str:
    parts: list[str] = []
    for way in ways(run):
        cells = (find(run, subject, way, size) for size in _sizes(run))
        shares = [s for cell in cells if cell and (s := cell.communication) is not None]
        if shares:
            share = f"{formats.span([100 * s for s in shares])} %"
            parts.append(f"{share}{'' if parts else ' of a step'} on {way.said}")
    return f"Communication takes {formats.listing(parts)}." if parts else ""


def _against_print(run: StudyRun, published: Published) -> str:
    """Say how many times as many frames there are in a second as printed."""
    subject = verdict.best_form(run, published.algorithm)
    parts = []
    for index, quantity in enumerate(published.quantities):
        if subject is None or quantity.what != "frames_per_s":
            continue
        ratios = [
            here / values[index]
            for row, values in zip(published.rows, published.values, strict=True)
            if (here := value(run, subject, quantity, row)) is not None
        ]
        if ratios:
            parts.append(
                f"{formats.span(ratios)} times as many on {_way_of(quantity).said}"
                f" ({len(ratios)} of {len(published.rows)} rows)"
            )
    if not parts or subject is None:
        return f"No frame of {run.study.table or 'the published table'} was measured here."
    return (
        f"Frames per second against the print for {published.device}, with {run.labels[subject]}:"
        f" {formats.listing(parts)}."
    )


def _printed_speed_up(run: StudyRun, published: Published) -> str:
    subject = verdict.best_form(run, published.algorithm)
    for index, quantity in enumerate(published.quantities):
        if subject is None or quantity.what != "speed_up":
            continue
        found = [value(run, subject, quantity, row) for row in published.rows]
        here = [speed_up for speed_up in found if speed_up is not None]
        if here:
            printed = formats.span([values[index] for values in published.values])
            return (
                f"On {_way_of(quantity).said}, {run.labels[subject]} makes {formats.span(here)}"
                f" times as many frames as on one; printed are {printed}."
            )
    return ""


def _waiting(run: StudyRun) -> str:
    missing = {r["ranks"] or 1 for r in run.records if is_waiting(r)}
    if not missing:
        return ""
    ranks = formats.listing(f"{number:,}" for number in sorted(missing))
    measured = {r["ranks"] or 1 for r in run.records if r["status"] == "ok"}
    some = "Some of what" if missing & measured else "What"
    return (
        f"{some} takes {ranks} rank{'s' if missing != {1} else ''} was not measured on this"
        " machine; the commands are below."
    )


# What is shown


def measured(run: StudyRun, published: Published) -> Table | None:
    """Return a published table of quantities as measured, each beside how it does to the print.

    None where nothing of it was measured.
    """
    subject = verdict.best_form(run, published.algorithm)
    if subject is None:
        return None
    every = (
        find(run, subject, _way_of(q), n) for q in published.quantities for n in published.rows
    )
    marks, note = tables.modes(cell for cell in every if cell)
    rows = []
    for row, values in zip(published.rows, published.values, strict=True):
        items = []
        for quantity, printed in zip(published.quantities, values, strict=True):
            here = value(run, subject, quantity, row)
            cell = find(run, subject, _way_of(quantity), row)
            if here is None or cell is None:
                items.append(NOTHING)
            else:
                mark = marks.get(cell.headline["mode"], "")
                items.append(_beside(quantity, here, printed, mark))
        rows.append(Row(AXES[published.row_axis].count(row), items))
    if all(item is NOTHING for row in rows for item in row.items):
        return None
    several = {_way_of(q).said for q in published.quantities if q.ranks}
    notes = [
        note,
        f"{_FRAME} Several GPUs are {formats.listing(sorted(several))}.",
        "\N{MULTIPLICATION SIGN} is how many times as fast as printed"
        f" ({published.device}); a dash stands for not measured.",
    ]
    columns = [AXES[published.row_axis].heading, *map(str, published.columns)]
    caption = f"Measured: {run.labels[subject]}, times in {tables.unit_name(run.unit)}"
    return Table(caption, columns, rows, notes=notes)


def _beside(quantity: Quantity, here: float, printed: float, mark: str) -> Item:
    if quantity.what == "speed_up":
        return Item(formats.significant(here))
    faster = here / printed if quantity.what == "frames_per_s" else printed / here
    return Item(formats.significant(here), detail=formats.ratio(faster), mark=mark)


def comparisons(run: StudyRun) -> list[Table]:
    """Return steps and frames on one rank and on several, by the number of particles.

    There is a table for each way in which several ranks shared them; where there is none, one
    for one rank if that has frames.
    """
    subject = leader(run)
    if subject is None:
        return []
    found = ways(run)
    if not found:
        return [_alone(run, subject)] if any(c.frame_ms for c in run.cells.values()) else []
    made = [_comparison(run, subject, way) for way in found]
    weak = _weak(run, subject)
    return [table for table in (*made, _phases(run, subject), weak) if table is not None]


_RATES = ["Step, ms", "Frame, ms", "Steps/s", "Frames/s"]


def _rates(cell: Cell | None, marks: dict[str, str]) -> list[Item]:
    if cell is None:
        return [NOTHING] * len(_RATES)
    frame_ms = cell.frame_ms
    return [
        tables.timed(cell, marks),
        NOTHING if frame_ms is None else Item(formats.significant(frame_ms)),
        Item(formats.significant(1e3 / cell.median_ms)),
        NOTHING if frame_ms is None else Item(formats.significant(1e3 / frame_ms)),
    ]


def _alone(run: StudyRun, subject: Subject) -> Table:
    cells = [cell for size in _sizes(run) if (cell := find(run, subject, ALONE, size))]
    marks, note = tables.modes(cells)
    size = AXES["particles"]
    rows = [Row(size.count(cell.place.particles), _rates(cell, marks)) for cell in cells]
    caption = f"Steps and frames on one rank, {run.labels[subject]}"
    return Table(caption, [size.heading, *_RATES], rows, notes=[note, _FRAME])


def _comparison(run: StudyRun, subject: Subject, way: Way) -> Table | None:
    size = AXES["particles"]
    pairs = [
        (find(run, subject, ALONE, n), find(run, subject, way, n), size.count(n))
        for n in _sizes(run)
    ]
    pairs = [pair for pair in pairs if pair[1]]
    marks, note = tables.modes(cell for one, several, _ in pairs for cell in (one, several) if cell)
    rows = []
    for one, several, head in pairs:
        both = Shared(several, one) if one and several else None
        share = several.communication if several else None
        rows.append(
            Row(
                head,
                [
                    *_rates(one, marks),
                    *_rates(several, marks),
                    _speed_up(both),
                    NOTHING if share is None else Item(formats.percent(share)),
                ],
            )
        )
    return Table(
        f"{way.label[0].upper()}{way.label[1:]}, beside one rank: {run.labels[subject]}",
        [size.heading, *_RATES, *_RATES, "Speed-up", "Communication"],
        rows,
        notes=[note, _FRAME, _SPEED_UP] if way == ways(run)[-1] else [],
        groups=[("1 rank", len(_RATES)), (way.label, len(_RATES)), ("", 2)],
    ) if rows else None  # fmt: skip


def _speed_up(both: Shared | None) -> Item:
    if both is None:
        return NOTHING
    frames = both.frame_speed_up
    detail = "" if frames is None else f"{formats.significant(frames)} of frames"
    return Item(formats.significant(both.speed_up), detail=detail)


def _phases(run: StudyRun, subject: Subject) -> Table | None:
    """Return what a step is made of on one rank and on several, at the largest common size."""
    every = [ALONE, *ways(run)]
    lines = {size: [find(run, subject, way, size) for way in every] for size in _sizes(run)}
    counts = {size: sum(bool(c and c.phases_ms) for c in line) for size, line in lines.items()}
    most = max(counts.values(), default=0)
    if most < 2:
        return None
    size = max(size for size, count in counts.items() if count == most)
    known = [
        (way.label, cell)
        for way, cell in zip(every, lines[size], strict=True)
        if cell and cell.phases_ms
    ]
    cells = [cell for _, cell in known]
    marks, note = tables.modes(cells)
    rows = [Row("step", [tables.timed(cell, marks) for cell in cells])]
    rows += [Row(name, [tables.phase(cell, name) for cell in cells]) for name in phases_of(cells)]
    return Table(
        f"What a step is made of at {AXES['particles'].say(size)}, {run.labels[subject]}, ms",
        ["Phase", *(label for label, _ in known)],
        rows,
        notes=[
            note,
            "Phases of several ranks are timed on the first of them; what waits for another rank"
            " is in the phase that waits.",
        ],
    )


@dataclass(frozen=True)
class Series:
    """Times against the number of ranks: of as many particles in all, or on each.

    per_rank: particles on each rank, of weak scaling; None for strong scaling.
    particles: in all, of strong scaling; None for weak.
    """

    decomposition: str | None
    per_rank: int | None
    particles: int | None
    cells: dict[int, Cell]  # by the number of ranks, one among them

    @property
    def label(self) -> str:
        """How many particles there are."""
        if self.per_rank is not None:
            return f"{formats.power(self.per_rank)} a rank"
        return formats.power(self.particles or 0)

    def efficiency(self, ranks: int) -> float:
        """Return the speed-up over the ranks, or what is left of it where each has as many."""
        factor = self.cells[1].median_ms / self.cells[ranks].median_ms
        return factor if self.per_rank is not None else factor / ranks


def scaling(run: StudyRun, subject: Subject, *, weak: bool) -> list[Series]:
    """Return the series of strong or of weak scaling that begin with one rank."""
    by_way: dict[tuple[str | None, int], dict[int, Cell]] = {}
    for way in ways(run):
        for particles in _sizes(run):
            share, rest = divmod(particles, way.ranks)
            cell = find(run, subject, way, particles)
            one = find(run, subject, ALONE, share if weak else particles)
            if cell and one and not (weak and rest):
                key = way.decomposition, share if weak else particles
                by_way.setdefault(key, {1: one})[way.ranks] = cell
    return [
        Series(how, size if weak else None, None if weak else size, cells)
        for (how, size), cells in by_way.items()
    ]


def _weak(run: StudyRun, subject: Subject) -> Table | None:
    found = scaling(run, subject, weak=True)
    counts = sorted({ranks for series in found for ranks in series.cells})
    if not found:
        return None
    marks, note = tables.modes(cell for series in found for cell in series.cells.values())
    rows = [
        Row(
            f"{series.label}, {series.decomposition}",
            [
                tables.timed(
                    series.cells[n],
                    marks,
                    formats.percent(series.efficiency(n)) if n > 1 else "",
                )
                if n in series.cells
                else NOTHING
                for n in counts
            ],
        )
        for series in sorted(found, key=lambda s: (s.decomposition or "", s.per_rank or 0))
    ]
    return Table(
        f"Weak scaling: time of a step, ms, {run.labels[subject]}",
        ["Particles", *(f"{n} rank{'s' if n > 1 else ''}" for n in counts)],
        rows,
        notes=[note, "Below each time stands that of one rank as a share of it: 100 % is ideal."],
    )


def charts(run: StudyRun, slug: str) -> list[Chart | None]:
    """Return the figures of one rank and several that the records allow."""
    subject = leader(run)
    if subject is None or not (ways(run) or _has_printed_frames(run)):
        return []
    return [
        _speed_up_chart(run, subject, slug),
        _time_chart(run, subject, slug),
        _communication_chart(run, subject, slug),
        _scaling_chart(run, subject, slug, weak=False),
        _scaling_chart(run, subject, slug, weak=True),
    ]


def _has_printed_frames(run: StudyRun) -> bool:
    published = run.study.published
    return bool(published and published.quantities)


def _against_particles(
    run: StudyRun, subject: Subject, every: Sequence[Way], value: Callable[[Cell], float | None]
) -> list[Line]:
    lines = []
    for way in every:
        cells = [cell for size in _sizes(run) if (cell := find(run, subject, way, size))]
        points = [(cell.place.count, y) for cell in cells if (y := value(cell)) is not None]
        if points:
            xs, ys = zip(*points, strict=True)
            colour, variant = _look(run, way)
            lines.append(Line(way.label, xs, ys, colour=colour, variant=variant))
    return lines


def _look(run: StudyRun, way: Way) -> tuple[int, int]:
    """Return the colour of a number of ranks, and the dashes of a decomposition."""
    counts = sorted({1, *(other.ranks for other in ways(run))})
    order = [None, *AXES["decomposition"].order([other.decomposition for other in ways(run)])]
    return counts.index(way.ranks), max(0, order.index(way.decomposition) - 1)


def _printed(run: StudyRun, what: str, write: Callable[[float], float]) -> list[Line]:
    """Return the printed numbers of one quantity as lines."""
    published = run.study.published
    lines = []
    for index, quantity in enumerate(published.quantities if published else ()):
        if published is not None and quantity.what == what:
            ys = [write(values[index]) for values in published.values]
            gpus = f"{quantity.ranks or 1} GPU{'s' if quantity.ranks else ''}"
            lines.append(
                Line(
                    f"printed, {gpus}",
                    published.rows,
                    ys,
                    colour=5,
                    variant=2 + (quantity.ranks is not None),
                )
            )
    return lines


def _speed_up_chart(run: StudyRun, subject: Subject, slug: str) -> Chart | None:
    what = "Speed-up against particles"

    def over_one(cell: Cell, of: Callable[[Cell], float | None]) -> float | None:
        one = find(run, subject, ALONE, cell.place.count)
        own, other = of(cell), of(one) if one else None
        return other / own if own and other else None

    measured = {
        "Steps": _against_particles(
            run, subject, ways(run), lambda c: over_one(c, lambda each: each.median_ms)
        ),
        "Frames": _against_particles(
            run, subject, ways(run), lambda c: over_one(c, lambda each: each.frame_ms)
        ),
    }
    panels = []
    for title, lines in measured.items():
        if lines:
            both = lines + (_printed(run, "speed_up", float) if title == "Frames" else [])
            panels.append(Panel(title, both, describe(what, title, both, "times")))
    return line_chart(
        f"{slug}-speed-up",
        what,
        f"The time on one rank over that on several, of {run.labels[subject]}; dotted: as fast as"
        " one rank. Frames have a picture in them.",
        Axis(AXES["particles"].label, "size"),
        Axis("speed-up over one rank", "linear"),
        panels,
        reference=1,
    )


def _time_chart(run: StudyRun, subject: Subject, slug: str) -> Chart | None:
    what = "Time against particles"
    every = [ALONE, *ways(run)]
    steps = _against_particles(run, subject, every, lambda cell: cell.median_ms)
    frames = _against_particles(run, subject, every, lambda cell: cell.frame_ms)
    panels = [Panel("Steps", steps, describe(what, "steps", steps, "ms"))]
    if frames:
        frames += _printed(run, "frames_per_s", lambda rate: 1e3 / rate)
        panels.append(Panel("Frames", frames, describe(what, "frames", frames, "ms")))
    printed = " Printed times are those of the printed frames per second." if frames else ""
    return line_chart(
        f"{slug}-ranks-time",
        f"{what}, on one rank and on several",
        f"Median of a step of {run.labels[subject]}, and of a step with a picture.{printed}",
        Axis(AXES["particles"].label, "size"),
        Axis("time, ms", "number"),
        panels,
    )


def _communication_chart(run: StudyRun, subject: Subject, slug: str) -> Chart | None:
    what = "Share of a step in communication"
    lines = _against_particles(
        run,
        subject,
        ways(run),
        lambda cell: None if cell.communication is None else 100 * cell.communication,
    )
    return line_chart(
        f"{slug}-communication",
        f"{what} against particles",
        f"Phases in which ranks exchange, of all phases of a step of {run.labels[subject]}.",
        Axis(AXES["particles"].label, "size"),
        Axis("% of the step", "linear"),
        [Panel("", lines, describe(what, "", lines, "%"))],
    )


def _scaling_chart(run: StudyRun, subject: Subject, slug: str, *, weak: bool) -> Chart | None:
    """Draw speed-up, or with as many particles on each what is left of it, against ranks."""
    found = scaling(run, subject, weak=weak)
    if not weak and len({way.ranks for way in ways(run)}) < 2:
        return None  # the speed-up against particles shows the same
    name = "Weak" if weak else "Strong"
    panels = []
    for how in dict.fromkeys(series.decomposition for series in found):
        own = [series for series in found if series.decomposition == how][-_MOST_LINES:]
        lines = []
        for index, series in enumerate(own):
            counts = sorted(series.cells)
            ys = [series.efficiency(n) * (100 if weak else n) for n in counts]
            lines.append(Line(series.label, counts, ys, colour=index))
        if not weak:
            counts = sorted({n for series in own for n in series.cells})
            lines.append(Line("ideal", counts, counts, colour=5, variant=2, marked=False))
        text = describe(f"{name} scaling", str(how), lines, "%" if weak else "times")
        panels.append(Panel(str(how), lines, text))
    what = "as many particles on each rank" if weak else "as many particles in all"
    return line_chart(
        f"{slug}-{name.lower()}-scaling",
        f"{name} scaling",
        f"One line for {what}, of {run.labels[subject]}: "
        + ("the time on one rank as a share of that on several." if weak else "speed-up."),
        Axis("ranks", "number"),
        # Logarithmic, so that the ideal is straight.
        Axis("% of the speed of one rank", "linear")
        if weak
        else Axis("speed-up over one rank", "number"),
        panels,
        reference=100 if weak else None,
    )
