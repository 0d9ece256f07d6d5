"""Compare constraint-fluid with sph-dam-break: largest stable step, and time for one second.

A column one metre wide and two metres high collapses for a second under 9.81 m/s2. SPH runs at
several Mach numbers, since its density error falls with the square of it and its steps with the
number itself. A step is stable where no particle moves further than a cell, the energy never rises
by more than a percent of what it was at first, and no solve ends above its tolerance by more than
a factor of ten. A density error is that of a fluid's own density above the rest density. Times are
device events, of runs that take turns.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.devices import Device, open_device
from gpubench.simulate.setup import Setup
from gpubench.workloads.constraint_fluid import ConstraintFluid
from gpubench.workloads.sph import SPH
from gpubench.workloads.tank import Tank
from gpubench.workloads.workload import BlowUp, Value

SECOND = math.sqrt(2 * 9.81)  # in T = t sqrt(2 g / a)
LOOKS = 40
RISE, BEYOND = 0.01, 10.0


@dataclass
class Run:
    """One way to simulate the second, and what came of it."""

    workload: str
    mach: float
    time_step: float
    given: dict[str, Value]
    mean_error: float = 0.0
    largest_error: float = 0.0
    iterations: float = 0.0
    why_unstable: str = ""

    def make(self, device: Device, particles: int) -> Tank:
        """Make the simulation."""
        parameters = {**self.given, "mach": self.mach, "time_step": self.time_step}
        made = Setup(self.workload, particles, parameters=parameters).make(device)
        assert isinstance(made, Tank)
        return made


def steps_of_a_second(tank: Tank) -> int:
    """Return how many steps a second takes."""
    width = tank.scene.box.size[0] / tank.number("length")
    gravity = -min(tank.gravity)
    return round(SECOND / math.sqrt(2 * gravity / width) / tank.time_step)


def density_errors(tank: Tank) -> NDArray[np.float64]:
    """Return densities less the rest density, of the last step."""
    if isinstance(tank, ConstraintFluid):
        return tank.density_errors()
    assert isinstance(tank, SPH)
    return tank.densities() - 1


def try_out(run: Run, device: Device, particles: int) -> None:
    """Simulate the second, and note density errors and whether the step was stable."""
    tank = run.make(device, particles)
    steps = steps_of_a_second(tank)
    means, lowest, first = [], np.inf, 0.0
    for look in range(LOOKS):
        tank.advance((look + 1) * steps // LOOKS - look * steps // LOOKS)
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
        errors = np.maximum(density_errors(tank), 0)
        means.append(float(errors.mean()))
        run.largest_error = max(run.largest_error, float(errors.max()))
        run.iterations = seen.get("iterations", 0.0)
        if seen.get("largest_residual", 0.0) > BEYOND * float(tank.parameters.get("tolerance", 1)):
            run.why_unstable = f"a solve ends at {seen['largest_residual']:.2g}"
            return
    run.mean_error = statistics.mean(means)


def stable(run: Run, steps: Sequence[float], device: Device, particles: int) -> list[Run]:
    """Return the runs with some rising steps, up to the first that is not stable."""
    fine = []
    for step in steps:
        tried = Run(run.workload, run.mach, step, run.given)
        try_out(tried, device, particles)
        found = tried.why_unstable or f"stable, mean error {tried.mean_error:.3%}"
        print(f"  {tried.workload}, Mach {tried.mach:g}, step {step:g}: {found}", flush=True)
        if tried.why_unstable:
            break
        fine.append(tried)
    return fine


def timed(runs: Sequence[Run], device: Device, particles: int, turns: int) -> list[float]:
    """Return the time of each run's second, ms: parts of all of them in turns."""
    tanks = [run.make(device, particles) for run in runs]
    counts = [steps_of_a_second(tank) for tank in tanks]
    total = [0.0] * len(runs)
    for tank in tanks:
        start = tank.state()
        tank.advance(2)
        tank.require_sound()
        tank.restore(start)
    for turn in range(turns):
        for number, (tank, steps) in enumerate(zip(tanks, counts, strict=True)):
            begin = device.record()
            tank.advance((turn + 1) * steps // turns - turn * steps // turns)
            end = device.record()
            tank.require_sound()
            total[number] += device.elapsed_ms(begin, end)
    return total


def main() -> None:
    """Read the command line and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--particles", type=int, default=4000)
    parser.add_argument("--depth", type=float, default=0.2, help="of the tank, in column widths")
    parser.add_argument("--viscosity", type=float, default=0.1, help="at Mach 1, for both")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--turns", type=int, default=10)
    chosen = parser.parse_args()
    tank = {"depth": chosen.depth, "length": 8.0, "top": 1.2}
    with open_device(chosen.device) as device:
        print(f"{device.name} ({device.spec}), {chosen.particles:,} particles, tank {tank}")
        ways = [
            (Run("constraint-fluid", 0.2, 0.0, {**tank, "tolerance": chosen.tolerance}),
             (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)),
            *(
                (Run("sph-dam-break", mach, 0.0, dict(tank)), (0.35, 0.5, 0.65, 0.8, 1.0))
                for mach in (0.2, 0.1, 0.05)
            ),
        ]  # fmt: skip
        found = []
        for run, steps in ways:
            run.given["viscosity"] = chosen.viscosity * run.mach
            fine = stable(run, steps, device, chosen.particles)
            # Of SPH, whose error does not depend on the step, the longest.
            found += fine if run.workload == "constraint-fluid" else fine[-1:]
        times = timed(found, device, chosen.particles, chosen.turns)
        print(
            "\n| | mach | step | steps a second | iterations a step"
            " | mean density error | largest | ms a step | ms a second |"
        )
        print("| :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for run, ms in zip(found, times, strict=True):
            count = steps_of_a_second(run.make(device, chosen.particles))
            print(f"| {run.workload} | {run.mach:g} | {run.time_step:g} | {count} |"
                  f" {run.iterations:.1f} | {run.mean_error:.2%} | {run.largest_error:.1%} |"
                  f" {ms / count:.3g} | {ms:.4g} |")  # fmt: skip


if __name__ == "__main__":
    main()
