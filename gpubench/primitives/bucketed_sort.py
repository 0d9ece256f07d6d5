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
    tile_block, tile_items: threads, and particles of a thread, when tiles are sorted; block, items:
        when buckets are.
    in_bucket: particles of a bucket, at most, if all have as many; no bucket has more than `width`
        cells, nor are there more than `most_buckets`.
    Raises NotSupported if there would be more.
    start, order, sorted: the answer, as in SortedCells; overwritten by the next launch.
    workspace_bytes: all that is allocated here.
    """

    tile_block: ClassVar[int] = 1024
    tile_items: ClassVar[int] = 12
    tile_blocks: ClassVar[int] = 1
    block: ClassVar[int] = 512
    items: ClassVar[int] = 9
    blocks: ClassVar[int] = 2
    in_bucket: ClassVar[int] = 4096
    width: ClassVar[int] = 4096
    most_buckets: ClassVar[int] = 4352

    def __init__(self, device: Device, particles: int, grid: Grid) -> None:
        self._device, self._particles, self._cells = device, particles, grid.count
        self._buckets = self.buckets_of(particles, grid.count)
        if self._buckets > self.most_buckets:
            raise NotSupported(
                f"two levels sort into at most {self.most_buckets:,} buckets, and {particles:,}"
                f" particles in {grid.count:,} cells need {self._buckets:,}"
            )
        self._tiles = device.blocks(particles, self.tile_block * self.tile_items)
        self.workspace_bytes = 0
        self.start = self._allocate(grid.count + 1, "int32")
        self.order = self._allocate(particles, "int32")
        self.sorted = self._allocate((particles, 4), "float32")
        rank = self._allocate(particles, "int32")
        # Both are zero between launches: the kernels clear what they have read.
        sizes, counts = (self._zeros(items) for items in (self._buckets, grid.count))
        begin = self._begin = self._allocate(self._buckets + 1, "int32")
        scale = np.uint32(min((self._buckets << 32) // grid.count, 2**32 - 1))
        axes = {
            f"{name}_{axis}": numbers.dtype.type(number)
            for name, numbers in self._numbers(grid).items()
            for axis, number in zip("xyz", numbers, strict=True)
        }
        self._given = {
            **axes,
            "grid": device.upload(grid.packed().view("uint8")), "scale": scale, "sizes": sizes,
            "runs": self._allocate(self._tiles * self._buckets, "uint32"), "begin": begin,
            "large": self._allocate(self._buckets + 1, "int32"), "counts": counts, "rank": rank,
            "partitioned": self._allocate((particles, 4), "float32"), "start": self.start,
            "order": self.order, "sorted_positions": self.sorted, "particles": particles,
            "cells": grid.count, "buckets": self._buckets, "tiles": self._tiles,
        }  # fmt: skip
        some = min(BLOCKS_PER_UNIT * device.compute_units, device.blocks(particles, self.block))
        self._launches = {
            "sort_tiles": (self._tiles, self.tile_block),
            "place_buckets": (1, self.block),
            "rank_large": (some, self.block),
            "sort_buckets": (self._buckets, self.block),
            "scatter_large": (some, self.block),
        }
        self._kernels = {name: self._kernel(name) for name in self._launches}

    @staticmethod
    def _numbers(grid: Grid) -> dict[str, Any]:
        packed = grid.packed().reshape(-1)[0]
        return {
            "low": packed["low"], "inverse": packed["inverse_cell"], "cells": packed["cells"],
        }  # fmt: skip

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
        for name, (blocks, threads) in self._launches.items():
            takes = parameters_of(FILE, name)
            self._kernels[name](blocks, threads, *[given[each] for each in takes])

    def large_buckets(self) -> int:
        """Return how many buckets of the last launch did not fit into shared memory."""
        sizes = np.diff(self._device.download(self._begin))
        return int((sizes > self.block * self.items).sum())

    def traffic_bytes(self) -> int:
        """Return the bytes of a launch: positions moved in tiles and put in order, runs, starts."""
        return (32 + 36) * self._particles + 8 * self._tiles * self._buckets + 4 * self._cells

    def _kernel(self, name: str) -> Kernel:
        most, tile = self.block * self.items, self.tile_block * self.tile_items
        shared = 4 * (self.most_buckets + 1) + 2 * tile
        if name in ("sort_buckets", "scatter_large"):
            shared = 16 * most + 4 * (self.width + 32)
        return self._device.kernel(
            FILE, name, SHARED_BYTES=shared,
            TILE_BLOCK=self.tile_block, TILE_ITEMS=self.tile_items, TILE_BLOCKS=self.tile_blocks,
            TOGETHER=4, BLOCK=self.block, ITEMS=self.items, BLOCKS=self.blocks, WIDTH=self.width,
        )  # fmt: skip

    def _allocate(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        array = self._device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array

    def _zeros(self, items: int) -> Any:
        array = self._allocate(items, "int32")
        self._device.fill(array, 0x00)
        return array
