"""Transport coefficients: diffusion from displacements, viscosity from a decaying shear wave."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.fits import LEAST_POINTS, Estimate, in_window, mean_of
from gpubench.physics.pairs import nearest_image

GROUPS = 16  # groups of particles, whose spread gives the error of a diffusion coefficient


class MeanSquareDisplacement:
    """Mean-square displacement since the first snapshot, along the periodic axes.

    Between snapshots no particle may travel half an edge of the box, since paths are unwrapped by
    the nearest image. The common drift of all particles is subtracted; any other flow counts as
    displacement.
    """

    def __init__(self, box: Box) -> None:
        """Start with no snapshot; raise UserError if no axis is periodic."""
        if not any(box.periodic):
            raise UserError("displacements are measured along periodic axes, and the box has none")
        self._box = box
        self._axes = np.flatnonzero(box.periodic)
        self._last: Floats | None = None
        self._travelled = np.zeros((0, 3))
        self._times: list[float] = []
        self._groups: list[Floats] = []

    @property
    def times(self) -> Floats:
        """Times of the snapshots since the first, float64 (snapshots,)."""
        return np.asarray(self._times) - self._times[0] if self._times else np.zeros(0)

    @property
    def values(self) -> Floats:
        """Mean-square displacement at each of the times, float64 (snapshots,)."""
        return np.asarray([groups.mean() for groups in self._groups])

    def add(self, time: float, positions: Floats) -> None:
        """Add a later snapshot: float64 (particles, 3), always in the same order."""
        if self._last is None:
            if len(positions) < GROUPS:
                raise UserError(f"a mean over particles needs at least {GROUPS}")
            self._travelled = np.zeros_like(positions)
        else:
            self._travelled += nearest_image(positions - self._last, self._box)
        self._last = positions.copy()
        self._times.append(time)
        moved = (self._travelled - self._travelled.mean(axis=0))[:, self._axes]
        squares = np.einsum("pk,pk->p", moved, moved)
        self._groups.append(np.asarray([squares[g::GROUPS].mean() for g in range(GROUPS)]))

    def diffusion(self, window: tuple[float, float]) -> Estimate:
        """Return D from the slope 2 d D (d axes) over a window of times since the first snapshot.

        The window should start once velocities are decorrelated. Displacements at successive times
        are correlated, but those of different particles hardly are: the error is that of the slopes
        of 16 groups of particles. A box of edge L slows diffusion down by about 2.84 k T / (6 pi
        viscosity L) (Dünweg and Kremer, J. Chem. Phys. 99, 6983, 1993).
        """
        chosen = in_window(self.times, window)
        slopes = np.polyfit(self.times[chosen], np.asarray(self._groups)[chosen], 1)[0]
        return mean_of(slopes / (2 * len(self._axes)))


@dataclass(frozen=True)
class Viscosity:
    """Viscosity of a fluid: kinematic, nu, and dynamic, eta = nu times mass density."""

    kinematic: Estimate
    dynamic: Estimate


def wavenumber_along(box: Box, axis: int, mode: int = 1) -> float:
    """Return k = 2 pi mode / edge of a wave along a periodic axis."""
    return 2 * math.pi * mode / box.size[axis]


def shear_wave(positions: Floats, velocities: Floats, box: Box, mode: int = 1) -> float:
    """Return U of the transverse wave v_x = U sin(k z) in the velocities.

    positions, velocities: float64 (particles, 3). Thermal motion adds noise of variance
    2 k T / (m particles).
    """
    along_z = np.sin(wavenumber_along(box, 2, mode) * positions[:, 2])
    return 2 * float(velocities[:, 0] @ along_z) / len(positions)


def viscosity(
    times: Floats, amplitudes: Floats, wavenumber: float, mass_density: float
) -> Viscosity:
    """Return the viscosity from a transverse wave that decays as exp(-nu k^2 t).

    times, amplitudes: float64 (samples,), equally spaced, further apart than the stress correlation
    time; amplitudes as returned by `shear_wave`.

    Thermal motion keeps exciting the wave, and this noise decays like the wave itself. So samples
    are not an exponential with independent errors: each is the previous one times exp(-nu k^2 dt)
    plus an independent error (an Ornstein-Uhlenbeck process). Regressing each sample on the
    previous one therefore gives the right weights and error, however noisy the series is.
    """
    steps = np.diff(times)
    if len(times) < LEAST_POINTS or not np.allclose(steps, steps[0], rtol=1e-6, atol=0):
        raise UserError(f"a decay needs at least {LEAST_POINTS} samples, equally spaced in time")
    before, after = amplitudes[:-1], amplitudes[1:]
    power, correlation = float(before @ before), float(before @ after)
    if not correlation > 0:
        raise UserError(f"the wave is gone after {steps[0]:g}: sample it more often")
    kept = correlation / power
    residuals = after - kept * before
    variance = float(residuals @ residuals) / (len(residuals) - 1)
    rate = Estimate(-math.log(kept) / steps[0], math.sqrt(variance / power) / (kept * steps[0]))
    kinematic = rate.times(1 / wavenumber**2)
    return Viscosity(kinematic, kinematic.times(mass_density))
