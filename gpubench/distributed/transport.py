"""Transports of device array rows between ranks: MPI or NCCL, and memory that neighbours write.

Every transport builds on an existing engine: mpi4py, or NCCL through CuPy. One exchange is `begin`,
then independent work, then `finish`. Where the GPUs of one host reach each other's memory, steps
can use that instead (mailboxes.py).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpubench.base import install
from gpubench.base.errors import UserError
from gpubench.devices import Device
from gpubench.devices.streams import FIRST_OF_ALL
from gpubench.distributed.mailboxes import Mailboxes, PeerMailboxes
from gpubench.distributed.ranks import Ranks

if TYPE_CHECKING:
    from mpi4py.MPI import Request

NAMES = ("mpi", "nccl")
INSTALL_NCCL = f"{install.hint('nccl13')} (or [nccl12], to match CuPy)"


@dataclass(frozen=True)
class Parcel:
    """Rows `first` to `first + rows` of a contiguous device array, to or from another rank."""

    peer: int
    array: Any
    first: int
    rows: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.first + self.rows <= len(self.array):
            raise ValueError(
                f"rows {self.first} to {self.first + self.rows} of an array of {len(self.array)}"
            )

    @property
    def bytes(self) -> int:
        """Return the size of the rows."""
        return self.rows * Device.row_bytes(self.array)

    @property
    def address(self) -> int:
        """Return the address of the first row in CUDA device memory."""
        return int(self.array.data.ptr) + self.first * Device.row_bytes(self.array)


class Transport(ABC):
    """Transfers rows between ranks, in the order of the device's queue.

    Each exchange is one `begin` and one `finish`. The peer must receive every parcel sent, with the
    same number of bytes; several parcels between the same ranks match in list order. Ranks that
    exchange nothing need not take part, but all take part in exchanges in the same order.
    """

    name: str
    # The boxes through which steps go without a host; None if steps need their hosts.
    mailbox_kind: type[Mailboxes] | None = None

    def __init__(self, device: Device, ranks: Ranks) -> None:
        self._device, self._ranks = device, ranks
        self._mailboxes: dict[tuple[str, bool], Mailboxes] = {}
        self._comm = ranks.comm.Dup()  # keeps messages apart from others
        self._begun = False

    def mark(self) -> None:  # noqa: B027
        """Mark the queue: the next exchange need not wait for work queued after this.

        Work queued between here and `begin` must neither write rows to send nor touch rows to
        receive. Engines that cannot use the mark wait for that work too.
        """

    def begin(self, sends: Sequence[Parcel], receives: Sequence[Parcel]) -> None:
        """Start an exchange that follows all work queued so far; return without waiting for it.

        After a call of `mark`, the exchange follows only the work queued before that.

        Until `finish`, rows to send may be read, and rows to receive neither read nor written.
        Parcels without rows cost nothing.
        """
        if self._begun:
            raise RuntimeError("an exchange was begun before the last one was finished")
        for parcel in (*sends, *receives):
            if parcel.peer == self._ranks.rank or not 0 <= parcel.peer < self._ranks.size:
                raise ValueError(f"{self._ranks} cannot exchange rows with rank {parcel.peer}")
        self._begun = True
        self._begin([p for p in sends if p.bytes], [p for p in receives if p.bytes])

    def finish(self) -> None:
        """Finish the exchange: work queued from now on sees the data, and may overwrite rows."""
        if not self._begun:
            raise RuntimeError("there is no exchange to finish")
        self._begun = False
        self._finish()

    def add_up(self, array: Any) -> None:
        """Sum a float32 array over all ranks, in place. Collective.

        Runs after all work queued before, and before all queued later. The engine chooses the order
        of summation, so only exact sums are independent of the number of ranks.
        """
        if array.size:
            total = self._device.download(array)
            self._comm.Allreduce(_mpi().IN_PLACE, total)
            self._device.write(array, total)

    def mailboxes(self, kinds: Mapping[str, tuple[str, ...]], is_ring: bool = False) -> Mailboxes:
        """Return the boxes between neighbours, which exist once. Collective; see `Mailboxes`."""
        key = repr(kinds), is_ring
        if key not in self._mailboxes:
            assert self.mailbox_kind is not None
            self._mailboxes[key] = self.mailbox_kind(self._device, self._ranks, kinds, is_ring)
        return self._mailboxes[key]

    def close(self) -> None:
        """Free the transport's resources after all exchanges; it is not used again.

        May wait for the other ranks, so not after an error: `ends_all` ends the run instead.
        """
        for boxes in self._mailboxes.values():
            boxes.close()

    @abstractmethod
    def _begin(self, sends: list[Parcel], receives: list[Parcel]) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...


def open_transport(name: str, device: Device, ranks: Ranks) -> Transport:
    """Open a transport by name: `mpi`, `nccl`, or `auto`. Collective.

    It has mailboxes if all ranks reach the memory of each other's GPUs. `auto` selects NCCL where
    every rank has its own NVIDIA GPU and CuPy has NCCL, else MPI.
    Raises UserError, in every rank, for an unknown name and for an engine these ranks cannot use.
    """
    if name not in ("auto", *NAMES):
        raise UserError(f"no transport {name!r}: auto, {', '.join(NAMES)}")
    places = ranks.comm.allgather(_place(device))
    if name == "auto":
        name = "mpi" if ranks.size == 1 or _lacks_nccl(places) else "nccl"
    if name == "nccl" and (lacks := _lacks_nccl(places)):
        raise UserError(f"--transport {name}: {lacks}")
    transport = (NCCLTransport if name == "nccl" else MPITransport)(device, ranks)
    if _reach_each_other(places):
        transport.mailbox_kind = PeerMailboxes
    return transport


class RankPlace(NamedTuple):
    """A rank's location; gpu: bus id of its CUDA GPU; peers: the GPUs whose memory it can reach."""

    spec: str
    host: str
    gpu: str | None
    peers: frozenset[str]
    has_nccl: bool


def _place(device: Device) -> RankPlace:
    host = _mpi().Get_processor_name()
    if device.backend != "cuda":
        return RankPlace(device.spec, host, None, frozenset(), False)
    import cupy

    here = cupy.cuda.Device()
    others = map(cupy.cuda.Device, range(cupy.cuda.runtime.getDeviceCount()))
    peers = frozenset(
        other.pci_bus_id
        for other in others
        if other.id == here.id or cupy.cuda.runtime.deviceCanAccessPeer(here.id, other.id)
    )
    return RankPlace(device.spec, host, here.pci_bus_id, peers, _nccl().available)


def _lacks_nccl(places: list[RankPlace]) -> str | None:
    """Return why NCCL cannot serve these ranks, with a remedy, or None."""
    if (no_gpu := _without_gpu(places)) is not None:
        return no_gpu
    if len({(place.host, place.gpu) for place in places}) < len(places):
        return "NCCL needs a GPU for each rank, but some share one: use --transport mpi"
    if not all(place.has_nccl for place in places):
        return f"CuPy finds no NCCL library: {INSTALL_NCCL}"
    return None


def _reach_each_other(places: list[RankPlace]) -> bool:
    """Return whether each rank has its own GPU, and reaches the memory of all others."""
    return (
        _without_gpu(places) is None
        and len({place.host for place in places}) == 1
        and len({place.gpu for place in places}) == len(places)
        and all(place.gpu in other.peers for place in places for other in places)
    )


def _without_gpu(places: list[RankPlace]) -> str | None:
    for rank, place in enumerate(places):
        if place.gpu is None:
            return f"needs CUDA, but rank {rank} has {place.spec}: use --transport mpi"
    return None


class MPITransport(Transport):
    """Any device: rows go through host memory and MPI.

    Rows are copied to the host after the work queued at `begin`. They travel in `finish`, while the
    device does the work queued in between.
    """

    name = "mpi"

    def __init__(self, device: Device, ranks: Ranks) -> None:
        super().__init__(device, ranks)
        self._staging: dict[tuple[str, int], NDArray[np.uint8]] = {}
        self._outgoing: list[tuple[Parcel, NDArray[np.uint8], Callable[[], None]]] = []
        self._incoming: list[tuple[Parcel, NDArray[np.uint8], Request]] = []
        self._written: list[Callable[[], None]] = []

    def _begin(self, sends: list[Parcel], receives: list[Parcel]) -> None:
        for wait in self._written:  # earlier sends, whose buffers are about to be reused
            wait()
        self._written = []
        for i, parcel in enumerate(receives):
            buffer = self._buffer("in", i, parcel.bytes)
            self._incoming.append((parcel, buffer, self._comm.Irecv(buffer, parcel.peer)))
        for i, parcel in enumerate(sends):
            buffer = self._buffer("out", i, parcel.bytes)
            wait = self._device.read_rows(parcel.array, parcel.first, buffer)
            self._outgoing.append((parcel, buffer, wait))

    def _finish(self) -> None:
        sent = []
        for parcel, buffer, wait in self._outgoing:
            wait()
            sent.append(self._comm.Isend(buffer, parcel.peer))
        for parcel, buffer, request in self._incoming:
            request.Wait()
            self._written.append(self._device.write_rows(parcel.array, parcel.first, buffer))
        _mpi().Request.Waitall(sent)
        self._outgoing, self._incoming = [], []

    def _buffer(self, direction: str, number: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes of host memory, reused across exchanges."""
        buffer = self._staging.get((direction, number))
        if buffer is None or len(buffer) < size:
            # 50 % more than needed, since the number of rows varies from step to step.
            buffer = self._device.host_buffer(size + size // 2)
            self._staging[direction, number] = buffer
        return buffer[:size]


class NCCLTransport(Transport):
    """NVIDIA GPUs, one per rank, on one host or many: NCCL's grouped sends and receives.

    They are in a second stream, with events to order it and the queue.
    """

    name = "nccl"

    def __init__(self, device: Device, ranks: Ranks) -> None:
        super().__init__(device, ranks)
        import cupy

        self._nccl = nccl = _nccl()
        identity = self._comm.bcast(nccl.get_unique_id() if ranks.rank == 0 else None)
        self._communicator = nccl.NcclCommunicator(ranks.size, identity, ranks.rank)
        self._queue = cupy.cuda.get_current_stream()  # the device's: it was made current
        self._beside = cupy.cuda.Stream(non_blocking=True, priority=FIRST_OF_ALL)
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        self._is_marked = False

    def mark(self) -> None:
        self._ready.record(self._queue)
        self._is_marked = True

    def _after_queue(self) -> None:
        """Make the second stream wait for all work queued now, or at the mark."""
        if not self._is_marked:
            self._ready.record(self._queue)
        self._is_marked = False
        self._beside.wait_event(self._ready)

    def _finish(self) -> None:
        self._queue.wait_event(self._done)

    def add_up(self, array: Any) -> None:
        if array.size:
            nccl, place = self._nccl, array.data.ptr
            self._after_queue()
            self._communicator.allReduce(
                place, place, array.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self._beside.ptr
            )
            self._done.record(self._beside)
            self._queue.wait_event(self._done)

    def close(self) -> None:
        super().close()
        self._beside.synchronize()
        self._communicator.destroy()

    def _begin(self, sends: list[Parcel], receives: list[Parcel]) -> None:
        nccl, stream = self._nccl, self._beside.ptr
        self._after_queue()
        if sends or receives:
            nccl.groupStart()
            for p in sends:
                self._communicator.send(p.address, p.bytes, nccl.NCCL_UINT8, p.peer, stream)
            for p in receives:
                self._communicator.recv(p.address, p.bytes, nccl.NCCL_UINT8, p.peer, stream)
            nccl.groupEnd()
        self._done.record(self._beside)


def _mpi() -> Any:
    from mpi4py import MPI

    return MPI


def _nccl() -> Any:
    """Return CuPy's NCCL module; its `available` tells whether the library was found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy warns if it is missing
        from cupy.cuda import nccl
    return nccl
