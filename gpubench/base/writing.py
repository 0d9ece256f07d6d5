"""Atomic replacement of files, and locks between processes."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import secrets
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from gpubench.base.errors import UserError

# Errors of file systems without locks, such as Lustre mounted without them.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError in the body of the `with` into a UserError about writing `path`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}: make room there, or choose"
            " another place"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file to write, and atomically rename it to `path` at the end.

    The rename follows a flush to disk: if the process is killed or the body raises, the previous
    file at `path` remains. Parent folders are made; temporary files of killed processes are
    removed. Several processes may write the same path concurrently: each renames its own file.
    Raises UserError if writing fails.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        # The lock shows other processes that the writer is alive, until both descriptors close.
        lock, _ = _open_locked(temporary, waits=True)
        try:
            with os.fdopen(os.dup(lock), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
            os.close(lock)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as `whole_file` does."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that killed processes left beside `path`; ignore failures."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            descriptor = os.open(leftover, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if its writer lives
                leftover.unlink()
            finally:
                os.close(descriptor)


class Lock:
    """A lock between processes, held until `release` or the end of this process.

    path: a file that exists while the lock is held; parent folders are made.
    refusal: the message of the UserError raised at once if the lock is already held, by another
        process or by this one; None to wait for it.

    On a file system without locks, the lock does nothing, which is reported on standard error.
    Raises UserError if the file cannot be written.
    """

    def __init__(self, path: Path, refusal: str | None = None) -> None:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                descriptor, is_locked = _open_locked(path, waits=refusal is None)
            except BlockingIOError as error:
                raise UserError(refusal) from error
        self._release = weakref.finalize(self, _release, path, descriptor)
        if not is_locked:
            print(
                f"gpubench: {path.parent} is on a file system without locks: let no other process"
                " write there",
                file=sys.stderr,
            )

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _open_locked(path: Path, waits: bool) -> tuple[int, bool]:
    """Open a file, creating it if missing, and lock it; return its descriptor.

    The lock lasts until the descriptor is closed. The second result is False if the file system
    has no locks. Raises BlockingIOError if the file is already locked and `waits` is false.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            is_locked = _lock(descriptor, waits)
            # The previous owner may have removed the file between opening and locking.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor, is_locked
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, waits: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True


def _release(path: Path, descriptor: int) -> None:
    with suppress(OSError):
        path.unlink()  # before unlocking, so that the next owner creates a new file
    os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Flush a rename to the disk, if the file system supports that for folders."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
