"""Experimental designs: a subset of the combinations of axis values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def spread_points(
    levels: Sequence[int], has_ends: Sequence[bool], points: int, seed: int
) -> list[tuple[int, ...]]:
    """Choose distinct combinations that are spread evenly over the product of some axes.

    levels: number of values of each axis. has_ends: which axes are scales, with a first and a last
    value; all combinations of these ends come first. points: number of combinations, at most as
    many as exist. Returns the index of a value for each axis, sorted.

    A scrambled Sobol sequence (Owen 1998) proposes points. For each point, from the combinations
    not yet taken, keep those whose single values were used least often; of these, those whose pairs
    of values were used least often; then take the one nearest to the point. So an axis's values
    occur about equally often, which the sequence alone ensures only for powers of two.
    """
    from scipy.stats import qmc  # slow to import, and used by few studies

    everything = np.array(list(itertools.product(*map(range, levels))), np.int64)
    if points >= len(everything):
        return [tuple(map(int, row)) for row in everything]
    unit = (everything + 0.5) / np.array(levels)
    is_end = (everything == 0) | (everything == np.array(levels) - 1)
    is_scale = np.array([ends and n > 1 for ends, n in zip(has_ends, levels, strict=True)], bool)
    corners = np.unique(everything[is_end[:, is_scale].all(axis=1)][:, is_scale], axis=0)
    proposed = qmc.Sobol(len(levels), seed=np.random.default_rng(seed)).random(
        1 << max(0, points - 1).bit_length()
    )
    free = np.ones(len(everything), bool)
    taken: list[int] = []
    for step in range(points):
        among = free.copy()
        if step < len(corners):
            among &= (everything[:, is_scale] == corners[step]).all(axis=1)
        for usage in _usage(everything, taken, levels):
            among &= usage == usage[among].min()
        left = np.flatnonzero(among)
        nearest = left[np.argmin(((unit[left] - proposed[step]) ** 2).sum(axis=1))]
        free[nearest] = False
        taken.append(int(nearest))
    return [tuple(map(int, everything[index])) for index in sorted(taken)]


def _usage(
    everything: NDArray[np.int64], taken: Sequence[int], levels: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how often the values of each combination were used, singly and in pairs.

    Both are relative to an even distribution, so that axes with few values do not dominate.
    """
    chosen = everything[list(taken)]
    single, double = np.zeros((2, len(everything)))
    for a, n in enumerate(levels):
        single += n * np.bincount(chosen[:, a], minlength=n)[everything[:, a]]
        for b, m in enumerate(levels[:a]):
            together = np.bincount(chosen[:, a] * m + chosen[:, b], minlength=n * m)
            double += n * m * together[everything[:, a] * m + everything[:, b]]
    return single, double
