"""Dissipative particle dynamics (rozen2008, section 4), over any algorithm that makes cells.

A step: the cell of each particle; the sort; particles into the order of their cells where it
gives one; forces; leap-frog. State, forces and their sums are such that every algorithm gives
the same trajectory to the bit on one device; see kernels/dpd.cu.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.contracts import CellList, CellListUpdate, LimitedCells, LinkedCells, SortedCells
from gpubench.devices.base import Device, Graph
from gpubench.errors import UserError
from gpubench.physics.box import Box
from gpubench.physics.domains import domain_size, order_parameter, structure_factor
from gpubench.physics.fluid import INTEGRATORS, Fluid
from gpubench.physics.mixing import heavy_fraction, interface_wave, mixing_layer
from gpubench.physics.observables import momentum, temperature
from gpubench.physics.step import check_dpd_step
from gpubench.workloads.workload import BlowUp, Snapshot, Value, Workload

BLOCK = 128
# Neighbours kept before their forces are computed; fewer fit beside each other on a GPU.
DEFERRED, DEFERRED_ON_CPU = 24, 48
PARTS = 3  # of the range, which sorted cells are long along x
# TRAVERSAL in kernels/dpd.cu.
TRAVERSALS = {SortedCells: 0, LinkedCells: 1, LimitedCells: 2}
LISTED = 3
MESH, LAYER = 1.5, 1.0  # of the fields of which domains and mixing are observed
LIST_MARGIN = 2.5  # room in a list of neighbours, over the mean
NOISES = {"philox": 0, "rozen2008": 1}
GENERATORS = {"philox": "philox-10", "rozen2008": "rozen2008"}  # the same in physics.noise
WEIGHTS = ("groot-warren", "rozen2008")
STEPS_PER_GRAPH = 2  # what takes turns with its arrays is back where it was


@dataclass(frozen=True)
class Model:
    """What a workload simulates: the box, the fluid, and how it begins.

    positions: float64 (particles, 3). species: int8 (particles,).
    flat: axes along which nothing moves, for two dimensions.
    """

    box: Box
    fluid: Fluid
    positions: NDArray[np.float64]
    species: NDArray[np.int8]
    species_names: tuple[str, ...] = ("fluid",)
    flat: tuple[int, ...] = field(default=())


# What was drawn last, by all that it depends on; see DPD._draw.
_last_drawn: dict[Any, tuple[Model, dict[str, NDArray[Any]]]] = {}


class DPD(Workload):
    """What the DPD workloads have in common; they differ in their model."""

    source = "rozen2008, section 4; Groot and Warren, J. Chem. Phys. 107, 4423 (1997)"
    variants: ClassVar[Sequence[Mapping[str, Value]]] = (
        {},
        {"integrator": "leap-frog"},
        {"pair_noise": "rozen2008"},
    )
    common: ClassVar[Mapping[str, Value]] = {
        "time_step": 0.04,
        "integrator": "velocity-verlet",
        "pair_noise": "philox",
        "density": 3.0,
        "weights": "groot-warren",
    }

    def __init__(
        self,
        device: Device,
        particles: int,
        algorithm: type[CellList],
        form: str,
        parameters: Mapping[str, Value],
        seed: int,
        skin: float = 0.0,
    ) -> None:
        self.device, self.particles, self.seed, self.skin = device, particles, seed, skin
        of_algorithm = {n: int(v) for n, v in parameters.items() if n in algorithm.defaults}
        self.parameters = {**self.defaults, **parameters}
        self._require_sensible()
        self.model, start = self._draw()
        self.box, self.fluid = self.model.box, self.model.fluid
        self._shape = algorithm.shape()
        self._parts = PARTS if self._shape is SortedCells else 1
        self.grid = self.box.grid(self.fluid.cutoff + skin, self._parts)
        self.workspace_bytes = 0
        self.algorithm = algorithm(device, particles, self.grid, form, of_algorithm)
        self._allocate()
        self.restore(start)
        self._prepare_kernels()

    @abstractmethod
    def make_model(self, rng: np.random.Generator) -> Model:
        """Draw what the parameters and the number of particles describe."""

    def number(self, name: str) -> float:
        """Return a parameter that is a number."""
        return float(self.parameters[name])

    def share(self, name: str) -> float:
        """Return a parameter that is a share of a whole."""
        value = self.number(name)
        if not 0 <= value <= 1:
            raise UserError(f"{name} must be 0 to 1, not {value:g}")
        return value

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return int(self.parameters.get("dimensions", 3))

    def make_fluid(
        self,
        repulsion: tuple[float, float, float],
        friction: tuple[float, float, float],
        noise: tuple[float, float, float],
        **others: Any,
    ) -> Fluid:
        """Make a fluid of coefficients for the weights that the parameters name."""
        if self.parameters["weights"] == "groot-warren":
            return Fluid(repulsion, friction, noise, **others)
        return Fluid.of_paper(
            repulsion, friction, noise, density=self.number("density"),
            dimensions=self.dimensions, **others,
        )  # fmt: skip

    def advance(self, steps: int) -> None:
        left = steps
        while left > 0:
            if left >= STEPS_PER_GRAPH and self._replays():
                assert self._graph is not None
                self._graph.launch()
                self.step += STEPS_PER_GRAPH
                left -= STEPS_PER_GRAPH
                continue
            for _, launch in self.phases():
                launch()
            left -= 1

    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        work = [("force", self._add_forces), ("integrate", self._integrate)]
        if self.skin == 0:
            return [("cell ids", self._find_cells), ("sort", self._sort), *work]
        return [
            ("test", self._test),
            ("cell ids", self._if_stale(self._find_cells)),
            ("sort", self._if_stale(self._sort)),
            ("lists", self._if_stale(self._make_lists)),
            *work,
        ]

    def require_sound(self) -> None:
        flag, low, high, particle = (int(word) for word in self.device.download(self._fault))
        if flag:
            step = low % 2**32 + (high << 32)
            raise BlowUp(
                f"step {step}: particle {particle} would move further than a cell, or nowhere:"
                f" make the time step smaller than {self.time_step:g}"
                " (--parameter time_step=...), or the forces weaker"
            )
        answer = self.algorithm.answer
        if isinstance(answer, LimitedCells) and (lost := int(self.device.download(answer.lost)[0])):
            raise BlowUp(
                f"step {self.step}: {self.algorithm.name} has no room for {lost} particles:"
                " choose another algorithm"
            )
        if self.skin > 0 and int(self.device.download(self._counts).max(initial=0)) > self._room:
            raise BlowUp(
                f"step {self.step}: a particle has more than {self._room} neighbours:"
                " choose a smaller skin, or 0"
            )

    def check(self) -> str | None:
        # A graph of steps counts on the device; the host sees only what it queues itself.
        low, high = self.device.download(self._clock)[0, :2]
        self.step = int(low) + (int(high) << 32)
        before = self.state()
        for _, launch in self.phases():
            launch()
        try:
            self.require_sound()
        except BlowUp as error:
            return str(error)
        return check_dpd_step(
            before, self.state(), self._forces_in_place(), self.box, self.fluid, self._integrator,
            self.time_step, self.seed, GENERATORS[str(self.parameters["pair_noise"])],
        )  # fmt: skip

    def state(self) -> dict[str, NDArray[Any]]:
        download = self.device.download
        found: dict[str, NDArray[Any]] = {
            "step": np.array(self.step, np.int64),
            "places": download(self._places).view(np.uint32),
            "velocities": download(self._velocities),
        }
        return found | ({"drags": download(self._drags)} if self._ahead else {})

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        device = self.device
        wanted = {"step", "places", "velocities"} | ({"drags"} if self._ahead else set())
        if state.keys() != wanted or state["places"].shape != (self.particles, 4):
            raise UserError(f"this is no state of {self.name} with {self.particles} particles")
        self.step = int(state["step"])
        device.write(self._places, state["places"].view(np.float32))
        device.write(self._velocities, state["velocities"])
        if self._ahead:
            device.write(self._drags, state["drags"])
        clock = [self.step % 2**32, self.step >> 32, self.seed % 2**32, self.seed >> 32]
        device.write(self._clock, np.array([clock, clock], np.uint32))
        device.fill(self._fault, 0x00)
        device.fill(self._force, 0x00)
        # A list must be built before it can be updated, and lists of neighbours made anew.
        self._is_built = False
        device.fill(self._stale, 0xFF)
        self._current = self._places, self._velocities, self._drags

    def snapshot(self) -> Snapshot:
        """Return places and half-step velocities; see `full_step_velocities`."""
        download = self.device.download
        places = download(self._places).view(np.uint32)
        velocities = download(self._velocities)
        by_id = np.argsort(places[:, 3])
        return Snapshot(
            step=self.step,
            time=self.step * self.time_step,
            size=self.box.size,
            periodic=self.box.periodic,
            positions=self.box.to_positions(places[by_id]),
            velocities=velocities[by_id, :3].astype(np.float64),
            species=velocities[by_id, 3].view(np.int32).astype(np.int8),
            species_names=self.model.species_names,
        )

    def full_step_velocities(self) -> NDArray[np.float64]:
        """Return velocities at the last full step, float64 (particles, 3), in order of ids.

        They are the mean of those at the half steps around it: half a kick less than the present
        ones.
        """
        download = self.device.download
        ids = download(self._places).view(np.uint32)[:, 3]
        velocities = download(self._velocities)
        species = velocities[:, 3].view(np.int32)
        force = self._forces_in_place()[:, :3].astype(np.float64)
        kick = self.time_step / np.asarray(self.fluid.mass)[species]
        change = force * kick[:, None] + np.asarray(self.fluid.gravity) * self.time_step
        return (velocities[:, :3] - change / 2)[np.argsort(ids)]

    def _forces_in_place(self) -> NDArray[np.float32]:
        """Return the forces of the last step in the present order of the particles."""
        force = self.device.download(self._force)
        if self._scatters:
            force[self.device.download(self._cells_for_kernel()[1])] = force.copy()
        return force

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        dimensions = 3 - len(self.model.flat)
        found = temperature(snapshot.velocities, snapshot.species, self.fluid, dimensions)
        total = momentum(snapshot.velocities, snapshot.species, self.fluid)
        return {
            "kinetic_temperature": found.overall,
            "momentum_per_particle": float(np.linalg.norm(total)) / self.particles,
        }

    def _require_sensible(self) -> None:
        if self.particles < 1:
            raise UserError(f"a simulation needs particles, not {self.particles}")
        self.time_step = self.number("time_step")
        if not 0 < self.time_step < math.inf:
            raise UserError(f"time_step must be positive and finite, not {self.time_step}")
        if not (self.skin >= 0 and math.isfinite(self.skin)):
            raise UserError(f"the skin must be 0 or positive, not {self.skin}")
        if not self.number("density") > 0:
            raise UserError(f"density must be positive, not {self.number('density'):g}")
        if not 0 <= self.seed < 2**64:
            raise UserError(f"the seed must be 0 to 2^64 - 1, not {self.seed}")
        for name, known in (
            ("integrator", INTEGRATORS),
            ("pair_noise", NOISES),
            ("weights", WEIGHTS),
        ):
            if self.parameters[name] not in known:
                raise UserError(
                    f"{name} must be one of {', '.join(known)}, not {self.parameters[name]}"
                )
        self._integrator = str(self.parameters["integrator"])
        self._ahead = INTEGRATORS[self._integrator] != 0.5

    def _draw(self) -> tuple[Model, dict[str, NDArray[Any]]]:
        """Draw model and initial state, or return the last that were drawn if these are the same.

        A study makes the same simulation for each of its algorithms; drawing 2^24 particles takes
        longer than to simulate a thousand steps.
        """
        own = (self.parameters[name] for name in self.defaults)
        key = type(self), self.particles, self.seed, *own
        if key not in _last_drawn:
            rng = np.random.default_rng(self.seed)
            model = self.make_model(rng)
            start = self._initial_state(model, rng)
            _last_drawn.clear()
            _last_drawn[key] = model, start
        return _last_drawn[key]

    def _initial_state(self, model: Model, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Draw the state at the beginning: ids in the order of cells, velocities without a sum."""
        particles, box, fluid = self.particles, model.box, model.fluid
        units = box.to_units(model.positions)
        cells = np.asarray(box.grid(fluid.cutoff).cells, np.uint64)
        at = (units * cells // np.asarray(box.units, np.uint64)).astype(np.int64)
        order = np.argsort((at[:, 2] * cells[1] + at[:, 1]) * cells[0] + at[:, 0], kind="stable")
        species = model.species[order].astype(np.int32)
        mass = np.asarray(fluid.mass)[species][:, None]
        kt = fluid.temperature[0]
        velocities = rng.normal(size=(particles, 3)) * np.sqrt((kt if kt > 0 else 0.0) / mass)
        velocities -= (mass * velocities).sum(axis=0) / mass.sum()
        velocities[:, model.flat] = 0
        state = {
            "step": np.array(0, np.int64),
            "places": np.column_stack([units[order], np.arange(particles, dtype=np.uint32)]),
            "velocities": np.column_stack([velocities, np.zeros(particles)]).astype(np.float32),
        }
        state["velocities"][:, 3] = species.view(np.float32)
        return state | ({"drags": state["velocities"].copy()} if self._ahead else {})

    def _allocate(self) -> None:
        n, device = self.particles, self.device
        self._blocks = device.blocks(n, BLOCK)
        self._places, self._velocities, self._force = (
            self._array((n, 4), "float32") for _ in range(3)
        )
        self._drags = self._array((n, 4), "float32") if self._ahead else self._velocities
        self._cell_of = [self._array(n, "int32") for _ in range(2)]
        self._clock = self._array((2, 4), "uint32")
        self._fault, self._stale = self._array(4, "int32"), self._array(1, "int32")
        self._packed_box = device.upload(
            self.box.packed(self.grid, self.fluid.cutoff).view("uint8")
        )
        fluid = self.fluid.packed(self.time_step, self._integrator)
        self._packed_fluid = device.upload(fluid.view("uint8"))
        self._allocate_for_shape()
        self._allocate_lists()
        self._graph: Graph | None = None
        self._graph_cells: Any = None

    def _allocate_for_shape(self) -> None:
        """Allocate what is kept in the order of the cells, if the cells are sorted."""
        n, is_sorted = self.particles, self._shape is SortedCells
        form = self.algorithm.forms[self.algorithm.form]
        self._reorders = is_sorted and form.reorders
        # What is updated cannot change its numbers: it is put back after each step.
        self._scatters = is_sorted and isinstance(self.algorithm, CellListUpdate) and self.skin == 0
        self._sorted_velocities = self._array((n if is_sorted else 0, 4), "float32")
        self._sorted_drags = self._sorted_velocities
        if self._ahead:
            self._sorted_drags = self._array((n if is_sorted else 0, 4), "float32")
        gathers = is_sorted and not self._reorders
        self._sorted_places = self._array((n if gathers else 0, 4), "float32")
        self._capacity = 0
        if self._shape is LimitedCells:
            slots = self.algorithm.answer.slots  # type: ignore[union-attr]
            self._capacity = int(slots.shape[1])

    def _allocate_lists(self) -> None:
        """Allocate lists with room for more neighbours than a ball of cutoff and skin holds."""
        listed = self.particles if self.skin > 0 else 0
        reach = self.fluid.cutoff + self.skin
        extent = math.prod(e for a, e in enumerate(self.box.size) if a not in self.model.flat)
        ball = math.pi * reach**2 if self.model.flat else 4 / 3 * math.pi * reach**3
        self._room = math.ceil(LIST_MARGIN * ball * self.particles / extent) + 16 if listed else 0
        self._counts = self._array(listed, "int32")
        self._lists = self._array(listed * self._room, "int32")
        self._since = self._array((listed, 4), "float32")

    def _array(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        array = self.device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array

    def _prepare_kernels(self) -> None:
        """Make the kernels for this shape of cells, with and without lists of neighbours."""
        device, listed = self.device, self.skin > 0
        constants: dict[str, int | str] = {
            "BLOCK": BLOCK,
            "NOISE": NOISES[str(self.parameters["pair_noise"])],
            "AHEAD": int(self._ahead),
            "TRAVERSAL": TRAVERSALS[self._shape],
            "REACH": self._parts,
            "CAPACITY": self._capacity,
            "LISTS": 0,
            "ROOM": self._room,
            "LIST_BY_PARTICLE": int(device.is_cpu),
            "KEEP": int(listed),
            "SCATTER": int(self._scatters),
            "GATHER_PLACES": int(not self._reorders),
            "DEFER": DEFERRED_ON_CPU if device.is_cpu else DEFERRED,
        }
        if listed:
            making = {**constants, "LISTS": 1}
            self._list = device.kernel("dpd.cu", "list_neighbours", **making)
            constants["TRAVERSAL"] = LISTED
        self._cell_ids, self._gather, self._forces, self._leap = (
            device.kernel("dpd.cu", name, **constants)
            for name in ("cell_ids", "gather", "forces", "integrate")
        )

    def _replays(self) -> bool:
        """Make a graph of some steps if that is possible; return whether it can be replayed now."""
        form = self.algorithm.forms[self.algorithm.form]
        if "graphs" not in self.device.features or not form.capturable or self.skin > 0:
            return False
        if not self._is_built:
            return False
        if self._graph is None:
            step, self._graph_cells = self.step, self._cells_in_use()
            self._graph = self.device.capture(self._steps_of_graph)
            self.step = step
        return self._graph_cells is self._cells_in_use()

    def _steps_of_graph(self) -> None:
        for _ in range(STEPS_PER_GRAPH):
            for _, launch in self.phases():
                launch()

    def _cells_in_use(self) -> Any:
        """Return the array of cell ids that the present list is of, which takes turns."""
        return self.algorithm.cell_of if isinstance(self.algorithm, CellListUpdate) else None

    def _find_cells(self) -> None:
        first, second = self._cell_of
        self._next_cells = first
        if isinstance(self.algorithm, CellListUpdate) and self._is_built:
            self._next_cells = second if self.algorithm.cell_of is first else first
        self._cell_ids(
            self._blocks, BLOCK, self._places, self._next_cells, self._packed_box, self.particles
        )

    def _sort(self) -> None:
        algorithm, cells = self.algorithm, self._next_cells
        if isinstance(algorithm, CellListUpdate) and self._is_built and self.skin == 0:
            algorithm.move_to(cells, self._places)
        else:
            algorithm.build(cells, self._places)
            algorithm.cell_of, algorithm.positions = cells, self._places
        self._is_built = True
        answer = algorithm.answer
        if not isinstance(answer, SortedCells):
            return
        places = self._sorted_places if answer.positions is None else answer.positions
        self._gather(
            self._blocks, BLOCK, answer.order, self._places, self._velocities, self._drags, places,
            self._sorted_velocities, self._sorted_drags, self.particles,
        )  # fmt: skip
        self._current = places, self._sorted_velocities, self._sorted_drags

    def _cells_for_kernel(self) -> tuple[Any, Any]:
        match self.algorithm.answer:
            case SortedCells(start, order, _):
                return start, order
            case LinkedCells(head, following):
                return head, following
            case LimitedCells(count, slots):
                return count, slots
        raise TypeError(f"{self.algorithm.name} makes no cells")

    def _add_forces(self) -> None:
        places, _, drags = self._current
        cells = (self._counts, self._lists) if self.skin > 0 else self._cells_for_kernel()
        self._forces(
            self._blocks, BLOCK, places, drags, *cells, self._packed_box, self._packed_fluid,
            self._clock, self.fluid.cutoff, self.particles, self._force,
        )  # fmt: skip

    def _integrate(self) -> None:
        places, velocities, _ = self._current
        order = self._cells_for_kernel()[1] if self._scatters else self._cell_of[0]
        self._leap(
            self._blocks, BLOCK, places, velocities, self._force, order, self._since,
            self._packed_box, self._packed_fluid, self._clock, self.particles,
            (self.skin / 2) ** 2, self._places, self._velocities, self._drags, self._stale,
            self._fault,
        )  # fmt: skip
        if self.skin > 0:
            # What was sorted for the lists is the state from now on, in the same order.
            self._current = self._places, self._velocities, self._drags
        self.step += 1

    def _test(self) -> None:
        """Read back whether the lists still hold."""
        self._is_stale = bool(self.device.download(self._stale)[0])

    def _if_stale(self, work: Callable[[], None]) -> Callable[[], None]:
        def launch() -> None:
            if self._is_stale:
                work()

        return launch

    def _make_lists(self) -> None:
        places = self._current[0]
        self.device.copy(places, self._since)
        self._list(
            self._blocks, BLOCK, places, *self._cells_for_kernel(), self._packed_box,
            self.fluid.cutoff + self.skin, self.particles, self._counts, self._lists,
        )  # fmt: skip
        self.device.fill(self._stale, 0x00)


class DPDStandard(DPD):
    """The fluid on which DPD codes are compared, in a periodic cube."""

    name = "dpd-standard"
    summary = "one fluid in a periodic cube: density 3, repulsion 25, kT 1"
    defaults: ClassVar[Mapping[str, Value]] = {
        **DPD.common,
        "repulsion": 25.0,
        "friction": 4.5,
        "noise": 3.0,
    }
    particles_by_default = 65536
    steps_by_default = 1000

    def make_model(self, rng: np.random.Generator) -> Model:
        edge = (self.particles / self.number("density")) ** (1 / 3)
        a, gamma, sigma = (self.number(name) for name in ("repulsion", "friction", "noise"))
        fluid = self.make_fluid((a, a, a), (gamma, gamma, gamma), (sigma, sigma, sigma))
        positions = rng.random((self.particles, 3)) * edge
        species = np.zeros(self.particles, np.int8)
        return Model(Box((edge, edge, edge)), fluid, positions, species)


class TwoSpecies(DPD):
    """What the two runs of the paper have in common."""

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
        """Make the fluid that the parameters describe, with gravity downwards."""

        def pairs(name: str) -> tuple[float, float, float]:
            return self.number(f"{name}_aa"), self.number(f"{name}_ab"), self.number(f"{name}_bb")

        return self.make_fluid(
            pairs("repulsion"), pairs("friction"), pairs("noise"),
            mass=(self.number("mass_a"), self.number("mass_b")), gravity=(0.0, 0.0, -gravity),
        )  # fmt: skip

    def box_of(self, x: float, y: float, z: float) -> Box:
        """Return a box with or without walls below and above; a flat one has walls along y too."""
        if self.parameters["walls"] not in ("z", "none"):
            raise UserError(f"walls must be z or none, not {self.parameters['walls']}")
        return Box((x, y, z), (True, not self.flat, self.parameters["walls"] == "none"))

    @property
    def flat(self) -> tuple[int, ...]:
        """The axes along which a simulation in two dimensions has no extent."""
        if self.dimensions not in (2, 3):
            raise UserError(f"dimensions must be 2 or 3, not {self.dimensions}")
        return (1,) if self.dimensions == 2 else ()

    def uniform_in(self, box: Box, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw positions, float64 (particles, 3)."""
        positions: NDArray[np.float64] = rng.random((self.particles, 3)) * box.size
        positions[:, self.flat] = 0
        return positions


class DPDSeparation(TwoSpecies):
    """Two immiscible fluids, mixed at first (rozen2008, Figure 3)."""

    name = "dpd-separation"
    summary = "phase separation of two immiscible fluids between walls"
    defaults: ClassVar[Mapping[str, Value]] = {
        **TwoSpecies.common,
        "repulsion_ab": 50.0,
        "share_b": 0.5,
    }
    particles_by_default = 65536
    steps_by_default = 5000

    def make_model(self, rng: np.random.Generator) -> Model:
        edge = (self.particles / self.number("density")) ** (1 / self.dimensions)
        box = self.box_of(edge, edge if not self.flat else 1.0, edge)
        share = self.share("share_b")
        species = rng.permutation(np.arange(self.particles) < round(share * self.particles))
        return Model(
            box, self.fluid_of_pairs(), self.uniform_in(box, rng), species.astype(np.int8),
            ("A", "B"), self.flat,
        )  # fmt: skip

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        field = order_parameter(snapshot.positions, snapshot.species, self.box, MESH)
        size = domain_size(structure_factor(field, self.box))
        return {**super().observe(snapshot), "domain_size": size}


class DPDRayleighTaylor(TwoSpecies):
    """A heavy fluid over a light one (rozen2008, Figure 4).

    depth: edge along y. height: edge along z in edges along x. share_b: how much of the height
    is the heavy fluid's. wave: number of waves of the interface along x, each `amplitude` high;
    0 for a flat one.
    """

    name = "dpd-rayleigh-taylor"
    summary = "Rayleigh-Taylor instability: a heavy fluid over a light one, between walls"
    defaults: ClassVar[Mapping[str, Value]] = {
        **TwoSpecies.common,
        "repulsion_ab": 35.0,
        "mass_a": 0.5,
        "mass_b": 1.5,
        "gravity": 0.02,
        "share_b": 0.4,
        "depth": 6.0,
        "height": 1.0,
        "wave": 0,
        "amplitude": 0.0,
    }
    particles_by_default = 65536
    steps_by_default = 8000

    def make_model(self, rng: np.random.Generator) -> Model:
        depth = 1.0 if self.flat else self.number("depth")
        height, share = self.number("height"), self.share("share_b")
        if min(depth, height) <= 0:
            raise UserError(f"depth and height must be positive, not {depth:g} and {height:g}")
        area = self.particles / self.number("density") / (1.0 if self.flat else depth)
        width = math.sqrt(area / height)
        box = self.box_of(width, depth, height * width)
        positions = self.uniform_in(box, rng)
        wave = 2 * math.pi * self.number("wave") / width
        interface = (1 - share) * box.size[2] + self.number("amplitude") * np.cos(
            wave * positions[:, 0]
        )
        return Model(
            box, self.fluid_of_pairs(self.number("gravity")), positions,
            (positions[:, 2] > interface).astype(np.int8), ("light", "heavy"), self.flat,
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
