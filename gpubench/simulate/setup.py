"""The setup of a simulation: the workload, its size and parameters, and its cell list."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpubench import registry
from gpubench.base.errors import NotSupported, UserError
from gpubench.core.memory import why_too_large
from gpubench.core.recipe import MAX_PARTICLES
from gpubench.decomposed import share
from gpubench.devices import Device, missing_feature
from gpubench.problems.cells.contract import CellList
from gpubench.problems.steps.axes import Simulation
from gpubench.workloads.parameters import parse
from gpubench.workloads.workload import Value, Workload

ALGORITHM = "counting-sort"  # the fastest for particles that move little, on any device
SEED = 1


@dataclass(frozen=True)
class Setup:
    """The complete specification of a simulation, except for the device.

    form: form of the algorithm, or None for the choice of `choose_form`.
    parameters: workload and algorithm parameters; missing ones have their defaults.
    """

    workload: str
    particles: int
    algorithm: str = ALGORITHM
    form: str | None = None
    parameters: dict[str, Value] = field(default_factory=dict)
    seed: int = SEED
    skin: float = 0.0

    @classmethod
    def of(cls, workload: Workload) -> Setup:
        """Return the complete setup of an existing workload."""
        cells = workload.algorithm
        return cls(
            workload.name, workload.particles, cells.name, cells.form, dict(workload.parameters),
            workload.seed, workload.skin,
        )  # fmt: skip

    def make(self, device: Device, decomposition: str | None = None) -> Workload:
        """Make the workload; with a decomposition, the ranks of the device's team share it.

        Raises UserError where memory is insufficient, before allocating any, and for setups that
        the workload or its algorithm rejects.
        """
        ranks = None if decomposition is None else device.team.ranks.size
        recipe = Simulation(self.workload, self.particles, ranks=ranks, decomposition=decomposition)
        if reason := why_too_large(recipe, device):
            raise UserError(f"{recipe.title}: {reason}")
        algorithm = find_cells(self.algorithm)
        form = self.form or choose_form(algorithm, device, reorders=decomposition is None)
        if lacking := missing_feature(algorithm.forms[form].requires, device):
            raise NotSupported(f"{self.algorithm} {form} {lacking}")
        workload = share(registry.find_workload(self.workload), decomposition, device, algorithm)
        return workload(
            device, self.particles, algorithm, form, self.parameters, self.seed, self.skin
        )

    def differences(self, other: Setup) -> list[str]:
        """List the differences from another setup, each in a few words."""
        ours, theirs = _flat(self), _flat(other)
        return [
            f"{name} {ours.get(name, 'by default')} and not {theirs.get(name, 'by default')}"
            for name in dict.fromkeys([*ours, *theirs])
            if ours.get(name) != theirs.get(name)
        ]


def settle(
    workload: str,
    given: Mapping[str, Any],
    parameters: Sequence[str] = (),
    saved: Setup | None = None,
) -> Setup:
    """Return the requested setup; other fields are those of `saved`, or else the defaults.

    given: fields of Setup by name; None for those that were not requested.
    parameters: NAME=VALUE, each value of the type of its default.
    Raises UserError for an impossible setup, and for a request that differs from `saved`.
    """
    base = saved or Setup(workload, registry.find_workload(workload).particles_by_default)
    wanted = {name: value for name, value in given.items() if value is not None}
    setup = dataclasses.replace(base, workload=workload, **wanted)
    _require_sensible(setup)
    algorithm = find_cells(setup.algorithm)
    defaults = {**algorithm.defaults, **registry.find_workload(workload).defaults}
    own = {**base.parameters, **parse_parameters(parameters, defaults)}
    setup = dataclasses.replace(setup, parameters=own)
    if saved is not None and (differing := setup.differences(saved)):
        raise UserError(
            f"this is not the simulation of the checkpoint: {', '.join(differing)}; leave out what"
            " differs, or begin anew without --resume"
        )
    if setup.form is not None:
        registry.require_known(f"form of {algorithm.name}", setup.form, algorithm.forms)
    return setup


def possible(setup: Setup) -> Setup:
    """Return an untrusted setup, with parameters converted to the type of their defaults.

    Raises UserError for an impossible setup.
    """
    _require_sensible(setup)
    algorithm = find_cells(setup.algorithm)
    if setup.form is not None:
        registry.require_known(f"form of {algorithm.name}", setup.form, algorithm.forms)
    defaults = {**algorithm.defaults, **registry.find_workload(setup.workload).defaults}
    parameters: dict[str, Value] = {}
    for name, value in setup.parameters.items():
        registry.require_known("parameter", name, defaults)
        parameters[name] = parse(name, str(value), type(defaults[name]))
    return dataclasses.replace(setup, parameters=parameters)


def find_cells(name: str) -> type[CellList]:
    """Return the algorithm of that name; raise UserError if it does not make a cell list."""
    algorithm = registry.find_algorithm(name)
    if not issubclass(algorithm, CellList):
        fitting = [n for n, cls in registry.algorithms().items() if issubclass(cls, CellList)]
        raise UserError(
            f"{name} is of family {algorithm.family}, and a simulation needs a cell list: one of"
            f" {', '.join(fitting)}"
        )
    return algorithm


def choose_form(algorithm: type[CellList], device: Device, *, reorders: bool = True) -> str:
    """Return the first form that the device can run and that reorders, else the first it can run.

    reorders: if False, prefer a form that does not, for callers that reorder all data themselves.
    Raises NotSupported where the device can run none.
    """
    lacking = {
        name: missing_feature(form.requires, device) for name, form in algorithm.forms.items()
    }
    possible = [name for name, missing in lacking.items() if missing is None]
    if not possible:
        raise NotSupported(f"{algorithm.name} {next(iter(lacking.values()))}")
    fitting = (name for name in possible if algorithm.forms[name].reorders == reorders)
    return next(fitting, possible[0])


def parse_parameters(texts: Sequence[str], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Parse NAME=VALUE pairs, each value of the type of its default.

    Raises UserError for an unknown name and for a value of another type.
    """
    parameters: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UserError(f"--parameter takes NAME=VALUE, not {text!r}")
        registry.require_known("parameter", name, defaults)
        parameters[name] = parse(name, value, type(defaults[name]))
    return parameters


def _require_sensible(setup: Setup) -> None:
    if not 1 <= setup.particles <= MAX_PARTICLES:
        raise UserError(
            f"the number of particles must be 1 to {MAX_PARTICLES}, not {setup.particles}"
        )
    if not 0 <= setup.seed < 2**64:
        raise UserError(f"the seed must be 0 to 2^64 - 1, not {setup.seed}")
    if not (setup.skin >= 0 and math.isfinite(setup.skin)):
        raise UserError(f"the skin must be 0 or a positive length, not {setup.skin:g}")


def _flat(setup: Setup) -> dict[str, object]:
    fields: dict[str, object] = dataclasses.asdict(setup)
    del fields["parameters"]
    return fields | setup.parameters
