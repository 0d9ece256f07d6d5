"""Choosers whose preparation is kept in the user's cache folder, until what they read changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpubench.base import gpus
from gpubench.base.errors import UserError
from gpubench.base.user_cache import remembered
from gpubench.choose import evidence

if TYPE_CHECKING:
    from gpubench.choose.chooser import Chooser


def chooser_for(
    task: str, called_from: str, results: Sequence[Path], backend: str | None
) -> Chooser:
    """Return what answers questions of a task; see `Chooser.load`.

    Raises UserError where the results say nothing of the task, which is kept as well.
    """

    def new() -> Chooser:
        from gpubench.choose.chooser import Chooser  # slow to import

        return Chooser.load(results, backend)

    if results:
        return new()
    paths = [path for paths in evidence.default_files() for path in paths]
    try:
        content = [part for path in paths for part in (bytes(path), path.read_bytes())]
        content.append(repr(gpus.gpu_names()).encode())
    except OSError:
        return new()  # says which file cannot be read

    def prepared() -> Chooser | UserError:
        try:
            return new().prepared(task, called_from)
        except UserError as error:  # no evidence, which takes as long to find out
            return error

    found = remembered(f"choose-{backend or 'any'}-{task}-{called_from}", content, prepared)
    if isinstance(found, UserError):
        raise found
    return found
