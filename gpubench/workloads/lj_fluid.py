"""The Lennard-Jones fluid at constant energy, over any algorithm that makes cells.

A step: cell ids; the cell list; reordering of sorted particles; forces; leap-frog. With a skin, the
cells and lists of neighbours are kept until a particle has moved half of it. All sums are exact, so
all algorithms and skins yield bitwise identical trajectories on a device; see kernels/lj_fluid.cu.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported, UserError
from gpubench.physics.box import Box
from gpubench.physics.lennard_jones import LennardJones, LJStep, potential
from gpubench.workloads.cell_workload import BLOCK, STEPS_PER_GRAPH, TRAVERSALS
from gpubench.workloads.dpd import DPD, Beginning
from gpubench.workloads.workload import BlowUp, Snapshot, State, Value

LANES = (0, 1, 2, 4, 8)
LANES_UP_TO = {2**15: 4, 2**17: 2}  # threads per particle, by the most particles
HALF = 0.4999  # of the skin, less what rounding of distances may add
SETTLE = 200  # steps in which the lattice melts
LISTS = 10  # lists that are tested in each step, before their steps are tried without
TRIAL = 1000  # steps tried
STEPS = 20  # about so many steps in a launch with a skin
MOST_MISSED = 5e-3  # of the steps queued without a look


class LJFluid(DPD):
    """A fluid that melts from a lattice, as in bench/in.lj of LAMMPS.

    density: particles per sigma^3. temperature: that of the velocities on the lattice; about half
    of it is left in the fluid. lanes: threads per particle that read lists, on a GPU; 0 chooses.

    `settle` finds how many steps practically all lists hold. From then on steps can be queued that
    many at a time without a look at whether they do: the device misses steps for which a list does
    not hold any more, and counts them.
    """

    name = "lj-fluid"
    summary = "the Lennard-Jones melt of LAMMPS's bench/in.lj: density 0.8442, cutoff 2.5"
    source = "Allen and Tildesley, Computer Simulation of Liquids (2017); LAMMPS, bench/in.lj"
    defaults: ClassVar[Mapping[str, Value]] = {
        "time_step": 0.005, "density": 0.8442, "temperature": 1.44, "cutoff": 2.5, "lanes": 0,
    }  # fmt: skip
    variants: ClassVar[Sequence[Mapping[str, Value]]] = ({},)
    particles_by_default = 32000
    steps_by_default = 1000
    columns = ("velocities",)
    is_marked = moves_find_cells = False  # which is of DPD's kernels
    _pace = 0  # steps that are queued with each list; 0 before `settle`

    def __init_subclass__(cls) -> None:
        """Refuse what several ranks share, which has DPD's own kernels."""
        if hasattr(cls, "decomposition"):
            raise NotSupported(f"{cls.name} runs on one rank: start it without mpirun")

    def set_up(self, rng: np.random.Generator) -> None:
        for name in ("density", "cutoff"):
            if not self.number(name) > 0:
                raise UserError(f"{name} must be positive, not {self.number(name):g}")
        if self.number("temperature") < 0:
            raise UserError(f"temperature must be at least 0, not {self.number('temperature'):g}")
        if self.parameters["lanes"] not in LANES:
            raise UserError(f"lanes must be one of {LANES}, not {self.parameters['lanes']}")
        self._integrator = "velocity-verlet"
        self.model = model = self.make_model(rng)
        self.box, self.fluid, self.reach = model.box, model.fluid, model.fluid.cutoff

    def make_model(self, rng: np.random.Generator) -> Beginning:
        cells = lattice(self.particles)
        edge = (self.particles / self.number("density") / math.prod(cells)) ** (1 / 3)
        x, y, z = (edge * along for along in cells)
        sites = np.stack(np.meshgrid(*map(np.arange, cells), indexing="ij"), -1).reshape(-1, 1, 3)
        corners = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
        positions = (edge * (sites + corners)).reshape(-1, 3)
        if len(positions) > self.particles:
            positions = rng.permutation(positions)[: self.particles]
        fluid = LennardJones(cutoff=self.number("cutoff"))
        return Beginning(Box((x, y, z)), fluid, positions, np.zeros(self.particles, np.int8))

    def draw(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Draw velocities of exactly the temperature, with zero total momentum."""
        places, _ = self.numbered(self.model.positions)
        drawn = rng.normal(size=(self.particles, 3))
        drawn -= drawn.mean(axis=0)
        freedom = 3 * (self.particles - 1)
        drawn *= math.sqrt(freedom * self.number("temperature") / max(1e-30, (drawn**2).sum()))
        return {"places": places, "velocities": np.pad(drawn, ((0, 0), (0, 1))).astype(np.float32)}

    def compare(self, before: State, after: State) -> str | None:
        felt = self.felt(after)
        return LJStep(
            before, after, felt, self.box, self.fluid, 0.0, self.time_step
        ).problem(self.seed)  # fmt: skip

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return what DPD does, energies per particle and the pressure, without corrections."""
        seen, n = super().observe(snapshot), self.particles
        sums = potential(snapshot.positions, self.box, self.reach)
        kinetic = float((snapshot.velocities**2).sum()) / 2 / n
        thermal = self.number_density * seen["kinetic_temperature"] * (n - 1) / n
        return {
            **seen,
            "potential_energy": sums.energy / n,
            "total_energy": kinetic + sums.energy / n,
            "conserved_energy": kinetic + sums.shifted / n,
            "pressure": thermal + sums.virial / (3 * self.box.volume),
        }

    def settle(self) -> int:
        """Melt the lattice, and find how long lists hold; return the steps of a launch."""
        self.advance(SETTLE)
        if self.skin == 0:
            return STEPS_PER_GRAPH
        made: list[int] = []
        end = self.step + LISTS * STEPS
        while len(made) <= LISTS and self.step < end:
            self.plain_steps(1)
            if self._is_stale:
                made.append(self.step)
        for self._pace in range(int(np.diff(made).min(initial=5 * STEPS)), 0, -1):
            self._set_clock()
            self.plain_steps(self._pace * math.ceil(TRIAL / self._pace))
            self.count_steps()
            super().require_sound()
            if not self.missed:
                break
        return self._pace * max(1, round(STEPS / self._pace))

    def plain_steps(self, steps: int) -> None:
        if not self._pace or steps % self._pace:
            super().plain_steps(steps)
            return
        for _ in range(steps // self._pace):
            for work in (self._find_cells, self._sort, self._make_lists):
                work()
            for _ in range(self._pace):
                self._add_forces()
                self._integrate()

    @property
    def missed(self) -> int:
        """Steps since the clock was set that were queued without a look, and not done."""
        return int(self.device.download(self.clock)[0, 3])

    def require_sound(self) -> None:
        super().require_sound()
        done = int(self.device.download(self.clock)[0, 0]) - self._clock_set_at
        if (missed := self.missed) > max(self._pace, MOST_MISSED * done):
            raise BlowUp(
                f"{self.name}: {missed} steps were missed, as lists held fewer than {self._pace}"
                " steps: choose a larger skin"
            )

    def outcome(self) -> dict[str, int | float | str]:
        return {"steps_per_list": self._pace, "missed_steps": self.missed} if self._pace else {}

    def _set_clock(self) -> None:
        super()._set_clock()
        self._clock_set_at = self.step
        clock = [self.step % 2**32, self.step >> 32, 0, 0]
        self.device.write(self.clock, np.array([clock, clock], np.uint32))

    def _compile_step(self) -> None:
        lanes = int(self.parameters["lanes"]) or next(
            (lanes for most, lanes in LANES_UP_TO.items() if self.particles <= most), 1
        )
        self._lanes = lanes if self.skin > 0 and "cuda" in self.device.features else 1
        constants = {
            **self._traversal(TRAVERSALS[self._shape]),
            "KEEP": int(self.skin > 0),
            "SCATTER": int(self.scatters),
            "LANES": self._lanes,
        }
        self._forces, self._leap, self._list = (
            self.device.kernel("lj_fluid.cu", name, **constants)
            for name in ("forces", "integrate", "list_rows")
        )
        self._rounder = np.float32(1.5 * 2**23 * self.fluid.force_step(self.time_step))

    def _add_forces(self) -> None:
        self._forces(
            self.device.blocks(self.particles * self._lanes, BLOCK), BLOCK, self.current[0],
            *self.candidates, self.packed_box, self.clock, self.reach, self._rounder,
            self.particles, self.stale, self._force,
        )  # fmt: skip

    def _integrate(self) -> None:
        places, velocities = self.current
        self._leap(
            self.blocks, BLOCK, places, velocities, self._force, self.order, self.since,
            self.packed_box, self.time_step, self.clock, self.particles, (HALF * self.skin) ** 2,
            self.places, self.state_columns[0], self.stale, self.fault,
        )  # fmt: skip
        self.stepped()


def lattice(particles: int) -> tuple[int, int, int]:
    """Return the unit cells of a face-centred cubic lattice along the axes.

    They have 4 sites each: as many as there are particles, if a box at most twice as long as wide
    can; else a few more, in a cube.
    """
    cells, rest = divmod(particles, 4)
    for x in range(math.floor((cells + 0.5) ** (1 / 3)), 0, -1):
        for y in range(x, 2 * x + 1):
            z, left = divmod(cells, x * y)
            if not rest and not left and y <= z <= 2 * x:
                return x, y, z
    edge = math.ceil((particles / 4) ** (1 / 3) - 1e-9)
    return edge, edge, edge
