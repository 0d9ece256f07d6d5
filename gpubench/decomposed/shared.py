"""A workload that the ranks of a team do together: what all ways to divide it have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.devices.base import Device
from gpubench.distributed.team import Team, together
from gpubench.distributed.transport import Parcel
from gpubench.problems.cells.contract import CellList
from gpubench.workloads.cell_workload import InCells
from gpubench.workloads.workload import Value

Phase = tuple[str, Callable[[], None]]


class Shared(InCells):
    """Base of workloads that ranks share; in a workload's bases it precedes the workload.

    Rank 0 makes the simulation and calls its methods; the other ranks do their parts.
    """

    team: ClassVar[Team]
    decomposition: ClassVar[str]
    host_part = "the host reads back how many particles travel, which no CUDA graph can hold"

    def __init__(
        self,
        device: Device,
        particles: int,
        algorithm: type[CellList],
        form: str,
        parameters: Mapping[str, Value],
        seed: int,
        skin: float = 0.0,
    ) -> None:
        if device is not self.team.device:
            raise ValueError("a shared simulation runs on the device that its team has")
        self.team.announce(
            self, self.name, self.decomposition, particles, algorithm.name, form,
            dict(parameters), seed, skin,
        )  # fmt: skip
        self._is_made = False

        def make() -> None:
            self._require_shareable(algorithm, skin)
            super(Shared, self).__init__(device, particles, algorithm, form, parameters, seed, skin)

        self.team.agree(make)
        self._is_made = True

    @abstractmethod
    def _require_shareable(self, algorithm: type[CellList], skin: float) -> None:
        """Raise NotSupported for cells that ranks cannot share in this way."""

    @abstractmethod
    def _own_phases(self) -> list[Phase]:
        """Return the phases of this rank's part of a step."""

    def _phases_with_hosts(self) -> list[Phase]:
        """Return the same in which hosts take part, where a step can do without."""
        return self._own_phases()

    @abstractmethod
    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take this rank's part of a state that all ranks have."""

    @property
    def moves_find_cells(self) -> bool:
        return False  # a rank numbers the cells of its own planes

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self.team.ranks.rank

    @together
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self._own_phases():
                launch()

    def plain_steps(self, steps: int) -> None:
        self.advance(steps)

    def phases(self) -> list[Phase]:
        def launch(index: int) -> Callable[[], None]:
            return lambda: self.do_phase(index)

        return [(name, launch(i)) for i, (name, _) in enumerate(self._own_phases())]

    @together
    def do_phase(self, index: int) -> None:
        """Do one phase of a step; rank 0 calls this for all phases in order."""
        self._own_phases()[index][1]()

    def require_sound(self) -> None:
        self.device.write(self.fault, np.array(self.faults(), np.int32))
        super().require_sound()

    @together
    def faults(self) -> list[int]:
        """Return the earliest fault record of any rank, else zeros."""
        found = self.team.comm.allgather(self.device.download(self.fault).tolist())
        return min(
            (fault for fault in found if fault[0]),
            key=lambda fault: (fault[2], fault[1] % 2**32),
            default=found[0],
        )

    def outcome(self) -> dict[str, int | float | str]:
        """Return the name of the transport between ranks."""
        return {"transport": self.team.transport.name, **super().outcome()}

    @together
    def count_steps(self) -> None:
        InCells.count_steps(self)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if not self._is_made:
            self._take(state)  # every rank has drawn it
            return
        self.require_fitting(state)
        self.take(dict(state))

    @together
    def take(self, state: dict[str, NDArray[Any]]) -> None:
        """Take this rank's part of a state given by rank 0."""
        self._take(state)

    # Rows, between ranks and to and from the host.

    def _exchange(self, sends: Sequence[Parcel], receives: Sequence[Parcel]) -> None:
        """Exchange rows, and make all work queued from now on wait for them."""
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()

    def _read_rows(self, array: Any, first: int, rows: int) -> NDArray[Any]:
        host = np.empty((rows, *array.shape[1:]), array.dtype)
        if rows:
            self.device.read_rows(array, first, host.view(np.uint8).reshape(-1))()
        return host

    def _write_rows(self, array: Any, first: int, rows: NDArray[Any]) -> None:
        if len(rows):
            host = np.ascontiguousarray(rows).view(np.uint8).reshape(-1)
            self.device.write_rows(array, first, host)()

    def _collect(self, mine: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of all ranks on rank 0, in order of ranks; none elsewhere."""
        comm = self.team.comm
        counts = comm.gather(len(mine))
        if self.rank != 0:
            comm.Send(np.ascontiguousarray(mine), 0)
            return mine[:0]
        assert counts is not None
        parts = [mine]
        for rank, count in enumerate(counts[1:], 1):
            part = np.empty((count, *mine.shape[1:]), mine.dtype)
            comm.Recv(part, rank)
            parts.append(part)
        return np.concatenate(parts)
