"""Counting sort of particles by cell in two levels, for more than the cache holds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gpubench.core.errors import NotSupported
from gpubench.core.grid import Grid
from gpubench.devices.base import Device, Kernel
from gpubench.devices.named import parameters_of

FILE = "bucketed_sort.cu"
BLOCKS_PER_UNIT = 2
# By one level at random places, a particle: its position, read and written, and two indices.
BYTES_TOUCHED = 40


class BucketedSort:
    """Particles in the order of their cells, by buckets of cells (kernels/bucketed_sort.cu).

    grid: the cells of the positions.
    block: threads. tile_items, items: particles of a thread when tiles, and buckets, are sorted.
    in_bucket: particles of a bucket, at most, if all have as many; no bucket has more than `width`
        cells, nor are there more than `most_buckets`.
    Raises NotSupported if there would be more.
    start, order, sorted: the answer, as in SortedCells; overwritten by the next launch.
    workspace_bytes: all that is allocated here.
    """

    block: ClassVar[int] = 1024
    tile_items: ClassVar[int] = 12
    items: ClassVar[int] = 9
    in_bucket: ClassVar[int] = 7168
    width: ClassVar[int] = 8192
    most_buckets: ClassVar[int] = 2560

    def __init__(self, device: Device, particles: int, grid: Grid) -> None:
        self._device, self._particles, self._cells = device, particles, grid.count
        self._buckets = self.buckets_of(particles, grid.count)
        if self._buckets > self.most_buckets:
            raise NotSupported(
                f"two levels sort into at most {self.most_buckets:,} buckets, and {particles:,}"
                f" particles in {grid.count:,} cells need {self._buckets:,}"
            )
        self.workspace_bytes = 0
        self.start = self._allocate(grid.count + 1, "int32")
        self.order = self._allocate(particles, "int32")
        self.sorted = self._allocate((particles, 4), "float32")
        rank = self._allocate(particles, "int32")
        # Both are zero between launches: the kernels clear what they have read.
        sizes, counts = (self._zeros(items) for items in (self._buckets, grid.count))
        begin = self._begin = self._allocate(self._buckets + 1, "int32")
        cursor = self._allocate(self._buckets, "int32")
        pieces = self._allocate(self._buckets + 1, "int32")
        scale = np.uint32(min((self._buckets << 32) // grid.count, 2**32 - 1))
        packed = device.upload(grid.packed().view("uint8"))
        partitioned = self._allocate((particles, 4), "float32")
        self._given = {
            "grid": packed, "scale": scale, "sizes": sizes, "particles": particles,
            "buckets": self._buckets, "begin": begin, "cursor": cursor, "pieces": pieces,
            "partitioned": partitioned, "counts": counts, "rank": rank, "start": self.start,
            "order": self.order, "sorted_positions": self.sorted, "cells": grid.count,
        }  # fmt: skip
        some = min(BLOCKS_PER_UNIT * device.compute_units, device.blocks(particles, self.block))
        self._blocks = {
            "count_buckets": some,
            "place_buckets": 1,
            "partition": device.blocks(particles, self.block * self.tile_items),
            "rank_large": some,
            "sort_buckets": self._buckets,
            "scatter_large": some,
        }
        self._kernels = {name: self._kernel(name) for name in self._blocks}

    @classmethod
    def buckets_of(cls, particles: int, cells: int) -> int:
        """Return into how many buckets the cells are divided."""
        wanted = max(-(-cells // (cls.width - 2)), -(-particles // cls.in_bucket))
        return max(1, min(wanted, cells))

    @classmethod
    def pays(cls, device: Device, particles: int, grid: Grid) -> bool:
        """Say whether it beats one level, as far as known: where that misses the cache of a GPU."""
        buckets = cls.buckets_of(particles, grid.count)
        if buckets > cls.most_buckets or particles > buckets * cls.in_bucket:
            return False
        return not device.is_cpu and BYTES_TOUCHED * particles > device.cache_bytes

    def launch(self, positions: Any) -> None:
        """Queue the sort.

        positions: float32, shape (particles, 4), inside the box; the fourth number is ignored, and
        0 in the answer.
        """
        given = {**self._given, "positions": positions}
        for name, blocks in self._blocks.items():
            takes = parameters_of(FILE, name)
            self._kernels[name](blocks, self.block, *[given[each] for each in takes])

    def large_buckets(self) -> int:
        """Return how many buckets of the last launch did not fit into shared memory."""
        sizes = np.diff(self._device.download(self._begin))
        return int((sizes > self.block * self.items).sum())

    def traffic_bytes(self) -> int:
        """Return the bytes of a launch: positions counted, moved to buckets, and put in order."""
        return (16 + 32 + 36) * self._particles + 4 * self._cells

    def _kernel(self, name: str) -> Kernel:
        return self._device.kernel(
            FILE, name,
            BLOCK=self.block, TILE_ITEMS=self.tile_items, ITEMS=self.items, WIDTH=self.width,
            BUCKETS=self.most_buckets,
        )  # fmt: skip

    def _allocate(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        array = self._device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array

    def _zeros(self, items: int) -> Any:
        array = self._allocate(items, "int32")
        self._device.fill(array, 0x00)
        return array
