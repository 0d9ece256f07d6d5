"""Engines on the host: whole steps, what is checked of them, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpubench import registry
from gpubench.base.errors import NotSupported
from gpubench.devices import Device
from gpubench.libraries._openmm import OpenMMStep
from gpubench.libraries.openmm_dpd import OpenMMDPD
from gpubench.libraries.openmm_lj import OpenMMLJ
from gpubench.problems.steps.axes import Simulation
from gpubench.studies.bench import made_for, measure
from gpubench.studies.plan import plan
from gpubench.studies.runner import QUICK_CPU_BUDGET
from gpubench.studies.study import Subject, parse_study
from gpubench.verify.conformance import run_conformance
from gpubench.workloads.lj_fluid import LJFluid

ENGINES = [n for n, cls in registry.algorithms().items() if cls.family == "workload-step"]
# Warp compiles its example for a CPU in half a minute.
LONG = [pytest.param(n, marks=[pytest.mark.long] * n.startswith("warp")) for n in ENGINES]
WORKLOADS = {name: registry.find_algorithm(name).needs["workload"] for name in ENGINES}
FEW = 500  # particles: 4 on each of 5^3 places, as a lattice and Warp's example have them


def made(device: Device, name: str, particles: int, **axes: Any) -> Any:
    inputs = Simulation(WORKLOADS[name], particles, **axes).make(1)
    subject = Subject(name, "steps")
    engine: Any = made_for(subject, inputs, device)
    return engine


def settled(device: Device, name: str, particles: int = FEW) -> Any:
    engine = made(device, name, particles)
    engine.load(Simulation(WORKLOADS[name], particles).make(1))
    engine.launch()
    return engine


@pytest.mark.parametrize("name", LONG)
def test_an_engine_is_right_and_seen_to_work(intel: Device, name: str) -> None:
    cls: Any = registry.find_algorithm(name)
    (result,) = run_conformance(lambda **g: cls(intel, "steps", {}, **g), "workload-step")
    if "is not installed" in result.reason:
        raise NotSupported(result.reason)
    assert (result.status, result.reason) == ("ok", "")


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
def test_an_idle_launch_is_seen(intel: Device, name: str) -> None:
    engine = settled(intel, name)
    assert engine.check() is None
    engine.poison()
    assert engine.check() == f"a launch did 0 steps, expected {engine.launches}"


@pytest.mark.parametrize("name", ENGINES)
def test_what_an_engine_does_not_do_is_refused(intel: Device, name: str) -> None:
    other = {"dpd-standard": "sph-dam-break"}.get(WORKLOADS[name], "dpd-standard")
    with pytest.raises(NotSupported, match=f"{name} has no skin: it keeps lists of its own"):
        made(intel, name, FEW, skin=0.3)
    with pytest.raises(NotSupported, match=f"{name} is no {other}"):
        made_for(Subject(name, "steps"), Simulation(other, FEW).make(1), intel)


@pytest.mark.long
@pytest.mark.parametrize("cls", [OpenMMDPD, OpenMMLJ])
def test_openmm_must_have_the_energy_and_the_observables_of_the_fluid(
    intel: Device, cls: type[OpenMMStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = settled(intel, cls.name)
    assert engine.check() is None
    seen, observe = engine.outcome(), engine.observe
    for what, (target, more, noise) in cls.expected.items():
        within = more + noise / math.sqrt(FEW)
        assert seen[what] == pytest.approx(target, abs=within)
        with monkeypatch.context() as patched:
            patched.setitem(cls.expected, what, (target + 3 * within, more, noise))
            assert engine.check().startswith(f"{what} is ")
    for share in (0.999, math.nan):
        engine.observe = lambda now, share=share: {
            name: value * share for name, value in observe(now).items()
        }
        assert engine.check().startswith("the potential energy is ")


@pytest.mark.long
def test_openmm_of_another_cutoff_or_density_is_wrong(
    intel: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    force = pytest.importorskip("openmm").NonbondedForce
    right = force.setCutoffDistance
    with monkeypatch.context() as patched:
        patched.setattr(force, "setCutoffDistance", lambda self, cutoff: right(self, 2.4))
        assert settled(intel, "openmm-lj").check().startswith("the potential energy is ")
    thinner = type("Thinner", (LJFluid,), {"defaults": {**LJFluid.defaults, "density": 0.7}})
    monkeypatch.setattr(OpenMMLJ, "workload", thinner)
    assert settled(intel, "openmm-lj").check().startswith("kinetic_temperature is ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("array", "said"),
    [("rho", "the density of particle "), ("x", "the particles did not move by their velocities")],
)
def test_warp_must_have_the_densities_and_moves_of_its_particles(
    intel: Device, array: str, said: str
) -> None:
    engine = settled(intel, "warp-sph")
    assert engine.check() is None
    assert engine.outcome()["neighbours"] > 0
    fluid, step = engine._fluid, engine._fluid.step

    def spoiled() -> None:
        step()
        own = getattr(fluid, array)
        own.assign(1.01 * own.numpy())

    fluid.step = spoiled
    assert engine.check().startswith(said)


STUDY = """
title = "Beside an engine"
question = "Which is faster?"
seed = 1
[[sweeps]]
name = "one"
workload = ["sph-dam-break"]
particles = [256]
modes = ["hot"]
[[subjects]]
algorithm = "counting-sort"
form = "order"
[[subjects]]
algorithm = "warp-sph"
form = "steps"
"""


@pytest.mark.long
def test_a_study_times_an_engine_and_does_not_rank_another_model(intel: Device) -> None:
    (group,) = plan(parse_study("beside", STUDY))
    ours, theirs = measure(group, group.items, intel, QUICK_CPU_BUDGET, lambda final: None)
    assert (ours.status, theirs.status) == ("ok", "ok"), theirs.reason
    assert ours.declared and theirs.declared
    assert ours.declared.problem == theirs.declared.problem == "workload-step"
    assert ours.declared.answer is None and theirs.declared.answer == "warp-sph"
    assert theirs.steps == 6 and theirs.particle_steps_per_s and theirs.phases_ms is None
    assert theirs.library and theirs.library.startswith("warp-lang")
