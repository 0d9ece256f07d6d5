"""The front of a column of fluid that collapses on a dry floor, against experiments.

A column of width a and height 2 a stands along x from the origin; z is up. The front is at
Z = x / a at time T = t sqrt(2 g / a).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.fits import Estimate, fit_line, in_window

LATE = (4.4, 9.2)  # range of T in which the front has a constant speed in the experiments
LATE_SLOPE, LATE_SLOPE_ERROR = 1.68, 0.1  # from the ends of Martin and Moyce's second data set
TOLERANCE = 0.1  # the data sets differ by 7 % at T = 3.1

LAYERS = 3.0  # height above the floor in which the front is sought, in spacings
FULL = 0.25  # fraction of these layers that must be filled to count as fluid, not spray
STRETCH = 2.0  # length over which particles are counted, in spacings


@dataclass(frozen=True)
class Experiment:
    """The points of a published figure: T and Z, float64 (points,)."""

    title: str
    times: Floats
    fronts: Floats


def _experiment(title: str, *points: tuple[float, float]) -> Experiment:
    times, fronts = np.array(points).T
    return Experiment(title, times, fronts)


# Points that pysph (examples/db_exp_data.py) read off figures of J. C. Martin and W. J. Moyce,
# Phil. Trans. R. Soc. A 244, 312 (1952), figure 3, n^2 = 2, columns of 1.125 and 2.25 inches, and
# of S. Koshizuka and Y. Oka, Nucl. Sci. Eng. 123, 421 (1996).
EXPERIMENTS: Mapping[str, Experiment] = {
    "martin-moyce-1": _experiment(
        "Martin and Moyce 1952, 1.125 inches",
        (0.849, 1.245), (1.212, 1.443), (1.602, 1.884), (2.283, 2.689), (2.950, 3.728),
        (3.598, 4.528), (3.905, 4.999), (4.592, 5.841), (4.961, 6.271), (5.316, 6.717),
    ),
    "martin-moyce-2": _experiment(
        "Martin and Moyce 1952, 2.25 inches",
        (0.832, 1.217), (1.219, 1.474), (1.997, 2.292), (2.547, 2.995), (3.345, 4.134),
        (4.034, 4.944), (4.418, 5.881), (5.091, 6.980), (5.685, 7.945), (6.306, 8.966),
        (6.822, 9.986), (7.439, 10.963), (8.031, 11.977), (8.633, 13.005), (9.237, 13.970),
    ),
    "koshizuka-oka": _experiment(
        "Koshizuka and Oka 1996",
        (0.0, 1.000), (0.381, 1.111), (0.769, 1.252), (1.153, 1.505), (1.537, 1.892),
        (1.935, 2.241), (2.323, 2.615), (2.719, 3.003), (3.096, 3.624),
    ),
}  # fmt: skip


def scaled_time(time: float, width: float, gravity: float) -> float:
    """Return T = t sqrt(2 g / a); gravity is positive."""
    return time * math.sqrt(2 * gravity / width)


def front_position(positions: Floats, spacing: float, depth: float) -> float:
    """Return the x up to which fluid covers the floor without a gap.

    positions: float64 (particles, 3). spacing: distance of particles at rest. depth: size along y.
    Only the lowest LAYERS layers count. Scanning from the rear, the front is where a stretch of
    STRETCH spacings is first filled to less than FULL. This ignores spray ahead of the front and
    airborne fluid. Raises UserError where no fluid is found.
    """
    on_floor = np.sort(positions[positions[:, 2] < LAYERS * spacing, 0])
    wanted = max(2, math.ceil(FULL * LAYERS * STRETCH * depth / spacing))
    if len(on_floor) < wanted:
        raise UserError(f"{len(on_floor)} particles are near the floor: a front needs {wanted}")
    # For each particle, the distance to the one `wanted` - 1 places further along.
    reach = on_floor[wanted - 1 :] - on_floor[: len(on_floor) - wanted + 1]
    thin = np.flatnonzero(reach > STRETCH * spacing)
    last = int(thin[0]) + wanted - 2 if len(thin) else len(on_floor) - 1
    return float(on_floor[last]) + spacing / 2


def late_slope(times: Floats, fronts: Floats) -> Estimate:
    """Return dZ/dT over LATE; raise UserError if LATE contains too few times."""
    chosen = in_window(times, LATE)
    return fit_line(times[chosen], fronts[chosen]).slope


def deviations(times: Floats, fronts: Floats) -> dict[str, float]:
    """Return, for each experiment, the (Z - Z_exp) / Z_exp of greatest magnitude, with its sign.

    times: float64 (samples,), rising. Z is interpolated linearly between `times`; experimental
    points outside their range are left out, as are experiments with no point left.
    """
    found = {}
    for name, experiment in EXPERIMENTS.items():
        within = (experiment.times >= times[0]) & (experiment.times <= times[-1])
        if within.any():
            measured = np.interp(experiment.times[within], times, fronts)
            relative = measured / experiment.fronts[within] - 1
            found[name] = float(relative[np.argmax(np.abs(relative))])
    return found
