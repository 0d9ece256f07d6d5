"""The mixing layer, waves of the interface, and linear theory against known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from gpubench.base.errors import UserError
from gpubench.physics.box import Box
from gpubench.physics.mixing import (
    atwood_number,
    heavy_fraction,
    interface_wave,
    linear_growth_rate,
    mixing_layer,
    viscous_growth_rate,
)

BOX = Box((20.0, 10.0, 30.0), (True, True, False))


def particles(interface, count: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    """Particles at random; those above interface(x) are heavy."""
    positions = np.random.default_rng(0).random((count, 3)) * BOX.size
    return positions, (positions[:, 2] > interface(positions[:, 0])).astype(np.int8)


class TestMixingLayer:
    @given(st.floats(5, 16), st.floats(8, 18))
    def test_of_a_linear_profile(self, height: float, middle: float) -> None:
        z = np.arange(0.05, 40, 0.1)
        layer = mixing_layer(z, np.clip((z - middle) / height + 0.5, 0, 1), threshold=0.1)
        assert layer.height == pytest.approx(height, rel=0.01)
        assert layer.spike == pytest.approx(middle - 0.4 * height, abs=0.02)
        assert layer.bubble == pytest.approx(middle + 0.4 * height, abs=0.02)

    def test_of_a_sharp_interface(self) -> None:
        z, heavy = heavy_fraction(*particles(lambda x: 0 * x + 12.0), BOX, 1.0)
        layer = mixing_layer(z, heavy)
        assert layer.height == 0
        # Between the middles of the layers on either side.
        assert (layer.spike, layer.bubble) == pytest.approx((11.55, 12.45))

    def test_of_particles_under_a_wave(self) -> None:
        """The share of the light at a height is that of x where cos is above it: arccos / pi."""
        wave = particles(lambda x: 12 + 4 * np.cos(2 * math.pi * x / 20))
        z, heavy = heavy_fraction(*wave, BOX, 0.5)
        expected = 1 - np.arccos(np.clip((z - 12) / 4, -1, 1)) / math.pi
        assert heavy == pytest.approx(expected, abs=0.06)
        layer = mixing_layer(z, heavy)
        # 6 times the integral of p (1 - p), p = arccos(u) / pi, is 24 * 4 / pi^2.
        assert layer.height == pytest.approx(96 / math.pi**2, rel=0.02)
        assert layer.spike == pytest.approx(8, abs=0.5)
        assert layer.bubble == pytest.approx(16, abs=0.5)

    def test_an_empty_layer_is_bridged(self) -> None:
        positions = np.array([[0, 0, 0.5], [0, 0, 2.5], [0, 0, 2.6]])
        box = Box((1.0, 1.0, 4.0), (True, True, False))
        z, heavy = heavy_fraction(positions, np.array([0, 1, 0]), box, 1.0)
        assert z.tolist() == [0.5, 1.5, 2.5, 3.5]
        assert heavy.tolist() == [0, 0.25, 0.5, 0.5]

    def test_needs_particles_and_layers(self) -> None:
        with pytest.raises(UserError, match="at least one particle"):
            heavy_fraction(np.zeros((0, 3)), np.zeros(0, int), BOX, 1.0)
        with pytest.raises(UserError, match="two layers or more"):
            mixing_layer(np.array([1.0]), np.array([0.5]))


class TestInterfaceWave:
    @pytest.mark.parametrize("mode", [1, 2])
    @pytest.mark.parametrize("phase", [0.0, 0.9, -2.0])
    def test_amplitude_and_phase_come_back(self, mode: int, phase: float) -> None:
        k = 2 * math.pi * mode / 20
        wave = particles(lambda x: 12 + 2.5 * np.cos(k * x + phase))
        found = interface_wave(*wave, BOX, mode=mode)
        noise = 2 * 30 * math.sqrt(0.4 * 0.6 / 200_000)
        assert abs(found) == pytest.approx(2.5, abs=4 * noise)
        assert np.angle(found) == pytest.approx(phase, abs=4 * noise / 2.5)
        assert abs(interface_wave(*wave, BOX, mode=3)) < 4 * noise
        assert abs(interface_wave(*wave, BOX, axis=1)) < 4 * noise


def residual_of_linear_theory(
    n: float, atwood: float, gravity: float, k: float, viscosity: float
) -> float:
    """Determinant of the conditions at the interface, from the linearised Navier-Stokes equations.

    Vertical velocity: exp(k z), exp(q z) below and exp(-k z), exp(-q z) above, q^2 = k^2 + n / nu.
    Continuous are velocity, its slope (what flows in sideways), shear stress and normal stress.
    """
    q = math.sqrt(k**2 + n / viscosity)
    columns = []
    for density, side in ((1 - atwood, 1), (1 + atwood, -1)):
        for decay in (k, q):
            slope = side * decay
            shear = density * viscosity * (decay**2 + k**2)
            # k^2 times the normal stress p - 2 mu Dw, with the weight of the displacement w / n.
            pressure = -density * n * slope + density * viscosity * slope * (decay**2 - k**2)
            normal = (
                pressure - 2 * density * viscosity * k**2 * slope - density * gravity * k**2 / n
            )
            columns.append(side * np.array([1.0, slope, shear, normal]))
    return float(np.linalg.det(np.array(columns)))


positive = st.floats(0.05, 5.0)
atwoods = st.floats(0.05, 0.95)


class TestLinearTheory:
    def test_atwood_number(self) -> None:
        assert atwood_number(3.0, 1.0) == 0.5

    def test_with_viscosity_and_diffusion_by_hand(self) -> None:
        found = linear_growth_rate(0.5, 2.0, 1.0, kinematic_viscosity=0.75, diffusion=0.1)
        assert found == pytest.approx(1.25 - 0.75 - 0.1)

    @given(atwoods, positive, positive, st.floats(0.01, 2.0))
    def test_the_exact_rate_satisfies_the_equations_of_motion(
        self, atwood: float, gravity: float, k: float, viscosity: float
    ) -> None:
        found = viscous_growth_rate(atwood, gravity, k, viscosity)
        arguments = (atwood, gravity, k, viscosity)
        root = brentq(
            residual_of_linear_theory, 0.9 * found, 1.1 * found, args=arguments, rtol=1e-12
        )
        assert found == pytest.approx(root, rel=1e-6)

    @given(atwoods, positive, positive, st.floats(0.001, 2.0))
    def test_the_approximation_is_near_the_exact_rate(
        self, atwood: float, gravity: float, k: float, viscosity: float
    ) -> None:
        exact = viscous_growth_rate(atwood, gravity, k, viscosity)
        assert linear_growth_rate(atwood, gravity, k, viscosity) == pytest.approx(exact, rel=0.12)
        assert exact < linear_growth_rate(atwood, gravity, k)

    def test_viscosity_that_hardly_matters(self) -> None:
        assert viscous_growth_rate(0.5, 1.0, 1.0, 1e-6) == pytest.approx(math.sqrt(0.5), rel=1e-3)
