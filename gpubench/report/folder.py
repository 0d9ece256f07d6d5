"""The folder of a report: only files in its manifest are ever replaced or removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpubench.base.errors import UserError
from gpubench.base.writing import Lock, write_whole, writing
from gpubench.report import render

MANIFEST = "gpubench-report.txt"
_HEADING = "Files that `gpubench report` wrote here. It replaces and removes these, and no others."
# Names in a manifest that do not match this are ignored: nothing outside the folder is removed.
_NAME = re.compile(r"(figures/)?[a-z0-9][a-z0-9.-]*")


def require_own(out: Path) -> None:
    """Raise UserError if the folder has an index.html that no report wrote."""
    page = out / "index.html"
    if page.exists() and not (page.is_file() and render.GENERATOR in _text(page)):
        raise _foreign(page)


def replace(out: Path, files: Mapping[str, str | bytes]) -> None:
    """Replace the report in a folder; each file is replaced atomically, under a lock.

    Raises UserError if writing fails or, before writing, if a file to replace is not a report's.
    """
    with Lock(out / ".report.lock"):
        require_own(out)
        own = _own(out)
        for name in files:
            if name not in own and (out / name).exists():
                raise _foreign(out / name)
        _list(out, {*own, *files})  # first, so that after a kill it covers all files
        for name, content in files.items():
            write_whole(out / name, content)
        for name in own - files.keys():
            with writing(out / name):
                (out / name).unlink(missing_ok=True)
        _list(out, files)


def _own(out: Path) -> set[str]:
    if not (out / MANIFEST).is_file():
        return set()
    heading, *names = _text(out / MANIFEST).splitlines() or [""]
    if heading != _HEADING:
        raise _foreign(out / MANIFEST)
    return {name for name in names if _NAME.fullmatch(name)}


def _list(out: Path, names: Iterable[str]) -> None:
    write_whole(out / MANIFEST, "\n".join([_HEADING, *sorted(names), ""]))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _foreign(path: Path) -> UserError:
    return UserError(f"{path} is not a report's: give --out another folder, or move it away")
