"""Running a conformance suite: the inputs on which all algorithms of a problem are tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from gpubench import problems
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.oracle import Oracle, first_launch
from gpubench.core.recipe import Inputs


@dataclass(frozen=True)
class CaseResult:
    """The outcome of a case: status `ok`, `wrong` or `skipped`; reason is empty for `ok`."""

    name: str
    status: str
    reason: str = ""


@cache
def _oracle(family: str, case: Case) -> Oracle:
    """Return the oracle of a suite's case, shared by all algorithms of the family."""
    return problems.problems()[family].oracle(case.make(), case.exact)


def run_conformance(make_algorithm: Callable[..., Algorithm], family: str) -> list[CaseResult]:
    """Run the suite of a family.

    make_algorithm: makes the algorithm, with its conformance_parameters, for an input, whose
        `made_for` is passed as keywords; if it raises NotSupported the case is skipped.
    Each answer is checked after a first launch and after a second one, which must recompute it
    completely: the first answer is overwritten with values that no right answer holds.
    """
    return [
        _run(make_algorithm, case.name, case.make(), _oracle(family, case))
        for case in cases(family)
    ]


def run_case(make_algorithm: Callable[..., Algorithm], family: str, case: Case) -> CaseResult:
    """Run one case like run_conformance."""
    inputs = case.make()
    oracle = problems.problems()[family].oracle(inputs, case.exact)
    return _run(make_algorithm, case.name, inputs, oracle)


def _run(
    make_algorithm: Callable[..., Algorithm], name: str, inputs: Inputs, oracle: Oracle
) -> CaseResult:
    try:
        algorithm = make_algorithm(**inputs.made_for)
    except NotSupported as reason:
        return CaseResult(name, "skipped", str(reason))
    if problem := first_launch(algorithm, inputs, oracle):
        return CaseResult(name, "wrong", f"after the first launch: {problem}")
    oracle.poison(algorithm)
    algorithm.launch()
    if problem := oracle.check(algorithm):
        return CaseResult(name, "wrong", f"after the second launch: {problem}")
    return CaseResult(name, "ok")


@cache
def cases(family: str) -> tuple[Case, ...]:
    """Return the suite of a family."""
    return tuple(problems.problems()[family].cases())
