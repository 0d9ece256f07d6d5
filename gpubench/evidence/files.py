"""Results of studies among the files that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpubench.core.errors import UserError
from gpubench.evidence.results import Results, load, read_json


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


def _is_of_studies(path: Path) -> bool:
    document = read_json(path)
    return isinstance(document, dict) and "records" in document
