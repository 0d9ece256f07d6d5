"""What holds for steps of every family: one trajectory whatever keeps the cells, refusals."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from small_simulations import FORMS, bits, made, trajectory

from gpubench.base.errors import UserError
from gpubench.workloads.constraint_fluid import ConstraintFluid
from gpubench.workloads.dpd import DPDRayleighTaylor, DPDSeparation, DPDStandard
from gpubench.workloads.lj_fluid import LJFluid
from gpubench.workloads.sph import SPHDamBreak, SPHRigidBody
from gpubench.workloads.workload import BlowUp

# Workload, particles, steps, parameters; the first of a family is usual, the others are long.
DPD, SPH, CONSTRAINED = 700, 900, 701
CASES: list[tuple[Any, int, int, dict[str, Any]]] = [
    (DPDStandard, DPD, 21, {}),
    (DPDStandard, DPD, 21, {"integrator": "leap-frog"}),
    (DPDStandard, DPD, 21, {"integrator": "groot-warren", "pair_noise": "rozen2008"}),
    (DPDSeparation, DPD, 21, {}),
    (DPDSeparation, DPD, 21, {"dimensions": 2, "walls": "none"}),
    (DPDRayleighTaylor, DPD, 21, {"depth": 4.5, "gravity": 0.5}),
    (DPDRayleighTaylor, DPD, 21, {"dimensions": 2, "wave": 2, "amplitude": 1.0}),
    (SPHDamBreak, SPH, 12, {"mach": 0.4}),
    (SPHDamBreak, SPH, 12, {"integrator": "euler", "pressure": "kept", "time_step": 0.1}),
    # Begins in the fluid, so that there are contacts from the first step on.
    (SPHRigidBody, SPH, 12, {"drop": -0.6, "body_size": 0.7, "mach": 0.4}),
    # Few iterations, most of them needed; in the second case the solve ends early.
    (ConstraintFluid, CONSTRAINED, 8,
     {"iterations": 6, "restart": 4, "tolerance": 1e-4, "time_step": 2.0, "viscosity": 0.03}),
    (ConstraintFluid, CONSTRAINED, 8, {"solver": "jacobi", "iterations": 12, "viscosity": 0.03}),
    (ConstraintFluid, CONSTRAINED, 8, {"matrix": "float4", "tolerance": 1e-4, "viscosity": 0.03}),
    (LJFluid, 864, 21, {}),
]  # fmt: skip
USUAL = (0, 7, 10)
USUAL_LISTS = [("counting-sort", "reorder"), ("hash-grid", "original")]


def but_for(*left_out: int) -> list[Any]:
    """Return the numbers of all other cases."""
    return [
        n if n in USUAL else pytest.param(n, marks=pytest.mark.long)
        for n in range(len(CASES))
        if n not in left_out
    ]


def simulated(device, number, algorithm="counting-sort", form="order", **more):
    workload, particles, _, parameters = CASES[number]
    return made(device, workload, algorithm, form, particles, **more, **parameters)


@pytest.fixture(scope="module")
def reference(device):
    """Trajectories over the cell list that is simplest to get right."""

    @cache
    def get(number: int) -> bytes:
        return trajectory(simulated(device, number, "atomic-list", "one-pass"), CASES[number][2])

    return get


# What else there is, over a sort and over a hash grid; over every list it is thorough.
@pytest.mark.parametrize(
    ("number", "algorithm", "form"),
    [
        pytest.param(number, *pair, marks=[pytest.mark.long] * is_long + [pytest.mark.thorough]
                     * (number not in USUAL and pair not in USUAL_LISTS))
        for pair in FORMS
        for number in range(len(CASES))
        if number not in (4, 5, 6)
        for is_long in [number not in USUAL or (number == 7 and pair not in USUAL_LISTS)]
    ],
)  # fmt: skip
def test_every_cell_list_gives_the_same_trajectory(device, reference, algorithm, form, number):
    simulation = simulated(device, number, algorithm, form)
    simulation.require_sound()  # the first checkpoint is of step 0
    assert simulation.step == 0
    assert trajectory(simulation, CASES[number][2]) == reference(number)


@pytest.mark.second_runtime
@pytest.mark.parametrize(("algorithm", "form"), [("counting-sort", "order"),
                                                 ("counting-sort", "reorder"),
                                                 ("counting-resort", "order"),
                                                 ("atomic-list", "one-pass"),
                                                 ("fixed-capacity", "one-pass")])  # fmt: skip
@pytest.mark.parametrize("number", but_for(8, 9, 11, 12))
def test_lists_of_neighbours_change_nothing(device, reference, algorithm, form, number):
    skin = 0.35 if CASES[number][1] == DPD else 0.2
    simulation = simulated(device, number, algorithm, form, skin=skin)
    assert trajectory(simulation, CASES[number][2]) == reference(number)


@pytest.mark.parametrize(
    ("module", "number"), [("sph", 7), ("constraint_fluid", 10), ("constraint_fluid", 12)]
)
def test_who_has_more_neighbours_than_noted_finds_them_again(
    device, reference, monkeypatch, module, number
):
    monkeypatch.setattr(f"gpubench.workloads.{module}.NOTED", 0.5)
    monkeypatch.setattr(f"gpubench.workloads.{module}.LEAST_NOTED", 0, raising=False)
    assert trajectory(simulated(device, number), CASES[number][2]) == reference(number)


@pytest.mark.parametrize("number", [1, 5, 9, 10])
def test_resumes_from_a_state_to_the_bit(device, number):
    through = simulated(device, number)
    through.advance(5)
    state = through.state()
    through.advance(7)
    resumed = simulated(device, number, "atomic-list", "one-pass", seed=5 if number < 7 else 6)
    resumed.restore(state)
    assert resumed.step == 5
    assert trajectory(resumed, 7) == bits(through)


@pytest.mark.parametrize(
    ("workload", "parameters", "steps"),
    [
        (DPDStandard, {"time_step": 1.0}, 50),
        (SPHDamBreak, {"time_step": 50.0, "mach": 1.0}, 40),
        (ConstraintFluid, {"time_step": 30.0, "mach": 0.5}, 20),
    ],
)
def test_a_step_that_is_too_long_is_told(device, workload, parameters, steps):
    simulation = made(device, workload, **parameters)
    simulation.advance(steps)
    with pytest.raises(BlowUp, match="step "):
        simulation.require_sound()


@pytest.mark.parametrize(
    ("workload", "options", "message"),
    [
        (DPDStandard, {"particles": 0}, "needs particles"),
        (DPDStandard, {"particles": 80}, "at least three cells"),
        (DPDStandard, {"skin": -0.1}, "skin"),
        (DPDStandard, {"skin": 4.0}, "at least three cells"),
        (DPDStandard, {"time_step": 0.0}, "time_step"),
        (DPDStandard, {"time_step": float("nan")}, "time_step"),
        (DPDStandard, {"time_step": 1e300}, r"time_step must be 0, or 1e-09 to 1e\+09 in size"),
        (DPDStandard, {"friction": -1.0}, "friction must not be negative"),
        (DPDStandard, {"repulsion": float("inf")}, "repulsion must be finite"),
        (DPDStandard, {"density": 0.0}, "density"),
        (DPDStandard, {"integrator": "euler"}, "integrator must be one of velocity-verlet"),
        (DPDStandard, {"pair_noise": "dice"}, "pair_noise must be one of"),
        (DPDStandard, {"weights": "gauss"}, "weights must be one of"),
        (DPDStandard, {"seed": -1}, "seed"),
        (DPDSeparation, {"share_b": 1.5}, "share_b must be 0 to 1"),
        (DPDSeparation, {"noise_ab": -3.0}, "noise must not be negative"),
        (DPDSeparation, {"mass_b": 0.0}, "masses"),
        (DPDSeparation, {"walls": "x"}, "walls must be"),
        (DPDSeparation, {"dimensions": 4}, "dimensions must be 2 or 3"),
        (DPDSeparation, {"dimensions": 0}, "dimensions must be 2 or 3"),
        (DPDSeparation, {"dimensions": 2**31}, "dimensions must be 0, or 1 to"),
        (DPDRayleighTaylor, {"depth": 2.0}, "along y"),
        (DPDRayleighTaylor, {"height": 0.0}, "height"),
        (DPDRayleighTaylor, {"gravity": float("nan")}, "gravity must be finite"),
        (SPHDamBreak, {"neighbours": 3.0}, "neighbours must be 8 to 200"),
        (SPHDamBreak, {"mach": -1.0}, "mach must be 0 or positive"),
        (SPHDamBreak, {"pressure": "raised"}, "pressure must be one of cut, kept"),
        (SPHDamBreak, {"integrator": "leap-frog"}, "integrator must be one of euler, symplectic"),
        (SPHDamBreak, {"height": 0.0}, "height must be positive"),
        (SPHDamBreak, {"length": 0.5}, "length and top must be at least 1"),
        (SPHDamBreak, {"contact_distance": 3.0}, "contact_distance must be at most the kernel"),
        (SPHRigidBody, {"body_size": 50.0}, r"body_size must be at most [0-9.]+, so that bodies"),
        (ConstraintFluid, {"compliance": -0.1}, "compliance must not be negative"),
        (ConstraintFluid, {"iterations": 0}, "iterations must be 1 to 10000, not 0"),
        (ConstraintFluid, {"restart": 0}, "restart must be 1 to 10000, not 0"),
        (ConstraintFluid, {"time_step": 0.0}, "time_step must be positive"),
        (ConstraintFluid, {"tolerance": 0.0}, "tolerance must be positive"),
        (ConstraintFluid, {"warm_start": 1.5}, "warm_start must be 0 to 1"),
        (ConstraintFluid, {"solver": "cholesky"}, "solver must be one of conjugate-gradients"),
        (LJFluid, {"particles": 400}, "at least three cells"),
        (LJFluid, {"cutoff": 0.0}, "cutoff must be positive"),
        (LJFluid, {"temperature": -1.0}, "temperature must be at least 0"),
        (LJFluid, {"lanes": 3}, "lanes must be one of"),
        (ConstraintFluid, {"neighbours": 3.0}, "neighbours must be 8 to 200"),
    ],
)
def test_bad_input_is_one_clear_line(opencl_device, workload, options, message):
    with pytest.raises(UserError, match=message) as caught:
        made(opencl_device, workload, **options)
    assert "\n" not in str(caught.value)
