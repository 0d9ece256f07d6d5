"""Sorting keys, alone or with values."""

from typing import ClassVar

from gpubench.core.problem import Problem
from gpubench.problems.key_sort.axes import Keys


class KeySortProblem(Problem):
    """Sort keys, each with its value."""

    name = "key-sort"
    takes = Keys
    fixed: ClassVar = {"value_bytes": 4, "key_order": "uniform"}
    oracle_name = "KeySortOracle"
    suite = "keys"
