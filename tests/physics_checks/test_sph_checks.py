"""The checks of SPH notice what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_checks import of, tiny_run

from gpubench.physics import sph
from gpubench.physics_checks import sph_exactness, sph_flows
from gpubench.workloads.sph import SPH


@pytest.mark.long
def test_half_a_pressure_gradient_is_noticed(intel, monkeypatch):
    original = sph.slope_for
    monkeypatch.setattr(sph, "slope_for", lambda spacing: original(spacing) / 2)
    run = tiny_run("sph", intel, "kernels")
    finding = of(run, "pressure that the forces exert")
    assert finding.value == pytest.approx(0.5, abs=0.01)
    assert finding.verdict == "differs"
    run = tiny_run("sph", intel, "hydrostatics")
    assert of(run, "slope of the pressure").value == pytest.approx(2, abs=0.3)
    assert of(run, "furthest from rho0 g (H - z)").verdict == "differs"


def test_a_wrong_kernel_is_noticed(intel, monkeypatch):
    monkeypatch.setattr(sph_exactness, "spiky", lambda r: 1.001 * sph.spiky(r))
    run = tiny_run("sph", intel, "kernels")
    assert of(run, "integral of the pressure kernel").verdict == "differs"
    monkeypatch.setattr(sph_exactness, "poly6_slope", lambda r: 1.001 * sph.poly6_slope(r))
    run = tiny_run("sph", intel, "kernels")
    assert of(run, "slope of the density kernel").verdict == "differs"


def test_a_wrong_step_is_noticed_and_named(intel, monkeypatch):
    monkeypatch.setattr(SPH, "check", lambda self: "it is wrong")
    (finding,) = tiny_run("sph", intel, "steps").findings
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
    run = tiny_run("sph", intel, "exchange")
    assert of(run, "do not add up to 0").value == 20


def test_momentum_that_comes_from_nowhere_is_noticed(intel, monkeypatch):
    original = sph_exactness._momenta
    calls = []

    def drifting(pool, axis):
        calls.append(None)
        fluid, body = original(pool, axis)
        return fluid + 1e-6 * len(calls), body

    monkeypatch.setattr(sph_exactness, "_momenta", drifting)
    run = tiny_run("sph", intel, "exchange")
    assert of(run, "fluid and body together").verdict == "differs"


def test_a_body_that_takes_part_gives_momentum(intel):
    given = of(tiny_run("sph", intel, "exchange"), "gave to the fluid").value
    assert 0.01 < given < 1


@pytest.mark.long
def test_a_front_that_stays_behind_is_noticed(intel, monkeypatch):
    original = sph_flows.front_position

    def behind(*arguments):
        return 0.8 * original(*arguments)

    monkeypatch.setattr(sph_flows, "front_position", behind)
    run = tiny_run("sph", intel, "dam-break", free=False)
    verdicts = [f.verdict for f in run.findings if f.reference is not None]
    assert verdicts.count("differs") == 4


def test_a_higher_surface_is_noticed(intel, monkeypatch):
    original = sph_flows.local_surface
    monkeypatch.setattr(sph_flows, "local_surface", lambda *a: original(*a) + 0.6)
    run = tiny_run("sph", intel, "floating")
    assert of(run, "box").verdict == "differs"
    assert np.isfinite(of(run, "ball").value)
