"""The checks of SPH: each runs and says what it should, and notices what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_algorithms import ENVIRONMENT

from gpubench.evidence import physics_results
from gpubench.evidence.physics_results import CheckRun, Finding
from gpubench.physics import sph
from gpubench.physics_checks import sph_exactness, sph_flows
from gpubench.physics_checks.runner import FAMILIES, run_check
from gpubench.workloads.sph import SPH

BY_NAME = {check.name: check for check in FAMILIES["sph"]}
# Sizes for a second or two, at which only what is exact is known.
TINY: dict[str, dict[str, Any]] = {
    "kernels": {"neighbours": 30.0},
    "steps": {"particles": 500, "span": 4},
    "exchange": {"particles": 800, "span": 5},
    "integrators": {"particles": 300, "span": 15.0, "viscosity": 0.1},
    "hydrostatics": {"particles": 1200, "height": 2.0, "span": 150.0},
    "dam-break": {"particles": 1200, "depth": 0.2, "reynolds": 90.0, "free": True},
    "floating": {"particles": 1500, "size": 0.6, "densities": [0.5], "span": 60.0},
}
EXACT = ("kernels", "steps", "exchange")


@pytest.fixture(scope="module")
def intel(open_once):
    return open_once("opencl:intel")


@pytest.fixture(scope="module")
def tiny(intel):
    """Each check as it runs at its tiny size, once."""
    found: dict[str, CheckRun] = {}

    def get(name: str) -> CheckRun:
        if name not in found:
            found[name] = run_check(BY_NAME[name], intel, TINY[name])
        return found[name]

    return get


def of(run: CheckRun, words: str) -> Finding:
    """Return the only finding of which the quantity has these words."""
    (one,) = [finding for finding in run.findings if words in finding.quantity]
    return one


# test_docs.py runs all checks at larger sizes.
@pytest.mark.parametrize("name", EXACT)
def test_every_check_comes_to_an_end_and_can_be_kept(tiny, name, tmp_path):
    run = tiny(name)
    assert run.failure is None
    assert run.findings and run.setting == TINY[name]
    found = physics_results.CheckResults("sph", "quick", ENVIRONMENT, [run])
    physics_results.save(found, tmp_path / "found.json")
    kept = physics_results.load(tmp_path / "found.json").checks[0]
    assert [each.verdict for each in kept.findings] == [each.verdict for each in run.findings]


@pytest.mark.parametrize("name", EXACT)
def test_what_is_exact_is_right_at_any_size(tiny, name):
    assert set(tiny(name).verdicts) <= {"agrees", "recorded"}, tiny(name).findings


def test_sizes_are_what_the_checks_take():
    for check in FAMILIES["sph"]:
        for size in (check.long, check.quick):
            assert size is None or size.keys() == TINY[check.name].keys(), check.name
    assert len(BY_NAME) == len(FAMILIES["sph"])


# What is wrong is noticed


@pytest.mark.long
def test_half_a_pressure_gradient_is_noticed(intel, monkeypatch):
    original = sph.slope_for
    monkeypatch.setattr(sph, "slope_for", lambda spacing: original(spacing) / 2)
    run = run_check(BY_NAME["kernels"], intel, TINY["kernels"])
    finding = of(run, "pressure that the forces exert")
    assert finding.value == pytest.approx(0.5, abs=0.01)
    assert finding.verdict == "differs"
    run = run_check(BY_NAME["hydrostatics"], intel, TINY["hydrostatics"])
    assert of(run, "slope of the pressure").value == pytest.approx(2, abs=0.3)
    assert of(run, "furthest from rho0 g (H - z)").verdict == "differs"


def test_a_wrong_kernel_is_noticed(intel, monkeypatch):
    monkeypatch.setattr(sph_exactness, "spiky", lambda r: 1.001 * sph.spiky(r))
    run = run_check(BY_NAME["kernels"], intel, TINY["kernels"])
    assert of(run, "integral of the pressure kernel").verdict == "differs"
    monkeypatch.setattr(sph_exactness, "poly6_slope", lambda r: 1.001 * sph.poly6_slope(r))
    run = run_check(BY_NAME["kernels"], intel, TINY["kernels"])
    assert of(run, "slope of the density kernel").verdict == "differs"


def test_a_wrong_step_is_noticed_and_named(intel, monkeypatch):
    monkeypatch.setattr(SPH, "check", lambda self: "it is wrong")
    (finding,) = run_check(BY_NAME["steps"], intel, TINY["steps"]).findings
    assert finding.verdict == "differs"
    assert "sph-rigid-body, euler: it is wrong" in finding.note


def test_a_push_that_the_fluid_does_not_feel_is_noticed(intel, monkeypatch):
    original = SPH.computed

    def forgetful(self, name):
        found = original(self, name)
        if name == "force":
            found[7, 0] += 1
        return found

    monkeypatch.setattr(SPH, "computed", forgetful)
    run = run_check(BY_NAME["exchange"], intel, TINY["exchange"])
    assert of(run, "do not add up to 0").value == 20


def test_momentum_that_comes_from_nowhere_is_noticed(intel, monkeypatch):
    original = sph_exactness._momenta
    calls = []

    def drifting(pool, axis):
        calls.append(None)
        fluid, body = original(pool, axis)
        return fluid + 1e-6 * len(calls), body

    monkeypatch.setattr(sph_exactness, "_momenta", drifting)
    run = run_check(BY_NAME["exchange"], intel, TINY["exchange"])
    assert of(run, "fluid and body together").verdict == "differs"


def test_a_body_that_takes_part_gives_momentum(tiny):
    given = of(tiny("exchange"), "gave to the fluid").value
    assert 0.01 < given < 1


@pytest.mark.long
def test_a_front_that_stays_behind_is_noticed(intel, monkeypatch):
    original = sph_flows.front_position

    def behind(*arguments):
        return 0.8 * original(*arguments)

    monkeypatch.setattr(sph_flows, "front_position", behind)
    run = run_check(BY_NAME["dam-break"], intel, {**TINY["dam-break"], "free": False})
    verdicts = [f.verdict for f in run.findings if f.reference is not None]
    assert verdicts.count("differs") == 4


def test_a_higher_surface_is_noticed(intel, monkeypatch):
    original = sph_flows.local_surface
    monkeypatch.setattr(sph_flows, "local_surface", lambda *a: original(*a) + 0.6)
    run = run_check(BY_NAME["floating"], intel, TINY["floating"])
    assert of(run, "box").verdict == "differs"
    assert np.isfinite(of(run, "ball").value)
