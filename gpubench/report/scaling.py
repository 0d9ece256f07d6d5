"""A model of steps on up to 64 GPUs, fitted to those measured on few, and drawn as a model.

A step of N particles on R GPUs, in slabs, takes alone + each N/R; on several also shared, and
halo N^(2/3) for each neighbour of a slab: an edge plane holds N^(2/3) particles times a constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from gpubench.report import formats
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.figures import Chart, Curve, Point, Scale, panel
from gpubench.report.machines import StudyRun
from gpubench.report.steps import ALONE, find, ways

GPUS = tuple(2**power for power in range(7))
_CONSTANTS = 4
_SERIES = 2  # of each kind, those of the most particles
_WORST = 0.1  # residual, beyond which the model is another than this
_SAID = (
    "Dashed: a model, not a measurement. A step of N particles on R GPUs takes {0} ms + {2} ns N/R;"
    " on several also {1} ms, and {3} ns N^(2/3) for each neighbour of a slab. Fitted to"
    " {steps} times on {gpus} GPUs of one host, residuals {rms} root mean square, {most} at most."
    " It knows neither whole planes nor slower links between hosts."
)


class Step(NamedTuple):
    """What is stepped: this many particles on this many GPUs."""

    gpus: int
    particles: float

    @property
    def each(self) -> float:
        """Particles on a GPU."""
        return self.particles / self.gpus

    @property
    def terms(self) -> tuple[float, ...]:
        """What a model's constants are multiplied by; milliseconds, two of them per million."""
        halo = min(2, self.gpus - 1) * 1e-6 * self.particles ** (2 / 3)
        return 1.0, float(self.gpus > 1), 1e-6 * self.each, halo


def fit(times: Mapping[Step, float]) -> list[float]:
    """Return the constants, none below 0, with the least squares of relative residuals.

    times: milliseconds by step. Constants are in milliseconds, and in nanoseconds. Returns none
    unless there are twice as many times, on one GPU and on two other numbers of them at least.
    """
    if len(times) < 2 * _CONSTANTS or len({step.gpus for step in times}) < 3:
        return []
    relative = np.array([np.divide(step.terms, ms) for step, ms in times.items()])
    lengths = np.linalg.norm(relative, axis=0)
    return [*map(float, nnls(relative / lengths, np.ones(len(times)))[0] / lengths)]


def charts(run: StudyRun, slug: str) -> list[Chart]:
    """Draw strong and weak scaling of the usual workload, measured and by the model, if it fits."""
    if (subject := run.winner(run.timed)) is None:
        return []
    slabs = [ALONE, *(way for way in ways(run) if way.decomposition == "slab")]
    sizes = sorted({cell.place.count for cell in run.timed})
    cells = {
        Step(way.ranks, size): cell
        for way, size in product(slabs, sizes)
        if (cell := find(run, subject, way, size)) and cell.mode == "graph" and not cell.is_old
    }
    times = {step: cell.median_ms for step, cell in cells.items()}
    if not (constants := fit(times)):
        return []
    off = [modelled(constants, step) / ms - 1 for step, ms in times.items()]
    if (worst := max(map(abs, off))) > _WORST:
        return []
    said = _SAID.format(
        *map(formats.significant, constants),
        steps=len(times),
        gpus=formats.listing([str(gpus) for gpus in sorted({step.gpus for step in times})]),
        rms=formats.percent(math.sqrt(np.square(off).mean())),
        most=formats.percent(worst),
    )
    what, unit = "Strong and weak scaling, and a model", "step, ms"
    return [Chart(
        f"{slug}-scaling", what, said, Scale("GPUs", "size"), Scale(unit, "number"),
        [panel("", _lines(cells, constants), what, unit)],
    )]  # fmt: skip


def modelled(constants: list[float], step: Step) -> float:
    """Return the milliseconds of a step."""
    return float(np.dot(constants, step.terms))


def _lines(cells: Mapping[Step, MeasurementRow], constants: list[float]) -> list[Curve]:
    """Return the series that most numbers of GPUs were timed on, each beside the model's."""
    lines: list[Curve] = []
    for what, per in (("", "particles"), (" a GPU", "each")):
        own = grouped(cells, attrgetter(per))
        best = sorted((len(steps), size) for size, steps in own.items())[-_SERIES:]
        for _, size in best:
            name, colour = f"{formats.power(int(size))}{what}", len(lines) // 2
            timed = [(step.gpus, cells[step]) for step in sorted(own[size])]
            points = [Point(x, c.median_ms, c.low_ms, c.high_ms, c.told) for x, c in timed]
            lines.append(Curve(f"{name}, measured", points, colour))
            y = [modelled(constants, Step(gpus, size * (gpus if what else 1))) for gpus in GPUS]
            lines.append(Curve.through(f"{name}, model", GPUS, y, colour, variant=1, marked=False))
    return lines
