"""The standard fluid at rest: thermal energy, pressure, structure.

References are for density 3, repulsion 25, friction 4.5, noise 3, kT 1 and cutoff 1 (Groot and
Warren 1997).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Panel, PanelAxis, Reference
from gpubench.physics.arrays import Floats
from gpubench.physics.fits import Estimate, mean_of_series
from gpubench.physics.observables import (
    RadialDistribution,
    pressure,
    radial_distribution,
)
from gpubench.physics_checks.check import Check, CheckOutcome, curve, found
from gpubench.physics_checks.simulations import make, pass_time, sampled
from gpubench.workloads.dpd import DPD, DPDStandard

SPACING = 0.8  # time between snapshots, about twice the correlation time of kT
SETTLE = 5.0  # time to relax from random positions
TIME_STEPS = (0.01, 0.02, 0.04)

BIN = 0.025  # bin width of the radial distribution function
FAR = 0.5  # width of the last part of this function, which should be 1 there
PEAK = 0.11  # half-width of the parabolas fitted to its maxima
CLOSE = 0.25  # only soft particles come closer than this

LAMMPS = "LAMMPS, pair_style dpd, of which this is the recursion"
LAGGED = "leap-frog with lagged velocity of another code, the same recursion"
# Velocity Verlet's kT, with half-step velocity in the drag, by time step.
AT_FULL_STEP = {0.01: 1.003, 0.02: 1.010, 0.04: 1.028}
LAGGED_AT_HALF_STEP = {0.01: 1.015, 0.02: 1.028, 0.04: 1.067}
LAGGED_AT_FULL_STEP = {0.01: 1.009, 0.02: 1.012, 0.04: 1.026}

PRESSURE = Reference(
    23.64, 0.07, "Allen and Tildesley, Computer Simulation of Liquids, their runs: 23.637, 23.635"
)


def temperatures(
    device: Device, *, particles: int, span: float, integrators: Sequence[str]
) -> CheckOutcome:
    """Measure kT at half and at full steps, for each integrator and time step."""
    findings: list[Finding] = []
    for integrator in integrators:
        for time_step in TIME_STEPS:
            fluid = make(device, DPDStandard, particles, time_step=time_step, integrator=integrator)
            half, full = kinetic_temperatures(fluid, span)
            findings += _temperature_findings(integrator, time_step, half, full)
    return CheckOutcome(findings)


def kinetic_temperatures(fluid: DPD, span: float) -> tuple[Estimate, Estimate]:
    """Return kT of half-step and of full-step velocities, over a span of time after settling."""
    pass_time(fluid, SETTLE)
    readings = [
        [fluid.observe(snapshot)[name] for name in ("half_step_temperature", "kinetic_temperature")]
        for snapshot in sampled(fluid, span, every=SPACING)
    ]
    half, full = (mean_of_series(series) for series in np.array(readings).T)
    return half, full


def _temperature_findings(
    integrator: str, time_step: float, half: Estimate, full: Estimate
) -> list[Finding]:
    at = f"time step {time_step:g}"
    if integrator != "velocity-verlet":
        return [
            found(f"kT, {integrator}, half step, {at}", half),
            found(f"kT, {integrator}, full step, {at}", full),
        ]
    return [
        found(
            f"kT, velocity-verlet, full step, {at}", full,
            Reference(AT_FULL_STEP[time_step], 0.005, LAMMPS),
        ),
        found(
            f"kT, lagged leap-frog, half step, {at}", half,
            Reference(LAGGED_AT_HALF_STEP[time_step], 0.007, LAGGED),
            "the run of velocity-verlet",
        ),
        found(
            f"kT, lagged leap-frog, full step, {at}", full,
            Reference(LAGGED_AT_FULL_STEP[time_step], 0.007, LAGGED),
            "the run of velocity-verlet",
        ),
    ]  # fmt: skip


def noise_generators(device: Device, *, particles: int, span: float) -> CheckOutcome:
    """Compare kT under the generator of the paper with kT under Philox."""
    findings = []
    for time_step in TIME_STEPS[1:]:
        philox, paper = (
            kinetic_temperatures(
                make(device, DPDStandard, particles, time_step=time_step, pair_noise=generator),
                span,
            )[1]
            for generator in ("philox", "rozen2008")
        )
        difference = Estimate(paper.value - philox.value, math.hypot(paper.error, philox.error))
        at = f"full step, time step {time_step:g}"
        findings += [
            found(f"kT, noise of rozen2008, {at}", paper),
            found(f"kT, noise of rozen2008 less that of Philox, {at}", difference),
        ]
    return CheckOutcome(findings)


def structure(
    device: Device, *, particles: int, snapshots: int, reach: float, distributions: int
) -> CheckOutcome:
    """Measure the pressure and the radial distribution function.

    distributions: the number of snapshots used for the distribution, which costs more.
    """
    fluid = make(device, DPDStandard, particles, time_step=0.02)
    pass_time(fluid, SETTLE)
    pressures, of_snapshots = [], []
    kt = fluid.fluid.temperature[0]
    for index, now in enumerate(sampled(fluid, SPACING * snapshots, every=SPACING)):
        pressures.append(pressure(now.positions, now.species, fluid.box, fluid.fluid, kt))
        if index < distributions:
            bins = round(reach / BIN)
            of_snapshots.append(radial_distribution(now.positions, fluid.box, reach, bins))
    distribution = RadialDistribution(
        of_snapshots[0].distance, np.mean([each.g for each in of_snapshots], axis=0)
    )
    spread = np.std([each.g for each in of_snapshots], axis=0, ddof=1)
    error = spread / math.sqrt(distributions)
    mean_pressure = mean_of_series(np.array(pressures), blocks=min(16, snapshots))
    return CheckOutcome(
        [
            found("pressure", mean_pressure, PRESSURE),
            *_distribution_findings(distribution, error, fluid),
        ],
        [_distribution_figure(distribution)],
    )


def _distribution_findings(
    distribution: RadialDistribution, error: Floats, fluid: DPD
) -> list[Finding]:
    r, g = distribution.distance, distribution.g
    far = r > r[-1] - FAR
    # Shells are weighted by their number of pairs.
    close = r < CLOSE
    shells = r[close] ** 2 / (r[close] ** 2).sum()
    peak = int(np.argmax(g))
    # A parabola through the highest bin and its neighbours.
    top_bins = np.abs(r - r[peak]) < PEAK
    curve = np.polyfit(r[top_bins], g[top_bins], 2)
    top = -curve[1] / (2 * curve[0])
    return [
        Finding(
            f"g(r), mean over the last {FAR:g} of r", float(g[far].mean()),
            float(error[far].mean() / math.sqrt(far.sum())),
            Reference(1.0, 0.005, "no order is left so far away"),
        ),
        Finding("g(r), r of the first maximum", float(top)),
        Finding(
            "g(r), height of the first maximum", float(np.polyval(curve, top)), float(error[peak])
        ),
        Finding(
            f"g(r), mean over r below {CLOSE:g}", float(g[close] @ shells),
            float(np.linalg.norm(error[close] * shells)),
            note="above 0: the particles are soft",
        ),
        Finding(
            "pressure from the integral of r^3 g(r) times the force",
            _pressure_of(distribution, fluid),
            reference=PRESSURE,
        ),
    ]  # fmt: skip


def _pressure_of(distribution: RadialDistribution, fluid: DPD) -> float:
    """Return rho kT + 2/3 pi rho^2 times the integral of r^3 f(r) g(r), f the force of a pair."""
    r = distribution.distance
    density = fluid.particles / fluid.box.volume
    force = fluid.fluid.repulsion[0] * np.maximum(1 - r / fluid.fluid.cutoff, 0)
    ends = np.append(0.0, r + r[0])  # bin edges
    shells = np.diff(ends**3) / 3  # integrals of r^2, since g is the mean over each shell
    integral = float((r * force * distribution.g) @ shells)
    return density * fluid.fluid.temperature[0] + 2 / 3 * math.pi * density**2 * integral


def _distribution_figure(distribution: RadialDistribution) -> Figure:
    return Figure(
        "radial-distribution", "Radial distribution function",
        "How many particles are at a distance from another, over how many would be at random.",
        PanelAxis("distance, cutoffs"), PanelAxis("g"),
        [Panel("", [curve("g(r)", distribution.distance, distribution.g)])],
    )  # fmt: skip


CHECKS = (
    Check(
        "temperature", "Which kT does each integrator keep?", temperatures,
        long={
            "particles": 65536, "span": 40.0,
            "integrators": ["velocity-verlet", "leap-frog", "groot-warren"],
        },
        quick={"particles": 2500, "span": 16.0, "integrators": ["velocity-verlet", "leap-frog"]},
    ),
    Check(
        "noise-generators", "Is kT another with the random numbers of the paper?", noise_generators,
        long={"particles": 65536, "span": 64.0}, quick={"particles": 2500, "span": 12.8},
    ),
    Check(
        "structure", "Are the pressure and the radial distribution function those of the fluid?",
        structure,
        long={"particles": 12000, "snapshots": 32, "reach": 2.5, "distributions": 6},
        quick={"particles": 3000, "snapshots": 6, "reach": 2.5, "distributions": 3},
    ),
)  # fmt: skip
