"""A process that measures cells on request: one side of a pair.

`gpubench.compare.worker SOCKET` imports the code to measure, and answers JSON requests that the
comparing process sends over an open socket.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.devices import Device, open_device, survey
from gpubench.evidence.records import as_json
from gpubench.measure.environment import environment
from gpubench.measure.sampling import Budget, Mode, Rounds, Run, scratch_for
from gpubench.studies.bench import Bench, LaunchError, Trial, verdict_on
from gpubench.studies.plan import Group, cell_key, plan
from gpubench.studies.selection import Selection
from gpubench.studies.study import Subject, Sweep, parse_study

PROTOCOL = 2  # protocol 1 used records of schema 1
# Samples are requested one by one, so only the warm-up of this budget matters.
BUDGET = Budget(seconds_per_task=0.2, max_samples=100)


class Sampler:
    """The algorithms on a device, and their samples; each method answers a request."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._groups: list[Group] = []
        self._bench: Bench | None = None
        self._cells: dict[str, tuple[Trial, Mode]] = {}
        self._runs: dict[tuple[str, int], Run] = {}  # by cell and variant
        self._block = Rounds(device)

    def describe(self) -> dict[str, Any]:
        """Return the environment record."""
        return {"environment": environment(self._device)}

    def plan(self, study: str, text: str, selection: dict[str, Any]) -> dict[str, Any]:
        """Read a study, drop subjects that this package lacks, and return its inputs' titles."""
        read = parse_study(study, text)
        known = replace(read, sweeps=tuple(map(_known, read.sweeps)), subjects=())
        self._groups = plan(known, Selection(**selection))
        return {"groups": [f"{g.sweep.name}: {g.recipe.title}" for g in self._groups]}

    def make(self, group: int, only: list[str] | None, variants: list[list[int]]) -> Any:
        """Make, check and warm up an input's measurements; return the cells to sample.

        only: cells by their keys; None for all. variants: grain and extra work of each variant of a
        cell, see Task; records are of the first variant.
        """
        chosen = self._groups[group]

        def key_of(subject: Subject, mode: Mode) -> str:
            return cell_key(chosen.identity(self._device, subject, mode))

        items = [item for item in chosen.items if only is None or key_of(*item) in only]
        self._bench = Bench(chosen, items, self._device)
        for trial in self._bench.trials:
            # Plain launches have gaps between them: if a graph can hold them, compare only that.
            if {"graph", "hot"} <= {*trial.modes}:
                trial.modes.remove("hot")
        tasks = self._bench.tasks()
        scratch = scratch_for(self._device, [task for *_, task in tasks])
        self._cells, self._runs = {}, {}
        for trial, mode, task in tasks:
            key = key_of(trial.subject, mode)
            try:
                for variant, (grain, extra) in enumerate(variants):
                    run = Run(self._device, replace(task, grain=grain, extra=extra), scratch)
                    run.launch_first()
                    run.warm_up(BUDGET)
                    self._runs[key, variant] = run
            except LaunchError as error:
                self._rule_out(error)
            else:
                self._cells[key] = trial, mode
        self._block = Rounds(self._device)
        for run in self._runs.values():
            run.states.append(self._block.state)
        return {"cells": list(self._cells)}

    def sample(self, cell: str, variant: int) -> dict[str, Any]:
        """Take one sample of a cell."""
        try:
            self._runs[cell, variant].take_sample()
        except LaunchError as error:
            self._rule_out(error)
        return {}

    def look(self) -> dict[str, Any]:
        """Read clocks and throttling; return why the device was throttled since the last look."""
        return {"throttled_by": self._block.end()}

    def end_block(self, throttled_by: list[str]) -> dict[str, Any]:
        """Set aside the samples since the last block, if either side was throttled meanwhile.

        Both sides do so, which keeps the remaining samples paired.
        """
        for run in self._runs.values():
            run.end_block(throttled_by, self._block.state)
        return {}

    def finish(self, check: bool) -> dict[str, Any]:
        """Return records, and the samples of other variants.

        check: whether to check all answers again first.
        """
        assert self._bench is not None
        for key, (trial, mode) in self._cells.items():
            if trial.algorithms:
                self._runs[key, 0].stopped = "samples"
                self._bench.note(trial, mode, self._runs[key, 0])
        variants = [
            {"cell": key, "variant": variant, "samples_ms": run.samples_ms}
            for (key, variant), run in self._runs.items()
            if variant
        ]
        records = self._bench.finish(check=check, phases=False)
        self._bench, self._cells, self._runs = None, {}, {}
        return {"records": [as_json(record) for record in records], "variants": variants}

    def _rule_out(self, error: LaunchError) -> None:
        error.trial.rule_out(*verdict_on(error.raised, self._device))


def _known(sweep: Sweep) -> Sweep:
    """Return a sweep with only the subjects that this package has."""
    algorithms, workloads = registry.algorithms(), registry.workloads()
    subjects = (s for s in sweep.subjects if s.algorithm in algorithms)
    known = tuple(s for s in subjects if s.form in algorithms[s.algorithm].forms)
    has_workloads = all(name in workloads for name in sweep.axes.get("workload", ()))
    return replace(sweep, subjects=known if has_workloads else ())


def main() -> None:
    """Open a device at the first request, then answer requests until the other side disconnects."""
    sampler: Sampler | None = None
    with Connection(int(sys.argv[1])) as connection, ExitStack() as opened:
        survey()  # imports the back ends (takes seconds) without opening a device
        for request in _requests(connection):
            answer: dict[str, Any]
            try:
                if sampler is not None:
                    answer = getattr(sampler, request.pop("do"))(**request)
                else:
                    device = opened.enter_context(open_device(request["device"]))
                    sampler = Sampler(device)
                    answer = {"protocol": PROTOCOL, "is_cpu": device.is_cpu}
            except UserError as error:
                answer = {"error": str(error)}
            connection.send_bytes(json.dumps(answer).encode())


def _requests(connection: Connection) -> Iterator[dict[str, Any]]:
    """Yield requests until the other side disconnects."""
    with suppress(EOFError):
        while True:
            yield json.loads(connection.recv_bytes())


if __name__ == "__main__":
    main()
