"""The Rayleigh-Taylor instability: the mixing layer, and a single wave against linear theory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from gpubench.base.errors import UserError
from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Panel, PanelAxis, Reference
from gpubench.physics.arrays import Floats
from gpubench.physics.fits import LEAST_POINTS, Estimate, fit_line, mean_of, mean_of_series
from gpubench.physics.interfaces import interface_stress, settled_heights
from gpubench.physics.mixing import (
    atwood_number,
    heavy_fraction,
    interface_wave,
    linear_growth_rate,
    mixing_layer,
    viscous_growth_rate,
)
from gpubench.physics_checks.check import SEED, Check, CheckOutcome, curve, found
from gpubench.physics_checks.simulations import followed, make, pass_time, sampled
from gpubench.physics_checks.transport import DENSITY, VISCOSITY
from gpubench.workloads.dpd import DPD, LAYER, DPDRayleighTaylor
from gpubench.workloads.workload import Snapshot

SAMPLES = 40
MIXED = 0.1, 0.6  # heights, as fractions of the box, between which the mixing layer is fitted

# dp/drho of p = rho kT + 0.101 a rho^2 (Groot and Warren 1997) for density 3, kT = 1 and a = 25.
STIFFNESS = 1 + 2 * 0.101 * 25 * DENSITY
WEIGHT = 1.0  # gravity times height: compresses the lower fluid by only a few percent
FIRST_AMPLITUDE = 0.015  # amplitude of the initial wave, in wavelengths
STEEPEST = 0.4  # wavenumber times amplitude up to which a wave counts as small

TENSION_EDGE = 10.0  # height of a box with two interfaces


def mixing(
    device: Device, *, particles: Sequence[int], depths: Sequence[float], span: float
) -> CheckOutcome:
    """Follow the height of the mixing layer from a flat interface."""
    findings, lines = [], []
    for count, depth in zip(particles, depths, strict=True):
        column = make(device, DPDRayleighTaylor, count, depth=depth)
        times, heights = _mixing_heights(column, span)
        lines.append(curve(f"{count:,} particles", times, heights))
        findings += _mixing_findings(column, times, heights)
    figure = Figure(
        "mixing-height", "Rayleigh-Taylor mixing layer",
        "Height of the layer in which the fluids have mixed, 6 times the integral of c (1 - c)"
        " over z, c the share of the heavy fluid.",
        PanelAxis("time"), PanelAxis("height of the mixing layer, cutoffs"), [Panel("", lines)],
    )  # fmt: skip
    return CheckOutcome(findings, [figure])


def _mixing_heights(column: DPD, span: float) -> tuple[Floats, Floats]:
    def height(now: Snapshot) -> float:
        return mixing_layer(*heavy_fraction(now.positions, now.species, column.box, LAYER)).height

    return followed(column, span, span / SAMPLES, height)


def _mixing_findings(column: DPD, times: Floats, heights: Floats) -> list[Finding]:
    """Return the last height h, and alpha in h = alpha A g t^2, from the slope of sqrt(h)."""
    of_box = heights / column.box.size[2]
    in_range = (of_box > MIXED[0]) & (of_box < MIXED[1])
    if (count := int(in_range.sum())) < LEAST_POINTS:
        raise UserError(
            f"{count} samples of the mixing layer are {MIXED[0]:g} to {MIXED[1]:g} of the box high,"
            f" and a fit needs {LEAST_POINTS}: run it longer, or in a smaller box"
        )
    slope = fit_line(times[in_range], np.sqrt(heights[in_range])).slope
    light, heavy = column.fluid.mass
    alpha = slope.value**2 / (atwood_number(heavy, light) * -column.fluid.gravity[2])
    return [
        Finding(
            f"mixing layer of {column.particles:,} particles: height at time {times[-1]:g}",
            float(heights[-1]),
        ),
        found(
            f"mixing layer of {column.particles:,} particles: alpha of height = alpha A g t^2",
            Estimate(alpha, 2 * alpha * abs(slope.error / slope.value)),
            note=f"heights from {MIXED[0]:g} to {MIXED[1]:g} of the box,"
            f" which is {column.box.size[2]:.3g} high",
        ),
    ]


@dataclass(frozen=True)
class Wave:
    """A single wave and the parameters of its growth.

    tension: interfacial tension.
    """

    wavelength: float
    gravity: float
    mass: tuple[float, float]
    tension: float

    @property
    def wavenumber(self) -> float:
        """2 pi over the wavelength."""
        return 2 * math.pi / self.wavelength

    @property
    def atwood(self) -> float:
        """The Atwood number of the masses, as the number densities are the same."""
        return atwood_number(self.mass[1], self.mass[0])

    @property
    def restored_gravity(self) -> float:
        """Gravity reduced by the effect of interfacial tension at this wavelength."""
        difference = DENSITY * (self.mass[1] - self.mass[0])
        return self.gravity - self.tension * self.wavenumber**2 / difference

    @property
    def kinematic_viscosity(self) -> float:
        """The mixture's kinematic viscosity: the viscosity over the mean mass density."""
        return VISCOSITY / (DENSITY * sum(self.mass) / 2)

    @property
    def growth_rate(self) -> float:
        """The rate of linear theory with viscosity; UserError where tension stabilises the wave."""
        if self.restored_gravity <= 0:
            raise UserError(
                f"the interface's tension of {self.tension:.3g} keeps a wave of length"
                f" {self.wavelength:g} down: it must be longer"
            )
        return viscous_growth_rate(
            self.atwood, self.restored_gravity, self.wavenumber, self.kinematic_viscosity
        )


def single_mode(
    device: Device,
    *,
    wavelength: float,
    depth: float,
    repulsion: float,
    runs: int,
    tension_particles: int,
    tension_snapshots: int,
) -> CheckOutcome:
    """Measure the growth rate of a single small wave of the interface, in runs of different seeds.

    repulsion: repulsion between the fluids. A stronger one reduces mixing, so that the densities
        of both sides are better defined.
    """
    tension = surface_tension(device, tension_particles, tension_snapshots, repulsion)
    particles = round(DENSITY * depth * wavelength**2)
    rates, curves = [], []
    for seed in range(SEED, SEED + runs):
        column = make(
            device, DPDRayleighTaylor, particles, seed,
            depth=depth, gravity=WEIGHT / wavelength, repulsion_ab=repulsion, share_b=0.5,
            wave=1, amplitude=FIRST_AMPLITUDE * wavelength,
        )  # fmt: skip
        wave = Wave(wavelength, WEIGHT / wavelength, column.fluid.mass, tension.value)
        _let_settle(column)
        times, amplitudes = _amplitudes(column, wave)
        curves.append(amplitudes)
        rates.append(_rate(times, amplitudes, wave))
    mean = mean_of(rates)
    amplitudes = np.mean(curves, axis=0)
    return CheckOutcome(
        [
            found(f"tension of the interface, repulsion {repulsion:g} to 25", tension),
            *_growth_findings(mean, wave),
        ],
        [_single_mode_figure(times, amplitudes, mean.value, wave)],
    )


def surface_tension(device: Device, particles: int, snapshots: int, repulsion: float) -> Estimate:
    """Measure the tension of two flat interfaces in a periodic box without gravity."""
    width = math.sqrt(particles / DENSITY / TENSION_EDGE)
    slab = make(
        device, DPDRayleighTaylor, particles,
        depth=width, height=TENSION_EDGE / width, repulsion_ab=repulsion, share_b=0.5,
        gravity=0.0, mass_a=1.0, mass_b=1.0, walls="none",
    )  # fmt: skip
    pass_time(slab, 10.0)
    stresses = [
        interface_stress(now.positions, now.species, slab.box, slab.fluid)
        for now in sampled(slab, snapshots * 1.0, every=1.0)
    ]
    return mean_of_series(np.array(stresses), blocks=min(16, snapshots)).times(1 / 2)


def _let_settle(column: DPD) -> None:
    """Start from the density profile at rest: otherwise the fluid falls and bounces."""
    state = column.state()
    positions = column.box.to_positions(state["places"])
    light_share = 1 - column.number("share_b")
    positions[:, 2] = settled_heights(
        positions[:, 2], column.box.size[2], light_share, -column.fluid.gravity[2],
        column.fluid.mass, STIFFNESS,
    )  # fmt: skip
    state["places"][:, :3] = column.box.to_units(positions)
    column.restore(state)


def _amplitudes(column: DPD, wave: Wave) -> tuple[Floats, Floats]:
    """Return times and amplitudes of the wave, until theory predicts steepness STEEPEST."""
    growth = STEEPEST / (wave.wavenumber * FIRST_AMPLITUDE * wave.wavelength)
    span = math.acosh(growth) / wave.growth_rate

    def amplitude(now: Snapshot) -> float:
        return interface_wave(now.positions, now.species, column.box).real

    return followed(column, span, span / SAMPLES, amplitude)


def _rate(times: Floats, amplitudes: Floats, wave: Wave) -> float:
    """Return n of the small amplitudes, which grow as cosh(n t) from an interface at rest."""
    small = amplitudes * wave.wavenumber < STEEPEST
    at, measured = times[small], amplitudes[small]

    def misfit(rate: float) -> float:
        """Return the residual sum of squares with the best-fitting first amplitude."""
        shape = np.cosh(rate * at)
        left = measured - shape * (measured @ shape) / (shape @ shape)
        return float(left @ left)

    return float(minimize_scalar(misfit, bounds=(0, 3 * wave.growth_rate)).x)


def _growth_findings(rate: Estimate, wave: Wave) -> list[Finding]:
    inviscid = math.sqrt(wave.atwood * wave.gravity * wave.wavenumber)
    duff = linear_growth_rate(
        wave.atwood, wave.restored_gravity, wave.wavenumber, wave.kinematic_viscosity
    )
    return [
        found(
            "growth rate of a single wave over that of linear theory",
            rate.times(1 / wave.growth_rate),
            Reference(1.0, 0.15, "Chandrasekhar 1961, section 94, with the tension measured here"),
            f"wavelength {wave.wavelength:g}; n = {wave.growth_rate:.4g} in theory, {duff:.4g} by"
            f" Duff, Harlow and Hirt, {inviscid:.4g} without viscosity and tension",
        ),
        found("growth rate of a single wave", rate),
    ]


def _single_mode_figure(times: Floats, amplitudes: Floats, rate: float, wave: Wave) -> Figure:
    first = FIRST_AMPLITUDE * wave.wavelength
    lines = [
        curve("measured", times, amplitudes),
        curve("fit", times, first * np.cosh(rate * times), "fit"),
        curve("theory", times, first * np.cosh(wave.growth_rate * times), "theory"),
    ]
    return Figure(
        "single-mode", "A single wave of the interface",
        "Amplitude of the wave, mean of the runs; cosh(n t) with the rate fitted and with that of"
        " linear theory.",
        PanelAxis("time"), PanelAxis("amplitude, cutoffs", "log"),
        [Panel(f"wavelength {wave.wavelength:g}", lines)],
    )  # fmt: skip


CHECKS = (
    Check(
        "mixing", "How fast does a heavy fluid mix with the light one below it?", mixing,
        long={"particles": [65536, 524288], "depths": [6.0, 30.0], "span": 320.0},
        quick={"particles": [4500], "depths": [3.0], "span": 60.0},
    ),
    Check(
        "single-mode", "Does a single wave of the interface grow as linear theory says?",
        single_mode,
        long={
            "wavelength": 200.0, "depth": 3.0, "repulsion": 50.0, "runs": 3,
            "tension_particles": 12000, "tension_snapshots": 48,
        },
        quick=None,
    ),
)  # fmt: skip
