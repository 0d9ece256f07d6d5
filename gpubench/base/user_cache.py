"""The cache folder for compiled code and other data kept between runs."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import platformdirs

from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.base.writing import whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

OWN = "gpubench"  # this package's folder inside a cache folder
ROOM_BYTES = 16 << 20  # free space required: enough for the compiled code of a long run
DIGEST_BYTES = hashlib.sha256().digest_size


def usable_cache() -> Path | None:
    """Return (and make) the package's cache folder; None if none is writable.

    It is in the user's cache folder. If that is read-only or full, all caches of this process and
    its children (including PyOpenCL, PoCL and Warp) move to a private folder in TMPDIR or /tmp. If
    that fails too, PyOpenCL runs without a cache. Either case is reported once on standard error.
    """
    try:
        folder = platformdirs.user_cache_dir()
    except RuntimeError:  # no home folder
        folder = "~/.cache"
    return _usable(folder)


def keep(path: Path, content: bytes) -> bool:
    """Write a cache file unless it has this content; on failure, report it and return False."""
    if _read(path) == content:
        return True
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    try:
        with whole_file(path) as file:
            file.write(content)
    except UserError as error:
        if _read(path) != content:  # else another process has just written the same
            reason = getattr(error.__cause__, "strerror", None) or error
            _say_once(f"compiled code is not kept in {path.parent}: {reason}")
            return False
    return True


def kept(path: Path | None, make: Callable[[], bytes]) -> bytes:
    """Return the result of `make`, from a cache file if there is one.

    path: the cache file, whose name identifies all inputs of `make`; None for no caching. The file
    starts with a digest of the rest, so that a damaged file is rebuilt.
    """
    found = None if path is None else _read(path)
    if found is not None and found.startswith(_digest([content := found[DIGEST_BYTES:]])):
        return content
    content = make()
    if path is not None:
        keep(path, _digest([content]) + content)
    return content


def machine_code(file: str, what: object, compiled: Callable[[], bytes]) -> bytes:
    """Return the machine code of a kernel file: from the cache, or compiled and cached.

    what: everything that the code depends on, including the `sources_digest`.
    """
    folder = usable_cache()
    key = hashlib.sha256(repr(what).encode()).hexdigest()[:16]
    return kept(folder and folder / f"{Path(file).stem}-{key}.code", compiled)


def sources_digest(folders: Iterable[Path]) -> str:
    """Return a hash of all sources that a kernel can include."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".cu", ".cuh", ".h"):
                digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def remembered(name: str, content: Iterable[bytes], make: Callable[[], T]) -> T:
    """Return the result of `make` for some content, from the cache if possible.

    name: names the cache file, which holds only the latest value. content: everything that `make`
    reads besides the package's own files. The file is rebuilt if it is damaged, or if the content,
    this package or a library has changed. Without a usable cache, nothing is stored.
    """
    import pickle  # most commands do not need it

    folder = _folder_to_remember_in()
    if folder is None:
        return make()
    path = folder / f"{name}.pickle"
    key = _digest([_own_files(), *content])
    with suppress(OSError):
        found = path.read_bytes()
        value = found[2 * len(key) :]
        if found.startswith(key + _digest([key, value])):
            made: T = pickle.loads(value)
            return made
    made = make()
    value = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
    with suppress(UserError), whole_file(path) as file:
        file.write(key + _digest([key, value]) + value)
    return made


def remembered_arrays(
    group: str, key: str, most: int, make: Callable[[], dict[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Return the arrays that `make` computes for a key, from the cache if possible.

    group: prefix of the file names; only the `most` latest files with this prefix are kept. A
    damaged file is rebuilt; without a usable cache, nothing is stored.
    """
    import numpy as np  # imported late: the command line imports this module

    folder = _folder_to_remember_in()
    if folder is None:
        return make()

    def packed() -> bytes:
        file = io.BytesIO()
        np.savez(file, **make())  # type: ignore[arg-type]  # NumPy's stubs reject array names
        return file.getvalue()

    with np.load(io.BytesIO(kept(folder / f"{group}-{key}.arrays", packed))) as found:
        arrays = dict(found)
    with suppress(OSError):
        files = sorted(folder.glob(f"{group}-*.arrays"), key=lambda each: each.stat().st_mtime)
        for old in files[:-most]:
            old.unlink()
    return arrays


def _folder_to_remember_in() -> Path | None:
    try:
        place = Path(platformdirs.user_cache_dir())
    except RuntimeError:  # no home folder
        return None
    return place / OWN if _why_unusable(place) is None else None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


@cache
def _own_files() -> bytes:
    """Return a digest of the package's files and the versions of Python and libraries."""
    from importlib.metadata import version  # slow to import

    package = Path(__file__).parents[1]
    # os.walk is twenty times faster than Path.rglob, which matters in a first call.
    every = (f"{place}{os.sep}{name}" for place, _, names in os.walk(package) for name in names)
    paths = sorted(path for path in every if path.endswith((".py", ".toml", ".json")))
    versions = (sys.version, *map(version, ("numpy", "scipy", "msgspec")))
    files = (part for path in paths for part in (os.fsencode(path), Path(path).read_bytes()))
    return _digest([*(each.encode() for each in versions), *files])


def _digest(parts: Iterable[bytes]) -> bytes:
    """Return a digest of all parts, including their lengths."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()


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
        with tempfile.TemporaryFile(dir=folder) as probe:  # unnamed: leaves nothing behind
            probe.write(bytes(2**16))
            probe.flush()
        room = os.statvfs(folder)
    except OSError as error:
        return error.strerror or str(error)
    return "it is full" if room.f_bavail * room.f_frsize < ROOM_BYTES else None


def _is_private(folder: Path) -> bool:
    """Make a folder; return whether it belongs to this user and no other user can write to it.

    This matters because cached code is executed, and any user can make folders in /tmp.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return is_own and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
