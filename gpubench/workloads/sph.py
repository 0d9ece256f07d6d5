"""Smoothed particle hydrodynamics: a breaking dam, and rigid bodies in a pool.

Lengths are in kernel radii, speeds in speeds of sound, densities in rest densities; see
gpubench/physics/sph.py. A step: cells, density, forces, contacts with bodies, and either explicit
Euler or symplectic Euler.

A scene lies along x, is deep along y, and gravity pulls along -z. In memory and in the boxes of
the model its axes are permuted (AXES): the last, slowest one of the cells lies along the scene,
so that a stretch of the scene is one stretch of memory, which several GPUs can share.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.errors import NotSupported, UserError
from gpubench.devices.base import Device
from gpubench.physics.box import Box
from gpubench.physics.rigid import RigidBody, ball_body, box_body
from gpubench.physics.sph import INTEGRATORS, SPHFluid, mass_for, spacing_for
from gpubench.physics.sph_step import BodiesStep, check_sph_step
from gpubench.workloads.cell_workload import BLOCK, InCells, require_known_values
from gpubench.workloads.picture import Picture
from gpubench.workloads.sph_bodies import (
    AXES,
    BodiesOnDevice,
    body_in_memory,
    in_memory,
    inside_box,
    inverse,
    pack_states,
    require_possible_bodies,
    unpack_states,
)
from gpubench.workloads.workload import BlowUp, Snapshot, Value

Floats = NDArray[np.float64]
PRESSURES = ("cut", "kept")  # what becomes of negative ones
# Room for the neighbours that the densities note for the forces, over the mean.
NOTED = 1.6


@dataclass(frozen=True)
class Scene:
    """What a simulation begins from, in the axes of the scene.

    box: its walls. positions: float64 (particles, 3), at rest. height: of the fluid, which with
    the Mach number gives gravity. bodies: what is in it.
    """

    box: Box
    positions: Floats
    height: float
    bodies: Sequence[RigidBody] = ()


class SPH(InCells):
    """What the SPH workloads have in common; they differ in their scene.

    Its column is the velocities, (x, y, z, 0). bodies: rigid ones, in the axes of memory; what
    is on the device moves, these stay as they began.

    neighbours: to a kernel radius, at rest. viscosity: mu. mach: speed that a fall through the
    height of the fluid gives, which sets gravity. pressure: of densities below the rest density:
    cut to none, or kept. wall_*, contact_*: see SPHFluid; distances in spacings.
    """

    source = "silva2012, sections 3 and 4; Mueller, Charypar and Gross, SCA 2003"
    columns = ("velocities",)
    variants: ClassVar[Sequence[Mapping[str, Value]]] = ({}, {"integrator": "euler"})
    common: ClassVar[Mapping[str, Value]] = {
        "time_step": 0.25,
        "integrator": "symplectic",
        "neighbours": 30.0,
        "viscosity": 0.05,
        "mach": 0.2,
        "pressure": "cut",
        "wall_stiffness": 1.0,
        "wall_damping": 0.5,
        "wall_distance": 0.5,
        "contact_stiffness": 1.0,
        "contact_damping": 0.5,
        "contact_distance": 1.15,
    }

    @abstractmethod
    def make_scene(self, rng: np.random.Generator) -> Scene:
        """Draw what the parameters and the number of particles describe."""

    def set_up(self, rng: np.random.Generator) -> None:
        require_known_values(self.parameters, {"integrator": INTEGRATORS, "pressure": PRESSURES})
        if not 8 <= self.number("neighbours") <= 200:
            raise UserError(f"neighbours must be 8 to 200, not {self.number('neighbours'):g}")
        if not self.number("mach") >= 0:
            raise UserError(f"mach must be 0 or positive, not {self.number('mach'):g}")
        self.spacing = spacing_for(self.number("neighbours"))
        self.scene = scene = self.make_scene(rng)
        self.box = Box(in_memory(scene.box.size), in_memory(scene.box.periodic))
        self.fluid = self._make_fluid(scene.height)
        self.bodies = [body_in_memory(body) for body in scene.bodies]
        self.reach = 1.0
        if self.bodies and self.skin > 0:
            raise NotSupported(
                "lists of neighbours hold no bodies: with bodies, the skin must be 0, not"
                f" {self.skin:g}"
            )

    @property
    def noted_room(self) -> int:
        """How many neighbours of a particle have room in the notes."""
        return math.ceil(NOTED * self.number("neighbours"))

    @property
    def number_density(self) -> float:
        """That of the lattice at rest."""
        return self.spacing**-3

    def draw(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        places, _ = self.numbered(self.scene.positions[:, inverse(AXES)])
        state = {"places": places, "velocities": np.zeros((self.particles, 4), np.float32)}
        if self.bodies:
            state["bodies"] = pack_states(self.bodies, self.fluid, self.box)
        return state

    def work(self) -> list[tuple[str, Callable[[], None]]]:
        contacts = [("couple", self._couple)] if self.bodies else []
        return [
            ("density", self._add_densities),
            ("force", self._add_forces),
            *contacts,
            ("integrate", self._integrate),
        ]

    def check(self) -> str | None:
        self.count_steps()
        before = self.state()
        self.plain_steps(1)
        try:
            self.require_sound()
        except BlowUp as error:
            return str(error)
        after = by_ids(self.state())
        bodies = None
        if self.bodies:
            pushes = self.device.download(self.on_device.pushes)
            bodies = BodiesStep(self.bodies_in(before), self.bodies_in(after), pushes)
        return check_sph_step(
            before, after, self.computed("force"), self.computed("flow"), self.box, self.fluid,
            str(self.parameters["integrator"]), self.time_step, bodies,
        )  # fmt: skip

    def require_sound(self) -> None:
        flag, _, _, particle = (int(word) for word in self.device.download(self.fault))
        if flag and particle >= self.particles:
            raise BlowUp(
                f"step {self.step}: body {particle - self.particles} would move further than a"
                f" cell, or nowhere: make the time step smaller than {self.time_step:g}"
                " (--parameter time_step=...), or the contacts weaker"
            )
        super().require_sound()

    def state(self) -> dict[str, NDArray[Any]]:
        state = super().state()
        if self.bodies:
            state["bodies"] = self.on_device.download_states()
        return state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        if self.bodies:
            self.on_device.upload_states(state["bodies"])

    def require_fitting(self, state: Mapping[str, NDArray[Any]]) -> None:
        expected = ((len(self.bodies), 4, 4), np.dtype(np.float32)) if self.bodies else None
        given = (state["bodies"].shape, state["bodies"].dtype) if "bodies" in state else None
        if given != expected:
            raise UserError(f"this is no state of {self.name} with {len(self.bodies)} bodies")
        super().require_fitting({name: state[name] for name in state if name != "bodies"})

    def require_possible(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().require_possible(state)
        if self.bodies:
            require_possible_bodies(state["bodies"], self.box)

    def snapshot(self) -> Snapshot:
        """Return fluid and bodies: species 0, and from 1 on each body."""
        state = self.state()
        by_id = np.argsort(state["places"][:, 3])
        bodies = self.bodies_in(state)
        positions = [self.box.to_positions(state["places"][by_id])]
        positions += [body.particle_positions() for body in bodies]
        velocities = [state["velocities"][by_id, :3].astype(np.float64)]
        velocities += [body.particle_velocities() for body in bodies]
        species = np.repeat(np.arange(1 + len(bodies)), [len(part) for part in positions])
        return Snapshot(
            step=self.step,
            time=self.step * self.time_step,
            size=self.scene.box.size,
            periodic=self.scene.box.periodic,
            positions=inside_box(np.vstack(positions)[:, AXES], self.scene.box),
            velocities=np.vstack(velocities)[:, AXES],
            species=species.astype(np.int8),
            species_names=("fluid", *(f"body {i + 1}" for i in range(len(bodies)))),
            colour_by="speed",
            speed_scale=self.speed_scale,
            speed_label="speed, in speeds of sound",
            spacing=self.spacing,
        )

    def bodies_in(self, state: Mapping[str, NDArray[Any]]) -> list[RigidBody]:
        """Return the bodies of a state, in the axes of memory."""
        if not self.bodies:
            return []
        return unpack_states(state["bodies"], self.bodies, self.fluid, self.box)

    def paint(self) -> None:
        self.picture.clear()
        self.picture.draw(self.places, self.state_columns[0], self.packed_box, 0, self.particles)

    @cached_property
    def picture(self) -> Picture:
        """What `paint` draws, from the side, shaded by speed."""
        return Picture(self.device, self.box, self.spacing, self.speed_scale)

    @property
    def speed_scale(self) -> float:
        """The speed of a fall through the height of the fluid, or what 0.1 Mach is."""
        return self.number("mach") or 0.1

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return energies of the fluid over its particles and g H, front and mean height."""
        fluid = snapshot.species == 0
        speeds = np.sqrt((snapshot.velocities[fluid] ** 2).sum(axis=1))
        g, height = -self.fluid.gravity[AXES[2]], self.scene.height
        unit = g * height if g > 0 else 1.0
        x, z = snapshot.positions[fluid, 0], snapshot.positions[fluid, 2]
        return {
            "kinetic_energy": float((speeds**2).mean()) / 2 / unit,
            "potential_energy": float(z.mean()) * g / unit,
            "fastest": float(speeds.max()),
            "front": float(x.max()),
        }

    def densities(self) -> Floats:
        """Return the densities that the last step found, float64 (particles,), in order of ids.

        With cut pressures, those below the rest density are the rest density.
        """
        found: Floats = 1 / self.computed("flow")[:, 3].astype(np.float64)
        return found

    def computed(self, name: str) -> NDArray[Any]:
        """Return `flow` or `force` of the last step, in order of ids.

        flow: float32 (particles, 4), velocity before the step, and inverse density. force: int32
        (particles, 4), accelerations by neighbours and bodies in force steps.
        """
        ids = self.device.download(self.places).view(np.uint32)[:, 3]
        found: NDArray[Any] = self.in_place(getattr(self, name))
        return found[np.argsort(ids)]

    def _make_fluid(self, height: float) -> SPHFluid:
        gravity = [0.0, 0.0, 0.0]
        gravity[AXES[2]] = -(self.number("mach") ** 2) / (2 * height)
        spacing = self.spacing
        return SPHFluid(
            spacing,
            mass_for(spacing),
            self.number("viscosity"),
            (gravity[0], gravity[1], gravity[2]),
            self.parameters["pressure"] == "cut",
            self.number("wall_stiffness"),
            self.number("wall_damping"),
            self.number("wall_distance") * spacing,
            self.number("contact_stiffness"),
            self.number("contact_damping"),
            self.number("contact_distance") * spacing,
        )

    def _allocate(self) -> None:
        super()._allocate()
        if self.bodies:
            self._allocate_bodies()

    def _allocate_bodies(self) -> None:
        self.on_device = BodiesOnDevice(self.device, self.bodies, self.fluid, self.box)
        self.workspace_bytes += self.on_device.workspace_bytes

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        n = self.particles
        self.kernels = SPHKernels(self.device, self.constants, self)
        self.flow = self.array((n, 4), "float32")
        self.force = self.array((n, 4), "int32")
        self.noted = self.array(n, "int32")
        self.notes = self.array(n * self.noted_room, "int32")
        self.device.fill(self.force, 0x00)

    def _add_densities(self) -> None:
        self.kernels.densities(
            self.blocks, BLOCK, *self.current, *self.candidates, self.packed_box,
            self.kernels.fluid, self.clock, self.particles, 0, self.particles, 0,
            self.grid.cells[2], self.flow, self.noted, self.notes,
        )  # fmt: skip

    def _add_forces(self) -> None:
        self.kernels.forces(
            self.blocks, BLOCK, self.current[0], self.flow, *self.candidates, self.noted,
            self.notes, self.packed_box, self.kernels.fluid, self.particles, 0, self.particles,
            self.force,
        )  # fmt: skip

    def _couple(self) -> None:
        bodies, kernels = self.on_device, self.kernels
        bodies.place(kernels, self.packed_box)
        bodies.couple(
            kernels, self.current[0], self.flow, self.candidates, self.packed_box, self.particles,
            (0, self.particles), (0, self.grid.cells[2]), self.force,
        )  # fmt: skip

    def _integrate(self) -> None:
        self.kernels.integrate(
            self.blocks, BLOCK, self.current[0], self.flow, self.force, self.order, self.since,
            self.packed_box, self.kernels.fluid, self.clock, 0, self.particles, 0,
            (self.skin / 2) ** 2, self.places, self.state_columns[0], self.stale, self.fault,
        )  # fmt: skip
        if self.bodies:
            self.on_device.move(
                self.kernels, self.packed_box, self.clock, self.particles, self.fault
            )
        self.stepped()


class SPHKernels:
    """The kernels of a step, compiled for a device, and the fluid as they read it."""

    def __init__(self, device: Device, constants: Mapping[str, int | str], workload: SPH) -> None:
        given = {
            **constants,
            "NEAR": workload.noted_room,
            "SYMPLECTIC": int(workload.parameters["integrator"] == "symplectic"),
        }
        self.fluid = device.upload(workload.fluid.packed(workload.time_step).view("uint8"))
        self.densities, self.forces, self.integrate = (
            device.kernel("sph.cu", name, **given) for name in ("densities", "forces", "integrate")
        )
        if workload.bodies:
            self.place_bodies, self.couple, self.move_bodies = (
                device.kernel("sph.cu", name, **given)
                for name in ("place_bodies", "couple", "move_bodies")
            )


class SPHDamBreak(SPH):
    """A column of fluid that collapses in a tank.

    height: of the column, in its widths. depth: likewise, of the tank, which repeats along y; at
    least three cells. length, top: of the tank, in widths and heights of the column.
    """

    name = "sph-dam-break"
    summary = "a column of fluid collapses and runs along a tank"
    defaults: ClassVar[Mapping[str, Value]] = {
        **SPH.common,
        "height": 2.0,
        "depth": 1.0,
        "length": 4.0,
        "top": 1.5,
    }
    particles_by_default = 65536
    steps_by_default = 4000

    def make_scene(self, rng: np.random.Generator) -> Scene:
        height, depth = (self._positive(name) for name in ("height", "depth"))
        length, top = (self._positive(name) for name in ("length", "top"))
        if min(length, top) < 1:
            raise UserError(f"length and top must be at least 1, not {length:g} and {top:g}")
        spacing, n = self.spacing, self.particles
        least = math.ceil(3 * (1 + self.skin) / spacing)
        width = (n / (height * depth)) ** (1 / 3)
        deep = max(least, round(depth * width))
        wide = max(1, round(math.sqrt(n / (deep * height))))
        high = math.ceil(n / (deep * wide))
        column = wide * spacing, deep * spacing, high * spacing
        box = Box((length * column[0], column[1], top * column[2]), (False, True, False))
        return Scene(box, self._sites(n, wide, deep), column[2])

    def _sites(self, count: int, wide: int, deep: int) -> Floats:
        """Return the first sites of a lattice, (count, 3): layer on layer from the bottom."""
        layer, place = np.divmod(np.arange(count), wide * deep)
        x, y = np.divmod(place, deep)
        sites: Floats = np.column_stack([x, y, layer]).astype(np.float64)
        return (sites + 0.5) * self.spacing

    def _positive(self, name: str) -> float:
        value = self.number(name)
        if not value > 0:
            raise UserError(f"{name} must be positive, not {value:g}")
        return value


class SPHRigidBody(SPHDamBreak):
    """Rigid bodies that fall into a pool and swim, or sink.

    The pool is the tank of a breaking dam of length 1: fluid from wall to wall. bodies: boxes and
    balls in turn. body_size: their edge or diameter in depths of the fluid. body_density: in rest
    densities. drop: their height over the fluid at the beginning, in body sizes; below 0 they
    begin in it, and the fluid begins beside and above them.
    """

    name = "sph-rigid-body"
    summary = "rigid boxes and balls fall into a pool, float, and collide"
    defaults: ClassVar[Mapping[str, Value]] = {
        **SPHDamBreak.defaults,
        "height": 0.5,
        "length": 1.0,
        "top": 2.5,
        "bodies": 3,
        "body_size": 0.4,
        "body_density": 0.5,
        "drop": 0.1,
    }
    steps_by_default = 4000

    def make_scene(self, rng: np.random.Generator) -> Scene:
        pool = super().make_scene(rng)
        count = int(self.number("bodies"))
        if not 1 <= count <= 100:
            raise UserError(f"bodies must be 1 to 100, not {count}")
        size = self._positive("body_size") * pool.height
        width, depth, _ = pool.box.size
        if size > min(width, depth):
            raise UserError(
                f"body_size must be at most {min(width, depth) / pool.height:g}, so that bodies fit"
                f" into the pool, not {self.number('body_size'):g}"
            )
        bodies = []
        for number in range(count):
            # Along the pool, one beside the other, each a little higher than the last.
            x = (number + 0.5) * width / count
            y = depth * (0.5 if number % 2 == 0 else 0.35)
            z = pool.height + (self.number("drop") + 0.5) * size
            density = self._positive("body_density")
            if number % 2 == 0:
                made = box_body((size,) * 3, (x, y, z), density, self.spacing)
            else:
                made = ball_body(size / 2, (x, y, z), density, self.spacing)
            bodies.append(made)
        return Scene(pool.box, self._beside(bodies, size, pool), pool.height, bodies)

    def _beside(self, bodies: Sequence[RigidBody], size: float, pool: Scene) -> Floats:
        """Return the first sites of the pool's lattice that no body takes."""
        length, depth, _ = pool.box.size
        wide = round(length / self.number("length") / self.spacing)
        deep = round(depth / self.spacing)
        reach = (size + self.spacing) / 2
        tried = self.particles
        while True:
            sites = self._sites(tried, wide, deep)
            free = np.ones(len(sites), bool)
            for number, body in enumerate(bodies):
                away = sites - body.centre
                norm = np.inf if number % 2 == 0 else 2
                free &= np.linalg.norm(away, norm, axis=1) > reach
            if (found := int(free.sum())) >= self.particles:
                return sites[free][: self.particles]
            tried += self.particles - found


def by_ids(state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a state with its particles in order of their ids."""
    order = np.argsort(state["places"][:, 3])
    return {**state, **{name: state[name][order] for name in ("places", "velocities")}}
