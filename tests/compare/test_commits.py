"""Codes of commits: found in a repository, and laid out."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys

import pytest

from gpubench.base import plugins
from gpubench.base.errors import UserError
from gpubench.compare import commits

WHO = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_AUTHOR_DATE": "2026-01-31T12:00:00Z",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_COMMITTER_DATE": "2026-01-31T12:00:00Z", "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}  # fmt: skip


class Repository:
    """A repository whose commits each change who toy.py says it is."""

    def __init__(self, root):
        self.root = root
        root.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

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
        commits.code_of(repository.root, name, commit)
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
    code = commits.code_of(repository.root, "base", commit)
    kept = code.folder / "kept"
    kept.touch()
    again = commits.code_of(repository.root, "head", commit)
    assert again.folder == code.folder and kept.exists()
    assert {path.name for path in code.folder.iterdir()} == {
        "toy.py", "kept",
    }  # fmt: skip
    assert list(code.folder.parent.iterdir()) == [code.folder]  # and nothing half done beside


def test_a_full_disk_is_one_line(repository, monkeypatch):
    """It is no verdict of `compare`."""
    commit = repository.commit("first")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(commits.tarfile.TarFile, "extractall", full)
    with pytest.raises(UserError, match="No space left"):
        commits.code_of(repository.root, "base", commit)


def test_another_process_may_lay_out_the_same_commit_meanwhile(repository, monkeypatch):
    commit = repository.commit("first")
    extract = commits.tarfile.TarFile.extractall

    def overtaken(tar, path, **options):
        extract(tar, path, **options)
        shutil.copytree(path, path.with_name("source"))

    monkeypatch.setattr(commits.tarfile.TarFile, "extractall", overtaken)
    code = commits.code_of(repository.root, "base", commit)
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
        commits.code_of(repository.root, "base", commit) for commit in (first, second, None)
    )
    assert ours.variables[plugins.VARIABLE] == str(outside)
    assert theirs.variables[plugins.VARIABLE] == f"{theirs.folder / 'mine.py'}{os.pathsep}{outside}"
    assert present.variables[plugins.VARIABLE] == f"{inside}{os.pathsep}{outside}"


def test_a_package_used_as_it_lies_in_the_repository_is_the_commits(repository, monkeypatch):
    """As an editable installation puts the folder of a package on the path of all processes."""
    (repository.root / "src").mkdir()
    old = repository.commit("old", **{"src/inside": "WHO = 'old'\n"})
    (repository.root / "src" / "inside.py").write_text("WHO = 'new'\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(repository.root / "src")])
    for commit, who in ((old, "old"), (None, "new")):
        code = commits.code_of(repository.root, "base", commit)
        assert ask(code, "import inside; print(inside.WHO)") == who
