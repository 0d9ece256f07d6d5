"""vesin's cell list: on the host, or on an NVIDIA GPU where that is the device."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version, need
from gpubench.libraries._matrix import neighbour_counts, rows_of_pairs
from gpubench.problems.neighbours.contract import HostSearch, Neighbours
from gpubench.problems.particles.inputs import ParticleSet

CAPACITY = "VESIN_CUDA_MAX_PAIRS_PER_POINT"


class Vesin(HostSearch):
    """All pairs as int64, from both sides, unsorted; rows are made of them where they are checked.

    On a GPU too the host leads: it reads the number of pairs back before it returns. It is
    given float64 positions, which it works in; the pairs are read where vesin has them, without a
    copy. It is told how many pairs to make room for, counted beforehand: it stops at 128 for each
    particle, on average, otherwise.
    """

    name = "vesin"
    summary = "a cell list for atomistic systems, by vesin; on the host where the device is a CPU"
    source = "Fraux and others, arXiv:2508.15704"
    forms: ClassVar[Mapping[str, Form]] = {
        "list-pairs": Form("build, then list the pairs, from both sides, unsorted", allocates=True)
    }

    def prepare(self) -> None:
        self._vesin = need("vesin", "vesin")
        self.library = name_with_version("vesin")
        self._on_gpu = self.device.backend == "cuda"
        self._arrays: Any = need("cupy", "CuPy", "cuda13") if self._on_gpu else np
        self._box = self._arrays.asarray(np.diag(np.asarray(self.grid.size, np.float64)))
        self._periodic = self._arrays.asarray(np.asarray(self.grid.periodic, np.bool_))
        self._start_afresh()

    def _start_afresh(self) -> None:
        """Let go of the pairs, and of what else vesin keeps from one launch to the next."""
        self._pairs: Any = None
        self._search = self._vesin.NeighborList(cutoff=self.cutoff, full_list=True)

    def load(self, inputs: ParticleSet) -> None:
        """Keep the positions, on the GPU where that is the device."""
        super().load(inputs)
        self._room = 0
        if self._on_gpu and self.particles:
            pairs = int(neighbour_counts(self.device, self.grid, inputs).sum(dtype=np.int64))
            # One more: pairs within rounding of the cutoff may be of its answer and not of ours.
            self._room = -(-pairs // self.particles) + 1
        # vesin converts, or copies what is float64 as it is. The box must have the same type, and
        # its edges are not those of float32.
        self._points = self._arrays.asarray(self.xyz.astype(np.float64))

    def work(self) -> None:
        if self.particles == 0:  # which its GPU path refuses
            self._pairs = self._arrays.empty((0, 2), np.uint64)
            return
        # It repeats the box along whole edges: where the box begins does not matter.
        with capacity(self._room):
            (self._pairs,) = self._search.compute(
                self._points, self._box, self._periodic, quantities="P", copy=False
            )

    def neighbours(self) -> Neighbours:
        pairs = self._pairs.get() if self._on_gpu else self._pairs
        return rows_of_pairs(self.particles, *pairs.astype(np.int64).T)

    def poison(self) -> None:
        self._pairs[...] = 0  # in vesin's memory: pairs of a particle with itself

    def peak_bytes(self) -> int | None:
        self._start_afresh()
        if not self._on_gpu:
            return peak_of(self.work)
        # What vesin allocates it keeps; what it converts is in CuPy's pool by now.
        runtime = self._arrays.cuda.runtime
        before: int = runtime.memGetInfo()[0]
        self.work()
        after: int = runtime.memGetInfo()[0]
        return max(0, before - after)

    def outcome(self) -> dict[str, int | float | str]:
        grows = "none: arrays grow"
        stops = f"stops with an error past {CAPACITY}, on average; counted first, by us"
        return {
            **({"room": self._room} if self._on_gpu else {}),
            "pairs": len(self._pairs),
            "overflow": stops if self._on_gpu else grows,
            "wrapping": "each periodic axis, of positions anywhere",
            "order": "pairs unsorted",
            "self_pairs": "none",
            "ties": "at the cutoff not included"
            + ("; its cells lose pairs at distance 0" if self._on_gpu else ""),
        }


@contextmanager
def capacity(room: int) -> Iterator[None]:
    """Let vesin make room for so many pairs a particle, or for its default where room is 0.

    It reads the environment in each call, so that searches of one process can differ.
    """
    if not room:
        yield
        return
    before = os.environ.get(CAPACITY)
    os.environ[CAPACITY] = str(room)
    try:
        yield
    finally:
        if before is None:
            del os.environ[CAPACITY]
        else:
            os.environ[CAPACITY] = before
