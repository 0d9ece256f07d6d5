"""Chainable filters of streams whose length is known only on the device.

A filter is made once, for streams of at most `capacity` records. Kernels read the number of records
from device memory and write the number of kept records there. So the traversal of a tree reads
back, compiles and allocates nothing between levels.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gpubench.base.errors import NotSupported
from gpubench.devices.base import Device
from gpubench.primitives import bitonic_merge
from gpubench.primitives.bitonic_merge import BitonicMerge
from gpubench.primitives.workspace import Workspace

BLOCK = 256
MAX_WORDS = 64


class Stream(NamedTuple):
    """Records on the device, and the number of valid records.

    records: 32-bit words, shape (capacity, words). size: int32, shape (1,).
    """

    records: Any
    size: Any


class ChainedFilter(Workspace, ABC):
    """Compact a stream: copy the records that are not null to consecutive places.

    words: the number of words per record, 1 to MAX_WORDS; other numbers raise NotSupported.
    by_predicate: if True, a record is null if `keep` is 0 for it; if False, if its first word is
        +infinity. both: whether null records are written too, to a second stream.
    stable: whether records stay in order. requires: the device features that the filter needs.
    workspace_bytes: device memory in addition to the arguments.
    """

    stable: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        device: Device,
        capacity: int,
        words: int = 1,
        *,
        by_predicate: bool = True,
        both: bool = False,
    ) -> None:
        if not 1 <= words <= MAX_WORDS:
            raise NotSupported(f"records of {words} words: filters move 1 to {MAX_WORDS}")
        super().__init__(device)
        self.capacity, self.words = capacity, words
        self.by_predicate, self.both = by_predicate, both
        self._all = self._allocate(1, "int32")
        device.write(self._all, np.array([capacity], np.int32))
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Allocate all arrays and compile all kernels."""

    def _kernel(self, file: str, name: str, **constants: int) -> Any:
        return self._device.kernel(
            file, name, WORDS=self.words, PREDICATE=int(self.by_predicate), BOTH=int(self.both),
            **{"BLOCK": BLOCK, **constants},
        )  # fmt: skip

    def launch(
        self,
        records: Any,
        keep: Any,
        size: Any | None,
        kept: Stream,
        rest: Stream | None = None,
        most: int | None = None,
    ) -> None:
        """Queue the filter, which leaves its input unchanged.

        records: 32-bit words, shape (capacity, words). keep: int32, shape (capacity,); any array if
            there is no predicate.
        size: int32, shape (1,), the number of records; None for `capacity`. Records beyond
            `capacity` are dropped: the caller must check size[0] if it may exceed `capacity`.
        kept: receives the records that are not null, and their number in `kept.size`. rest: the
            same for the null records; needed if `both`.
        most: an upper bound of size[0], if known, to make launches smaller.
        """
        most = self.capacity if most is None else min(most, self.capacity)
        size = self._all if size is None else size
        # Kernels that drop the null records ignore `rest`, but need some array for it.
        self._launch(records, keep, size, kept, rest or kept, most)

    @abstractmethod
    def _launch(
        self, records: Any, keep: Any, size: Any, kept: Stream, rest: Stream, most: int
    ) -> None:
        """Queue the launches."""

    def passes(self) -> dict[str, int]:
        """Return the number of passes of each kind over the records, at full capacity."""
        return {}


class ScanSearchFilter(ChainedFilter):
    """Scans the null flags, then finds each record to gather by binary search (Horn 2005, 36.1).

    loops: whether the search is one launch (Listing 36-2) or one per step (Listing 36-1).
    """

    loops: ClassVar[bool] = True

    def _prepare(self) -> None:
        # Running counts of the nulls up to each record: input and output of a scan pass.
        self._nulls = [self._allocate(self.capacity, "int32") for _ in range(2)]
        self._guesses = self._allocate(0 if self.loops else self.capacity, "int32")
        names = ["start_scan", "scan_step", "search_step", "gather", "search_loop"]
        (
            self._start_scan, self._scan_step, self._search_step, self._gather, self._search_loop
        ) = (self._kernel("filter_scan_search.cu", name) for name in names)  # fmt: skip
        if self.both:
            self._gather_rest = self._kernel("filter_scan_search.cu", "gather_rest")

    def _launch(
        self, records: Any, keep: Any, size: Any, kept: Stream, rest: Stream, most: int
    ) -> None:
        grid = self._device.blocks(most, BLOCK), BLOCK
        reaches, steps = _scan_and_search_steps(most)
        nulls, after = self._nulls
        self._start_scan(*grid, records, keep, nulls, size, most)
        for reach in reaches:
            self._scan_step(*grid, nulls, after, reach, size, most)
            nulls, after = after, nulls
        if self.loops:
            self._search_loop(*grid, records, keep, nulls, *kept, size, most)
        else:
            for step in steps:
                state = self._guesses, step, int(step == steps[0])
                self._search_step(*grid, records, keep, nulls, *state, size, most)
            self._gather(*grid, records, nulls, self._guesses, *kept, size, most)
        if self.both:
            self._gather_rest(*grid, records, nulls, *rest, size, most)

    def passes(self) -> dict[str, int]:
        reaches, steps = _scan_and_search_steps(self.capacity)
        search = 1 if self.loops else len(steps) + 1
        return {"scan_passes": 1 + len(reaches), "search_passes": search}


class ScanSearchStepsFilter(ScanSearchFilter):
    """ScanSearchFilter with a launch for each step of the search."""

    loops = False


@cache
def _scan_and_search_steps(most: int) -> tuple[list[int], list[int]]:
    """Return the stride of each scan pass after the first, and of each search step."""
    first_guess = 1 << (max(1, most).bit_length() - 1)
    return (
        [1 << bit for bit in range(1, (most - 1).bit_length())],
        [first_guess >> bit for bit in range(1, first_guess.bit_length())],
    )


class BitonicFilter(ChainedFilter):
    """Sorts keys (is null, index) by Batcher's bitonic network, in tiles; records move once."""

    def _prepare(self) -> None:
        self._keys = self._allocate(self.capacity, "uint64")
        self._merge = BitonicMerge(self._device, self.capacity)
        self._block, self._tile = bitonic_merge.BLOCK, bitonic_merge.TILE
        names = ["sort_tiles", "gather", *(["gather_rest"] if self.both else [])]
        self._kernels = {
            name: self._kernel("filter_bitonic.cu", name, BLOCK=self._block, TILE=self._tile)
            for name in names
        }

    def _launch(
        self, records: Any, keep: Any, size: Any, kept: Stream, rest: Stream, most: int
    ) -> None:
        keys = self._keys
        grid = self._device.blocks(most, self._block), self._block
        tiles = self._device.blocks(most, self._tile)
        self._kernels["sort_tiles"](tiles, self._block, records, keep, keys, size, most)
        self._merge.launch(keys, most)
        self._kernels["gather"](*grid, records, keys, *kept, most)
        if self.both:
            self._kernels["gather_rest"](*grid, records, keys, kept.size, *rest, size, most)

    def passes(self) -> dict[str, int]:
        return {"passes": self._merge.passes + 2}


class BitonicStepsFilter(ChainedFilter):
    """The bitonic network as run in 2004: one launch per step, which moves whole records."""

    stable = False

    def _prepare(self) -> None:
        flags = self.capacity if self.by_predicate else 0
        self._between = self._allocate((self.capacity, self.words), "float32")
        self._flags = [self._allocate(flags, "int32") for _ in range(2)]
        names = ["compare_step", "count_records", *(["copy_rest"] if self.both else [])]
        self._kernels = {name: self._kernel("filter_bitonic_steps.cu", name) for name in names}

    def _launch(
        self, records: Any, keep: Any, size: Any, kept: Stream, rest: Stream, most: int
    ) -> None:
        grid = self._device.blocks(most, BLOCK), BLOCK
        masks = _network_masks(most)
        targets = [(self._between, self._flags[0]), (kept.records, self._flags[1])]
        source = records, keep
        # Alternate between the targets so that the last step writes to `kept`.
        for left, mask in zip(reversed(range(len(masks))), masks, strict=True):
            target = targets[left % 2 == 0]
            self._kernels["compare_step"](*grid, *source, *target, mask, size, most)
            source = target
        self._kernels["count_records"](*grid, *source, kept.size, size, most)
        if self.both:
            self._kernels["copy_rest"](*grid, *kept, *rest, size, most)

    def passes(self) -> dict[str, int]:
        return {"passes": len(_network_masks(self.capacity))}


@cache
def _network_masks(most: int) -> list[int]:
    """Return, for each step of the network, the XOR of the two indices in any comparison."""
    return [
        mask
        for stage in range(1, max(1, (most - 1).bit_length()) + 1)
        for mask in ((1 << stage) - 1, *(1 << bit for bit in reversed(range(stage - 1))))
    ]


class AtomicFilter(ChainedFilter):
    """Each block reserves its output range with one atomic addition."""

    stable = False

    def _prepare(self) -> None:
        self._items = {1: 8}.get(self.words, max(1, 16 // self.words))
        self._filter = self._kernel("filter_atomic.cu", "filter_atomic", ITEMS=self._items)

    def _launch(
        self, records: Any, keep: Any, size: Any, kept: Stream, rest: Stream, most: int
    ) -> None:
        for half in {id(half.size): half.size for half in (kept, rest)}.values():
            self._device.fill(half, 0x00)
        blocks = self._device.blocks(most, BLOCK * self._items)
        self._filter(blocks, BLOCK, records, keep, *kept, *rest, size, most)


class LookbackFilter(ChainedFilter):
    """One pass over tiles, each of which looks back at the counts of preceding tiles."""

    requires = frozenset({"cuda"})

    def _prepare(self) -> None:
        # Threads per block, records per load, loads per thread. For records of 1 and 4 words, the
        # fastest on an H200; for others, a tile that fits in shared memory.
        self._block, vector, loads = {1: (384, 4, 5), 4: (BLOCK, 1, 11)}.get(
            self.words, (BLOCK if self.words <= 32 else BLOCK // 2, 1, max(1, 32 // self.words))
        )
        bytes_at_once = 4 * vector * self.words
        align = min(16, bytes_at_once & -bytes_at_once)
        self._tile = self._block * vector * loads
        self._status = self._allocate(1 + self._device.blocks(self.capacity, self._tile), "uint64")
        self._device.fill(self._status, 0x00)
        self._filter = self._kernel(
            "filter_lookback.cu", "filter_lookback", BLOCK=self._block, VECTOR=vector, LOADS=loads,
            ALIGN=align,
        )  # fmt: skip

    def _launch(
        self, records: Any, keep: Any, size: Any, kept: Stream, rest: Stream, most: int
    ) -> None:
        # Launch all tiles, as each must write its status every time.
        blocks = self._device.blocks(self.capacity, self._tile)
        self._filter(blocks, self._block, records, keep, *kept, *rest, self._status, size, most)


class CubFilter(ChainedFilter):
    """cub::DeviceSelect, of the records; or of their indices, followed by a gather.

    Indices are selected if only the device knows the length, if null records are written too, or if
    a record has a number of words other than 1 and 4.
    """

    requires = frozenset({"cuda"})

    def _prepare(self) -> None:
        device: Any = self._device
        self._library = device.library("cub_select.cu")
        self._stream = ctypes.c_void_p(device.stream.handle)
        self._kind = self.words, int(self.by_predicate)
        self._indices = self._allocate(self.capacity, "int32")
        nothing = ctypes.c_void_p()
        needed = []
        for function, arrays in (("select_records", 4), ("select_indices", 6)):
            scratch = ctypes.c_size_t()
            end = (0,) if function == "select_indices" else ()
            self._call(
                function, nothing, ctypes.byref(scratch), *self._kind, *end,
                *(nothing,) * arrays, self.capacity,
            )  # fmt: skip
            needed.append(scratch.value)
        self._scratch = self._allocate(max(1, *needed), "uint8")
        self._scratch_bytes = ctypes.c_size_t(self._scratch.nbytes)

    def _call(self, function: str, *arguments: Any) -> None:
        error = getattr(self._library, function)(*arguments, self._stream)
        if error != 0:
            raise RuntimeError(f"CUB's select failed with CUDA error {error}")

    def _launch(
        self, records: Any, keep: Any, size: Any, kept: Stream, rest: Stream, most: int
    ) -> None:
        def address(array: Any) -> ctypes.c_void_p:
            return ctypes.c_void_p(array.data.ptr)

        start = address(self._scratch), ctypes.byref(self._scratch_bytes), *self._kind
        inputs = address(records), address(keep)
        if size is self._all and self.words in (1, 4) and not self.both:
            self._call("select_records", *start, *inputs, *map(address, kept), most)
            return
        for half, is_rest in ((kept, 0), (rest, 1))[: 1 + self.both]:
            self._call(
                "select_indices", *start, is_rest, *inputs,
                address(size), address(self._indices), *map(address, half), most,
            )  # fmt: skip


FILTERS: dict[str, type[ChainedFilter]] = {
    "scan-search": ScanSearchFilter,
    "bitonic": BitonicFilter,
    "atomic": AtomicFilter,
    "lookback": LookbackFilter,
    "cub": CubFilter,
}
