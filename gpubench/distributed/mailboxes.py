"""Memory of each rank that its neighbours on both sides write, and words that say when they have.

In each turn a rank writes one message of each kind into the boxes of both neighbours, and waits for
theirs. On the NVIDIA GPUs of one host kernels do all that (kernels/common/part.h).
Boxes need no word back: before a rank writes a kind of message again, it has received a later kind
from the neighbour, which sends that only when it has read the earlier one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpubench.devices.base import Device
from gpubench.distributed.ranks import Ranks

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

LOW, HIGH = SIDES = 0, 1
# As in kernels/common/part.h, which numbers kinds of messages.
FLAG_STEP = 32
FLAGS = 3
PATIENCE_NS = 60_000_000_000  # after which a neighbour is taken for dead
ALIGNED = 256  # bytes, as of a device's allocations

Layout = Mapping[str, tuple[tuple[int, ...], str]]  # the arrays of a box: shape and dtype
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Boxes:
    """The boxes of one layout, by side: this rank's, and the neighbours' that it writes.

    Without a neighbour, `theirs` is this rank's own box, which is then not read.
    """

    mine: Mapping[int, Arrays]
    theirs: Mapping[int, Arrays]


class Mailboxes(ABC):
    """The boxes between a rank and those before and after it.

    kinds: the arrays of each kind of message, by their names in a layout. is_ring: whether the
    first and the last rank are neighbours. by_hosts: whether hosts carry messages, between
    launches. sides: for kernels, a bit for each side with a neighbour, and two further on, for each
    where that is beyond the ring's end.
    """

    by_hosts = False

    def __init__(
        self, device: Device, ranks: Ranks, kinds: Mapping[str, tuple[str, ...]], is_ring: bool
    ) -> None:
        self._device, self.kinds = device, kinds
        self._comm: Intracomm = ranks.comm.Dup()
        beside = {LOW: ranks.rank - 1, HIGH: ranks.rank + 1}
        inside = [side for side, peer in beside.items() if 0 <= peer < ranks.size]
        self.neighbours = {
            s: peer % ranks.size for s, peer in beside.items() if is_ring or s in inside
        }
        self.sides = sum((1 if side in inside else 5) << side for side in self.neighbours)

    @abstractmethod
    def boxes(self, layout: Layout) -> Boxes:
        """Return boxes; the same object as before if the layout and their memory are the same.

        Collective, with the same layout in all ranks. Older boxes may become invalid.
        """

    @abstractmethod
    def flags(self, boxes: Boxes) -> list[Any]:
        """Return the arguments by which kernels wait and tell: FLAGS in kernels/common/part.h."""

    def post(self, boxes: Boxes, kind: str) -> None:  # noqa: B027
        """Carry a message to the neighbours' boxes, unless kernels do."""

    def wait(self, boxes: Boxes, kind: str) -> None:  # noqa: B027
        """Wait until the messages of a kind are in this rank's boxes, unless kernels do."""

    def close(self) -> None:  # noqa: B027
        """Free the memory; collective."""


class PeerMailboxes(Mailboxes):
    """One allocation of each rank, opened by its neighbours through CUDA IPC handles."""

    def __init__(
        self, device: Device, ranks: Ranks, kinds: Mapping[str, tuple[str, ...]], is_ring: bool
    ) -> None:
        super().__init__(device, ranks, kinds, is_ring)
        import cupy

        self._cuda = cupy.cuda
        self._runtime = cupy.cuda.runtime
        self._array = cupy.ndarray
        self._base, self._size, self._opened = 0, 0, dict[int, int]()
        self._known: dict[str, Boxes] = {}
        self._latest: Boxes | None = None
        self._turn = device.empty(1, "int32")  # the number of turns that have ended

    def boxes(self, layout: Layout) -> Boxes:
        found = self._known.get(repr(layout)) or self._make(layout)
        if found is not self._latest:  # other boxes are in the same memory: no rank reads it now
            self._device.synchronize()
            self._comm.Barrier()
            self._latest = found
        return found

    def _make(self, layout: Layout) -> Boxes:
        key = repr(layout)
        flags = ((FLAG_STEP * FLAGS,), "uint32")
        layout = {"flags": flags, **layout}  # first, so that all layouts share them
        places, size = {}, 0
        for name, (shape, dtype) in layout.items():
            for side in SIDES:
                places[side, name] = size
                count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
                size += -(-count // ALIGNED) * ALIGNED
        if size > self._size:
            self.close()
            self._open(size)
        self._known[key] = Boxes(
            {side: self._arrays(self._base, side, layout, places) for side in SIDES},
            {
                side: self._arrays(self._opened[self.neighbours[side]], 1 - side, layout, places)
                if side in self.neighbours
                else self._arrays(self._base, side, layout, places)
                for side in SIDES
            },
        )
        return self._known[key]

    def _arrays(
        self, base: int, side: int, layout: Layout, places: Mapping[tuple[int, str], int]
    ) -> Arrays:
        memory = self._cuda.UnownedMemory(base, self._size, self, self._cuda.Device().id)
        return {
            name: self._array(
                shape, dtype, memptr=self._cuda.MemoryPointer(memory, places[side, name])
            )
            for name, (shape, dtype) in layout.items()
        }

    def _open(self, size: int) -> None:
        runtime = self._runtime
        self._base, self._size = runtime.malloc(size), size
        runtime.memset(self._base, 0, size)
        runtime.deviceSynchronize()
        self._device.fill(self._turn, 0x00)
        handles = self._comm.allgather(runtime.ipcGetMemHandle(self._base))
        peers = set(self.neighbours.values())  # one may be on both sides
        self._opened = {peer: runtime.ipcOpenMemHandle(handles[peer]) for peer in peers}

    def close(self) -> None:
        if not self._size:
            return
        self._device.synchronize()
        self._comm.Barrier()  # no rank writes any more
        for address in self._opened.values():
            self._runtime.ipcCloseMemHandle(address)
        self._comm.Barrier()  # no rank has this one's memory mapped
        self._runtime.free(self._base)
        self._size, self._opened, self._known = 0, {}, {}

    def flags(self, boxes: Boxes) -> list[Any]:
        flags = [at[side]["flags"] for at in (boxes.mine, boxes.theirs) for side in SIDES]
        return [self.sides, self._turn, np.int64(PATIENCE_NS), *flags]
