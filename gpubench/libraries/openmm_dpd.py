"""OpenMM's dissipative particle dynamics: DPDIntegrator and a custom force."""

from __future__ import annotations

from typing import Any, ClassVar

from gpubench.libraries._openmm import OpenMMStep
from gpubench.physics.forces import conservative_energy
from gpubench.physics.observables import pressure
from gpubench.workloads.dpd import DPDStandard
from gpubench.workloads.workload import Snapshot

BOLTZMANN = 8.31446261815324e-3  # kJ/mol/K


class OpenMMDPD(OpenMMStep):
    """The fluid of `dpd-standard` in OpenMM: the same forces and drag, noise of a normal law."""

    name = "openmm-dpd"
    summary = "DPD by OpenMM in single precision; on the host where the device is a CPU"
    source = "OpenMM 8: DPDIntegrator, CustomNonbondedForce"
    needs: ClassVar[dict[str, str]] = {"workload": DPDStandard.name}
    workload = DPDStandard
    settling = 5.0
    # As published for small time steps, see `gpubench check dpd`.
    expected: ClassVar[dict[str, tuple[float, float, float]]] = {
        "kinetic_temperature": (1.0, 0.02, 4.4),
        "pressure": (23.64, 0.1, 20.0),
    }

    def force(self, mm: Any) -> Any:
        return mm.CustomNonbondedForce(f"{self.ours.fluid.repulsion[0] / 2}*(1-r)^2")

    def integrator(self, mm: Any) -> Any:
        fluid, kelvin = self.ours.fluid, self.ours.fluid.temperature[0] / BOLTZMANN
        made = mm.DPDIntegrator(kelvin, fluid.friction[0], fluid.cutoff, self.ours.time_step)
        made.setRandomNumberSeed(self.seed % 2**31)
        return made

    def observe(self, now: Snapshot) -> dict[str, float]:
        seen, where = self.ours.observe(now), (now.positions, now.species, self.ours.box)
        return {
            "kinetic_temperature": seen["kinetic_temperature"],
            "potential_energy": conservative_energy(*where, self.ours.fluid) / self.particles,
            "pressure": pressure(*where, self.ours.fluid, seen["kinetic_temperature"]),
        }
