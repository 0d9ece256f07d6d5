"""Cycles of a map from a finite set to itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Cycles:
    """The cycles of a map, and the cycle that each of n elements reaches.

    successor: int64, shape (n,), the image of each element.
    cycle_of: int64, shape (n,), the index of the cycle that each element reaches.
    lengths: int64, shape (cycles,), the length of each cycle.
    """

    successor: NDArray[np.int64]
    cycle_of: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def walk(self, start: int) -> tuple[int, NDArray[np.int64]]:
        """Return the number of steps from an element to its cycle, and the cycle in order."""
        place: dict[int, int] = {}
        while start not in place:
            place[start] = len(place)
            start = int(self.successor[start])
        tail = place[start]
        return tail, np.array(list(place)[tail:])


def cycles(successor: NDArray[np.int64]) -> Cycles:
    """Find the cycles of a map from {0, ..., n - 1} to itself, in O(n log n)."""
    n = len(successor)
    # After n steps every element is on its cycle; repeated squaring applies the map 2^k > n times.
    # A cycle is identified by its smallest element.
    end, least = successor, np.minimum(np.arange(n), successor)
    for _ in range(n.bit_length()):
        least = np.minimum(least, least[end])
        end = end[end]
    name = least[end]
    on_cycle = np.zeros(n, bool)
    on_cycle[end] = True
    names, cycle_of = np.unique(name, return_inverse=True)
    return Cycles(successor, cycle_of, np.bincount(cycle_of[on_cycle], minlength=len(names)))
