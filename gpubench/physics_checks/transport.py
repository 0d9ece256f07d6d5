"""The standard fluid in motion: self-diffusion, viscosity."""

from __future__ import annotations

import math

import numpy as np

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Panel, PanelAxis, Reference
from gpubench.physics.arrays import Floats
from gpubench.physics.fits import Estimate
from gpubench.physics.transport import (
    MeanSquareDisplacement,
    shear_wave,
    viscosity,
    wavenumber_along,
)
from gpubench.physics_checks.check import Check, CheckOutcome, curve, found
from gpubench.physics_checks.equilibrium import SETTLE
from gpubench.physics_checks.simulations import followed, from_the_beginning, make, pass_time
from gpubench.workloads.dpd import DPD, DPDStandard
from gpubench.workloads.workload import Snapshot

TIME_STEP = 0.02
DENSITY = 3.0
VISCOSITY = 0.847
OWN = "another code, measured for this project"
SAMPLES = 40  # number of samples of the waves
FORGOTTEN = 2.0  # time after which a particle's velocity is decorrelated
WAVE_SPEED = 0.2  # speed in each wave, low enough for the waves not to interact


def self_diffusion(device: Device, *, particles: int, span: float) -> CheckOutcome:
    """Measure D from the displacements of a fluid at rest."""
    fluid = make(device, DPDStandard, particles, time_step=TIME_STEP)
    pass_time(fluid, SETTLE)
    displacement = MeanSquareDisplacement(fluid.box)
    for now in from_the_beginning(fluid, span, every=0.5):
        displacement.add(now.time, now.positions)
    measured = displacement.diffusion((FORGOTTEN, span))
    slowed = 2.84 / (6 * math.pi * VISCOSITY * fluid.box.size[0])
    return CheckOutcome(
        [
            found(
                "self-diffusion D", Estimate(measured.value + slowed, measured.error),
                Reference(0.30, 0.015, OWN),
                f"of it {slowed:.2g} for the finite box (Dünweg and Kremer 1993)",
            )
        ]
    )  # fmt: skip


def shear_viscosity(device: Device, *, particles: int, span: float) -> CheckOutcome:
    """Measure the viscosity from four weak shear waves that decay in the same box."""
    fluid = make(device, DPDStandard, particles, time_step=TIME_STEP)
    pass_time(fluid, SETTLE)
    _set_waves_going(fluid)
    times, amplitudes = followed(fluid, span, span / SAMPLES, lambda now: _waves(now, fluid))
    at = times - times[0]
    wavenumber = wavenumber_along(fluid.box, 2)
    each = [viscosity(at, wave, wavenumber, DENSITY).dynamic for wave in amplitudes.T]
    mean = Estimate(
        float(np.mean([one.value for one in each])),
        math.sqrt(sum(one.error**2 for one in each)) / len(each),
    )
    own, note = Reference(VISCOSITY, 0.03, OWN), f"of waves of k = {wavenumber:.3g}"
    return CheckOutcome(
        [found("viscosity", mean, own, note)],
        [_decay_figure(at, amplitudes, wavenumber, mean.value / DENSITY)],
    )


def _set_waves_going(fluid: DPD) -> None:
    """Add a sine and a cosine of z to each particle's velocities along x and y."""
    state = fluid.state()
    phase = wavenumber_along(fluid.box, 2) * fluid.box.to_positions(state["places"])[:, 2]
    for axis in (0, 1):
        state["velocities"][:, axis] += WAVE_SPEED * (np.sin(phase) + np.cos(phase))
    fluid.restore(state)


def _waves(now: Snapshot, fluid: DPD) -> list[float]:
    """Return the amplitudes of v_x ~ sin kz, v_x ~ cos kz, v_y ~ sin kz, v_y ~ cos kz."""
    quarter = now.positions + np.array([0.0, 0.0, fluid.box.size[2] / 4])
    return [
        shear_wave(positions, now.velocities[:, axes], fluid.box)
        for axes in ([0, 1, 2], [1, 0, 2])
        for positions in (now.positions, quarter)
    ]


def _decay_figure(
    times: Floats, amplitudes: Floats, wavenumber: float, kinematic_viscosity: float
) -> Figure:
    mean = amplitudes.mean(axis=1)
    decay = WAVE_SPEED * np.exp(-kinematic_viscosity * wavenumber**2 * times)
    return Figure(
        "shear-waves", "Decay of shear waves",
        "Mean amplitude of four shear waves in one box, and the decay of the viscosity that the"
        " regression finds.",
        PanelAxis("time"), PanelAxis("speed of the wave"),
        [Panel("", [curve("measured", times, mean), curve("fit", times, decay, "fit")])],
    )  # fmt: skip


CHECKS = (
    Check(
        "self-diffusion", "How fast do particles of the fluid at rest diffuse?", self_diffusion,
        long={"particles": 65536, "span": 30.0}, quick={"particles": 6000, "span": 10.0},
    ),
    Check(
        "viscosity", "How fast do shear waves decay?", shear_viscosity,
        long={"particles": 131072, "span": 160.0}, quick={"particles": 7000, "span": 30.0},
    ),
)  # fmt: skip
