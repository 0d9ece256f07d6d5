"""Run a study: plan it, measure one input after another, and store the records of each.

Records are stored after each input, so that they survive Ctrl-C or a kill, and repeating the call
resumes the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.core.memory import why_too_large
from gpubench.devices import Device
from gpubench.evidence.records import AnyRecord, identity_of, is_settled
from gpubench.evidence.results import Results, Store, load
from gpubench.measure.clock import now
from gpubench.measure.environment import environment
from gpubench.measure.progress import ProgressBar, progress
from gpubench.measure.sampling import Budget
from gpubench.studies.bench import measure
from gpubench.studies.counters import Counting
from gpubench.studies.plan import DescribedDevice, Group, Job, cell_key, missing, plan
from gpubench.studies.selection import WHOLE, Selection
from gpubench.studies.study import Study

__all__ = ["Engine", "Here", "RunSummary", "engine_of", "measure", "plan", "run"]


# Enough for a 95 % interval of the median; short enough to measure a whole table on two cores.
QUICK_CPU_BUDGET = Budget(
    seconds_per_task=0.06, min_samples=6, max_samples=50, relative_half_width=0.02, max_batch=16
)


class Engine(ABC):
    """Measures the inputs of a study, on a device of this process or on those of other ranks.

    device: the common description of these devices.
    """

    device: DescribedDevice

    @abstractmethod
    def environment(self) -> dict[str, Any]:
        """Return the environment record of a results file."""

    @abstractmethod
    def measure(
        self, jobs: Sequence[Job], budget: Budget, bar: ProgressBar
    ) -> Iterator[list[AnyRecord]]:
        """Yield the records of each input as soon as it is measured, in any order."""


class Here(Engine):
    """One device of this process, which measures one input after another."""

    def __init__(self, device: Device) -> None:
        self.device = self._device = device

    def environment(self) -> dict[str, Any]:
        """Describe this machine and its device."""
        return environment(self._device)

    def measure(
        self, jobs: Sequence[Job], budget: Budget, bar: ProgressBar
    ) -> Iterator[list[AnyRecord]]:
        """Measure in the order of the study."""
        for job in jobs:
            bar.describe(job.group.recipe.title)
            yield measure(
                job.group, job.items, self._device, budget, bar.advance, job.reason,
                on_step=bar.describe,
            )  # fmt: skip


def engine_of(where: Device | Engine) -> Engine:
    """Return `where` if it is an engine, else an engine for this device of the process."""
    return where if isinstance(where, Engine) else Here(where)


@dataclass(frozen=True)
class RunSummary:
    """The location of the results, and the number of records added by this run, by status.

    resumed: existing records that were not measured again.
    overhead_ms: duration of an empty sample in each mode.
    seconds: duration of the run by the host's clock.
    keys: `cell_key` of each record of the run, including existing ones.
    """

    path: Path
    measured: int
    resumed: int
    skipped: int
    wrong: int
    failed: int
    overhead_ms: dict[str, float]
    seconds: float
    keys: frozenset[str]

    @property
    def results(self) -> Results:
        """Return the file's records that belong to this run, new or existing."""
        found = load(self.path)
        own = [each for each in found.records if cell_key(identity_of(each)) in self.keys]
        return replace(found, records=own)


def run(
    study: Study,
    where: Device | Engine,
    store_folder: Path,
    selection: Selection = WHOLE,
    *,
    fresh: bool = False,
    budget: Budget | None = None,
    ranks: int = 1,
    notice: Callable[[str], None] = lambda sentence: None,
    energy: bool = False,
    counters: bool = False,
) -> RunSummary:
    """Measure a study and store its records, input by input.

    where: the device or engine to measure on.
    selection: the part of the study to measure; if quick, a CPU also gets a smaller budget.
    budget: replaces the study's own.
    fresh: whether to repeat measurements that the folder already holds.
    ranks: the number of ranks in this run. Measurements that need another number are skipped; a run
        with that number adds them to the same file.
    notice: called with the reason if a file of the same code is not continued, or if there are no
        counters.
    energy, counters: whether to read the joules and the hardware counters of what is timed.
    Raises UserError for bad arguments (before anything is written), for a folder that cannot be
    written, or to which another process writes the same study; for parameters that an algorithm
    rejects, and where a requested size does not fit in memory. Other exceptions of an algorithm,
    and exits, become records of status `failed`.
    """
    begin = now()
    engine = engine_of(where)
    device = engine.device
    groups = plan(study, selection)
    _require_memory(groups, selection, device)
    if budget is None:
        budget = QUICK_CPU_BUDGET if selection.quick and device.is_cpu else study.budget
    budget = replace(budget, energy=energy)
    counting = Counting(groups, device, notice) if counters else None
    surroundings = engine.environment()
    text = None if study.name in registry.studies() else study.text
    with Store.open(store_folder, study.name, surroundings, text, study.anew) as store:
        if store.begins_anew:
            notice(store.begins_anew)
        known, settled = _known(store.path)
        jobs = missing(groups, device, known, set() if fresh else settled, ranks)
        total = sum(len(group.items) for group in groups)
        resumed = total - sum(len(job.items) for job in jobs)
        counts: Counter[str] = Counter()
        with progress(total, study.title, done=resumed) as bar:
            for records in engine.measure(jobs, budget, bar):
                store.add(counting.counted(records) if counting else records)
                counts.update(record.status for record in records)
    return RunSummary(
        path=store.path,
        measured=counts["ok"],
        resumed=resumed,
        skipped=counts["skipped"],
        wrong=counts["wrong"],
        failed=counts["failed"],
        overhead_ms=surroundings["overhead_ms"],
        seconds=now() - begin,
        keys=frozenset(
            cell_key(group.identity(device, *item)) for group in groups for item in group.items
        ),
    )


def _require_memory(groups: Sequence[Group], selection: Selection, device: DescribedDevice) -> None:
    """Raise UserError where the request does not fit in memory.

    All requested sizes must fit; if only the number of inputs is requested, at least one size must.
    """
    too_large = [why_too_large(group.recipe, device, group.sweep.inputs) for group in groups]
    are_sizes = selection.particles is not None or selection.per_cell is not None
    if any(too_large) if are_sizes else selection.inputs is not None and all(too_large):
        group, reason = next(pair for pair in zip(groups, too_large, strict=True) if pair[1])
        raise UserError(f"{group.recipe.title}: {reason}")


def _known(path: Path) -> tuple[set[str], set[str]]:
    """Return the keys of all records in a results file, and of the settled ones.

    Both are empty where there is no file yet.
    """
    records = load(path).records if path.exists() else ()
    keys = [(cell_key(identity_of(record)), is_settled(record)) for record in records]
    return {key for key, _ in keys}, {key for key, settled in keys if settled}
