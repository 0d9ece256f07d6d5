"""A model of steps on up to 64 GPUs, fitted to those measured on few, and drawn as a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from gpubench.report import formats
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.figures import Chart, Curve, Point, Scale, panel
from gpubench.report.machines import StudyRun
from gpubench.report.steps import timed

GPUS = tuple(2**power for power in range(7))
_SERIES = 2  # of each kind, those of the most particles
_WORST = 0.1  # residual, beyond which the model is another than this
_SAID = (
    "Dashed: a model, not a measurement. A step of N particles on R GPUs takes {0} ms + {2} ns N/R;"
    " on several also {1} ms, and {3} ns N^(2/3) for each neighbour of a slab. Fitted to"
    " {4} times on {5} GPUs, residuals {6} root mean square, {7} at most."
    " It knows neither whole planes nor slower links between hosts."
)


class Step(NamedTuple):
    """What is stepped: this many particles on this many GPUs."""

    gpus: int
    particles: float

    def terms(self) -> list[float]:
        """Return what constants are multiplied by: two in ms, two in ns. _SAID has the model."""
        edges = min(2, self.gpus - 1) * self.particles ** (2 / 3)
        return [1, self.gpus > 1, 1e-6 * self.particles / self.gpus, 1e-6 * edges]

    def modelled(self, constants: list[float]) -> float:
        """Return the milliseconds by a model."""
        return float(np.dot(constants, self.terms()))


def fit(times: Mapping[Step, float]) -> list[float]:
    """Return constants of at least 0 with the least squares of relative residuals of times in ms.

    None of fewer than eight times, or of fewer than three numbers of GPUs.
    """
    if len(times) < 8 or len({step.gpus for step in times}) < 3:
        return []
    relative = np.array([np.divide(step.terms(), ms) for step, ms in times.items()])
    lengths = np.linalg.norm(relative, axis=0)
    return [*map(float, nnls(relative / lengths, np.ones(len(times)))[0] / lengths)]


def charts(run: StudyRun, slug: str) -> list[Chart]:
    """Draw strong and weak scaling of the usual workload, measured and by the model, if it fits."""
    every = timed(run, run.winner(run.timed)).items()
    slabs = {Step(w.ranks, n): c for (w, n), c in every if w.decomposition in (None, "slab")}
    cells = {s: c for s, c in slabs.items() if c.mode == "graph" and not c.is_old}
    constants = fit({step: cell.median_ms for step, cell in cells.items()})
    off = [s.modelled(constants) / c.median_ms - 1 for s, c in cells.items() if constants]
    if not off or (worst := max(map(abs, off))) > _WORST:
        return []
    gpus = formats.listing([str(gpus) for gpus in sorted({step.gpus for step in cells})])
    rms, most = map(formats.percent, (float(np.sqrt(np.square(off).mean())), worst))
    caption = _SAID.format(*map(formats.significant, constants), len(off), gpus, rms, most)
    title, x = "Strong and weak scaling, and a model", Scale("GPUs", "size")
    lines = panel("", _lines(cells, constants), title, "ms")
    return [Chart(f"{slug}-scaling", title, caption, x, Scale("step, ms", "number"), [lines])]


def _lines(cells: Mapping[Step, MeasurementRow], constants: list[float]) -> list[Curve]:
    """Return the series that most numbers of GPUs were timed on, each beside the model's."""
    lines: list[Curve] = []
    for what in ("", " a GPU"):
        size_of = {step: step.particles / (step.gpus if what else 1) for step in cells}
        own = grouped(cells, size_of.__getitem__)
        for _, size in sorted((len(steps), size) for size, steps in own.items())[-_SERIES:]:
            name, colour = f"{formats.power(int(size))}{what}", len(lines) // 2
            at = [(step.gpus, cells[step]) for step in sorted(own[size])]
            points = [Point(x, c.median_ms, c.low_ms, c.high_ms, c.told) for x, c in at]
            lines.append(Curve(f"{name}, measured", points, colour))
            y = [Step(g, size * (g if what else 1)).modelled(constants) for g in GPUS]
            lines.append(Curve.through(f"{name}, model", GPUS, y, colour, variant=1, marked=False))
    return lines
