"""The box in fixed point, and the fluid's coefficients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from gpubench.base.errors import UserError
from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid, normalisation

edges = st.floats(1e-3, 1e6)
boxes = st.builds(
    Box, st.tuples(edges, edges, edges), st.tuples(st.booleans(), st.booleans(), st.booleans())
)
seeds = st.integers(0, 2**32 - 1)


class TestBox:
    @given(boxes, seeds)
    def test_positions_come_back_to_a_unit(self, box: Box, seed: int) -> None:
        positions = np.random.default_rng(seed).random((50, 3)) * box.size
        back = box.to_positions(box.to_units(positions))
        # Units are rounded down, and float64 rounds besides.
        error = (positions - back) / box.size * box.units
        assert (error > -1e-5).all()
        assert (error < 1 + 1e-5).all()

    @given(boxes, seeds, st.integers(-3, 3))
    def test_whole_periods_change_nothing(self, box: Box, seed: int, periods: int) -> None:
        positions = np.random.default_rng(seed).random((50, 3)) * box.size
        shift = np.where(box.periodic, periods * np.asarray(box.size), 0)
        units = box.to_units(positions)
        difference = box.to_units(positions + shift) - units  # wraps, as units do
        assert (np.abs(difference.view(np.int32)) <= 1).all()

    def test_what_is_outside_a_wall_is_put_inside(self) -> None:
        box = Box((10.0, 20.0, 30.0), (True, True, False))
        units = box.to_units(np.array([[-1.0, 21.0, -0.5], [10.0, 0.0, 30.0]]))
        assert units.tolist() == [
            [int(0.9 * 2**32), int(0.05 * 2**32), 0],
            [0, 0, 2**31 - 1],
        ]

    def test_a_difference_of_units_is_that_of_the_nearest_images(self) -> None:
        box = Box((10.0, 10.0, 10.0))
        one, other = box.to_units(np.array([[9.5, 0.0, 0.0], [0.5, 0.0, 0.0]]))
        assert int((other - one).view(np.int32)[0]) / 2**32 * 10 == pytest.approx(1.0)

    def test_volume(self) -> None:
        assert Box((2.0, 3.0, 4.0)).volume == 24.0

    @pytest.mark.parametrize("size", [(0.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, math.inf)])
    def test_edges_must_be_positive_and_finite(self, size: tuple[float, float, float]) -> None:
        with pytest.raises(UserError, match="positive, finite edges"):
            Box(size)

    def test_cells_are_no_smaller_than_asked_for(self) -> None:
        grid = Box((10.0, 7.9, 0.5), (True, True, False)).grid(1.0)
        assert grid.cells == (10, 7, 1)
        assert grid.periodic == (True, True, False)

    def test_a_periodic_edge_needs_three_cells(self) -> None:
        with pytest.raises(UserError, match=r"2\.9 long along y.*make it 3 or longer"):
            Box((9.0, 2.9, 9.0)).grid(1.0)
        assert Box((9.0, 2.9, 9.0), (True, False, True)).grid(1.0).cells == (9, 2, 9)
        # 1.11 / 0.37 is rounded to less than 3, and two cells would be neighbours twice.
        assert Box((3 * 0.37, 4.0, 4.0)).grid(0.37).cells[0] == 3

    def test_too_many_cells(self) -> None:
        with pytest.raises(UserError, match="too many cells"):
            Box((1e6, 1e6, 1e6)).grid(1e-5)


positive = st.floats(0.01, 1000.0)
threes = st.tuples(positive, positive, positive)
fluids = st.builds(Fluid, repulsion=threes, friction=threes, noise=threes)


class TestFluid:
    @pytest.mark.parametrize("dimensions", [2, 3])
    @pytest.mark.parametrize("power", [1, 2])
    @pytest.mark.parametrize("cutoff", [1.0, 1.7])
    def test_normalised_weights_integrate_to_one(
        self, power: int, dimensions: int, cutoff: float
    ) -> None:
        sphere = {2: lambda r: 2 * math.pi * r, 3: lambda r: 4 * math.pi * r**2}[dimensions]
        integral, _ = quad(lambda r: sphere(r) * (1 - r / cutoff) ** power, 0, cutoff)
        assert 4.5 * integral * normalisation(power, 4.5, dimensions, cutoff) == pytest.approx(1)

    def test_paper_coefficients_get_the_factors_of_their_weights(self) -> None:
        fluid = Fluid.of_paper(
            (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0), density=3.0, dimensions=3
        )
        first, second = 1 / math.pi, 5 / (2 * math.pi)
        assert fluid.repulsion == pytest.approx((first, 2 * first, 3 * first))
        assert fluid.friction == pytest.approx((4 * second, 5 * second, 6 * second))
        assert fluid.noise == pytest.approx((7 * first, 8 * first, 9 * first))

    def test_temperature(self) -> None:
        fluid = Fluid(friction=(4.5, 2.0, 0.0), noise=(3.0, 3.0, 3.0))
        assert fluid.temperature[:2] == (1.0, 2.25)
        assert math.isnan(fluid.temperature[2])

    @pytest.mark.parametrize("name", ["repulsion", "friction", "noise"])
    def test_coefficients_must_not_be_negative(self, name: str) -> None:
        with pytest.raises(UserError, match=f"{name} must not be negative"):
            Fluid(**{name: (1.0, -1.0, 1.0)})

    def test_everything_must_be_finite(self) -> None:
        with pytest.raises(UserError, match="gravity must be finite"):
            Fluid(gravity=(0.0, 0.0, math.nan))

    @pytest.mark.parametrize("zero", [{"mass": (1.0, 0.0)}, {"cutoff": 0.0}])
    def test_masses_and_cutoff_must_be_positive(self, zero: dict) -> None:
        with pytest.raises(UserError, match="must be positive"):
            Fluid(**zero)

    @given(fluids, st.floats(1e-4, 0.1))
    def test_a_force_step_leaves_room_for_32_of_the_strongest_forces(
        self, fluid: Fluid, time_step: float
    ) -> None:
        unit = fluid.force_step(time_step)
        assert math.frexp(unit)[0] == 0.5  # a power of two
        # Repulsion at contact, five thermal speeds against the drag, noise at its greatest.
        speed = 5 * math.sqrt(max(*fluid.temperature, 1.0))
        strongest = (
            max(fluid.repulsion)
            + max(fluid.friction) * speed
            + max(fluid.noise) * math.sqrt(3 / time_step)
        )
        assert 2**23 * unit < 32 * strongest <= 2**24 * unit * (1 + 1e-12)

    @given(fluids, st.floats(1e-4, 0.1), st.floats(-1, 1))
    def test_the_rounder_rounds_to_whole_force_steps(
        self, fluid: Fluid, time_step: float, share: float
    ) -> None:
        unit = fluid.force_step(time_step)
        rounder = fluid.packed(time_step, "velocity-verlet")["rounder"][0]
        force = np.float32(share * 2**22 * unit)
        rounded = (force + rounder) - rounder
        assert float(rounded) / unit == round(float(force) / unit)
