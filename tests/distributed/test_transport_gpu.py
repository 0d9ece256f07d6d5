"""Rows that travel between two GPUs, by every transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mpi_runs import run_ranks

from gpubench.devices import survey

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True, scope="module")
def two_gpus() -> Iterator[None]:
    """Skip on a machine with fewer GPUs."""
    gpus = sum(report.backend == "cuda" and report.usable for report in survey())
    if gpus < 2:
        pytest.skip(f"needs two NVIDIA GPUs, and there are {gpus}")
    yield


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["mpi", "nccl"])
def test_rows_arrive_intact(name, seed):
    done = run_ranks(2, "exchange.py", "cuda", name, str(seed))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 2 {name}: intact" for r in (0, 1)]


def test_auto_takes_nccl():
    done = run_ranks(2, "exchange.py", "cuda", "auto", "3")
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 2 nccl: intact" in done.stdout
