"""Outputs that one process at a time may write."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys

import pytest

from gpubench.errors import UserError
from gpubench.locks import sole_writer

HOLDER = """
import sys
from pathlib import Path
from gpubench.locks import sole_writer
with sole_writer(Path("out"), Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path):
    return tmp_path / "deep" / "out.lock"


def hold(lock):
    """Hold the lock and let it go; return whether that was possible."""
    try:
        with sole_writer(lock.with_name("out"), lock):
            assert lock.exists()
    except UserError as error:
        assert str(error).startswith(f"another process is writing {lock.with_name('out')}: ")
        return False
    return True


def test_the_lock_of_a_killed_process_is_free(lock):
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert not hold(lock)
        holder.kill()
    assert lock.exists()
    assert hold(lock) and not lock.exists()


def test_a_lock_file_that_its_holder_removes_meanwhile_is_made_anew(lock, monkeypatch):
    real, removed = fcntl.flock, []

    def flock(descriptor, operation):
        if not removed:
            removed.append(lock.unlink())
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with sole_writer(lock, lock):
        assert removed and lock.exists()
        assert not hold(lock)


def test_a_file_system_without_locks_is_written_without_one(lock, monkeypatch):
    numbers = iter((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO))

    def flock(descriptor, operation):
        raise OSError(next(numbers), "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert hold(lock) and hold(lock) and hold(lock)
    refused = pytest.raises(UserError, match=r"cannot write .*out\.lock: no locks")
    with refused, sole_writer(lock, lock):
        pass
