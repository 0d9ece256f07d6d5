"""Files that are either there whole, or as they were before."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpubench.errors import UserError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise UserError where the body of the `with` cannot write a file."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}: make room there, or choose"
            " another place"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give the body of the `with` a file to write; when it ends, that file becomes `path`.

    It does so in one rename, after its content is on the disk: whenever the process is killed, or
    the body raises, what was at `path` before is still there. Folders on the way are made; what a
    killed process left behind is removed. Raises UserError where it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            leftover.unlink()
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring a rename to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
