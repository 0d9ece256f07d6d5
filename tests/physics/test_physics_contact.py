"""Contacts between particles of bodies and others, and walls."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.physics.box import Box
from gpubench.physics.contact import Contact, Walls, contact_forces, wall_accelerations

CONTACT = Contact(distance=0.6, stiffness=40.0, damping=3.0, mass=0.2)
WALLS = Walls(distance=0.5, stiffness=10.0, damping=2.0)
BOX = Box((4.0, 5.0, 6.0), (True, False, True))


def particles(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((count, 3)) * BOX.size, rng.normal(size=(count, 3))


def forces_by_hand(x, v, y, w):
    """The same by looking at every pair and every image."""
    forces, others = np.zeros_like(x), np.zeros_like(y)
    for i in range(len(x)):
        for j in range(len(y)):
            offset = x[i] - y[j]
            for axis in (0, 2):
                images = [offset[axis] + k * BOX.size[axis] for k in (-1, 0, 1)]
                offset[axis] = min(images, key=abs)
            r = math.dist(offset, (0, 0, 0))
            if r < CONTACT.distance:
                spring = CONTACT.stiffness * (CONTACT.distance - r) * offset / r
                force = CONTACT.mass * (spring + CONTACT.damping * (w[j] - v[i]))
                forces[i] += force
                others[j] -= force
    return forces, others


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_every_pair_that_touches_is_found_once(seed: int) -> None:
    (x, v), (y, w) = particles(seed, 60), particles(seed + 1, 50)
    found = contact_forces(x, v, y, w, CONTACT, BOX)
    expected = forces_by_hand(x, v, y, w)
    assert np.abs(expected[0]).max() > 0
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-12)


def test_coincident_particles_are_only_slowed() -> None:
    x = np.array([[1.0, 1.0, 1.0]])
    v = np.array([[1.0, 0.0, 0.0]])
    forces, others = contact_forces(x, v, x, -v, CONTACT, BOX)
    assert forces[0] == pytest.approx([-0.2 * 3 * 2, 0, 0])
    assert others[0] == pytest.approx([0.2 * 3 * 2, 0, 0])


def test_walls_push_inwards_and_slow_what_comes() -> None:
    positions = np.array([[0.1, 0.2, 0.1], [0.1, 4.9, 0.1], [2.0, 2.5, 3.0], [0.0, 0.5, 0.0]])
    velocities = np.array([[1.0, -1.0, 1.0], [1.0, 1.0, 1.0], [9.0, 9.0, 9.0], [0.0, -1.0, 0.0]])
    found = wall_accelerations(positions, velocities, WALLS, BOX)
    # Walls along y only: 0.3 inside the reach of one, then 0.4 inside that of the other.
    assert found[:, 1] == pytest.approx([10 * 0.3 + 2, -(10 * 0.4 + 2), 0, 0])
    assert not found[:, [0, 2]].any()


def test_walls_leave_what_is_within_epsilon() -> None:
    positions = np.array([[1.0, 0.2, 1.0], [1.0, 4.9, 1.0]])
    walls = replace(WALLS, epsilon=0.35)
    found = wall_accelerations(positions, np.zeros((2, 3)), walls, BOX)
    assert found[:, 1] == pytest.approx([0, -10 * 0.4])


def test_a_narrow_box_has_both_walls() -> None:
    box = Box((1.0, 1.0, 0.6), (True, True, False))
    found = wall_accelerations(np.array([[0.5, 0.5, 0.2]]), np.zeros((1, 3)), WALLS, box)
    assert found[0] == pytest.approx([0, 0, 10 * 0.3 - 10 * 0.1])


def test_springs_that_pull_are_refused() -> None:
    with pytest.raises(UserError, match="stiffness of a contact"):
        Contact(0.5, -1.0, 0.0, 1.0)
    with pytest.raises(UserError, match="damping of a wall"):
        Walls(0.5, 1.0, math.nan)
