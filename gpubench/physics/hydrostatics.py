"""Fluid at rest under gravity along -z: pressure against depth, and draft of floating bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.fits import fit_line

LEAST_LAYERS = 3


@dataclass(frozen=True)
class Profile:
    """Means over horizontal layers of equal thickness, from the bottom up.

    heights: float64 (layers,), mean z of the particles. pressures: likewise, mean pressure.
    """

    heights: Floats
    pressures: Floats


def pressure_profile(heights: Floats, pressures: Floats, thickness: float) -> Profile:
    """Return the mean pressure in layers from z = 0 up; empty layers are left out.

    heights, pressures: float64 (particles,).
    """
    layer = np.floor(heights / thickness).astype(np.int64)
    count = np.bincount(layer)
    filled = np.flatnonzero(count)
    return Profile(
        np.bincount(layer, heights)[filled] / count[filled],
        np.bincount(layer, pressures)[filled] / count[filled],
    )


def surface_height(heights: Floats, spacing: float, area: float) -> float:
    """Return the surface height of a fluid at rest: half a spacing above its highest layer.

    heights: float64 (particles,). area: surface area. The highest area / spacing^2 particles form
    the highest layer.
    """
    in_layer = min(len(heights), max(1, round(area / spacing**2)))
    highest = np.partition(heights, len(heights) - in_layer)[-in_layer:]
    return float(highest.mean()) + spacing / 2


def local_surface(positions: Floats, spacing: float) -> float:
    """Return the surface height of a part of a fluid, such as the part away from bodies.

    positions: float64 (particles, 3). The result is the median height of the highest particles of
    square columns two spacings wide, plus half a spacing.
    """
    if not len(positions):
        raise UserError("there is no fluid whose surface could be seen")
    column = np.floor(positions[:, :2] / (2 * spacing)).astype(np.int64)
    _, of = np.unique(column, axis=0, return_inverse=True)
    highest = np.full(int(of.max()) + 1, -np.inf)
    np.maximum.at(highest, of.ravel(), positions[:, 2])
    return float(np.median(highest)) + spacing / 2


def hydrostatic_deviation(
    profile: Profile, density: float, gravity: float, surface: float, margin: float
) -> float:
    """Return the greatest |p - rho g (H - z)| / (rho g H) over layers; H is the surface height.

    margin: layers nearer than this to floor or surface, where the kernel reaches beyond the fluid,
    are left out. gravity: positive. Raises UserError where too few layers are left.
    """
    inside = _inside(profile, surface, margin)
    expected = density * gravity * (surface - profile.heights[inside])
    off = np.abs(profile.pressures[inside] - expected).max()
    return float(off / (density * gravity * surface))


def weight_density(profile: Profile, gravity: float, surface: float, margin: float) -> float:
    """Return -dp/dz / g from a line fit over the layers: the density implied by the pressure.

    The surface height only decides which layers are left out; see `hydrostatic_deviation`.
    """
    inside = _inside(profile, surface, margin)
    return -fit_line(profile.heights[inside], profile.pressures[inside]).slope.value / gravity


def floating_draft(density_ratio: float, height: float) -> float:
    """Return the draft of a floating upright box by Archimedes' principle.

    density_ratio: box density over fluid density. Raises UserError where the box does not float.
    """
    if not 0 < density_ratio < 1:
        raise UserError(
            f"a body floats where its density is below the fluid's, not {density_ratio:g} of it"
        )
    return density_ratio * height


def _inside(profile: Profile, surface: float, margin: float) -> NDArray[np.bool_]:
    inside = (profile.heights >= margin) & (profile.heights <= surface - margin)
    if (count := int(inside.sum())) < LEAST_LAYERS:
        raise UserError(
            f"{count} layers lie {margin:g} or more from floor and surface:"
            f" a profile needs {LEAST_LAYERS}, so make the fluid deeper"
        )
    return inside
