"""Read a user's meshes from untrusted files."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.install import hint
from gpubench.problems.collision.inputs import MeshPair, mesh_pair
from gpubench.problems.particles.positions import mapped


def read_mesh_pair(first: Path, second: Path) -> MeshPair:
    """Return two meshes with the coordinates that are stored in their files.

    A `.npy` file holds triangles, of shape (n, 3 corners, 3); trimesh reads the others (OBJ, STL,
    PLY, ...). Raises UserError for a file that is not a mesh or that `mesh_pair` refuses.
    """
    return mesh_pair(_triangles(first), _triangles(second), np.eye(3, 4))


def _triangles(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise UserError(f"there is no file {path}: give a mesh")
    if path.suffix.lower() == ".npy":
        array = mapped(path)
        if array.dtype.kind not in "fiu":
            raise UserError(f"{path} holds {array.dtype}: give triangles as real numbers")
        return array
    try:
        reader: Any = importlib.import_module("trimesh")
    except ImportError as error:
        raise UserError(f"reading {path} needs trimesh: {hint('meshes')}") from error
    try:
        triangles = np.asarray(reader.load_mesh(str(path), process=False).triangles)
    except Exception as error:  # each format has its own reader, with many kinds of errors
        reason = textwrap.shorten(str(error), 200) or type(error).__name__
        raise UserError(f"cannot read {path}: {reason}") from error
    return triangles
