"""Bench one input of a study: make and check all algorithms, time them together, check again."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from gpubench import problems, registry
from gpubench.base.errors import DeviceUnavailable, NotSupported, OutOfMemory, UserError
from gpubench.base.messages import say
from gpubench.core.algorithm import Algorithm
from gpubench.core.memory import why_too_large
from gpubench.core.oracle import Oracle, first_launch
from gpubench.core.recipe import Inputs
from gpubench.devices import Device, missing_feature
from gpubench.evidence.declared import STEP
from gpubench.evidence.records import AnyRecord, make_record
from gpubench.measure.clock import timed
from gpubench.measure.energy import REFUSAL, Idle, energy_of, idle
from gpubench.measure.phases import level_times
from gpubench.measure.sampling import Budget, Mode, Run, Sampled, Task, Work, take_samples
from gpubench.measure.statistics import Summary
from gpubench.problems.cells.contract import CellList
from gpubench.problems.particles.inputs import ParticleSet
from gpubench.problems.steps.inputs import SimulationStart
from gpubench.steps.workload_step import WorkloadStep
from gpubench.studies.facts import facts_of, printable, require_countable
from gpubench.studies.plan import DescribedDevice, Group, Job
from gpubench.studies.recheck import wrong_after_timing
from gpubench.studies.study import Subject
from gpubench.verify.smallest import smallest_failure_of_a_piece
from gpubench.workloads.workload import Draws, drawn_once

_say_once = cache(say)


@dataclass
class Trial:
    """One subject on one input: made, checked, timed, and checked again.

    modes: the modes to time. refused: modes that cannot be timed, with the reason.
    verdict: status and reason for all modes, once the subject is ruled out.
    algorithms: one per alternating input; empty before they are made, and after a verdict.
    drawn: record fields of its input: the hash, if the subject drew the input itself.
    facts: values reported by the algorithm (bytes_moved, workspace_bytes, peak_bytes, library,
        outcome; for simulations also steps per launch and phases), and the time of its first call.
    energy: see measure.energy.energy_of, by the mode that is nearest to device time.
    """

    subject: Subject
    modes: list[Mode]
    refused: dict[Mode, str] = field(default_factory=dict)
    verdict: tuple[str, str] | None = None
    algorithms: list[Algorithm] = field(default_factory=list)
    drawn: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    sampled: dict[Mode, Sampled] = field(default_factory=dict)
    energy: dict[Mode, dict[str, float]] = field(default_factory=dict)

    def rule_out(self, status: str, reason: str) -> None:
        """Set the verdict and free the memory."""
        self.verdict, self.algorithms = (status, reason), []


class LaunchError(Exception):
    """A launch failed while several subjects were timed; names the subject."""

    def __init__(self, trial: Trial, raised: Exception | SystemExit) -> None:
        super().__init__(trial.subject.label)
        self.trial = trial
        self.raised = raised


def measure(
    group: Group,
    items: Sequence[tuple[Subject, Mode]],
    device: Device,
    budget: Budget,
    on_progress: Callable[[int], None],
    reason: str | None = None,
    on_drawn: Callable[[dict[str, Any]], None] | None = None,
    on_step: Callable[[str], None] = lambda text: None,
) -> list[AnyRecord]:
    """Check, time and check again the given subjects and modes on one input; return the records.

    on_progress: called with the number of records that have become final.
    reason: why all of them are skipped, if known beforehand; else None.
    on_drawn: called with the record fields known once the input is drawn.
    on_step: called with the current activity.
    """
    bench = Bench(group, items, device, reason, on_drawn, on_step)
    bench.time_together(budget, on_progress)
    if budget.energy:
        bench.measure_energy()
    on_progress(len(items) - sum(len(trial.sampled) for trial in bench.trials))
    return bench.finish()


class Bench:
    """Subjects on one input (or several alternating ones), made and checked, ready to be timed.

    reason: why all of them are skipped, if known beforehand; else None.
    on_drawn: called with the record fields known once the input is drawn.
    on_step: called with the current activity.
    trials: in the order of the items.
    """

    def __init__(
        self,
        group: Group,
        items: Sequence[tuple[Subject, Mode]],
        device: Device,
        reason: str | None = None,
        on_drawn: Callable[[dict[str, Any]], None] | None = None,
        on_step: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.trials = [
            Trial(subject, [mode for _, mode in pairs])
            for subject, pairs in itertools.groupby(items, key=lambda item: item[0])
        ]
        self._group, self._device, self._on_step = group, device, on_step
        self._drawn: dict[str, Any] = {}
        self._oracles: list[Callable[[str], Oracle]] = []
        self._runs: dict[int, dict[Mode, Run]] = {}  # keys: id(trial)
        reason = (
            missing_feature(group.sweep.requires, device)
            or reason
            or why_too_large(group.recipe, device, group.sweep.inputs)
        )
        for trial in self.trials:
            if why := reason or trial.subject.left_out(group.recipe):
                trial.rule_out("skipped", why)
        if any(trial.verdict is None for trial in self.trials):
            try:
                self._make(on_drawn)
            except MemoryError as error:  # in making inputs; in an algorithm, only its trial fails
                for trial in self.trials:
                    if trial.verdict is None:
                        trial.rule_out(*verdict_on(error, device))

    def _make(self, on_drawn: Callable[[dict[str, Any]], None] | None) -> None:
        group = self._group
        drawn = [group.recipe.make(group.seed + turn) for turn in range(group.sweep.inputs)]
        self._drawn = {"input_hash": _hash_of(drawn)}
        first = drawn[0]
        if isinstance(first, ParticleSet) and first.before is not None:
            self._drawn["moved"] = first.moved
        if on_drawn is not None:
            on_drawn(self._drawn)
        self._oracles = [_oracle_of(inputs) for inputs in drawn]
        with drawn_once() as draws:
            for trial in self.trials:
                if trial.verdict is None:
                    self._say("checking", trial)
                    step = partial(
                        _make_and_check, trial, drawn, draws, self._device, self._oracles
                    )
                    _attempt(trial, self._device, step)

    def _say(self, what: str, trial: Trial) -> None:
        self._on_step(f"{self._group.recipe.title}, {what} {trial.subject.label}")

    def tasks(self) -> list[tuple[Trial, Mode, Task]]:
        """Return the tasks that can be timed."""
        return [
            (trial, mode, _task(trial, mode))
            for trial in self.trials
            if trial.algorithms
            for mode in trial.modes
        ]

    def note(self, trial: Trial, mode: Mode, run: Run) -> None:
        """Keep a trial's samples, and their run, which the final check needs."""
        trial.sampled[mode] = run.sampled()
        self._runs.setdefault(id(trial), {})[mode] = run

    def time_together(self, budget: Budget, on_progress: Callable[[int], None]) -> None:
        """Sample all live trials in one interleaved run; if one raises, restart without it."""
        while live := self.tasks():
            tasks = [task for _, _, task in live]
            self._on_step(f"{self._group.recipe.title}, timing {len(tasks)}")
            try:
                runs = take_samples(self._device, tasks, budget, self._group.seed, on_progress)
            except LaunchError as error:
                error.trial.rule_out(*verdict_on(error.raised, self._device))
            except Exception as error:  # not from a launch, so no single subject is to blame
                for trial, _, _ in live:
                    trial.rule_out(*verdict_on(error, self._device))
            else:
                for (trial, mode, _), run in zip(live, runs, strict=True):
                    if run.left_out:
                        trial.rule_out("skipped", run.left_out)
                    else:
                        self.note(trial, mode, run)
                return

    def measure_energy(self) -> None:
        """Read the joules of each timed subject; say so where the device has no counter."""
        resting = idle(self._device)
        if resting is None:
            _say_once(REFUSAL)
            return
        size = getattr(self._group.recipe, self._group.recipe.size_axis)
        for trial in (trial for trial in self.trials if trial.sampled):
            runs = self._runs[id(trial)]
            mode: Mode = "graph" if "graph" in runs else min(runs)
            given = runs[mode].launch_batch, runs[mode].launches, runs[mode].median_ms()
            self._say("reading the energy of", trial)
            _attempt(trial, self._device, partial(_read_energy, trial, mode, given, size, resting))

    def finish(self, check: bool = True, phases: bool = True) -> list[AnyRecord]:
        """Check the timed subjects again, and return the records of all items.

        check: False if another process has done both checks. phases: whether to time the phases of
        simulation steps.
        """
        for trial in self.trials:
            runs = self._runs.pop(id(trial), {})
            if runs and check:
                self._say("checking again", trial)
                step = partial(_check_again, trial, self._device, self._oracles, runs, phases)
                _attempt(trial, self._device, step)
        return [
            _record(self._fields(trial, mode), trial, mode)
            for trial in self.trials
            for mode in (*trial.modes, *trial.refused)
        ]

    def _fields(self, trial: Trial, mode: Mode) -> dict[str, Any]:
        """Return the fields of a record that are known before its time."""
        described = self._group.described(self._device, trial.subject, mode)
        return described | self._drawn | trial.drawn


def failed(
    job: Job, device: DescribedDevice, drawn: dict[str, Any], reason: str
) -> list[AnyRecord]:
    """Return the records of an input whose measuring process died.

    drawn: record fields of the input that the process had reported.
    """
    return [
        make_record(
            **(job.group.described(device, subject, mode) | drawn), status="failed", reason=reason
        )
        for subject, mode in job.items
    ]


def _oracle_of(inputs: Inputs) -> Callable[[str], Oracle]:
    """Return a function from the name of a family to its oracle for an input, made only once."""
    return cache(lambda family: problems.problems()[family].oracle(inputs))


def _hash_of(drawn: Sequence[Inputs]) -> str | None:
    """Return the hash of one or more alternating inputs; None before they are drawn."""
    if len(drawn) == 1:
        return drawn[0].hash
    together = " ".join(str(inputs.hash) for inputs in drawn)
    return hashlib.sha256(together.encode()).hexdigest()[:16]


def _make_and_check(
    trial: Trial,
    drawn: Sequence[Inputs],
    draws: Draws,
    device: Device,
    oracles: Sequence[Callable[[str], Oracle]],
) -> str | None:
    """Make the algorithm for each input and launch it once; return the first error, or None."""
    subject = trial.subject
    cls = registry.find_algorithm(subject.algorithm)
    if lacking := missing_feature(cls.forms[subject.form].requires, device):
        raise NotSupported(lacking)
    made: list[Algorithm] = []
    for inputs, oracle in zip(drawn, oracles, strict=True):
        before = draws.seconds
        algorithm, making = timed(partial(made_for, subject, inputs, device))
        making -= draws.seconds - before  # excludes drawing inputs, which subjects share
        if isinstance(algorithm, WorkloadStep):
            trial.drawn = {"input_hash": algorithm.input_hash}
        seconds = [making]
        do = partial(_do_alone, device, seconds)
        if wrong := first_launch(algorithm, inputs, oracle(algorithm.family), do):
            return wrong + _shrunk(trial.subject, device, algorithm.family, inputs)
        trial.facts.setdefault("first_call_ms", round(1e3 * sum(seconds), 3))
        made.append(algorithm)
        require_countable(algorithm)
    trial.algorithms = made
    if "graph" in trial.modes:
        lacking = made[0].no_graph or missing_feature({"graphs"}, device)
        if lacking:
            trial.modes.remove("graph")
            trial.refused["graph"] = lacking
    return None


def made_for(subject: Subject, inputs: Inputs, device: Device) -> Algorithm:
    """Make a subject for an input; a cell list for a simulation becomes its steps."""
    cls = registry.find_algorithm(subject.algorithm)
    make: Callable[..., Algorithm] = cls
    if isinstance(inputs, SimulationStart):
        if issubclass(cls, CellList):
            workload = registry.find_workload(inputs.workload)
            make = partial(WorkloadStep, workload=workload, algorithm=cls)
        elif cls.needs["workload"] != inputs.workload:
            raise NotSupported(f"{cls.name} is no {inputs.workload}: it is {cls.needs['workload']}")
    with device.compiled_together():
        return make(device, form=subject.form, parameters=subject.parameters, **inputs.made_for)


def _shrunk(subject: Subject, device: Device, family: str, inputs: Inputs) -> str:
    """Describe a small input on which a search is still wrong, found in limited time."""
    if family != "neighbour-search" or not isinstance(inputs, ParticleSet):
        return ""
    cls = registry.find_algorithm(subject.algorithm)
    make = partial(cls, device, form=subject.form, parameters=subject.parameters)
    found = smallest_failure_of_a_piece(make, family, inputs)
    return f"; {found.clause}" if found else "; right on every piece of it that was tried"


def _do_alone(device: Device, seconds: list[float], work: Callable[[], None]) -> None:
    """Do some work, wait for it, and append its duration by the host's clock."""

    def whole() -> None:
        work()
        device.synchronize()

    seconds.append(timed(whole)[1])


def _task(trial: Trial, mode: Mode) -> Task:
    """Return the launches to time; their exceptions name the trial."""
    works = [_named(trial, algorithm.launch) for algorithm in trial.algorithms]
    launches = trial.algorithms[0].launches
    return Task(f"{trial.subject.label} {mode}", works, mode, launches, compared_with=mode)


def _named(trial: Trial, launch: Callable[[], None]) -> Callable[[], None]:
    def work() -> None:
        try:
            launch()
        except (Exception, SystemExit) as error:
            raise LaunchError(trial, error) from error

    return work


def _check_again(
    trial: Trial,
    device: Device,
    oracles: Sequence[Callable[[str], Oracle]],
    runs: Mapping[Mode, Run],
    phases: bool,
) -> str | None:
    """Check the timed launches once more; return the first error in an answer, or None."""
    checked = [
        (algorithm, oracle(algorithm.family))
        for algorithm, oracle in zip(trial.algorithms, oracles, strict=True)
    ]
    if wrong := wrong_after_timing(device, checked, runs):
        return wrong
    first = trial.algorithms[0]
    trial.facts |= facts_of(first)
    if first.family == STEP:
        trial.facts["steps"] = first.launches
    if isinstance(first, WorkloadStep):
        if phases:
            trial.facts["phases_ms"] = first.phases_ms()
    elif phases:
        by_kind, by_level = level_times(first)
        if by_kind:
            trial.facts["phases_ms"] = by_kind
            trial.facts["outcome"]["level_ms"] = " ".join(f"{each:.3g}" for each in by_level)
    return None


def _attempt(trial: Trial, device: Device, step: Callable[[], str | None]) -> None:
    """Run one step of a trial; an error, returned or raised, becomes its verdict.

    Errors that the user must correct are raised.
    """
    try:
        wrong = step()
    except LaunchError as error:
        trial.rule_out(*verdict_on(error.raised, device))
    except (Exception, SystemExit) as error:
        if type(error) is UserError:
            raise
        trial.rule_out(*verdict_on(error, device))
    else:
        if wrong:
            trial.rule_out("wrong", printable(str(wrong)))


def verdict_on(error: BaseException, device: Device) -> tuple[str, str]:
    """Return the status and reason for an exception: skipped if the device lacks what it needs."""
    kind = type(error).__name__
    said = printable(next(iter(str(error).strip().splitlines()), ""))
    if isinstance(error, OutOfMemory):
        return "skipped", f"needs more memory than {device.name} has left: {said}"
    if isinstance(error, NotSupported | DeviceUnavailable):
        return "skipped", said or kind
    return "failed", f"{kind}: {said}" if said else kind


def _read_energy(
    trial: Trial, mode: Mode, given: tuple[Work, int, float], size: int, resting: Idle
) -> None:
    trial.energy[mode] = energy_of(trial.algorithms[0].device, *given, size, resting)


def _record(fields: dict[str, Any], trial: Trial, mode: Mode) -> AnyRecord:
    if trial.verdict:
        status, reason = trial.verdict
        return make_record(**fields, status=status, reason=reason)
    if mode in trial.refused:
        return make_record(**fields, status="skipped", reason=trial.refused[mode])
    sampled = trial.sampled[mode]
    if sampled.summary is None:
        return make_record(**fields, status="failed", reason=sampled.nothing_left)
    try:
        return _timed_record(fields, trial, sampled, sampled.summary)
    except ValueError as error:  # from an invalid value that the algorithm reports
        return make_record(**fields, status="failed", reason=f"no record can hold it: {error}")


def _timed_record(
    fields: dict[str, Any], trial: Trial, sampled: Sampled, summary: Summary
) -> AnyRecord:
    if "steps" in trial.facts and summary.median_ms > 0:
        per_ms = fields["particles"] / summary.median_ms
        fields |= {"particle_steps_per_s": float(f"{1e3 * per_ms:.6g}")}
    lists = ("throttled_ms", "throttled_by", "remarks")
    others = ("samples_ms", "stopped", "clocks_sm_mhz", "batch", "state_before", "state_after")
    return make_record(
        **fields,
        **trial.facts,
        energy=trial.energy.get(fields["mode"]),
        status="ok",
        **vars(summary),
        **{name: getattr(sampled, name) or None for name in lists},
        **{name: getattr(sampled, name) for name in others},
    )
