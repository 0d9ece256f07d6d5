"""What a problem declares: what its inputs are, the right answers, and what it is tried on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.recipe import Inputs, Recipe

if TYPE_CHECKING:  # NumPy is slow to import
    from gpubench.core.algorithm import Algorithm
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle


class Problem(ABC):
    """A question that algorithms answer; each is of the family `name`.

    Declaring one imports no oracle and no suite: they stand on SciPy.

    takes: the kind of its inputs.
    makes_cells: whether its algorithms make what a simulation keeps its particles in.
    reads_cells: whether its algorithms are made for a cell list, which is no workspace of theirs.
    """

    name: ClassVar[str]
    takes: ClassVar[type[Recipe]]
    makes_cells: ClassVar[bool] = False
    reads_cells: ClassVar[bool] = False

    @abstractmethod
    def oracle(self, inputs: Any, exact: bool = False) -> Oracle:
        """Make the oracle of an input; `exact` where float32 represents its distances exactly."""

    @abstractmethod
    def cases(self) -> Sequence[Case]:
        """Return the inputs on which every algorithm must be right."""

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size, where float32 no longer counts; for a GPU."""
        return ()

    def check(self, algorithm: Algorithm, inputs: Inputs, exact: bool = False) -> str | None:
        """Check one answer. To check several on one input, keep the oracle."""
        return self.oracle(inputs, exact).check(algorithm)

    @property
    def kind(self) -> type[Recipe]:
        """What its inputs are."""
        return self.takes
