"""Frames of a trajectory: positions of the same particles at successive times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.install import hint
from gpubench.problems.particles.positions import mapped

Triple = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Frames:
    """Positions, shape (frames, particles, 3), in any unit of length.

    low, box: corner and edges of the box that the file states; None where it states none.
    """

    positions: NDArray[np.floating]
    low: Triple | None = None
    box: Triple | None = None


def read_frames(path: Path) -> Frames:
    """Read a `.gsd` or `.xyz` trajectory, or a `.npy` array of one frame or of several.

    Raises UserError for a file that cannot be read, for frames of different particles and boxes,
    and for a box that is not orthorhombic.
    """
    read = {".gsd": _gsd, ".xyz": _xyz}.get(path.suffix.lower())
    return frames_of(mapped(path)) if read is None else read(path)


def frames_of(positions: object) -> Frames:
    """Return frames of an array of shape (particles, 3 or 4) or (frames, particles, 3 or 4)."""
    try:
        array = np.asarray(positions)
    except ValueError as error:
        raise UserError("all frames must have the same number of particles") from error
    if array.ndim == 2:
        array = array[np.newaxis]
    if array.ndim != 3 or array.shape[2] not in (3, 4):
        raise UserError(
            f"positions must have shape (particles, 3) or (frames, particles, 3), not {array.shape}"
        )
    if 0 in array.shape:
        raise UserError("there are no particles: give at least one")
    return Frames(array)


def _gsd(path: Path) -> Frames:
    try:
        import gsd.hoomd
    except ImportError as error:
        raise UserError(f"reading {path} needs gsd: {hint('simulation')}") from error
    try:
        with gsd.hoomd.open(str(path), "r") as moments:
            boxes = [tuple(map(float, each.configuration.box)) for each in moments]
            frames = [np.asarray(each.particles.position) for each in moments]
    except (OSError, RuntimeError) as error:
        raise UserError(f"cannot read {path}: {error}; give a GSD trajectory") from error
    if len(set(boxes)) != 1 or len({len(frame) for frame in frames}) != 1:
        raise UserError(f"{path}: all frames must have one box and the same number of particles")
    x, y, z, *tilts = boxes[0]
    if any(tilts):
        raise UserError(f"{path} has a triclinic box: only orthorhombic boxes can be searched")
    found = frames_of(np.stack(frames))
    return Frames(found.positions, (-x / 2, -y / 2, -z / 2), (x, y, z))  # origin in the middle


def _xyz(path: Path) -> Frames:
    """Read plain XYZ: for each frame a count, a comment, and a line `name x y z` a particle."""
    frames: list[list[list[float]]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        at = 0
        while at < len(lines) and lines[at].strip():
            count = int(lines[at])
            rows = lines[at + 2 : at + 2 + count]
            if len(rows) != count:
                raise ValueError(f"frame {len(frames)} ends early")
            frames.append([[float(word) for word in row.split()[1:4]] for row in rows])
            at += 2 + count
        return frames_of(np.array(frames, np.float64))
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise UserError(f"cannot read {path}: {reason}; give frames in the XYZ format") from error
