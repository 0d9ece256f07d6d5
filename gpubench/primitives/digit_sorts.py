"""Our least-significant-digit radix sorts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from gpubench.devices.base import Device
from gpubench.primitives.scan import ExclusiveScan
from gpubench.primitives.workspace import Workspace

KINDS = {"u": 0, "i": 1, "f": 2}  # as in common/sort_keys.h
COUNT_BLOCK, COUNT_ITEMS = 256, 8
COUNT_BLOCKS_PER_UNIT = 8  # blocks per multiprocessor of the kernel that counts digits


def key_constants(key_type: str) -> dict[str, int | str]:
    """Return the compile-time constants of common/sort_keys.h for a key type."""
    dtype = np.dtype(key_type)
    return {"KEY_BYTES": dtype.itemsize, "KEY_KIND": KINDS[dtype.kind]}


class DigitSort(Workspace, ABC):
    """Stable sort of keys, alone or with int32 values; float keys are sorted by their bits.

    bits: the number of low bits to sort by; the others must be zero.
    has_values: whether there are values. makes_index: whether the sort makes the values itself: the
        index of each key.
    keys, values: the sorted arrays of the last launch, shape (items,).
    passes: the number of times a launch reads and writes all keys.
    """

    digit_bits: int

    def __init__(
        self,
        device: Device,
        items: int,
        key_type: str = "uint32",
        bits: int | None = None,
        *,
        has_values: bool = True,
        makes_index: bool = False,
    ) -> None:
        dtype = np.dtype(key_type)
        super().__init__(device)
        self._items, self._makes_index = items, makes_index
        self._constants = {**key_constants(key_type), "VALUES": int(has_values)}
        self._key_bytes = dtype.itemsize
        self._set_up()
        self.passes = -(-(bits or 8 * dtype.itemsize) // self.digit_bits)
        buffers = min(2, self.passes)
        self._keys = [self._allocate(items, dtype) for _ in range(buffers)]
        self._values = [self._allocate(items if has_values else 0, "int32") for _ in range(buffers)]
        self.keys, self.values = self._keys[0], self._values[0]
        self._make_kernels()

    def launch(self, keys: Any, values: Any = None) -> None:
        """Queue the sort, which leaves the inputs unchanged."""
        values = self.values if values is None else values
        for number in range(self.passes):
            target = (self.passes - 1 - number) % 2
            index = int(self._makes_index and number == 0)
            self._pass(number, keys, values, self._keys[target], self._values[target], index)
            keys, values = self._keys[target], self._values[target]

    @abstractmethod
    def _set_up(self) -> None:
        """Set the digit width, the launch shape and the number of tiles."""

    @abstractmethod
    def _make_kernels(self) -> None:
        """Compile the kernels, and allocate the workspace of the passes."""

    @abstractmethod
    def _pass(
        self, number: int, keys: Any, values: Any, sorted_keys: Any, sorted_values: Any, index: int
    ) -> None:
        """Queue the sort by one digit."""


class OnesweepSort(DigitSort):
    """One sweep per digit, with decoupled look-back (Adinolfi and Merrill 2022); CUDA only."""

    digit_bits = 8
    # By bytes per key: threads per block, keys per thread, blocks per multiprocessor. A block has
    # at most 48 KiB of shared memory, and half of a multiprocessor's registers.
    shapes: ClassVar[dict[int, tuple[int, int, int]]] = {4: (384, 22, 2), 8: (384, 15, 2)}

    def _set_up(self) -> None:
        self._block, items, blocks = self.shapes[self._key_bytes]
        self._constants |= {
            "DIGIT_BITS": self.digit_bits, "BLOCK": self._block, "ITEMS": items, "BLOCKS": blocks,
            "COUNT_BLOCK": COUNT_BLOCK, "COUNT_ITEMS": COUNT_ITEMS,
        }  # fmt: skip
        self._tiles = self._device.blocks(self._items, self._block * items)

    def _make_kernels(self) -> None:
        radix, device = 1 << self.digit_bits, self._device
        self._bins = self._allocate((self.passes, radix), "uint32", 0x00)
        self._ticket = self._allocate(1, "uint64", 0x00)
        self._chains = self._allocate((self._tiles, radix), "uint32", 0x00)
        most = COUNT_BLOCKS_PER_UNIT * device.compute_units
        self._count_blocks = min(device.blocks(self._items, COUNT_BLOCK * COUNT_ITEMS), most)
        self._count, self._sort = (
            device.kernel("radix_onesweep.cu", name, PASSES=self.passes, **self._constants)
            for name in ("count_digits", "sort_digit")
        )

    def launch(self, keys: Any, values: Any = None) -> None:
        """Queue the sort, which leaves the inputs unchanged."""
        self._count(self._count_blocks, COUNT_BLOCK, keys, self._bins, self._items)
        super().launch(keys, values)

    def _pass(
        self, number: int, keys: Any, values: Any, sorted_keys: Any, sorted_values: Any, index: int
    ) -> None:
        self._sort(
            self._tiles, self._block, keys, values, sorted_keys, sorted_values, self._bins,
            self._ticket, self._chains, number, index, self._items,
        )  # fmt: skip


class ThreeKernelSort(DigitSort):
    """Three kernels per digit (count, scan, scatter), on any device."""

    # Bits per digit, threads per block and keys per thread, on a CPU (True) and on other devices
    # (False). A CPU core runs a block at a time: the counters of few threads stay in its cache.
    shapes: ClassVar[dict[bool, tuple[int, int, int]]] = {True: (8, 4, 4096), False: (4, 256, 16)}

    def _set_up(self) -> None:
        self.digit_bits, self._block, items = self.shapes[self._device.is_cpu]
        self._constants |= {"DIGIT_BITS": self.digit_bits, "BLOCK": self._block, "ITEMS": items}
        self._tiles = self._device.blocks(self._items, self._block * items)

    def _make_kernels(self) -> None:
        device, counts = self._device, self._tiles << self.digit_bits
        self._counts = self._allocate(counts, "int32")
        self._starts = self._allocate(counts + 1, "int32")
        self._scan = ExclusiveScan(device, counts)
        self.workspace_bytes += self._scan.workspace_bytes
        self._count, self._scatter = (
            device.kernel("radix_three_kernels.cu", name, **self._constants)
            for name in ("count_tiles", "scatter_tiles")
        )

    def _pass(
        self, number: int, keys: Any, values: Any, sorted_keys: Any, sorted_values: Any, index: int
    ) -> None:
        grid, shift, n = (self._tiles, self._block), number * self.digit_bits, self._items
        self._count(*grid, keys, self._counts, shift, n)
        self._scan.launch(self._counts, self._starts)
        self._scatter(
            *grid, keys, values, sorted_keys, sorted_values, self._starts, shift, index, n
        )
