"""Adaptive bitonic sort, then a binary search for each cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from gpubench.core.answers import SortedCells
from gpubench.core.contracts import CellList, Form
from gpubench.core.errors import UserError
from gpubench.primitives.sorted_keys import CellsOfSortedKeys

KEYS_PER_THREAD = 8  # that the threads of a chunk hold in registers
SEARCHERS = 32  # threads that search one end of an interval
SPLIT_BLOCK = 256  # threads that split trees
MAX_STAGES = SPLIT_BLOCK.bit_length() - 1  # how often a tree is split in one launch
MAX_CHUNK = 4096  # keys that the 48 KiB of shared memory of a block hold
MAX_COUNTED = 1 << 24  # particles whose comparisons 32 bits can count


class AdaptiveBitonic(CellList):
    """Bitonic trees, merged in O(n log n) comparisons: the sort that rozen2008 still owed.

    A merge splits its tree down to chunks, which the fixed network sorts in shared memory.
    `chunk` = 2 is the adaptive merge alone; GPU-ABiSort took 16.
    """

    name = "adaptive-bitonic"
    summary = "adaptive bitonic sort of (cell, particle), then a binary search for each cell"
    source = "Bilardi and Nicolau 1989; Greß and Zachmann 2006 (GPU-ABiSort)"
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form("bitonic trees; indices only"),
        "reorder": Form("bitonic trees; positions gathered when the pairs are unpacked",
                        reorders=True),
        "intervals": Form("runs cut by binary search in place of trees; indices only"),
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, int]] = {"chunk": 2048, "count_comparisons": 0}

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        self._chunk, counts = self.parameters["chunk"], self.parameters["count_comparisons"]
        if not 2 <= self._chunk <= MAX_CHUNK or self._chunk.bit_count() != 1:
            raise UserError(
                f"chunk must be a power of two from 2 to {MAX_CHUNK}, not {self._chunk}"
            )
        if counts not in (0, 1):
            raise UserError(f"count_comparisons must be 0 or 1, not {counts}")
        if counts and particles > MAX_COUNTED:
            raise UserError(
                f"comparisons are counted for at most {MAX_COUNTED} particles, not {particles}"
            )
        self._has_trees, self._reorders = form != "intervals", self.forms[form].reorders
        self._start = self.allocate(grid.count + 1, "int32")
        self._order = self.allocate(particles, "int32")
        self._sorted = self.allocate((particles if self._reorders else 0, 4), "float32")
        self._keys = self.allocate(particles, "uint64")
        # What a merge reads, and what it writes: nodes of 16 bytes, or keys. With them the
        # trees, 8 bytes each, before and after a launch that splits them.
        self._chunks = device.blocks(particles, self._chunk)
        nodes = particles if self._has_trees else 0
        self._nodes = [self.allocate((nodes, 2), "uint64") for _ in range(2)]
        self._trees = [
            self.allocate((self._chunks if self._has_trees else 0, 2), "int32") for _ in range(2)
        ]
        self._merged_keys = self.allocate(0 if self._has_trees else particles, "uint64")
        self._comparisons = self.allocate(counts, "int32")
        self._log2_chunk = self._chunk.bit_length() - 1
        self._log2_size = max(self._log2_chunk, (particles - 1).bit_length() if particles else 0)
        self._block = max(2 * SEARCHERS, self._chunk // KEYS_PER_THREAD)
        constants = {
            "CHUNK": self._chunk, "BLOCK": self._block, "SPLIT_BLOCK": SPLIT_BLOCK,
            "SEARCHERS": SEARCHERS, "COUNT": counts,
        }  # fmt: skip
        self._sort_chunks, self._split, self._merge_chunks, self._merge_intervals = (
            device.kernel("adaptive_bitonic.cu", name, **constants)
            for name in ("sort_chunks", "split_trees", "merge_chunks", "merge_intervals")
        )
        self._cells = CellsOfSortedKeys(device, particles, grid.count, reorder=self._reorders)

    def build(self, cell_of: Any, positions: Any) -> None:
        self.device.fill(self._comparisons, 0x00)
        sort = self._sort_by_trees if self._has_trees else self._sort_by_intervals
        keys = sort(cell_of)
        self._cells.launch(keys, self._start, self._order, positions, self._sorted)

    def _sort_by_trees(self, cell_of: Any) -> Any:
        n, source, target = self.particles, *self._nodes
        self._sort_chunks(
            self._chunks, self._block, cell_of, source, self._keys, self._log2_chunk,
            int(self._log2_chunk == self._log2_size), n, self._comparisons,
        )  # fmt: skip
        for log2_size in self._merges():
            trees, parts = self._trees
            for log2_tree, stages in self._splits(log2_size):
                threads = self.device.blocks(n, 1 << log2_tree) << stages
                self._split(
                    self.device.blocks(threads, SPLIT_BLOCK), SPLIT_BLOCK, source, trees, parts,
                    log2_size, log2_tree, stages, n, self._comparisons,
                )  # fmt: skip
                trees, parts = parts, trees
            self._merge_chunks(
                self._chunks, self._block, source, trees, target, self._keys, log2_size,
                self._log2_chunk, int(log2_size == self._log2_size), n, self._comparisons,
            )  # fmt: skip
            source, target = target, source
        return self._keys

    def _sort_by_intervals(self, cell_of: Any) -> Any:
        source, target = self._keys, self._merged_keys
        self._sort_chunks(
            self._chunks, self._block, cell_of, self._nodes[0], source, self._log2_chunk, 1,
            self.particles, self._comparisons,
        )  # fmt: skip
        for log2_size in self._merges():
            self._merge_intervals(
                self._chunks, self._block, source, target, log2_size, self._log2_chunk,
                self.particles, self._comparisons,
            )  # fmt: skip
            source, target = target, source
        return source

    def _merges(self) -> range:
        """Return the binary logarithms of the sizes of all merges."""
        return range(self._log2_chunk + 1, self._log2_size + 1)

    def _splits(self, log2_size: int) -> Iterator[tuple[int, int]]:
        """Yield the size of the trees that a launch splits, as its logarithm, and how often."""
        log2_tree = log2_size
        while log2_tree > self._log2_chunk:
            stages = min(MAX_STAGES, log2_tree - self._log2_chunk)
            yield log2_tree, stages
            log2_tree -= stages

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self._start, self._order, self._sorted if self._reorders else None)

    def outcome(self) -> dict[str, int | float | str]:
        if not self.parameters["count_comparisons"]:
            return {}
        return {"comparisons": int(self.device.download(self._comparisons)[0])}

    def traffic_bytes(self) -> int:
        # Cells read; each pass over the nodes (16 bytes) or keys (8) writes and reads them; keys
        # written at last; then keys, order, starts, positions. Not the nodes that splits touch:
        # a few in each chunk.
        passes = 2 * len(self._merges()) * (16 if self._has_trees else 8)
        gather = 20 + 32 * self._reorders
        return (4 + passes + gather) * self.particles + 4 * self.grid.count
