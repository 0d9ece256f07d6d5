"""Sorting keys, alone or with values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.key_sort.axes import Keys

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.key_sort.inputs import KeySet


class KeySortProblem(Problem):
    """Sort keys, each with its value."""

    name = "key-sort"
    takes = Keys

    def oracle(self, inputs: KeySet, exact: bool = False) -> Oracle:
        """Return what a stable sort gives."""
        from gpubench.problems.key_sort.oracle import KeySortOracle

        return KeySortOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return keys of every order, about the sizes of blocks and tiles."""
        from gpubench.problems.key_sort.cases import keys

        return keys()
