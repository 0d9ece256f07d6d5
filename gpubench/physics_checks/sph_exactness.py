"""Exact checks of SPH (up to rounding): kernels, steps, momentum; and the longest steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.integrate import quad

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Finding, Reference
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.sph import (
    INTEGRATORS,
    SPHFluid,
    mass_for,
    poly6,
    poly6_slope,
    spacing_for,
    spiky,
    spiky_slope,
    viscous,
    viscous_laplacian,
)
from gpubench.physics.sph_forces import densities, mean_pressure
from gpubench.physics_checks.check import NEVER, Check, CheckOutcome
from gpubench.physics_checks.simulations import compare_steps, make, pass_time
from gpubench.workloads.sph import SPH, SPHDamBreak, SPHRigidBody
from gpubench.workloads.sph_bodies import AXES
from gpubench.workloads.workload import BlowUp, Value

STEP = 1e-4  # step of finite differences, in kernel radii
COMPRESSION = 0.01

# Workloads and parameters for comparing a step with float64.
STEPS: Sequence[tuple[type[SPH], Mapping[str, Value]]] = (
    (SPHDamBreak, {}),
    (SPHDamBreak, {"pressure": "kept", "viscosity": 0.2}),
    (SPHRigidBody, {"mach": 0.3, "drop": 0.0}),
)

# A body's initial velocity in fluid at rest, in speeds of sound: downwards, and horizontal.
THROWN = 0.1, 0.05

SETTLED = 150.0  # time for a column to come to rest
RESTLESS = 2.0  # a column counts as moving above this multiple of its speed with short steps
RATIO = 1.5  # ratio of successive time steps that are tried


def kernels(device: Device, *, neighbours: float) -> CheckOutcome:
    """Integrate the kernels; compare slopes with finite differences; needs no device."""
    findings = [
        Finding(
            f"integral of the {name} kernel over space",
            quad(lambda r, w=kernel: 4 * math.pi * r**2 * float(w(np.array(r))), 1e-12, 1)[0],
            reference=Reference(1.0, 1e-8, "equation 3 asks for it"),
        )
        for name, kernel in (("density", poly6), ("pressure", spiky), ("viscosity", viscous))
    ]
    r = np.linspace(0.05, 0.95, 181)
    for name, found, expected in (
        ("slope of the density kernel", poly6_slope(r), _slope(poly6, r)),
        ("slope of the pressure kernel", spiky_slope(r), _slope(spiky, r)),
        ("Laplacian of the viscosity kernel", viscous_laplacian(r), _laplacian(viscous, r)),
    ):
        off = np.abs(found - expected).max() / np.abs(expected).max()
        findings.append(
            Finding(
                f"{name}: furthest from differences, over the greatest", float(off),
                reference=Reference(0.0, 1e-5, "of the kernel"),
            )
        )  # fmt: skip
    return CheckOutcome([*findings, _lattice_pressure(neighbours)])


def _slope(kernel: Callable[[Floats], Floats], r: Floats) -> Floats:
    return (kernel(r + STEP) - kernel(r - STEP)) / (2 * STEP)


def _laplacian(kernel: Callable[[Floats], Floats], r: Floats) -> Floats:
    outer, inner = r + STEP, r - STEP
    return (outer * kernel(outer) - 2 * r * kernel(r) + inner * kernel(inner)) / STEP**2 / r


def _lattice_pressure(neighbours: float) -> Finding:
    """Compare the forces' pressure in a compressed lattice with the equation of state."""
    spacing = spacing_for(neighbours)
    fluid = SPHFluid(spacing, mass_for(spacing), 0.0, (0.0, 0.0, 0.0), False, 0.0, 0.0, 0.0)
    edge = math.ceil(3 / spacing)
    spacing *= (1 - COMPRESSION) ** (1 / 3)
    axis = np.arange(edge) * spacing
    points = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    box = Box((edge * spacing,) * 3)
    density = densities(points, box, fluid)
    exerted = mean_pressure(points, density, box, fluid)
    return Finding(
        f"pressure that the forces exert in a lattice {COMPRESSION:.0%} denser than at rest, over"
        " that of its density",
        exerted / float(density.mean() - 1),
        reference=Reference(1.0, 0.03, "the equation of state"),
    )


def steps(device: Device, *, particles: int, span: int) -> CheckOutcome:
    """Compare steps of every workload and both integrators with float64."""
    runs = []
    for workload, parameters in STEPS:
        for integrator in INTEGRATORS:
            given = {**parameters, "integrator": integrator, "time_step": 0.05}
            runs.append((f"{workload.name}, {integrator}", workload, given))
    return compare_steps(device, particles, runs, [span, span])


def exchange(device: Device, *, particles: int, span: int) -> CheckOutcome:
    """Throw a body into fluid without gravity; follow the total momentum and its exchange.

    Along the periodic axis, without walls, the fluid gains the momentum that the body loses.
    """
    pool = make(
        device, SPHRigidBody, particles, bodies=1, mach=0.0, drop=0.1, height=0.5,
        time_step=0.2,
    )  # fmt: skip
    down, along = AXES[2], AXES[1]
    state = pool.state()
    state["bodies"][0, 2, [down, along]] = -THROWN[0], THROWN[1]
    pool.restore(state)
    begin = _momenta(pool, along)
    unequal, momenta = 0, []
    for _ in range(20):
        pool.advance(span)
        pool.require_sound()
        unequal += int(_force_sum(pool).any())
        momenta.append(_momenta(pool, along))
    fluid, body = np.array(momenta).T
    lost = float(begin[1] - body[-1])
    off = np.abs(fluid + body - sum(begin)).max()
    # A random walk: one rounding of each velocity in each step.
    walk = 2.0**-24 * THROWN[0] * pool.fluid.mass * math.sqrt(20 * span * particles)
    walk += 2.0**-24 * THROWN[1] * pool.bodies[0].mass * math.sqrt(20 * span)
    return CheckOutcome(
        [
            Finding("steps, of 20, after which the forces do not add up to 0", unequal, None,
                    NEVER),
            Finding(
                "momentum of fluid and body together: furthest from the first, over a random walk"
                " of roundings",
                float(off / walk),
                reference=Reference(0.0, 3.0, "forces of a pair cancel to the bit"),
            ),
            Finding("momentum that the body gave to the fluid, over what it had", lost / begin[1]),
        ]
    )  # fmt: skip


def _momenta(pool: SPH, axis: int) -> tuple[float, float]:
    """Return the momenta of the fluid and of the first body; axis: in memory order."""
    state = pool.state()
    velocities = state["velocities"][:, axis].astype(np.float64)
    body = pool.bodies_in(state)[0]
    return pool.fluid.mass * float(velocities.sum()), body.mass * float(body.velocity[axis])


def _force_sum(pool: SPH) -> Floats:
    """Sum the forces of the last step, within the fluid and between fluid and bodies."""
    pushes = pool.device.download(pool.on_device.pushes)[:, :3]
    on_bodies = np.rint(pushes / np.float64(pool.fluid.force_step)).sum(axis=0)
    total: Floats = pool.computed("force")[:, :3].sum(axis=0, dtype=np.float64) + on_bodies
    return total


def integrators(device: Device, *, particles: int, span: float, viscosity: float) -> CheckOutcome:
    """Find the longest steps with which a column at rest stays at rest."""
    given: dict[str, Any] = {"length": 1.0, "height": 1.0, "mach": 0.1, "viscosity": viscosity}
    column = make(device, SPHDamBreak, particles, time_step=0.1, **given)
    pass_time(column, SETTLED)
    start = column.state() | {"step": np.array(0, np.int64)}

    @cache
    def speed(integrator: str, time_step: float) -> float:
        """Return the final root-mean-square speed; infinite where the run blows up."""
        moved = make(
            device, SPHDamBreak, particles, integrator=integrator, time_step=time_step, **given
        )
        moved.restore(start)
        try:
            pass_time(moved, span)
        except BlowUp:
            return math.inf
        return math.sqrt(float((moved.snapshot().velocities ** 2).sum(axis=1).mean()))

    # By linear theory, explicit Euler is stable for sound if the step is below the viscosity.
    shortest = viscosity / 2
    calm = RESTLESS * speed("symplectic", shortest)
    longest = dict.fromkeys(INTEGRATORS, 0.0)
    for integrator in INTEGRATORS:
        step = shortest
        while speed(integrator, step) <= calm:
            longest[integrator] = step
            step *= RATIO
    euler, symplectic = longest["euler"], longest["symplectic"]
    note = f"viscosity {viscosity:g}, steps tried in ratios of {RATIO:g}"
    return CheckOutcome(
        [
            Finding("longest stable step, explicit Euler", euler, note=note),
            Finding("longest stable step, symplectic Euler", symplectic, note=note),
            Finding(
                "does explicit Euler bear steps as long as symplectic Euler (1: yes)",
                int(euler >= symplectic),
                reference=Reference(0, 0, "only the latter is stable for undamped oscillators"),
            ),
        ]
    )


CHECKS = (
    Check(
        "kernels", "Do the smoothing kernels integrate to 1, and do forces exert the pressure?",
        kernels,
        long={"neighbours": 30.0}, quick={"neighbours": 30.0},
    ),
    Check(
        "steps", "Is a step that of float64, in densities, forces, places, and states of bodies?",
        steps,
        long={"particles": 131072, "span": 1000}, quick={"particles": 2000, "span": 40},
    ),
    Check(
        "exchange", "Does the fluid gain the momentum that a body loses?", exchange,
        long={"particles": 131072, "span": 200}, quick={"particles": 3000, "span": 20},
    ),
    Check(
        "integrators", "How long may a step be, by explicit and by symplectic Euler?", integrators,
        long={"particles": 8000, "span": 300.0, "viscosity": 0.02},
        quick={"particles": 600, "span": 40.0, "viscosity": 0.1},
    ),
)  # fmt: skip
