"""PyOpenCL's cache of compiled programs, in a folder where a dead process cannot block it."""

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
    """Compiles programs of a context, and keeps them as long as that works.

    PyOpenCL makes a file named `lock` while it reads or writes its cache. A killed process leaves
    it there, and every later one waits for it at each program. So here all programs are compiled
    under a shared lock of the operating system, which ends with its process: a process that is
    alone with it knows that the file is of a dead one.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._folder: Path | None = None
        self._is_anew = False
        # PyOpenCL asks for this variable where its cache fails, and raises where it is not set.
        os.environ.setdefault("PYOPENCL_CACHE_FAILURE_FATAL", "")
        if (kept := usable_cache()) is not None:
            self._folder = kept / "opencl"
            context.cache_dir = str(self._folder)

    def build(self, work: Callable[[], T]) -> T:
        """Return what `work` compiles.

        Where the cache fails, it is made anew; where it fails again, or others work with it, say so
        and go on without. Remarks that runtimes write into the log of a good build are dropped;
        errors still raise.
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
        """Remove all that is kept, once, unless others work with it; return whether it is gone."""
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
        """Hold the lock, after removing what a dead process left."""
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
                    pass  # of a live process, which soon removes it
            fcntl.flock(file, fcntl.LOCK_SH)
            yield


def mend_databases() -> None:
    """Remove the databases of PyOpenCL that are damaged, which it makes anew when it is imported.

    It opens them then, and raises where it cannot use them. Where none can be kept, this process
    and its children turn its cache off.
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
    import sqlite3  # for OpenCL alone, which imports it too

    try:
        with closing(sqlite3.connect(path)) as database:
            found = database.execute("PRAGMA quick_check").fetchall()
            return found == [("ok",)] and os.access(path, os.W_OK)
    except sqlite3.Error as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_BUSY  # of a process that writes now


@contextmanager
def _warnings_of_interest() -> Iterator[None]:
    """Ignore what PyOpenCL warns of but for failures of its cache, which are raised."""
    import pyopencl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopencl.CompilerWarning)
        # Of processes that find a kernel changed, one empties its place in the cache, and another
        # comes upon the empty place: both compile.
        warnings.filterwarnings("ignore", "PyOpenCL encountered an invalid info file")
        warnings.filterwarnings("error", "Could not obtain cache lock")  # after ten seconds
        warnings.filterwarnings("error", "PyOpenCL compiler caching failed")
        yield
