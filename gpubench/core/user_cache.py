"""Where compiled code is kept between runs: a folder that can be written and has room, if any."""

from __future__ import annotations

import os
import stat
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

from gpubench.core.errors import UserError
from gpubench.core.messages import say
from gpubench.core.writing import whole_file

OWN = "gpubench"  # of the folders in a cache folder, the one for this package
ROOM_BYTES = 16 << 20  # the programs of a long run


def usable_cache() -> Path | None:
    """Return (and make) the package's folder for compiled code; None where none can be written.

    It lies in the user's cache folder. Where that cannot be written, or is full, all that this
    process and its children keep in a cache (PyOpenCL, PoCL and Warp too) goes to a folder of the
    user's among the temporary files. Where that fails too, PyOpenCL is told to do without. Either
    is said once on standard error.
    """
    try:
        folder = platformdirs.user_cache_dir()
    except RuntimeError:  # no home folder: older versions return this
        folder = "~/.cache"
    return _usable(folder)


def keep(path: Path, code: bytes) -> None:
    """Write a file of the cache as a whole; where that fails, say so and leave it out."""
    try:
        with whole_file(path) as file:
            file.write(code)
    except UserError as error:
        if not path.exists():  # else another process has just kept the same
            reason = getattr(error.__cause__, "strerror", None) or error
            _say_once(f"compiled code is not kept in {path.parent}: {reason}")


@cache
def _say_once(message: str) -> None:
    say(message)


@cache
def _usable(folder: str) -> Path | None:
    place = Path(folder)
    why = _why_unusable(place)
    if why is None:
        return place / OWN
    instead = Path(os.environ.get("TMPDIR") or "/tmp", f"{OWN}-{os.getuid()}")
    if _is_private(instead) and _why_unusable(instead) is None:
        os.environ["XDG_CACHE_HOME"] = str(instead)
        say(f"cannot keep compiled code in {place} ({why}): it goes to {instead}")
        return instead / OWN
    if "PYOPENCL_NO_CACHE" not in os.environ:
        os.environ["PYOPENCL_NO_CACHE"] = "1"
        say(f"cannot keep compiled code in {place} ({why}) or {instead}: every run compiles anew")
    return None


def _why_unusable(place: Path) -> str | None:
    """Make the package's folder in a cache folder; return why it is unusable, or None."""
    if not place.is_absolute():
        return "there is no home folder"
    folder = place / OWN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:  # without a name: nothing can stay
            probe.write(bytes(2**16))
            probe.flush()
        room = os.statvfs(folder)
    except OSError as error:
        return error.strerror or str(error)
    return "it is full" if room.f_bavail * room.f_frsize < ROOM_BYTES else None


def _is_private(folder: Path) -> bool:
    """Make a folder; say whether no other user can put anything into it.

    What lies in a cache is executed, and everybody can make folders among the temporary files.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return is_own and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
