"""Smoothed particle hydrodynamics: a breaking dam, and rigid bodies in a pool.

Lengths are in kernel radii, speeds in speeds of sound, densities in rest densities; see
gpubench/physics/sph.py. A step: cells, density, forces, contacts with bodies, and either explicit
Euler or symplectic Euler. Scenes and their axes: see gpubench/workloads/tank.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.grid import MAX_CELLS
from gpubench.devices.base import Device
from gpubench.physics.arrays import Floats
from gpubench.physics.box import LOW_WALL, Box
from gpubench.physics.rigid import RigidBody, ball_body, box_body
from gpubench.physics.sph import INTEGRATORS, SPHFluid, mass_for
from gpubench.physics.sph_step import BodiesStep, check_sph_step
from gpubench.problems.cells.contract import HashedCells, SortedCells
from gpubench.workloads.cell_workload import BLOCK, TRAVERSALS
from gpubench.workloads.parameters import require_known_values
from gpubench.workloads.sph_bodies import (
    BodiesOnDevice,
    body_in_memory,
    pack_states,
    require_possible_bodies,
    unpack_states,
)
from gpubench.workloads.tank import DamBreak, Scene, Tank, by_ids
from gpubench.workloads.workload import BlowUp, Snapshot, State, Value, Workload

PRESSURES = ("cut", "kept")  # negative pressures are cut to 0, or kept
# Words per particle in which the density pass records candidates for the force pass: NOTED per
# neighbour at rest, and at least LEAST_NOTED, enough for nine rows of cells, which may wrap.
NOTED, LEAST_NOTED = 1.6, 36
COARSE_BEHIND = 4  # padding after coarse positions: AT_ONCE in kernels/common/coarse.h
# WORLD: the edge of an unbounded world in kernel radii, a power of two, so that positions are
# multiples of 2^-16. VIEW: the width of pictures of the world, in widths of the fluid column.
WORLD, VIEW = 2.0**15, 6.0


class SPH(Tank):
    """The base class of the SPH workloads, which differ in their scene.

    The only state column is `velocities`, (x, y, z, 0). bodies: the rigid bodies in their initial
    state, axes in memory order; their current state is on the device.

    neighbours, mach: see Tank. viscosity: mu. pressure: whether the negative pressures of densities
    below the rest density are cut or kept. wall_*, contact_*: see SPHFluid; distances in spacings.
    """

    source = "silva2012, sections 3 and 4; Mueller, Charypar and Gross, SCA 2003"
    variants: ClassVar[Sequence[Mapping[str, Value]]] = ({}, {"integrator": "euler"})
    common: ClassVar[Mapping[str, Value]] = {
        "time_step": 0.25, "integrator": "symplectic", "neighbours": 30.0, "viscosity": 0.05,
        "mach": 0.2, "pressure": "cut", "wall_stiffness": 1.0, "wall_damping": 0.5,
        "wall_distance": 0.5, "wall_epsilon": 0.0, "contact_stiffness": 1.0, "contact_damping": 0.5,
        "contact_distance": 1.15,
    }  # fmt: skip

    _knows_cells = False  # whether the last step has already found the cells of the moved particles

    def set_up(self, rng: np.random.Generator) -> None:
        require_known_values(self.parameters, {"integrator": INTEGRATORS, "pressure": PRESSURES})
        super().set_up(rng)
        self.fluid = self._make_fluid()
        self.bodies = [body_in_memory(body) for body in self.scene.bodies]
        if self.bodies and self.skin > 0:
            raise NotSupported(
                "lists of neighbours hold no bodies: with bodies, the skin must be 0, not"
                f" {self.skin:g}"
            )

    @property
    def noted_room(self) -> int:
        """Words reserved for the candidates that the density pass records for a particle."""
        return max(math.ceil(NOTED * self.number("neighbours")), LEAST_NOTED)

    def draw(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        state = super().draw(rng)
        if self.bodies:
            state["bodies"] = pack_states(self.bodies, self.fluid, self.box)
        return state

    def work(self) -> list[tuple[str, Callable[[], None]]]:
        if self.moves_with_forces:
            return [("density", self._add_densities), ("force", self._add_forces_and_move)]
        contacts = [("couple", self._couple)] if self.bodies else []
        return [
            ("density", self._add_densities),
            ("force", self._add_forces),
            *contacts,
            ("integrate", self._integrate),
        ]

    @property
    def moves_with_forces(self) -> bool:
        """Whether one kernel computes the forces and moves the particles.

        This requires that no later kernel adds forces, and that the new state does not overwrite a
        state that neighbours still read.
        """
        return not self.bodies and self.skin == 0 and self._shape in (SortedCells, HashedCells)

    def compare(self, before: State, after: State) -> str | None:
        after = by_ids(after)
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
        self._knows_cells = False
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
        state = self.state()
        return self.snapshot_of(state, self.bodies_in(state))

    def bodies_in(self, state: Mapping[str, NDArray[Any]]) -> list[RigidBody]:
        """Return the bodies of a state, with axes in memory order."""
        if not self.bodies:
            return []
        return unpack_states(state["bodies"], self.bodies, self.fluid, self.box)

    def densities(self) -> Floats:
        """Return the densities of the last step, float64 (particles,), in order of ids.

        If negative pressures are cut, densities below the rest density are raised to it.
        """
        found: Floats = 1 / self.computed("flow")[:, 3].astype(np.float64)
        return found

    def computed(self, name: str) -> NDArray[Any]:
        """Return `flow` or `force` of the last step, in order of ids.

        flow: float32 (particles, 4), velocity before the step, and inverse density. force: int32
        (particles, 4), accelerations due to neighbours and bodies, in units of the force step.
        """
        return self.by_id(getattr(self, name))

    def _make_fluid(self) -> SPHFluid:
        number, spacing = self.number, self.spacing
        return SPHFluid(
            spacing, mass_for(spacing), number("viscosity"), self.gravity,
            self.parameters["pressure"] == "cut", number("wall_stiffness"), number("wall_damping"),
            number("wall_distance") * spacing, number("contact_stiffness"),
            number("contact_damping"), number("contact_distance") * spacing,
            number("wall_epsilon") * spacing,
        )  # fmt: skip

    def _allocate(self) -> None:
        super()._allocate()
        if self.bodies:
            self._allocate_bodies()

    def _allocate_bodies(self) -> None:
        self.on_device = BodiesOnDevice(self.device, self.bodies, self.fluid, self.box)
        self.workspace_bytes += self.on_device.workspace_bytes

    def _prepare_kernels(self) -> None:
        n = self.particles
        is_marked = self.constants["TRAVERSAL"] == TRAVERSALS[SortedCells]
        self.coarse = self.array(n + COARSE_BEHIND if is_marked else 0, "uint32")
        self.coarsely = (self.packed_box, self.coarse) if is_marked else ()
        super()._prepare_kernels()
        constants = {**self.constants, "MOVES": int(self.moves_with_forces)}
        self.kernels = SPHKernels(self.device, constants, self)
        self.flow = self.array((n, 4), "float32")
        self.force = self.array((n, 4), "int32")
        self.noted = self.array(n, "int32")
        self.notes = self.array(n * self.noted_room, "int32")
        self.device.fill(self.force, 0x00)

    def _find_cells(self) -> None:
        if not self._knows_cells:
            super()._find_cells()
        self._knows_cells = False

    def _add_densities(self) -> None:
        places, velocities = self.current
        self.kernels.densities(
            self.blocks, BLOCK, places, self.coarse, velocities, *self.candidates, self.packed_box,
            self.kernels.fluid, self.clock, self.particles, 0, self.particles, 0,
            self.grid.cells[2], self.flow, self.noted, self.notes,
        )  # fmt: skip

    def _add_forces(self, *state: Any) -> None:
        self.kernels.forces(
            self.blocks, BLOCK, self.current[0], self.flow, *self.candidates, self.noted,
            self.notes, self.packed_box, self.kernels.fluid, self.particles, 0, self.particles,
            *state, self.force,
        )  # fmt: skip

    def _add_forces_and_move(self) -> None:
        self._choose_cells()
        self._add_forces(
            self.order, self.clock, self.places, self.state_columns[0], self._next_cells,
            self.fault,
        )  # fmt: skip
        self._knows_cells = not self.is_hashed
        self.stepped()

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
    """The kernels of a step, compiled for a device, and the fluid constants they read."""

    def __init__(self, device: Device, constants: Mapping[str, int | str], workload: SPH) -> None:
        given = {
            "MOVES": 0,
            **constants,
            "NEAR": workload.noted_room,
            "SYMPLECTIC": int(workload.parameters["integrator"] == "symplectic"),
        }
        self.fluid = device.upload(workload.fluid.packed(workload.time_step).view("uint8"))
        self.densities, self.forces, self.integrate = (
            device.kernel("sph.cu", name, **given) for name in ("densities", "forces", "integrate")
        )
        # With sorted cells: the kernel for coarse positions of rows that no sort has written.
        is_marked = constants["TRAVERSAL"] == TRAVERSALS[SortedCells]
        self.coarsen = device.kernel("sph.cu", "coarsen", **given) if is_marked else None
        if workload.bodies:
            self.place_bodies, self.couple, self.move_bodies = (
                device.kernel("sph_bodies.cu", name, **given)
                for name in ("place_bodies", "couple", "move_bodies")
            )


class SPHDamBreak(DamBreak, SPH):
    """A collapsing column of fluid in a tank; see DamBreak."""

    name = "sph-dam-break"
    summary = "a column of fluid collapses and runs along a tank"
    defaults: ClassVar[Mapping[str, Value]] = {**SPH.common, **DamBreak.tank}
    steps_by_default = 4000


class SPHOfPaper(SPHDamBreak):
    """The dam break stepped as in silva2012, section 4.3, by explicit Euler."""

    name = "sph-silva2012"
    summary = "sph-dam-break with the explicit Euler steps of da Silva Junior et al. 2012"
    figure = "Figure 10 of silva2012: 512,000 particles on several GPUs. The scene is ours."
    defaults: ClassVar[Mapping[str, Value]] = {
        **SPHDamBreak.defaults,
        "integrator": "euler",
        "time_step": 0.1,
    }


class SPHUnbounded(SPHDamBreak):
    """A dam break without a tank: the column collapses on all sides onto an endless floor.

    The world is WORLD kernel radii long along each axis, with the origin in the middle of its
    floor, which is the only wall; a particle that leaves the world is a fault. The world has more
    cells than a grid can number, so only a hash grid can hold them.

    away: offset of the column's centre from the origin along x and y, in kernel radii.
    """

    name = "sph-unbounded"
    summary = "a column of fluid collapses on a floor without ends, over a hash grid"
    defaults: ClassVar[Mapping[str, Value]] = {
        **SPH.common, "height": DamBreak.tank["height"], "depth": DamBreak.tank["depth"],
        "away": 0.0,
    }  # fmt: skip
    paint = Workload.paint  # a picture of the whole world would show almost nothing

    def make_scene(self, rng: np.random.Generator) -> Scene:
        if not self.is_hashed and WORLD**3 > MAX_CELLS:
            raise NotSupported(
                f"{self.name} has more cells than a grid can number: hash them, with --algorithm"
                " hash-grid"
            )
        wide, deep, high = self.column()
        edges = np.array([wide, deep, high]) * self.spacing
        middle = np.array([WORLD / 2 + self.number("away")] * 2 + [0.0])
        corner = middle - [edges[0] / 2, edges[1] / 2, 0.0]
        if corner.min() < 0 or (corner + edges).max() > WORLD:
            raise UserError(
                f"away must leave the column inside the world, which ends {WORLD / 2:g} from its"
                f" origin, not {self.number('away'):g}"
            )
        around = VIEW * max(edges[:2])
        x, y, _ = middle - around / 2
        box = Box((WORLD,) * 3, (False,) * 3, (0, 0, LOW_WALL))
        return Scene(
            box,
            self.sites(self.particles, wide, deep) + corner,
            edges[2],
            origin=(WORLD / 2, WORLD / 2, 0.0),
            window=((x, y, 0.0), (around, around, 1.5 * edges[2])),
        )

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return observables of a dam break; `front` is the distance from the column's centre."""
        away = snapshot.positions[:, :2] - np.array(snapshot.size[:2]) / 2
        front = float(np.hypot(*away.T).max())
        return {**super().observe(snapshot), "front": front}


class SPHRigidBody(SPHDamBreak):
    """Rigid bodies that fall into a pool and float or sink.

    The pool is the tank of a dam break with length 1: fluid from wall to wall. bodies: their
    number; boxes and balls alternate. body_size: edge or diameter, in fluid depths. body_density:
    in rest densities. drop: initial height above the fluid, in body sizes; if negative, the bodies
    start in the fluid, which then fills the space beside and above them.
    """

    name = "sph-rigid-body"
    summary = "rigid boxes and balls fall into a pool, float, and collide"
    defaults: ClassVar[Mapping[str, Value]] = {
        **SPHDamBreak.defaults, "height": 0.5, "length": 1.0, "top": 2.5, "bodies": 3,
        "body_size": 0.4, "body_density": 0.5, "drop": 0.1,
    }  # fmt: skip
    steps_by_default = 4000

    def make_scene(self, rng: np.random.Generator) -> Scene:
        pool = super().make_scene(rng)
        count = int(self.number("bodies"))
        if not 1 <= count <= 100:
            raise UserError(f"bodies must be 1 to 100, not {count}")
        size = self.positive("body_size") * pool.height
        width, depth, _ = pool.box.size
        if size > min(width, depth):
            raise UserError(
                f"body_size must be at most {min(width, depth) / pool.height:g}, so that bodies fit"
                f" into the pool, not {self.number('body_size'):g}"
            )
        bodies = []
        for number in range(count):
            # Side by side along the pool, at the same height; balls are nearer to y = 0 than boxes.
            x = (number + 0.5) * width / count
            y = depth * (0.5 if number % 2 == 0 else 0.35)
            z = pool.height + (self.number("drop") + 0.5) * size
            density = self.positive("body_density")
            if number % 2 == 0:
                made = box_body((size,) * 3, (x, y, z), density, self.spacing)
            else:
                made = ball_body(size / 2, (x, y, z), density, self.spacing)
            bodies.append(made)
        return Scene(pool.box, self._beside(bodies, size, pool), pool.height, bodies)

    def _beside(self, bodies: Sequence[RigidBody], size: float, pool: Scene) -> Floats:
        """Return the first lattice sites of the pool that no body occupies."""
        length, depth, _ = pool.box.size
        wide = round(length / self.number("length") / self.spacing)
        deep = round(depth / self.spacing)
        reach = (size + self.spacing) / 2
        tried = self.particles
        while True:
            sites = self.sites(tried, wide, deep)
            free = np.ones(len(sites), bool)
            for number, body in enumerate(bodies):
                away = sites - body.centre
                norm = np.inf if number % 2 == 0 else 2
                free &= np.linalg.norm(away, norm, axis=1) > reach
            if (found := int(free.sum())) >= self.particles:
                return sites[free][: self.particles]
            tried += self.particles - found
