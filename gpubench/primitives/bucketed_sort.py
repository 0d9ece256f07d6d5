"""Two-level counting sort of particles by cell, for inputs larger than the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gpubench.base.errors import NotSupported
from gpubench.core.grid import Grid
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.primitives.workspace import Workspace

FILE = "bucketed_sort.cu"
BLOCKS_PER_UNIT = 2
GROUP = 15  # buckets per 32-byte sector of run starts, which also holds the end of the last run
# Bytes per particle that a single level accesses at random: two positions and two indices.
BYTES_TOUCHED = 40
MOST_CELLS_EACH = 8  # maximum cells per particle for which two levels were measured


class Tile(NamedTuple):
    """Launch shape for sorting tiles: blocks of `block` threads, each with `items` particles.

    blocks: resident blocks per multiprocessor.
    """

    block: int
    items: int
    blocks: int

    @property
    def size(self) -> int:
        """Particles per tile."""
        return self.block * self.items


class Shape(NamedTuple):
    """Launch shape for sorting buckets: blocks of `block` threads, each with `items` particles.

    tile: the shape for tiles. blocks: resident blocks per multiprocessor. in_bucket: maximum mean
    number of particles per bucket. width: maximum number of cells per bucket. most_buckets: maximum
    number of buckets.
    """

    tile: Tile
    block: int
    items: int
    blocks: int
    in_bucket: int
    width: int
    most_buckets: int

    @property
    def most(self) -> int:
        """Maximum number of particles per bucket that a block can sort in shared memory."""
        return self.block * self.items

    @property
    def shared_bytes(self) -> int:
        """Shared memory to sort a bucket: positions, a count per cell, and 32 unused counts."""
        return 16 * self.most + 4 * (self.width + 32)

    @property
    def shared_bytes_of_tile(self) -> int:
        """Shared memory to sort a tile: positions, a count per bucket, and one more count."""
        return 16 * self.tile.size + 4 * (self.most_buckets + 1)

    @property
    def needed_bytes(self) -> int:
        """Largest shared memory of a block, for a tile or a bucket, with its sums and flag."""
        of_tile = self.shared_bytes_of_tile + 4 * self.tile.block + 4
        return max(self.shared_bytes + 4 * self.block, of_tile)

    def buckets_of(self, particles: int, cells: int) -> int:
        """Return the number of buckets for these numbers of particles and cells."""
        wanted = max(-(-cells // (self.width - 2)), -(-particles // self.in_bucket))
        return max(1, min(wanted, cells))


class BucketedSort(Workspace):
    """Sort particles by cell: first into buckets of cells, then within each bucket.

    grid: the cells to sort by. shapes: candidate launch shapes; the constructor takes the first
    that allows enough buckets and fits the device, and raises NotSupported if there is none.
    start, order, sorted: the answer, as in SortedCells; overwritten by the next launch.
    workspace_bytes: all memory allocated here.
    """

    # Up to 1.57 million particles, buckets have room for three times the mean. On an H200, 2^20
    # particles then take 0.044 ms whether they fill the box or 40 % of it. With buckets that the
    # mean nearly fills, they take 0.033 ms if they fill the box, but 0.13 ms if they fill 40 % of
    # it. With more particles, runs become so short that nearly full buckets are best. The last two
    # shapes, for GPUs with less shared memory per block, were not measured.
    shapes: ClassVar[Sequence[Shape]] = (
        Shape(Tile(512, 8, 2), 512, 9, 2, 1500, 4096, 1049),
        Shape(Tile(512, 8, 2), 512, 9, 2, 4096, 4096, 544),
        Shape(Tile(1024, 11, 1), 512, 9, 2, 4096, 4096, 4352),
        Shape(Tile(1024, 11, 1), 1024, 9, 1, 8192, 8192, 8448),
        Shape(Tile(1024, 8, 1), 512, 9, 2, 4096, 4096, 4352),
        Shape(Tile(512, 8, 2), 512, 9, 2, 4096, 4096, 4352),
    )

    def __init__(self, device: Device, particles: int, grid: Grid) -> None:
        super().__init__(device)
        self._particles, self._cells = particles, grid.count
        shape = self.shape_of(device, particles, grid)
        if shape is None:
            most = max(shape.most_buckets * shape.in_bucket for shape in self.shapes)
            raise NotSupported(
                f"two levels sort at most {most:,} particles in about as many cells, on devices"
                f" whose blocks share enough memory, not {particles:,} in {grid.count:,} cells"
            )
        self._shape, self._buckets = shape, shape.buckets_of(particles, grid.count)
        self._tiles = device.blocks(particles, shape.tile.size)
        self.start = self._allocate(grid.count + 1, "int32")
        self.order = self._allocate(particles, "int32")
        self.sorted = self._allocate((particles, 4), "float32")
        rank = self._allocate(particles, "int32")
        # Zero between launches: the kernels clear both arrays after reading.
        sizes, counts = (
            self._allocate(items, "int32", 0x00) for items in (self._buckets + 1, grid.count)
        )
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
            "runs": self._allocate(self._tiles * self._entries(), "uint16"), "begin": begin,
            "pieces": self._allocate(self._buckets + 1, "int32"), "counts": counts, "rank": rank,
            "partitioned": self._allocate((particles, 4), "float32"), "start": self.start,
            "order": self.order, "sorted_positions": self.sorted, "particles": particles,
            "cells": grid.count, "buckets": self._buckets, "tiles": self._tiles,
        }  # fmt: skip
        some = min(BLOCKS_PER_UNIT * device.compute_units, device.blocks(particles, shape.block))
        self._launches = {
            "sort_tiles": (self._tiles, shape.tile.block),
            **({} if "cuda" in device.features else {"place_buckets": (1, shape.block)}),
            "rank_large": (some, shape.block),
            "sort_buckets": (self._buckets, shape.block),
            "scatter_large": (some, shape.block),
        }
        self._kernels = {name: self._kernel(name) for name in self._launches}

    def _entries(self) -> int:
        """Return the number of run starts stored per tile."""
        return -(-self._buckets // GROUP) * (GROUP + 1)

    @staticmethod
    def _numbers(grid: Grid) -> dict[str, Any]:
        packed = grid.packed().reshape(-1)[0]
        return {
            "low": packed["low"], "inverse": packed["inverse_cell"], "cells": packed["cells"],
        }  # fmt: skip

    @classmethod
    def shape_of(cls, device: Device, particles: int, grid: Grid) -> Shape | None:
        """Return the launch shape for these sizes, or None if none fits."""
        for shape in cls.shapes:
            suffices = shape.buckets_of(particles, grid.count) <= shape.most_buckets
            if suffices and shape.needed_bytes <= device.shared_bytes:
                return shape
        return None

    @classmethod
    def pays(cls, device: Device, particles: int, grid: Grid) -> bool:
        """Whether two levels are faster: as measured, if the data exceeds half a GPU's cache."""
        shape = cls.shape_of(device, particles, grid)
        if shape is None or grid.count > MOST_CELLS_EACH * particles:
            return False
        if particles > shape.buckets_of(particles, grid.count) * shape.in_bucket:
            return False
        return not device.is_cpu and 2 * BYTES_TOUCHED * particles > device.cache_bytes

    def launch(self, positions: Any) -> None:
        """Queue the sort.

        positions: float32, shape (particles, 4), inside the box; the fourth number is ignored, and
        0 in the answer.
        """
        given = {**self._given, "positions": positions}
        for name, (blocks, threads) in self._launches.items():
            self._kernels[name].launch_from(blocks, threads, given)

    def large_buckets(self) -> int:
        """Return the number of buckets of the last launch that did not fit in shared memory."""
        sizes = np.diff(self._device.download(self._begin))
        return int((sizes > self._shape.most).sum())

    def traffic_bytes(self) -> int:
        """Return the bytes of a launch: positions moved twice, order, run starts, cell starts."""
        return (32 + 36) * self._particles + 4 * self._tiles * self._entries() + 4 * self._cells

    def _kernel(self, name: str) -> NamedKernel:
        shape, tile = self._shape, self._shape.tile
        shared = {"sort_tiles": shape.shared_bytes_of_tile, "sort_buckets": shape.shared_bytes}
        return NamedKernel(
            self._device, FILE, name,
            SHARED_BYTES=shared.get(name, 4 * shape.most), GROUP=GROUP,
            TILE_BLOCK=tile.block, TILE_ITEMS=tile.items, TILE_BLOCKS=tile.blocks,
            BLOCK=shape.block, ITEMS=shape.items, BLOCKS=shape.blocks, WIDTH=shape.width,
        )  # fmt: skip
