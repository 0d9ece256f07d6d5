"""The Rayleigh-Taylor instability: extent of mixing, and growth rates of linear theory.

The heavier fluid is species 1 and starts on top; the vertical axis is z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats, Integers
from gpubench.physics.box import Box
from gpubench.physics.transport import wavenumber_along


@dataclass(frozen=True)
class MixingLayer:
    """The mixing layer between the fluids.

    height: 6 times the integral of c (1 - c) over z.
    spike: lowest z to which the heavy fluid has sunk. bubble: highest z to which the light fluid
        has risen.
    """

    height: float
    spike: float
    bubble: float


def heavy_fraction(
    positions: Floats, species: Integers, box: Box, spacing: float
) -> tuple[Floats, Floats]:
    """Return the mid-heights of layers at least `spacing` thick, and c, the heavy fraction.

    c: float64 (layers,), the fraction of a layer's particles that are heavy. Layers without
    particles, possible below the upper wall, are linearly interpolated from their neighbours.
    """
    layers = max(1, math.floor(box.size[2] / spacing))
    thickness = box.size[2] / layers
    layer = np.clip(np.floor(positions[:, 2] / thickness).astype(np.int64), 0, layers - 1)
    count = np.bincount(layer, minlength=layers)
    filled = count > 0
    if not filled.any():
        raise UserError("a concentration needs at least one particle")
    middle = (np.arange(layers) + 0.5) * thickness
    heavy = np.bincount(layer, species, minlength=layers)
    fraction = np.interp(middle, middle[filled], heavy[filled] / count[filled])
    return np.asarray(middle, np.float64), np.asarray(fraction, np.float64)


def mixing_layer(z: Floats, heavy: Floats, threshold: float = 0.05) -> MixingLayer:
    """Return height and ends of the mixing layer from the profile of `heavy_fraction`.

    The height is the integral measure of Andrews and Spalding (Phys. Fluids A 2, 922, 1990), with
    the factor that makes it the thickness of a layer with a linear profile. It integrates the whole
    profile, so noise hardly affects it. The ends are where the profile first passes `threshold`
    from below and last passes 1 - `threshold`; they are sensitive to noise.
    z: float64 (layers,), equally spaced. heavy: likewise, 0 at the bottom and 1 at the top before
    mixing.
    """
    if len(z) < 2:
        raise UserError("a mixing layer needs a profile of two layers or more")
    thickness = float(z[1] - z[0])
    return MixingLayer(
        height=6 * thickness * float(heavy @ (1 - heavy)),
        spike=_first_crossing(z, heavy, threshold),
        bubble=_first_crossing(z[::-1], 1 - heavy[::-1], threshold),
    )


def _first_crossing(z: Floats, rising: Floats, level: float) -> float:
    """Return where a profile first reaches a level, by linear interpolation between layers.

    Returns the start of a profile that begins above the level, and the end of one that stays below.
    """
    above = np.flatnonzero(rising >= level)
    if len(above) == 0:
        return float(z[-1])
    i = above[0]
    if i == 0:
        return float(z[0])
    share = (level - rising[i - 1]) / (rising[i] - rising[i - 1])
    return float(z[i - 1] + share * (z[i] - z[i - 1]))


def interface_wave(
    positions: Floats, species: Integers, box: Box, axis: int = 0, mode: int = 1
) -> complex:
    """Return the complex amplitude a of the interface's wave along x or y.

    The interface is at its mean height plus the real part of a exp(i k x): Re a goes with the
    cosine, -Im a with the sine, and |a| is the amplitude. In a vertical column, the interface is at
    the height to which the light particles would fill it; the mean fraction of light particles is
    subtracted, so density waves cancel to first order. If particles are placed at random, a
    fraction f of one fluid, |a| is near 2 height sqrt(f (1 - f) / particles).
    """
    k = wavenumber_along(box, axis, mode)
    light = 1.0 - species
    transform = (light - light.mean()) @ np.exp(-1j * k * positions[:, axis])
    return complex(2 * box.size[2] / len(positions) * transform)


def atwood_number(heavy: float, light: float) -> float:
    """Return (heavy - light) / (heavy + light), given two mass densities."""
    return (heavy - light) / (heavy + light)


def linear_growth_rate(
    atwood: float,
    gravity: float,
    wavenumber: float,
    kinematic_viscosity: float = 0.0,
    diffusion: float = 0.0,
) -> float:
    """Return n of a small interface wave that grows as exp(n t) between deep fluids.

    n = sqrt(A g k + nu^2 k^4) - (nu + D) k^2 (Duff, Harlow and Hirt, Phys. Fluids 5, 417, 1962, for
    a sharp interface), which without viscosity and diffusion is sqrt(A g k) (Chandrasekhar,
    Hydrodynamic and Hydromagnetic Stability, 1961, chapter X). Mikaelian (Phys. Rev. E 47, 375,
    1993) compares it with the exact rate, which `viscous_growth_rate` returns.
    An interface at rest starts as cosh(n t) rather than exp(n t).
    """
    square = wavenumber**2
    inertia = math.sqrt(atwood * gravity * wavenumber + (kinematic_viscosity * square) ** 2)
    return inertia - (kinematic_viscosity + diffusion) * square


def viscous_growth_rate(
    atwood: float, gravity: float, wavenumber: float, kinematic_viscosity: float
) -> float:
    """Return the exact n for two deep fluids of the same kinematic viscosity, without diffusion.

    With p, q the densities of light and heavy fluid, divided by their sum, Q = g / (k^3 nu^2)
    and n = (y^2 - 1) nu k^2, Chandrasekhar (1961, section 94) has y^4 + 4 p q y^3
    + (2 - 12 p q) y^2 - (4 - 12 p q) y + 1 - 4 p q = (q - p) Q; the unstable mode is its
    root above 1. atwood, gravity, viscosity: positive.
    """
    from scipy.optimize import brentq  # slow to import

    product = (1 - atwood**2) / 4
    buoyancy = atwood * gravity / (wavenumber**3 * kinematic_viscosity**2)
    quartic = np.polynomial.Polynomial(
        [1 - 4 * product - buoyancy, 12 * product - 4, 2 - 12 * product, 4 * product, 1]
    )
    # The bracket for the root: at 1 the quartic is negative, at the other end positive.
    y = brentq(quartic, 1, 2 + buoyancy**0.25, xtol=1e-14)
    return float((y**2 - 1) * kinematic_viscosity * wavenumber**2)
