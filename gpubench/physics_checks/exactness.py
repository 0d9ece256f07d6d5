"""Checks that are exact, bitwise or up to rounding: noise, momentum, energy, trajectories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench import registry
from gpubench.devices import missing_feature
from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Panel, PanelAxis, Reference
from gpubench.physics.arrays import Floats
from gpubench.physics.fits import Estimate, fit_line, growth_exponent
from gpubench.physics.fluid import INTEGRATORS
from gpubench.physics.forces import conservative_energy
from gpubench.physics.motion import rows_of
from gpubench.physics.observables import momentum
from gpubench.physics_checks.check import NEVER, SEED, Check, CheckOutcome, curve, found
from gpubench.physics_checks.equilibrium import SETTLE
from gpubench.physics_checks.simulations import compare_steps, make, pass_time, sampled
from gpubench.problems.cells.contract import CellList
from gpubench.problems.pair_noise.contract import PairNoise
from gpubench.problems.pair_noise.inputs import PairSet, make_pairs
from gpubench.simulate.setup import Setup
from gpubench.workloads.dpd import DPD, DPDRayleighTaylor, DPDSeparation, DPDStandard
from gpubench.workloads.workload import Value

ROUNDING = 2.0**-24  # the greatest rounding error of a float32 velocity between 1 and 2

# Parameters that let algorithms run with few particles, at a fluid's occupancy.
ROOM: Mapping[str, Mapping[str, int]] = {
    "fixed-capacity": {"capacity": 64},
    "adaptive-bitonic": {"chunk": 64},
}
SKIN = 0.35

# Workloads and parameters for comparing a step with float64.
STEPS: Sequence[tuple[type[DPD], Mapping[str, Value]]] = (
    (DPDStandard, {}),
    (DPDStandard, {"pair_noise": "rozen2008"}),
    (DPDSeparation, {}),
    (DPDSeparation, {"dimensions": 2, "walls": "none", "friction_ab": 9.0, "noise_ab": 2.0}),
    (DPDRayleighTaylor, {}),
)

ENERGY_STEPS = (0.0025, 0.005, 0.01, 0.02)


def pair_noise(device: Device, *, pairs: int) -> CheckOutcome:
    """Compute the noise of pairs in both orders, and its moments."""
    findings = []
    inputs = make_pairs(pairs, SEED)
    mirrored = PairSet(inputs.j, inputs.i, inputs.step, inputs.key, None)
    for name, form in (("noise-philox", "rounds-10"), ("noise-rozen", "fourth-draw")):
        algorithm: Any = registry.find_algorithm(name)
        generator: PairNoise = algorithm(device, form=form, parameters={}, **inputs.made_for)
        drawn = [_drawn(generator, given) for given in (mirrored, inputs)]
        unequal = np.count_nonzero(drawn[0].view(np.uint32) != drawn[1].view(np.uint32))
        findings.append(
            Finding(f"{name}: numbers that differ from the partner's", int(unequal), None, NEVER)
        )
        findings += _moments(name, generator.outcome(), is_reference=name == "noise-philox")
    return CheckOutcome(findings)


def _drawn(generator: PairNoise, inputs: PairSet) -> NDArray[np.float32]:
    generator.load(inputs)
    generator.launch()
    return generator.device.download(generator.answer.values)


def _moments(name: str, outcome: Mapping[str, Any], *, is_reference: bool) -> list[Finding]:
    """Return the moments of numbers scaled to variance 1, with the error of ideal noise."""
    error = outcome["standard_error"]
    # The error of the mean square follows from the fourth moment of a uniform number.
    errors = {
        "mean": error,
        "excess_variance": math.sqrt(0.8) * error,
        "step_correlation": error,
        "pair_correlation": error,
    }
    independent = Reference(0, 0, "independent uniform numbers") if is_reference else None
    return [
        found(f"{name}: {moment.replace('_', ' ')}", Estimate(outcome[moment], each), independent)
        for moment, each in errors.items()
    ]


def steps(device: Device, *, particles: int) -> CheckOutcome:
    """Compare a step of every workload and integrator with float64."""
    runs = [
        (f"{workload.name}, {integrator}", workload, {**parameters, "integrator": integrator})
        for workload, parameters in STEPS
        for integrator in INTEGRATORS
    ]
    return compare_steps(device, particles, runs, [20])


def momentum_conservation(device: Device, *, particles: int, steps: int) -> CheckOutcome:
    """Follow the total momentum, which starts at 0, in units of its expected rounding error."""
    fluid = make(device, DPDStandard, particles)
    marks = np.unique(np.geomspace(10, steps, 24).astype(int))
    totals = []
    for mark in marks:
        fluid.advance(int(mark) - fluid.step)
        fluid.require_sound()
        now = fluid.snapshot()
        totals.append(momentum(now.velocities, now.species, fluid.fluid))
    size = np.linalg.norm(totals, axis=1) / math.sqrt(3)
    walk = ROUNDING * np.sqrt(marks * particles)
    lines = [
        curve("measured", marks, size / particles),
        curve("roundings", marks, walk / particles, "theory"),
    ]
    figure = Figure(
        "momentum", "Momentum",
        "Root mean square of a component of the total momentum, over the particles, and a"
        " random walk of one rounding to 2⁻²⁴ for each particle and step.",
        PanelAxis("steps", "log"), PanelAxis("momentum of a particle", "log"),
        [Panel("", lines)],
    )  # fmt: skip
    findings = [
        Finding(
            f"total momentum after {steps:,} steps, over a random walk of roundings",
            float(size[-1] / walk[-1]),
            reference=Reference(0.0, 2.0, "forces of a pair cancel to the bit"),
        ),
        Finding("total momentum over particles, a component", float(size[-1]) / particles),
    ]
    return CheckOutcome(findings, [figure])


def energy_conservation(device: Device, *, particles: int, span: float) -> CheckOutcome:
    """Follow the energy without friction and noise, at several time steps from one state."""
    settled = make(device, DPDStandard, particles, time_step=0.02)
    pass_time(settled, SETTLE)
    start = settled.state() | {"step": np.array(0, np.int64)}
    spreads, findings = [], []
    for time_step in ENERGY_STEPS:
        fluid = make(device, DPDStandard, particles, time_step=time_step, friction=0.0, noise=0.0)
        fluid.restore(start)
        times, energies = _energies(fluid, span)
        spreads.append(float(energies.std()))
        if time_step == 0.01:
            drift = fit_line(times, energies).slope
            findings = [
                found(
                    "energy of a particle: drift per unit of time, time step 0.01", drift,
                    Reference(0.0, 2e-4, "a symplectic integrator bounds it; in units of kT"),
                ),
                Finding(
                    "energy of a particle: furthest from the first, time step 0.01",
                    float(np.abs(energies - energies[0]).max()),
                    reference=Reference(0.0, 1e-3, "bounded, in units of kT"),
                ),
            ]  # fmt: skip
    steps = np.array(ENERGY_STEPS)
    exponent = growth_exponent(steps, np.array(spreads), (steps[0], steps[-1]))
    order = Reference(2.0, 0.25, "leap-frog is of second order")
    findings.append(found("exponent of the energy's spread with the time step", exponent, order))
    return CheckOutcome(findings)


def _energies(fluid: DPD, span: float) -> tuple[Floats, Floats]:
    """Return times and energies per particle, from positions and velocities at equal times."""
    times, energies = [], []
    for now in sampled(fluid, span, every=0.1):
        potential = conservative_energy(now.positions, now.species, fluid.box, fluid.fluid)
        times.append(now.time)
        energies.append((float((now.velocities**2).sum()) / 2 + potential) / fluid.particles)
    return np.array(times), np.array(energies)


def trajectories(
    device: Device, *, particles: int, steps: int, workload: str = DPDStandard.name
) -> CheckOutcome:
    """Compare states after some steps between all cell lists and neighbour lists."""
    wanted = _state(device, Setup(workload, particles, seed=SEED), steps)
    differing, lacking, compared = [], [], 0
    for algorithm, form, skin in _cell_lists():
        requires = registry.find_algorithm(algorithm).forms[form].requires
        if reason := missing_feature(requires, device):
            lacking.append(f"{algorithm} {form} {reason}")
            continue
        room: dict[str, Value] = {**ROOM.get(algorithm, {})}
        setup = Setup(workload, particles, algorithm, form, room, SEED, skin)
        compared += 1
        if _state(device, setup, steps) != wanted:
            differing.append(f"{algorithm} {form}" + (f" with skin {skin}" if skin else ""))
    notes = [f"differs: {', '.join(differing)}"] if differing else []
    notes += [f"not run: {'; '.join(lacking)}"] if lacking else []
    return CheckOutcome(
        [
            Finding(
                f"cell lists with a different trajectory after {steps} steps, of {compared}",
                len(differing), None, NEVER, "; ".join(notes),
            )
        ]
    )  # fmt: skip


def _cell_lists() -> list[tuple[str, str, float]]:
    """Return name, form and skin of each way to maintain a simulation's cells."""
    forms = [
        (name, form)
        for name, algorithm in registry.algorithms().items()
        if issubclass(algorithm, CellList)
        for form in algorithm.forms
    ]
    first = dict(reversed(forms))
    return [(*each, 0.0) for each in forms] + [(*each, SKIN) for each in first.items()]


def _state(device: Device, setup: Setup, steps: int) -> bytes:
    """Return positions and velocities after some steps, in order of ids, as bytes."""
    workload = setup.make(device)
    workload.advance(steps)
    workload.require_sound()
    state = workload.state()
    by_id = rows_of(state["places"][:, 3])
    return b"".join(state[name][by_id].tobytes() for name in sorted(state.keys() - {"step"}))


CHECKS = (
    Check(
        "pair-noise", "Do both partners draw the same number, and are the numbers like noise?",
        pair_noise,
        long={"pairs": 2**22}, quick={"pairs": 2**15},
    ),
    Check(
        "steps", "Does a step agree with float64 in forces, velocities and positions?", steps,
        long={"particles": 131072}, quick={"particles": 3000},
    ),
    Check(
        "momentum", "Is momentum conserved to rounding?", momentum_conservation,
        long={"particles": 65536, "steps": 50000}, quick={"particles": 1000, "steps": 2000},
    ),
    Check(
        "energy", "Without friction and noise, is the energy bounded?", energy_conservation,
        long={"particles": 6000, "span": 5.0}, quick={"particles": 600, "span": 5.0},
    ),
    Check(
        "trajectories", "Do all cell lists give the same trajectory, bit for bit?", trajectories,
        long={"particles": 65536, "steps": 100}, quick={"particles": 1500, "steps": 10},
    ),
)  # fmt: skip
