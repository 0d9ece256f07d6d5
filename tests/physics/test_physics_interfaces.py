"""Two fluids that meet: tension from the stress, and columns that settle under their weight."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.forces import conservative_energy
from gpubench.physics.interfaces import interface_stress, settled_heights

FLUID = Fluid(repulsion=(25.0, 60.0, 15.0), cutoff=1.3)
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=20)
@given(seeds)
def test_stress_is_the_slope_of_the_energy_with_a_stretch(seed: int) -> None:
    """Along z, at constant volume; what an interface across z gains is its tension."""
    rng = np.random.default_rng(seed)
    edges = np.array([4.0, 5.0, 6.0])
    places, species = rng.random((120, 3)), rng.integers(0, 2, 120)

    def energy(stretch: float) -> float:
        x, y, z = edges * np.exp([-stretch / 2, -stretch / 2, stretch])
        return conservative_energy(places * (x, y, z), species, Box((x, y, z)), FLUID)

    slope = (energy(1e-5) - energy(-1e-5)) / 2e-5
    found = interface_stress(places * edges, species, Box((4.0, 5.0, 6.0)), FLUID)
    assert found == pytest.approx(-slope / 20, rel=1e-3, abs=1e-6)


def test_particles_in_one_place_add_nothing() -> None:
    positions = np.full((2, 3), 2.0)
    assert interface_stress(positions, np.zeros(2, int), Box((4.0, 4.0, 4.0)), FLUID) == 0


def column(share: float, gravity: float, mass: tuple[float, float]) -> tuple[np.ndarray, ...]:
    before = (np.arange(50_000) + 0.5) / 50_000 * 40
    return before, settled_heights(before, 40.0, share, gravity, mass, stiffness=16.0)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_settled_column_carries_its_weight(share: float) -> None:
    """The pressure falls by the weight above: stiffness d(density)/dz = -density mass g."""
    gravity, mass = 0.05, (0.5, 1.5)
    before, after = column(share, gravity, mass)
    interface = after[np.searchsorted(before, share * 40)]
    density, edges = np.histogram(after, 80, (0, 40))
    middle = (edges[1:] + edges[:-1]) / 2
    for m, inside in ((0.5, middle < interface - 1), (1.5, middle > interface + 1)):
        slope = np.polyfit(middle[inside], np.log(density[inside]), 1)[0]
        assert slope == pytest.approx(-gravity * m / 16, rel=0.03)
    # No jump of the pressure, and so of the density, where they meet.
    near = np.abs(middle - interface) < 2
    assert np.ptp(density[near]) < 0.03 * density.mean()


def test_settling_keeps_order_and_column() -> None:
    before, after = column(0.6, 0.3, (0.5, 1.5))
    assert (np.diff(after) > 0).all()
    assert 0 <= after[0] < 1e-3 and 40 - 1e-3 < after[-1] <= 40
    assert (after < before)[1000:-1000].all()


def test_hardly_any_weight_moves_hardly_anything() -> None:
    before, after = column(0.4, 1e-6, (1.0, 1.0))
    assert after == pytest.approx(before, abs=1e-3)
    assert math.isfinite(after.sum())
