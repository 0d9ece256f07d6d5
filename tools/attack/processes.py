"""Processes: commands of gpubench, started as forks, and what they leave running."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import importlib
import os
import pkgutil
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from attack.trial import require

PR_SET_CHILD_SUBREAPER = 36
PIPE_BYTES = 1 << 20  # what a command may print before it waits for its reader
MORE_MEMORY = 3 << 30
LONGEST_S = 60.0  # of a command
GRACE_S = 5.0  # for children to notice that their parent has gone
CLOSED = -1  # in place of a descriptor
# Imported lazily by the package, and slow.
SLOW = ("jinja2", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "pandas")


def warm() -> None:
    """Import the package, so that a fork of this process starts at once; open no device."""
    import gpubench

    for module in pkgutil.walk_packages(gpubench.__path__, "gpubench."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:  # of what is optional, such as PyTorch
                if (error.name or "").startswith("gpubench"):
                    raise
    for name in SLOW:
        importlib.import_module(name)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none is lost sight of."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the state of each process of this machine."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            found[int(stat.parent.name)] = (int(parent), state)
    return found


def descendants() -> dict[int, int]:
    """Return the processes below this one that have not ended, with their parents."""
    living = {p: parent for p, (parent, state) in _processes().items() if state not in "ZX"}
    found: dict[int, int] = {}
    level = {os.getpid()}
    while level:
        below = {process: parent for process, parent in living.items() if parent in level}
        found |= below
        level = set(below)
    return found


def end_children(besides: Collection[int] = ()) -> None:
    """Kill and reap the children of this process, and whatever they leave to it."""
    me = os.getpid()
    while left := [p for p, (of, _) in _processes().items() if of == me and p not in besides]:
        for process in left:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def require_no_orphan() -> None:
    """Raise Broken where a descendant runs on, some seconds after all should have ended."""
    until = time.monotonic() + GRACE_S
    while (left := descendants()) and time.monotonic() < until:
        time.sleep(0.02)
    told = []
    for process in left:
        with suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            told.append(" ".join(word.rpartition("/")[2] for word in words)[:80])
    require(not told, f"left running: {', '.join(told)}")


def limit_memory() -> None:
    """Let this process write to some more memory than it has now.

    Not its address space: the engine that draws charts reserves gigabytes of it unused.
    """
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmData:\s+(\d+) kB", status)
    most = 1024 * int(kilobytes) + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


@dataclass(frozen=True)
class Ended:
    """How a command ended, status as in subprocess, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Its status, and the last of what it said."""
        lines = self.err.splitlines()
        return f"status {self.status}: {lines[-1][:200] if lines else 'nothing said'}"


class Command:
    """A command under way, the leader of a session; what it writes waits in pipes.

    words: its command line. folder: where it works. environment: of it. before: is called in its
    process first. out: in place of a pipe for its standard output. program: is executed in place
    of the gpubench of this warm process.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        before: Callable[[], None] = lambda: None,
        out: int | None = None,
        program: Path | None = None,
    ) -> None:
        (self._out, write_out), (self._err, write_err) = _pipe(), _pipe()
        self._status: int | None = None
        # Ctrl-C counts from the first line of the command on.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.process = os.fork()
        if self.process == 0:
            try:
                os.setsid()
                os.chdir(folder)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(write_err, 2)
                if out == CLOSED:
                    os.close(1)
                else:
                    os.dup2(write_out if out is None else out, 1)
                os.closerange(3, 256)
                if program is not None:
                    _execute(program, words, environment)
                _become(words, environment, before)
            finally:
                os._exit(1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(write_out)
        os.close(write_err)

    def poll(self) -> bool:
        """Return whether it has ended."""
        if self._status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is not None

    def let(self, seconds: float) -> None:
        """Wait so many seconds, or until it ends."""
        until = time.monotonic() + seconds
        while not self.poll() and time.monotonic() < until:
            time.sleep(0.002)

    def wait(self) -> Ended:
        """Return how it ended; raise Broken where it does not within LONGEST_S."""
        self.let(LONGEST_S)
        if self._status is None:
            require(False, f"did not end within {LONGEST_S:g} s")
        assert self._status is not None
        return Ended(self._status, _drain(self._out), _drain(self._err))

    def signal(self, number: int) -> None:
        """Send it a signal: Ctrl-C to its group as a terminal does, any other to it alone."""
        if not self.poll():
            with suppress(ProcessLookupError):
                (os.killpg if number == signal.SIGINT else os.kill)(self.process, number)


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(read, False)
    return read, write


def _drain(descriptor: int) -> str:
    """Return what was written to a pipe, whose other end an orphan may still hold."""
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(descriptor, PIPE_BYTES):
            parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode(errors="replace")


def _execute(program: Path, words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.execve(program, [str(program), *words], dict(environment))


def _become(
    words: Sequence[str], environment: Mapping[str, str], before: Callable[[], None]
) -> NoReturn:
    """Do what a fresh interpreter does with `gpubench WORDS`, and end the process."""
    from gpubench.cli.app import main

    status: object = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        sys.argv = ["gpubench", *words]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        before()
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            main()
            status = 0
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120
    os._exit(status if isinstance(status, int) else 1)
