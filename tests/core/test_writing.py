"""Files that are there whole, and locks among processes."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from gpubench.base import writing
from gpubench.base.errors import UserError
from gpubench.base.writing import Lock, whole_file, write_whole


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    with whole_file(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_text() == "new"
    write_whole(path, "newer")
    assert path.read_text() == "newer" and list(path.parent.iterdir()) == [path]


def test_several_writers_of_one_file_leave_each_other_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with whole_file(path) as first:
        with whole_file(path) as second:
            second.write(b"second")
        assert path.read_text() == "second"
        first.write(b"first")
    assert path.read_text() == "first" and list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    code = (
        "import os, pathlib, sys; from gpubench.base.writing import whole_file\n"
        "with whole_file(pathlib.Path(sys.argv[1])) as file: os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 9
    assert len(list(tmp_path.iterdir())) == 1
    write_whole(path, "new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_is_refused_at_once_or_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".lock"
    with Lock(path, "not now"):
        with pytest.raises(UserError, match="not now"):
            Lock(path, "not now")
        code = (
            "import pathlib, sys; from gpubench.base.writing import Lock\n"
            "print('waits', flush=True)\n"
            "with Lock(pathlib.Path(sys.argv[1])): print('has it', flush=True)"
        )
        other = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
        assert other.stdout is not None and other.stdout.readline() == b"waits\n"
        assert other.poll() is None
    with other:
        assert other.stdout.read() == b"has it\n"
    assert other.returncode == 0 and list(path.parent.iterdir()) == []


def test_a_lock_that_is_gone_before_it_is_taken_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last owner may remove the file after it was opened, and before it is locked."""
    path = tmp_path / ".lock"
    flock, removed = fcntl.flock, []

    def overtaken(descriptor: int, operation: int) -> None:
        if not removed:
            removed.append(path.unlink())
        flock(descriptor, operation)

    monkeypatch.setattr(writing.fcntl, "flock", overtaken)
    with Lock(path, "not now"), pytest.raises(UserError, match="not now"):
        Lock(path, "not now")


def test_a_file_system_without_locks_is_told_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(writing.fcntl, "flock", unknown)
    write_whole(tmp_path / "a.txt", "new")
    assert capsys.readouterr().err == ""
    with Lock(tmp_path / ".lock", "not now"), Lock(tmp_path / ".lock", "not now"):
        pass
    assert f"{tmp_path} is on a file system without locks" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
