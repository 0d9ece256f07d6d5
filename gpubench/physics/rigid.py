"""Rigid bodies as sets of particles (silva2012, section 4.1): shape, state, motion.

A body's state is its centre, orientation, velocity and angular momentum. Orientations are unit
quaternions (w, x, y, z), which rotate the body's frame (its principal axes) into the world's. All
forces act on a body's particles, and add up to a total force and torque.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats

UNTURNED = (1.0, 0.0, 0.0, 0.0)
# Particles are kept down to this depth: those deeper than a kernel radius interact with nothing.
SHELL = 1.0


@dataclass(frozen=True)
class RigidBody:
    """A rigid body; all arrays are float64.

    centre: centre of mass, (3,). orientation: (4,), see the module. velocity: the centre's, (3,).
    angular_momentum: (3,), about the centre, in the world's frame.
    mass: total mass. inertia: (3,), principal moments, about the axes of the body's frame.
    offsets: (particles, 3), from the centre to the body's particles, in the body's frame.
    """

    centre: Floats
    orientation: Floats
    velocity: Floats
    angular_momentum: Floats
    mass: float
    inertia: Floats
    offsets: Floats

    @property
    def bounding_radius(self) -> float:
        """The distance of the furthest particle from the centre."""
        return float(np.sqrt((self.offsets**2).sum(axis=1).max()))

    @property
    def rotation(self) -> Floats:
        """The rotation matrix from the body's frame to the world's, (3, 3)."""
        return rotation_matrix(self.orientation)

    @property
    def angular_velocity(self) -> Floats:
        """In the world's frame, (3,): R I^-1 R^T L, with rotation R and angular momentum L."""
        rotation = self.rotation
        velocity: Floats = rotation @ ((self.angular_momentum @ rotation) / self.inertia)
        return velocity

    def particle_positions(self) -> Floats:
        """Return the positions of the body's particles, (particles, 3)."""
        positions: Floats = self.centre + self.offsets @ self.rotation.T
        return positions

    def particle_velocities(self) -> Floats:
        """Return the velocities of the body's particles, (particles, 3)."""
        arms = self.offsets @ self.rotation.T
        velocities: Floats = self.velocity + np.cross(self.angular_velocity, arms)
        return velocities

    def load(self, forces: Floats) -> tuple[Floats, Floats]:
        """Return total force and torque about the centre, (3,) each, given particle forces."""
        arms = self.offsets @ self.rotation.T
        return forces.sum(axis=0), np.cross(arms, forces).sum(axis=0)


def box_body(
    size: Sequence[float],
    centre: Sequence[float],
    density: float,
    spacing: float,
    orientation: Sequence[float] = UNTURNED,
    shell: float = SHELL,
) -> RigidBody:
    """Make a solid box at rest, with particles at the centres of equal cells.

    size: edges in the body's frame. spacing: approximate cell edge, adjusted to whole cells.
    shell: particles deeper below the surface than this are left out.
    Raises UserError where size, density or spacing is not positive.
    """
    edges = np.asarray(size, np.float64)
    _require_positive(size=edges.min(), density=density, spacing=spacing)
    counts = np.maximum(1, np.rint(edges / spacing)).astype(int)
    offsets = _lattice(counts, edges / counts)
    depth = (edges / 2 - np.abs(offsets)).min(axis=1)
    mass = density * math.prod(edges)
    inertia = mass / 12 * ((edges**2).sum() - edges**2)
    return _at_rest(centre, orientation, mass, inertia, offsets[depth <= shell])


def ball_body(
    radius: float, centre: Sequence[float], density: float, spacing: float, shell: float = SHELL
) -> RigidBody:
    """Make a solid ball at rest, with particles on spheres a spacing apart.

    The outermost sphere is half a spacing below the surface. (A cubic lattice would make a rough
    ball, whose effective size depends on where the lattice meets its surface.)
    shell: particles deeper below the surface than this are left out.
    Raises UserError where radius, density or spacing is not positive, or no particle fits.
    """
    _require_positive(radius=radius, density=density, spacing=spacing)
    if radius < spacing:
        raise UserError(
            f"a ball of radius {radius:g} holds no particles {spacing:g} apart: make it larger"
        )
    radii = np.arange(radius - spacing / 2, max(radius - shell, 0.0) - 1e-12, -spacing)
    offsets = np.concatenate([_sphere(each, spacing) for each in radii])
    mass = density * 4 / 3 * math.pi * radius**3
    inertia = np.full(3, 2 / 5 * mass * radius**2)
    return _at_rest(centre, UNTURNED, mass, inertia, offsets)


def rotation_matrix(quaternion: Floats) -> Floats:
    """Return the rotation matrix, (3, 3), of a unit quaternion (w, x, y, z)."""
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def turned(quaternion: Floats, angular_velocity: Floats, time_step: float) -> Floats:
    """Return q + dt/2 (0, omega) q, normalised; omega in the world's frame."""
    w, vector = quaternion[0], quaternion[1:]
    rate = np.empty(4)
    rate[0] = -(angular_velocity @ vector)
    rate[1:] = w * angular_velocity + np.cross(angular_velocity, vector)
    moved = quaternion + time_step / 2 * rate
    unit: Floats = moved / np.linalg.norm(moved)
    return unit


def _lattice(counts: NDArray[np.int64], spacing: Floats) -> Floats:
    """Return the centres of a grid's cells about the origin, (cells, 3)."""
    axes = (
        (np.arange(count) - (count - 1) / 2) * gap
        for count, gap in zip(counts, spacing, strict=True)
    )
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def _sphere(radius: float, spacing: float) -> Floats:
    """Return points on a sphere about the origin, one per spacing^2 of area, (points, 3).

    They lie on a spiral in golden-angle steps, equally spaced in height (the Fibonacci lattice; A.
    Gonzalez, Math. Geosci. 42, 49, 2010).
    """
    count = max(1, round(4 * math.pi * (radius / spacing) ** 2))
    number = np.arange(count)
    z = 1 - (2 * number + 1) / count
    angle = math.pi * (3 - math.sqrt(5)) * number
    flat = np.sqrt(1 - z**2)
    return radius * np.column_stack((flat * np.cos(angle), flat * np.sin(angle), z))


def _at_rest(
    centre: Sequence[float],
    orientation: Sequence[float],
    mass: float,
    inertia: Floats,
    offsets: Floats,
) -> RigidBody:
    quaternion = np.asarray(orientation, np.float64)
    length = float(np.linalg.norm(quaternion))
    if not (math.isfinite(length) and length > 0):
        raise UserError(f"an orientation is a quaternion other than 0, not {list(orientation)}")
    return RigidBody(
        np.array(centre, np.float64), quaternion / length, np.zeros(3), np.zeros(3), mass,
        inertia, offsets,
    )  # fmt: skip


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise UserError(f"{name} of a body must be positive and finite, not {value:g}")
