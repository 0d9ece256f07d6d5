"""Adaptive bitonic sort of (key, index) words, by splitting trees or intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpubench.base.errors import UserError
from gpubench.devices.base import Device
from gpubench.primitives.workspace import Workspace

KEYS_PER_THREAD = 8  # held in registers
SEARCHERS = 32  # threads that search for one end of an interval
SPLIT_BLOCK = 256  # threads that split trees
MAX_STAGES = SPLIT_BLOCK.bit_length() - 1  # tree splits per launch
MAX_CHUNK = 4096  # keys that fit in 48 KiB of shared memory
MAX_COUNTED = 1 << 24  # maximum items: the comparisons of more could overflow a 32-bit counter


class AdaptiveMerge(Workspace):
    """Merges bitonic trees, or runs cut by binary search, in O(n log n) comparisons.

    chunk: the size at which a merge stops splitting and Batcher's network sorts each chunk.
    comparisons: the number of comparisons, int32, shape (1,) if they are counted, else (0,).
    """

    def __init__(
        self, device: Device, items: int, *, has_trees: bool, chunk: int, counts: int = 0
    ) -> None:
        if not 2 <= chunk <= MAX_CHUNK or chunk.bit_count() != 1:
            raise UserError(f"chunk must be a power of two from 2 to {MAX_CHUNK}, not {chunk}")
        if counts not in (0, 1):
            raise UserError(f"count_comparisons must be 0 or 1, not {counts}")
        if counts and items > MAX_COUNTED:
            raise UserError(
                f"comparisons are counted for at most {MAX_COUNTED} particles, not {items}"
            )
        super().__init__(device)
        self.particles, self._has_trees = items, has_trees
        self._keys = self._allocate(items, "uint64")
        # Two buffers, input and output, for the nodes (16 bytes each) or keys of a merge, and two
        # for the trees (8 bytes each) of a launch that splits trees.
        self._chunks = device.blocks(items, chunk)
        nodes = items if has_trees else 0
        self._nodes = [self._allocate((nodes, 2), "uint64") for _ in range(2)]
        self._trees = [
            self._allocate((self._chunks if has_trees else 0, 2), "int32") for _ in range(2)
        ]
        self._merged_keys = self._allocate(0 if has_trees else items, "uint64")
        self.comparisons = self._allocate(counts, "int32")
        self._log2_chunk = chunk.bit_length() - 1
        self._log2_size = max(self._log2_chunk, (items - 1).bit_length() if items else 0)
        self._block = max(2 * SEARCHERS, chunk // KEYS_PER_THREAD)
        constants = {
            "CHUNK": chunk, "BLOCK": self._block, "SPLIT_BLOCK": SPLIT_BLOCK,
            "SEARCHERS": SEARCHERS, "COUNT": counts,
        }  # fmt: skip
        self._sort_chunks, self._split, self._merge_chunks, self._merge_intervals = (
            device.kernel("adaptive_bitonic.cu", name, **constants)
            for name in ("sort_chunks", "split_trees", "merge_chunks", "merge_intervals")
        )

    def launch(self, keys: Any) -> Any:
        """Queue the sort of 32-bit keys; return sorted words (key << 32 | index), uint64."""
        self._device.fill(self.comparisons, 0x00)
        return self._sort_by_trees(keys) if self._has_trees else self._sort_by_intervals(keys)

    @property
    def traffic_bytes(self) -> int:
        """Bytes moved: per item, read 4, move a node (16) or word (8) in each merge, write 8."""
        # Splitting trees touches only a few nodes per chunk, which are left out.
        passes = 2 * len(self._merges()) * (16 if self._has_trees else 8)
        return (4 + passes + 8) * self.particles

    def _sort_by_trees(self, cell_of: Any) -> Any:
        n, source, target = self.particles, *self._nodes
        self._sort_chunks(
            self._chunks, self._block, cell_of, source, self._keys, self._log2_chunk,
            int(self._log2_chunk == self._log2_size), n, self.comparisons,
        )  # fmt: skip
        for log2_size in self._merges():
            trees, parts = self._trees
            for log2_tree, stages in self._splits(log2_size):
                threads = self._device.blocks(n, 1 << log2_tree) << stages
                self._split(
                    self._device.blocks(threads, SPLIT_BLOCK), SPLIT_BLOCK, source, trees, parts,
                    log2_size, log2_tree, stages, n, self.comparisons,
                )  # fmt: skip
                trees, parts = parts, trees
            self._merge_chunks(
                self._chunks, self._block, source, trees, target, self._keys, log2_size,
                self._log2_chunk, int(log2_size == self._log2_size), n, self.comparisons,
            )  # fmt: skip
            source, target = target, source
        return self._keys

    def _sort_by_intervals(self, cell_of: Any) -> Any:
        source, target = self._keys, self._merged_keys
        self._sort_chunks(
            self._chunks, self._block, cell_of, self._nodes[0], source, self._log2_chunk, 1,
            self.particles, self.comparisons,
        )  # fmt: skip
        for log2_size in self._merges():
            self._merge_intervals(
                self._chunks, self._block, source, target, log2_size, self._log2_chunk,
                self.particles, self.comparisons,
            )  # fmt: skip
            source, target = target, source
        return source

    def _merges(self) -> range:
        """Return, for each round of merges, log2 of the number of keys in each merged run."""
        return range(self._log2_chunk + 1, self._log2_size + 1)

    def _splits(self, log2_size: int) -> Iterator[tuple[int, int]]:
        """Yield, for each launch, log2 of the size of its trees, and the number of halvings."""
        log2_tree = log2_size
        while log2_tree > self._log2_chunk:
            stages = min(MAX_STAGES, log2_tree - self._log2_chunk)
            yield log2_tree, stages
            log2_tree -= stages
