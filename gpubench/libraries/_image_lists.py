"""Helpers for libraries that list images: on the host, one system after the other; and rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from gpubench.core.host_work import HostWork
from gpubench.libraries._host_memory import peak_of
from gpubench.problems.images.contract import Images, ImageSearch
from gpubench.problems.images.inputs import SystemSet

NONE = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.int64)


def image_rows(particles: int, i: Any, j: Any, shifts: Any) -> Images:
    """Return pairs, in any order, as rows. i, j: shape (pairs,); shifts: (pairs, 3)."""
    first = np.asarray(i).astype(np.int64)
    counts, order = np.bincount(first, minlength=particles), np.argsort(first, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(counts)))
    neighbours, images = np.asarray(j)[order], np.asarray(shifts)[order]
    return Images(offsets, neighbours.astype(np.int32), images.astype(np.int32))


class HostImageSearch(HostWork, ImageSearch):
    """A library without batches, on the host: `search` is called for each system in turn.

    Positions are float64, in which these libraries work.
    """

    def load(self, inputs: SystemSet) -> None:
        """Store the positions of each system."""
        self._inputs, self._found = inputs, list[tuple[Any, Any, Any]]()
        self._points = np.split(inputs.positions.astype(np.float64), inputs.offsets[1:-1])

    def launch(self) -> None:
        """Wait until the device is idle, then search all systems."""
        self.device.synchronize()
        self._found = []  # frees the last answer
        for system, points in enumerate(self._points):
            vectors = self._inputs.vectors[system]
            self._found.append(self.search(system, points, vectors) if len(points) else NONE)

    @abstractmethod
    def search(self, system: int, points: Any, vectors: Any) -> tuple[Any, Any, Any]:
        """Return the pairs of one system: i and j, shape (pairs,); shifts, shape (pairs, 3)."""

    @property
    def answer(self) -> Images:
        starts = self._inputs.offsets
        parts = [
            (i.astype(np.int64) + start, j.astype(np.int64) + start, shifts)
            for (i, j, shifts), start in zip(self._found, starts, strict=False)
        ]
        return image_rows(self.particles, *map(np.concatenate, zip(NONE, *parts, strict=True)))

    def poison(self) -> None:
        """Forget the answer, whose arrays may belong to the library."""
        self._found = [(i[:0], j[:0], shifts[:0]) for i, j, shifts in self._found]

    def peak_bytes(self) -> int | None:
        self._found = []
        return peak_of(self.launch)
