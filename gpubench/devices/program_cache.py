"""PyOpenCL's cache of compiled programs, protected against stale locks and damaged files."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from gpubench.base.messages import say
from gpubench.base.user_cache import usable_cache

T = TypeVar("T")


class ProgramCache:
    """Compiles programs of an OpenCL context; stops using the cache if that fails repeatedly.

    PyOpenCL creates a file named `lock` while it uses its cache. If the process is killed, the file
    remains, and every later process waits for its removal at each program. So all programs are
    compiled under a shared flock on another file; the system releases it when a process ends. A
    process that gets this flock exclusively knows that the file `lock` is stale.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._folder: Path | None = None
        self._is_anew = False
        # When its cache fails, PyOpenCL reads this variable, and raises KeyError if it is not set.
        os.environ.setdefault("PYOPENCL_CACHE_FAILURE_FATAL", "")
        if (kept := usable_cache()) is not None:
            self._folder = kept / "opencl"
            context.cache_dir = str(self._folder)

    def build(self, work: Callable[[], T]) -> T:
        """Compile with `work`, and return its result.

        The first time that the cache fails, it is cleared. If it fails again, or if other processes
        use it, the failure is reported and the cache is no longer used. Compiler messages of
        successful builds are dropped; build errors propagate.
        """
        try:
            with _warnings_of_interest(), self._shared():
                return work()
        except (OSError, UserWarning) as failure:
            if self._folder is None:
                raise
            if not self._is_anew and self._begin_anew(self._folder):
                return self.build(work)
            reason = str(failure).removesuffix("[end exception]").rstrip().splitlines()[-1]
            say(f"compiled code is not kept in {self._folder} any more: {reason}")
        self._folder, self._context.cache_dir = None, False
        return self.build(work)

    def _begin_anew(self, folder: Path) -> bool:
        """Clear the cache, unless another process is using it; return whether it is cleared."""
        self._is_anew = True
        try:
            if not folder.is_dir():
                folder.unlink()
                return True
            with (folder / "in-use").open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for place in set(folder.iterdir()) - {folder / "in-use"}:
                    remove = shutil.rmtree if place.is_dir() else Path.unlink
                    remove(place)
        except OSError:
            return False
        return True

    @contextmanager
    def _shared(self) -> Iterator[None]:
        """Hold the shared flock, after removing the `lock` file if its process is dead."""
        if self._folder is None:
            yield
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "in-use").open("a") as file:
            if (self._folder / "lock").exists():
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    (self._folder / "lock").unlink(missing_ok=True)
                except BlockingIOError:
                    pass  # the file may belong to a live process, which soon removes it
            fcntl.flock(file, fcntl.LOCK_SH)
            yield


def mend_databases() -> None:
    """Remove damaged databases of PyOpenCL, which would make its import fail.

    PyOpenCL recreates them. If the folder is not writable, PyOpenCL's cache is turned off in this
    process and its children.
    """
    folder = Path(platformdirs.user_cache_dir("pytools", "pytools"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("pdict-*pyopencl*.sqlite"):
            if not _is_sound(path):
                path.unlink()
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        os.environ["PYOPENCL_NO_CACHE"] = "1"
        say(f"compiled code is not kept: {error}")


def _is_sound(path: Path) -> bool:
    import sqlite3  # only needed for OpenCL; PyOpenCL imports it anyway

    try:
        with closing(sqlite3.connect(path)) as database:
            found = database.execute("PRAGMA quick_check").fetchall()
            return found == [("ok",)] and os.access(path, os.W_OK)
    except sqlite3.Error as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_BUSY  # another process is writing


@contextmanager
def _warnings_of_interest() -> Iterator[None]:
    """Turn warnings about failures of PyOpenCL's cache into errors; ignore compiler warnings."""
    import pyopencl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopencl.CompilerWarning)
        # Harmless: when a kernel changes, one process may empty its cache entry while another reads
        # it; both then compile.
        warnings.filterwarnings("ignore", "PyOpenCL encountered an invalid info file")
        warnings.filterwarnings("error", "Could not obtain cache lock")  # after ten seconds
        warnings.filterwarnings("error", "PyOpenCL compiler caching failed")
        yield
