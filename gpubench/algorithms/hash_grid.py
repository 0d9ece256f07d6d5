"""A hash table of cells in an unbounded world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.core.grid import MAX_BUCKETS, UnboundedGrid
from gpubench.primitives.radix_sort import PairRadixSort
from gpubench.problems.cells.contract import CellList, HashedCells
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 256
BLOCKS_PER_UNIT = 8  # per multiprocessor, in the kernel that finds the lowest cell coordinates


class HashGrid(CellList):
    """Hashes each particle's cell to a bucket, sorts by bucket, and records each bucket's bounds.

    Only the cell size of the given grid matters: every finite position has a cell. Workloads use
    integer positions and hash the cells themselves; see gpubench/workloads/cell_workload.py.
    """

    name = "hash-grid"
    family = "hash-grid"
    summary = "hash of the cell of an unbounded world, radix sort, bounds of the buckets"
    source = "silva2012, section 5, Algorithm 1; Teschner et al., VMV 2003"
    forms: ClassVar[Mapping[str, Form]] = {
        "original": Form("cells hashed as they are (Teschner)", reorders=True),
        "world-limits": Form(
            "cells relative to the lowest occupied one, found in each build", reorders=True
        ),
    }
    defaults: ClassVar[Mapping[str, int]] = {"buckets": 0}
    # Table sizes other than powers of two take another branch in common/hash.h.
    variants: ClassVar[Sequence[Mapping[str, int]]] = ({}, {"buckets": 1000003})

    def prepare(self) -> None:
        device, particles = self.device, self.particles
        self.space = UnboundedGrid.of(self.grid)
        self.limits = self.form == "world-limits"
        self.buckets = self._number_of_buckets()
        self.packed_grid = device.upload(self.space.packed(self.buckets).view("uint8"))
        self.workspace_bytes += self.packed_grid.nbytes
        self._corner = self.allocate(3, "int32")
        self.cell_of = self.allocate(particles, "int32")
        self._indices = self.allocate(particles, "int32")
        device.write(self._indices, np.arange(particles, dtype=np.int32))
        self._bounds = self.allocate((self.buckets, 2), "int32")
        self._sorted = self.allocate((particles, 4), "float32")
        self._bits = max(1, (self.buckets - 1).bit_length())
        self._sort = PairRadixSort(device, particles, self._bits)
        self.workspace_bytes += self._sort.workspace_bytes
        self._find_corner, self._hash, self._bound = (
            device.kernel("hash_grid.cu", name, BLOCK=BLOCK, **self.constants)
            for name in ("find_corner", "hash_particles", "bound_buckets")
        )

    def _number_of_buckets(self) -> int:
        given = self.parameters["buckets"]
        if not 0 <= given <= MAX_BUCKETS:
            raise UserError(
                f"buckets must be 1 to {MAX_BUCKETS}, or 0 for the power of two from the number of"
                f" particles on, not {given}"
            )
        return given or min(MAX_BUCKETS, 1 << max(0, self.particles - 1).bit_length())

    @property
    def constants(self) -> dict[str, int]:
        """The compile-time constants of kernels that include common/hash.h."""
        is_power_of_two = self.buckets & (self.buckets - 1) == 0
        return {"BUCKETS": 0 if is_power_of_two else self.buckets}

    def load(self, inputs: ParticleSet) -> None:
        """Upload positions, float32 (particles, 4)."""
        self.positions = self.device.upload(inputs.positions)

    def launch(self) -> None:
        """Build the hash table of the loaded input."""
        self._hash_positions()
        self.build(self.cell_of, self.positions)

    def _hash_positions(self) -> None:
        device, n, positions = self.device, self.particles, self.positions
        blocks = device.blocks(n, BLOCK)
        # The int 0x7F7F7F7F is larger than any cell coordinate.
        device.fill(self._corner, 0x7F if self.limits else 0x00)
        if self.limits:
            few = min(blocks, BLOCKS_PER_UNIT * device.compute_units)
            self._find_corner(few, BLOCK, positions, self.packed_grid, self._corner, n)
        self._hash(blocks, BLOCK, positions, self.packed_grid, self._corner, self.cell_of, n)

    def build(self, cell_of: Any, positions: Any) -> None:
        """Sort particles by bucket, and find the bounds of each bucket.

        cell_of: int32, shape (particles,), the bucket of each particle.
        positions: float32, shape (particles, 4).
        """
        n = self.particles
        self._sort.launch(cell_of, self._indices)
        self.device.fill(self._bounds, 0xFF)
        self._bound(
            self.device.blocks(n, BLOCK), BLOCK, self._sort.keys, self._sort.values, positions,
            self._bounds, self._sorted, n,
        )  # fmt: skip

    @property
    def answer(self) -> HashedCells:
        """The hash table that the last ``build`` made; overwritten by the next."""
        return HashedCells(self._bounds, self._sort.values, self._sorted, self._corner)

    def outcome(self) -> dict[str, int | float | str]:
        """Return statistics of the buckets.

        buckets: the number of buckets. used, empty: those with and without particles. largest: the
        maximum number of particles in a bucket. cells: the number of occupied cells. collisions:
        the number of buckets with particles of several cells. sort: the radix sort that was used.
        """
        download = self.device.download
        bounds, positions = download(self._bounds), download(self._sorted)
        sizes = bounds[:, 1] - bounds[:, 0]
        bucket_of = np.repeat(np.arange(self.buckets, dtype=np.int32), sizes)
        per_bucket = _cells_per_bucket(self.space.coordinates(positions), bucket_of)
        return {
            "buckets": self.buckets,
            "used": len(per_bucket),
            "empty": self.buckets - len(per_bucket),
            "largest": int(sizes.max()),
            "cells": int(per_bucket.sum()),
            "collisions": int(np.count_nonzero(per_bucket > 1)),
            "sort": self._sort.form,
        }

    def traffic_bytes(self) -> int:
        # Read the position (twice with `world-limits`), write the key; one histogram pass; 16 bytes
        # per pair and 8-bit digit; read key, index, position; write the position and the bounds.
        digits = -(-self._bits // 8)
        hashing = 16 * (1 + self.limits) + 4
        return (hashing + 4 + 16 * digits + 40) * self.particles + 8 * self.buckets


def _cells_per_bucket(cells: NDArray[np.int32], bucket_of: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the number of distinct cells in each non-empty bucket.

    cells: int32, shape (particles, 3). bucket_of: int32, shape (particles,).
    """
    by_cell = np.lexsort((*cells.T, bucket_of))
    cells, bucket_of = cells[by_cell], bucket_of[by_cell]
    is_first = np.ones(len(cells), bool)
    is_first[1:] = (cells[1:] != cells[:-1]).any(axis=1) | (bucket_of[1:] != bucket_of[:-1])
    return np.unique(bucket_of[is_first], return_counts=True)[1]
