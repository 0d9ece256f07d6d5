"""The processes of one run: identity, choice of device, and joint termination."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import stat
import sys
import termios
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gpubench.base import install
from gpubench.base.errors import UserError

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Intracomm

INSTALL = install.hint("mpi")
INTERRUPTED = 130  # exit status that shells report after Ctrl-C
PATIENCE_MS = 10_000  # time limit for the reader of a rank's output


def launched_size(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of ranks from a launcher's variables; 1 without a launcher.

    Needs no MPI: PMI_SIZE is Hydra's (MPICH, Intel MPI), OMPI_COMM_WORLD_SIZE Open MPI's. Slurm's
    srun sets the size of the step; a batch script not started by srun has none.
    """
    names = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"]
    if {"SLURM_STEP_ID", "SLURM_PROCID"} <= environment.keys():
        names.append("SLURM_STEP_NUM_TASKS")
    sizes = (environment.get(name, "") for name in names)
    return next((int(size) for size in sizes if size.isdecimal()), 1)


def unlaunched(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment without the launcher's variables, for a process that is not a rank."""
    own = ("PMI_", "PMIX_", "OMPI_", "SLURM_STEP_ID", "SLURM_PROCID")
    return {name: value for name, value in environment.items() if not name.startswith(own)}


@dataclass(frozen=True)
class Ranks:
    """The identity of this process in its run.

    comm: all ranks. rank: this rank's number. size: the number of ranks. local_rank, local_size:
    the same among the ranks of this host. token: a pipe that they share, see `_share_token`.
    """

    comm: Intracomm
    rank: int
    size: int
    local_rank: int
    local_size: int
    token: int = -1

    @classmethod
    @cache
    def join(cls) -> Ranks:
        """Join the run that a launcher started, or run alone without one. Collective.

        Raises UserError where mpi4py or its MPI is missing, and where the launcher belongs to an
        MPI other than mpi4py's, so that every process would believe itself alone.
        """
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"several ranks need mpi4py with an MPI ({reason}): {INSTALL}"
            ) from None
        comm = MPI.COMM_WORLD
        if comm.size == 1 < launched_size():
            raise UserError(
                f"the launcher started {launched_size()} ranks, but each is alone: mpirun and"
                f" mpi4py's MPI differ; use the mpirun of {_first_line(MPI.Get_library_version())}"
            )
        local = comm.Split_type(MPI.COMM_TYPE_SHARED)
        if local.rank == 0:
            _unname_shared_memory()
        return cls(comm, comm.rank, comm.size, local.rank, local.size, _share_token(local))

    def leave(self) -> NoReturn:
        """Exit with status 0, after everything else is done. Collective.

        Skips interpreter shutdown, which takes long, and during which Ctrl-C would no longer change
        the status.
        """
        from mpi4py import MPI

        MPI.Finalize()
        sys.stdout.flush()
        os._exit(0)

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"


def device_spec(ranks: Ranks, spec: str, oversubscribed: bool, gpus: int | None) -> str:
    """Return the device spec that this rank passes to `open_device`.

    The ranks of a host each use a GPU of their own, chosen by local rank.

    spec: the user's choice. oversubscribed: ranks may share a GPU. gpus: the number of usable
    NVIDIA GPUs of this host; with None or 0, `auto` is left to `open_device`.
    Raises UserError for more ranks than GPUs and for one GPU by number, unless oversubscribed.
    """
    backend, _, number = spec.partition(":")
    if ranks.size == 1 or backend not in ("cuda", "auto") or not gpus:
        return spec
    if number:
        if not oversubscribed and ranks.local_size > 1:
            raise UserError(
                f"--device {spec} is one GPU for {ranks.local_size} ranks: say --device cuda, which"
                " gives each rank its own, or --oversubscribe to let them share"
            )
        return spec
    if ranks.local_size > gpus and not oversubscribed:
        raise UserError(
            f"{ranks.local_size} ranks on this host, but {gpus} GPU(s): start at most {gpus} a"
            " host, or say --oversubscribe to let ranks share a GPU"
        )
    return f"cuda:{ranks.local_rank % gpus}"


@contextmanager
def ends_all(ranks: Ranks) -> Iterator[None]:
    """End the whole run if the body of the `with` raises in any rank; nothing hangs.

    UserError ends it with one line that names the rank and status 2, another exception with its
    traceback and status 2, Ctrl-C with 130, and an exit with a nonzero status with that status.
    Normal completion and an exit with status 0 pass, and must then occur in every rank. Ctrl-C
    reaches every rank; only rank 0 acts on it, so that it can end the run in order.

    Use it inside the contexts that close devices or transports, since closing may wait for other
    ranks. May be nested. With a single rank, every exception passes.
    """
    if ranks.size == 1:
        yield
        return
    try:
        with _left_to_rank_0(ranks):
            yield
    except UserError as error:
        _end(ranks, f"gpubench: {ranks}: {' '.join(str(error).split())}\n", 2)
    except KeyboardInterrupt:
        _end(ranks, "", INTERRUPTED)
    except SystemExit as end:
        if end.code is None or end.code == 0:
            raise
        if isinstance(end.code, int):
            _end(ranks, "", end.code)
        _end(ranks, f"{end.code}\n", 2)
    except BaseException as error:
        status = getattr(error, "exit_code", None)  # Typer's Exit does not derive from SystemExit
        if status == 0:
            raise
        if isinstance(status, int):
            _end(ranks, "", status)
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        _end(ranks, f"{traceback.format_exc()}gpubench: {ranks} ended by {name}\n", 2)


def _end(ranks: Ranks, text: str, status: int) -> NoReturn:
    """Print a text, unless another rank of this host is ending the run, and end all ranks."""
    with suppress(OSError):
        sys.stdout.flush()
    if _speaks_first(ranks):
        with suppress(OSError):
            os.write(2, text.encode())
        for descriptor in (1, 2):
            wait_until_read(descriptor)
    else:
        select.select([], [], [], 2 * PATIENCE_MS / 1e3)  # the other ends this rank too
    # The error has been reported: suppress MPI's own message about the abort.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    ranks.comm.Abort(status)
    os._exit(status)  # MPICH's MPI_Abort may return before the launcher acts on it


def _share_token(local: Comm) -> int:
    """Return a pipe that the ranks of this host share, with one byte for the first that speaks.

    It lasts as long as any of them, so it outlives a rank that has spoken and ended.
    """
    own = os.pipe() if local.rank == 0 else (-1, -1)
    if local.rank == 0:
        os.write(own[1], b".")
    process, descriptor = local.bcast((os.getpid(), own[0]))
    token = -1
    with suppress(OSError):  # if the system hides it, each rank speaks
        token = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK)
    local.barrier()  # rank 0 must not end, and take the pipe with it, before all have opened it
    return token


def _speaks_first(ranks: Ranks) -> bool:
    """Return whether no rank of this host has called this before."""
    try:
        return os.read(ranks.token, 1) != b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@contextmanager
def _left_to_rank_0(ranks: Ranks) -> Iterator[None]:
    """Ignore Ctrl-C in all ranks but 0, which ends the others."""
    if ranks.rank == 0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def wait_until_read(descriptor: int) -> None:
    """Wait until everything written to a pipe has been read, at most `PATIENCE_MS`.

    MPICH's launcher drops unread output of a rank when it learns of an abort. Returns at once if
    the descriptor is closed or not a pipe, or the reader has gone.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return
        reader = select.poll()
        reader.register(descriptor, 0)  # reports only that the reader has gone
        for _ in range(PATIENCE_MS):
            unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            if not any(unread) or reader.poll(1):
                return
    except OSError:
        return


def _unname_shared_memory() -> None:
    """Remove the names of MPICH's shared memory, which all ranks of this host have mapped.

    The memory is then freed with the last rank, however the ranks end.
    """
    names = re.findall(r"/dev/shm/mpich_shm_\S+$", Path("/proc/self/maps").read_text(), re.M)
    for name in set(names):
        Path(name).unlink(missing_ok=True)


def _first_line(text: str) -> str:
    return " ".join(text.splitlines()[0].split())
