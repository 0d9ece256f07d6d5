"""Stand-ins for what only NVIDIA GPUs have: memory that another rank writes, and graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpubench.devices.base import Device, Graph
from gpubench.devices.opencl import OpenCLDevice
from gpubench.distributed.mailboxes import SIDES, Boxes, Layout, Mailboxes
from gpubench.distributed.ranks import Ranks
from gpubench.distributed.transport import MPITransport


class Recorded(Graph):
    """Launches that are queued again."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def launch(self) -> None:
        self._work()


class HostMailboxes(Mailboxes):
    """What is written for a neighbour travels by MPI when it is posted, so hosts take part."""

    by_hosts = True

    def __init__(
        self, device: Device, ranks: Ranks, kinds: Mapping[str, tuple[str, ...]], is_ring: bool
    ) -> None:
        super().__init__(device, ranks, kinds, is_ring)
        self._known: dict[str, Boxes] = {}
        self._flags = [device.upload(np.zeros(1, kind)) for kind in ("int32", *4 * ["uint32"])]

    def flags(self, boxes: Boxes) -> list[Any]:
        turn, *flags = self._flags
        return [self.sides, turn, np.int64(0), *flags]

    def boxes(self, layout: Layout) -> Boxes:
        if (key := repr(layout)) not in self._known:
            for old in self._known.values():  # as if larger memory had taken their place
                for boxes in (*old.mine.values(), *old.theirs.values()):
                    boxes.clear()
            self._known.clear()
            mine, theirs = (
                {
                    side: {name: self._device.empty(*array) for name, array in layout.items()}
                    for side in SIDES
                }
                for _ in range(2)
            )
            self._known[key] = Boxes(mine, theirs)
        return self._known[key]

    def post(self, boxes: Boxes, kind: str) -> None:
        self._sent = [
            self._comm.Isend(self._device.download(boxes.theirs[side][name]), peer, 1 - side)
            for side, peer in self.neighbours.items()
            for name in self.kinds[kind]
        ]

    def wait(self, boxes: Boxes, kind: str) -> None:
        for side, peer in self.neighbours.items():
            for name in self.kinds[kind]:
                array = boxes.mine[side][name]
                rows = np.empty(array.shape, array.dtype)
                self._sleep_until_done(self._comm.Irecv(rows, peer, side))
                self._device.write(array, rows)
        for request in self._sent:
            self._sleep_until_done(request)

    @staticmethod
    def _sleep_until_done(request: Any) -> None:
        """Leave the core to the others: there are more ranks than cores, and MPI waits busily."""
        while not request.Test():
            time.sleep(1e-4)


def stand_in() -> None:
    """Let MPI's ranks on OpenCL do steps as those on GPUs of one host do."""
    MPITransport.mailbox_kind = HostMailboxes
    OpenCLDevice.features |= {"graphs"}
    OpenCLDevice.capture = lambda _, work: Recorded(work)  # type: ignore[method-assign]
