"""Read files given by a user, whose content tells their kind: results of studies, checks, ..."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gpubench.base.errors import UserError
from gpubench.evidence.bounds import content_of, only_ours
from gpubench.evidence.results import Results, load

KINDS = ("records", "checks", "calibration")  # keys that mark files of studies, checks, `calibrate`
ACCOUNT = "simulation.json"


def load_results(paths: Sequence[Path], hint: str = "gpubench run STUDY") -> list[Results]:
    """Read results files, including those in and below folders, each once.

    Other JSON files in folders, such as summaries of simulations, are ignored. Raises UserError for
    any other given file, and for a folder without results; hint: the command that makes results.
    """
    files = every_file(paths, "results of studies", hint, lambda file: kind_of(file) == "records")
    with no_collection():
        return list(map(load, files))


def every_file(
    paths: Iterable[Path], what: str, hint: str, keeps: Callable[[Path], bool] = lambda _: True
) -> list[Path]:
    """Return the given files, and those in and below folders that `keeps` accepts, each once.

    Raises UserError for a folder without such files.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        inside = [file for file in below(path) if file == path or keeps(file)]
        if not inside:
            raise UserError(f"no {what} in {path}: make some with `{hint}`")
        for file in inside:
            found.setdefault(file.resolve(), file)
    return list(found.values())


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the garbage collector, which would repeatedly traverse all data read so far."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def below(path: Path) -> list[Path]:
    """Return the JSON files in and below a folder, see `only_ours`; given a file, the file."""
    return only_ours(path.rglob("*.json*")) if path.is_dir() else [path]


def kind_of(path: Path) -> str:
    """Return a file's kind: ACCOUNT, one of KINDS, or ""; "records" if it is unreadable.

    Reading an unreadable file as records then reports the reason.
    """
    if path.name.removesuffix(".gz") == ACCOUNT:
        return ACCOUNT
    try:
        content = content_of(path)
        try:
            peek: Any = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:
            peek = json.loads(content)  # files of other tools may hold NaN, or no object
    except (OSError, ValueError, RecursionError):
        return "records"
    return next((kind for kind in KINDS if isinstance(peek, dict) and kind in peek), "")
