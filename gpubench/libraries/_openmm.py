"""Base of the adapters to OpenMM, which simulate a workload from its own start."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.hash_grid import HashGrid
from gpubench.base.errors import NotSupported
from gpubench.libraries._engine import EngineStep
from gpubench.libraries._library import name_with_version, need
from gpubench.problems.steps.inputs import SimulationStart
from gpubench.workloads.dpd import DPD
from gpubench.workloads.workload import Snapshot

ENERGY_ERROR = 1e-4  # relative: OpenMM adds up energies in float32


class OpenMMStep(EngineStep):
    """Steps in OpenMM, in single precision; units are nm, ps and u, so that an energy is in kJ/mol.

    Settings are those that OpenMM has on CUDA, at their fastest. It reorders particles and pads the
    cutoff by itself, and has no CUDA graphs.

    workload: the simulation that it starts from. settling: the time from there to rest.
    coefficients: what the force has of each particle. lag: steps from velocities to positions.
    expected: by observable a figure, the tolerance of a mean, and five standard deviations of one
        state, times the root of the number of particles.
    """

    workload: ClassVar[type[DPD]]
    settling: ClassVar[float]
    coefficients: ClassVar[tuple[float, ...]] = ()
    lag: ClassVar[float] = 0.0
    expected: ClassVar[Mapping[str, tuple[float, float, float]]]
    launches = 100

    @abstractmethod
    def force(self, mm: Any) -> Any:
        """Return the pair force, without its particles and its cutoff; mm: the module openmm."""

    @abstractmethod
    def integrator(self, mm: Any) -> Any:
        """Return the integrator."""

    @abstractmethod
    def observe(self, now: Snapshot) -> dict[str, float]:
        """Return observables in float64: `potential_energy` per particle, and all of `expected`."""

    def prepare(self) -> None:
        self._openmm = need("openmm", "openmm")
        self.library = name_with_version("openmm")
        self._seen: dict[str, float] = {}

    def load(self, inputs: SimulationStart) -> None:
        """Make the system, start as the workload does, and settle."""
        mm, given = self._openmm, {"time_step": self.time_step} if self.time_step else {}
        self.ours = self.workload(
            self.device, self.particles, HashGrid, "original", given, self.seed
        )
        self._start = self.ours.snapshot()
        system, force, (x, y, z) = mm.System(), self.force(mm), self.ours.box.size
        system.setDefaultPeriodicBoxVectors((x, 0, 0), (0, y, 0), (0, 0, z))
        force.setNonbondedMethod(force.CutoffPeriodic)
        force.setCutoffDistance(self.ours.fluid.cutoff)
        for _ in range(self.particles):
            system.addParticle(1.0)
            force.addParticle(*self.coefficients)
        system.addForce(force)
        self._integrator = self.integrator(mm)
        self._context = self._context_of(system)
        self._context.setPositions(self._start.positions)
        self._context.setVelocities(self._start.velocities)
        self._integrator.step(math.ceil(self.settling / self.ours.time_step))
        self.come_back()

    def _context_of(self, system: Any) -> Any:
        mm, on_gpu = self._openmm, self.device.backend == "cuda"
        settings = {
            "DeviceIndex": self.device.spec.partition(":")[2], "Precision": "single",
            "DeterministicForces": "false", "UseBlockingSync": "false",
        }  # fmt: skip
        self._settings = settings if on_gpu else {}
        try:
            platform = mm.Platform.getPlatformByName("CUDA" if on_gpu else "CPU")
        except mm.OpenMMException as error:
            raise NotSupported(f"{error}: pip install openmm-cuda-13, or openmm-cuda-12") from None
        return mm.Context(system, self._integrator, platform, self._settings)

    def work(self) -> None:
        self._integrator.step(self.launches)
        # The energy of no forces: reading it waits for OpenMM's own CUDA context.
        self._context.getState(getEnergy=True, groups=0)
        self.steps = self._context.getStepCount()

    def wrong(self) -> str | None:
        """Compare the energy with float64, and observables with published figures."""
        state = self._context.getState(positions=True, velocities=True, forces=True, energy=True)
        places, velocities, forces = (
            np.asarray(read(asNumpy=True)._value, np.float64)
            for read in (state.getPositions, state.getVelocities, state.getForces)
        )
        velocities += self.lag * self.ours.time_step * forces
        now = replace(
            self._start, positions=places, velocities=velocities, half_step_velocities=velocities
        )
        self._seen = self.observe(now)
        energy = state.getPotentialEnergy()._value
        right = self.particles * self._seen["potential_energy"]
        if not abs(energy - right) <= ENERGY_ERROR * abs(right):
            return f"the potential energy is {energy:.8g}, and should be {right:.8g}"
        for what, (target, more, noise) in self.expected.items():
            tolerance = more + noise / math.sqrt(self.particles)
            if not abs(self._seen[what] - target) <= tolerance:
                return f"{what} is {self._seen[what]:g}, not {target:g} within {tolerance:.2g}"
        return None

    def outcome(self) -> dict[str, int | float | str]:
        settings = ", ".join(f"{name}={value}" for name, value in self._settings.items())
        seen = {what: float(f"{self._seen[what]:.6g}") for what in self.expected}
        return {"steps_done": self.steps, "settings": settings, **seen}
