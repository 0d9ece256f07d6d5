"""Contact forces on the particles of bodies, and wall forces (silva2012, 4.1, 4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.box import HIGH_WALL, LOW_WALL, Box
from gpubench.physics.pairs import nearest_image, wrapped


@dataclass(frozen=True)
class Contact:
    """A spring and damper between touching particles (equations 11 and 12).

    distance: sum of the radii of two particles; they touch if they are closer.
    stiffness: the spring's acceleration per length. damping: acceleration per velocity.
    mass: mass of a fluid particle, by which accelerations are multiplied to give forces.
    """

    distance: float
    stiffness: float
    damping: float
    mass: float

    def __post_init__(self) -> None:
        _require_sensible("contact", self)


@dataclass(frozen=True)
class Walls:
    """Springs and dampers along the walls of a box (equation 13).

    distance: range of a wall's push. stiffness, damping: as in Contact.
    epsilon: particles no deeper than this within the range are not pushed.
    """

    distance: float
    stiffness: float
    damping: float
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        _require_sensible("wall", self)


def contact_forces(
    positions: Floats,
    velocities: Floats,
    other_positions: Floats,
    other_velocities: Floats,
    contact: Contact,
    box: Box,
) -> tuple[Floats, Floats]:
    """Return the contact forces between two sets of particles: on the first, and on the second.

    positions, velocities: float64 (particles, 3); pairs across a periodic face use the nearest
    image. The forces have the shapes of the positions, and sum to zero.
    The force is m (K_c (t - r) e + eta (v_j - v_i)) at distances r below t = contact.distance,
    without the spring for coincident particles, which define no direction e.
    """
    from scipy.spatial import cKDTree  # slow to import

    boxsize = np.where(box.periodic, box.size, 0.0)  # 0 where not periodic, as cKDTree expects
    trees = [cKDTree(wrapped(p, box), boxsize=boxsize) for p in (positions, other_positions)]
    radius = contact.distance * (1 + 1e-9)  # the tree rounds: query a larger radius, then select
    found = trees[0].sparse_distance_matrix(trees[1], radius, output_type="ndarray")
    i, j = found["i"], found["j"]
    offset = nearest_image(positions[i] - other_positions[j], box)
    distance = np.sqrt((offset**2).sum(axis=1))
    touching = distance < contact.distance
    i, j, offset, distance = i[touching], j[touching], offset[touching], distance[touching]
    direction = offset / np.where(distance > 0, distance, 1)[:, None]
    spring = contact.stiffness * (contact.distance - distance)[:, None] * direction
    damper = contact.damping * (other_velocities[j] - velocities[i])
    force = contact.mass * (spring + damper)
    forces, other_forces = np.zeros_like(positions), np.zeros_like(other_positions)
    np.add.at(forces, i, force)
    np.add.at(other_forces, j, -force)
    return forces, other_forces


def wall_accelerations(positions: Floats, velocities: Floats, walls: Walls, box: Box) -> Floats:
    """Return the accelerations of particles by the walls of their box, float64 (particles, 3).

    A wall contributes K_s d - K_d (v . n) along its inward normal n if a particle is inside the
    wall's range by d > epsilon. Axes that are not periodic have walls; see Box.walls.
    """
    accelerations = np.zeros_like(positions)
    for axis in np.flatnonzero(~np.asarray(box.periodic)):
        for wall, normal, away in (
            (LOW_WALL, 1.0, positions[:, axis]),
            (HIGH_WALL, -1.0, box.size[axis] - positions[:, axis]),
        ):
            if not box.walls[axis] & wall:
                continue
            inside = walls.distance - away
            push = walls.stiffness * inside - walls.damping * normal * velocities[:, axis]
            accelerations[:, axis] += np.where(inside > walls.epsilon, normal * push, 0.0)
    return accelerations


def _require_sensible(what: str, springs: Contact | Walls) -> None:
    for field in fields(springs):
        value = getattr(springs, field.name)
        if not (math.isfinite(value) and value >= 0):
            raise UserError(
                f"the {field.name} of a {what} must be finite and not negative, not {value:g}"
            )
