"""Simulations that ranks share: what one rank finds, to the bit, and a good end of bad runs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import runpy
import signal
import subprocess
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mpi_programs.simulations import Run, hash_of, moments
from mpi_runs import GUARD_S, ROOT, gpubench_started, process_of, run_gpubench, run_ranks

from gpubench.algorithms.hash_grid import HashGrid
from gpubench.base.errors import NotSupported
from gpubench.decomposed import DECOMPOSITIONS, Slabs, share
from gpubench.decomposed.room import BALANCE_EVERY
from gpubench.devices import Device
from gpubench.distributed.ranks import Ranks
from gpubench.problems.steps import axes
from gpubench.simulate import checkpoint
from gpubench.simulate.checkpoint import Checkpoint
from gpubench.simulate.setup import Setup
from gpubench.workloads.dpd import DPDStandard
from gpubench.workloads.sph import SPHDamBreak
from gpubench.workloads.workload import BlowUp, Workload

DEVICE = "opencl:intel"
COUNT = ROOT / "tools" / "count_particles.py"
BODIES = Run(
    "sph-rigid-body",
    900,
    {"length": 2.5, "bodies": 6, "drop": -0.6, "body_size": 0.7, "mach": 1.0},
    None,
    160,
    8,
)
RUNS = {
    # Flows along most of the tank, so that planes change hands.
    "dam-break": Run("sph-dam-break", 1500, {"mach": 0.8, "depth": 0.3}, None, 160, 8),
    # Euler's steps move by the velocities of before, which arrive with the migrants.
    "euler": Run(
        "sph-dam-break", 800, {"integrator": "euler", "time_step": 0.1, "mach": 0.8}, None, 30, 15
    ),
    # Bodies begin in the fluid, which flows, so that planes with bodies change hands.
    "bodies": BODIES,
    # A ring of parts of four planes; velocities for the drag travel as well.
    "dpd": Run("dpd-rozen2008", 1600, {}, None, 8, 4),
    "dpd-walls": Run("dpd-rayleigh-taylor", 500, {"gravity": 0.3}, None, 16, 8),
    # Shares of the hash grid's order in place of planes.
    "hashed": Run("sph-silva2012", 500, {"mach": 0.8}, None, 12, 6, "hash-grid"),
    "hashed-bodies": dataclasses.replace(BODIES, steps=16, algorithm="hash-grid"),
    # Parts without a particle.
    "one-particle": Run("sph-dam-break", 1, {"length": 12.0}, None, 20, 20),
}


@pytest.fixture(scope="module")
def alone(open_once):
    """Return what one process finds in a run."""
    device = open_once(DEVICE)
    return cache(lambda name: moments(RUNS[name], device))


# No row to spare, so that arrays are allocated anew where particles come together.
TIGHT = {"SPARE": 1.0, "SPARE_OF_EVEN": 1.0, "SPARE_EDGE": 1.0, "LEAST": 0, "SPARE_PLANES": 1}
# By ranks. Where planes change hands rarely, parts outgrow their rows.
CONSTANTS = {
    # As on CUDA, one particle of a pair computes the force on both, and candidates are marked.
    2: {**TIGHT, "BALANCE_EVERY": 64, "PAIRS_ONCE": ["opencl"], "MARKS": ["opencl"]},
    3: {},
    4: {**TIGHT, "BALANCE_EVERY": 32},
}


def shared(ranks, decomposition, names):
    """Return what so many ranks find in runs, by name."""
    runs = [dataclasses.replace(RUNS[name], decomposition=decomposition) for name in names]
    given = json.dumps([dataclasses.asdict(run) for run in runs])
    done = run_ranks(ranks, "simulations.py", DEVICE, given, json.dumps(CONSTANTS[ranks]))
    assert (done.returncode, done.stderr) == (0, "")
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


class TestTrajectories:
    # One test a start of ranks, so that no two processes of pytest start the same.
    @pytest.mark.parametrize(
        ("ranks", "decomposition", "names"),
        [
            (2, "slab", ("one-particle",)),
            pytest.param(3, "master", ("hashed-bodies",), marks=pytest.mark.long),
            pytest.param(
                2, "slab", ("dam-break", "bodies", "euler", "dpd"), marks=pytest.mark.long
            ),
            pytest.param(2, "master", ("euler", "dpd-walls", "hashed"), marks=pytest.mark.long),
            pytest.param(4, "slab", ("dam-break", "one-particle"), marks=pytest.mark.long),
            pytest.param(
                4,
                "master",
                ("bodies", "one-particle", "dpd"),
                marks=[pytest.mark.long, pytest.mark.thorough],
            ),
        ],
    )
    def test_are_those_of_one_rank_to_the_bit(self, alone, ranks, decomposition, names):
        found = shared(ranks, decomposition, names)
        for name in names:
            assert [(m["step"], m["bits"]) for m in found[name]] == [
                (m["step"], m["bits"]) for m in alone(name)
            ]
        for name in {"dam-break", "bodies"} & set(names):
            first, last = found[name][0]["bounds"], found[name][-1]["bounds"]
            # Planes change hands: every part is another one at the end.
            assert all(old != new for old, new in zip(first[1:-1], last[1:-1], strict=True))

    def test_the_fluid_acts_on_the_bodies(self, alone):
        assert all(m["touched"] for m in alone("bodies"))

    def test_moments_differ(self, alone):
        found = [m["bits"] for name in ("bodies", "one-particle") for m in alone(name)]
        assert len(set(found)) == len(found)


@pytest.mark.long
def test_particles_are_counted_by_id():
    done = run_ranks(
        2, str(COUNT), "--device", DEVICE, "--particles", "700",
        "--steps", "240", "--every", "4", "--parameter", "mach=0.8", "--parameter", "depth=0.3",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["ranks"], told["decomposition"], told["moments"]) == (2, "slab", 61)
    assert (told["lost"], told["doubled"]) == (0, 0)
    assert told["distinct_bounds"] > 2


@pytest.mark.parametrize(
    ("ids", "lost", "doubled"),
    [([2, 0, 1, 3], set(), set()), ([3, 1, 3, 1], {0, 2}, {1, 3}), ([], {0, 1, 2, 3}, set())],
)
def test_a_count_finds_who_is_lost_or_doubled(ids, lost, doubled):
    count = runpy.run_path(str(COUNT))["count"]
    assert count(np.array(ids, np.uint32), 4) == (lost, doubled)


SMALL = ("simulate", "sph-dam-break", "--device", DEVICE, "--particles", "800")
FALLING = (*SMALL, "--parameter", "mach=0.8", "--parameter", "depth=0.3")


class TestDeath:
    @pytest.mark.long
    def test_of_rank_0_leaves_a_checkpoint(self, open_once, tmp_path):
        path = tmp_path / "killed.npz"
        kill_one(0, 2, "slab", path)
        require_moment(checkpoint.load(path), open_once(DEVICE))

    @pytest.mark.long
    def test_of_another_leaves_one_that_any_number_of_ranks_goes_on_from(self, open_once, tmp_path):
        path, end = tmp_path / "killed.npz", tmp_path / "end.npz"
        kill_one(1, 3, "master", path)
        left = checkpoint.load(path)
        device = open_once(DEVICE)
        uninterrupted = require_moment(left, device)
        uninterrupted.advance(20)

        alone = left.setup.make(device)
        left.resume(alone)
        alone.advance(20)
        assert hash_of(alone.state()) == hash_of(uninterrupted.state())

        done = run_gpubench(
            2, "simulate", "sph-dam-break", "--device", DEVICE, "--resume", path,
            "--steps", str(left.step + 20), "--checkpoint", end,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "not bit for bit" not in done.stderr
        assert checkpoint.load(end).step == left.step + 20
        assert hash_of(checkpoint.load(end).state) == hash_of(uninterrupted.state())


def kill_one(rank: int, size: int, decomposition: str, path: Path) -> None:
    """Kill a rank in the middle of a run that keeps a checkpoint; see that it ends all."""
    with gpubench_started(
        size, *FALLING, "--steps", "1000000", "--decomposition", decomposition,
        "--checkpoint", path, "--checkpoint-every", "5",
    ) as process:  # fmt: skip
        wait_for_step(20, path, process)
        os.kill(process_of(rank, str(path)), signal.SIGKILL)
        _, said = process.communicate(timeout=GUARD_S)
    assert process.returncode != 0
    assert "Traceback" not in said


def require_moment(left: Checkpoint, device: Device) -> Workload:
    """Return a run without interruption at the step of a checkpoint; see that both are equal."""
    simulation = left.setup.make(device)
    simulation.advance(left.step)
    assert left.step >= 20
    assert hash_of(left.state) == hash_of(simulation.state())
    return simulation


def wait_for_step(step: int, path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a run has left a checkpoint of that step or a later one."""
    for _ in range(10 * GUARD_S):
        if path.exists() and checkpoint.load(path).step >= step:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    raise AssertionError(f"{path} is not at step {step} after {GUARD_S} s")


OUTPUTS = ("--checkpoint", "c.npz", "--frames", "frames", "--trajectory", "t.gsd")


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ("--decomposition", "slab"),
                "--decomposition slab needs two ranks or more, and this is one: start it with"
                " mpirun -n 2 gpubench simulate ... --decomposition slab",
            ),
            (
                ("--decomposition", "master"),
                "--decomposition master needs two ranks or more, and this is one: start it with"
                " mpirun -n 2 gpubench simulate ... --decomposition master",
            ),
            (("--decomposition", "halves"), "no decomposition 'halves': one of master, slab"),
        ],
    )
    def test_of_one_rank(self, gpubench_command, monkeypatch, tmp_path, arguments, message):
        monkeypatch.chdir(tmp_path)
        told = gpubench_command(*SMALL, *OUTPUTS, *arguments)
        assert told == (2, "", f"gpubench: {message}\n")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("workload", "arguments", "message"),
        [
            pytest.param(
                "sph-dam-break",
                ("--transport", "nccl"),
                "--transport nccl: needs CUDA, but rank 0 has opencl:intel: use --transport mpi",
                marks=pytest.mark.long,
            ),
            pytest.param(
                "sph-dam-break",
                ("--parameter", "length=1", "--particles", "1"),
                "2 ranks need at least 2 planes of cells along z, and the box has 1: ",
                marks=pytest.mark.long,
            ),
            (
                "constraint-fluid",
                (),
                "constraint-fluid runs on one rank: start it without mpirun; ",
            ),
        ],
    )
    def test_of_several_is_one_line(self, tmp_path, workload, arguments, message):
        done = run_gpubench(
            2, "simulate", workload, "--device", DEVICE, *OUTPUTS, *arguments, folder=tmp_path
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(rf"gpubench: rank \d of 2: {re.escape(message)}.*\n", done.stderr)
        assert not list(tmp_path.iterdir())

    @pytest.mark.long
    def test_a_refusal_leaves_the_ranks_as_they_were(self, open_once):
        setups = {
            '{"workload": "constraint-fluid", "particles": 800}': (
                "constraint-fluid runs on one rank: "
            ),
            # Each of two ranks is the other's neighbour on both sides.
            '{"workload": "dpd-standard", "particles": 100}': (
                "2 ranks need at least 4 planes of cells along z, and the box has 3: "
            ),
            '{"workload": "sph-dam-break", "particles": 800, "algorithm": "atomic-list"}': (
                "atomic-list does not sort anew, "
            ),
            '{"workload": "sph-dam-break", "particles": 800, "algorithm": "counting-resort"}': (
                "counting-resort does not sort anew, "
            ),
            '{"workload": "sph-dam-break", "particles": 800, "algorithm": "hash-grid"}': (
                "hash-grid scatters the planes of a box: ranks share it in the workloads of SPH"
                " with --decomposition master; "
            ),
            '{"workload": "sph-dam-break", "particles": 800, "skin": 0.1}': (
                "parts of a box keep no lists of neighbours: the skin must be 0"
            ),
            '{"workload": "sph-dam-break", "particles": 1, "parameters": {"length": 1.0}}': (
                "2 ranks need at least 2 planes of cells along z, and the box has 1: "
            ),
        }
        done = run_ranks(2, "refusals.py", DEVICE, f"[{','.join(setups)}]")
        assert (done.returncode, done.stderr) == (0, "")
        *refusals, good = done.stdout.splitlines()
        for said, message in zip(refusals, setups.values(), strict=True):
            assert said.startswith(message)
        alone = Setup("sph-dam-break", 800).make(open_once(DEVICE))
        alone.advance(3)
        assert good == hash_of(alone.state())

    def test_commands_of_one_process_end_in_one_line(self, tmp_path):
        done = run_gpubench(2, "check", folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(
            r"gpubench: rank \d of 2: check runs in one process: start it without mpirun\n",
            done.stderr,
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ("simulate sph-dam-break --steps 3 --steps 4", "--steps was given twice: .+"),
            (
                "simulate sph-dam-break --transport pigeon",
                "no transport 'pigeon': one of auto, mpi, nccl",
            ),
            ("simulate sph-dam-break --steps many", ".*'--steps'.*many.*"),
            ("frobnicate", "No such command 'frobnicate'.*"),
        ],
    )
    def test_what_every_rank_refuses_is_one_line(self, tmp_path, arguments, message):
        done = run_gpubench(3, *arguments.split(), folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(rf"gpubench: rank \d of 3: {message}\n", done.stderr)

    def test_no_command_is_one_help(self, tmp_path):
        done = run_gpubench(3, folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("Usage: gpubench") == 1
        assert len(done.stderr.splitlines()) > 20

    @pytest.mark.parametrize("command", ["check", "devices", "list", "report"])
    def test_commands_of_one_process(self, gpubench_command, monkeypatch, tmp_path, command):
        alone = Ranks(SimpleNamespace(), 0, 1, 0, 1)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(Ranks, "join", lambda: alone)
        monkeypatch.setenv("PMI_SIZE", "2")
        line = f"gpubench: {command} runs in one process: start it without mpirun\n"
        assert gpubench_command(command) == (2, "", line)
        assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_blow_up_leaves_the_checkpoint_of_before(open_once, tmp_path):
    path = tmp_path / "before.npz"
    parameters = {"time_step": 2.0, "mach": 1.0}
    done = run_gpubench(
        2, *SMALL, "--steps", "200", "--checkpoint", path, "--checkpoint-every", "1",
        *(f"--parameter={name}={value}" for name, value in parameters.items()),
    )  # fmt: skip
    alone = Setup("sph-dam-break", 800, parameters=parameters).make(open_once(DEVICE))
    left = checkpoint.load(path)
    alone.advance(left.step)
    alone.require_sound()
    assert hash_of(left.state) == hash_of(alone.state())
    alone.advance(1)
    with pytest.raises(BlowUp) as blown_up:
        alone.require_sound()
    assert (done.returncode, done.stdout) == (2, "")
    _, line = done.stderr.splitlines()  # the first says what is simulated
    # Of the particles that are too fast in one step, either run may name another.
    step, _, advice = str(blown_up.value).partition(": particle")
    assert line.startswith(f"gpubench: rank 0 of 2: {step}: particle ")
    assert line.endswith(
        f"{advice.partition(' ')[2].partition(' ')[2]}; the last good checkpoint is {path}"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["before.npz"]


def test_the_earliest_fault_of_all_ranks_is_told():
    """Steps are two words, of which the lower may look negative."""
    faults = [[1, -5, 0, 7], [0, 0, 0, 0], [1, 3, 0, 8], [1, 2, 1, 9]]
    rank = SimpleNamespace(
        team=SimpleNamespace(comm=SimpleNamespace(allgather=lambda _: faults)),
        device=SimpleNamespace(download=lambda _: np.zeros(4, np.int32)),
        fault=None,
    )
    earliest = Slabs.faults.__wrapped__
    assert earliest(rank) == [1, 3, 0, 8]
    faults[2][0] = 0
    assert earliest(rank) == [1, -5, 0, 7]
    faults[0][0] = faults[3][0] = 0
    assert not any(earliest(rank)[:1])


def test_a_study_leaves_out_what_ranks_cannot_share():
    """Of several subjects one may be a hash grid, which slabs and DPD cannot use."""
    for workload, decomposition in ((SPHDamBreak, "slab"), (DPDStandard, "master")):
        with pytest.raises(NotSupported, match="hash-grid scatters the planes"):
            share(workload, decomposition, SimpleNamespace(), HashGrid)


def test_studies_and_ranks_know_the_same_decompositions():
    assert tuple(DECOMPOSITIONS) == axes.DECOMPOSITIONS


@pytest.mark.long
def test_records_name_the_transport(tmp_path):
    done = run_gpubench(
        2, "run", "silva2012-scaling", "--quick", "--sweeps", "two", "--particles", "2000",
        "--device", DEVICE, "--oversubscribe", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*/*.json")
    shared = [r for r in json.loads(file.read_text())["records"] if r["input"].get("ranks") == 2]
    assert shared and {r["outcome"]["transport"] for r in shared} == {"mpi"}
    assert {r["steps"] % BALANCE_EVERY for r in shared} == {0}  # with their share of looks
