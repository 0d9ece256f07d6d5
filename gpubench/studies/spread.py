"""Distribute the inputs of a study over the devices of a host or a cluster.

Rank 0 leads: it has no device, stores the results, and hands out one input after another through
mpi4py's futures pool. Every other rank measures on a device of its own, in a child process
(`child.py`), so that the rank survives a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any, ClassVar, cast

import msgspec

from gpubench.base import plugins
from gpubench.base.errors import UserError
from gpubench.distributed.ranks import Ranks, ends_all
from gpubench.evidence.records import AnyRecord, Ok
from gpubench.evidence.results import first_difference
from gpubench.measure.progress import ProgressBar
from gpubench.measure.sampling import Budget
from gpubench.studies.bench import failed
from gpubench.studies.child import Child, NoAnswer
from gpubench.studies.plan import Job
from gpubench.studies.runner import Engine

SECONDS_BETWEEN_ATTEMPTS = 5.0


@dataclass(frozen=True)
class Spot:
    """A device that a rank could measure on.

    spec: its name for that rank. identity: unique among all devices of all hosts.
    label: its name in records.
    """

    spec: str
    identity: str
    label: str


@dataclass(frozen=True)
class Sight:
    """The host of a rank, and the devices that the rank finds there (at least one)."""

    host: str
    spots: tuple[Spot, ...]


@dataclass(frozen=True)
class RankDevice:
    """The device of a rank, and how many ranks measure on it."""

    spot: Spot
    sharing: int


@dataclass
class DeviceModel:
    """The common description of a run's devices; see `plan.DescribedDevice`."""

    backend: str
    spec: str
    name: str
    is_cpu: bool
    memory_bytes: int


@dataclass(frozen=True)
class MeasuredInput:
    """The result of measuring an input in a rank.

    records: None if the rank could not reopen its device, so that nothing was measured.
    reason: why the rank could not reopen its device, if so.
    """

    rank: int
    records: list[AnyRecord] | None
    reason: str = ""


@dataclass(frozen=True)
class Spread:
    """The ranks of a distributed study; the counterpart of `simulate.ranks.Crew`.

    device, oversubscribed: the user's options.
    """

    ranks: Ranks
    device: str
    oversubscribed: bool

    @classmethod
    def of(cls, ranks: Ranks | None, device: str, oversubscribed: bool) -> Spread:
        """Return the ranks of a run; raise UserError where there are too few."""
        if ranks is None or ranks.size < 2:
            raise UserError(
                "--spread takes a rank that leads and one for each device: for two devices, start"
                " it with mpirun -n 3 gpubench run ... --spread"
            )
        return cls(ranks, device, oversubscribed)

    @contextmanager
    def lead(self) -> Iterator[Engine]:
        """Yield rank 0's engine; the other ranks, in `follow`, measure its inputs.

        Raises UserError where two ranks would measure on one device, and where devices differ.
        """
        from mpi4py.futures import MPICommExecutor

        comm = self.ranks.comm
        sights: list[Any] = (comm.gather(None) or [])[1:]
        comm.scatter([None, *places_for(sights, self.oversubscribed)])
        opened: list[Any] = (comm.gather(None) or [])[1:]
        require_alike([conditions for _, conditions in opened])
        # An error must end the run before the executor waits for pending inputs.
        with MPICommExecutor(comm) as executor, ends_all(self.ranks):
            yield Pool(cast(Executor, executor), opened[0][0], len(opened))

    def follow(self) -> None:
        """Measure the inputs handed out by rank 0, until it ends."""
        from mpi4py.futures import MPICommExecutor
        from mpi4py.MPI import Get_processor_name

        plugins.additions()  # imported before receiving an input that they define
        comm = self.ranks.comm
        with closing(Measurer(self.ranks.rank)) as measurer:
            comm.gather(measurer.look(self.device, Get_processor_name()))
            comm.gather(measurer.settle(comm.scatter(None)))
            Measurer.here = measurer
            with MPICommExecutor(comm):
                pass  # reached when rank 0 has ended


def places_for(sights: Sequence[Sight], oversubscribed: bool) -> list[RankDevice]:
    """Choose a device for each measuring rank; sights: those of ranks 1, 2, ...

    Raises UserError if a rank finds no device of its own, unless ranks may share.
    """
    taken: Counter[str] = Counter()
    chosen: list[Spot] = []
    lacking: list[int] = []
    for rank, sight in enumerate(sights, 1):
        spot = min(sight.spots, key=lambda spot: taken[spot.identity])
        if taken[spot.identity]:
            lacking.append(rank)
        taken[spot.identity] += 1
        chosen.append(spot)
    if lacking and not oversubscribed:
        host = sights[lacking[0] - 1].host
        there = [sight for sight in sights if sight.host == host]
        devices = {spot.identity for sight in there for spot in sight.spots}
        raise UserError(
            f"rank {lacking[0]} has no device of its own: on {host}, {len(there)} rank(s) would"
            f" measure on {len(devices)} device(s), and rank 0 only leads: start"
            f" mpirun -n {1 + len(sights) - len(lacking)} gpubench run ... --spread, or say"
            " --oversubscribe where times do not matter"
        )
    return [RankDevice(spot, taken[spot.identity]) for spot in chosen]


def require_alike(conditions: Sequence[dict[str, Any]]) -> None:
    """Raise UserError unless the conditions of all ranks are alike enough for one results file."""
    first, *others = map(_of_any, conditions)
    for rank, other in enumerate(others, 2):
        if difference := first_difference(first, other):
            raise UserError(
                f"ranks 1 and {rank} measure under other conditions ({difference}): results of one"
                " run are of one model of GPU, alike hosts and the same code; start a run for each"
            )


def _of_any(environment: dict[str, Any]) -> dict[str, Any]:
    """Return the environment without fields that differ between GPUs of one model."""
    device = environment["device"]
    own = {"spec": device["backend"], "uuid": None} if device["backend"] == "cuda" else {}
    return {**environment, "device": {**device, **own}}


class Pool(Engine):
    """The devices of all other ranks; each rank measures one input at a time.

    executor: calls functions in those ranks. facts: fields of DeviceModel, from one such rank.
    workers: the number of measuring ranks.
    """

    def __init__(self, executor: Executor, facts: dict[str, Any], workers: int) -> None:
        self._executor, self._workers = executor, workers
        self.device = DeviceModel(**{**facts, "spec": f"{facts['backend']}, {workers} rank(s)"})

    def environment(self) -> dict[str, Any]:
        """Describe what the devices have in common; measured values are from one device."""
        return _of_any(self._executor.submit(_describe).result())

    def measure(
        self, jobs: Sequence[Job], budget: Budget, bar: ProgressBar
    ) -> Iterator[list[AnyRecord]]:
        """Hand out the largest inputs first, so that no rank ends with a long one.

        An input that a rank could not measure after losing its device goes to another rank. Raises
        UserError once no rank has a device.
        """
        bar.describe(f"on {self._workers} device(s)")
        waiting: dict[Future[MeasuredInput], Job] = {}
        for job in sorted(jobs, key=_size, reverse=True):
            waiting[self._executor.submit(_measure, job, budget)] = job
        lost: dict[int, str] = {}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job, outcome = waiting.pop(future), future.result()
                if outcome.records is not None:
                    lost.pop(outcome.rank, None)
                    bar.advance(len(outcome.records))
                    yield outcome.records
                    continue
                lost[outcome.rank] = outcome.reason
                if len(lost) == self._workers:
                    each = "; ".join(f"rank {rank}: {why}" for rank, why in sorted(lost.items()))
                    raise UserError(f"no device can be opened any more ({each})")
                waiting[self._executor.submit(_measure, job, budget)] = job


def _size(job: Job) -> int:
    return job.group.recipe.device_bytes * job.group.sweep.inputs


class Measurer:
    """A rank's measuring process with its device, restarted after each failure.

    here: this rank's measurer.
    """

    here: ClassVar[Measurer]

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._child: Child | None = Child()
        self._place: RankDevice
        self._model: DeviceModel

    def look(self, device: str, host: str) -> Sight:
        """Return the devices that match the user's spec on this host."""
        found = self._ask("see", device)
        spots = [Spot(spec, uuid or f"{host} {own}", uuid or spec) for spec, own, uuid in found]
        return Sight(host, tuple(spots))

    def settle(self, place: RankDevice) -> tuple[dict[str, Any], dict[str, Any]]:
        """Open the chosen device; return its facts, see DeviceModel, and its conditions."""
        self._place = place
        facts = self._ask("open", place.spot.spec)
        self._model = DeviceModel(**facts)
        return facts, self._ask("conditions")

    def describe(self) -> dict[str, Any]:
        """Return the environment record of its device."""
        environment: dict[str, Any] = self._ask("environment")
        return environment

    def measure(self, job: Job, budget: Budget) -> MeasuredInput:
        """Measure an input; if the process dies, all records of the input are `failed`.

        Raises UserError for an algorithm's errors that the user must correct.
        """
        if self._child is None:
            try:
                self._ask("open", self._place.spot.spec)
            except (UserError, NoAnswer) as error:
                self.close()
                Event().wait(SECONDS_BETWEEN_ATTEMPTS)  # meanwhile, others take remaining inputs
                return MeasuredInput(self._rank, None, f"{self._place.spot.spec}: {error}")
        drawn: dict[str, Any] = {}
        try:
            records = self._ask("measure", job, budget, on_news=drawn.update)
        except NoAnswer as error:
            records = failed(job, self._model, drawn, str(error))
        if any(record.status == "failed" for record in records):
            self.close()  # some errors leave a GPU context unusable
        return MeasuredInput(self._rank, [self._signed(record) for record in records])

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _ask(self, do: str, *given: Any, on_news: Callable[[Any], None] | None = None) -> Any:
        """Send the process a request, starting it if necessary."""
        self._child = self._child or Child()
        return self._child.ask(do, *given, on_news=on_news)

    def _signed(self, record: AnyRecord) -> AnyRecord:
        """Return a record with the name of the device that measured it."""
        remarks = record.remarks
        if self._place.sharing > 1 and isinstance(record, Ok):
            shared = f"{self._place.sharing} ranks measured on this device at the same time"
            remarks = [*(remarks or []), shared]
        return msgspec.structs.replace(record, measured_on=self._place.spot.label, remarks=remarks)


def _describe() -> dict[str, Any]:
    return Measurer.here.describe()


def _measure(job: Job, budget: Budget) -> MeasuredInput:
    return Measurer.here.measure(job, budget)
