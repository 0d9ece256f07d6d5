"""The checks of the fluid held by constraints notice what is wrong."""

from __future__ import annotations

import pytest
from tiny_checks import tiny_run

from gpubench.physics import constraint
from gpubench.physics_checks import constraint as checks
from gpubench.physics_checks.constraint_solution import SolvedSecond, gain
from gpubench.workloads.constraint_fluid import ConstraintFluid


def test_a_kernel_that_differs_in_g_and_its_gradient_is_noticed(intel, monkeypatch):
    original = constraint.spline_slope
    monkeypatch.setattr(constraint, "spline_slope", lambda r: 1.001 * original(r))
    findings = tiny_run("constraint-fluid", intel, "gradient").findings
    assert [each.verdict for each in findings] == ["agrees", "differs", "agrees"]


def test_a_wrong_step_is_noticed_and_named(intel, monkeypatch):
    monkeypatch.setattr(ConstraintFluid, "check", lambda self: "it is wrong")
    (finding,) = tiny_run("constraint-fluid", intel, "steps").findings
    assert finding.verdict == "differs"
    assert "'solver': 'jacobi'}: it is wrong" in finding.note


def test_impulses_that_walls_do_not_give_are_noticed(intel, monkeypatch):
    original = checks.within_walls
    monkeypatch.setattr(checks, "within_walls", lambda *a: (original(*a)[0], 0.9 * original(*a)[1]))
    findings = tiny_run("constraint-fluid", intel, "momentum").findings
    assert [each.verdict for each in findings] == ["agrees", "differs"]


def second(mean_error, *times):
    return SolvedSecond(ConstraintFluid, 0.1, 1.0, {}, mean_error=mean_error, times=times)


def test_times_are_compared_at_the_same_error():
    others = [second(0.004, 100.0, 100.0), second(0.001, 200.0, 200.0)]
    assert gain(second(0.002, 50.0, 50.0), others) == pytest.approx(2.0**0.5 * 100 / 50)
    assert gain(second(0.005, 50.0), others) is None
    assert gain(second(0.002, 50.0), []) is None


def test_the_longest_stable_step_is_found(intel):
    sizes = {"constraint_steps": [1.0, 12.0], "sph_steps": [0.8, 4.0], "machs": [0.2], "passes": 2}
    found = tiny_run("constraint-fluid", intel, "solution", **sizes)
    assert found.failure is None
    longest = {each.quantity.split(": ")[1]: each for each in found.findings[:2]}
    assert [each.value for each in longest.values()] == [1.0, 0.8]
    assert [each.note.split(":")[0] for each in longest.values()] == [
        "beyond it, 12", "beyond it, 4",
    ]  # fmt: skip
    assert all(each.value > 0 and each.error is not None for each in found.findings[2:4])
