"""OpenMM's Lennard-Jones fluid at constant energy: VerletIntegrator and NonbondedForce."""

from __future__ import annotations

from typing import Any, ClassVar

from gpubench.libraries._openmm import OpenMMStep
from gpubench.physics.lennard_jones import MELT, MOST_DRIFT
from gpubench.workloads.lj_fluid import LJFluid
from gpubench.workloads.workload import Snapshot

# Five standard deviations of one state, times the root of the number of particles.
NOISE = {"kinetic_temperature": 1.8, "pressure": 13.0, "potential_energy": 2.7}


class OpenMMLJ(OpenMMStep):
    """The melt of `lj-fluid` in OpenMM: forces are cut off, energies not shifted, as there.

    NonbondedForce computes no Coulomb forces where there are no charges.
    """

    name = "openmm-lj"
    summary = "Lennard-Jones by OpenMM in single precision; on the host where the device is a CPU"
    source = "OpenMM 8: VerletIntegrator, NonbondedForce"
    needs: ClassVar[dict[str, str]] = {"workload": LJFluid.name}
    workload = LJFluid
    settling = 15.0  # the 3,000 steps after which MELT was taken
    coefficients = (0.0, 1.0, 1.0)  # charge, sigma, epsilon
    lag = 0.5
    expected: ClassVar[dict[str, tuple[float, float, float]]] = {
        **{what: (*MELT[what], noise) for what, noise in NOISE.items()},
        "energy_drift": (0.0, MOST_DRIFT, 0.0),
    }
    _begun: float | None = None

    def force(self, mm: Any) -> Any:
        made = mm.NonbondedForce()
        made.setUseDispersionCorrection(False)
        return made

    def integrator(self, mm: Any) -> Any:
        return mm.VerletIntegrator(self.ours.time_step)

    def observe(self, now: Snapshot) -> dict[str, float]:
        """Return what the workload observes, and how far energy drifted since the first call."""
        seen = self.ours.observe(now)
        if self._begun is None:
            self._begun = seen["conserved_energy"]
        return {**seen, "energy_drift": seen["conserved_energy"] - self._begun}
