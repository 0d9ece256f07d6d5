"""Trajectories for other people's tools: GSD through its library, and extended XYZ as text.

A resumed run goes on with the file of the run before. What that had written beyond the checkpoint
is not written again: the steps that follow a checkpoint are the same each time.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any

import gsd.hoomd
import numpy as np

from gpubench import registry
from gpubench.errors import UserError
from gpubench.workloads.workload import Snapshot
from gpubench.writing import writing


class Trajectory(ABC):
    """A file of moments, each with step, time, box, species, positions and velocities.

    The first `write` makes it. Raises UserError where it is there, unless the run that made it is
    resumed: then it must be a trajectory of as many particles.
    """

    _file: Any = None

    def __init__(self, path: Path, particles: int, *, is_resumed: bool = False) -> None:
        self.path = path
        self._last_step = -1
        if not path.exists():
            return
        if not is_resumed:
            raise UserError(f"{path} is there already: name a new file for the trajectory")
        self._last_step, found = self._last_moment()
        if found not in (particles, 0):
            raise UserError(
                f"{path} is the trajectory of another simulation: it has {found} particles, and"
                f" not {particles}; name a new file"
            )

    def __enter__(self) -> Trajectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, snapshot: Snapshot) -> None:
        """Append a moment, unless the file reaches as far already."""
        if snapshot.step <= self._last_step:
            return
        with writing(self.path):
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._open()
            self._append(snapshot)
            self._file.flush()
        self._last_step = snapshot.step

    @abstractmethod
    def _last_moment(self) -> tuple[int, int]:
        """Return step and number of particles of the last whole moment in the file, or -1, 0."""

    @abstractmethod
    def _open(self) -> Any:
        """Open the file to append."""

    @abstractmethod
    def _append(self, snapshot: Snapshot) -> None:
        """Write one moment."""


class GsdTrajectory(Trajectory):
    """GSD in HOOMD's schema, for OVITO, freud, MDAnalysis and HOOMD itself.

    Its box has the origin in the middle, so positions are shifted by half of it; float32.
    """

    def _last_moment(self) -> tuple[int, int]:
        try:
            with gsd.hoomd.open(str(self.path), "r") as moments:
                if not len(moments):
                    return -1, 0
                return int(moments[-1].configuration.step), int(moments[-1].particles.N)
        except (OSError, RuntimeError) as error:
            raise UserError(f"{self.path} is no GSD trajectory: name a new file") from error

    def _open(self) -> Any:
        return gsd.hoomd.open(str(self.path), "a")

    def _append(self, snapshot: Snapshot) -> None:
        moment = gsd.hoomd.Frame()
        moment.configuration.step = snapshot.step
        moment.configuration.dimensions = 3
        moment.configuration.box = [*snapshot.size, 0, 0, 0]
        moment.particles.N = len(snapshot.positions)
        moment.particles.types = list(snapshot.species_names)
        moment.particles.typeid = snapshot.species.astype(np.uint32)
        moment.particles.position = snapshot.positions - np.asarray(snapshot.size) / 2
        moment.particles.velocity = snapshot.velocities
        moment.log["time"] = np.array([snapshot.time])
        self._file.append(moment)


class XyzTrajectory(Trajectory):
    """Extended XYZ: text, which OVITO and ASE read; float32's nine digits."""

    _whole_bytes = 0

    def _last_moment(self) -> tuple[int, int]:
        step, particles = -1, 0
        try:
            with self.path.open("rb") as file:
                while count := file.readline():
                    lines = [file.readline() for _ in range(1 + int(count))]
                    if not lines[-1].endswith(b"\n"):
                        break
                    self._whole_bytes, particles = file.tell(), int(count)
                    step = int(re.findall(rb" Step=(\d+)", lines[0])[0])
        except (OSError, ValueError, IndexError) as error:
            raise UserError(f"{self.path} is no XYZ trajectory: name a new file") from error
        return step, particles

    def _open(self) -> Any:
        file = self.path.open("a", encoding="utf-8")
        file.truncate(self._whole_bytes)  # a killed process may have left half a moment
        return file

    def _append(self, snapshot: Snapshot) -> None:
        x, y, z = snapshot.size
        periodic = " ".join("FT"[repeats] for repeats in snapshot.periodic)
        self._file.write(
            f"{len(snapshot.positions)}\n"
            f'Lattice="{x!r} 0 0 0 {y!r} 0 0 0 {z!r}" pbc="{periodic}"'
            " Properties=species:S:1:pos:R:3:velo:R:3"
            f" Step={snapshot.step} Time={snapshot.time!r}\n"
        )
        names = np.array([re.sub(r"\s+", "-", name) for name in snapshot.species_names])
        columns = [names[snapshot.species], *snapshot.positions.T, *snapshot.velocities.T]
        np.savetxt(self._file, np.rec.fromarrays(columns), fmt="%s" + 6 * " %.9g")


FORMATS: dict[str, type[Trajectory]] = {".gsd": GsdTrajectory, ".xyz": XyzTrajectory}


def format_of(path: Path) -> type[Trajectory]:
    """Return the format that a file's name asks for; raise UserError for an unknown one."""
    registry.require_known("format of a trajectory", path.suffix.lower(), FORMATS)
    return FORMATS[path.suffix.lower()]
