"""Several ranks: their ends, their devices, and rows that travel between them by MPI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpi_runs import mpirun, run_ranks

from gpubench.base.errors import UserError
from gpubench.devices import Device
from gpubench.distributed import ranks
from gpubench.distributed.ranks import Ranks, device_spec, launched_size
from gpubench.distributed.transport import Parcel, RankPlace, _lacks_nccl, _reach_each_other


class TestEnds:
    @pytest.mark.parametrize("size", [2, 4])
    def test_good(self, size):
        done = run_ranks(size, "ending.py", "good", "all")
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(done.stdout.splitlines()) == [
            f"rank {rank} of {size} of {size} here" for rank in range(size)
        ]

    @pytest.mark.parametrize("rank", [0, 3])
    def test_an_error_of_the_user_is_one_line(self, rank):
        done = run_ranks(4, "ending.py", "user-error", str(rank))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"gpubench: rank {rank} of 4: no such fluid\n"

    def test_the_same_error_in_all_ranks_is_one_line(self):
        done = run_ranks(4, "ending.py", "user-error", "all")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1

    def test_where_the_system_hides_the_token_each_rank_speaks(self):
        done = run_ranks(2, "ending.py", "user-error", "0", "no-token")
        assert (done.returncode, done.stderr) == (2, "gpubench: rank 0 of 2: no such fluid\n")

    def test_what_was_said_is_read_before_the_launcher_learns_of_the_end(self, tmp_path):
        noted = tmp_path / "unread"
        done = run_ranks(2, "stopped_launcher.py", str(noted))
        assert noted.read_text() == "0 0"
        assert (done.returncode, done.stdout) == (2, "the answer\n")
        assert done.stderr == "gpubench: rank 0 of 2: no such fluid\n"

    def test_another_error_comes_with_its_traceback(self):
        done = run_ranks(2, "ending.py", "error", "1")
        assert done.returncode == 2
        assert "Traceback" in done.stderr and "a step of 0 s" in done.stderr
        assert done.stderr.splitlines()[-1] == "gpubench: rank 1 of 2 ended by ZeroDivisionError"

    @pytest.mark.parametrize(
        ("how", "status", "text"),
        [
            ("exit", 7, ""),
            ("typer-exit", 3, ""),
            ("exit-text", 2, "gpubench: nothing left\n"),
            ("interrupt", 130, ""),
        ],
    )
    def test_an_exit_keeps_its_status(self, how, status, text):
        done = run_ranks(2, "ending.py", how, "0")
        assert (done.returncode, done.stderr) == (status, text)

    def test_ctrl_c_is_left_to_rank_0(self):
        done = run_ranks(2, "ending.py", "ignored-interrupt", "1")
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize(("size", "rank"), [(2, 0), (4, 2)])
    @pytest.mark.parametrize("how", ["kill", "crash"])
    def test_a_rank_that_dies_ends_all(self, how, size, rank):
        done = run_ranks(size, "ending.py", how, str(rank))
        assert (done.returncode != 0, done.stderr) == (True, "")

    @pytest.mark.parametrize("how", ["good", "user-error", "kill"])
    def test_nothing_of_a_run_stays_in_shared_memory(self, how):
        done = run_ranks(2, "ending.py", how, "0", "shared-memory")
        segments = re.findall("^/dev/shm/mpich_shm_.*", done.stdout, re.MULTILINE)
        assert segments
        assert not [name for name in segments if Path(name).exists()]


ENDLESS = sys.maxsize


@pytest.fixture
def pipe():
    """Return the descriptors of a pipe in which something waits to be read."""
    reader, writer = os.pipe()
    os.write(writer, b"a line\n")
    with os.fdopen(reader), os.fdopen(writer):
        yield reader, writer


def test_a_pipe_is_waited_for_until_it_was_read(pipe, monkeypatch):
    monkeypatch.setattr(ranks, "PATIENCE_MS", ENDLESS)
    reader, writer = pipe
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ranks.wait_until_read, writer)
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        os.read(reader, 3)
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        os.read(reader, 100)
        waiting.result()


def test_a_reader_that_never_reads_is_waited_for_no_longer_than_that(pipe, monkeypatch):
    monkeypatch.setattr(ranks, "PATIENCE_MS", 5)
    ranks.wait_until_read(pipe[1])


def test_a_reader_that_has_gone_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(ranks, "PATIENCE_MS", ENDLESS)
    reader, writer = os.pipe()
    with os.fdopen(writer):
        os.write(writer, b"a line\n")
        os.close(reader)
        ranks.wait_until_read(writer)


def test_what_is_no_pipe_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(ranks, "PATIENCE_MS", ENDLESS)
    (tmp_path / "log").write_text("more than was written to it")
    leader, terminal = os.openpty()
    with (tmp_path / "log").open() as file, os.fdopen(leader), os.fdopen(terminal):
        os.write(leader, b"typed before anybody asked\n")
        for descriptor in (file.fileno(), terminal):
            ranks.wait_until_read(descriptor)
    ranks.wait_until_read(terminal)  # closed by now


class TestLaunchedSize:
    @pytest.mark.parametrize(
        ("environment", "size"),
        [
            ({}, 1),
            ({"PMI_SIZE": "4"}, 4),
            ({"OMPI_COMM_WORLD_SIZE": "3"}, 3),
            ({"PMI_SIZE": "many"}, 1),
            ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "8"}, 8),
            ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, 1),  # a batch script
        ],
    )
    def test_is_what_the_launcher_says(self, environment, size):
        assert launched_size(environment) == size

    def test_loads_no_mpi(self):
        code = (
            "import sys; from gpubench.distributed.ranks import launched_size; launched_size();"
            " sys.exit('mpi4py' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def fake_ranks(rank: int, size: int) -> Ranks:
    nobody: Any = None
    return Ranks(nobody, rank, size, rank, size)


class TestDeviceSpec:
    @pytest.mark.parametrize(
        ("spec", "oversubscribed", "gpus", "opened"),
        [
            ("cuda", False, 4, "cuda:2"),
            ("auto", False, 8, "cuda:2"),
            ("cuda", True, 2, "cuda:0"),
            ("auto", False, None, "auto"),
            ("auto", False, 0, "auto"),
            ("cuda", False, 0, "cuda"),  # `open_device` says what is missing
            ("opencl:pocl", False, 1, "opencl:pocl"),
            ("cuda:1", True, 2, "cuda:1"),
            ("nonsense", False, 4, "nonsense"),
        ],
    )
    def test_of_rank_2_of_4(self, spec, oversubscribed, gpus, opened):
        assert device_spec(fake_ranks(2, 4), spec, oversubscribed, gpus) == opened

    def test_one_rank_opens_what_it_is_told(self):
        assert device_spec(fake_ranks(0, 1), "cuda:1", False, 2) == "cuda:1"

    @pytest.mark.parametrize(
        ("spec", "message"),
        [("cuda", r"4 ranks on this host, but 2 GPU"), ("cuda:1", r"cuda:1 is one GPU for 4")],
    )
    def test_gpus_are_not_shared_unasked(self, spec, message):
        with pytest.raises(UserError, match=message):
            device_spec(fake_ranks(2, 4), spec, False, 2)

    def test_one_gpu_for_two_ranks_is_one_line(self):
        done = run_ranks(2, "exchange.py", "cuda:0", "auto", "1")
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "--device cuda:0 is one GPU for 2 ranks" in line


class TestJoin:
    def test_without_mpi4py_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "mpi4py", None)
        with pytest.raises(UserError, match=r"pip install 'gpubench-particles\[mpi\]'"):
            Ranks.join.__wrapped__(Ranks)

    def test_a_launcher_of_another_mpi_is_refused(self, monkeypatch):
        world = SimpleNamespace(size=1)
        mpi = SimpleNamespace(COMM_WORLD=world, Get_library_version=lambda: "MPICH  5\nmore")
        monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=mpi))
        monkeypatch.setenv("PMI_SIZE", "2")
        with pytest.raises(UserError, match=r"started 2 ranks, but each is alone: .* MPICH 5"):
            Ranks.join.__wrapped__(Ranks)


class TestRows:
    @pytest.mark.second_runtime
    @pytest.mark.parametrize(("shape", "dtype"), [((9, 4), np.float32), ((9,), np.int32)])
    def test_go_to_the_host_and_back(self, device: Device, shape, dtype):
        host = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
        array = device.upload(host)
        target = device.upload(np.zeros_like(host))
        buffer = device.host_buffer(4 * device.row_bytes(array) + 7)[: 4 * device.row_bytes(array)]
        device.read_rows(array, 3, buffer)()
        device.write_rows(target, 5, buffer)()
        want = np.zeros_like(host)
        want[5:9] = host[3:7]
        np.testing.assert_array_equal(device.download(target), want)

    def test_are_read_in_the_order_of_the_queue(self, device: Device):
        array = device.upload(np.zeros(4, np.int32))
        buffer = device.host_buffer(8)
        device.fill(array, 0xFF)
        wait = device.read_rows(array, 1, buffer)
        device.fill(array, 0)
        wait()
        assert (buffer.view(np.int32) == -1).all()

    @pytest.mark.parametrize(("first", "rows"), [(-1, 2), (3, 2), (0, -1)])
    def test_outside_an_array_are_no_parcel(self, first, rows):
        with pytest.raises(ValueError, match="of an array of 4"):
            Parcel(0, np.zeros((4, 4), np.float32), first, rows)


class TestTransport:
    @pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.long)])
    def test_rows_arrive_intact(self, size):
        done = run_ranks(size, "exchange.py", "opencl", "auto", "1")
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(done.stdout.splitlines()) == [
            f"rank {rank} of {size} mpi: intact" for rank in range(size)
        ]

    def test_without_cuda_says_what_to_use(self):
        done = run_ranks(2, "exchange.py", "opencl", "nccl", "1")
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "--transport nccl: needs CUDA, but rank 0 has opencl:" in line

    def test_an_unknown_name_is_refused(self):
        done = run_ranks(2, "exchange.py", "opencl", "pigeon", "1")
        assert done.returncode == 2
        assert "no transport 'pigeon': auto, mpi, nccl" in done.stderr


def place(gpu: str, host: str = "a", peers: str = "01", has_nccl: bool = True) -> RankPlace:
    return RankPlace("cuda:0", host, gpu, frozenset(peers), has_nccl)


class TestWhatGPUsCanDo:
    @pytest.mark.parametrize(
        ("places", "nccl", "reach"),
        [
            ([place("0"), place("1")], None, True),
            ([place("0"), place("0", "b")], None, False),
            ([place("0"), place("0")], "some share one", False),
            ([place("0"), place("1", has_nccl=False)], "no NCCL library", True),
            ([place("0", peers="0"), place("1", peers="1")], None, False),
        ],
    )
    def test_is_known_before_it_is_tried(self, places, nccl, reach):
        lacks = _lacks_nccl(places)
        assert (lacks is None) if nccl is None else (lacks is not None and nccl in lacks)
        assert _reach_each_other(places) is reach


def test_mpirun_is_there():
    assert mpirun()
