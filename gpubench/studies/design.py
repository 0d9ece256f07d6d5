"""Designs of experiments: some combinations of the values of axes, in place of all of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def spread_points(
    levels: Sequence[int], has_ends: Sequence[bool], points: int, seed: int
) -> list[tuple[int, ...]]:
    """Choose different combinations that are spread evenly over the product of some axes.

    levels: how many values each axis has. has_ends: which axes are scales, with a first and a
    last value; all combinations of these ends come first. points: how many combinations, at most
    as many as there are. Returns the index of a value for each axis, sorted.

    A scrambled Sobol sequence (Owen 1998) proposes points; of the combinations that are left, the
    nearest is taken among those whose values were taken least often, first each by itself and
    then in pairs. So every value of every axis comes about equally often, for any number of
    values, which the sequence itself only promises for powers of two.
    """
    from scipy.stats import qmc  # slow to import, and few studies need it

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
    """Say how often the values of each combination were taken, of its axes and of their pairs.

    Each as a multiple of what is even, so that axes with few values do not outweigh the others.
    """
    chosen = everything[list(taken)]
    single, double = np.zeros((2, len(everything)))
    for a, n in enumerate(levels):
        single += n * np.bincount(chosen[:, a], minlength=n)[everything[:, a]]
        for b, m in enumerate(levels[:a]):
            together = np.bincount(chosen[:, a] * m + chosen[:, b], minlength=n * m)
            double += n * m * together[everything[:, a] * m + everything[:, b]]
    return single, double
