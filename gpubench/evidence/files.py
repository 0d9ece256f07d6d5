"""Results of studies among the files that a user names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpubench.core.errors import UserError
from gpubench.evidence.results import Results, load


def load_results(paths: Sequence[Path], hint: str = "gpubench run STUDY") -> list[Results]:
    """Read results files, and all that lie in and below folders, each once.

    Other files of JSON in folders, such as accounts of simulations, are passed over. Raises
    UserError for a file that is no results file, and for a folder without any; hint: the command
    that makes some.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        inside = [path]
        if path.is_dir():
            inside = [file for file in sorted(path.rglob("*.json")) if _is_of_studies(file)]
            if not inside:
                raise UserError(f"no results of studies in {path}: make some with `{hint}`")
        for file in inside:
            found.setdefault(file.resolve(), file)
    return [load(path) for path in found.values()]


class _Peek(msgspec.Struct):
    """What tells results of studies from other files."""

    records: msgspec.Raw = msgspec.Raw()


def _is_of_studies(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return True  # `load` says why
    try:
        return msgspec.json.decode(content, type=_Peek).records != msgspec.Raw()
    except msgspec.ValidationError:
        return False
    except msgspec.DecodeError:
        pass
    try:  # files of other tools may hold NaN
        document = json.loads(content)
    except (ValueError, RecursionError):
        return True  # `load` says why
    return isinstance(document, dict) and "records" in document
