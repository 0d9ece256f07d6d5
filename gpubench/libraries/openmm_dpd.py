"""OpenMM's dissipative particle dynamics: DPDIntegrator and a custom force, in single precision."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from gpubench.base.errors import NotSupported
from gpubench.libraries._engine import EngineStep
from gpubench.libraries._library import name_with_version, need
from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.forces import conservative_energy
from gpubench.physics.observables import pressure
from gpubench.problems.steps.inputs import SimulationStart

BOLTZMANN = 8.31446261815324e-3  # kJ/mol/K
DENSITY, TIME_STEP = 3.0, 0.04  # of dpd-standard
SETTLE = 5.0  # time from random positions to rest
# As published for small time steps, see `gpubench check dpd`: what a larger one may add, and five
# standard deviations of one state, times the root of the number of particles.
EXPECTED = {"kinetic_temperature": (1.0, 0.02, 4.4), "pressure": (23.64, 0.1, 20.0)}
ENERGY_ERROR = 1e-4  # relative: OpenMM adds up energies in float32


class OpenMMDPD(EngineStep):
    """The fluid of `dpd-standard` in OpenMM: the same forces and drag, noise of a normal law.

    In units of nm, ps and u, so that kT is 1 kJ/mol. Settings are those that OpenMM has on CUDA, at
    their fastest. It reorders particles and pads the cutoff by itself, and has no CUDA graphs.
    """

    name = "openmm-dpd"
    summary = "DPD by OpenMM in single precision; on the host where the device is a CPU"
    source = "OpenMM 8: DPDIntegrator, CustomNonbondedForce"
    needs: ClassVar[dict[str, str]] = {"workload": "dpd-standard"}
    launches = 100

    def prepare(self) -> None:
        self._openmm = need("openmm", "openmm")
        self.library = name_with_version("openmm")
        edge = (self.particles / DENSITY) ** (1 / 3)
        self.box, self.fluid = Box((edge, edge, edge)), Fluid()
        self._species = np.zeros(self.particles, np.int8)
        self._seen: dict[str, float] = {}

    def load(self, inputs: SimulationStart) -> None:
        """Make the system, start from random positions, and settle."""
        mm, fluid, edge = self._openmm, self.fluid, self.box.size[0]
        system = mm.System()
        system.setDefaultPeriodicBoxVectors((edge, 0, 0), (0, edge, 0), (0, 0, edge))
        repulsion = mm.CustomNonbondedForce(f"{fluid.repulsion[0] / 2}*(1-r)^2")
        repulsion.setNonbondedMethod(repulsion.CutoffPeriodic)
        repulsion.setCutoffDistance(fluid.cutoff)
        for _ in range(self.particles):
            system.addParticle(1.0)
            repulsion.addParticle([])
        system.addForce(repulsion)
        kelvin, step = fluid.temperature[0] / BOLTZMANN, self.time_step or TIME_STEP
        self._integrator = mm.DPDIntegrator(kelvin, fluid.friction[0], fluid.cutoff, step)
        self._integrator.setRandomNumberSeed(self.seed % 2**31)
        self._context = self._context_of(system)
        rng = np.random.default_rng(self.seed)
        self._context.setPositions(rng.random((self.particles, 3)) * edge)
        self._context.setVelocitiesToTemperature(kelvin, self.seed % 2**31)
        self._integrator.step(math.ceil(SETTLE / step))
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
        """Compare energy with float64, and kT and pressure with published figures."""
        state = self._context.getState(getPositions=True, getEnergy=True)
        positions = np.asarray(state.getPositions(asNumpy=True)._value, np.float64)
        energy = state.getPotentialEnergy()._value
        right = conservative_energy(positions, self._species, self.box, self.fluid)
        if not abs(energy - right) <= ENERGY_ERROR * right:
            return f"the potential energy is {energy:.8g}, and should be {right:.8g}"
        kt = 2 * state.getKineticEnergy()._value / (3 * (self.particles - 1))
        own = pressure(positions, self._species, self.box, self.fluid, kt)
        self._seen = {"kinetic_temperature": round(kt, 5), "pressure": round(own, 4)}
        for what, (target, more, noise) in EXPECTED.items():
            tolerance = more + noise / math.sqrt(self.particles)
            if not abs(self._seen[what] - target) <= tolerance:
                return f"{what} is {self._seen[what]:g}, not {target:g} within {tolerance:.2g}"
        return None

    def outcome(self) -> dict[str, int | float | str]:
        settings = ", ".join(f"{name}={value}" for name, value in self._settings.items())
        return {"steps_done": self.steps, "settings": settings, **self._seen}
