"""Checks of SPH with rigid bodies: hydrostatic pressure, a dam break, floating bodies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Panel, PanelAxis, Reference
from gpubench.physics.arrays import Floats
from gpubench.physics.dam_break import (
    EXPERIMENTS,
    LATE,
    LATE_SLOPE,
    LATE_SLOPE_ERROR,
    TOLERANCE,
    deviations,
    front_position,
    late_slope,
    scaled_time,
)
from gpubench.physics.fits import mean_of_series
from gpubench.physics.hydrostatics import (
    floating_draft,
    hydrostatic_deviation,
    local_surface,
    pressure_profile,
    surface_height,
    weight_density,
)
from gpubench.physics.rigid import RigidBody, ball_body, box_body
from gpubench.physics_checks.check import SEED, Check, CheckOutcome, curve, found
from gpubench.physics_checks.simulations import followed, make, pass_time, sampled
from gpubench.workloads.sph import SPH, SPHDamBreak, SPHRigidBody
from gpubench.workloads.sph_bodies import AXES
from gpubench.workloads.tank import Tank
from gpubench.workloads.workload import Snapshot, Value

TIME_STEP = 0.25
REST_MACH, REST_VISCOSITY = 0.1, 0.3
STRAYED = 0.2  # initial displacement of particles, in spacings: a lattice would never relax
LAYER, MARGIN = 1.0, 1.5  # thickness of profile layers and margin, in kernel radii
SNAPSHOTS = 20

DAM = {"height": 2.0, "length": 16.0, "top": 1.2, "mach": 0.2, "time_step": 0.3}
DAM_SPAN, DAM_EVERY = 9.3, 0.15  # in units of T

FLOAT = {"mach": 0.2, "viscosity": 0.05, "drop": 0.1, "contact_distance": 1.15}
SAMPLES = 24  # points per axis of a body, to find its immersed fraction


def hydrostatics(device: Device, *, particles: int, height: float, span: float) -> CheckOutcome:
    """Let a column settle, and compare its pressure with the weight above.

    height: column height in column widths. span: time to settle; the speed of sound is 1.
    """
    column = make(
        device, SPHDamBreak, particles, length=1.0, top=1.5, height=height, mach=REST_MACH,
        viscosity=REST_VISCOSITY, time_step=TIME_STEP,
    )  # fmt: skip
    return weigh_column(column, span, lambda: column.densities() - 1)


def weigh_column(column: Tank, span: float, pressures_now: Callable[[], Floats]) -> CheckOutcome:
    """Let a column settle for a time, and compare its pressures with the weight above."""
    let_stray(column)
    pass_time(column, span)
    width, depth, _ = column.scene.box.size
    gravity = -min(column.gravity)
    heights, pressures, surfaces = [], [], []
    for now in sampled(column, span / 4, span / 4 / SNAPSHOTS):
        heights.append(now.positions[:, 2])
        pressures.append(pressures_now())
        surfaces.append(surface_height(heights[-1], column.spacing, width * depth))
    profile = pressure_profile(np.concatenate(heights), np.concatenate(pressures), LAYER)
    surface = float(np.mean(surfaces))
    off = hydrostatic_deviation(profile, 1.0, gravity, surface, MARGIN)
    deep = profile.heights
    lines = [
        curve("measured", deep, profile.pressures),
        curve("weight above", deep, gravity * (surface - deep), "theory"),
    ]
    return CheckOutcome(
        [
            Finding(
                "pressure of a column at rest: furthest from rho0 g (H - z), over rho0 g H", off,
                reference=Reference(0.0, 0.03, "hydrostatics"),
                note=f"{MARGIN:g} kernel radii or more from floor and surface",
            ),
            Finding(
                "slope of the pressure over g", weight_density(profile, gravity, surface, MARGIN),
                reference=Reference(1.0, 0.03, "hydrostatics: the rest density"),
            ),
            Finding("height of the surface over that of the lattice",
                    surface / column.scene.height),
        ],
        [
            Figure(
                "hydrostatics", "A column of fluid at rest",
                "Mean pressure in horizontal layers, and the weight of what is above them.",
                PanelAxis("height, kernel radii"), PanelAxis("pressure"), [Panel("", lines)],
            )
        ],
    )  # fmt: skip


def let_stray(column: Tank) -> None:
    """Displace the particles of a lattice a little at random."""
    state, box = column.state(), column.box
    positions = box.to_positions(state["places"])
    rng = np.random.default_rng(SEED)
    positions += rng.normal(scale=STRAYED * column.spacing, size=positions.shape)
    state["places"][:, :3] = box.to_units(positions)
    column.restore(state)


def dam_break(
    device: Device, *, particles: int, depth: float, reynolds: float, free: bool
) -> CheckOutcome:
    """Follow the front of a collapsing column, and compare it with experiments.

    depth: tank depth in column widths. reynolds: Reynolds number of the column's width and the
    speed of a fall from its height; sets the viscosity, which replaces the missing floor friction.
    free: whether to run once more with a fiftieth of the viscosity.
    """

    def make_dam(viscosity: float) -> SPH:
        given: dict[str, Value] = {**DAM, "depth": depth, "viscosity": viscosity}
        return make(device, SPHDamBreak, particles, **given)

    return compare_fronts(make_dam, reynolds, 50 * reynolds if free else None)


def compare_fronts(
    make_dam: Callable[[float], Tank],
    reynolds: float,
    free: float | None,
    is_late_compared: bool = True,
) -> CheckOutcome:
    """Compare the front of a dam break with experiments.

    make_dam: makes a dam of a given viscosity. reynolds, free: see `dam_break`; free is the
    Reynolds number of the second run, or None for none. is_late_compared: whether the late speed
    has a reference.
    """
    times, fronts = _front(make_dam, reynolds)
    findings = [
        Finding(
            f"front of the dam break: furthest from {EXPERIMENTS[name].title}, over it",
            off,
            reference=Reference(0.0, TOLERANCE, EXPERIMENTS[name].title),
        )
        for name, off in deviations(times, fronts).items()
    ]
    slope = None
    if is_late_compared:
        slope = Reference(LATE_SLOPE, LATE_SLOPE_ERROR, EXPERIMENTS["martin-moyce-2"].title)
    late = f"late speed of the front, dZ/dT, T from {LATE[0]:g} to {LATE[1]:g}"
    findings.append(found(late, late_slope(times, fronts), slope, f"Reynolds number {reynolds:g}"))
    lines = [curve("measured", times, fronts)]
    if free is not None:
        times, fronts = _front(make_dam, free)
        findings.append(found(f"{late}, nearly without viscosity", late_slope(times, fronts)))
        findings += [
            Finding(f"front nearly without viscosity: furthest from {EXPERIMENTS[name].title}", off)
            for name, off in deviations(times, fronts).items()
        ]
        lines.append(curve("nearly without viscosity", times, fronts))
    lines += [curve(each.title, each.times, each.fronts, "theory") for each in EXPERIMENTS.values()]
    figure = Figure(
        "dam-break", "The front of a dam break",
        "How far a column of width a and height 2 a has run along the floor.",
        PanelAxis("T = t sqrt(2 g / a)"), PanelAxis("Z = x / a"), [Panel("", lines)],
    )  # fmt: skip
    return CheckOutcome(findings, [figure])


def _front(make_dam: Callable[[float], Tank], reynolds: float) -> tuple[Floats, Floats]:
    """Simulate a dam break at a Reynolds number; return T and Z of its front."""
    width = make_dam(0.0).scene.box.size[0] / DAM["length"]  # width of the column
    dam = make_dam(DAM["mach"] * width / reynolds)
    scale = scaled_time(1.0, width, -min(dam.gravity))
    times, fronts = followed(
        dam, DAM_SPAN * (1 / scale), DAM_EVERY * (1 / scale),
        lambda now: front_position(now.positions, dam.spacing, now.size[1]) / width,
    )  # fmt: skip
    return times * scale, fronts


def floating(
    device: Device, *, particles: int, size: float, densities: list[float], span: float
) -> CheckOutcome:
    """Drop a box and a ball into a pool, and measure how deep they float.

    size: body size in fluid depths. densities: body densities, one run each. span: time to
    settle.
    """
    findings = []
    for density in densities:
        pool = make(
            device, SPHRigidBody, particles, bodies=2, body_size=size, body_density=density,
            height=0.4, time_step=TIME_STEP, **FLOAT,
        )  # fmt: skip
        pass_time(pool, span)
        edge = size * pool.scene.height
        shares, surfaces = [], []
        for now in sampled(pool, span / 4, span / 4 / SNAPSHOTS):
            surfaces.append(_surface(now, pool, edge))
            shares.append(_shares(pool, edge, surfaces[-1]))
        wanted = floating_draft(density, 1.0)
        for name, share in zip(("box", "ball"), np.array(shares).T, strict=True):
            findings.append(
                found(
                    f"share of a {name} of density {density:g} below the surface",
                    mean_of_series(share, blocks=4), Reference(wanted, 0.05, "Archimedes"),
                    f"{edge / pool.spacing:.0f} particles across",
                )
            )  # fmt: skip
    return CheckOutcome(findings)


def _surface(now: Snapshot, pool: SPH, edge: float) -> float:
    """Return the surface height of fluid at least two kernel radii away from bodies."""
    fluid = now.positions[now.species == 0]
    far = np.ones(len(fluid), bool)
    for body in _bodies(pool):
        away = fluid[:, :2] - body.centre[list(AXES)][:2]
        away[:, 1] -= now.size[1] * np.rint(away[:, 1] / now.size[1])
        far &= (away**2).sum(axis=1) > (edge / 2 * math.sqrt(2) + 2) ** 2
    return local_surface(fluid[far], pool.spacing)


def _shares(pool: SPH, edge: float, surface: float) -> list[float]:
    """Return the fractions of the box's and the ball's volume that are below the surface."""
    box = box_body((edge,) * 3, (0, 0, 0), 1.0, edge / SAMPLES, shell=math.inf)
    ball = ball_body(edge / 2, (0, 0, 0), 1.0, edge / SAMPLES, shell=math.inf)
    up = AXES[2]
    return [
        float((body.centre[up] + (points @ body.rotation.T)[:, up] < surface).mean())
        for body, points in zip(_bodies(pool), (box.offsets, ball.offsets), strict=True)
    ]


def _bodies(pool: SPH) -> list[RigidBody]:
    return pool.bodies_in(pool.state())


CHECKS = (
    Check(
        "hydrostatics", "Has a column at rest the pressure of its weight?", hydrostatics,
        long={"particles": 64000, "height": 1.0, "span": 4000.0},
        quick={"particles": 2500, "height": 1.5, "span": 400.0},
    ),
    Check(
        "dam-break", "Does a breaking dam run as in experiments?", dam_break,
        long={"particles": 120000, "depth": 1.0, "reynolds": 55.0, "free": True},
        quick={"particles": 8000, "depth": 0.2, "reynolds": 90.0, "free": False},
    ),
    Check(
        "floating", "Does a floating body lie as deep as Archimedes says?", floating,
        long={"particles": 200000, "size": 0.5, "densities": [0.3, 0.5, 0.7], "span": 3000.0},
        quick={"particles": 5000, "size": 0.6, "densities": [0.5], "span": 500.0},
    ),
)  # fmt: skip
