"""Checks before a command starts work, so that a mistake costs no time."""

from __future__ import annotations

import os
from pathlib import Path

from gpubench.base.errors import UserError


def one_process(command: str) -> None:
    """End all ranks with a UserError if a launcher started more than one."""
    from gpubench.distributed.ranks import Ranks, ends_all, launched_size

    if launched_size() > 1:
        with ends_all(Ranks.join()):
            raise UserError(f"{command} runs in one process: start it without mpirun")


def folder(option: str, folder: Path) -> None:
    """Raise UserError if a folder cannot be made or written."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise UserError(f"{option} takes a folder, but {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"{option} needs a folder that you may write to, not {folder}")


def file(option: str, path: Path) -> None:
    """Raise UserError if a file cannot be written."""
    if path.is_dir():
        raise UserError(f"{option} takes a file, but {path} is a folder")
    existing = next(folder for folder in path.absolute().parents if folder.exists())
    if not existing.is_dir():
        raise UserError(f"{option} takes a file in a folder, but {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"{option} needs a folder that you may write to, not {existing}")
