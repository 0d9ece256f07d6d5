"""Check all variants of algorithms, on a conformance suite or on a user's own input."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from gpubench import problems
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Algorithm
from gpubench.core.oracle import first_launch
from gpubench.devices import Device, missing_feature
from gpubench.measure.progress import progress
from gpubench.problems.collision.axes import Meshes
from gpubench.problems.collision.inputs import MeshPair
from gpubench.problems.particles.axes import Particles
from gpubench.problems.particles.inputs import ParticleSet
from gpubench.studies.bench import verdict_on
from gpubench.verify import conformance
from gpubench.verify.allocations import UndeclaredMemory, soiled_memory
from gpubench.verify.conformance import cases
from gpubench.verify.smallest import smallest_failure

Own = ParticleSet | MeshPair | None  # an input that replaces the suite


def check_forms(
    chosen: list[type[Algorithm]], device: Device, inputs: Own, smallest: bool
) -> list[dict[str, Any]]:
    """Check every variant of the algorithms; return the results, ready for JSON."""
    forms = [(cls, name, form) for cls in chosen for name, form in cls.forms.items()]
    outcomes: list[dict[str, Any]] = []
    with progress(len(forms), "checking") as bar:
        for cls, name, form in forms:
            bar.describe(f"{cls.name} {name}")
            if lacking := missing_feature(form.requires, device):
                outcome = _outcome("skipped", lacking)
            else:
                outcome = _check_form(cls, name, device, inputs, smallest)
            outcomes.append({"algorithm": cls.name, "form": name, **outcome})
            bar.advance(1)
    return outcomes


def _check_form(
    cls: type[Algorithm], form: str, device: Device, inputs: Own, smallest: bool
) -> dict[str, Any]:
    with soiled_memory(device) as memory:
        make: Callable[..., Algorithm] = partial(cls, device, form=form)
        if not cls.forms[form].allocates and not problems.problems()[cls.family].reads_cells:
            make = memory.declared_by(make)
        return _check_made(make, cls, device, inputs, smallest)


def _check_made(
    make: Callable[..., Algorithm],
    cls: type[Algorithm],
    device: Device,
    inputs: Own,
    smallest: bool,
) -> dict[str, Any]:
    family = problems.problems()[cls.family]
    given = Meshes if isinstance(inputs, MeshPair) else Particles
    if inputs is not None and family.takes is not given:
        return _outcome("skipped", f"takes {family.takes.kind}, not {given.kind}")
    try:
        if inputs is None:
            conforming = partial(make, parameters=cls.conformance_parameters)
            found = _summarised(conformance.run_conformance(conforming, cls.family))
            if smallest and family.takes is Particles:
                found["smallest"] = _smallest_of_suite(conforming, cls.family, found["cases"])
            return found
        oracle = family.oracle(inputs, False)
        algorithm = make(parameters={}, **inputs.made_for)
        wrong = first_launch(algorithm, inputs, oracle)
    except UndeclaredMemory as error:
        return _outcome("failed", str(error))
    except (Exception, SystemExit) as error:
        if inputs is not None and type(error) is UserError:
            raise  # caused by the user's own input
        return _outcome(*verdict_on(error, device))
    if not wrong:
        return _outcome("ok")
    outcome = _outcome("wrong", wrong)
    if smallest and given is Particles:
        outcome["smallest"] = _smallest(partial(make, parameters={}), cls.family, inputs)
    return outcome


def _smallest_of_suite(
    make: Callable[..., Algorithm], family: str, results: list[dict[str, Any]]
) -> str | None:
    """Shrink the first input of a suite that had a wrong answer; None if all answers are right."""
    wrong = {result["name"] for result in results if result["status"] == "wrong"}
    for case in cases(family):
        if case.name in wrong:
            return _smallest(make, family, case.make(), case.exact)
    return None


def _smallest(
    make: Callable[..., Algorithm], family: str, inputs: Any, exact: bool = False
) -> str | None:
    found = smallest_failure(make, family, inputs, exact)
    return found.describe() if found else None


def _summarised(results: list[conformance.CaseResult]) -> dict[str, Any]:
    """Return the outcome of a suite: wrong if any case is wrong, skipped if all are skipped."""
    cases = [dataclasses.asdict(result) for result in results]
    for status in ("wrong", "skipped"):
        found = [result for result in results if result.status == status]
        if found and (status == "wrong" or len(found) == len(results)):
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return _outcome(status, f"{found[0].name}: {found[0].reason}{more}", cases)
    return _outcome("ok", cases=cases)


def _outcome(
    status: str, reason: str | None = None, cases: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"status": status, "reason": reason, "cases": cases or []}
