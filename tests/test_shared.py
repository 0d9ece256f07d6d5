"""Simulations that ranks share: what one rank finds, to the bit, and a good end of bad runs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpi_programs.simulations import Run, hash_of, moments
from mpi_runs import ROOT, gpubench_started, process_of, run_gpubench, run_ranks

from gpubench import cli
from gpubench.simulate import checkpoint
from gpubench.simulate.setup import Setup
from gpubench.workloads.workload import BlowUp

DEVICE = "opencl:intel"
RUNS = {
    # Flows along most of the tank, so that planes change hands.
    "dam-break": Run("sph-dam-break", 1500, {"mach": 0.8, "depth": 0.3}, None, 192, 32),
    # Euler's steps move by the velocities of before, which arrive with whoever crosses over.
    "euler": Run(
        "sph-dam-break", 800, {"integrator": "euler", "time_step": 0.1, "mach": 0.8}, None, 30, 15
    ),
    # Begins in the fluid, so that there are contacts from the first step on.
    "bodies": Run(
        "sph-rigid-body", 900, {"drop": -0.6, "body_size": 0.7, "mach": 0.4}, None, 40, 20
    ),
    # Parts without a particle.
    "one-particle": Run("sph-dam-break", 1, {"length": 12.0}, None, 20, 20),
}


@pytest.fixture(scope="module")
def alone(open_once):
    """Return what one process finds in each run."""
    device = open_once(DEVICE)
    return {name: moments(run, device) for name, run in RUNS.items()}


@pytest.fixture(scope="module", params=[2, 4])
def shared(request):
    """Return what so many ranks find in each run, by decomposition and name."""
    runs = {
        (decomposition, name): dataclasses.replace(run, decomposition=decomposition)
        for decomposition in ("slab", "master")
        for name, run in RUNS.items()
    }
    given = json.dumps([dataclasses.asdict(run) for run in runs.values()])
    done = run_ranks(request.param, "simulations.py", DEVICE, given, seconds=120)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(zip(runs, map(json.loads, done.stdout.splitlines()), strict=True))


class TestTrajectories:
    @pytest.mark.parametrize("name", RUNS)
    @pytest.mark.parametrize("decomposition", ["slab", "master"])
    def test_are_those_of_one_rank_to_the_bit(self, alone, shared, decomposition, name):
        found = shared[decomposition, name]
        assert [(m["step"], m["bits"]) for m in found] == [
            (m["step"], m["bits"]) for m in alone[name]
        ]

    @pytest.mark.parametrize("decomposition", ["slab", "master"])
    def test_planes_change_hands(self, shared, decomposition):
        bounds = [m["bounds"] for m in shared[decomposition, "dam-break"]]
        assert bounds[0] != bounds[-1]
        # Every part is another one at the end.
        assert all(old != new for old, new in zip(bounds[0][1:-1], bounds[-1][1:-1], strict=True))

    def test_the_fluid_acts_on_the_bodies(self, alone):
        assert all(m["touched"] for m in alone["bodies"])

    def test_moments_differ(self, alone):
        assert len({m["bits"] for found in alone.values() for m in found}) == sum(
            len(found) for found in alone.values()
        )


@pytest.mark.parametrize("decomposition", ["slab", "master"])
def test_no_particle_is_lost_or_doubled(decomposition):
    done = run_ranks(
        4, str(ROOT / "tools" / "count_particles.py"), "--device", DEVICE, "--particles", "700",
        "--steps", "300", "--every", "3", "--decomposition", decomposition,
        "--parameter", "mach=0.8", "--parameter", "depth=0.3",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["ranks"], told["moments"]) == (4, 101)
    assert (told["lost"], told["doubled"]) == (0, 0)
    assert told["distinct_bounds"] > 2


SMALL = ("simulate", "sph-dam-break", "--device", DEVICE, "--particles", "800")
FALLING = (*SMALL, "--parameter", "mach=0.8", "--parameter", "depth=0.3")


class TestDeath:
    @pytest.mark.parametrize(("size", "rank", "decomposition"), [(2, 0, "slab"), (4, 2, "master")])
    def test_of_a_rank_ends_all_and_leaves_a_checkpoint(
        self, open_once, tmp_path, size, rank, decomposition
    ):
        path = tmp_path / "killed.npz"
        with gpubench_started(
            size, *FALLING, "--steps", "1000000", "--decomposition", decomposition,
            "--checkpoint", path, "--checkpoint-every", "5",
        ) as process:  # fmt: skip
            wait_for_step(40, path, process)
            os.kill(process_of(rank, str(path)), signal.SIGKILL)
            _, said = process.communicate(timeout=60)
        assert process.returncode != 0
        (line,) = (part for part in said.splitlines() if "was killed" in part)
        assert line.startswith(f"gpubench: rank {rank} of {size} was killed or crashed (process ")
        assert line.endswith("the whole run ends")
        assert "Traceback" not in said

        left = checkpoint.load(path)
        setup = left.setup
        simulation = setup.make(open_once(DEVICE))
        simulation.advance(left.step)
        assert hash_of(left.state) == hash_of(simulation.state())
        # Go on with one rank and with two.
        simulation.advance(20)
        for ranks in (1, 2):
            end = tmp_path / f"end-{ranks}.npz"
            done = run_gpubench(
                ranks, "simulate", setup.workload, "--device", DEVICE, "--resume", path,
                "--steps", str(left.step + 20), "--checkpoint", end,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "not bit for bit" not in done.stderr
            assert checkpoint.load(end).step == left.step + 20
            assert hash_of(checkpoint.load(end).state) == hash_of(simulation.state())


def wait_for_step(step: int, path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a run has left a checkpoint of that step or a later one."""
    for _ in range(600):
        if path.exists() and checkpoint.load(path).step >= step:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    raise AssertionError(f"{path} is not at step {step} after a minute")


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
    def test_of_one_rank(self, monkeypatch, capsys, tmp_path, arguments, message):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["gpubench", *SMALL, *OUTPUTS, *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        assert capsys.readouterr() == ("", f"gpubench: {message}\n")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("size", "arguments", "message"),
        [
            (2, ("--decomposition", "halves"), "no decomposition 'halves': one of master, slab"),
            (2, ("--transport", "pigeon"), "no transport 'pigeon': auto, mpi, nccl, peer"),
            (
                2,
                ("--transport", "nccl"),
                "--transport nccl: needs CUDA, but rank 0 has opencl:intel: use --transport mpi",
            ),
            (
                4,
                ("--particles", "100", "--parameter", "length=1"),
                "a slab must be at least one kernel radius thick: the box has ",
            ),
            (2, ("--algorithm", "atomic-list"), "atomic-list does not sort anew, "),
            (2, ("--algorithm", "counting-resort"), "counting-resort does not sort anew, "),
            (
                2,
                ("--decomposition", "master", "--skin", "0.1"),
                "parts of a box keep no lists of neighbours: the skin must be 0",
            ),
        ],
    )
    def test_of_several_is_one_line(self, tmp_path, size, arguments, message):
        done = run_gpubench(size, *SMALL, *OUTPUTS, *arguments, folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(rf"gpubench: rank \d of {size}: {re.escape(message)}.*\n", done.stderr)
        assert not list(tmp_path.iterdir())

    def test_a_workload_that_ranks_cannot_share(self, tmp_path):
        done = run_gpubench(
            2, "simulate", "dpd-standard", "--device", DEVICE, *OUTPUTS, folder=tmp_path
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "gpubench: rank 0 of 2: dpd-standard runs on one rank: start it without mpirun; what"
            " ranks can share are the SPH workloads, such as sph-dam-break\n"
        )
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("command", ["check", "devices", "list", "report"])
    def test_commands_of_one_process(self, tmp_path, command):
        done = run_gpubench(2, command, folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(
            rf"gpubench: rank \d of 2: {command} runs in one process: start it without mpirun\n",
            done.stderr,
        )
        assert not list(tmp_path.iterdir())


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
