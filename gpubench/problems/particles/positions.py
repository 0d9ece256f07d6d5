"""Read a user's positions from an untrusted file."""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.problems.particles.inputs import ParticleSet, from_positions


def read_particles(path: Path, grid: Grid) -> ParticleSet:
    """Return the particles of a `.npy` file, an array of shape (particles, 3) or (particles, 4).

    Raises UserError for any other file, an empty array, or positions that `from_positions` refuses.
    """
    array = mapped(path)
    if array.ndim == 2 and len(array) == 0:
        raise UserError(f"{path} holds no particles: give at least one")
    try:
        return from_positions(array, grid)
    except MemoryError as error:
        raise UserError(
            f"{len(array)} particles of {path} do not fit into memory: give fewer"
        ) from error


def mapped(path: Path) -> NDArray[Any]:
    """Memory-map the array of a `.npy` file; this fails if the header's shape is too large."""
    try:
        with warnings.catch_warnings():  # ignore warnings from parsing the header
            warnings.simplefilter("ignore")
            return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # NumPy parses the header as Python, with many kinds of errors
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            f"cannot read {path}: {textwrap.shorten(reason, 200) or type(error).__name__};"
            " give a .npy file of numbers, as numpy.save writes it"
        ) from error
