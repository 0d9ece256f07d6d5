"""Sorting keys, alone or with values."""

from gpubench.core.problem import Problem
from gpubench.problems.key_sort.axes import Keys


class KeySortProblem(Problem):
    """Sort keys, each with its value."""

    name = "key-sort"
    takes = Keys
    oracle_name = "KeySortOracle"
    suite = "keys"
