"""Profiles of pressure, surfaces and drafts, of columns that are known."""

from __future__ import annotations

import numpy as np
import pytest

from gpubench.base.errors import UserError
from gpubench.physics.hydrostatics import (
    Profile,
    floating_draft,
    hydrostatic_deviation,
    local_surface,
    pressure_profile,
    surface_height,
    weight_density,
)

DENSITY, GRAVITY, SURFACE = 1.2, 0.05, 10.0


def column(error: float = 0.0) -> Profile:
    rng = np.random.default_rng(1)
    heights = rng.uniform(0, SURFACE, 20_000)
    pressures = DENSITY * (1 + error) * GRAVITY * (SURFACE - heights)
    return pressure_profile(heights, pressures + rng.normal(scale=0.01, size=20_000), 0.5)


def test_a_column_at_rest_deviates_by_its_noise() -> None:
    assert hydrostatic_deviation(column(), DENSITY, GRAVITY, SURFACE, 1.0) < 0.003
    assert weight_density(column(), GRAVITY, SURFACE, 1.0) == pytest.approx(DENSITY, rel=0.003)


def test_one_of_wrong_pressure_deviates_as_much() -> None:
    found = hydrostatic_deviation(column(0.1), DENSITY, GRAVITY, SURFACE, 1.0)
    # At the lowest layer that counts, centred 1.25 above the floor.
    assert found == pytest.approx(0.1 * (SURFACE - 1.25) / SURFACE, rel=0.1)
    assert weight_density(column(0.1), GRAVITY, SURFACE, 1.0) == pytest.approx(
        1.1 * DENSITY, rel=0.003
    )


def test_layers_without_particles_are_left_out() -> None:
    profile = pressure_profile(np.array([0.1, 0.3, 2.2]), np.array([4.0, 6.0, 1.0]), 0.5)
    assert profile.heights == pytest.approx([0.2, 2.2])
    assert profile.pressures == pytest.approx([5.0, 1.0])


def test_a_shallow_fluid_has_no_profile() -> None:
    with pytest.raises(UserError, match="make the fluid deeper"):
        hydrostatic_deviation(column(), DENSITY, GRAVITY, SURFACE, 4.5)


def test_the_surface_is_half_a_spacing_above_the_highest_layer() -> None:
    layers = np.repeat((np.arange(20) + 0.5) * 0.5, 64)  # 8 by 8 particles on 4 by 4
    strayed = layers + np.random.default_rng(2).normal(scale=0.02, size=layers.shape)
    assert surface_height(strayed, 0.5, 16.0) == pytest.approx(10.0, abs=0.03)


def test_a_local_surface_is_that_of_most_columns() -> None:
    axis = (np.arange(20) + 0.5) * 0.5
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    assert local_surface(points, 0.5) == pytest.approx(10.0)
    # A wave in a third of it, and a drop in the air.
    points[points[:, 0] < 3.3, 2] += 1.0
    assert local_surface(np.vstack((points, [[9.0, 9.0, 30.0]])), 0.5) == pytest.approx(10.0)
    with pytest.raises(UserError, match="no fluid"):
        local_surface(points[:0], 0.5)


def test_drafts() -> None:
    assert floating_draft(0.4, 5.0) == pytest.approx(2.0)
    # The same from where its centre is.
    for ratio in (0.0, 1.0, 1.3):
        with pytest.raises(UserError, match="floats"):
            floating_draft(ratio, 5.0)
