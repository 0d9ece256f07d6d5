"""Merge sorted tiles of keys by Batcher's bitonic network."""

from __future__ import annotations

from typing import Any

from gpubench.devices.base import Device

BLOCK = 512
TILE = 2 * BLOCK


class BitonicMerge:
    """The bitonic merge sort (Batcher 1968) of 64-bit keys whose tiles are already sorted.

    The kernel that makes the keys also sorts each tile of TILE keys (see common/bitonic.h). The
    number of keys need not be a power of two: the network of the next power of two is used, and
    elements past the last key are skipped.

    passes: the number of times a launch reads and writes all keys.
    """

    def __init__(self, device: Device, items: int) -> None:
        self._device, self._items = device, items
        self._log2_tile = TILE.bit_length() - 1
        log2_size = (items - 1).bit_length() if items else 0
        self.passes = sum(
            size - self._log2_tile + 1 for size in range(self._log2_tile + 1, log2_size + 1)
        )
        self._mirrored, self._strided, self._tiles = (
            device.kernel("bitonic_merge.cu", name, BLOCK=BLOCK, TILE=TILE)
            for name in ("merge_mirrored", "merge_strided", "merge_tiles")
        )

    def launch(self, keys: Any, items: int | None = None) -> None:
        """Queue the sort of keys, uint64, shape (items,), whose tiles are sorted.

        items: if given, only the first `items` keys are sorted.
        """
        n, blocks = self._items if items is None else items, self._device.blocks
        log2_most = (n - 1).bit_length() if n else 0
        for log2_size in range(self._log2_tile + 1, log2_most + 1):
            # The last merge of each size may be incomplete: it may extend past the last key.
            covering = blocks(-(-n // (1 << log2_size)) << (log2_size - 1), BLOCK)
            self._mirrored(covering, BLOCK, keys, log2_size, n)
            for log2_stride in range(log2_size - 2, self._log2_tile - 1, -1):
                covering = blocks(-(-n // (2 << log2_stride)) << log2_stride, BLOCK)
                self._strided(covering, BLOCK, keys, log2_stride, n)
            self._tiles(blocks(n, TILE), BLOCK, keys, n)
