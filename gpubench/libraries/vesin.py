"""vesin's cell list: on the host, or on an NVIDIA GPU if that is the device."""

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
    """`vesin.NeighborList`: all pairs as int64, in both orders, unsorted.

    Pairs are read from vesin's memory without a copy, and converted to rows only for checks. A call
    on a GPU synchronises, since the host reads the number of pairs. Input positions are float64,
    vesin's internal type. On a GPU, vesin's capacity (default: 128 pairs per particle on average)
    is set to the number of pairs, counted in advance.
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
        """Free all memory that vesin keeps between launches."""
        self._pairs: Any = None
        self._search = self._vesin.NeighborList(cutoff=self.cutoff, full_list=True)

    def load(self, inputs: ParticleSet) -> None:
        """Store the positions, on the GPU if that is the device."""
        super().load(inputs)
        self._room = 0
        if self._on_gpu and self.particles:
            pairs = int(neighbour_counts(self.device, self.grid, inputs).sum(dtype=np.int64))
            # Plus one: vesin may find pairs within rounding of the cutoff that our count omits.
            self._room = -(-pairs // self.particles) + 1
        # vesin works in float64 and requires the same type for points and box; float64 keeps the
        # box's edges unrounded.
        self._points = self._arrays.asarray(self.xyz.astype(np.float64))

    def work(self) -> None:
        if self.particles == 0:  # vesin's GPU code rejects empty input
            self._pairs = self._arrays.empty((0, 2), np.uint64)
            return
        # vesin's box has no origin; none is needed, as images are shifted by whole edges.
        with capacity(self._room):
            (self._pairs,) = self._search.compute(
                self._points, self._box, self._periodic, quantities="P", copy=False
            )

    def neighbours(self) -> Neighbours:
        pairs = self._pairs.get() if self._on_gpu else self._pairs
        return rows_of_pairs(self.particles, *pairs.astype(np.int64).T)

    def poison(self) -> None:
        self._pairs[...] = 0  # in vesin's memory: particle 0 paired with itself

    def peak_bytes(self) -> int | None:
        self._start_afresh()
        if not self._on_gpu:
            return peak_of(self.work)
        # vesin keeps its allocations; memory for the converted input is in CuPy's pool already.
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
    """Set vesin's capacity to `room` pairs per particle; 0 leaves it unchanged.

    vesin reads the environment variable in each call, so searches in one process can differ.
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
