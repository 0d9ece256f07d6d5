"""Run conformance suites, the inputs on which all algorithms of a problem are tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from gpubench import problems
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.oracle import Oracle, first_launch
from gpubench.core.recipe import Inputs


@dataclass(frozen=True)
class CaseResult:
    """The result of a case. status: `ok`, `wrong` or `skipped`. reason: empty if it is `ok`."""

    name: str
    status: str
    reason: str = ""


@cache
def _oracle(family: str, case: Case, exact: bool) -> Oracle:
    """Return the oracle of a case, cached to be shared by all algorithms of the family."""
    return problems.problems()[family].oracle(case.make(), exact)


def run_conformance(make_algorithm: Callable[..., Algorithm], family: str) -> list[CaseResult]:
    """Run the suite of a family.

    make_algorithm: constructs the algorithm with its conformance_parameters; takes the keywords of
        the input's `made_for`. A case for which it raises NotSupported is skipped.
    The answer is checked after each of two launches. Between them, it is overwritten with values
    that no correct answer holds, so the second launch must recompute all of it.
    """
    return [
        _run(make_algorithm, case, case.make(), partial(_oracle, family, case))
        for case in cases(family)
    ]


def run_case(make_algorithm: Callable[..., Algorithm], family: str, case: Case) -> CaseResult:
    """Run a single case as run_conformance does."""
    inputs = case.make()
    return _run(make_algorithm, case, inputs, partial(problems.problems()[family].oracle, inputs))


def _run(
    make_algorithm: Callable[..., Algorithm],
    case: Case,
    inputs: Inputs,
    oracle_of: Callable[[bool], Oracle],
) -> CaseResult:
    """Run a case. oracle_of: returns its oracle, given whether the algorithm has to be exact."""
    name = case.name
    try:
        algorithm = make_algorithm(**inputs.made_for)
    except NotSupported as reason:
        return CaseResult(name, "skipped", str(reason))
    oracle = oracle_of(case.exact and algorithm.is_exact)
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
