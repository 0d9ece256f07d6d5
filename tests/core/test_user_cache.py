"""Compiled code is kept where that can be, and nothing that goes wrong with it stops a run."""

from __future__ import annotations

import _ctypes
import fcntl
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpubench.base import paths, user_cache
from gpubench.base.errors import UserError
from gpubench.devices import cuda, open_device, opencl
from gpubench.devices.program_cache import ProgramCache, mend_databases

TO_REMEMBER_IN = user_cache._folder_to_remember_in  # see conftest.py
# Compiles and launches a kernel, as every measurement does.
LAUNCH = """
import numpy as np
from gpubench.devices import open_device
with open_device("opencl:intel") as device:
    order, positions = np.array([1, 0], np.int32), np.eye(2, 4, dtype=np.float32)
    out = device.empty((2, 4), np.float32)
    gather = device.kernel("gather.cu", "gather", BLOCK=64)
    gather(1, 64, device.upload(order), device.upload(positions), out, 2)
    print(device.download(out).tolist() == positions[::-1].tolist())
"""


def launch(cache: Path, temporary: Path) -> tuple[str, list[str]]:
    """Return what LAUNCH prints in a process of its own, and its lines on standard error."""
    places = {"XDG_CACHE_HOME": str(cache), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LAUNCH],
        env=os.environ | places, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr.splitlines()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for this process: the package's folder in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "no folder"))
    monkeypatch.delenv("PYOPENCL_NO_CACHE", raising=False)
    return tmp_path / "cache" / "gpubench"


@pytest.mark.parametrize("harm", [None, "content", "flipped", "cut", "code", "no folder"])
def test_remembered_value_is_never_stale_or_damaged(
    cache: Path, monkeypatch: pytest.MonkeyPatch, harm: str | None
) -> None:
    monkeypatch.setattr(user_cache, "_folder_to_remember_in", TO_REMEMBER_IN)
    values = iter([[1.5], [2.5]])
    user_cache.remembered("thing", [b"a", b"b"], lambda: next(values))
    file = cache / "thing.pickle"
    kept = file.read_bytes()
    content = [b"ab", b""] if harm == "content" else [b"a", b"b"]
    if harm == "flipped":
        file.write_bytes(kept[:-3] + bytes([kept[-3] ^ 1]) + kept[-2:])
    elif harm == "cut":
        file.write_bytes(kept[:-1])
    elif harm == "code":
        monkeypatch.setattr(user_cache, "_own_files", lambda: b"others")
    elif harm == "no folder":
        shutil.rmtree(cache)
        cache.touch()
    found = user_cache.remembered("thing", content, lambda: next(values))
    assert found == ([1.5] if harm is None else [2.5])


def spoil(way: str, path: Path) -> None:
    """Leave a file empty, cut, or with other content, or a directory in its place."""
    content = path.read_bytes()
    path.unlink()
    if way == "directory":
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2]}.get(way, b"garbage"))


@pytest.mark.parametrize("way", ["empty", "cut", "garbage", "directory"])
def test_a_damaged_file_is_made_anew(cache: Path, way: str) -> None:
    made = itertools.count()

    def make() -> bytes:
        return f"code {next(made)}".encode()

    path = cache / "code"
    assert [user_cache.kept(path, make) for _ in range(2)] == [b"code 0"] * 2
    spoil(way, path)
    assert user_cache.kept(path, make) == b"code 1"
    assert user_cache.kept(path, make) == b"code 1"


@pytest.mark.parametrize("way", ["empty", "cut", "garbage", "directory"])
def test_the_list_of_runtimes_is_made_anew(cache: Path, way: str) -> None:
    runtimes = {"one.icd": b"libone.so\n", "two.icd": b"libtwo.so\n"}
    folder = opencl._vendors(cache, runtimes)
    assert folder is not None
    spoil(way, folder / "one.icd")
    assert opencl._vendors(cache, runtimes) == folder
    assert (folder / "one.icd").read_bytes() == b"libone.so\n"
    shutil.rmtree(folder)
    folder.touch()
    assert opencl._vendors(cache, runtimes) == folder
    assert (folder / "two.icd").read_bytes() == b"libtwo.so\n"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Callable[[], object]:
    """What compiles a small kernel on a device of its own, and keeps it in that cache."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "prelude").symlink_to(paths.kernel_folder() / "prelude")
    (kernels / "mark.cu").write_text("__global__ void mark(GLOBAL int *out) { out[0] = 1; }\n")
    monkeypatch.setattr(paths, "kernel_folder", lambda: kernels)

    def compile_mark() -> object:
        with open_device("opencl:intel") as device:
            return device.kernel("mark.cu", "mark")

    return compile_mark


class TestWhereItIsKept:
    def test_without_a_cache_folder_among_the_temporary_files(self, tmp_path: Path) -> None:
        blocked = tmp_path / "file"
        blocked.touch()
        instead = tmp_path / f"gpubench-{os.getuid()}"
        printed, lines = launch(blocked, tmp_path)
        assert printed == "True"
        assert lines == [
            f"gpubench: cannot keep compiled code in {blocked} (Not a directory): it goes to"
            f" {instead}"
        ]
        assert list((instead / "gpubench" / "opencl").glob("*/binary"))
        assert instead.stat().st_mode & 0o077 == 0

    def test_where_nothing_can_be_written_nothing_is_kept(self, tmp_path: Path) -> None:
        blocked = tmp_path / "file"
        blocked.touch()
        printed, lines = launch(blocked, blocked)
        assert printed == "True"
        assert lines == [
            f"gpubench: cannot keep compiled code in {blocked} (Not a directory) or"
            f" {blocked}/gpubench-{os.getuid()}: every run compiles anew"
        ]
        assert list(tmp_path.iterdir()) == [blocked]

    def test_a_full_cache_folder_is_not_used(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        full = SimpleNamespace(f_bavail=255, f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda place: full)
        assert user_cache.usable_cache() is None
        assert "(it is full)" in capsys.readouterr().err
        assert os.environ["PYOPENCL_NO_CACHE"] == "1"
        with pytest.raises(UserError, match="name one in XDG_CACHE_HOME"):
            paths.cache_folder()
        assert user_cache.usable_cache() is None
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize("is_old", [True, False])
    def test_one_without_a_home_is_not_made_in_the_working_folder(
        self, is_old: bool, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def without_home() -> str:
            if is_old:
                return "~/.cache"
            raise RuntimeError("could not determine the home directory")

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("platformdirs.user_cache_dir", without_home)
        assert user_cache.usable_cache() is None
        assert list(tmp_path.iterdir()) == []

    def test_what_others_can_write_to_is_not_used(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        cache.parent.touch()
        instead = tmp_path / f"gpubench-{os.getuid()}"
        instead.mkdir()
        instead.chmod(0o777)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        assert user_cache.usable_cache() is None
        assert list(instead.iterdir()) == []

    def test_a_file_that_cannot_be_written_is_left_out(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").touch()
        for name in ("one", "other"):
            user_cache.keep(tmp_path / "file" / name, b"code")
        assert capsys.readouterr().err == (
            f"gpubench: compiled code is not kept in {tmp_path}/file: File exists\n"
        )


class TestProgramsOfOpenCL:
    @pytest.fixture
    def in_use(self, cache: Path) -> ProgramCache:
        """A cache as any process has it."""
        (cache / "opencl").mkdir(parents=True)
        return ProgramCache(SimpleNamespace())

    def test_what_a_killed_process_left_is_removed(self, in_use: ProgramCache, cache: Path) -> None:
        lock = cache / "opencl" / "lock"
        holder = (
            "import sys; from types import SimpleNamespace\n"
            "from gpubench.devices.program_cache import ProgramCache\n"
            "def work():\n"
            f"    open({str(lock)!r}, 'x'); print(flush=True); sys.stdin.read()\n"
            "ProgramCache(SimpleNamespace()).build(work)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            in_use.build(lambda: None)
            assert lock.exists()  # its process lives
            process.kill()
        in_use.build(lambda: None)
        assert not lock.exists()

    def test_a_dead_lock_costs_nothing(self, compiled: Callable[[], object], cache: Path) -> None:
        (cache / "opencl").mkdir(parents=True)
        (cache / "opencl" / "lock").touch()
        compiled()
        assert list((cache / "opencl").glob("*/binary"))

    @pytest.mark.parametrize("way", ["garbage", "empty", "directory", "no folder"])
    def test_a_damaged_cache_is_made_anew(
        self, way: str, compiled: Callable[[], object], cache: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        compiled()
        folder = cache / "opencl"
        (binary,) = folder.glob("*/binary")
        good = binary.read_bytes()
        if way == "no folder":
            folder.rename(cache / "elsewhere")
            folder.touch()
        else:
            spoil(way, binary)
        assert compiled() is not None
        assert binary.read_bytes()[:4] == good[:4]
        assert capsys.readouterr().err == ""

    def test_one_that_others_work_with_is_reported_once_and_skipped(
        self, compiled: Callable[[], object], cache: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        compiled()
        folder = cache / "opencl"
        (info,) = folder.glob("*/info")
        info.write_bytes(b"garbage")
        with (folder / "in-use").open() as other:
            fcntl.flock(other, fcntl.LOCK_SH)
            assert compiled() is not None
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"gpubench: compiled code is not kept in {folder} any more: ")
        assert "UnpicklingError" in line

    @pytest.mark.parametrize("way", ["sound", "garbage", "cut", "directory", "no folder"])
    def test_databases_that_are_damaged_are_removed(
        self, way: str, cache: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        monkeypatch.setenv("PYOPENCL_NO_CACHE", "")
        folder = cache.parent / "pytools"
        if way == "no folder":
            folder.parent.mkdir()
            folder.touch()
        else:
            folder.mkdir(parents=True)
            path = folder / "pdict-v5-pyopencl-invoker-cache-3.sqlite"
            with closing(sqlite3.connect(path)) as database:
                database.execute("CREATE TABLE dict (keyhash TEXT NOT NULL PRIMARY KEY)")
            if way != "sound":
                spoil(way, path)
        mend_databases()
        is_unusable = way in ("directory", "no folder")
        assert os.environ["PYOPENCL_NO_CACHE"] == ("1" if is_unusable else "")
        said = capsys.readouterr().err
        assert said.startswith("gpubench: compiled code is not kept: " if is_unusable else "")
        assert len(said.splitlines()) == is_unusable
        if not is_unusable:
            assert path.exists() == (way == "sound")

    def test_what_does_not_compile_is_no_failure_of_the_cache(
        self, compiled: Callable[[], object], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (paths.kernel_folder() / "mark.cu").write_text("__global__ void mark() { voodoo; }")
        with pytest.raises(Exception, match="voodoo"):
            compiled()
        assert capsys.readouterr().err == ""


class TestCodeForCUDA:
    """Of a device without its GPU, since compiling needs none."""

    @pytest.fixture
    def device(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        device: Any = object.__new__(cuda.CUDADevice)
        device._compiler = SimpleNamespace(compile=lambda source, **options: b"code")
        device.architecture = "sm_90"
        monkeypatch.setattr(cuda, "_nvcc_version", lambda: "12.8")
        return device

    @pytest.fixture
    def commands(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """Commands of nvcc, which makes a library of any source."""
        given: list[list[str]] = []

        def compile_library(command: list[str], **options: Any) -> Any:
            given.append(command)
            shutil.copy(_ctypes.__file__, command[command.index("-o") + 1])
            return SimpleNamespace(returncode=0)

        monkeypatch.setattr(subprocess, "run", compile_library)
        return given

    @pytest.mark.parametrize("is_kept", [True, False])
    def test_it_is_kept_where_that_can_be(
        self, is_kept: bool, device: Any, commands: list[list[str]], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        folder = tmp_path / "cache"
        for module in (cuda, user_cache):
            monkeypatch.setattr(module, "usable_cache", lambda: folder if is_kept else None)
        for _ in range(2):
            assert device._cubin("gather.cu", []) == b"code"
            assert device.library("cub_radix_sort.cu") is not None
        assert len(commands) == (1 if is_kept else 2)
        kept = sorted(path.suffix for path in folder.iterdir()) if is_kept else []
        assert kept == ([".code", ".code"] if is_kept else [])
        assert not any(Path(command[command.index("-o") + 1]).exists() for command in commands)

    def test_other_headers_are_another_library(
        self, device: Any, commands: list[list[str]], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(cuda, "usable_cache", lambda: tmp_path / "cache")
        for headers in ("", str(tmp_path), "", str(tmp_path)):
            device.library("cub_version.cu", headers=headers)
        assert [f"-I{tmp_path}" in command for command in commands] == [False, True]
