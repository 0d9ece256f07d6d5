"""A model of steps on up to 64 GPUs, fitted to steps measured on few, and drawn as a model.

With one rank a step of N particles takes a + c N. With several, as slabs, it takes the longer of a
latency (launches and messages, whatever the size) and b + c n + x, where n is in the largest slab
of whole planes and x is the transfer of the halo beyond the computation of the inner planes that
hides it. a, b, c and the latency are fitted. The bandwidth is not: where transfers are hidden, no
time depends on it, so it is that of data sheets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpubench.physics.sph import spacing_for
from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.figures import Axis, Chart, Line, panel, time_point
from gpubench.report.machines import StudyRun
from gpubench.report.steps import ALONE, shared

RANKS = tuple(2**power for power in range(7))
_SERIES = ((2**24, 0), (2**26, 0), (0, 2**22))  # particles; particles a GPU
_NEIGHBOURS, _HEIGHT, _DEPTH = 30.0, 2.0, 1.0  # of a dam break: of a particle; in column widths
_EDGE_BYTES = 32  # position and flow of a particle of an edge plane
# GB/s a GPU and direction by the data sheets: NVLink 4 among the GPUs of a host, 400 Gbit/s beyond.
_HOST_GPUS, _IN_HOST, _BETWEEN_HOSTS = 8, 450.0, 50.0
_LEAST_STEPS = 2  # on one rank, at the latency, and above it: fewer determine nothing


class Step(NamedTuple):
    """A measured step: milliseconds with so many ranks and particles."""

    ranks: int
    particles: int
    ms: float


class Model(NamedTuple):
    """The fitted constants in milliseconds.

    alone, shared: a step's fixed part on one rank and on several. each: a particle.
    """

    alone: float
    shared: float
    each: float
    latency: float

    def ms(self, ranks: int, particles: float) -> float:
        """Return the time of a step."""
        return max(self.latency if ranks > 1 else 0.0, self.computed(ranks, particles))

    def computed(self, ranks: int, particles: float) -> float:
        """Return the computation of the largest slab, and the transfers that it does not hide."""
        if ranks == 1:
            return self.alone + self.each * particles
        planes = column_planes(particles)
        own, edges = math.ceil(planes / ranks), min(2, ranks - 1)
        bandwidth = _IN_HOST if ranks <= _HOST_GPUS else _BETWEEN_HOSTS
        halo = edges * _EDGE_BYTES * particles / planes / bandwidth * 1e-6
        hidden = self.each * particles * max(own - edges, 0) / planes
        return self.shared + self.each * particles * own / planes + max(0.0, halo - hidden)

    def residuals(self, steps: Sequence[Step]) -> NDArray[np.float64]:
        """Return by which part of the measured time each step takes longer in the model."""
        return np.array([self.ms(step.ranks, step.particles) / step.ms - 1 for step in steps])


def column_planes(particles: float) -> int:
    """Return across how many planes of cells the column of a dam break lies when it is released."""
    width: float = (particles / (_HEIGHT * _DEPTH)) ** (1 / 3)
    return max(1, round(width * spacing_for(_NEIGHBOURS)))


def fit(steps: Sequence[Step]) -> Model | None:
    """Fit a model by non-negative least squares of relative residuals.

    Returns None where the steps do not determine each constant: at least two on one rank, two of
    several ranks at the latency and two above it.
    """
    from scipy.optimize import least_squares

    several = [step for step in steps if step.ranks > 1]
    if len(steps) - len(several) < _LEAST_STEPS or len(several) < 2 * _LEAST_STEPS:
        return None
    shortest = min(step.ms for step in several)
    widest = max(steps, key=lambda step: step.particles / step.ranks)
    start = [shortest / 10, shortest / 10, widest.ms * widest.ranks / widest.particles, shortest]
    found = least_squares(
        lambda x: Model(*x).residuals(steps), start, bounds=(0, np.inf), x_scale=start, xtol=1e-12
    )
    model = Model(*map(float, found.x))
    above = sum(model.computed(s.ranks, s.particles) > model.latency for s in several)
    return model if _LEAST_STEPS <= above <= len(several) - _LEAST_STEPS else None


def chart(run: StudyRun, studies: Sequence[StudyRun], slug: str) -> Chart | None:
    """Draw strong and weak scaling by the model, dashed, beside what was measured.

    studies: all of the machine, whose steps of the same subject are fitted and drawn. Returns None
    for a study that does not declare a model.
    """
    subject = run.winner(run.timed)
    if subject is None or run.study.scaling_model is None:
        return None
    found = {
        Step(way.ranks, size, cell.median_ms): cell
        for each in studies
        if each.kind["workload"] == run.kind["workload"]
        for (way, size), cell in shared(each, subject).items()
        if way == ALONE or (way.decomposition == "slab" and way.ranks in RANKS)
    }
    steps = list(found)
    if (model := fit(steps)) is None:
        return None
    lines: list[Line] = []
    for colour, (total, per_rank) in enumerate(_SERIES):
        label = formats.power(total) if total else f"{formats.power(per_rank)} a GPU"
        at = [each for each in sorted(steps) if each.particles == total + per_rank * each.ranks]
        measured = [time_point(each.ranks, found[each]) for each in at]
        lines += [Line(f"{label}, measured", measured, colour)] if measured else []
        drawn = [model.ms(ranks, total + per_rank * ranks) for ranks in RANKS]
        lines.append(Line.through(f"{label}, model", RANKS, drawn, colour, variant=1, marked=False))
    counts = formats.listing(str(n) for n in sorted({step.ranks for step in steps}))
    residuals, number = model.residuals(steps), formats.significant
    title = f"Scaling: model, fitted to {len(steps)} measured points on {counts} GPUs"
    return Chart(
        f"{slug}-model",
        title,
        f"Dashed: no measurement, but a model of {run.labels[subject]} in slabs. A step takes"
        f" {number(1e6 * model.each)} ns per particle of the largest slab, whole planes of the dam"
        f" at its release, and {number(model.shared)} ms ({number(model.alone)} ms on one GPU); on"
        f" several GPUs at least {number(model.latency)} ms, for launches and messages. Residuals:"
        f" {formats.percent(float(np.sqrt(np.mean(residuals**2))))} root mean square,"
        f" {formats.percent(float(np.abs(residuals).max()))} at most. What these points cannot"
        " determine: the bandwidth, since the transfers are hidden behind computation"
        f" ({_IN_HOST:g} GB/s up to {_HOST_GPUS} GPUs and {_BETWEEN_HOSTS:g} beyond, from data"
        " sheets), and how latency grows with ranks and hosts (here it does not).",
        Axis(AXES["ranks"].label, "number"),
        Axis("step, ms", "number"),
        [panel("", lines, title, "ms")],
    )
