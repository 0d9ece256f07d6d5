"""Rigid bodies: shape, rotation, motion."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from gpubench.base.errors import UserError
from gpubench.physics.rigid import RigidBody, ball_body, box_body, rotation_matrix, turned

seeds = st.integers(0, 2**32 - 1)


def scipy_rotation(quaternion: np.ndarray) -> Rotation:
    return Rotation.from_quat(np.roll(quaternion, -1))  # scipy has w last


def random_body(seed: int) -> RigidBody:
    rng = np.random.default_rng(seed)
    body = box_body(
        rng.uniform(1, 4, 3), rng.normal(size=3), rng.uniform(0.1, 3), 0.5, rng.normal(size=4)
    )
    return replace(body, velocity=rng.normal(size=3), angular_momentum=rng.normal(size=3))


class TestShape:
    def test_mass_and_inertia_are_those_of_a_numerical_integration(self) -> None:
        density = 0.7
        for body, holds, half in (
            (box_body((1.0, 2.0, 3.0), (0, 0, 0), density, 0.4), None, np.array([0.5, 1.0, 1.5])),
            (
                ball_body(1.3, (0, 0, 0), density, 0.4),
                lambda x: (x**2).sum(axis=-1) <= 1.3**2,
                np.full(3, 1.3),
            ),
        ):
            cells = 100
            axes = [((np.arange(cells) + 0.5) / cells * 2 - 1) * h for h in half]
            points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
            if holds is not None:
                points = points[holds(points)]
            weight = density * (2 * half / cells).prod()
            squares = points**2
            inertia = weight * (squares.sum() - squares.sum(axis=0))
            assert body.mass == pytest.approx(weight * len(points), rel=1e-3)
            assert body.inertia == pytest.approx(inertia, rel=3e-3)

    def test_a_box_is_filled_with_cells(self) -> None:
        body = box_body((2.0, 1.0, 1.5), (5, 6, 7), 1.0, 0.5, shell=math.inf)
        assert len(body.offsets) == 4 * 2 * 3
        assert np.abs(body.offsets).max(axis=0) == pytest.approx([0.75, 0.25, 0.5])
        assert body.offsets.sum(axis=0) == pytest.approx([0, 0, 0], abs=1e-12)
        assert body.particle_positions().mean(axis=0) == pytest.approx([5, 6, 7])

    def test_edges_that_are_no_whole_cells_are_cut_into_cells_as_near(self) -> None:
        body = box_body((1.1, 0.2, 0.9), (0, 0, 0), 1.0, 0.5, shell=math.inf)
        assert len(body.offsets) == 2 * 1 * 2
        assert body.offsets.max(axis=0) == pytest.approx([0.275, 0, 0.225])

    def test_only_the_shell_is_kept(self) -> None:
        whole = box_body((5, 5, 5), (0, 0, 0), 1.0, 0.5, shell=math.inf)
        hollow = box_body((5, 5, 5), (0, 0, 0), 1.0, 0.5, shell=0.5)
        assert len(whole.offsets) == 1000
        assert len(hollow.offsets) == 1000 - 8**3
        assert hollow.mass == whole.mass
        ball = ball_body(3.0, (0, 0, 0), 1.0, 0.5, shell=1.0)
        depth = 3.0 - np.linalg.norm(ball.offsets, axis=1)
        assert np.unique(depth.round(9)).tolist() == [0.25, 0.75]

    def test_a_ball_has_no_holes_and_no_crowds(self) -> None:
        ball = ball_body(4.0, (0, 0, 0), 1.0, 0.5, shell=0.5)
        directions = np.random.default_rng(1).normal(size=(2000, 3))
        surface = directions / np.linalg.norm(directions, axis=1)[:, None] * 3.75
        tree = cKDTree(ball.offsets)
        assert tree.query(surface)[0].max() < 0.5
        assert tree.query(ball.offsets, k=2)[0][:, 1].min() > 0.35

    def test_a_ball_has_as_many_particles_as_its_volume_has_cells(self) -> None:
        body = ball_body(4.0, (0, 0, 0), 1.0, 0.5, shell=math.inf)
        assert len(body.offsets) * 0.5**3 == pytest.approx(4 / 3 * math.pi * 4**3, rel=0.02)
        assert body.bounding_radius == pytest.approx(3.75)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: box_body((1, 0, 1), (0, 0, 0), 1.0, 0.5), "size"),
            (lambda: box_body((1, 1, 1), (0, 0, 0), -1.0, 0.5), "density"),
            (lambda: box_body((1, 1, 1), (0, 0, 0), 1.0, math.nan), "spacing"),
            (lambda: box_body((1, 1, 1), (0, 0, 0), 1.0, 0.5, (0, 0, 0, 0)), "quaternion"),
            (lambda: ball_body(0.0, (0, 0, 0), 1.0, 0.5), "radius"),
            (lambda: ball_body(0.4, (0, 0, 0), 1.0, 0.5), "no particles"),
        ],
    )
    def test_bad_bodies_are_refused(self, make, message) -> None:
        with pytest.raises(UserError, match=message):
            make()


class TestRotation:
    @given(seeds)
    def test_the_matrix_is_scipys(self, seed: int) -> None:
        quaternion = random_body(seed).orientation
        matrix = rotation_matrix(quaternion)
        assert matrix == pytest.approx(scipy_rotation(quaternion).as_matrix(), abs=1e-12)

    @settings(max_examples=15)
    @given(seeds)
    def test_many_small_turns_are_one_large(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        first = random_body(seed).orientation
        angular_velocity = rng.normal(size=3)
        quaternion = first
        for _ in range(1000):
            quaternion = turned(quaternion, angular_velocity, 1e-3)
        expected = Rotation.from_rotvec(angular_velocity) * scipy_rotation(first)
        assert (expected.inv() * scipy_rotation(quaternion)).magnitude() < 1e-5

    @given(seeds)
    def test_angular_velocity_gives_back_the_momentum(self, seed: int) -> None:
        body = random_body(seed)
        turn = scipy_rotation(body.orientation)
        spin = turn.apply(body.inertia * turn.inv().apply(body.angular_velocity))
        assert spin == pytest.approx(body.angular_momentum, abs=1e-12)

    @given(seeds)
    def test_particles_move_as_positions_change(self, seed: int) -> None:
        body = random_body(seed)
        ahead, behind = (
            replace(
                body,
                centre=body.centre + dt * body.velocity,
                orientation=turned(body.orientation, body.angular_velocity, dt),
            ).particle_positions()
            for dt in (1e-5, -1e-5)
        )
        expected = body.particle_velocities()
        fastest = np.abs(expected).max()
        assert (ahead - behind) / 2e-5 == pytest.approx(expected, abs=1e-6 * fastest)
