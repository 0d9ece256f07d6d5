"""Outputs that one process at a time may write."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpubench.errors import UserError
from gpubench.writing import writing

# How file systems without locks answer; clusters share some of these.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextmanager
def sole_writer(output: Path, lock: Path) -> Iterator[None]:
    """Hold a lock file while the body of the `with` writes an output.

    The folder of the lock file is made; the lock file is removed in the end. The kernel releases
    the lock when the process dies, so a lock file that is left behind blocks no later process. On
    a file system without locks the body runs without one. Raises UserError at once where another
    process holds the lock.
    """
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _hold(lock)
    if descriptor is None:
        raise UserError(
            f"another process is writing {output}: wait until it ends, or choose another name"
        )
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _hold(lock: Path) -> int | None:
    """Open and lock a file, and return its descriptor; None where another process holds it."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return descriptor
            os.close(descriptor)
            raise
        # The process that held the lock before may have removed the file since it was opened.
        with suppress(FileNotFoundError):
            if os.path.samestat(lock.stat(), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)
