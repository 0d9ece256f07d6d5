"""Trajectories for other tools: GSD through its library, and extended XYZ as text.

A resumed run appends to the earlier file. Snapshots that the file already holds beyond the
checkpoint are not written again, since resumed steps are identical.
"""

from __future__ import annotations

import itertools
import os
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import gsd.hoomd
import numpy as np

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.base.writing import whole_file, writing
from gpubench.workloads.workload import Snapshot

_RUN = "gpubench/run"  # log entry of a GSD file with the run id


class Moment(NamedTuple):
    """A snapshot's entry in a trajectory. run: the id of its run; None in older files."""

    step: int
    particles: int
    run: str | None


class Trajectory(ABC):
    """A file of snapshots, each with step, time, box, species, positions and velocities.

    The first `write` creates the file with the first snapshot and the run id in it; a failed write
    leaves the earlier snapshots intact. Raises UserError if the file exists, unless it belongs to
    the run being resumed.
    """

    def __init__(
        self, path: Path, particles: int, *, run: str | None = None, is_resumed: bool = False
    ) -> None:
        self.path = path
        self._run = run
        self._last_step = -1
        if not path.exists():
            return
        if not is_resumed:
            raise UserError(f"{path} already exists: name a new file for the trajectory")
        last = self._last_moment()
        if last.run != run:
            raise UserError(f"{path} is the trajectory of another run: name a new file")
        if last.particles != particles:
            raise UserError(
                f"{path} is the trajectory of another simulation: it has {last.particles}"
                f" particles, and not {particles}; name a new file"
            )
        self._last_step = last.step

    def write(self, snapshot: Snapshot) -> None:
        """Append a snapshot, unless the file already has it."""
        if snapshot.step <= self._last_step:
            return
        with writing(self.path):
            if self.path.exists():
                self._append(snapshot)
            else:
                with whole_file(self.path) as file:
                    self._begin(file, snapshot)
        self._last_step = snapshot.step

    @abstractmethod
    def _last_moment(self) -> Moment:
        """Return the last complete entry in the file; raise UserError for another kind of file."""

    @abstractmethod
    def _begin(self, file: BinaryIO, snapshot: Snapshot) -> None:
        """Write the first snapshot to an empty file."""

    @abstractmethod
    def _append(self, snapshot: Snapshot) -> None:
        """Append a snapshot, or raise OSError and leave the earlier ones intact."""


class GsdTrajectory(Trajectory):
    """GSD in HOOMD's schema, for OVITO, freud, MDAnalysis and HOOMD itself.

    GSD puts the origin at the box centre, so positions are shifted by half a box. Values are
    float32. The log of the first snapshot holds the run id.
    """

    def _last_moment(self) -> Moment:
        try:
            with gsd.hoomd.open(str(self.path), "r") as moments:
                last, run = moments[-1], moments[0].log.get(_RUN)
        except (OSError, RuntimeError, IndexError) as error:
            raise UserError(f"{self.path} is no GSD trajectory: name a new file") from error
        known = None if run is None else run.tobytes().decode(errors="replace")
        return Moment(int(last.configuration.step), int(last.particles.N), known)

    def _begin(self, file: BinaryIO, snapshot: Snapshot) -> None:
        moment = _gsd_moment(snapshot)
        if self._run is not None:
            moment.log[_RUN] = np.frombuffer(self._run.encode(), np.uint8)
        # GSD opens files by name, and `file` has only a descriptor.
        with gsd.hoomd.open(f"/proc/self/fd/{file.fileno()}", "w") as moments:
            moments.append(moment)

    def _append(self, snapshot: Snapshot) -> None:
        # Reopened for each snapshot: GSD would repeat a failed write when closing the file.
        with gsd.hoomd.open(str(self.path), "r+") as moments:
            moments.append(_gsd_moment(snapshot))
        with self.path.open("rb") as file:
            os.fsync(file.fileno())


def _gsd_moment(snapshot: Snapshot) -> Any:
    """Return a snapshot in GSD's format."""
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
    return moment


class XyzTrajectory(Trajectory):
    """Extended XYZ: text, read by OVITO and `extxyz`; nine digits, enough for float32.

    The second line of each snapshot holds the run id.
    """

    _whole_bytes = 0

    def _last_moment(self) -> Moment:
        last = None
        try:
            with self.path.open("rb") as file:
                while count := file.readline():
                    told = file.readline()
                    rows = (file.readline() for _ in range(int(count)))
                    if not all(line.endswith(b"\n") for line in itertools.chain([told], rows)):
                        break  # incomplete, left by a killed process
                    (step,) = re.findall(rb" Step=(\d+)", told)
                    run = re.search(rb" Run=(\S+)", told)
                    last = Moment(int(step), int(count), run[1].decode() if run else None)
                    self._whole_bytes = file.tell()
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path} is no XYZ trajectory: name a new file") from error
        if last is None:
            raise UserError(f"{self.path} is no XYZ trajectory: name a new file")
        return last

    def _begin(self, file: BinaryIO, snapshot: Snapshot) -> None:
        self._write_moment(file, snapshot)
        self._whole_bytes = file.tell()

    def _append(self, snapshot: Snapshot) -> None:
        os.truncate(self.path, self._whole_bytes)
        try:
            with self.path.open("ab") as file:
                self._write_moment(file, snapshot)
                file.flush()
                os.fsync(file.fileno())
                self._whole_bytes = file.tell()
        finally:
            os.truncate(self.path, self._whole_bytes)  # removes a snapshot cut short by a full disk

    def _write_moment(self, file: BinaryIO, snapshot: Snapshot) -> None:
        x, y, z = snapshot.size
        periodic = " ".join("FT"[repeats] for repeats in snapshot.periodic)
        run = f" Run={self._run}" if self._run else ""
        head = (
            f"{len(snapshot.positions)}\n"
            f'Lattice="{x!r} 0 0 0 {y!r} 0 0 0 {z!r}" pbc="{periodic}"'
            " Properties=species:S:1:pos:R:3:velo:R:3"
            f" Step={snapshot.step} Time={snapshot.time!r}{run}\n"
        )
        file.write(head.encode())
        names = np.array([re.sub(r"\s+", "-", name) for name in snapshot.species_names])
        columns = [names[snapshot.species], *snapshot.positions.T, *snapshot.velocities.T]
        rows = np.rec.fromarrays(columns)
        np.savetxt(file, rows, fmt="%s" + 6 * " %.9g", encoding="utf-8")


FORMATS: dict[str, type[Trajectory]] = {".gsd": GsdTrajectory, ".xyz": XyzTrajectory}


def format_of(path: Path) -> type[Trajectory]:
    """Return the format for a file's extension; raise UserError for an unknown one."""
    registry.require_known("format of a trajectory", path.suffix.lower(), FORMATS)
    return FORMATS[path.suffix.lower()]
