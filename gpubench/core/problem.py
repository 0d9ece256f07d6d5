"""The declaration of a problem: its kind of input, oracle and test cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from gpubench.core.recipe import Inputs, Recipe

if TYPE_CHECKING:  # NumPy is slow to import
    from gpubench.core.algorithm import Algorithm
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle

Sample: TypeAlias = tuple[Inputs, Mapping[str, int]]


class Problem:
    """A problem that a group of algorithms solves; `name` is their `family`.

    A declaration does not import the oracle or the suite, which need SciPy. Instead, it names a
    class in `oracle.py` and functions in `cases.py`, both in the same package. A problem in a
    single file overrides `oracle` and `cases`.

    takes: the kind of its inputs.
    makes_cells: whether its algorithms build cell lists that a simulation can use.
    reads_cells: whether its algorithms read a cell list, which does not count as their workspace.
    """

    name: ClassVar[str]
    takes: ClassVar[type[Recipe]]
    oracle_name: ClassVar[str | None] = None
    suite: ClassVar[str | None] = None
    large_suite: ClassVar[str | None] = None
    samples_name: ClassVar[str] = "samples"
    makes_cells: ClassVar[bool] = False
    reads_cells: ClassVar[bool] = False

    def oracle(self, inputs: Any, exact: bool = False) -> Oracle:
        """Make the oracle for an input. exact: whether float32 holds its distances exactly."""
        if self.oracle_name is None:
            raise NotImplementedError(f"{self.name} has no right answers: override oracle()")
        made: Oracle = self._part("oracle", self.oracle_name)(inputs, exact)
        return made

    def cases(self) -> Sequence[Case]:
        """Return the inputs on which every algorithm must be correct."""
        if self.suite is None:
            raise NotImplementedError(f"{self.name} is tried on nothing: override cases()")
        return self._cases(self.suite)

    def large_cases(self) -> Sequence[Case]:
        """Return inputs larger than 2^24, above which float32 skips integers; for tests on GPUs."""
        return self._cases(self.large_suite)

    def samples(self, algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
        """Yield small inputs with parameters that together launch every kernel of a variant.

        For tools that slow down each launch, e.g. sanitizers. Without a `suite`: the first `cases`.
        """
        if self.suite is None:
            yield from ((case.make(), {}) for case in self.cases()[:4])
        else:
            yield from self._part("cases", self.samples_name)(algorithm, form)

    def blanks(self, size: int) -> Iterator[Inputs]:
        """Yield inputs of about this size that together compile every kernel.

        Their values are zero if the problem allows that. Without a `suite`: the first of `cases`.
        """
        if self.suite is None:
            yield from (case.make() for case in self.cases()[:1])
        else:
            yield from self._part("cases", "blanks")(size)

    def axes_for(self, algorithm: type[Algorithm], size: int) -> dict[str, Any]:
        """Return the axes of a typical input of this size for an algorithm."""
        first = {name: values[0] for name, values in self.takes.varied.items()}
        return {self.takes.size_axis: size, **first, **self.takes.fixed, **algorithm.needs}

    def sample(self, algorithm: type[Algorithm], size: int, seed: int = 0, **axes: Any) -> Any:
        """Generate a typical input of this size for an algorithm; `axes` override the defaults."""
        return self.takes(**self.axes_for(algorithm, size) | axes).make(seed)

    def _cases(self, suite: str | None) -> Sequence[Case]:
        found: Sequence[Case] = () if suite is None else self._part("cases", suite)()
        return found

    def _part(self, module: str, name: str) -> Any:
        return getattr(import_module(f"{type(self).__module__}.{module}"), name)

    def check(self, algorithm: Algorithm, inputs: Inputs, exact: bool = False) -> str | None:
        """Check one answer. To check several for the same input, reuse the oracle."""
        return self.oracle(inputs, exact).check(algorithm)
