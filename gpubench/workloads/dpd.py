"""Dissipative particle dynamics (rozen2008, section 4), over any algorithm that makes cells.

A step: the cell list; reordering of sorted particles; forces; leap-frog, and new cell ids, which
a step with a skin or with hashed cells begins with instead.
All sums are exact, so all algorithms yield bitwise identical trajectories on a device; see
kernels/dpd.cu.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.domains import domain_size, order_parameter, structure_factor
from gpubench.physics.fluid import INTEGRATORS, Fluid, normalisation
from gpubench.physics.mixing import heavy_fraction, interface_wave, mixing_layer
from gpubench.physics.motion import rows_of
from gpubench.physics.observables import momentum, temperature
from gpubench.physics.step import check_dpd_step
from gpubench.problems.cells.contract import CellList, SortedCells
from gpubench.workloads.cell_workload import BLOCK, InCells
from gpubench.workloads.parameters import require_known_values
from gpubench.workloads.sph import COARSE_BEHIND
from gpubench.workloads.workload import Snapshot, State, Value

# Back ends with fast float32 atomic addition, which compute each pair in sorted cells once.
PAIRS_ONCE = frozenset({"cuda"})
# Those of them whose lanes share the pairs of a warp, of candidates that pass a test of coarse
# positions, and of how many particles (kernels/common/pooled.h).
MARKS, MOST_POOLED = frozenset({"cuda"}), 2**27
# Particles in a cell, on average, up to which cells are then whole: one more test of a coarse
# position takes less time than one more cell to count and to sum.
WHOLE = 4
MESH, LAYER = 1.5, 1.0  # cell sizes of the meshes for observing domains and mixing
NOISES = {"philox": 0, "rozen2008": 1}
GENERATORS = {"philox": "philox-10", "rozen2008": "rozen2008"}  # names in physics.noise
WEIGHTS = ("groot-warren", "rozen2008")
PARTICLES_IN_FIGURES = "Its caption says 65,536 particles, the text 16,384."  # Figures 3 and 4


@dataclass(frozen=True)
class Beginning:
    """The initial state of a workload: the box, the fluid, and the particles.

    positions: float64 (particles, 3). species: int8 (particles,).
    flat: axes along which nothing moves, if there are only two dimensions.
    """

    box: Box
    fluid: Fluid
    positions: Floats
    species: NDArray[np.int8]
    species_names: tuple[str, ...] = ("fluid",)
    flat: tuple[int, ...] = field(default=())


class DPD(InCells):
    """The base class of the DPD workloads, which differ in their model.

    The state columns are the velocities at half steps, (x, y, z, bits of the species), and, if the
    integrator predicts other velocities for the drag, these.
    """

    _knows_cells = False  # whether the last step has already found the cells of the moved particles
    source = "rozen2008, section 4; Groot and Warren, J. Chem. Phys. 107, 4423 (1997)"
    variants: ClassVar[Sequence[Mapping[str, Value]]] = (
        {},
        {"integrator": "leap-frog"},
        {"pair_noise": "rozen2008"},
    )
    common: ClassVar[Mapping[str, Value]] = {
        "time_step": 0.04, "integrator": "velocity-verlet", "pair_noise": "philox", "density": 3.0,
        "weights": "groot-warren",
    }  # fmt: skip

    @abstractmethod
    def make_model(self, rng: np.random.Generator) -> Beginning:
        """Draw the initial state from the parameters and the number of particles."""

    def set_up(self, rng: np.random.Generator) -> None:
        if not self.number("density") > 0:
            raise UserError(f"density must be positive, not {self.number('density'):g}")
        require_known_values(
            self.parameters, {"integrator": INTEGRATORS, "pair_noise": NOISES, "weights": WEIGHTS}
        )
        self._integrator = str(self.parameters["integrator"])
        ahead = INTEGRATORS[self._integrator] != 0.5
        self.columns = ("velocities", "drags") if ahead else ("velocities",)
        self.model = model = self.make_model(rng)
        self.box, self.fluid, self.flat = model.box, model.fluid, model.flat
        self.reach = model.fluid.cutoff

    def draw(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Draw velocities at the fluid's temperature with zero total momentum."""
        places, order = self.numbered(self.model.positions)
        species = self.model.species[order].astype(np.int32)
        mass = np.asarray(self.fluid.mass)[species][:, None]
        kt = self.fluid.temperature[0]
        drawn = rng.normal(size=(self.particles, 3)) * np.sqrt((kt if kt > 0 else 0.0) / mass)
        drawn -= (mass * drawn).sum(axis=0) / mass.sum()
        drawn[:, self.flat] = 0
        velocities = np.empty((self.particles, 4), np.float32)
        velocities[:, :3], velocities[:, 3] = drawn, species.view(np.float32)
        return {"places": places, **dict.fromkeys(self.columns, velocities)}

    @property
    def dimensions(self) -> int:
        """The number of dimensions, 2 or 3."""
        return int(self.parameters.get("dimensions", 3))

    def make_fluid(
        self,
        repulsion: tuple[float, float, float],
        friction: tuple[float, float, float],
        noise: tuple[float, float, float],
        **others: Any,
    ) -> Fluid:
        """Make a fluid; convert its coefficients if the parameter `weights` is rozen2008."""
        if self.parameters["weights"] == "groot-warren":
            return Fluid(repulsion, friction, noise, **others)
        return Fluid.of_paper(
            repulsion, friction, noise, density=self.number("density"),
            dimensions=self.dimensions, **others,
        )  # fmt: skip

    def work(self) -> list[tuple[str, Callable[[], None]]]:
        return [("force", self._add_forces), ("integrate", self._integrate)]

    def require_possible(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().require_possible(state)
        for name in self.columns:
            species = state[name][:, 3].view(np.int32)
            if ((species < 0) | (species >= len(self.fluid.mass))).any():
                raise UserError(f"a state of {self.name} has particles of unknown species")

    def compare(self, before: State, after: State) -> str | None:
        return check_dpd_step(
            before, after, self.felt(after), self.box, self.fluid,
            self._integrator, self.time_step, self.seed,
            GENERATORS[str(self.parameters["pair_noise"])],
        )  # fmt: skip

    def felt(self, after: State) -> NDArray[np.float32]:
        """Return the forces of the last step, float32 (particles, 4), in the order of a state."""
        return self.in_place(self._force)

    def snapshot(self) -> Snapshot:
        """Return positions, and velocities at the same time: the stored ones plus half a kick.

        Computes the forces of the next step for this. Raises BlowUp like `require_sound`.
        """
        places, velocities, force = self.coming_forces()
        places, species = places.view(np.uint32), velocities[:, 3].view(np.int32)
        half_step = velocities[:, :3].astype(np.float64)
        pull = force[:, :3] / np.asarray(self.fluid.mass)[species, None] + self.fluid.gravity
        by_id = rows_of(places[:, 3])
        return Snapshot(
            step=self.step,
            time=self.step * self.time_step,
            size=self.box.size,
            periodic=self.box.periodic,
            positions=self.box.to_positions(places[by_id]),
            velocities=(half_step + pull * self.time_step / 2)[by_id],
            half_step_velocities=half_step[by_id],
            species=species[by_id].astype(np.int8),
            species_names=self.model.species_names,
        )

    def coming_forces(self) -> list[NDArray[Any]]:
        """Return places, half-step velocities, and the forces of the next step, in one order."""
        for _, launch in self.phases()[:-1]:
            launch()
        self.require_sound()
        return [self.device.download(array) for array in (*self.current[:2], self._force)]

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        dimensions = 3 - len(self.flat)
        assert snapshot.half_step_velocities is not None
        full, half = (
            temperature(velocities, snapshot.species, self.fluid, dimensions).overall
            for velocities in (snapshot.velocities, snapshot.half_step_velocities)
        )
        total = momentum(snapshot.velocities, snapshot.species, self.fluid)
        return {
            "kinetic_temperature": full,
            "half_step_temperature": half,
            "momentum_per_particle": float(np.linalg.norm(total)) / self.particles,
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self._knows_cells = False

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        self._choose_parts()
        super()._keep_in(algorithm, form, parameters)

    def _choose_parts(self) -> None:
        """Divide the box into whole cells if that pays."""
        if self.is_marked:
            whole = self.box.grid(self.reach)
            if self.particles <= WHOLE * whole.count:
                self._parts, self.grid = 1, whole

    def _prepare_kernels(self) -> None:
        self.coarse = self.array(self.particles + COARSE_BEHIND if self.is_marked else 0, "uint32")
        self.coarsely = (self.packed_box, self.coarse) if self.is_marked else ()
        super()._prepare_kernels()
        self._force = self.array((self.particles, 4), "float32")
        self.device.fill(self._force, 0x00)
        self._compile_step()

    def _compile_step(self) -> None:
        fluid = self.fluid.packed(self.time_step, self._integrator)
        self._packed_fluid = self.device.upload(fluid.view("uint8"))
        self._forces, self._leap = (
            self.device.kernel("dpd.cu", name, **self._of_step) for name in ("forces", "integrate")
        )

    @property
    def moves_find_cells(self) -> bool:
        """Whether the kernel that moves particles finds their cells for the next step."""
        return self.skin == 0 and not self.is_hashed

    @property
    def is_marked(self) -> bool:
        """Whether candidates are tested by coarse positions first, and pairs shared by lanes."""
        is_held = self.particles <= MOST_POOLED
        return self._pairs_once and is_held and self.device.backend in MARKS

    @property
    def _pairs_once(self) -> bool:
        in_order = self._shape is SortedCells and self.skin == 0
        return in_order and self.device.backend in PAIRS_ONCE

    @property
    def _of_step(self) -> dict[str, int | str]:
        """The compile-time constants of kernels/dpd.cu."""
        return {
            **self.constants,
            "NOISE": NOISES[str(self.parameters["pair_noise"])],
            "AHEAD": len(self.columns) - 1,
            "ONCE": int(self._pairs_once),
            "MARKED": int(self.is_marked),
            "FINDS_CELLS": int(self.moves_find_cells),
        }

    def _find_cells(self) -> None:
        if not self._knows_cells:
            super()._find_cells()
        self._knows_cells = False

    def _replays(self) -> bool:
        # A graph begins with the cells that its last step finds.
        return self._knows_cells == self.moves_find_cells and super()._replays()

    def _add_forces(self) -> None:
        if self._pairs_once:
            self.device.fill(self._force, 0x00)
        self._forces(
            self.blocks, BLOCK, self.current[0], self.coarse, self.current[-1], *self.candidates,
            self.packed_box, self._packed_fluid, self.clock, self.reach, self.particles, 0,
            self.particles, self._force,
        )  # fmt: skip

    def _integrate(self) -> None:
        places, velocities, *_ = self.current
        self._choose_cells()
        self._leap(
            self.blocks, BLOCK, places, velocities, self._force, self.order, self.since,
            self.packed_box, self._packed_fluid, self.clock, 0, self.particles, 0,
            (self.skin / 2) ** 2, self.places, self.state_columns[0], self.state_columns[-1],
            self._next_cells, self.stale, self.fault,
        )  # fmt: skip
        self._knows_cells = self.moves_find_cells
        self.stepped()


class DPDStandard(DPD):
    """The standard test fluid of DPD codes, in a periodic cube."""

    name = "dpd-standard"
    summary = "one fluid in a periodic cube: density 3, repulsion 25, kT 1"
    defaults: ClassVar[Mapping[str, Value]] = {
        **DPD.common, "repulsion": 25.0, "friction": 4.5, "noise": 3.0,
    }  # fmt: skip
    particles_by_default = 65536
    steps_by_default = 1000

    def make_model(self, rng: np.random.Generator) -> Beginning:
        edge = (self.particles / self.number("density")) ** (1 / 3)
        a, gamma, sigma = (self.number(name) for name in ("repulsion", "friction", "noise"))
        fluid = self.make_fluid((a, a, a), (gamma, gamma, gamma), (sigma, sigma, sigma))
        positions = rng.random((self.particles, 3)) * edge
        species = np.zeros(self.particles, np.int8)
        return Beginning(Box((edge, edge, edge)), fluid, positions, species)


class DPDOfPaper(DPDStandard):
    """The standard fluid stepped as in rozen2008, section 4.

    Leap-frog positions, Adams-Bashforth velocities in the drag, the paper's random numbers.
    """

    name = "dpd-rozen2008"
    summary = "dpd-standard with the integrator and the random numbers of Rožen et al. 2008"
    defaults: ClassVar[Mapping[str, Value]] = {
        **DPDStandard.defaults,
        "integrator": "leap-frog",
        "pair_noise": "rozen2008",
    }


class TwoSpecies(DPD):
    """The base class of the two simulations in rozen2008, which have two species."""

    common: ClassVar[Mapping[str, Value]] = {
        **DPD.common,
        **{
            f"{name}_{pair}": value
            for name, value in (("repulsion", 25.0), ("friction", 4.5), ("noise", 3.0))
            for pair in ("aa", "ab", "bb")
        },
        "mass_a": 1.0,
        "mass_b": 1.0,
        "dimensions": 3,
        "walls": "z",
    }

    def fluid_of_pairs(self, gravity: float = 0.0) -> Fluid:
        """Make the fluid that the parameters describe; gravity acts downwards."""

        def pairs(name: str) -> tuple[float, float, float]:
            return self.number(f"{name}_aa"), self.number(f"{name}_ab"), self.number(f"{name}_bb")

        return self.make_fluid(
            pairs("repulsion"), pairs("friction"), pairs("noise"),
            mass=(self.number("mass_a"), self.number("mass_b")), gravity=(0.0, 0.0, -gravity),
        )  # fmt: skip

    def box_of(self, x: float, y: float, z: float) -> Box:
        """Return a box, with walls along z if the parameters say so, and along y if it is flat."""
        if self.parameters["walls"] not in ("z", "none"):
            raise UserError(f"walls must be z or none, not {self.parameters['walls']}")
        return Box((x, y, z), (True, not self.flat_axes, self.parameters["walls"] == "none"))

    @property
    def flat_axes(self) -> tuple[int, ...]:
        """The axes without extent in two dimensions."""
        if self.dimensions not in (2, 3):
            raise UserError(f"dimensions must be 2 or 3, not {self.dimensions}")
        return (1,) if self.dimensions == 2 else ()

    def uniform_in(self, box: Box, rng: np.random.Generator) -> Floats:
        """Draw uniform positions, float64 (particles, 3)."""
        positions: Floats = rng.random((self.particles, 3)) * box.size
        positions[:, self.flat_axes] = 0
        return positions


class DPDSeparation(TwoSpecies):
    """Two immiscible fluids, mixed at first (rozen2008, Figure 3)."""

    name = "dpd-separation"
    summary = "phase separation of two immiscible fluids between walls"
    figure = f"Figure 3 of rozen2008, phase separation. {PARTICLES_IN_FIGURES}"
    defaults: ClassVar[Mapping[str, Value]] = {
        **TwoSpecies.common,
        "repulsion_ab": 50.0,
        "share_b": 0.5,
    }
    particles_by_default = 65536
    steps_by_default = 5000

    def make_model(self, rng: np.random.Generator) -> Beginning:
        flat = self.flat_axes
        edge = (self.particles / self.number("density")) ** (1 / self.dimensions)
        box = self.box_of(edge, 1.0 if flat else edge, edge)
        share = self.share("share_b")
        species = rng.permutation(np.arange(self.particles) < round(share * self.particles))
        return Beginning(
            box, self.fluid_of_pairs(), self.uniform_in(box, rng), species.astype(np.int8),
            ("A", "B"), self.flat_axes,
        )  # fmt: skip

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        field = order_parameter(snapshot.positions, snapshot.species, self.box, MESH)
        size = domain_size(structure_factor(field, self.box))
        return {**super().observe(snapshot), "domain_size": size}


class DPDRayleighTaylor(TwoSpecies):
    """A heavy fluid over a light one (rozen2008, Figure 4).

    depth: edge along y. height: edge along z, relative to that along x. share_b: the fraction of
    the height filled by the heavy fluid. wave: number of waves of the interface along x, 0 for a
    flat interface. amplitude: amplitude of these waves.
    """

    name = "dpd-rayleigh-taylor"
    summary = "Rayleigh-Taylor instability: a heavy fluid over a light one, between walls"
    figure = f"Figure 4 of rozen2008, Rayleigh-Taylor instability. {PARTICLES_IN_FIGURES}"
    defaults: ClassVar[Mapping[str, Value]] = {
        **TwoSpecies.common, "repulsion_ab": 35.0, "mass_a": 0.5, "mass_b": 1.5, "gravity": 0.02,
        "share_b": 0.4, "depth": 6.0, "height": 1.0, "wave": 0, "amplitude": 0.0,
    }  # fmt: skip
    particles_by_default = 65536
    steps_by_default = 8000

    def make_model(self, rng: np.random.Generator) -> Beginning:
        depth = 1.0 if self.flat_axes else self.number("depth")
        height, share = self.number("height"), self.share("share_b")
        if min(depth, height) <= 0:
            raise UserError(f"depth and height must be positive, not {depth:g} and {height:g}")
        area = self.particles / self.number("density") / (1.0 if self.flat_axes else depth)
        width = math.sqrt(area / height)
        box = self.box_of(width, depth, height * width)
        positions = self.uniform_in(box, rng)
        wave = 2 * math.pi * self.number("wave") / width
        interface = (1 - share) * box.size[2] + self.number("amplitude") * np.cos(
            wave * positions[:, 0]
        )
        return Beginning(
            box, self.fluid_of_pairs(self.number("gravity")), positions,
            (positions[:, 2] > interface).astype(np.int8), ("light", "heavy"), self.flat_axes,
        )  # fmt: skip

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        positions, species = snapshot.positions, snapshot.species
        layer = mixing_layer(*heavy_fraction(positions, species, self.box, LAYER))
        found = {
            **super().observe(snapshot),
            "mixing_height": layer.height,
            "spike": layer.spike,
            "bubble": layer.bubble,
        }
        if mode := round(self.number("wave")):
            wave = interface_wave(positions, species, self.box, mode=mode)
            found["wave_amplitude"] = float(abs(wave))
        return found


def as_published(defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Return defaults with the paper's integrator, random numbers and weights.

    The paper prints no coefficients: these exert the same forces in its normalisation.
    """
    density = float(defaults["density"])
    powers = {"repulsion": 1, "friction": 2, "noise": 1}  # of 1 - r / cutoff
    scaled = {
        f"{name}_{pair}": float(defaults[f"{name}_{pair}"]) / normalisation(power, density, 3)
        for name, power in powers.items()
        for pair in ("aa", "ab", "bb")
    }
    paper = {"integrator": "leap-frog", "pair_noise": "rozen2008", "weights": "rozen2008"}
    return {**defaults, **paper, **scaled}


class SeparationOfPaper(DPDSeparation):
    """The separation as in rozen2008, section 4: its weights, its steps, its random numbers."""

    name = "dpd-rozen2008-separation"
    summary = "dpd-separation with the weights, steps and random numbers of Rožen et al. 2008"
    defaults: ClassVar[Mapping[str, Value]] = as_published(DPDSeparation.defaults)


class RayleighTaylorOfPaper(DPDRayleighTaylor):
    """The instability as in rozen2008, section 4: its weights, its steps, its random numbers."""

    name = "dpd-rozen2008-rayleigh-taylor"
    summary = "dpd-rayleigh-taylor with the weights, steps and random numbers of Rožen et al. 2008"
    defaults: ClassVar[Mapping[str, Value]] = as_published(DPDRayleighTaylor.defaults)
