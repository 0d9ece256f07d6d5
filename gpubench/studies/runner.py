"""Run a study: for each input, check every algorithm, time them together, check them again.

Records are stored after each input, so that what was measured survives Ctrl-C or a kill, and
the same call goes on where the last one stopped.
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from gpubench.core import registry
from gpubench.core.contracts import Algorithm, CellList
from gpubench.core.errors import DeviceUnavailable, NotSupported, OutOfMemory, UserError
from gpubench.core.memory import why_too_large
from gpubench.devices import Device, missing_feature
from gpubench.evidence.results import (
    IDENTITY,
    Store,
    is_settled,
    load,
    make_record,
    record_key,
    waits_for,
)
from gpubench.inputs import Inputs, ParticleSet, SimulationStart
from gpubench.inputs.specs import Recipe, Simulation
from gpubench.measure.clock import now, timed
from gpubench.measure.environment import environment
from gpubench.measure.progress import Bar, progress
from gpubench.measure.sampling import Budget, Mode, Run, Sampled, Task, take_samples
from gpubench.measure.statistics import Summary
from gpubench.studies.facts import facts_of, printable, require_countable
from gpubench.studies.recheck import wrong_after_timing
from gpubench.studies.study import Study, Subject, Sweep, check_names
from gpubench.verify.conformance import smallest_failure_of_a_piece
from gpubench.verify.problems import ORACLES, Oracle, first_launch
from gpubench.workloads.step import WorkloadStep

# Enough for a 95 % interval of the median, short enough for a whole table on two cores.
QUICK_CPU_BUDGET = Budget(
    seconds_per_task=0.06, min_samples=6, max_samples=50, relative_half_width=0.02, max_batch=16
)


class Described(Protocol):
    """What is known of a device where inputs are only handed out; see `Device`."""

    @property
    def backend(self) -> str:
        """Its back end."""

    @property
    def spec(self) -> str:
        """What `--device` would name it."""

    @property
    def name(self) -> str:
        """The maker's name of it."""

    @property
    def is_cpu(self) -> bool:
        """Whether it is a CPU."""

    @property
    def memory_bytes(self) -> int:
        """Memory that arrays may use."""


@dataclass(frozen=True)
class Group:
    """One input of a sweep and everything that is measured on it."""

    study: str
    sweep: Sweep
    recipe: Recipe
    seed: int

    @property
    def items(self) -> list[tuple[Subject, Mode]]:
        """Every subject in every mode."""
        return list(itertools.product(self.sweep.subjects, self.sweep.modes))

    @property
    def ranks(self) -> int | None:
        """How many ranks it takes; None for one."""
        return self.recipe.ranks if isinstance(self.recipe, Simulation) else None

    def described(self, device: Described, subject: Subject, mode: Mode) -> dict[str, Any]:
        """Return the fields of a record that are known before anything is drawn."""
        declared = registry.find_algorithm(subject.algorithm).declared(subject.form)
        if isinstance(self.recipe, Simulation):
            declared |= {"problem": WorkloadStep.family, "task": None, "answer": None}
        return self.identity(device, subject, mode) | {"declared": declared}

    def identity(self, device: Described, subject: Subject, mode: Mode) -> dict[str, Any]:
        """Return the fields of a record that say what it measures, but for the input's hash."""
        return dict.fromkeys(IDENTITY) | {
            **self.recipe.identity,
            "study": self.study,
            "sweep": self.sweep.name,
            "algorithm": subject.algorithm,
            "form": subject.form,
            "parameters": dict(subject.parameters),
            "inputs": self.sweep.inputs if self.sweep.inputs > 1 else None,
            "device": device.backend,
            "mode": mode,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Job:
    """What is missing of one input.

    reason: why all of it is skipped; None where the device decides.
    """

    group: Group
    items: list[tuple[Subject, Mode]]
    reason: str | None = None


class Engine(ABC):
    """What measures the inputs of a study: a device of this process, or those of others.

    device: what all of them are.
    """

    device: Described

    @abstractmethod
    def environment(self) -> dict[str, Any]:
        """Return the environment record of a results file."""

    @abstractmethod
    def measure(
        self, jobs: Sequence[Job], budget: Budget, bar: Bar
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the records of each input as soon as it is measured, in any order."""


class Here(Engine):
    """One device of this process, which measures one input after another."""

    def __init__(self, device: Device) -> None:
        self.device = self._device = device

    def environment(self) -> dict[str, Any]:
        """Describe this machine and its device."""
        return environment(self._device)

    def measure(
        self, jobs: Sequence[Job], budget: Budget, bar: Bar
    ) -> Iterator[list[dict[str, Any]]]:
        """Measure in the order of the study."""
        for job in jobs:
            bar.describe(job.group.recipe.title)
            yield measure(job.group, job.items, self._device, budget, bar.advance, job.reason)


def engine_of(where: Device | Engine) -> Engine:
    """Return what measures on a device of this process, or whatever else is to measure."""
    return where if isinstance(where, Engine) else Here(where)


@dataclass(frozen=True)
class RunSummary:
    """Where the results are, and how many records of which kind this run added.

    resumed: records that were there before and were not measured again.
    overhead_ms: what an empty sample takes in each mode.
    seconds: that the run took, on the host's clock.
    """

    path: Path
    measured: int
    resumed: int
    skipped: int
    wrong: int
    failed: int
    overhead_ms: dict[str, float]
    seconds: float


@dataclass
class Trial:
    """One subject on one input, as it goes from made to checked, timed, and checked again.

    modes: those to be timed; refused: those that cannot be, with the reason.
    verdict: status and reason for every mode, once something has ruled the subject out.
    algorithms: one for each of the inputs that take turns; none before they are made, and none
        once there is a verdict.
    drawn: what it knows of its input: the hash, where it drew that itself.
    facts: what the algorithm says of itself: bytes_moved, workspace_bytes, peak_bytes, library,
        outcome, and of the steps of a simulation their number in a launch and their phases; and
        what its first call took.
    """

    subject: Subject
    modes: list[Mode]
    refused: dict[Mode, str] = field(default_factory=dict)
    verdict: tuple[str, str] | None = None
    algorithms: list[Algorithm] = field(default_factory=list)
    drawn: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    sampled: dict[Mode, Sampled] = field(default_factory=dict)

    def rule_out(self, status: str, reason: str) -> None:
        """Give the verdict and let go of the memory."""
        self.verdict, self.algorithms = (status, reason), []


class LaunchError(Exception):
    """A launch raised while several subjects were being timed; says whose it was."""

    def __init__(self, trial: Trial, raised: Exception | SystemExit) -> None:
        super().__init__(trial.subject.label)
        self.trial = trial
        self.raised = raised


def plan(
    study: Study,
    *,
    quick: bool = False,
    algorithms: Collection[str] | None = None,
    particles: int | None = None,
    per_cell: float | None = None,
    moved: int | None = None,
    kept: float | None = None,
    inputs: int | None = None,
    parameters: Mapping[str, int] | None = None,
) -> list[Group]:
    """List the inputs of a study and what is measured on each.

    algorithms, particles (records, pairs), per_cell, moved, kept: in place of what the study says;
    a sweep that `--quick` leaves out stays out. inputs: how many take turns, likewise, but for
    simulations, which have one. parameters: for the algorithms that have them.
    Raises UserError for an algorithm that the study does not measure, for an axis or a parameter
    that it does not have, and for inputs that cannot be made.
    """
    for name, number in (("particles", particles), ("inputs", inputs)):
        if number is not None and number < 1:
            raise UserError(f"the number of {name} must be at least 1, not {number}")
    chosen_axes = {"per_cell": per_cell, "moved": moved, "kept": kept}
    for axis, value in chosen_axes.items():
        if value is not None and not any(sweep.varies(axis) for sweep in study.sweeps):
            option = f"--{axis.replace('_', '-')}"
            raise UserError(f"{study.name} does not vary {axis}: leave out {option}")
    check_names(study, registry.algorithms())
    sweeps = [sweep.quickened() if quick else sweep for sweep in study.sweeps]
    for name in algorithms or ():
        registry.find_algorithm(name)
        among = {subject.algorithm for sweep in study.sweeps for subject in sweep.subjects}
        if name not in among:
            raise UserError(
                f"{study.name} does not measure {name}: one of {', '.join(sorted(among))}"
            )
    for name in parameters or ():
        known = {n for s in sweeps for one in s.subjects for n in _parameters_of(one)}
        registry.require_known("parameter", name, known)
    groups = []
    for sweep in sweeps:
        if algorithms is not None:
            chosen = tuple(s for s in sweep.subjects if s.algorithm in algorithms)
            sweep = replace(sweep, subjects=chosen)
        if parameters:
            subjects = tuple(_with_parameters(subject, parameters) for subject in sweep.subjects)
            sweep = replace(sweep, subjects=subjects)
        given = {sweep.kind.size_axis: particles, **chosen_axes}
        if inputs is not None and sweep.kind is not Simulation:
            sweep = replace(sweep, inputs=inputs)
        sweep = sweep.along(
            {
                axis: (value,)
                for axis, value in given.items()
                if value is not None and sweep.varies(axis)
            }
        )
        if sweep.subjects:
            recipes = map(_complete, sweep.recipes())
            groups += [Group(study.name, sweep, recipe, study.seed) for recipe in recipes]
    if not groups:
        raise UserError(f"nothing is left to measure of {study.name}: leave out --quick")
    return groups


def _complete(recipe: Recipe) -> Recipe:
    """Write down the time step of a simulation that takes its workload's own."""
    if not isinstance(recipe, Simulation):
        return recipe
    workload = registry.find_workload(recipe.workload)
    if recipe.time_step is not None or "time_step" not in workload.defaults:
        return recipe
    return replace(recipe, time_step=float(workload.defaults["time_step"]))


def _parameters_of(subject: Subject) -> Collection[str]:
    return registry.find_algorithm(subject.algorithm).defaults


def _with_parameters(subject: Subject, parameters: Mapping[str, int]) -> Subject:
    known = _parameters_of(subject)
    own = {name: value for name, value in parameters.items() if name in known}
    return replace(subject, parameters={**subject.parameters, **own})


def run(
    study: Study,
    where: Device | Engine,
    store_folder: Path,
    *,
    quick: bool = False,
    algorithms: Collection[str] | None = None,
    particles: int | None = None,
    per_cell: float | None = None,
    moved: int | None = None,
    kept: float | None = None,
    inputs: int | None = None,
    parameters: Mapping[str, int] | None = None,
    fresh: bool = False,
    budget: Budget | None = None,
    ranks: int = 1,
) -> RunSummary:
    """Measure a study and store its records, input by input.

    where: the device that measures it, or whatever else does.
    quick: the small sizes of the study and, on a CPU, a smaller budget.
    budget: in place of the study's own.
    fresh: measure again what the folder already holds.
    ranks: how many take part in this run. What takes another number is skipped, and left to a run
        that has it, which adds to the same file.
    Raises UserError for bad arguments (before anything is written), for a folder that cannot be
    written, or into which another process measures the same; for parameters that an algorithm
    refuses, and where what was asked for does not fit into memory; what else one algorithm
    raises, or an exit, ends as a record of status `failed`.
    """
    begin = now()
    engine = engine_of(where)
    device = engine.device
    groups = plan(
        study, quick=quick, algorithms=algorithms, particles=particles, per_cell=per_cell,
        moved=moved, kept=kept, inputs=inputs, parameters=parameters,
    )  # fmt: skip
    too_large = [why_too_large(group.recipe, device, group.sweep.inputs) for group in groups]
    # Sizes that were asked for must all fit; where inputs take turns, those that fit are measured.
    are_sizes = particles is not None or per_cell is not None
    if any(too_large) if are_sizes else inputs is not None and all(too_large):
        group, reason = next(pair for pair in zip(groups, too_large, strict=True) if pair[1])
        raise UserError(f"{group.recipe.title}: {reason}")
    if budget is None:
        budget = QUICK_CPU_BUDGET if quick and device.is_cpu else study.budget
    surroundings = engine.environment()
    with Store.open(store_folder, study.name, surroundings) as store:
        known, settled = _known(store.path)
        jobs = _missing(groups, device, known, set() if fresh else settled, ranks)
        total = sum(len(group.items) for group in groups)
        resumed = total - sum(len(job.items) for job in jobs)
        counts: Counter[str] = Counter()
        with progress(total, study.title, done=resumed) as bar:
            for records in engine.measure(jobs, budget, bar):
                store.add(records)
                counts.update(record["status"] for record in records)
    return RunSummary(
        path=store.path,
        measured=counts["ok"],
        resumed=resumed,
        skipped=counts["skipped"],
        wrong=counts["wrong"],
        failed=counts["failed"],
        overhead_ms=surroundings["overhead_ms"],
        seconds=now() - begin,
    )


def _missing(
    groups: Sequence[Group], device: Described, known: set[str], done: set[str], ranks: int
) -> list[Job]:
    """List what is to be measured of each input.

    known: keys of what has a record; that is enough for what waits for other `ranks`.
    done: keys of what is not measured again.
    """
    jobs = []
    for group in groups:
        waits = (group.ranks or 1) != ranks
        there = known if waits else done
        items = [
            item for item in group.items if cell_key(group.identity(device, *item)) not in there
        ]
        if items:
            jobs.append(Job(group, items, waits_for(group.study, group.ranks) if waits else None))
    return jobs


def measure(
    group: Group,
    items: Sequence[tuple[Subject, Mode]],
    device: Device,
    budget: Budget,
    on_progress: Callable[[int], None],
    reason: str | None = None,
    on_drawn: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Check, time and check again the given subjects and modes on one input; return the records.

    on_progress: called with the number of records that have become final.
    reason: why all of them are skipped; None where the device decides.
    on_drawn: called with the fields of records that are known once the input is drawn.
    """
    bench = Bench(group, items, device, reason, on_drawn)
    bench.time_together(budget, on_progress)
    on_progress(len(items) - sum(len(trial.sampled) for trial in bench.trials))
    return bench.finish()


class Bench:
    """Subjects on one input (or several that take turns), made and checked, ready to be timed.

    reason: why all of them are skipped; None where the device decides.
    on_drawn: called with the fields of records that are known once the input is drawn.
    trials: in the order of the items.
    """

    def __init__(
        self,
        group: Group,
        items: Sequence[tuple[Subject, Mode]],
        device: Device,
        reason: str | None = None,
        on_drawn: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.trials = [
            Trial(subject, [mode for _, mode in pairs])
            for subject, pairs in itertools.groupby(items, key=lambda item: item[0])
        ]
        self._group, self._device = group, device
        self._drawn: dict[str, Any] = {}
        self._oracles: list[Callable[[str], Oracle]] = []
        self._runs: dict[int, dict[Mode, Run]] = {}  # by the id of a trial
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
            except MemoryError as error:  # of the input: what an algorithm raises stays with it
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
        for trial in self.trials:
            if trial.verdict is None:
                step = partial(_make_and_check, trial, drawn, self._device, self._oracles)
                _attempt(trial, self._device, step)

    def tasks(self) -> list[tuple[Trial, Mode, Task]]:
        """Return what can be timed."""
        return [
            (trial, mode, _task(trial, mode))
            for trial in self.trials
            if trial.algorithms
            for mode in trial.modes
        ]

    def note(self, trial: Trial, mode: Mode, run: Run) -> None:
        """Keep the samples of a trial, and what took them, with which it is checked again."""
        trial.sampled[mode] = run.sampled()
        self._runs.setdefault(id(trial), {})[mode] = run

    def time_together(self, budget: Budget, on_progress: Callable[[int], None]) -> None:
        """Sample every live trial in one interleaved run; start over without one that raises."""
        while live := self.tasks():
            tasks = [task for _, _, task in live]
            try:
                runs = take_samples(self._device, tasks, budget, self._group.seed, on_progress)
            except LaunchError as error:
                error.trial.rule_out(*verdict_on(error.raised, self._device))
            except Exception as error:  # not while launching: nobody can say whose it is
                for trial, _, _ in live:
                    trial.rule_out(*verdict_on(error, self._device))
            else:
                for (trial, mode, _), run in zip(live, runs, strict=True):
                    self.note(trial, mode, run)
                return

    def finish(self, check: bool = True, phases: bool = True) -> list[dict[str, Any]]:
        """Check what was timed once more, and return the records of all items.

        check: False for what another process has checked both times. phases: whether those of
        simulation steps are timed.
        """
        for trial in self.trials:
            runs = self._runs.pop(id(trial), {})
            if runs and check:
                step = partial(_check_again, trial, self._device, self._oracles, runs, phases)
                _attempt(trial, self._device, step)
        return [
            _record(
                self._group.described(self._device, trial.subject, mode)
                | self._drawn
                | trial.drawn,
                trial,
                mode,
            )
            for trial in self.trials
            for mode in (*trial.modes, *trial.refused)
        ]


def failed(job: Job, device: Described, drawn: dict[str, Any], reason: str) -> list[dict[str, Any]]:
    """Return the records of an input whose measuring process came to no end.

    drawn: what it had told of its input.
    """
    return [
        make_record(
            **(job.group.described(device, subject, mode) | drawn), status="failed", reason=reason
        )
        for subject, mode in job.items
    ]


def _oracle_of(inputs: Inputs) -> Callable[[str], Oracle]:
    """Return what gives the oracle of a family on an input, made once."""

    @cache
    def oracle(family: str) -> Oracle:
        return ORACLES[family](inputs, False)

    return oracle


def _hash_of(drawn: Sequence[Inputs]) -> str | None:
    """Return the hash of an input, or of several that take turns; None before it is drawn."""
    if len(drawn) == 1:
        return drawn[0].hash
    together = " ".join(str(inputs.hash) for inputs in drawn)
    return hashlib.sha256(together.encode()).hexdigest()[:16]


def _make_and_check(
    trial: Trial,
    drawn: Sequence[Inputs],
    device: Device,
    oracles: Sequence[Callable[[str], Oracle]],
) -> str | None:
    """Make the algorithm for each input and launch it once; return what is wrong, or None."""
    subject = trial.subject
    cls = registry.find_algorithm(subject.algorithm)
    if lacking := missing_feature(cls.forms[subject.form].requires, device):
        raise NotSupported(lacking)
    made: list[Algorithm] = []
    for inputs, oracle in zip(drawn, oracles, strict=True):
        make: Callable[..., Algorithm] = cls
        if isinstance(inputs, SimulationStart):
            assert issubclass(cls, CellList)  # see study.check_names
            workload = registry.find_workload(inputs.workload)
            make = partial(WorkloadStep, workload=workload, algorithm=cls)
        algorithm, making = timed(
            partial(
                make, device, form=subject.form, parameters=subject.parameters, **inputs.made_for
            )
        )
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


def _shrunk(subject: Subject, device: Device, family: str, inputs: Inputs) -> str:
    """Say on how few particles a search is still wrong, where that is quickly found."""
    if family != "neighbour-search" or not isinstance(inputs, ParticleSet):
        return ""
    cls = registry.find_algorithm(subject.algorithm)
    make = partial(cls, device, form=subject.form, parameters=subject.parameters)
    found = smallest_failure_of_a_piece(make, family, inputs)
    return f"; {found.clause}" if found else "; right on every piece of it that was tried"


def _do_alone(device: Device, seconds: list[float], work: Callable[[], None]) -> None:
    """Do something, wait until it is done, and note how long that took on the host's clock."""

    def whole() -> None:
        work()
        device.synchronize()

    seconds.append(timed(whole)[1])


def _task(trial: Trial, mode: Mode) -> Task:
    """Return what is to be timed; what it raises names its trial."""
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
    """Check what launches do once more; return what is wrong with an answer, or None."""
    checked = [
        (algorithm, oracle(algorithm.family))
        for algorithm, oracle in zip(trial.algorithms, oracles, strict=True)
    ]
    if wrong := wrong_after_timing(device, checked, runs):
        return wrong
    first = trial.algorithms[0]
    trial.facts |= facts_of(first)
    if isinstance(first, WorkloadStep):
        trial.facts["steps"] = first.launches
        if phases:
            trial.facts["phases_ms"] = first.phases_ms()
    return None


def _attempt(trial: Trial, device: Device, step: Callable[[], str | None]) -> None:
    """Take one step of a trial; turn a wrong answer, or what the step raises, into its verdict.

    What the user must mend is raised on.
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
    """Return the status and reason that an exception means: skipped where the device cannot."""
    kind = type(error).__name__
    said = printable(next(iter(str(error).strip().splitlines()), ""))
    if isinstance(error, OutOfMemory):
        return "skipped", f"needs more memory than {device.name} has left: {said}"
    if isinstance(error, NotSupported | DeviceUnavailable):
        return "skipped", said or kind
    return "failed", f"{kind}: {said}" if said else kind


def _record(fields: dict[str, Any], trial: Trial, mode: Mode) -> dict[str, Any]:
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
    except ValueError as error:  # of what the algorithm says of itself
        return make_record(**fields, status="failed", reason=f"no record can hold it: {error}")


def _timed_record(
    fields: dict[str, Any], trial: Trial, sampled: Sampled, summary: Summary
) -> dict[str, Any]:
    if "steps" in trial.facts and summary.median_ms > 0:
        per_ms = fields["particles"] / summary.median_ms
        fields |= {"particle_steps_per_s": float(f"{1e3 * per_ms:.6g}")}
    return make_record(
        **fields,
        **trial.facts,
        status="ok",
        samples_ms=sampled.samples_ms,
        throttled_ms=sampled.throttled_ms or None,
        throttled_by=sampled.throttled_by or None,
        remarks=sampled.remarks or None,
        stopped=sampled.stopped,
        clocks_sm_mhz=sampled.clocks_sm_mhz,
        batch=sampled.batch,
        median_ms=summary.median_ms,
        ci95_low_ms=summary.ci95_low_ms,
        ci95_high_ms=summary.ci95_high_ms,
        state_before=sampled.state_before,
        state_after=sampled.state_after,
    )


def _known(path: Path) -> tuple[set[str], set[str]]:
    """Return the keys of all that a results file has, and of what is settled of it.

    Both are empty where there is no file yet.
    """
    known, settled = set(), set()
    for record in load(path).records if path.exists() else ():
        key = cell_key({name: record[name] for name in IDENTITY})
        known.add(key)
        if is_settled(record):
            settled.add(key)
    return known, settled


def cell_key(identity: Mapping[str, Any]) -> str:
    """Return the key of a record before its input is made.

    A results file is continued only by the same code, which makes the same input of the same
    seed and sizes: to know what is done, nobody has to draw 2^26 particles. How many of them a
    simulation step moves is not known before either.
    """
    unknown = {"input_hash", "moved"} if identity["destination"] == "step" else {"input_hash"}
    return record_key(**{**identity, **dict.fromkeys(unknown)})
