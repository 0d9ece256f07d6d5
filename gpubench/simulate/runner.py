"""Run a workload block by block: step, check, time, then write the outputs that are due.

A block is a number of steps queued together and timed by two device events. It ends where output is
due, or after a few tenths of a second; pictures and checkpoints are made between blocks, so they
are not part of any time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gpubench.measure.phases import PhaseTime, phase_times
from gpubench.measure.progress import progress
from gpubench.measure.statistics import Summary, summarise
from gpubench.simulate import checkpoint as checkpoints
from gpubench.simulate.accounts import Block, counted_ms
from gpubench.workloads.workload import BlowUp, Snapshot, Workload

BLOCK_MS = 300.0  # long enough to hide a block's start-up, short enough for Ctrl-C
MIN_BLOCKS = 12  # minimum number even in a short run, for a confidence interval
MAX_GROWTH = 8  # maximum growth factor from one block to the next
PHASES_MS = 1000.0  # time spent on timing the phases
MIN_REPEATS, MAX_REPEATS = 5, 50

Observation = dict[str, float]


@dataclass(frozen=True)
class Timetable:
    """The end of a run, and the steps at which outputs are due.

    steps: the number of steps, counted from the start of the simulation, at which the run ends.
    observe_every, frame_every, checkpoint_every: outputs are due at step numbers that are multiples
        of these, including 0, and at the last step; 0 for never.
    """

    steps: int
    observe_every: int = 0
    frame_every: int = 0
    checkpoint_every: int = 0

    def is_due(self, every: int, step: int) -> bool:
        """Return whether an output with that interval is due at a step."""
        return every > 0 and (step % every == 0 or step == self.steps)

    def room(self, step: int) -> int:
        """Return the number of steps until the next output is due, or the run ends."""
        intervals = (self.observe_every, self.frame_every, self.checkpoint_every)
        return min([self.steps - step, *(n - step % n for n in intervals if n > 0)])


@dataclass(frozen=True)
class Rate:
    """A median per second, with its 95 % confidence interval."""

    median: float
    ci95_low: float
    ci95_high: float


@dataclass(frozen=True)
class Simulated:
    """The result of a run.

    particles: number of particles of the workload.
    start, step, time: first step, last step, and simulated time at the last step.
    stopped: whether Ctrl-C ended the run early.
    blocks: all timed blocks, in order.
    observations: the results of Workload.observe, with step and time, oldest first.
    phases: times by name; empty where no step was done or the run was stopped.
    """

    particles: int
    start: int
    step: int
    time: float
    stopped: bool
    blocks: list[Block]
    observations: list[Observation]
    phases: dict[str, PhaseTime]

    @property
    def step_ms(self) -> Summary | None:
        """Device time per step over the blocks after the warm-up; None without blocks."""
        times = counted_ms(self.blocks)
        return summarise(times) if times else None

    @property
    def particle_steps_per_s(self) -> Rate | None:
        """Particles times steps per second; None without a time, or if it is below resolution."""
        step = self.step_ms
        if step is None or step.ci95_low_ms <= 0:
            return None
        ends = (step.median_ms, step.ci95_high_ms, step.ci95_low_ms)
        return Rate(*(float(f"{1e3 * self.particles / ms:.6g}") for ms in ends))


def simulate(
    workload: Workload,
    timetable: Timetable,
    *,
    on_frame: Sequence[Callable[[Snapshot], None]] = (),
    checkpoint: Path | None = None,
    run: str | None = None,
    observations: Sequence[Observation] = (),
) -> Simulated:
    """Run a workload to the end of its timetable.

    on_frame: called with each frame's snapshot.
    checkpoint: the file to keep, or None. run: the run id stored in it.
    observations: earlier ones, where a run is resumed; new ones are appended.

    Nothing is written until the workload has been checked for faults. The checkpoint is written
    first, so that a run that has left any output can be resumed. Ctrl-C finishes the current block
    and writes the checkpoint; a second one raises KeyboardInterrupt. Raises BlowUp with the name of
    the remaining checkpoint, ValueError if the workload is already past the end of the timetable.
    """
    if timetable.steps < workload.step:
        raise ValueError(f"{timetable.steps} steps are asked for, and {workload.step} are done")
    return _Run(workload, timetable, on_frame, checkpoint, run, [*observations]).finish()


@dataclass
class _Run:
    """A run in progress; the arguments are those of `simulate`."""

    _workload: Workload
    _timetable: Timetable
    _on_frame: Sequence[Callable[[Snapshot], None]]
    _checkpoint: Path | None
    _run: str | None
    _observations: list[Observation]

    def __post_init__(self) -> None:
        self._saved_step: int | None = None
        self._blocks: list[Block] = []
        self._pace = _Pace(self._timetable.steps - self._workload.step)

    def finish(self) -> Simulated:
        """Do all blocks and the outputs between them; stop early after Ctrl-C."""
        workload, last = self._workload, self._timetable.steps
        start = workload.step
        with (
            _ctrl_c_noted() as was_pressed,
            progress(last, workload.name, done=start, unit="steps") as bar,
        ):
            self._require_sound()
            self._save()
            self._do_what_is_due()
            while workload.step < last and not was_pressed():
                bar.advance(self._do_block())
                self._do_what_is_due()
            stopped = workload.step < last
            if stopped:
                self._save()
            phases = {} if stopped or not self._blocks else self._time_phases()
        return Simulated(
            workload.particles, start, workload.step, workload.step * workload.time_step, stopped,
            self._blocks, self._observations, phases,
        )  # fmt: skip

    def _do_block(self) -> int:
        """Queue some steps, wait for them, and check for faults; return the number of steps."""
        workload, device = self._workload, self._workload.device
        steps = self._pace.steps_within(self._timetable.room(workload.step))
        begin = device.record()
        workload.advance(steps)
        end = device.record()
        self._require_sound()
        block = Block(steps, device.elapsed_ms(begin, end))
        self._blocks.append(block)
        self._pace.note(block)
        return steps

    def _do_what_is_due(self) -> None:
        workload, timetable = self._workload, self._timetable
        is_observed = timetable.is_due(timetable.observe_every, workload.step)
        is_shown = bool(self._on_frame) and timetable.is_due(timetable.frame_every, workload.step)
        if is_observed or is_shown:
            with self._last_checkpoint_named():
                snapshot = workload.snapshot()
            if is_observed:
                self._observe(snapshot)
            if is_shown:
                for show in self._on_frame:
                    show(snapshot)
        # Last, so that a checkpoint covers everything written before it.
        if timetable.is_due(timetable.checkpoint_every, workload.step):
            self._save()

    def _observe(self, snapshot: Snapshot) -> None:
        if self._observations and self._observations[-1]["step"] >= snapshot.step:
            return  # already observed by the run that saved the checkpoint
        seen = self._workload.observe(snapshot)
        self._observations.append({"step": snapshot.step, "time": snapshot.time, **seen})

    def _save(self) -> None:
        if self._checkpoint is not None and self._saved_step != self._workload.step:
            checkpoints.save(self._checkpoint, self._workload, self._observations, self._run)
            self._saved_step = self._workload.step

    def _require_sound(self) -> None:
        with self._last_checkpoint_named():
            self._workload.require_sound()

    @contextmanager
    def _last_checkpoint_named(self) -> Iterator[None]:
        """Add the name of the remaining checkpoint to a BlowUp."""
        try:
            yield
        except BlowUp as error:
            if self._checkpoint is not None and self._checkpoint.exists():
                left = f"the last good checkpoint is {self._checkpoint}"
            else:
                left = "there is no checkpoint of before"
            raise BlowUp(f"{error}; {left}") from error

    def _time_phases(self) -> dict[str, PhaseTime]:
        """Time the phases over steps that are undone afterwards."""
        block = self._blocks[-1]
        repeats = PHASES_MS * block.steps / max(block.elapsed_ms, 1e-6)
        state = self._workload.state()
        try:
            return phase_times(self._workload, round(min(max(repeats, MIN_REPEATS), MAX_REPEATS)))
        finally:
            self._workload.restore(state)


class _Pace:
    """The number of steps to queue at once, learnt from the last block."""

    def __init__(self, steps: int) -> None:
        self._most = max(1, steps // MIN_BLOCKS)
        self._steps = 1

    def note(self, block: Block) -> None:
        """Aim for BLOCK_MS in the next block."""
        step_ms = max(block.elapsed_ms / block.steps, 1e-6)
        wanted = min(round(BLOCK_MS / step_ms), MAX_GROWTH * block.steps, self._most)
        self._steps = max(1, wanted)

    def steps_within(self, room: int) -> int:
        """Return the number of steps to queue, such that equal blocks fill `room` steps."""
        blocks = -(-room // self._steps)
        return -(-room // blocks)


@contextmanager
def _ctrl_c_noted() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed; a second press interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # Python delivers signals to the main thread only
        return
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(_number: int, _frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
