"""The plan of a run: the inputs of a study, and the measurements on each."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.core.recipe import Recipe
from gpubench.core.version import version_of
from gpubench.evidence.declared import STEP
from gpubench.evidence.records import record_key, waits_for
from gpubench.measure.budget import Mode
from gpubench.problems.steps.axes import Simulation
from gpubench.studies.selection import WHOLE, Selection
from gpubench.studies.study import Study, Subject, Sweep, check_names
from gpubench.workloads.parameters import parse


class DescribedDevice(Protocol):
    """The device properties that a rank without a device needs to plan; see `Device`."""

    backend: str
    spec: str
    name: str
    is_cpu: bool
    memory_bytes: int


@dataclass(frozen=True)
class Group:
    """One input of a sweep and all its measurements."""

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
        """The number of ranks required; None for one."""
        return self.recipe.ranks if isinstance(self.recipe, Simulation) else None

    def described(self, device: DescribedDevice, subject: Subject, mode: Mode) -> dict[str, Any]:
        """Return the fields of a record that are known before the input is drawn."""
        declared = registry.find_algorithm(subject.algorithm).declared(subject.form)
        if isinstance(self.recipe, Simulation) and declared["problem"] != STEP:
            declared |= {"problem": STEP, "task": None, "answer": None}
        workload = self.recipe.workload if isinstance(self.recipe, Simulation) else None
        version = version_of(subject.algorithm, workload, device.backend, self.ranks)
        identity = self.identity(device, subject, mode)
        return identity | {"declared": declared, "version": version}

    def identity(self, device: DescribedDevice, subject: Subject, mode: Mode) -> dict[str, Any]:
        """Return the fields that identify a record's measurement, except for the input's hash."""
        return {
            **self.recipe.identity,
            "kind": self.recipe.kind,
            "input_hash": None,
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
    """The missing measurements of one input.

    reason: why all of it is skipped, if known beforehand; else None.
    """

    group: Group
    items: list[tuple[Subject, Mode]]
    reason: str | None = None


def plan(study: Study, selection: Selection = WHOLE) -> list[Group]:
    """List the inputs of a study and the measurements on each.

    A sweep left out by `--quick` stays out, whatever is selected.
    Raises UserError for an algorithm that the study does not measure, for an axis or a parameter
    that it does not have, and for inputs that cannot be made.
    """
    _require_selectable(study, selection)
    sweeps = [sweep.quickened() if selection.quick else sweep for sweep in study.sweeps]
    for name in selection.parameters:
        known = {n for s in sweeps for one in s.subjects for n in _parameters_of(one)}
        registry.require_known("parameter", name, known)
    if selection.sweeps is not None:
        sweeps = [sweep for sweep in sweeps if sweep.name in selection.sweeps]
    groups = []
    for sweep in (_selected(sweep, selection) for sweep in sweeps):
        if sweep.subjects:
            recipes = map(_complete, sweep.recipes())
            groups += [Group(study.name, sweep, recipe, study.seed) for recipe in recipes]
    if not groups:
        raise UserError(f"nothing is left to measure of {study.name}: leave out --quick")
    return groups


def _require_selectable(study: Study, selection: Selection) -> None:
    """Raise UserError if the selection names anything that the study does not have."""
    for name, numbers in (("particles", selection.particles), ("inputs", (selection.inputs,))):
        for number in numbers or ():
            if number is not None and number < 1:
                raise UserError(f"the number of {name} must be at least 1, not {number}")
    for axis, values in selection.axes.items():
        if values is not None and not any(sweep.varies(axis) for sweep in study.sweeps):
            option = f"--{axis.replace('_', '-')}"
            raise UserError(f"{study.name} does not vary {axis}: leave out {option}")
    check_names(study, registry.algorithms())
    for name in selection.sweeps or ():
        registry.require_known("sweep", name, {sweep.name for sweep in study.sweeps})
    for name in selection.algorithms or ():
        registry.find_algorithm(name)
        among = {subject.algorithm for sweep in study.sweeps for subject in sweep.subjects}
        if name not in among:
            raise UserError(
                f"{study.name} does not measure {name}: one of {', '.join(sorted(among))}"
            )


def _selected(sweep: Sweep, selection: Selection) -> Sweep:
    """Return the selected part of a sweep; without subjects if nothing is selected."""
    if selection.algorithms is not None:
        chosen = tuple(s for s in sweep.subjects if s.algorithm in selection.algorithms)
        sweep = replace(sweep, subjects=chosen)
    if selection.parameters:
        subjects = tuple(_with_parameters(each, selection.parameters) for each in sweep.subjects)
        sweep = replace(sweep, subjects=subjects)
    if selection.inputs is not None and sweep.kind is not Simulation:
        sweep = replace(sweep, inputs=selection.inputs)
    given = {sweep.kind.size_axis: selection.particles, **selection.axes}
    return sweep.along(
        {axis: v for axis, v in given.items() if v is not None and sweep.varies(axis)}
    )


def _complete(recipe: Recipe) -> Recipe:
    """Fill in the default time step of a simulation's workload."""
    if not isinstance(recipe, Simulation):
        return recipe
    workload = registry.find_workload(recipe.workload)
    if recipe.setting is not None:
        name, _, text = recipe.setting.partition("=")
        registry.require_known("parameter", name, workload.defaults)
        parse(name, text, type(workload.defaults[name]))
    if recipe.time_step is not None or "time_step" not in workload.defaults:
        return recipe
    return replace(recipe, time_step=float(workload.defaults["time_step"]))


def _parameters_of(subject: Subject) -> Collection[str]:
    return registry.find_algorithm(subject.algorithm).defaults


def _with_parameters(subject: Subject, parameters: Mapping[str, int]) -> Subject:
    known = _parameters_of(subject)
    own = {name: value for name, value in parameters.items() if name in known}
    return replace(subject, parameters={**subject.parameters, **own})


def missing(
    groups: Sequence[Group], device: DescribedDevice, known: set[str], done: set[str], ranks: int
) -> list[Job]:
    """List the measurements still to be made on each input.

    known: keys of existing records, including skipped ones that wait for another number of ranks.
    done: keys of records that are not measured again.
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


def cell_key(identity: Mapping[str, Any]) -> str:
    """Return the key of a record as far as it is known before its input is made.

    A results file is continued only by the same code, which makes the same input from the same seed
    and sizes, so finished records can be found without drawing 2^26 particles. The key also omits
    the fraction of particles that a simulation step moves, which is unknown before the run.
    """
    unknown = {"input_hash", "moved"} if identity.get("destination") == "step" else {"input_hash"}
    return record_key(**{**identity, **dict.fromkeys(unknown)})
