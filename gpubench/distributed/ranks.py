"""The processes of one run: identity, choice of device, and joint termination."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpubench.base import install
from gpubench.base.errors import UserError
from gpubench.distributed import watch

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

INSTALL = install.hint("mpi")
INTERRUPTED = 130  # exit status that shells report after Ctrl-C
ATTEMPTS, SECONDS_BETWEEN_ATTEMPTS = 1000, 0.01  # to connect to a watcher that is starting up


def launched_size(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of ranks from a launcher's variables; 1 without a launcher."""
    return _launched(environment)[0]


def _launched(environment: Mapping[str, str]) -> tuple[int, str]:
    """Return the number of ranks a launcher started, and the variable with the rank number.

    Needs no MPI: PMI_SIZE is Hydra's (MPICH, Intel MPI), OMPI_COMM_WORLD_SIZE Open MPI's. Slurm's
    srun sets the size of the step; a batch script not started by srun has none.
    """
    for name in ("PMI", "OMPI_COMM_WORLD"):
        size = environment.get(f"{name}_SIZE", "")
        if size.isdecimal():
            return int(size), f"{name}_RANK"
    if {"SLURM_STEP_ID", "SLURM_PROCID"} <= environment.keys():
        size = environment.get("SLURM_STEP_NUM_TASKS", "")
        return int(size) if size.isdecimal() else 1, "SLURM_PROCID"
    return 1, ""


def unlaunched(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment without the launcher's variables, for a process that is not a rank."""
    own = ("PMI_", "PMIX_", "OMPI_", "SLURM_STEP_ID", "SLURM_PROCID")
    return {name: value for name, value in environment.items() if not name.startswith(own)}


@dataclass(frozen=True)
class Ranks:
    """The identity of this process in its run.

    comm: all ranks. rank: this rank's number. size: the number of ranks. local_rank, local_size:
    the same among the ranks of this host. watcher: prints how the run ended; None without one.
    """

    comm: Intracomm
    rank: int
    size: int
    local_rank: int
    local_size: int
    watcher: Watcher | None = None

    @classmethod
    @cache
    def join(cls) -> Ranks:
        """Join the run that a launcher started, or run alone without one. Collective.

        Join early: a rank that dies before joining cannot be named.

        Raises UserError where mpi4py or its MPI is missing, and where the launcher belongs to an
        MPI other than mpi4py's, so that every process would believe itself alone.
        """
        watcher = Watcher.of_this_host()
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
        if len(set(local.allgather(watcher and watcher.launcher))) > 1 and watcher is not None:
            watcher.done()
            watcher = None
        if watcher is not None:
            watcher.join()
        comm.Barrier()  # after this, the watchers have read all messages so far
        if local.rank == 0:
            _unname_shared_memory()
        return cls(comm, comm.rank, comm.size, local.rank, local.size, watcher)

    def leave(self) -> NoReturn:
        """Exit with status 0, after everything else is done. Collective.

        Skips interpreter shutdown, which takes long, and during which Ctrl-C would no longer change
        the status.
        """
        from mpi4py import MPI

        if self.watcher is not None:
            self.watcher.done()
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
    """Print a text, unless another rank has already reported an error, and end all ranks."""
    with suppress(OSError):
        sys.stdout.flush()
    if ranks.watcher is None or not ranks.watcher.say(text):
        watch.tell(text)
    for descriptor in (1, 2):
        watch.wait_until_read(descriptor)
    # The error has been reported: suppress MPI's own message about the abort.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    ranks.comm.Abort(status)
    os._exit(status)  # MPICH's MPI_Abort may return before the launcher acts on it


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


class Watcher:
    """A rank's socket to the process on its host that reports how the run ended (`watch.py`).

    launcher: id of the process that started this host's ranks, by which they identify the run.
    """

    def __init__(self, line: socket.socket, launcher: int) -> None:
        self._line, self.launcher = line, launcher
        atexit.register(self.done)

    @classmethod
    @cache
    def of_this_host(cls) -> Watcher | None:
        """Connect to this host's watcher, which its first rank starts. Needs no MPI.

        Returns None where this process is not one of several ranks, and where no watcher can be
        started: then deaths go unreported, and the ranks print errors themselves.
        """
        size, variable = _launched(os.environ)
        rank = os.environ.get(variable, "")
        if size == 1 or not rank.isdecimal():
            return None
        launcher = _launcher(variable)
        address = f"\0gpubench-{os.getuid()}-{launcher}"  # abstract: leaves no file behind
        about = _encoded({"rank": int(rank), "process": os.getpid()})
        for _ in range(ATTEMPTS):
            line = _closed_first(socket.socket(socket.AF_UNIX))
            try:
                _introduce(line, about, address, size)
            except OSError:
                line.close()
            else:
                watcher = cls(line, launcher)
                if watcher._is_answered():
                    return watcher
                watcher.done()
            select.select([], [], [], SECONDS_BETWEEN_ATTEMPTS)
        return None

    def join(self) -> None:
        """Report that all ranks of the run have started; return once this has been read.

        If this was read before a rank dies, the order of deaths is unambiguous.
        """
        self._tell({"joined": True})
        self._is_answered()

    def say(self, text: str) -> bool:
        """Ask the watcher to print a text, unless another rank did; False without a watcher.

        An empty text prints nothing but silences the other ranks. Waits until the text is read.
        """
        self._tell({"say": text})
        return self._is_answered()

    def done(self) -> None:
        """Report that this rank ended normally."""
        atexit.unregister(self.done)
        self._tell({"done": True})
        self._line.close()

    def _tell(self, message: dict[str, Any]) -> None:
        with suppress(OSError):
            self._line.sendall(_encoded(message))

    def _is_answered(self) -> bool:
        with suppress(OSError):
            return self._line.recv(1) == watch.ANSWER
        return False


def _closed_first(line: socket.socket) -> socket.socket:
    """Move a socket to a high descriptor number.

    Linux closes a killed process's files from the highest number down. So the watcher learns of a
    death before the launcher, which then kills the other ranks.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(most, 4096) // 2 if most > 0 else 2048
    with line:
        return socket.socket(fileno=fcntl.fcntl(line.fileno(), fcntl.F_DUPFD_CLOEXEC, number))


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _launcher(variable: str) -> int:
    """Return the process that started this host's ranks: the nearest ancestor that is not a rank.

    variable: the environment variable with the rank number.
    """
    process = Path("/proc") / str(os.getppid())
    with suppress(OSError):  # the process may be another user's
        while f"\0{variable}=".encode() in b"\0" + (process / "environ").read_bytes():
            _, _, state_and_parent = (process / "stat").read_text().rpartition(")")
            process = process.with_name(state_and_parent.split()[1])
    return int(process.name)


def _introduce(line: socket.socket, about: bytes, address: str, size: int) -> None:
    """Introduce this rank to the watcher at an address; start the watcher if there is none.

    A new watcher gets `about` before it starts, so that it can name this rank even if it is killed
    meanwhile. Raises OSError if another rank is about to start the watcher, or if that fails.
    """
    try:
        line.connect(address)
        if not watch.is_ours(line):
            raise PermissionError(f"another user listens at {address!r}")
        line.sendall(about)
    except ConnectionRefusedError:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(socket.SOMAXCONN)
            line.connect(address)
            line.sendall(about)
            subprocess.run(
                [sys.executable, "-IS", watch.__file__, str(listener.fileno()), str(size)],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                check=False,
            )


def _unname_shared_memory() -> None:
    """Remove the names of MPICH's shared memory, which all ranks of this host have mapped.

    The memory is then freed with the last rank, however the ranks end.
    """
    names = re.findall(r"/dev/shm/mpich_shm_\S+$", Path("/proc/self/maps").read_text(), re.M)
    for name in set(names):
        Path(name).unlink(missing_ok=True)


def _first_line(text: str) -> str:
    return " ".join(text.splitlines()[0].split())
