"""A tank of fluid made of smoothed particles: the scene, the state, the observables.

Lengths are in kernel radii, densities in rest densities. In a scene, x is the length, y the depth,
and gravity acts along -z. In memory and in the boxes of the model the axes are permuted (AXES):
cells vary slowest along the scene's length, so that a section of the scene is contiguous in memory,
and several GPUs can divide it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.motion import rows_of
from gpubench.physics.rigid import RigidBody
from gpubench.physics.sph import spacing_for
from gpubench.workloads.cell_workload import InCells
from gpubench.workloads.picture import Picture
from gpubench.workloads.sph_bodies import AXES, in_memory, inside_box, inverse
from gpubench.workloads.workload import Snapshot, Value


@dataclass(frozen=True)
class Scene:
    """The initial state of a simulation, in the axes of the scene.

    box: the box. positions: float64 (particles, 3), at rest. height: the height of the fluid,
        which with the Mach number determines gravity. bodies: the rigid bodies.
    origin: the origin of an unbounded world, as a position in the box. window: corner and edges of
        the region shown in pictures; None for the whole box.
    """

    box: Box
    positions: Floats
    height: float
    bodies: Sequence[RigidBody] = ()
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    window: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None


class Tank(InCells):
    """A fluid in a tank; the only state column is `velocities`: x, y, z, and a w of the subclass.

    neighbours: the number of particles within a kernel radius, at rest. mach: the Mach number of a
    free fall through the height of the fluid, which sets gravity.
    """

    columns = ("velocities",)

    @abstractmethod
    def make_scene(self, rng: np.random.Generator) -> Scene:
        """Make the scene from the parameters and the number of particles."""

    def set_up(self, rng: np.random.Generator) -> None:
        if not 8 <= self.number("neighbours") <= 200:
            raise UserError(f"neighbours must be 8 to 200, not {self.number('neighbours'):g}")
        if not self.number("mach") >= 0:
            raise UserError(f"mach must be 0 or positive, not {self.number('mach'):g}")
        self.spacing = spacing_for(self.number("neighbours"))
        self.scene = scene = self.make_scene(rng)
        box = scene.box
        self.box = Box(in_memory(box.size), in_memory(box.periodic), in_memory(box.walls))
        self.reach = 1.0
        x, y, z = (int(at // (self.reach + self.skin)) for at in in_memory(scene.origin))
        self.origin_cell = (x, y, z)

    @property
    def gravity(self) -> tuple[float, float, float]:
        """The acceleration due to gravity, in memory order of the axes."""
        pulls = [0.0, 0.0, 0.0]
        pulls[AXES[2]] = -(self.number("mach") ** 2) / (2 * self.scene.height)
        return (pulls[0], pulls[1], pulls[2])

    @property
    def number_density(self) -> float:
        """The number density of the lattice at rest."""
        return self.spacing**-3

    def draw(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        places, _ = self.numbered(self.scene.positions[:, inverse(AXES)])
        return {"places": places, "velocities": np.zeros((self.particles, 4), np.float32)}

    def snapshot(self) -> Snapshot:
        return self.snapshot_of(self.state(), ())

    def snapshot_of(
        self, state: Mapping[str, NDArray[Any]], bodies: Sequence[RigidBody]
    ) -> Snapshot:
        """Return fluid and bodies: the fluid is species 0, the bodies are species 1, 2, ..."""
        by_id = rows_of(state["places"][:, 3])
        positions = [self.box.to_positions(state["places"][by_id])]
        positions += [body.particle_positions() for body in bodies]
        velocities = [state["velocities"][by_id, :3].astype(np.float64)]
        velocities += [body.particle_velocities() for body in bodies]
        species = np.repeat(np.arange(1 + len(bodies)), [len(part) for part in positions])
        box = self.scene.box
        corner, size = self.scene.window or ((0.0, 0.0, 0.0), box.size)
        return Snapshot(
            step=self.step,
            time=self.step * self.time_step,
            size=size,
            periodic=box.periodic,
            positions=inside_box(np.vstack(positions)[:, AXES], box) - corner,
            velocities=np.vstack(velocities)[:, AXES],
            species=species.astype(np.int8),
            species_names=("fluid", *(f"body {i + 1}" for i in range(len(bodies)))),
            colour_by="speed",
            speed_scale=self.speed_scale,
            speed_label="speed, in speeds of sound",
            spacing=self.spacing,
        )

    def paint(self) -> None:
        self.picture.clear()
        self.picture.draw(self.places, self.state_columns[0], self.packed_box, 0, self.particles)

    @cached_property
    def picture(self) -> Picture:
        """The picture that `paint` draws: from the side, shaded by speed."""
        return Picture(self.device, self.box, self.spacing, self.speed_scale)

    @property
    def speed_scale(self) -> float:
        """The speed of a free fall through the height of the fluid; Mach 0.1 without gravity."""
        return self.number("mach") or 0.1

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return energies per particle in units of g H, the highest speed, and the front."""
        fluid = snapshot.species == 0
        speeds = np.sqrt((snapshot.velocities[fluid] ** 2).sum(axis=1))
        g, height = -self.gravity[AXES[2]], self.scene.height
        unit = g * height if g > 0 else 1.0
        x, z = snapshot.positions[fluid, 0], snapshot.positions[fluid, 2]
        return {
            "kinetic_energy": float((speeds**2).mean()) / 2 / unit,
            "potential_energy": float(z.mean()) * g / unit,
            "fastest": float(speeds.max()),
            "front": float(x.max()),
        }


class DamBreak(Tank):
    """A collapsing column of fluid in a tank.

    height: the column's height in column widths. depth, length: the tank's, in column widths. top:
    the tank's height in column heights. The tank is periodic along y, and at least 3 cells deep.
    """

    tank: ClassVar[Mapping[str, Value]] = {"height": 2.0, "depth": 1.0, "length": 4.0, "top": 1.5}
    particles_by_default = 65536

    def make_scene(self, rng: np.random.Generator) -> Scene:
        wide, deep, high = self.column()
        length, top = (self.positive(name) for name in ("length", "top"))
        if min(length, top) < 1:
            raise UserError(f"length and top must be at least 1, not {length:g} and {top:g}")
        size = (length * wide * self.spacing, deep * self.spacing, top * high * self.spacing)
        sites = self.sites(self.particles, wide, deep)
        return Scene(Box(size, (False, True, False)), sites, high * self.spacing)

    def column(self) -> tuple[int, int, int]:
        """Return the width, depth and height of the column in lattice sites."""
        height, depth = (self.positive(name) for name in ("height", "depth"))
        n = self.particles
        least = math.ceil(3 * (1 + self.skin) / self.spacing)
        width = (n / (height * depth)) ** (1 / 3)
        deep = max(least, round(depth * width))
        wide = max(1, round(math.sqrt(n / (deep * height))))
        return wide, deep, math.ceil(n / (deep * wide))

    def sites(self, count: int, wide: int, deep: int) -> Floats:
        """Return the lowest `count` sites of a lattice, (count, 3), ordered by layer."""
        layer, place = np.divmod(np.arange(count), wide * deep)
        x, y = np.divmod(place, deep)
        sites: Floats = np.column_stack([x, y, layer]).astype(np.float64)
        return (sites + 0.5) * self.spacing

    def positive(self, name: str) -> float:
        """Return a parameter that must be positive."""
        value = self.number(name)
        if not value > 0:
            raise UserError(f"{name} must be positive, not {value:g}")
        return value


def by_ids(state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a state with particles in order of ids."""
    order = rows_of(state["places"][:, 3])
    return {**state, **{name: state[name][order] for name in ("places", "velocities")}}
