"""Checks of the fluid with density constraints: exact properties, fluid at rest, and in motion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.integrate import quad

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Panel, PanelAxis, Reference
from gpubench.physics.box import Box
from gpubench.physics.constraint import (
    constraint_values,
    impulses,
    rates,
    spline,
    viscous,
    within_walls,
)
from gpubench.physics.sph import mass_for, spacing_for
from gpubench.physics_checks.check import SEED, Check, CheckOutcome, curve
from gpubench.physics_checks.simulations import compare_steps, make, pass_time
from gpubench.physics_checks.sph_flows import DAM, compare_fronts, let_stray, weigh_column
from gpubench.workloads.constraint_fluid import ConstraintFluid
from gpubench.workloads.sph_bodies import AXES
from gpubench.workloads.tank import by_ids
from gpubench.workloads.workload import Value

STEP = 1e-5  # step of finite differences, in kernel radii
NEIGHBOURS = 30.0
# Parameters of the steps that are compared with float64.
STEPS: Sequence[Mapping[str, Value]] = (
    {},
    {"solver": "jacobi"},
    {"iterations": 5, "restart": 3, "time_step": 1.0, "viscosity": 0.03},
    {"compliance": 0.0, "damping": 0.5, "warm_start": 0.5},
)
REST: Mapping[str, Value] = {
    "length": 1.0, "top": 1.5, "mach": 0.1, "viscosity": 0.1, "tolerance": 1e-4
}  # fmt: skip


def gradient(device: Device, *, particles: int) -> CheckOutcome:
    """Compare G with finite differences of g, and with G's transpose; needs no device."""
    rng = np.random.default_rng(SEED)
    spacing = spacing_for(NEIGHBOURS)
    mass = mass_for(spacing, spline)
    edge = max(3.0, particles ** (1 / 3) * spacing)
    box = Box((edge,) * 3, (True, False, True))
    positions = rng.uniform(0, edge, (particles, 3))
    velocities = rng.normal(size=(particles, 3))
    x = rng.uniform(0, 1, particles)
    ahead, back = (
        constraint_values(positions + sign * STEP * velocities, box, mass) for sign in (1, -1)
    )
    found = rates(positions, velocities, box, mass)
    off = np.abs((ahead - back) / (2 * STEP) - found).max() / np.abs(found).max()
    # x . G w = -(M^-1 G^T lambda) . w for lambda = -m x.
    one = float(x @ found)
    other = -float((impulses(positions, x, box, mass) * velocities).sum())
    total = quad(lambda r: 4 * math.pi * r**2 * float(spline(np.array(r))), 0, 1)[0]
    return CheckOutcome(
        [
            Finding("integral of the kernel over space", total, None,
                    Reference(1.0, 1e-8, "a kernel is normalised")),
            Finding("G v: furthest from differences of g, over the greatest", float(off), None,
                    Reference(0.0, 1e-5, "G is the derivative of g")),
            Finding("product with G and with its transpose: difference over their size",
                    abs(one - other) / abs(one), None, Reference(0.0, 1e-12, "one matrix")),
        ]
    )  # fmt: skip


def steps(device: Device, *, particles: int, span: int) -> CheckOutcome:
    """Compare steps of both solvers, and the residuals they report, with float64."""
    runs = [(str(dict(parameters)), ConstraintFluid, parameters) for parameters in STEPS]
    return compare_steps(device, particles, runs, [span, span])


def momentum(device: Device, *, particles: int, span: int) -> CheckOutcome:
    """Stir a column and follow its momentum along y, where there are no walls and no gravity.

    Along the other axes, gravity and walls must account for a step's change of momentum; the walls'
    part is computed in float64 from the step's own pressures.
    """
    column = make(device, ConstraintFluid, particles, length=1.2, viscosity=0.05)
    let_stray(column)
    rng = np.random.default_rng(SEED)
    state = column.state()
    state["velocities"][:, :3] = rng.normal(0.02, 0.05, (particles, 3))
    column.restore(state)
    free = AXES[1]
    first = state["velocities"][:, free].sum(dtype=np.float64)
    momenta, unexplained = [], 0.0
    for _ in range(10):
        before = by_ids(column.state())
        column.advance(1)
        unexplained = max(unexplained, _unexplained(column, before, by_ids(column.state())))
        column.advance(span)
        column.require_sound()
        momenta.append(column.state()["velocities"][:, free].sum(dtype=np.float64))
    off = float(np.abs(np.array(momenta) - first).max())
    walk = 2.0**-24 * 0.1 * math.sqrt(10 * (span + 1) * particles)
    return CheckOutcome(
        [
            Finding("momentum along y: furthest from the first, over a random walk of roundings",
                    off / walk, None, Reference(0.0, 3.0, "impulses of a pair cancel to the bit")),
            Finding("momentum of a step beyond that of gravity and walls, over that of all"
                    " particles at Mach", unexplained, None,
                    Reference(0.0, 1e-5, "impulses of a pair cancel")),
        ]
    )  # fmt: skip


def _unexplained(
    column: ConstraintFluid, before: Mapping[str, Any], after: Mapping[str, Any]
) -> float:
    """Return the largest momentum change of a step not due to gravity or walls."""
    box, liquid = column.box, column.liquid
    positions = box.to_positions(before["places"])
    begin = before["velocities"][:, :3].astype(np.float64)
    x = after["velocities"][:, 3].astype(np.float64)
    pulled = liquid.time_step * np.asarray(liquid.gravity)
    drag = liquid.time_step * viscous(positions, begin, box, liquid)
    _, cut = within_walls(
        positions, begin + drag + pulled + impulses(positions, x, box, liquid.mass), box, liquid
    )
    gained = (after["velocities"][:, :3].astype(np.float64) - begin - pulled - cut).sum(axis=0)
    return float(np.abs(gained).max()) / (len(begin) * column.number("mach"))


def rest(device: Device, *, particles: int, height: float, span: float) -> CheckOutcome:
    """Let a column settle; compare its pressure with the weight above, and its density with 1."""
    column = make(device, ConstraintFluid, particles, height=height, **REST)
    weighed = weigh_column(column, span, column.pressures)
    errors = np.maximum(column.density_errors(), 0)
    findings = [
        Finding("density error of a column at rest, largest", float(errors.max()), None,
                Reference(0.0, 0.005, "what the constraints ask for")),
        Finding("density error of a column at rest, mean", float(errors.mean()), None,
                Reference(0.0, 0.0005, "what the constraints ask for")),
        _solves(column),
    ]  # fmt: skip
    return CheckOutcome([*weighed.findings, *findings], weighed.figures)


def energy(device: Device, *, particles: int, span: float) -> CheckOutcome:
    """Break a dam against a wall without viscosity, and follow energy and density."""
    given: dict[str, Value] = {"viscosity": 0.0, "tolerance": 1e-4, "iterations": 96}
    dam = make(device, ConstraintFluid, particles, length=2.0, **given)
    energies, largest, mean = [], 0.0, 0.0
    for _ in range(round(span / dam.time_step)):
        pass_time(dam, dam.time_step)
        seen = dam.observe(dam.snapshot())
        energies.append(seen["kinetic_energy"] + seen["potential_energy"])
        largest = max(largest, seen["largest_density_error"])
        mean = max(mean, seen["mean_density_error"])
    total = np.array(energies)
    rise = float((total - np.minimum.accumulate(total)).max())
    times = np.arange(1, len(total) + 1) * dam.time_step
    shown = slice(0, 200 * max(1, len(times) // 200), max(1, len(times) // 200))
    return CheckOutcome(
        [
            Finding("energy of a dam break: largest rise above what it was, over that at first",
                    rise / total[0], None, Reference(0.0, 1e-3, "constraints do no work")),
            Finding("energy that is left, over that at first", float(total[-1] / total[0])),
            Finding("density error in the dam break, largest", largest, None,
                    Reference(0.0, 0.3, "the wave that falls back is the worst")),
            Finding("density error in the dam break, largest mean of a step", mean, None,
                    Reference(0.0, 0.01, "what the constraints ask for")),
            _solves(dam),
        ],
        [
            Figure(
                "energy", "Energy of a dam break",
                "Kinetic and potential energy over the particles and g H.",
                PanelAxis("time, kernel radii over the speed of sound of SPH"), PanelAxis("energy"),
                [Panel("", [curve("measured", times[shown], total[shown])])],
            )
        ],
    )  # fmt: skip


def dam_break(
    device: Device, *, particles: int, depth: float, reynolds: float, free: bool, late: bool
) -> CheckOutcome:
    """Follow the front of a collapsing column as for SPH; see sph_flows.dam_break.

    late: whether to compare the late speed too. In coarse runs, the late fluid is a layer only
    one kernel thick: particles lack neighbours to build up pressure, and move too slowly.
    """
    given: dict[str, Value] = {**DAM, "depth": depth, "time_step": 1.0, "tolerance": 2e-4}

    def make_dam(viscosity: float) -> ConstraintFluid:
        return make(device, ConstraintFluid, particles, **given, viscosity=viscosity)

    return compare_fronts(make_dam, reynolds, 50 * reynolds if free else None, late)


def _solves(fluid: ConstraintFluid) -> Finding:
    """Return the iterations per step, with a note on the largest residual."""
    found = fluid.solves()
    note = (
        f"residual up to {found['largest_residual']:.2g}, {found['unconverged_steps']:.0f} steps"
        f" above the tolerance {fluid.number('tolerance'):g}"
    )
    return Finding("iterations of a step", found["iterations"], note=note)


CHECKS = (
    Check(
        "gradient", "Is G the derivative of g?", gradient,
        long={"particles": 20000}, quick={"particles": 2000},
    ),
    Check(
        "steps",
        "Does a step agree with float64 for its pressures, and does it report its residual?", steps,
        long={"particles": 131072, "span": 300}, quick={"particles": 1200, "span": 10},
    ),
    Check(
        "momentum", "Do only walls and gravity change the momentum?", momentum,
        long={"particles": 131072, "span": 100}, quick={"particles": 1200, "span": 5},
    ),
    Check(
        "hydrostatics", "Has a column at rest the pressure of its weight, and its density?", rest,
        long={"particles": 64000, "height": 1.0, "span": 4000.0},
        quick={"particles": 2500, "height": 1.5, "span": 200.0},
    ),
    Check(
        "energy", "Does energy not grow, and density stay?", energy,
        long={"particles": 64000, "span": 1000.0}, quick={"particles": 1000, "span": 200.0},
    ),
    Check(
        "dam-break", "Does a breaking dam run as in experiments?", dam_break,
        long={"particles": 120000, "depth": 1.0, "reynolds": 55.0, "free": True, "late": True},
        quick={"particles": 4000, "depth": 0.2, "reynolds": 55.0, "free": False, "late": False},
    ),
)  # fmt: skip
