"""One second of a dam break by constraints and by SPH: stable steps, density errors, times.

A column one metre wide and two metres high collapses under 9.81 m/s2. SPH runs at several Mach
numbers M: its density error is proportional to M^2, its step to M. The density error is the excess
over the fluid's rest density, averaged over the particles and LOOKS moments.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Panel, PanelAxis, Series
from gpubench.physics.arrays import Floats
from gpubench.physics_checks.check import Check, CheckOutcome
from gpubench.physics_checks.simulations import make
from gpubench.workloads.constraint_fluid import ConstraintFluid
from gpubench.workloads.sph import SPH, SPHDamBreak
from gpubench.workloads.sph_bodies import AXES
from gpubench.workloads.tank import Tank
from gpubench.workloads.workload import BlowUp, Value

SECOND = math.sqrt(2 * 9.81)  # T = t sqrt(2 g / a) after one second, with a = 1 m
LOOKS = 40
# A step is stable if no particle moves further than a cell, the energy rises by at most a fraction
# RISE of its initial value, and every solve ends at a residual of at most BEYOND tolerances.
RISE, BEYOND = 0.01, 10.0
VISCOSITY = 0.1  # viscosity at Mach 1, for both methods
CLAIM = "Bodin et al. 2012 claim two orders of magnitude"


@dataclass
class SolvedSecond:
    """A configuration of the simulated second, and its results; `times`: ms, one per pass."""

    workload: type[Tank]
    mach: float
    time_step: float
    given: dict[str, Value]
    steps: int = 0
    mean_error: float = 0.0
    largest_error: float = 0.0
    iterations: float = 0.0
    why_unstable: str = ""
    times: Sequence[float] = ()

    @property
    def ms(self) -> float:
        """The time in ms to simulate one second: the median of the passes."""
        return statistics.median(self.times)

    def make(self, device: Device, particles: int) -> Tank:
        """Make the simulation."""
        given = {**self.given, "mach": self.mach, "time_step": self.time_step}
        made = make(device, self.workload, particles, **given)
        gravity = -min(made.gravity)
        width = made.scene.box.size[AXES[0]] / made.number("length")
        self.steps = round(SECOND / math.sqrt(2 * gravity / width) / made.time_step)
        return made

    def found(self) -> Finding:
        """Return the time to simulate one second, with errors, steps and iterations as a note."""
        iterations = f", {self.iterations:.1f} iterations of a step" if self.iterations else ""
        error = statistics.stdev(self.times) / math.sqrt(len(self.times))
        return Finding(
            f"time of a second, ms: {self.workload.name}, Mach {self.mach:g}, step"
            f" {self.time_step:g}", self.ms, error,
            note=f"density error {self.mean_error:.3%}, largest {self.largest_error:.1%};"
            f" {self.steps} steps of {self.ms / self.steps:.3g} ms{iterations}",
        )  # fmt: skip


def density_errors(tank: Tank) -> Floats:
    """Return the last step's densities minus the rest density."""
    if isinstance(tank, ConstraintFluid):
        return tank.density_errors()
    assert isinstance(tank, SPH)
    return tank.densities() - 1


def try_out(run: SolvedSecond, device: Device, particles: int) -> None:
    """Simulate one second; record density errors and whether the step was stable."""
    tank = run.make(device, particles)
    means, lowest, first = [], np.inf, 0.0
    for look in range(LOOKS):
        tank.advance((look + 1) * run.steps // LOOKS - look * run.steps // LOOKS)
        try:
            tank.require_sound()
        except BlowUp as error:
            run.why_unstable = str(error).split(":")[1].strip()
            return
        seen = tank.observe(tank.snapshot())
        energy = seen["kinetic_energy"] + seen["potential_energy"]
        first = first or energy
        if energy > lowest + RISE * first:
            run.why_unstable = f"energy rises by {(energy - lowest) / first:.1%}"
            return
        lowest = min(lowest, energy)
        with np.errstate(divide="ignore"):
            errors = np.maximum(density_errors(tank), 0)
        if not np.isfinite(errors).all():
            run.why_unstable = "a density is no number"
            return
        means.append(float(errors.mean()))
        run.largest_error = max(run.largest_error, float(errors.max()))
        run.iterations = seen.get("iterations", 0.0)
        if seen.get("largest_residual", 0.0) > BEYOND * float(tank.parameters.get("tolerance", 1)):
            run.why_unstable = f"a solve ends at {seen['largest_residual']:.2g}"
            return
    run.mean_error = statistics.mean(means)


def stable(
    way: SolvedSecond, steps: Sequence[float], device: Device, particles: int
) -> list[SolvedSecond]:
    """Return runs with longer and longer steps, up to and including the first unstable one."""
    tried = []
    for step in steps:
        tried.append(SolvedSecond(way.workload, way.mach, step, way.given))
        try_out(tried[-1], device, particles)
        if tried[-1].why_unstable:
            break
    return tried


def time_in_turns(
    runs: Sequence[SolvedSecond], device: Device, particles: int, passes: int
) -> None:
    """Time the simulated second of each run with device events, all runs in turn in each pass."""
    tanks = [run.make(device, particles) for run in runs]
    starts = [tank.state() for tank in tanks]
    times = [[0.0] * passes for _ in runs]
    for number in range(passes):
        for tank, start, run, own in zip(tanks, starts, runs, times, strict=True):
            tank.restore(start)
            tank.advance(2)  # excludes the first launches from the timing
            begin = device.record()
            tank.advance(run.steps)
            end = device.record()
            tank.require_sound()
            own[number] = device.elapsed_ms(begin, end)
    for run, own in zip(runs, times, strict=True):
        run.times = own


def gain(run: SolvedSecond, others: Sequence[SolvedSecond]) -> float | None:
    """Return a run's speed-up over SPH at the same mean error; None outside SPH's range of errors.

    Errors and times are interpolated between Mach numbers as power laws.
    """
    by_error = sorted(others, key=lambda other: other.mean_error)
    errors = [other.mean_error for other in by_error]
    if not others or not errors[0] <= run.mean_error <= errors[-1]:
        return None
    logs = np.log([other.ms for other in by_error])
    return float(np.exp(np.interp(math.log(run.mean_error), np.log(errors), logs)) / run.ms)


def solution(
    device: Device,
    *,
    particles: int,
    depth: float,
    constraint_steps: Sequence[float],
    sph_steps: Sequence[float],
    machs: Sequence[float],
    passes: int,
) -> CheckOutcome:
    """Find the longest stable steps; time one simulated second with these and with shorter ones.

    depth: tank depth in column widths. constraint_steps, sph_steps: increasing steps to try.
    """
    tank: dict[str, Value] = {"depth": depth, "length": 8.0, "top": 1.2}
    findings: list[Finding] = []
    ours: list[SolvedSecond] = []
    others: list[SolvedSecond] = []
    ways: list[tuple[type[Tank], float, Sequence[float]]]
    ways = [(ConstraintFluid, 0.2, constraint_steps)]
    ways += [(SPHDamBreak, mach, sph_steps) for mach in machs]
    for kind, mach, steps in ways:
        way = SolvedSecond(kind, mach, 0.0, {**tank, "viscosity": VISCOSITY * mach})
        tried = stable(way, steps, device, particles)
        fine = [run for run in tried if not run.why_unstable]
        last = tried[-1]
        why = f"{last.time_step:g}: {last.why_unstable}" if last.why_unstable else "none longer"
        longest = fine[-1].time_step if fine else 0.0
        tried_of = f"longest stable step tried: {kind.name}, Mach {mach:g}"
        findings.append(Finding(tried_of, longest, note=f"beyond it, {why}"))
        if kind is ConstraintFluid:
            ours = fine
        else:
            others += fine[-1:]  # the error of SPH does not depend on the step
    time_in_turns([*ours, *others], device, particles, passes)
    findings += [run.found() for run in (*ours, *others)]
    findings += [
        Finding(f"time of SPH with the same density error, over that of constraints: step"
                f" {run.time_step:g}", found, note=CLAIM)
        for run in ours
        if (found := gain(run, others)) is not None
    ]  # fmt: skip
    return CheckOutcome(findings, [_figure(ours, others)])


def _figure(ours: Sequence[SolvedSecond], others: Sequence[SolvedSecond]) -> Figure:
    lines = (("constraints, each step", ours), ("SPH, each Mach number", others))
    return Figure(
        "solution", "Time to solution and error of density",
        "One second of a breaking dam one metre wide: its time on the device against the mean error"
        " of density. Lower is faster, further left is stricter.",
        PanelAxis("mean density error, %", "log"), PanelAxis("time of a second, ms", "log"),
        [Panel("", [Series(label, [100 * run.mean_error for run in runs], [r.ms for r in runs])
                    for label, runs in lines if len(runs) > 1])],
    )  # fmt: skip


CHECKS = (
    Check(
        "solution",
        "How long does one second of a dam break take, beside SPH with the same error of density?",
        solution,
        long={
            "particles": 120000, "depth": 0.2, "constraint_steps": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
            "sph_steps": [0.35, 0.5, 0.65, 0.8, 1.0], "machs": [0.2, 0.1, 0.05], "passes": 5,
        },
        quick={
            "particles": 1000, "depth": 0.2, "constraint_steps": [1.0, 2.0], "sph_steps": [0.8],
            "machs": [0.2, 0.1], "passes": 2,
        },
    ),
)  # fmt: skip
