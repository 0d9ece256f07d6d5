"""Starting commands of gpubench, and finding what they leave running."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import importlib
import os
import pkgutil
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from attack.trial import Untried, require

PR_SET_CHILD_SUBREAPER = 36
PIPE_BYTES = 1 << 20  # what a command may print before it waits for its reader
MORE_MEMORY = 3 << 30
LONGEST_S = 60.0  # of a command
GRACE_S = 5.0  # for children to notice that their parent has gone
# Imported lazily by the package, and slow.
SLOW = ("jinja2", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "pandas")
SCRIPTS = sysconfig.get_path("scripts")


def warm() -> None:
    """Import the package, so that a fork of this process starts at once; open no device."""
    import gpubench

    for module in pkgutil.walk_packages(gpubench.__path__, "gpubench."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
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
    while left := [
        process
        for process, (parent, _) in _processes().items()
        if parent == os.getpid() and process not in besides
    ]:
        for process in left:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def require_no_orphan() -> None:
    """Raise Broken where a descendant still runs after some seconds, when all should have ended."""
    until = time.monotonic() + GRACE_S
    while (left := descendants()) and time.monotonic() < until:
        time.sleep(0.02)
    told = []
    for process in left:
        with suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
            told.append(" ".join(word.rpartition("/")[2] for word in command.split())[:80])
    require(not told, f"left running: {', '.join(told)}")


@dataclass(frozen=True)
class Ended:
    """How a command ended. status: negative for a signal, as in subprocess."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Its status, and the last of what it said."""
        lines = self.err.splitlines()
        return f"status {self.status}: {lines[-1][:200] if lines else 'nothing said'}"


class Command:
    """A command under way, in a session of its own; its output waits in pipes."""

    def __init__(self, process: int, out: int, err: int) -> None:
        self.process, self._out, self._err = process, out, err
        self._status: int | None = None

    def poll(self) -> bool:
        """Return whether it has ended."""
        if self._status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is not None

    def wait(self, seconds: float = LONGEST_S) -> Ended:
        """Return how it ended; raise Broken where it does not within so many seconds."""
        until = time.monotonic() + seconds
        while not self.poll():
            require(time.monotonic() < until, f"did not end within {seconds:g} s")
            time.sleep(0.005)
        assert self._status is not None
        return Ended(self._status, _drain(self._out), _drain(self._err))

    def signal(self, number: int) -> None:
        """Send it a signal: Ctrl-C to all its processes as a terminal does, any other to it."""
        if self.poll():
            return
        with suppress(ProcessLookupError):
            if number == signal.SIGINT:
                os.killpg(self.process, number)
            else:
                os.kill(self.process, number)


def _drain(descriptor: int) -> str:
    """Return what was written to a pipe; an orphan may still hold its other end."""
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(descriptor, PIPE_BYTES):
            parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode(errors="replace")


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(read, False)
    return read, write


def surroundings(folder: Path, cold: bool = False) -> dict[str, str]:
    """Return the environment of an attempt: temporary files and caches in its own folder.

    cold: with nothing in the cache; else with what a run of the trial left there (`warm_cache`).
    """
    temporary, cache, kept = folder / "tmp", folder / "cache", folder.parent / "cache"
    temporary.mkdir(exist_ok=True)
    if not cache.exists():
        if kept.exists() and not cold:
            shutil.copytree(kept, cache)
        else:
            cache.mkdir()
    (folder / "work").mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(cache)}


def start(
    arguments: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    out: int | None = None,
) -> Command:
    """Start `gpubench ARGUMENTS` in folder/work, as a fork of this warm process.

    before: is called in it first. out: in place of a pipe for its standard output.
    """
    environment = surroundings(folder) if environment is None else environment
    (read_out, write_out), (read_err, write_err) = _pipe(), _pipe()
    # Ctrl-C counts from the first line of gpubench on.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process = os.fork()
    if process == 0:
        os.setsid()
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out or write_out, 1)):
            os.dup2(source, target)
        os.dup2(write_err, 2)
        os.closerange(3, 256)
        _become(arguments, folder / "work", environment, before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.close(write_out)
    os.close(write_err)
    return Command(process, read_out, read_err)


def _become(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    before: Callable[[], None] | None,
) -> NoReturn:
    """Do what a fresh interpreter does with a command, and end the process."""
    status: object = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        sys.argv = ["gpubench", *arguments]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if before is not None:
            before()
        from gpubench.cli import main

        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            main()
            status = 0
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except SystemExit as end:
        status = 0 if end.code is None else end.code
    except BaseException:
        traceback.print_exc()
    with suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            status = status or 120
    os._exit(status if isinstance(status, int) else 1)


def limit_memory() -> None:
    """Let this process have some more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run(
    arguments: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    out: int | None = None,
    seconds: float = LONGEST_S,
) -> Ended:
    """Run `gpubench ARGUMENTS` to its end, as `start` starts it."""
    return start(arguments, folder, environment=environment, before=before, out=out).wait(seconds)


def launch(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    closed: Collection[int] = (),
) -> Command:
    """Start a program in folder/work with an interpreter of its own: start-up included.

    closed: descriptors that it starts without.
    """
    environment = surroundings(folder) if environment is None else environment
    (read_out, write_out), (read_err, write_err) = _pipe(), _pipe()

    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    process = subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=write_out,
        stderr=write_err,
        env=dict(environment),
        cwd=folder / "work",
        start_new_session=True,
        preexec_fn=close if closed else None,
    )
    process.returncode = 0  # `Command` waits for it
    os.close(write_out)
    os.close(write_err)
    return Command(process.pid, read_out, read_err)


def gpubench() -> Path:
    """Return the installed command."""
    return Path(SCRIPTS, "gpubench")


def mpirun() -> Path:
    """Return the launcher beside the interpreter, or the one on PATH; raise Untried without."""
    found = shutil.which("mpirun", path=os.pathsep.join([SCRIPTS, os.environ.get("PATH", "")]))
    if found is None or importlib.util.find_spec("mpi4py") is None:
        raise Untried("there is no mpirun with mpi4py: pip install 'gpubench[mpi]'")
    return Path(found)
