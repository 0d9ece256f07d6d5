"""Domains of two species: order parameter on a mesh, structure factor, domain size.

Domains grow in two dimensions as t^1/2 and then t^2/3 (Coveney and Novik, Phys. Rev. E 54, 5134,
1996), in three as t^1/3 and then t (Bray, Adv. Phys. 43, 357, 1994).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats, Integers
from gpubench.physics.box import Box


@dataclass(frozen=True)
class StructureFactor:
    """Mean of |transform|^2 over shells of wavevectors of similar length.

    wavenumber: float64 (shells,), mean length of a shell's wavevectors, increasing.
    power: float64 (shells,), normalised: its mean over wavevectors is the field's mean square.
    modes: int64 (shells,), number of wavevectors in a shell.
    """

    wavenumber: Floats
    power: Floats
    modes: NDArray[np.int64]


def order_parameter(
    positions: Floats, species: Integers, box: Box, spacing: float, dimensions: int = 3
) -> Floats:
    """Return (n_1 - n_0) / (n_1 + n_0) of the particles in each cell of a mesh, x first.

    It is -1 or 1 inside a domain, regardless of density fluctuations, and 0 in empty cells, so the
    mesh should be coarse enough for several particles per cell.
    spacing: minimum cell edge. In two dimensions the mesh is one cell deep along z.
    Returns float64 (nx, ny, nz).
    """
    cells = [max(1, math.floor(edge / spacing)) for edge in box.size[:dimensions]]
    cells += [1] * (3 - dimensions)
    inside = np.floor(positions * (np.asarray(cells) / box.size)).astype(np.int64)
    cell = np.ravel_multi_index(tuple(np.clip(inside, 0, np.asarray(cells) - 1).T), cells)
    both = np.bincount(cell, minlength=math.prod(cells))
    difference = np.bincount(cell, 2.0 * species - 1, minlength=math.prod(cells))
    parameter: Floats = (difference / np.maximum(both, 1)).reshape(cells)
    return parameter


def structure_factor(field: Floats, box: Box) -> StructureFactor:
    """Return the spherically averaged structure factor of a field on a mesh over the box.

    field: float64 (nx, ny, nz). Between walls the transform is a cosine transform, in multiples of
    pi / edge: it continues the field by its mirror image, without a jump, as at reflecting walls.
    An axis one cell deep has no wavevectors.

    Shells are as thick as the smallest wavenumber, and reach to the Nyquist wavenumber of the
    coarsest axis. The mean of the field is left out.
    """
    deep = [axis for axis in range(3) if field.shape[axis] > 1]
    if not deep:
        raise UserError("a structure factor needs a mesh of more than one cell")
    along = [_wavenumbers(field.shape[axis], box, axis) for axis in range(3)]
    x, y, z = np.meshgrid(*along, indexing="ij", sparse=True)
    length = np.sqrt(x**2 + y**2 + z**2)
    smallest = min(along[axis][1] for axis in deep)
    nyquist = min(np.abs(along[axis]).max() for axis in deep)
    shell = np.rint(length / smallest).astype(np.int64)
    chosen = (shell > 0) & (length <= nyquist * (1 + 1e-9))
    modes = np.bincount(shell[chosen])
    filled = np.flatnonzero(modes)

    def mean_over_shells(values: Floats) -> Floats:
        mean: Floats = np.bincount(shell[chosen], values[chosen])[filled] / modes[filled]
        return mean

    power = np.abs(_transform(field, box)) ** 2
    return StructureFactor(mean_over_shells(length), mean_over_shells(power), modes[filled])


def _wavenumbers(cells: int, box: Box, axis: int) -> Floats:
    """Return the wavenumbers along an axis, in the order of the transform."""
    if box.periodic[axis]:
        return np.asarray(2 * math.pi * np.fft.fftfreq(cells, box.size[axis] / cells))
    return np.asarray(math.pi / box.size[axis] * np.arange(cells), np.float64)


def _transform(field: Floats, box: Box) -> NDArray[np.complexfloating[Any, Any]]:
    """Return the transform (cosine between walls), scaled to keep the sum of squares."""
    from scipy import fft  # slow to import

    for axis in np.flatnonzero(~np.asarray(box.periodic)):
        field = fft.dct(field, axis=axis, norm="ortho")
    transform = field.astype(np.complex128)
    for axis in np.flatnonzero(box.periodic):
        transform = fft.fft(transform, axis=axis, norm="ortho")
    return transform


def domain_size(factor: StructureFactor) -> float:
    """Return 2 pi over the mean wavenumber, weighted by S: 2 pi sum S / sum k S over shells.

    The result has the box's unit of length. Raises UserError for a uniform field, without domains.
    """
    moment = float(factor.wavenumber @ factor.power)
    if not moment > 0:
        raise UserError("the fluid is the same everywhere: there are no domains to measure")
    return 2 * math.pi * float(factor.power.sum()) / moment
