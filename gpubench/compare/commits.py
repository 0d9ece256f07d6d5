"""Prepare the sources of a commit, or of the working tree, for measuring."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from gpubench.base import plugins
from gpubench.base.errors import UserError
from gpubench.base.paths import cache_folder
from gpubench.base.writing import writing
from gpubench.compare.pairs import Code
from gpubench.measure.environment import git


def repository(name: str) -> Path:
    """Return the repository of the current folder; raise UserError where there is none.

    name: the commit that the user asked for, as the error message names it.
    """
    found = git(Path.cwd(), "rev-parse", "--show-toplevel")
    if found is None:
        raise UserError(
            f"{name} is neither a file nor a folder of results, and there is no repository here"
            " whose commit it could be: give a path, or change into the repository"
        )
    return Path(found)


def find_commit(root: Path, name: str) -> str:
    """Return the full hash of a commit; raise UserError for an unknown name."""
    found = git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if found is None:
        raise UserError(
            f"{name} is no commit of {root.name}: give two files or folders of results that are"
            " there, or two branches, tags or hashes"
        )
    return found


def present_code(name: str = "head") -> Code:
    """Return the code that this process runs."""
    return Code(name, "this code", sys.executable, is_ours=True)


def code_of(root: Path, name: str, commit: str | None) -> Code:
    """Return one side of a comparison, which runs with this interpreter and its packages.

    root: the repository's folder. name: base or head. commit: full hash; None for the working tree.
    """
    title = f"{commit[:12]}" if commit else "working tree"
    source = root if commit is None else _source_of(root, commit)
    variables = {"GPUBENCH_COMMIT": commit} if commit else {}
    variables[plugins.VARIABLE] = plugins.moved(root, source)
    # Packages installed in editable mode would be imported from the working tree.
    own = (Path(path).resolve() for path in sys.path if path)
    moved = [source / path.relative_to(root) for path in own if path.is_relative_to(root)]
    paths = [*map(str, (source, *filter(Path.is_dir, moved))), os.environ.get("PYTHONPATH", "")]
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return Code(name, title, sys.executable, variables, source)


def _source_of(root: Path, commit: str) -> Path:
    """Return a copy of a commit's sources in the user's cache; raise UserError if writing fails."""
    place = cache_folder() / "compare" / commit[:16]
    source = place / "source"
    if not source.exists():
        command = ["git", "-C", str(root), "archive", "--format=tar", commit]
        archive = subprocess.run(command, check=True, capture_output=True).stdout
        partial = place / f"source.{os.getpid()}"
        try:
            with writing(source), tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(partial, filter="data")
                try:
                    partial.replace(source)
                except OSError:
                    if not source.is_dir():  # if it is, another process has just made the same copy
                        raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return source
