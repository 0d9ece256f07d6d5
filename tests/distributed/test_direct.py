"""Steps in which no host takes part: what one rank finds, to the bit, whatever room there is."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
from mpi_programs.simulations import Run, moments
from mpi_runs import run_ranks

from gpubench.decomposed import direct
from gpubench.devices import survey

RUNS = {
    # Flows along most of the tank, so that planes change hands.
    "dam-break": Run("sph-dam-break", 1500, {"mach": 0.8, "depth": 0.3}, None, 160, 32),
    # Enough steps for graphs, and for planes to be assigned anew between them.
    "whole-blocks": Run("sph-dam-break", 1100, {"mach": 0.8, "depth": 0.3}, None, 195, 39),
    "euler": Run(
        "sph-dam-break", 800, {"integrator": "euler", "time_step": 0.1, "mach": 0.8}, None, 30, 15
    ),
    "one-particle": Run("sph-dam-break", 1, {"length": 12.0}, None, 36, 18),
    "large": Run("sph-dam-break", 200_000, {"mach": 0.8, "depth": 0.3}, None, 204, 51),
}
TIGHT = {"SPARE": 1.0, "SPARE_EDGE": 1.0, "LEAST": 0, "SPARE_PLANES": 1}


def gpus() -> int:
    return sum(report.backend == "cuda" and report.usable for report in survey())


def require_same(device, spec, ranks, names, constants, *transport):
    """See that ranks find what one does; return the steps that were done again in each run."""
    runs = [dataclasses.replace(RUNS[name], decomposition="slab") for name in names]
    given = json.dumps([dataclasses.asdict(run) for run in runs])
    done = run_ranks(ranks, "simulations.py", spec, given, json.dumps(constants), *transport)
    assert done.returncode == 0, done.stderr
    redone = []
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        found, alone = json.loads(line), moments(RUNS[name], device)
        assert [(m["step"], m["bits"]) for m in found] == [(m["step"], m["bits"]) for m in alone]
        if name != "one-particle" and len(found) > 2:
            assert found[0]["bounds"] != found[-1]["bounds"]  # planes changed hands
        redone.append(found[-1]["redone"])
    return redone


@pytest.mark.parametrize(
    ("ranks", "names", "constants"),
    [
        (2, ("euler", "one-particle"), {}),
        pytest.param(3, ("whole-blocks",), {}, marks=pytest.mark.long),
        pytest.param(2, ("dam-break", "whole-blocks"), {}, marks=pytest.mark.long),
    ],
)
def test_trajectories_are_those_of_one_rank_to_the_bit(open_once, ranks, names, constants):
    device = open_once("opencl:intel")
    redone = require_same(device, "opencl:intel", ranks, names, {"DIRECT": True, **constants})
    assert redone == [0] * len(names)


@pytest.mark.long
def test_steps_without_room_are_done_again(open_once):
    device = open_once("opencl:intel")
    names = "whole-blocks", "one-particle"
    redone = require_same(device, "opencl:intel", 4, names, {"DIRECT": True, **TIGHT})
    assert redone[0] > 0


@pytest.mark.parametrize("ranks", [pytest.param(3, marks=pytest.mark.long)])
def test_the_stand_in_for_boxes_carries_rows(ranks):
    done = run_ranks(ranks, "mailboxes.py", "opencl:intel", "host", "12")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("intact") == ranks


def test_a_rank_that_waited_in_vain_raises():
    word = [0] * direct.WORDS
    word[direct.FAULT] = direct.LATE
    rank = SimpleNamespace(
        rank=1, block=3, step=3, planes=(0, 1), top=1, _found=direct.np.zeros(8, "uint8"),
        _found_starts=None, _part=None, _noted_part=direct.np.array(word, "int32").view("uint8"),
        device=SimpleNamespace(read_rows=lambda *_: lambda: None),
        _comm=SimpleNamespace(allgather=lambda mine: [mine]),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="waited in vain"):
        direct.DirectSlabs._look(rank)


@pytest.mark.cuda
@pytest.mark.parametrize("ranks", [2, 4])
class TestGPUs:
    @pytest.fixture(autouse=True)
    def enough(self, ranks):
        if gpus() < ranks:
            pytest.skip(f"needs {ranks} NVIDIA GPUs, and there are {gpus()}")

    def test_boxes_carry_rows_without_hosts(self, ranks):
        done = run_ranks(ranks, "mailboxes.py", "cuda", "peer", "40")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("intact") == ranks

    def test_a_wait_ends(self, ranks):
        done = run_ranks(ranks, "mailboxes.py", "cuda", "peer", "late")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("intact") == ranks

    def test_trajectories_are_those_of_one_rank(self, ranks, open_once):
        device = open_once("cuda")
        names = "dam-break", "whole-blocks", "euler", "one-particle", "large"
        redone = require_same(device, "cuda", ranks, names, {}, "peer")
        assert redone[-1] == 0

    def test_steps_without_room_are_done_again(self, ranks, open_once):
        device = open_once("cuda")
        assert require_same(device, "cuda", ranks, ("whole-blocks",), TIGHT, "peer") > [0]
