"""Phase separation: growth of the domain size with time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpubench.base.errors import UserError
from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Panel, PanelAxis, Reference, Series
from gpubench.physics.arrays import Floats
from gpubench.physics.domains import domain_size, order_parameter, structure_factor
from gpubench.physics.fits import Estimate, growth_exponent, mean_of
from gpubench.physics_checks.check import SEED, Check, CheckOutcome, curve, found
from gpubench.physics_checks.simulations import make
from gpubench.workloads.dpd import DPD, MESH, DPDSeparation

FIRST_SAMPLE = 1.0  # time of the first sample
SAMPLES = 36
FROM_BOX = 0.3  # fraction of the box edge: larger domains interact with their own images

COVENEY = "Coveney and Novik, Phys. Rev. E 54, 5134 (1996)"
AHMAD = "arXiv 1005.5096"


@dataclass(frozen=True)
class GrowthLaw:
    """A growth law and the time window in which it is fitted.

    until: end of the window; None for as long as the box is large enough.
    counts_from_begin: whether size and time are measured from the start of the window, as after a
        crossover, since domains that formed earlier do not follow the new law.
    """

    name: str
    begin: float
    until: float | None
    reference: Reference | None
    counts_from_begin: bool = False


REGIMES: Mapping[int, Sequence[GrowthLaw]] = {
    2: (
        GrowthLaw("early", 20.0, 70.0, Reference(1 / 2, 0.06, f"{COVENEY}: t^1/2, then t^2/3")),
        GrowthLaw("late", 250.0, None, Reference(2 / 3, 0.07, f"{COVENEY}: t^1/2, then t^2/3")),
    ),
    3: (
        GrowthLaw("early", 6.0, 20.0, Reference(1 / 3, 0.05, f"{AHMAD}: 1/3, then about 1")),
        GrowthLaw("late", 25.0, None, None),
        GrowthLaw(
            "late, of the growth since then", 25.0, None,
            Reference(1.0, 0.2, f"{AHMAD}: 1/3, then about 1"), counts_from_begin=True,
        ),
    ),
}  # fmt: skip


def domain_growth(
    device: Device, *, dimensions: int, particles: int, span: float, runs: int, regimes: int
) -> CheckOutcome:
    """Fit exponents to the domain sizes of several runs with different seeds.

    regimes: how many of REGIMES to fit, from the earliest on.
    """
    histories = []
    for seed in range(SEED, SEED + runs):
        mixture = make(device, DPDSeparation, particles, seed, dimensions=dimensions, walls="none")
        histories.append(_sizes(mixture, span))
    times, sizes = histories[0][0], np.array([sizes for _, sizes in histories])
    mean = sizes.mean(axis=0)
    edge = mixture.box.size[0]
    findings, fits = [], []
    for regime in REGIMES[dimensions][:regimes]:
        window = regime.begin, regime.until or _last_free(times, mean, edge)
        exponent = _exponent(regime, window, times, sizes)
        findings.append(
            found(
                f"exponent of the domain size in {dimensions}D, {regime.name}", exponent,
                regime.reference, f"times {window[0]:g} to {window[1]:.3g}",
            )
        )  # fmt: skip
        if not regime.counts_from_begin:
            fits.append(_fit(times, mean, window, exponent))
    findings.append(Finding(f"domain size in {dimensions}D at time {times[-1]:g}", float(mean[-1])))
    lines = [curve("measured", times, mean), *fits]
    return CheckOutcome(findings, [_figure(dimensions, particles, lines)])


def _sizes(mixture: DPD, span: float) -> tuple[Floats, Floats]:
    """Return times at increasing intervals, and the domain size at each."""
    steps = np.unique(
        np.rint(np.geomspace(FIRST_SAMPLE, span, SAMPLES) / mixture.time_step).astype(int)
    )
    sizes = []
    for step in steps:
        mixture.advance(int(step) - mixture.step)
        mixture.require_sound()
        # The order of the particles does not matter here; a snapshot would sort them.
        state = mixture.state()
        positions = mixture.box.to_positions(state["places"])
        species = state["velocities"][:, 3].view(np.int32)
        field = order_parameter(positions, species, mixture.box, MESH)
        sizes.append(domain_size(structure_factor(field, mixture.box)))
    return steps * mixture.time_step, np.array(sizes)


def _last_free(times: Floats, sizes: Floats, edge: float) -> float:
    """Return the last time before the domains are affected by the periodic box."""
    free = times[sizes <= FROM_BOX * edge]
    if not len(free):
        raise UserError(f"a box {edge:.3g} long has no room for domains: make it larger")
    return float(free[-1])


def _exponent(
    regime: GrowthLaw, window: tuple[float, float], times: Floats, sizes: Floats
) -> Estimate:
    """Return the mean exponent of the runs, with an error from their spread if several."""
    begin, until = window
    if regime.counts_from_begin:
        first = int(np.searchsorted(times, begin))
        grown = sizes[:, first + 1 :] - sizes[:, first, None]
        since = times[first + 1 :] - times[first]
        exponents = [growth_exponent(since, run, (0, until - times[first])) for run in grown]
    else:
        exponents = [growth_exponent(times, run, window) for run in sizes]
    if len(exponents) == 1:
        return exponents[0]
    return mean_of([each.value for each in exponents])


def _fit(times: Floats, sizes: Floats, window: tuple[float, float], exponent: Estimate) -> Series:
    """Return the power law through the mean size in a window."""
    inside = (times >= window[0]) & (times <= window[1])
    level = float(np.exp(np.mean(np.log(sizes[inside]) - exponent.value * np.log(times[inside]))))
    ends = times[inside][[0, -1]]
    return curve(f"t^{exponent.value:.2f}", ends, level * ends**exponent.value, "fit")


def _figure(dimensions: int, particles: int, series: Sequence[Series]) -> Figure:
    return Figure(
        f"domain-size-{dimensions}d", f"Domains in {dimensions}D",
        "Size of the domains, 2 pi over the mean wavenumber of the structure factor, and the"
        " power laws fitted to it.",
        PanelAxis("time", "log"), PanelAxis("domain size, cutoffs", "log"),
        [Panel(f"{particles:,} particles", series)],
    )  # fmt: skip


CHECKS = (
    Check(
        "domains-2d", "How do the domains of two immiscible fluids grow in a plane?", domain_growth,
        long={"dimensions": 2, "particles": 1048576, "span": 1200.0, "runs": 2, "regimes": 2},
        quick={"dimensions": 2, "particles": 10000, "span": 70.0, "runs": 1, "regimes": 1},
    ),
    Check(
        "domains-3d", "How do the domains of two immiscible fluids grow in space?", domain_growth,
        long={"dimensions": 3, "particles": 2097152, "span": 120.0, "runs": 2, "regimes": 3},
        quick={"dimensions": 3, "particles": 36000, "span": 20.0, "runs": 1, "regimes": 1},
    ),
)  # fmt: skip
