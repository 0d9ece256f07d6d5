"""The verdict on a study in a few sentences, each computed from the records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby

from gpubench.report import formats
from gpubench.report.cells import Cell, StudyRun, Subject, told_apart

MILLISECONDS = {"s": 1000.0, "ms": 1.0, "us": 0.001}  # units of printed times


@dataclass(frozen=True)
class Ranking:
    """The timed cells at one occupancy, fastest first.

    tied: those that the fastest cannot be told apart from, itself included.
    """

    per_cell: float | None
    cells: list[Cell]

    @property
    def fastest(self) -> Cell:
        """The cell with the lowest median."""
        return self.cells[0]

    @property
    def tied(self) -> list[Cell]:
        """The fastest and every cell whose 95 % interval reaches that of the fastest."""
        return [c for c in self.cells if c is self.fastest or not told_apart(self.fastest, c)]

    @property
    def factor(self) -> float | None:
        """How many times longer the next takes; None without a next that can be told apart."""
        if len(self.tied) > 1 or len(self.cells) < 2 or not self.fastest.median_ms:
            return None
        return self.cells[1].median_ms / self.fastest.median_ms


def largest_size(run: StudyRun) -> int | None:
    """Return the largest particle count of the published table that was timed, else of any."""
    timed = {p.particles for (_, p), cell in run.cells.items() if cell.ok}
    sizes = [size for size in run.values("particles") if size in timed]
    published = run.study.published
    if published is not None and published.row_axis == "particles":
        sizes = [size for size in sizes if size in published.rows] or sizes
    return max(sizes, default=None)


def rankings(run: StudyRun, particles: int) -> list[Ranking]:
    """Rank the subjects at one size, for each occupancy with anything timed."""
    ranked = []
    for per_cell in run.values("per_cell") or [run.common["per_cell"]]:
        cells = [c for c in run.at(particles=particles, per_cell=per_cell) if c.ok]
        if cells:
            ranked.append(Ranking(per_cell, sorted(cells, key=lambda c: c.median_ms)))
    return ranked


def best_form(run: StudyRun, algorithm: str) -> Subject | None:
    """Return the subject of an algorithm that is fastest in most of the cells, or None.

    Cells are those of the common kind; a tie goes to the subject that the study names first.
    """
    wins: Counter[Subject] = Counter()
    for particles in run.values("particles"):
        for ranking in rankings(run, particles):
            for cell in ranking.cells:
                if cell.subject.algorithm == algorithm:
                    wins[cell.subject] += 1
                    break
    return max(run.subjects, key=lambda s: wins[s]) if wins else None


def sentences(run: StudyRun) -> list[str]:
    """Return the verdict, one statement a string."""
    if not any(cell.ok for cell in run.cells.values()):
        return ["Nothing was timed, so there is nothing to compare.", *_trouble(run)]
    size = largest_size(run)
    if size is None:
        return _trouble(run)
    ranked = rankings(run, size)
    return [*_winners(run, size, ranked), *_published(run, size, ranked), *_trouble(run)]


def _winners(run: StudyRun, size: int, ranked: list[Ranking]) -> list[str]:
    parts = []
    for tied, group in groupby(ranked, key=lambda r: [c.subject for c in r.tied]):
        same = list(group)
        occupancies = [formats.plain(r.per_cell) for r in same if r.per_cell is not None]
        where = f"at {formats.listing(occupancies)} per cell" if occupancies else "there"
        names = [run.labels[subject] for subject in tied]
        factors = [r.factor for r in same if r.factor is not None]
        if len(names) > 1:
            part = (
                f"{formats.listing(names)} are fastest {where} and cannot be told apart:"
                " the 95 % intervals of their medians overlap"
            )
        elif factors:
            part = (
                f"{names[0]} is fastest {where}:"
                f" the next takes {formats.span(factors)} times as long"
            )
        else:
            part = f"{names[0]} is the only one timed {where}"
        parts.append(part)
    return [f"At {formats.count(size)} particles, {'; '.join(parts)}."]


def _published(run: StudyRun, size: int, ranked: list[Ranking]) -> list[str]:
    """Say how each form of the published algorithm does against the print and the fastest."""
    published = run.study.published
    if published is None:
        return []
    said = []
    for subject in run.subjects:
        own = [(r, c) for r in ranked for c in r.cells if c.subject == subject]
        if subject.algorithm != published.algorithm or not own:
            continue
        parts = []
        if ratios := list(speedups(run, subject).values()):
            cells = len(published.rows) * len(published.columns)
            parts.append(
                f"runs {formats.span(ratios)} times as fast here as printed for"
                f" {published.device} ({len(ratios)} of {cells} cells of"
                f" {run.study.table or 'the published table'})"
            )
        behind = [c.median_ms / r.fastest.median_ms for r, c in own if told_apart(r.fastest, c)]
        if behind:
            where = "" if len(behind) == len(own) else f" in {len(behind)} of {len(own)} columns"
            parts.append(
                f"takes {formats.span(behind)} times as long as the fastest at"
                f" {formats.power(size)} particles{where}"
            )
        if parts:
            said.append(
                f"The algorithm of the paper, {run.labels[subject]}, {', and '.join(parts)}."
            )
    return said


def speedups(run: StudyRun, subject: Subject) -> dict[tuple[float, float], float]:
    """Return printed over measured time for each (row, column) of the published table timed."""
    published = run.study.published
    if published is None or published.unit not in MILLISECONDS:
        return {}
    unit = MILLISECONDS[published.unit]
    ratios = {}
    for row, printed_row in zip(published.rows, published.values, strict=True):
        for column, printed in zip(published.columns, printed_row, strict=True):
            axes = {published.row_axis: row, published.column_axis: column}
            cell = run.find(subject, **axes)
            if cell is not None and cell.ok and cell.median_ms:
                ratios[row, column] = printed * unit / cell.median_ms
    return ratios


_NO_TIME = {"skipped": "could not be made here", "failed": "failed"}


def _trouble(run: StudyRun) -> list[str]:
    statuses = Counter(record["status"] for record in run.records)
    wrong, total = statuses["wrong"], len(run.records)
    said = []
    if wrong:
        said.append(f"{wrong} of {total} measurements gave a wrong answer and have no time.")
    elif statuses["ok"]:
        said.append("Every answer was checked, and none was wrong.")
    rest = [f"{statuses[s]} {words}" for s, words in _NO_TIME.items() if statuses[s]]
    if rest:
        said.append(f"Of {total} measurements, {formats.listing(rest)}.")
    if wrong or rest:
        said.append("The reasons are below.")
    return [" ".join(said)] if said else []
