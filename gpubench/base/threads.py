"""Multithreaded work on parts of large arrays: NumPy releases the GIL while it computes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")

FEW_KEYS = 2**18  # up to this number of keys are sorted by a single thread
ROWS = 2**16  # rows per part; with a few columns, a part stays in a core's cache


def each(items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
    """Call `work` with each item; return the results in order."""
    if len(items) <= 1:
        return list(map(work, items))
    with ThreadPoolExecutor() as pool:
        return list(pool.map(work, items))


def between(edges: Sequence[int], work: Callable[[int, int], Result]) -> list[Result]:
    """Call `work(begin, end)` for each pair of successive edges; return the results in order."""
    return each([*itertools.pairwise(edges)], lambda part: work(*part))


def over(rows: int, work: Callable[[int, int], Result]) -> list[Result]:
    """Call `work(begin, end)` for each part of ROWS rows; return the results in order."""
    return between([*range(0, rows, ROWS), rows], work)


def take(rows: NDArray[Any], order: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return rows[order]."""
    taken = np.empty((len(order), *rows.shape[1:]), rows.dtype)

    def part(begin: int, end: int) -> None:
        taken[begin:end] = rows[order[begin:end]]

    over(len(order), part)
    return taken


def put(rows: NDArray[Any], order: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return an array with result[order] = rows; `order` is a permutation."""
    moved = rows.copy()

    def part(begin: int, end: int) -> None:
        moved[order[begin:end]] = rows[begin:end]

    over(len(order), part)
    return moved


def same(some: NDArray[Any], others: NDArray[Any]) -> bool:
    """Return np.array_equal(some, others)."""
    return some.shape == others.shape and all(
        over(len(some), lambda begin, end: np.array_equal(some[begin:end], others[begin:end]))
    )


def stable_order(keys: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """Return np.argsort(keys, kind="stable"); each thread sorts a range of key values."""
    if len(keys) <= FEW_KEYS:
        return np.argsort(keys, kind="stable")
    some = np.sort(keys[:: -(-len(keys) // 2**12)])
    ranges = 2 * (os.cpu_count() or 1)
    edges = np.unique(some[np.arange(1, ranges) * len(some) // ranges])

    def of_range(number: int) -> NDArray[np.intp]:
        # The first range has the keys below the first edge; the last, those from the last edge on.
        chosen = np.ones(len(keys), np.bool_)
        if number > 0:
            chosen &= keys >= edges[number - 1]
        if number < len(edges):
            chosen &= keys < edges[number]
        places = np.flatnonzero(chosen)
        return places[np.argsort(keys[places], kind="stable")]

    return np.concatenate(each(range(len(edges) + 1), of_range))
