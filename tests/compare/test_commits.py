"""Codes of commits: found in a repository, laid out, and installed where that is asked for."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpubench.compare import commits
from gpubench.core import plugins
from gpubench.core.errors import UserError
from gpubench.core.paths import PACKAGE

WHO = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_AUTHOR_DATE": "2026-01-31T12:00:00Z",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_COMMITTER_DATE": "2026-01-31T12:00:00Z", "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}  # fmt: skip

# A project that needs nothing and brings what builds it, so that no index is asked.
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "toy"
version = "1"
"""
BACKEND = """
import zipfile
INFO = "toy-1.dist-info"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "toy-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.write("toy.py")
        wheel.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\\nName: toy\\nVersion: 1\\n")
        tags = "Wheel-Version: 1.0\\nGenerator: toy\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{INFO}/WHEEL", tags)
        files = ["toy.py", f"{INFO}/METADATA", f"{INFO}/WHEEL", f"{INFO}/RECORD"]
        wheel.writestr(f"{INFO}/RECORD", "".join(f"{file},,\\n" for file in files))
    return name
"""


class Repository:
    """A repository whose commits each change who toy.py says it is."""

    def __init__(self, root):
        self.root = root
        root.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        (root / "pyproject.toml").write_text(PROJECT)
        (root / "backend.py").write_text(BACKEND)

    def git(self, *arguments):
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments], check=True, capture_output=True, text=True,
            env=os.environ | WHO,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self, who, **files):
        """Commit toy.py and other files; return the hash."""
        for name, text in {"toy": f"WHO = {who!r}\n", **files}.items():
            (self.root / f"{name}.py").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"Now it is {who}")
        return self.git("rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    monkeypatch.setattr(commits, "cache_folder", lambda: tmp_path / "cache")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


# Commits by their names


def test_the_repository_is_that_around_the_present_folder(repository, monkeypatch):
    inner = repository.root / "deep" / "inside"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert commits.repository("main") == repository.root


def test_outside_a_repository_there_are_no_commits(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no repository here"):
        commits.repository("main")


def test_without_git_there_are_no_commits(repository, monkeypatch):
    monkeypatch.chdir(repository.root)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="no repository here"):
        commits.repository("main")


def test_a_commit_has_many_names(repository):
    first, second = repository.commit("first"), repository.commit("second")
    repository.git("tag", "-a", "v1", "-m", "a tag is no commit itself", first)
    names = {"HEAD": second, "main": second, "HEAD~1": first, "v1": first, first[:8]: first}
    assert {name: commits.find_commit(repository.root, name) for name in names} == names


@pytest.mark.parametrize("name", ["nowhere", "HEAD:toy.py", "HEAD~9", "--all", ""])
def test_what_names_no_commit_is_told(repository, name):
    repository.commit("first")
    with pytest.raises(UserError, match="is no commit of repository: give two"):
        commits.find_commit(repository.root, name)


def test_between_two_commits_are_those_along_first_parents(repository):
    first, second = repository.commit("first"), repository.commit("second")
    repository.git("switch", "--quiet", "--create", "side", first)
    repository.commit("aside", other="")
    repository.git("switch", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-edit", "--strategy=ours", "side")
    merge = repository.git("rev-parse", "HEAD")
    assert commits.between(repository.root, first, merge) == [first, second, merge]
    assert commits.between(repository.root, second, merge) == [second, merge]


def test_the_good_commit_comes_first(repository):
    first, second = repository.commit("first"), repository.commit("second")
    repository.git("switch", "--quiet", "--create", "side", first)
    aside = repository.commit("aside")
    for good, bad in ((second, first), (first, first), (second, aside)):
        with pytest.raises(UserError, match=f"{good[:12]} does not come before {bad[:12]}"):
            commits.between(repository.root, good, bad)


def test_a_commit_in_words(repository):
    first = repository.commit("first")
    text = f"{first[:7]} 2026-01-31 Now it is first"
    assert commits.subject_of(repository.root, first) == text


# Sources


def test_the_present_code_is_that_of_this_process():
    code = commits.present_code("base")
    assert (code.name, code.python, code.folder) == ("base", sys.executable, None)
    assert code.is_ours and not code.variables


def ask(code, question):
    """Ask a Python of that code."""
    done = subprocess.run(
        [code.python, "-c", question], check=True, capture_output=True, text=True, cwd=code.folder,
        env={**os.environ, **code.variables},
    )  # fmt: skip
    return done.stdout.strip()


def test_a_commit_brings_its_own_sources(repository, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    first = repository.commit("first")
    second = repository.commit("second")
    (repository.root / "toy.py").write_text("WHO = 'nobody yet'\n")
    codes = [
        commits.code_of(repository.root, name, commit, own_python=False)
        for name, commit in (("base", first), ("head", second), ("head", None))
    ]
    assert [ask(code, "import toy; print(toy.WHO)") for code in codes] == [
        "first", "second", "nobody yet",
    ]  # fmt: skip
    assert not any(code.is_ours for code in codes)
    assert [(code.name, code.title) for code in codes] == [
        ("base", first[:12]), ("head", second[:12]), ("head", "working tree"),
    ]  # fmt: skip
    assert [code.variables.get("GPUBENCH_COMMIT") for code in codes] == [first, second, None]
    for code in codes:
        assert code.variables["PYTHONPATH"] == f"{code.folder}{os.pathsep}/elsewhere"
        assert code.python == sys.executable
    assert codes[2].folder == repository.root


def test_sources_are_laid_out_once_and_whole(repository):
    commit = repository.commit("first")
    code = commits.code_of(repository.root, "base", commit, own_python=False)
    kept = code.folder / "kept"
    kept.touch()
    again = commits.code_of(repository.root, "head", commit, own_python=False)
    assert again.folder == code.folder and kept.exists()
    assert {path.name for path in code.folder.iterdir()} == {
        "backend.py", "pyproject.toml", "toy.py", "kept",
    }  # fmt: skip
    assert list(code.folder.parent.iterdir()) == [code.folder]  # and nothing half done beside


def test_a_full_disk_is_one_line(repository, monkeypatch):
    """It is no verdict of `compare`."""
    commit = repository.commit("first")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(commits.tarfile.TarFile, "extractall", full)
    with pytest.raises(UserError, match="No space left"):
        commits.code_of(repository.root, "base", commit, own_python=False)


def test_another_process_may_lay_out_the_same_commit_meanwhile(repository, monkeypatch):
    commit = repository.commit("first")
    extract = commits.tarfile.TarFile.extractall

    def overtaken(tar, path, **options):
        extract(tar, path, **options)
        shutil.copytree(path, path.with_name("source"))

    monkeypatch.setattr(commits.tarfile.TarFile, "extractall", overtaken)
    code = commits.code_of(repository.root, "base", commit, own_python=False)
    assert ask(code, "import toy; print(toy.WHO)") == "first"
    assert list(code.folder.parent.iterdir()) == [code.folder]


def test_what_was_added_comes_from_the_commit_too(repository, monkeypatch, tmp_path):
    outside = tmp_path / "outside.py"
    outside.touch()
    first = repository.commit("first")
    second = repository.commit("second", mine="")
    inside = repository.root / "mine.py"
    monkeypatch.setenv(plugins.VARIABLE, f"{inside}{os.pathsep}{outside}")
    ours, theirs, present = (
        commits.code_of(repository.root, "base", commit, own_python=False)
        for commit in (first, second, None)
    )
    assert ours.variables[plugins.VARIABLE] == str(outside)
    assert theirs.variables[plugins.VARIABLE] == f"{theirs.folder / 'mine.py'}{os.pathsep}{outside}"
    assert present.variables[plugins.VARIABLE] == f"{inside}{os.pathsep}{outside}"


# Environments


def test_extras_are_those_that_are_installed_here(monkeypatch, tmp_path):
    here = {"intel-opencl-rt", "cupy-cuda13x"}
    found = lambda: [SimpleNamespace(name=name) for name in here]  # noqa: E731
    monkeypatch.setattr(commits.metadata, "distributions", found)
    ours = tmp_path / "ours"
    ours.mkdir()
    shutil.copy(PACKAGE.parent / "pyproject.toml", ours)
    assert commits._extras(ours) == "[cpu,cuda13]"
    here.clear()
    assert commits._extras(ours) == ""


def test_every_extra_of_a_back_end_is_known_by_what_it_brings():
    extras = commits.tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    for extra, distribution in commits.EXTRAS.items():
        brought = extras["optional-dependencies"][extra]
        assert any(each.startswith(distribution) for each in brought)


def test_another_project_has_no_extras(repository, tmp_path):
    assert commits._extras(repository.root) == ""
    with pytest.raises(UserError, match=r"no pyproject\.toml to install: try --same-python"):
        commits._extras(tmp_path)


@pytest.mark.long
def test_a_commit_gets_a_python_of_its_own(repository, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PYTHONPATH", str(repository.root))  # where toy.py is another one
    first = repository.commit("first")
    repository.commit("second")
    code = commits.code_of(repository.root, "base", first, own_python=True)
    assert Path(code.python) == code.folder / "bin/python"
    assert ask(code, "import toy; print(toy.WHO)") == "first"
    assert ask(code, "import sys; print(sys.prefix)") == str(code.folder)
    with pytest.raises(subprocess.CalledProcessError):
        ask(code, "import numpy")  # of the environment that the tests run in


def test_a_project_that_cannot_be_installed_is_told(repository, monkeypatch):
    commit = repository.commit("first")
    failing = [sys.executable, "-c", "import sys; print('no such thing\\n'); sys.exit('E: why')"]
    with pytest.raises(UserError, match=r"cannot build the environment: E: why: .*--same-python"):
        commits._install(failing)
    installed = []

    def install(command):
        installed.append(command)
        if len(installed) == 2:
            raise UserError("cannot")

    monkeypatch.setattr(commits, "_install", install)
    with pytest.raises(UserError, match="cannot"):
        commits.code_of(repository.root, "base", commit, own_python=True)
    monkeypatch.setattr(commits, "_install", making(installed))
    commits.code_of(repository.root, "base", commit, own_python=True)
    assert len(installed) == 4  # what failed is done again


def making(installed):
    """Return what stands in for installing: it makes the folder, and notes the command."""

    def install(command):
        installed.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)

    return install


def test_the_environment_of_a_commit_is_kept_and_that_of_the_working_tree_is_not(
    repository, monkeypatch
):
    installed = []
    monkeypatch.setattr(commits, "_install", making(installed))
    commit = repository.commit("first")

    def times(name):
        """Return how many commands it takes to get the environment."""
        before = len(installed)
        commits.code_of(repository.root, "base", name, own_python=True)
        return len(installed) - before

    assert [times(commit), times(commit)] == [2, 0]
    source = commits.code_of(repository.root, "base", commit, own_python=False).folder
    assert installed[1][-1] == str(source)
    environment = Path(commits.code_of(repository.root, "base", commit, own_python=True).python)
    stamp = environment.parents[1] / "installed"
    stamp.unlink()
    left = stamp.with_name("left")
    left.touch()
    assert times(commit) == 2 and stamp.exists() and not left.exists()
    assert [times(None), times(None)] == [2, 2]
    assert installed[-1][-1] == str(repository.root)


def test_nothing_of_another_python_leaks_into_what_is_installed(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    found = {}

    def run(command, env, **_):
        found.update(env)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(commits.subprocess, "run", run)
    commits._install(["pip"])
    assert not {"PYTHONPATH", "PYTHONHOME"} & found.keys()
    assert found["PATH"] == os.environ["PATH"]
