"""The checks of the physics: each runs and says what it should, and notices what is wrong."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from fake_algorithms import ENVIRONMENT
from fakes import FakeDevice
from tiny_checks import TINY, of, tiny_run
from typer.testing import CliRunner

import gpubench.devices
from gpubench import workloads
from gpubench.base.errors import UserError
from gpubench.cli import app
from gpubench.evidence import physics_results
from gpubench.evidence.physics_results import Finding, Reference
from gpubench.physics.fits import Estimate
from gpubench.physics.fluid import Fluid
from gpubench.physics.mixing import viscous_growth_rate
from gpubench.physics_checks import (
    domains,
    equilibrium,
    exactness,
    rayleigh_taylor,
    runner,
    simulations,
    transport,
)
from gpubench.physics_checks.check import Check, CheckOutcome, found
from gpubench.physics_checks.runner import FAMILIES
from gpubench.problems.cells.contract import CellList
from gpubench.workloads.dpd import DPDRayleighTaylor

# Steps and trajectories of DPD have quick tests of their own, of the workloads.
EXACT = [
    *(("dpd", name) for name in ("pair-noise", "momentum", "energy")),
    *(("sph", name) for name in ("kernels", "steps", "exchange")),
    *(("lj-fluid", name) for name in ("steps", "energy")),
    *(("constraint-fluid", name) for name in ("gradient", "steps", "momentum", "energy")),
]


@pytest.fixture(scope="module")
def tiny(intel):
    """Each check as it runs at its tiny size, once."""
    return cache(lambda family, name: tiny_run(family, intel, name))


# The long tests of the documents run every check that has a quick size; the last has none.
@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("dpd", "pair-noise"),
        pytest.param("dpd", "single-mode", marks=pytest.mark.long),
        ("sph", "kernels"),
        ("sph", "steps"),
        ("sph", "exchange"),
    ],
)
def test_every_check_comes_to_an_end_and_can_be_kept(tiny, family, name, tmp_path):
    run = tiny(family, name)
    assert run.failure is None
    assert run.findings and run.setting == TINY[family][name] and run.seconds > 0
    found = physics_results.CheckResults(family, "quick", ENVIRONMENT, [run])
    physics_results.save(found, tmp_path / "found.json")
    kept = physics_results.load(tmp_path / "found.json").checks[0]
    assert [each.verdict for each in kept.findings] == [each.verdict for each in run.findings]


@pytest.mark.parametrize(("family", "name"), EXACT)
def test_what_is_exact_is_right_at_any_size(tiny, family, name):
    run = tiny(family, name)
    assert set(run.verdicts) <= {"agrees", "recorded"}, (run.failure, run.findings)


@pytest.mark.parametrize("family", ["dpd", "sph"])
def test_sizes_are_what_the_checks_take(family):
    for check in FAMILIES[family]:
        for size in (check.long, check.quick):
            assert size is None or size.keys() == TINY[family][check.name].keys(), check.name
    assert len({check.name for check in FAMILIES[family]}) == len(FAMILIES[family])


# What is wrong is noticed


def test_a_partner_that_draws_another_number_is_noticed(intel, monkeypatch):
    original = exactness._drawn

    def lopsided(generator, inputs):
        values = original(generator, inputs).copy()
        if inputs.seed is not None:
            values[0, 3] = -values[0, 3]
        return values

    monkeypatch.setattr(exactness, "_drawn", lopsided)
    run = tiny_run("dpd", intel, "pair-noise")
    assert of(run, "noise-philox: numbers that differ").value == 1
    assert of(run, "noise-philox: numbers that differ").verdict == "differs"


def test_another_trajectory_is_noticed_and_named(intel, monkeypatch):
    original = exactness._state
    monkeypatch.setattr(
        exactness,
        "_state",
        lambda device, setup, steps: (
            original(device, setup, steps) + (b"!" if setup.algorithm == "radix-grid" else b"")
        ),
    )
    run = tiny_run("dpd", intel, "trajectories")
    assert run.verdicts == ["differs"]
    assert "differs: radix-grid" in run.findings[0].note
    assert "device-loop needs CUDA" in run.findings[0].note


def test_a_leak_of_momentum_is_noticed(intel, monkeypatch):
    """As little as a rounding in one direction for each particle and step."""
    original = workloads.dpd.DPD.snapshot

    def leaking(self):
        now = original(self)
        now.velocities[:, 0] += 2.0**-24 * self.step
        return now

    monkeypatch.setattr(workloads.dpd.DPD, "snapshot", leaking)
    run = tiny_run("dpd", intel, "momentum")
    assert of(run, "random walk").verdict == "differs"


@pytest.mark.long
def test_an_energy_that_drifts_is_noticed(intel, monkeypatch):
    """As it would with a friction of a thousandth of the usual one."""
    original = simulations.make

    def rubbing(device, workload, particles, seed=1, **parameters):
        if parameters.get("friction") == 0.0:
            parameters["friction"] = 0.0045
        return original(device, workload, particles, seed, **parameters)

    monkeypatch.setattr(exactness, "make", rubbing)
    run = tiny_run("dpd", intel, "energy")
    assert of(run, "drift").verdict == "differs"


def test_a_wrong_step_is_noticed_and_named(intel, monkeypatch):
    packed = Fluid.packed

    def stronger(self, *arguments):
        found = packed(self, *arguments)
        found["noise"] *= 1.01
        return found

    monkeypatch.setattr(Fluid, "packed", stronger)
    run = tiny_run("dpd", intel, "steps")
    assert run.verdicts == ["differs"]
    assert run.findings[0].value == 15
    assert "dpd-rayleigh-taylor, leap-frog: step 20: the force" in run.findings[0].note


@pytest.mark.long
def test_a_hotter_fluid_is_noticed(intel, monkeypatch):
    original = simulations.make
    monkeypatch.setattr(equilibrium, "make", lambda *a, **k: original(*a, **{**k, "friction": 4.0}))
    run = tiny_run("dpd", intel, "temperature")
    assert "differs" in run.verdicts


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("mixing", {"particles": [12000], "span": 1.0}, "samples of the mixing layer"),
        ("domains-3d", {"span": 30.0, "runs": 1, "regimes": 2}, "no room for domains"),
        ("domains-3d", {"span": 5.0, "runs": 1}, "a fit needs at least"),
        ("single-mode", {"repulsion": 70.0}, "tension of .* keeps a wave of length 16 down"),
    ],
)
def test_a_size_that_tells_nothing_is_a_failure_in_words(intel, name, changes, message):
    run = tiny_run("dpd", intel, name, **changes)
    assert run.verdicts == ["failed"]
    assert re.search(message, run.failure or "")


# Numbers behind the findings


def test_the_exponent_of_a_law_comes_back():
    times = np.geomspace(1, 200, 48)
    early, late, counted = domains.REGIMES[3]
    sizes = np.array([a * times ** (1 / 3) for a in (1.0, 1.1, 0.9)])
    found = domains._exponent(early, (6.0, 20.0), times, sizes)
    assert (found.value, found.error) == pytest.approx((1 / 3, 0), abs=1e-9)
    linear = 5 + 0.2 * times[None]
    assert domains._exponent(late, (25.0, 100.0), times, linear).value < 0.8
    assert domains._exponent(counted, (25.0, 100.0), times, linear).value == pytest.approx(1)


def test_runs_that_differ_make_the_error_of_an_exponent():
    times = np.geomspace(1, 100, 30)
    powers = np.array([0.4, 0.5, 0.6])
    found = domains._exponent(domains.REGIMES[2][0], (20.0, 70.0), times, times ** powers[:, None])
    assert found.value == pytest.approx(0.5)
    assert found.error == pytest.approx(0.1 / 3**0.5)


def test_the_rate_of_a_wave_from_rest_comes_back():
    wave = rayleigh_taylor.Wave(200.0, 0.005, (0.5, 1.5), tension=2.0)
    times = np.linspace(0, 250, 40)
    noise = np.random.default_rng(0).normal(size=40) * 0.05
    found = rayleigh_taylor._rate(times, 3 * np.cosh(0.0085 * times) + noise, wave)
    assert found == pytest.approx(0.0085, rel=0.02)


def test_theory_of_a_wave():
    wave = rayleigh_taylor.Wave(200.0, 0.005, (0.5, 1.5), tension=0.0)
    assert wave.atwood == 0.5
    assert wave.growth_rate == viscous_growth_rate(
        0.5, 0.005, wave.wavenumber, transport.VISCOSITY / 3
    )
    # A tension of (rho_1 - rho_0) g / k^2 holds the wave where it is.
    critical = 3 * 0.005 / wave.wavenumber**2
    held = rayleigh_taylor.Wave(200.0, 0.005, (0.5, 1.5), tension=1.001 * critical)
    with pytest.raises(UserError, match="keeps a wave of length 200 down"):
        _ = held.growth_rate


def test_a_column_is_denser_below_once_settled(intel):
    column = simulations.make(intel, DPDRayleighTaylor, 4000, depth=4.0, gravity=0.3, share_b=0.5)
    below = [np.mean(column.snapshot().positions[:, 2] < column.box.size[2] / 4)]
    rayleigh_taylor._let_settle(column)
    now = column.snapshot()
    below.append(np.mean(now.positions[:, 2] < column.box.size[2] / 4))
    assert below[1] > below[0] + 0.02
    light, heavy = (now.positions[now.species == s, 2] for s in (0, 1))
    assert light.max() <= heavy.min() + 1e-6


# The runner and the command


def passing(device):
    return CheckOutcome([Finding("heat", 1.0, 0.1, Reference(1.0, 0.1, "somebody"))])


def differing(device):
    return CheckOutcome([Finding("heat", 2.0, 0.1, Reference(1.0, 0.1, "somebody"))])


def failing(device):
    raise UserError("step 3: it blew up")


def checks_of(*measures, quick: dict[str, Any] | None = None):
    return {
        "dpd": [
            Check(measure.__name__, "Is it?", measure, long={}, quick=quick) for measure in measures
        ]
    }


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run `gpubench check` with a fake device and the checks given, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpubench.devices, "open_device", lambda spec: FakeDevice())
    monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)

    def run(*arguments: str, measures=(passing,), quick: dict[str, Any] | None = None):
        chosen = checks_of(*measures, quick={} if quick is None else quick)
        monkeypatch.setattr(runner, "FAMILIES", chosen)
        return CliRunner().invoke(app.app, ["check", *arguments])

    return run


def test_prints_a_table_and_keeps_nothing_of_the_quick_sizes(command, tmp_path):
    done = command("dpd")
    assert done.exit_code == 0
    assert "heat" in done.stdout and "1.00 ± 0.10" in done.stdout and "agrees" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("measure", [differing, failing])
def test_exits_1_where_something_is_not_right_and_goes_on(command, measure):
    done = command("dpd", measures=(measure, passing))
    assert done.exit_code == 1
    assert "agrees" in done.stdout
    assert ("differs" in done.stdout) == (measure is differing)
    assert ("it blew up" in done.stdout) == (measure is failing)


def test_json_alone_on_stdout(command):
    done = command("dpd", "--json", measures=(passing, failing))
    found = json.loads(done.stdout)
    assert (found["family"], found["size"]) == ("dpd", "quick")
    assert [check["failure"] for check in found["checks"]] == [None, "step 3: it blew up"]


def test_long_sizes_are_kept_beside_the_results(command, tmp_path):
    assert command("dpd", "--long").exit_code == 0
    (path,) = tmp_path.rglob("*.json")
    assert path == tmp_path / "results/checks/fake/2026-01-31-0123456-dpd.json"
    assert physics_results.load(path).size == "long"


def test_out_is_kept_of_any_size(command, tmp_path):
    assert command("dpd", "--out", "mine.json").exit_code == 0
    assert physics_results.load(tmp_path / "mine.json").size == "quick"
    assert command("dpd", "--long", "--out", "long.json").exit_code == 0
    assert not (tmp_path / "results").exists()


def test_a_check_without_a_quick_size_is_long_only(intel, monkeypatch):
    monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)
    monkeypatch.setattr(runner, "FAMILIES", checks_of(passing, quick=None))
    assert not runner.run("dpd", intel, is_long=False).checks
    assert len(runner.run("dpd", intel, is_long=True).checks) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dpd", "counting-sort"], "leave out algorithms, particles and meshes"),
        (["dpd", "--cell-size", "1"], "leave out algorithms, particles and meshes"),
        (["counting-sort", "--long"], "--long and --out are for checks of dpd"),
        (["--out", "found.json"], "--long and --out are for checks of dpd"),
        (["dpd", "--out", "."], "--out takes a file"),
        (["dpdd"], "no algorithm 'dpdd'"),
    ],
)
def test_bad_input_is_one_clear_line(command, arguments, message):
    done = command(*arguments)
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception) and "\n" not in str(done.exception)


def test_what_can_keep_cells_is_compared():
    named = {(name, form) for name, form, skin in exactness._cell_lists() if skin == 0}
    assert named == {
        (name, form)
        for name, algorithm in exactness.registry.algorithms().items()
        if issubclass(algorithm, CellList)
        for form in algorithm.forms
    }


def test_estimates_become_findings():
    reference = Reference(1.0, 0.1, "somebody")
    made = found("heat", Estimate(1.0, 0.2), reference, "of 3")
    assert made == Finding("heat", 1.0, 0.2, reference, "of 3")
