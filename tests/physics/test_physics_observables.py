"""Observables of a snapshot, fits and transport coefficients give back what was put in."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.physics.box import Box
from gpubench.physics.fits import Estimate, fit_line, growth_exponent, growth_rate, mean_of_series
from gpubench.physics.fluid import Fluid
from gpubench.physics.observables import momentum, pressure, radial_distribution, temperature
from gpubench.physics.transport import (
    MeanSquareDisplacement,
    shear_wave,
    viscosity,
    wavenumber_along,
)

seeds = st.integers(0, 2**32 - 1)
CUBE = Box((10.0, 10.0, 10.0))


def correlated_noise(rng: np.random.Generator, shape: tuple[int, ...], kept: float) -> np.ndarray:
    """Noise of unit variance along the first axis, each sample `kept` times the last plus new."""
    noise = rng.normal(size=shape)
    for i in range(1, shape[0]):
        noise[i] = kept * noise[i - 1] + math.sqrt(1 - kept**2) * noise[i]
    return noise


class TestTemperature:
    FLUID = Fluid(mass=(1.0, 3.0))

    def test_of_a_maxwell_distribution(self) -> None:
        rng = np.random.default_rng(0)
        species = np.arange(200_000) % 2
        mass = np.array([1.0, 3.0])[species]
        velocities = rng.normal(size=(200_000, 3)) * np.sqrt(1.7 / mass)[:, None]
        found = temperature(velocities, species, self.FLUID)
        assert found.overall == pytest.approx(1.7, rel=0.01)
        assert found.species == pytest.approx((1.7, 1.7), rel=0.01)

    def test_of_two_particles_by_hand(self) -> None:
        velocities = np.array([[1.0, 0, 0], [-1.0, 0, 0]])
        found = temperature(velocities, np.array([0, 0]), self.FLUID)
        assert found.overall == found.species[0] == pytest.approx(2 / 3)
        assert temperature(velocities, np.array([0, 0]), self.FLUID, 2).overall == 1
        assert math.isnan(found.species[1])

    @given(seeds)
    def test_wind_is_no_heat(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        velocities, species = rng.normal(size=(50, 3)), np.arange(50) % 2
        still = temperature(velocities, species, self.FLUID)
        wind = temperature(velocities + rng.normal(size=3) * 10, species, self.FLUID)
        assert wind.overall == pytest.approx(still.overall)
        assert wind.species == pytest.approx(still.species)
        streaming = temperature(velocities + 10.0 * species[:, None], species, self.FLUID)
        assert streaming.species == pytest.approx(still.species)
        assert streaming.overall > still.overall + 10


def test_momentum() -> None:
    velocities = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 2.0]])
    found = momentum(velocities, np.array([0, 1]), Fluid(mass=(1.0, 3.0)))
    assert found.tolist() == [1.0, -1.0, 9.0]


class TestPressure:
    def test_of_an_ideal_gas(self) -> None:
        rng = np.random.default_rng(0)
        positions, species = rng.random((300, 3)) * 10, np.zeros(300, int)
        gas = Fluid(repulsion=(0.0, 0.0, 0.0))
        assert pressure(positions, species, CUBE, gas, 2.0) == pytest.approx(0.6)
        positions[:, 2] = 5.0
        assert pressure(positions, species, CUBE, gas, 2.0, dimensions=2) == pytest.approx(6.0)

    @pytest.mark.parametrize("dimensions", [2, 3])
    def test_of_a_lattice_by_hand(self, dimensions: int) -> None:
        """A square or cubic lattice of edge 0.8: one pair a particle and axis, all at rest."""
        box = Box((4.0, 4.0, 4.0 if dimensions == 3 else 1.0), (True, True, dimensions == 3))
        counts = (5, 5, 5 if dimensions == 3 else 1)
        positions = np.stack(np.meshgrid(*map(np.arange, counts)), -1).reshape(-1, 3) * 0.8
        found = pressure(positions, np.ones(len(positions), int), box, Fluid(), 0.0, dimensions)
        virial_of_particle = dimensions * 0.8 * 25 * 0.2
        assert found == pytest.approx(virial_of_particle / dimensions / 0.8**dimensions)


class TestRadialDistribution:
    @pytest.mark.parametrize("dimensions", [2, 3])
    def test_is_one_for_an_ideal_gas(self, dimensions: int) -> None:
        rng = np.random.default_rng(2)
        positions = rng.random((4000, 3)) * 10
        if dimensions == 2:
            positions[:, 2] = 0.5
        found = radial_distribution(positions, CUBE, 3.0, 15, dimensions)
        assert found.distance == pytest.approx(np.arange(15) * 0.2 + 0.1)
        assert found.g[3:] == pytest.approx(np.ones(12), abs=0.05)

    def test_counts_the_neighbours_of_a_lattice(self) -> None:
        positions = np.stack(np.meshgrid(*[np.arange(10.0)] * 3), -1).reshape(-1, 3)
        found = radial_distribution(positions, CUBE, 1.5, 15)
        # 6 neighbours at 1 and 12 at 1.414, among 999 others in a volume of 1000.
        shells = 4 / 3 * math.pi * np.diff(np.linspace(0, 1.5, 16) ** 3)
        neighbours = found.g * 0.999 * shells
        assert neighbours[9:11].sum() == pytest.approx(6)
        assert neighbours[14] == pytest.approx(12)
        assert neighbours[:9].sum() == neighbours[11:14].sum() == 0

    def test_walls_are_refused(self) -> None:
        slit = Box((10.0, 10.0, 10.0), (True, True, False))
        with pytest.raises(UserError, match="periodic along all its axes"):
            radial_distribution(np.zeros((5, 3)), slit, 2.0, 10)
        with pytest.raises(UserError, match="two particles or more, not 1"):
            radial_distribution(np.zeros((1, 3)), CUBE, 2.0, 10)


class TestFits:
    def test_estimate(self) -> None:
        assert Estimate(2.0, 0.5).times(-3) == Estimate(-6.0, 1.5)
        assert str(Estimate(23.6371, 0.0712)) == "23.64 ± 0.071"

    def test_errors_of_lines_are_those_that_repetitions_show(self) -> None:
        rng = np.random.default_rng(3)
        x = np.linspace(0, 1, 200)
        for kept in (0.0, 0.8):
            noise = correlated_noise(rng, (200, 300), kept)
            lines = [fit_line(x, 4 * x + y) for y in noise.T]
            assert_honest([line.slope for line in lines], 4.0)
            assert_honest([line.intercept for line in lines], 0.0)

    @given(st.floats(-3, 3), st.floats(0.1, 10))
    def test_exponents_and_rates_come_back(self, power: float, scale: float) -> None:
        times = np.linspace(1, 50, 40)
        rate = power / 10
        assert growth_exponent(times, scale * times**power, (2, 40)).value == pytest.approx(power)
        assert growth_rate(times, scale * np.exp(rate * times), (2, 40)).value == pytest.approx(
            rate
        )

    def test_only_the_window_counts(self) -> None:
        times = np.arange(1.0, 101)
        sizes = np.where(times < 30, times**0.5, times ** (2 / 3))
        assert growth_exponent(times, sizes, (1, 29)).value == pytest.approx(0.5)
        assert growth_exponent(times, sizes, (30, 100)).value == pytest.approx(2 / 3)

    def test_too_few_samples_and_no_logarithm(self) -> None:
        times = np.arange(5.0)
        with pytest.raises(UserError, match="2 samples lie between times 3 and 9"):
            growth_rate(times, times, (3, 9))
        with pytest.raises(UserError, match="amplitudes must be positive"):
            growth_rate(times, times - 2, (0, 4))
        with pytest.raises(UserError, match="times must be positive"):
            growth_exponent(times, times + 1, (0, 4))

    def test_error_of_a_mean_is_the_one_that_repetitions_show(self) -> None:
        rng = np.random.default_rng(4)
        series = 5 + correlated_noise(rng, (3205, 200), 0.9)
        assert_honest([mean_of_series(one) for one in series.T], 5.0)
        with pytest.raises(UserError, match="15 samples do not fill 16 blocks"):
            mean_of_series(np.zeros(15))


def assert_honest(estimates: list[Estimate], truth: float) -> None:
    """The mean is right, and the errors are as large as the estimates' own spread."""
    values = np.array([estimate.value for estimate in estimates])
    errors = np.array([estimate.error for estimate in estimates])
    assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(len(values)) + 0.01 * abs(
        truth
    )
    assert 0.8 < np.sqrt((errors**2).mean()) / values.std() < 1.25


class TestDiffusion:
    @staticmethod
    def walk(
        box: Box, diffusion: float, seed: int, particles: int = 1600
    ) -> MeanSquareDisplacement:
        rng = np.random.default_rng(seed)
        displacement = MeanSquareDisplacement(box)
        positions = rng.random((particles, 3)) * box.size
        for step in range(60):
            displacement.add(10 + 0.5 * step, positions)
            steps = rng.normal(size=(particles, 3)) * math.sqrt(2 * diffusion * 0.5)
            positions = np.where(box.periodic, (positions + steps) % box.size, positions)
        return displacement

    @pytest.mark.parametrize(
        "periodic", [(True, True, True), (True, True, False), (False, True, False)]
    )
    def test_of_a_random_walk_through_periodic_faces(
        self, periodic: tuple[bool, bool, bool]
    ) -> None:
        box = Box((6.0, 8.0, 7.0), periodic)
        found = self.walk(box, 0.3, seed=0)
        estimate = found.diffusion((2, 29.5))
        assert estimate.value == pytest.approx(0.3, abs=4 * estimate.error)
        assert 0.002 < estimate.error < 0.03
        assert found.times[[0, -1]].tolist() == [0, 29.5]
        assert found.values[0] == 0
        # 2 d D t, although it is more than the box is long along any axis.
        assert found.values[-1] == pytest.approx(2 * sum(periodic) * 0.3 * 29.5, rel=0.2)

    def test_its_error_is_the_one_that_repetitions_show(self) -> None:
        walks = [self.walk(CUBE, 0.5, seed, particles=320) for seed in range(60)]
        assert_honest([walk.diffusion((0, 29.5)) for walk in walks], 0.5)

    def test_drift_is_no_diffusion(self) -> None:
        displacement = MeanSquareDisplacement(CUBE)
        positions = np.random.default_rng(0).random((50, 3)) * 10
        drift = np.array([1.0, -2.0, 0.1])
        for step in range(30):
            displacement.add(step, (positions + step * drift) % 10)
        assert displacement.values == pytest.approx(np.zeros(30), abs=1e-20)

    def test_needs_a_periodic_axis_and_particles(self) -> None:
        with pytest.raises(UserError, match="the box has none"):
            MeanSquareDisplacement(Box((1.0, 1.0, 1.0), (False, False, False)))
        with pytest.raises(UserError, match="at least 16"):
            MeanSquareDisplacement(CUBE).add(0.0, np.zeros((15, 3)))


class TestViscosity:
    @pytest.mark.parametrize("mode", [1, 2])
    def test_amplitude_of_a_wave(self, mode: int) -> None:
        box = Box((4.0, 5.0, 8.0))
        rng = np.random.default_rng(5)
        positions = rng.random((100_000, 3)) * box.size
        velocities = rng.normal(size=(100_000, 3))
        velocities[:, 0] += 0.5 * np.sin(2 * math.pi * mode * positions[:, 2] / 8)
        found = shear_wave(positions, velocities, box, mode)
        assert found == pytest.approx(0.5, abs=4 * math.sqrt(2 / 100_000))
        assert wavenumber_along(box, 2, mode) == pytest.approx(mode * math.pi / 4)

    def test_of_a_wave_without_noise(self) -> None:
        times = np.arange(20) * 0.5
        found = viscosity(times, 0.3 * np.exp(-0.28 * 0.4**2 * times), 0.4, mass_density=3.0)
        assert found.kinematic.value == pytest.approx(0.28)
        assert found.dynamic.value == pytest.approx(0.84)
        assert found.dynamic.error == pytest.approx(0, abs=1e-9)

    @pytest.mark.parametrize("rate", [0.05, 1.5])
    def test_error_under_thermal_noise_is_the_one_that_repetitions_show(self, rate: float) -> None:
        rng = np.random.default_rng(6)
        times = np.arange(100) * 0.5
        noise = 0.02 * correlated_noise(rng, (100, 300), math.exp(-rate * 0.5))
        waves = np.exp(-rate * times)[:, None] + noise
        found = [viscosity(times, wave, 1.0, 1.0).kinematic for wave in waves.T]
        assert_honest(found, rate)

    def test_needs_equal_spacing_and_a_wave(self) -> None:
        with pytest.raises(UserError, match="equally spaced"):
            viscosity(np.array([0.0, 1.0, 3.0]), np.ones(3), 1.0, 1.0)
        with pytest.raises(UserError, match="at least 3 samples"):
            viscosity(np.arange(2.0), np.ones(2), 1.0, 1.0)
        with pytest.raises(UserError, match=r"the wave is gone after 0\.5"):
            viscosity(np.arange(4) * 0.5, np.array([1.0, -1.0, 1.0, -1.0]), 1.0, 1.0)
