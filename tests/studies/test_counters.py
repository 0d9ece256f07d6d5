"""Counters of Nsight Compute: the format of its CSV, and a stand-in for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeDevice

from gpubench.studies import counters
from gpubench.studies.counters import Counting, Unreadable, counters_in, read_counters
from gpubench.studies.plan import plan
from gpubench.studies.study import parse_study

# As ncu writes them in its header, in the order in which it was asked.
NAMES = [
    "gpu__time_duration.sum", "dram__bytes.sum", "lts__t_bytes.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum", "smsp__inst_executed.sum",
    "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread",
]  # fmt: skip
UNITS = ("ns", "byte", "byte", "", "inst", "%", "%", "register/thread")


def sample(*kernels: tuple[str, ...], names: list[str] = NAMES) -> str:
    """Return what `ncu --csv --page raw --print-units base` writes: a sample of its format."""
    about = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
             "Block Size", "Grid Size", "Device", "CC")  # fmt: skip
    own = ("0", "4711", "python3.12", "127.0.0.1", "count", "1", "13", "(128, 1, 1)",
           "(8192, 1, 1)", "0", "9.0")  # fmt: skip
    lines = [(*about, *names), ("",) * len(about) + UNITS[: len(names)]]
    lines += [(*own, *values[: len(names)]) for values in kernels]
    quoted = [",".join(f'"{value}"' for value in line) for line in lines]
    said = ["==PROF== Connected to process 4711 (/usr/bin/python3.12)",
            '==PROF== Profiling "count" - 0: 0%....50%....100% - 3 passes']  # fmt: skip
    return "\n".join([*said, "==PROF== Disconnected from process 4711", *quoted, ""])


SORT = ("10,000", "3,000,000", "5,000,000", "1,000", "200,000", "40", "90", "32")
QUERY = ("30,000", "1,000,000", "9,000,000", "7,000", "600,000", "80.5", "50", "40")


def test_kernels_become_one_launch() -> None:
    found = counters_in(sample(SORT, QUERY), launches=2)
    assert found == {
        "kernels": 1,
        "kernel_ns": 20000,
        "dram_bytes": 2e6,
        "l2_bytes": 7e6,
        "l1_wavefronts": 4000,
        "instructions": 400000,
        "issue_percent": 70.375,  # by time: a quarter of 40, three of 80.5
        "occupancy_percent": 60,
        "registers": 40,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (sample(SORT, names=NAMES[:-1]), "ncu reports no launch__registers_per_thread"),
        ("==ERROR== nothing\n", "ncu reports no gpu__time_duration.sum"),
        (sample(), "ncu saw no kernel"),
        (sample(("n/a", *SORT[1:])), "no number for gpu__time_duration.sum"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        counters_in(text)


STUDY = """
title = "One"
question = "What does it move?"
seed = 1
[[sweeps]]
name = "one"
particles = [256]
per_cell = [4]
distribution = ["uniform"]
order = ["random"]
modes = ["hot"]
[[subjects]]
algorithm = "counting-sort"
form = "order"
"""


def ncu(folder: Path, said: str, status: int = 0) -> None:
    """Write an ncu that runs its command and logs what it has seen."""
    program = (
        "import subprocess, sys\n"
        "at = sys.argv.index('--metrics')\n"
        "done = subprocess.run(sys.argv[at + 2:]).returncode\n"
        "log = open(sys.argv[sys.argv.index('--log-file') + 1], 'w')\n"
        f"log.write({said!r})\n"
        f"sys.exit(done or {status})\n"
    )
    path = folder / "ncu"
    path.write_text(f"#!{sys.executable}\n{program}")
    path.chmod(0o755)


@pytest.mark.long
def test_a_launch_runs_under_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (group,) = plan(parse_study("one", STUDY))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    ncu(tmp_path, sample(SORT))
    found = read_counters(group, group.sweep.subjects[0], "opencl:intel")
    assert found == counters_in(sample(SORT))
    ncu(tmp_path, "==ERROR== ERR_NVGPUCTRPERM - no permission\n", status=1)
    with pytest.raises(Unreadable, match="ERR_NVGPUCTRPERM"):
        read_counters(group, group.sweep.subjects[0], "opencl:intel")


@pytest.mark.parametrize(
    ("backend", "said"),
    [("opencl", "they need an NVIDIA GPU"), ("cuda", "there is no ncu: install Nsight Compute")],
)
def test_without_them_one_line_says_why(
    backend: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    lines: list[str] = []
    Counting((), FakeDevice(backend=backend), lines.append)
    assert len(lines) == 1 and said in lines[0]


def test_after_a_failure_no_further_launch_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def fail(*given: Any) -> None:
        tried.append(given)
        raise Unreadable("ERR_NVGPUCTRPERM")

    monkeypatch.setattr(counters, "read_counters", fail)
    monkeypatch.setattr(counters.shutil, "which", lambda name: name)
    groups = plan(parse_study("one", STUDY.replace("[256]", "[256, 512]")))
    lines: list[str] = []
    counting = Counting(groups, FakeDevice(), lines.append)
    assert [counting.read(group, group.sweep.subjects[0]) for group in groups] == [None, None]
    assert len(tried) == 1 and lines == [
        "no counters from here on: counting-sort order: ERR_NVGPUCTRPERM"
    ]
