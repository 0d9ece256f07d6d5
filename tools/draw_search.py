"""Draw how the fastest search finds a particle's neighbours; needs matplotlib."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = (4, 3)  # along x and y; their edge is the cutoff, 1
PARTICLES, SEED, ASKED = 12, 3, 5
COLOURS = ("#4c78a8", "#f58518", "#54a24b")  # of the rows of cells


@dataclass(frozen=True)
class Found:
    """What the search writes, in the plane: a particle has three rows of cells around it, not nine.

    positions: shape (particles, 2). cell_of: of each particle. start: of each cell, and the end.
    order: the particle in each slot. rows: first and last cell, begin and end in slots, of each row
    around the particle that is asked for. marks: whether a candidate is near, of each row.
    """

    positions: NDArray[np.float64]
    cell_of: NDArray[np.int64]
    start: NDArray[np.int64]
    order: NDArray[np.int64]
    rows: list[tuple[int, int, int, int]]
    marks: list[list[bool]]

    @property
    def neighbours(self) -> list[int]:
        """The particles whose marks are set, row by row."""
        return [
            int(self.order[begin + k])
            for (_, _, begin, _), bits in zip(self.rows, self.marks, strict=True)
            for k, is_near in enumerate(bits)
            if is_near
        ]


def search(positions: NDArray[np.float64], asked: int) -> Found:
    """Sort particles by cell, and find the neighbours of one within a distance of 1."""
    cell_of = (positions // 1).astype(np.int64) @ (1, CELLS[0])
    start = np.concatenate(([0], np.cumsum(np.bincount(cell_of, minlength=CELLS[0] * CELLS[1]))))
    order = np.argsort(cell_of, kind="stable")
    x, y = positions[asked]
    rows, marks = [], []
    for row in range(max(int(y) - 1, 0), min(int(y) + 2, CELLS[1])):
        gap = max(row - y, y - row - 1, 0.0)
        half_width = np.sqrt(1 - gap**2)  # of the circle, where it comes nearest to its middle
        first = row * CELLS[0] + max(int(np.floor(x - half_width)), 0)
        last = row * CELLS[0] + min(int(np.floor(x + half_width)), CELLS[0] - 1)
        begin, end = int(start[first]), int(start[last + 1])
        rows.append((first, last, begin, end))
        far = np.linalg.norm(positions[order[begin:end]] - positions[asked], axis=1)
        marks.append(
            [bool(d < 1) and j != asked for d, j in zip(far, order[begin:end], strict=True)]
        )
    return Found(positions, cell_of, start, order, rows, marks)


def draw(path: Path) -> None:
    """Write the picture: cells, sorted particles, the rows of a particle, marks and the list."""
    mpl.use("agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "search", "font.size": 10})
    from matplotlib import patches, pyplot

    found = search(np.random.default_rng(SEED).random((PARTICLES, 2)) * CELLS, ASKED)
    figure, ((cells, rows), (slots, marks)) = pyplot.subplots(
        2, 2, figsize=(11, 7), height_ratios=(3, 2.4), layout="constrained"
    )
    _draw_plane(cells, found, "1. Cells: count the particles of each, sum the counts")
    _draw_plane(rows, found, f"3. Rows: what may be near particle {ASKED}")
    for first, last, _, _ in found.rows:
        corner = first % CELLS[0], first // CELLS[0]
        _box(rows, *corner, COLOURS[corner[1]], 0.25, wide=last - first + 1)
    rows.add_patch(patches.Circle(tuple(found.positions[ASKED]), 1, fill=False, lw=1.5))
    _draw_slots(slots, found)
    _draw_marks(marks, found)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_plane(axes: Axes, found: Found, title: str) -> None:
    """Draw the grid with numbers of cells, and the particles with theirs."""
    axes.set_title(title, loc="left")
    for cell in range(CELLS[0] * CELLS[1]):
        x, y = cell % CELLS[0], cell // CELLS[0]
        _box(axes, x, y, "white", 0.0)
        axes.text(x + 0.04, y + 0.05, f"cell {cell}", color="grey", fontsize=8)
    for i, (x, y) in enumerate(found.positions):
        _particle(axes, x, y, i, found)
    axes.set(xlim=(-0.15, CELLS[0] + 0.05), ylim=(-0.05, CELLS[1] + 0.05), aspect="equal")
    axes.axis("off")


def _draw_slots(axes: Axes, found: Found) -> None:
    """Draw the particles in the order of their cells, and where each cell starts."""
    axes.set_title("2. Sort: particles in the order of their cells", loc="left")
    for slot, i in enumerate(found.order):
        _box(axes, slot, 0, COLOURS[found.cell_of[i] // CELLS[0]], 0.25)
        _particle(axes, slot + 0.5, 0.5, int(i), found)
        axes.text(slot + 0.5, -0.45, str(slot), ha="center", color="grey", fontsize=8)
    axes.text(-0.2, -0.45, "slot", ha="right", color="grey", fontsize=8)
    axes.text(-0.2, 0.35, "order", ha="right")
    for cell in sorted({int(c) for c in found.cell_of}):
        begin, end = found.start[cell], found.start[cell + 1]
        axes.plot((begin + 0.1, end - 0.1), (1.2, 1.2), color="grey", lw=1)
        axes.text((begin + end) / 2, 1.35, f"{cell}", ha="center", color="grey", fontsize=8)
    axes.text(-0.2, 1.3, "cell", ha="right", color="grey", fontsize=8)
    axes.set(xlim=(-1.6, PARTICLES + 0.1), ylim=(-1.6, 2.6), aspect="equal")
    axes.axis("off")


def _draw_marks(axes: Axes, found: Found) -> None:
    """Draw the candidates of each row with their bits, and the list that these give."""
    axes.set_title(f"4. Marks: a bit for each candidate of {ASKED}; 5. Fill: its list", loc="left")
    for line, ((first, _, begin, _), bits) in enumerate(zip(found.rows, found.marks, strict=True)):
        y, colour = -1.5 * line, COLOURS[first // CELLS[0]]
        axes.text(-0.3, y + 0.35, f"slots from {begin}", ha="right")
        for k, is_near in enumerate(bits):
            _box(axes, k, y, colour, 0.55 if is_near else 0.12)
            axes.text(k + 0.5, y + 0.33, str(int(is_near)), ha="center")
    for k, i in enumerate(found.neighbours):
        _particle(axes, k + 0.5, -1.5 * len(found.rows) + 0.3, i, found)
    axes.text(-0.3, -1.5 * len(found.rows) + 0.15, "neighbours", ha="right")
    axes.set(xlim=(-3.2, 9), ylim=(-1.5 * len(found.rows) - 0.4, 1.2), aspect="equal")
    axes.axis("off")


def _box(axes: Axes, x: float, y: float, colour: Any, alpha: float, wide: int = 1) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((x, y), wide, 1, facecolor=mpl.colors.to_rgba(colour, alpha), ec="grey", lw=0.8)
    )


def _particle(axes: Axes, x: float, y: float, i: int, found: Found) -> None:
    colour = "black" if i == ASKED else COLOURS[found.cell_of[i] // CELLS[0]]
    axes.plot(x, y, "o", ms=14, color=colour, zorder=3)
    axes.text(x, y - 0.01, str(i), ha="center", va="center", color="white", fontsize=9, zorder=4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    draw(parser.parse_args().picture)
