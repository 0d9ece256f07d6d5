"""Frames of a trajectory: positions of the same particles at successive times."""

from __future__ import annotations

import gzip
import itertools
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.install import hint
from gpubench.core.grid import edges_of
from gpubench.problems.particles.positions import mapped

Triple = tuple[float, float, float]

# Keys in the comment line of extended XYZ; programs capitalise them differently.
_KEYS = {"lattice": "Lattice", "origin": "Origin", "pbc": "pbc", "properties": "Properties"}
_KEY = re.compile(rf"\b({'|'.join(_KEYS)})(?=\s*=)", re.IGNORECASE)
_TOO_MANY = re.compile(r"Properties\s*=\s*\S*:[0-9]{4}")  # 1000 columns or more exhaust memory
AGREES = 1e-6  # relative tolerance of box edges, which files often round to float32


@dataclass(frozen=True, eq=False)
class Frames:
    """Positions, shape (frames, particles, 3), in any unit of length.

    source: the name of the file or argument that the positions come from.
    low, box: corner and edges of the box in the file; None if it has no box.
    periodic: whether the box is periodic along each axis; None if the file does not say.
    """

    positions: NDArray[np.floating]
    source: str = "positions"
    low: Triple | None = None
    box: Triple | None = None
    periodic: tuple[bool, bool, bool] | None = None

    def require_agreement(self, size: Triple, periodic: Sequence[bool]) -> None:
        """Raise UserError if a given box and the file's box differ along a periodic axis.

        Along open axes the given box may be larger or smaller.
        """
        if self.box is None:
            return
        for axis, given, stated, repeats in zip("xyz", size, self.box, periodic, strict=True):
            if repeats and abs(given - stated) > AGREES * abs(stated):
                raise UserError(
                    f"--box (box=) repeats along {axis} after {given:g}, and the box of"
                    f" {self.source} after {stated:g}: leave it out, or correct one of them"
                )


class _Frame(NamedTuple):
    """A frame of a file.

    cell: the box vectors as columns, (3, 3); None without a box. low, periodic: as in Frames.
    ids: the particles' ids; None if the file has none.
    """

    positions: NDArray[np.floating]
    cell: NDArray[np.float64] | None = None
    low: Triple = (0.0, 0.0, 0.0)
    periodic: tuple[bool, bool, bool] | None = None
    ids: NDArray[np.str_] | None = None


def read_frames(path: Path) -> Frames:
    """Read a `.gsd`, `.xyz`, `.extxyz` or `.xyz.gz` file, or a `.npy` array of one or more frames.

    Raises UserError for an unreadable file, for frames with different particles or boxes, and for a
    box that is not orthorhombic.
    """
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    if kind in (".xyz", ".extxyz"):
        return _of_one_box(path, _xyz(path))
    if kind == ".gsd":
        return _of_one_box(path, _gsd(path))
    return frames_of(mapped(path), str(path))


def frames_of(positions: object, source: str = "positions") -> Frames:
    """Convert an array of shape (particles, 3 or 4) or (frames, particles, 3 or 4) to frames."""
    if np.ma.is_masked(positions):
        raise UserError(f"{source} take an array without masked numbers: leave them out")
    try:
        array = np.asarray(positions)
    except (TypeError, RuntimeError) as error:  # arrays of GPUs, and tensors that need gradients
        raise UserError(
            f"{source} take an array of NumPy, not {type(positions).__name__}: copy it to the host"
        ) from error
    except ValueError as error:
        raise UserError(f"all frames of {source} must have the same number of particles") from error
    if array.ndim == 2:
        array = array[np.newaxis]
    if array.ndim != 3 or array.shape[2] not in (3, 4):
        raise UserError(
            f"{source} must have shape (particles, 3) or (frames, particles, 3), not {array.shape}"
        )
    if len(array) == 0:
        raise UserError(f"{source} has no frames: give at least one")
    if array.shape[1] == 0:
        raise UserError(f"{source} has no particles: give at least one")
    return Frames(array, source)


def _of_one_box(path: Path, frames: Sequence[_Frame]) -> Frames:
    """Return the frames of a file; raise UserError if particles or boxes differ."""
    if not frames:
        raise UserError(f"{path} has no frames: give at least one")
    first, *others = frames
    for number, each in enumerate(others, 1):
        if len(each.positions) != len(first.positions):
            raise UserError(
                f"{path} has {len(first.positions)} particles in frame 0 and"
                f" {len(each.positions)} in frame {number}: give frames of the same particles"
            )
        has_ids = first.ids is not None and each.ids is not None
        if has_ids and not np.all(first.ids == each.ids):
            raise UserError(
                f"the ids of {path} stand in another order in frame {number} than in frame 0: sort"
                " each frame by id"
            )
        if not _same_box(first, each):
            raise UserError(
                f"the box of {path} changes from frame 0 to frame {number}: give frames of one box"
            )
    found = frames_of(np.stack([each.positions for each in frames]), str(path))
    if first.cell is None:
        return Frames(found.positions, found.source, periodic=first.periodic)
    if (edges := edges_of(first.cell)) is None:
        raise UserError(
            f"the box of {path} is triclinic or turned: only boxes along x, y and z can be searched"
        )
    return Frames(found.positions, found.source, first.low, edges, first.periodic)


def _same_box(one: _Frame, other: _Frame) -> bool:
    if one.cell is None or other.cell is None:
        return one.cell is other.cell and one.periodic == other.periodic
    atol = AGREES * float(np.abs(one.cell).max())
    boxes = ((*one.cell, one.low), (*other.cell, other.low))
    return one.periodic == other.periodic and np.allclose(*boxes, rtol=0, atol=atol)


def _gsd(path: Path) -> list[_Frame]:
    try:
        import gsd.hoomd
    except ImportError as error:
        raise UserError(f"reading {path} needs gsd: {hint('simulation')}") from error
    try:
        with gsd.hoomd.open(str(path), "r") as moments:
            return [_gsd_frame(each) for each in moments]
    except (OSError, RuntimeError) as error:
        raise UserError(f"cannot read {path}: {error}; give a GSD trajectory") from error


def _gsd_frame(moment: Any) -> _Frame:
    x, y, z, xy, xz, yz = map(float, moment.configuration.box)
    cell = np.array([[x, xy * y, xz * z], [0, y, yz * z], [0, 0, z]])
    # GSD's origin is the centre of the box.
    return _Frame(np.asarray(moment.particles.position), cell, (-x / 2, -y / 2, -z / 2))


def _xyz(path: Path) -> list[_Frame]:
    """Read plain or extended XYZ; blank lines between frames are allowed."""
    frames: list[_Frame] = []
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace") as lines:
            for count in filter(None, map(str.strip, lines)):
                if not re.fullmatch("[0-9]{1,12}", count):
                    raise ValueError(f"it begins with {shorten(count, 40)!r} and no number")
                comment, *rows = [*itertools.islice(lines, 1 + int(count))] or [""]
                if not 0 < int(count) == len(rows) or not all(map(str.strip, rows)):
                    raise ValueError(f"it does not have {count} particles, or ends early")
                frames.append(_xyz_frame(path, comment.strip(), rows))
    except (OSError, EOFError, zlib.error) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise UserError(f"cannot read {path}: {reason}; give frames in the XYZ format") from error
    except ValueError as error:
        raise UserError(
            f"cannot read frame {len(frames)} of {path}: {error}; give frames in the XYZ format"
        ) from error
    return frames


def _xyz_frame(path: Path, comment: str, rows: Sequence[str]) -> _Frame:
    """Read a frame; rows are `name x y z`, or have the columns that the comment names."""
    keys = {key.lower() for key in _KEY.findall(comment)}
    if not keys:
        return _Frame(np.loadtxt(rows, comments=None, usecols=(1, 2, 3), ndmin=2))
    try:
        import extxyz
    except ImportError as error:
        raise UserError(f"reading {path} needs extxyz: {hint('xyz')}") from error
    comment = _KEY.sub(lambda key: _KEYS[key[0].lower()], comment)
    if _TOO_MANY.search(comment):
        raise ValueError("its Properties name a thousand columns")
    try:
        # First parse one particle in Python, since the reader in C crashes on malformed files.
        head = StringIO(f"1\n{comment}\n{rows[0]}")
        (told,) = extxyz.iread_dicts(head, use_cextxyz=False)
        x, y, z = map(float, told.info.get("Origin", (0, 0, 0)))
        a, b, c = map(bool, np.broadcast_to(told.pbc, 3))
    except Exception as error:  # many kinds, e.g. for a non-numeric Lattice or a duplicate key
        raise ValueError(f"its comment is no extended XYZ ({shorten(str(error), 200)})") from error
    kinds = {"pos": np.float64, "id": "U20"}
    columns = [(name, kinds.get(name, "U1"), one.shape[1:]) for name, one in told.arrays.items()]
    if ("pos", np.float64, (3,)) not in columns or told.arrays["pos"].dtype.kind not in "fi":
        raise ValueError("its Properties name no pos:R:3")
    table = np.loadtxt(rows, columns, comments=None, ndmin=1)
    return _Frame(
        table["pos"],
        told.cell if told.cell.any() else None,
        (x, y, z),
        (a, b, c) if keys & {"lattice", "pbc"} else None,
        table["id"] if "id" in told.arrays else None,
    )
