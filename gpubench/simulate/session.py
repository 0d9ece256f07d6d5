"""A complete run: its outputs, their intervals, and its summary."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpubench.base.errors import UserError
from gpubench.base.paths import repository
from gpubench.base.version import __version__
from gpubench.base.writing import Lock, whole_file
from gpubench.measure.clock import timestamp
from gpubench.measure.environment import code_hash, commit_of, machine
from gpubench.simulate.pictures import FrameFolder
from gpubench.simulate.renderers import AUTO
from gpubench.simulate.runner import Simulated, Timetable
from gpubench.simulate.setup import Setup
from gpubench.simulate.trajectory import format_of
from gpubench.workloads.workload import Snapshot, Workload

# Default number of each output per run, if no interval is given.
OBSERVATIONS, FRAMES, CHECKPOINTS = 10, 50, 10
ACCOUNT = "simulation.json"


@dataclass(frozen=True)
class Outputs:
    """The outputs of a run, and the interval of each in steps; None for a default interval.

    frames: a folder. trajectory, checkpoint: files. None for outputs that are not wanted.
    renderer: for the frames, see pictures.RENDERERS; None if unspecified.
    """

    frames: Path | None = None
    trajectory: Path | None = None
    frame_every: int | None = None
    observe_every: int | None = None
    checkpoint: Path | None = None
    checkpoint_every: int | None = None
    renderer: str | None = None

    def timetable(self, steps: int, done: int) -> Timetable:
        """Return when outputs are due in a run up to step `steps`, after `done` earlier steps.

        Raises UserError for an impossible number of steps, an interval below 1, and an interval of
        an output that is not wanted.
        """
        if steps < 0:
            raise UserError(f"the number of steps must be 0 or more, not {steps}")
        if steps < done:
            raise UserError(
                f"{done} steps are done already: ask for at least as many, e.g."
                f" --steps {2 * done}; it counts from the beginning"
            )
        has_frames = self.frames is not None or self.trajectory is not None
        if self.frame_every is not None and not has_frames:
            raise UserError("--frame-every needs --frames DIR or --trajectory FILE")
        if self.renderer is not None and self.frames is None:
            raise UserError("--renderer needs --frames DIR")
        if self.checkpoint_every is not None and self.checkpoint is None:
            raise UserError("--checkpoint-every needs --checkpoint FILE")
        return Timetable(
            steps,
            _interval("--observe-every", self.observe_every, steps, OBSERVATIONS),
            _interval("--frame-every", self.frame_every, steps, FRAMES) if has_frames else 0,
            _interval("--checkpoint-every", self.checkpoint_every, steps, CHECKPOINTS)
            if self.checkpoint is not None
            else 0,
        )

    def require_free(self, resumed: Path | None) -> None:
        """Raise UserError where the checkpoint would overwrite that of another run.

        resumed: the checkpoint that this run resumes from, which may be overwritten.
        """
        path = self.checkpoint
        if path is None or not path.exists() or (resumed and resumed.samefile(path)):
            return
        raise UserError(f"{path} already exists: continue with --resume {path}, or name a new file")

    def contents(self) -> list[object]:
        """Return values that change when another process writes to an output."""
        frames = sorted(self.frames.glob("frame-*.png")) if self.frames is not None else []
        return [_stamp(self.checkpoint), _stamp(self.trajectory), frames]

    def _locks(self) -> Iterator[tuple[Path, Path]]:
        """Yield each output with its lock file."""
        for path in (self.checkpoint, self.trajectory):
            if path is not None:
                place = path.resolve()
                yield path, place.with_name(f".{place.name}.lock")
        if self.frames is not None:
            yield self.frames, self.frames / ".lock"

    @contextmanager
    def held(self, contents: list[object]) -> Iterator[None]:
        """Keep other processes from writing to the outputs while the body of the `with` runs.

        contents: `contents()` before this run inspected the outputs. Raises UserError at once if
        another process holds an output, or has written to one since.
        """
        with ExitStack() as locks:
            for path, lock in self._locks():
                refusal = (
                    f"another process is writing {path}: wait until it ends, or choose another name"
                )
                locks.enter_context(Lock(lock, refusal))
            if self.contents() != contents:
                raise UserError(
                    "another process has written to the outputs of this run since it began: begin"
                    " again"
                )
            yield


class Writers:
    """The writers of a run's frames and trajectory.

    on_frame: called with each snapshot. run: the id of the run. say: called with messages to the
    user. Raises UserError, before writing anything, where files of another run exist.
    """

    def __init__(
        self,
        outputs: Outputs,
        setup: Setup,
        *,
        run: str | None,
        is_resumed: bool,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.on_frame: list[Callable[[Snapshot], None]] = []
        self._folder: FrameFolder | None = None
        if outputs.frames is not None:
            self._folder = FrameFolder(
                outputs.frames, setup.workload, run=run, is_resumed=is_resumed,
                renderer=outputs.renderer or AUTO, say=say,
            )  # fmt: skip
            self.on_frame.append(self._folder.write)
        if outputs.trajectory is not None:
            make = format_of(outputs.trajectory)
            trajectory = make(outputs.trajectory, setup.particles, run=run, is_resumed=is_resumed)
            self.on_frame.append(trajectory.write)

    def finish(self) -> tuple[Path, Path] | None:
        """Make animation and panel of the frames, and return their paths; None without frames."""
        return self._folder.finish() if self._folder is not None else None

    def keep(self, told: dict[str, Any]) -> None:
        """Write the run's summary beside the frames, for a report; paths become file names."""
        if self._folder is not None:
            names = {
                name: Path(told[name]).name
                for name in ("animation", "panel", "trajectory", "checkpoint")
                if told.get(name)
            }
            told = {**told, **names}
            with whole_file(self._folder.folder / ACCOUNT) as file:
                file.write(json.dumps(told, indent=1, allow_nan=False).encode())


def account(workload: Workload, run: Simulated) -> dict[str, Any]:
    """Return a run's summary as plain values for JSON; None for numbers that are not finite."""
    rate = run.particle_steps_per_s
    return {
        **dataclasses.asdict(Setup.of(workload)),
        "given": {
            name: value
            for name, value in workload.parameters.items()
            if workload.defaults.get(name) != value
        },
        "figure": workload.figure,
        "time_step": workload.time_step,
        "device": workload.device.spec,
        "device_name": workload.device.name,
        "version": __version__,
        "code_hash": code_hash(),
        "commit": commit_of(repository())[0],
        "machine": machine(workload.device.name, workload.device.is_cpu),
        "ended": timestamp(),
        "workspace_bytes": workload.workspace_bytes,
        "first_step": run.start,
        "steps": run.step,
        "time": run.time,
        "stopped": run.stopped,
        "particle_steps_per_s": dataclasses.asdict(rate) if rate else None,
        "blocks": [msgspec.structs.asdict(block) for block in run.blocks],
        "phases_ms": {name: phase.median_ms for name, phase in run.phases.items()},
        "phases_mean_ms": {name: phase.mean_ms for name, phase in run.phases.items()},
        "observations": [
            {name: value if math.isfinite(value) else None for name, value in observation.items()}
            for observation in run.observations
        ],
    }


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    """Return values that change if a file is replaced or extended; None without a file."""
    if path is None or not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _interval(option: str, given: int | None, steps: int, times: int) -> int:
    """Return the given interval, else one that divides the steps into about `times` parts."""
    if given is None:
        return max(1, math.ceil(steps / times))
    if given < 1:
        raise UserError(f"{option} takes a number of steps of at least 1, not {given}")
    return given
