"""Make code of a commit, or of the working tree, ready to be measured: sources, and a Python."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

from gpubench.compare.pairs import Code
from gpubench.core import install, plugins
from gpubench.core.errors import UserError
from gpubench.core.paths import cache_folder
from gpubench.core.writing import writing
from gpubench.measure.environment import git

# By what an extra of this package is recognised: a distribution that it brings.
EXTRAS = {
    "cpu": "intel-opencl-rt",
    "cuda12": "cupy-cuda12x",
    "cuda13": "cupy-cuda13x",
}
OURS = ("gpubench", install.DISTRIBUTION)  # distributions of this package, by commit


def repository(name: str) -> Path:
    """Return the repository around the present folder; raise UserError where there is none.

    name: of what is looked for in it.
    """
    found = git(Path.cwd(), "rev-parse", "--show-toplevel")
    if found is None:
        raise UserError(
            f"{name} is neither a file nor a folder of results, and there is no repository here"
            " whose commit it could be: give a path, or change into the repository"
        )
    return Path(found)


def find_commit(root: Path, name: str) -> str:
    """Return the full hash of a commit; raise UserError where the name means none."""
    found = git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if found is None:
        raise UserError(
            f"{name} is no commit of {root.name}: give two files or folders of results that are"
            " there, or two branches, tags or hashes"
        )
    return found


def between(root: Path, good: str, bad: str) -> list[str]:
    """Return the commits from a good one to a bad one, both included, along first parents.

    Raises UserError where the good one is not before the bad one.
    """
    listed = git(root, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}")
    is_before = git(root, "merge-base", "--is-ancestor", good, bad) is not None
    if not is_before or not listed:
        raise UserError(f"{good[:12]} does not come before {bad[:12]}: give the good commit first")
    return [good, *listed.split()]


def subject_of(root: Path, commit: str) -> str:
    """Return the short hash, date and subject of a commit."""
    return git(root, "show", "--no-patch", "--date=short", "--format=%h %ad %s", commit) or commit


def present_code(name: str = "head") -> Code:
    """Return the code that this process runs."""
    return Code(name, "this code", sys.executable, is_ours=True)


def code_of(root: Path, name: str, commit: str | None, own_python: bool) -> Code:
    """Return one side of a comparison, with its sources in place and its packages installed.

    root: of the repository. name: base or head. commit: full hash; None for the working tree.
    own_python: whether it gets a virtual environment of its own, into which it is installed with
    what it asks for; else it runs on this interpreter and its packages.

    Raises UserError where the sources cannot be installed.
    """
    title = f"{commit[:12]}" if commit else "working tree"
    source = root if commit is None else _source_of(root, commit)
    variables = {"GPUBENCH_COMMIT": commit} if commit else {}
    variables[plugins.VARIABLE] = plugins.moved(root, source)
    if own_python:
        environment = _environment_of(source, commit)
        variables["PYTHONPATH"] = ""  # nothing else comes before what is installed
        return Code(name, title, str(environment / "bin/python"), variables, environment)
    paths = [str(source), os.environ.get("PYTHONPATH", "")]
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return Code(name, title, sys.executable, variables, source)


def _source_of(root: Path, commit: str) -> Path:
    """Return a copy of the sources of a commit."""
    place = _kept(commit[:16])
    source = place / "source"
    if not source.exists():
        archive = subprocess.run(
            ["git", "-C", str(root), "archive", "--format=tar", commit],
            check=True,
            capture_output=True,
        ).stdout
        partial = place / f"source.{os.getpid()}"
        try:
            with writing(source), tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(partial, filter="data")
                try:
                    partial.replace(source)
                except OSError:
                    if not source.is_dir():  # else another process has laid out the same meanwhile
                        raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return source


def _kept(name: str) -> Path:
    """Return where something is kept in the user's cache; raises UserError where that cannot be."""
    try:
        return cache_folder() / "compare" / name
    except OSError as error:
        raise UserError(
            f"cannot keep the code of commits in {error.filename}: {error.strerror or error}:"
            " set XDG_CACHE_HOME to a folder that you may write to"
        ) from error


def _environment_of(source: Path, commit: str | None) -> Path:
    """Return a virtual environment in which the sources are installed; a commit's is kept."""
    wanted = [f"{source}{_extras(source)}"]
    key = hashlib.sha256(f"{sys.version} {wanted}".encode()).hexdigest()[:8]
    place = _kept(commit[:16] if commit else "working-tree") / f"env-{key}"
    stamp = place / "installed"
    if commit and stamp.exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    _install([sys.executable, "-P", "-m", "venv", str(place)])
    pip = [str(place / "bin/python"), "-P", "-m", "pip", "install", "--quiet"]
    _install([*pip, "--disable-pip-version-check", *wanted])
    stamp.touch()
    return place


def _extras(source: Path) -> str:
    """Return the extras that are installed here, if the sources are of this package."""
    project = source / "pyproject.toml"
    if not project.exists():
        raise UserError(f"{source} has no pyproject.toml to install: try --same-python")
    if (
        tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("name")
        not in OURS
    ):
        return ""
    installed = {each.name for each in metadata.distributions()}
    here = [extra for extra, name in EXTRAS.items() if name in installed]
    return f"[{','.join(here)}]" if here else ""


def _install(command: list[str]) -> None:
    # Without what would let another Python's packages in.
    variables = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise UserError(
            f"cannot build the environment: {lines[-1] if lines else command[0]}:"
            " repair it, or try --same-python"
        )
