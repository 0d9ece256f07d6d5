"""A fluid with density constraints: a dam break with long steps.

The model and its units: gpubench/physics/constraint.py. The phases of a step: cells, sort, listing
neighbours (list), setting up the solve (blocks), pressures (solve), symplectic Euler (integrate).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported, UserError
from gpubench.base.messages import say
from gpubench.physics.arrays import Floats
from gpubench.physics.constraint import SOLVERS, Liquid, spline
from gpubench.physics.constraint_step import Solved, check_constraint_step
from gpubench.physics.sph import mass_for
from gpubench.workloads.cell_workload import BLOCK
from gpubench.workloads.parameters import require_known_values
from gpubench.workloads.tank import DamBreak, by_ids
from gpubench.workloads.workload import Snapshot, State, Value

NOTED = 1.6  # capacity of a particle's neighbour list, relative to the mean length
# Floats per recorded neighbour that store the matrix, in the order of MATRIX in the kernels.
MATRICES = {"free": 0, "float4": 4, "planes": 3}
SLOT, SQUARES, LIMBS = 16, 4, 5  # as in kernels/constraint_fluid.cu
MOST_PARTICLES = BLOCK * 2**19  # more could overflow the words of a dot product
# Number of words of `statistics` in kernels/constraint_fluid.cu.
WORDS = 9
TOTAL, TOTAL_HIGH, FAILED, FIRST, FIRST_HIGH, LAST, LARGEST = range(2, WORDS)
KERNELS = (
    "note_neighbours", "blocks", "cut_pressures", "push_all", "residuals", "directions",
    "push_all_along", "images", "follow_all", "integrate",
)  # fmt: skip
RESIDENT_BLOCKS = 7  # per multiprocessor in a single-launch solve; 8 would spill registers


class ConstraintFluid(DamBreak):
    """A collapsing column of fluid, with density constraints that push but never pull.

    The w component of the state column holds pressures times the time step, the initial guess of
    the next solve. viscosity, mach, neighbours, wall_distance: as in SPH. compliance: 0 for an
    incompressible fluid, 1 for the compressibility of SPH. damping: tau in time steps. solver:
    jacobi, or conjugate-gradients, which updates its active set (the positive pressures) every
    `restart` iterations. iterations: maximum per step. tolerance: a solve ends when the root mean
    square of the remaining density error falls below this. matrix: `free` if both products
    compute their blocks, `float4` or `planes` if they read stored ones; see MATRICES.
    """

    name = "constraint-fluid"
    summary = "a column of fluid collapses, its density held by constraints"
    source = "Bodin, Lacoursiere and Servin, IEEE TVCG 18 (2012); Lacoursiere 2007"
    defaults: ClassVar[Mapping[str, Value]] = {
        "time_step": 1.0, "solver": "conjugate-gradients", "iterations": 48, "restart": 6,
        "tolerance": 1e-3, "compliance": 0.01, "damping": 2.0, "relaxation": 0.4, "warm_start": 1.0,
        "matrix": "free", "neighbours": 30.0, "viscosity": 0.05, "mach": 0.2, "wall_distance": 0.5,
        **DamBreak.tank,
    }  # fmt: skip
    variants: ClassVar[Sequence[Mapping[str, Value]]] = tuple({"matrix": m} for m in MATRICES)
    steps_by_default = 1000

    def set_up(self, rng: np.random.Generator) -> None:
        require_known_values(self.parameters, {"solver": SOLVERS, "matrix": MATRICES})
        for name in ("iterations", "restart"):
            if not 1 <= self.number(name) <= 10_000:
                raise UserError(f"{name} must be 1 to 10000, not {self.number(name):g}")
        if self.particles > MOST_PARTICLES:
            raise NotSupported(
                f"{self.name} has at most {MOST_PARTICLES:,} particles, not {self.particles:,}"
            )
        super().set_up(rng)
        self.liquid = Liquid(
            mass_for(self.spacing, spline), self.number("viscosity"), self.gravity,
            self.number("wall_distance") * self.spacing, self.number("compliance"),
            self.number("damping"), self.number("relaxation"), self.number("warm_start"),
            self.number("tolerance"), self.time_step,
        )  # fmt: skip
        self._has_warned = False

    def work(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("list", self._note_neighbours),
            ("blocks", self._prepare_solve),
            ("solve", self._solve),
            ("integrate", self._integrate),
        ]

    def compare(self, before: State, after: State) -> str | None:
        values = self.density_errors()
        solved = Solved(values, float(self._statistics()[LAST : LAST + 1].view(np.float32)[0]))
        return check_constraint_step(by_ids(before), by_ids(after), solved, self.box, self.liquid)

    def require_sound(self) -> None:
        super().require_sound()
        found = self.solves()
        if found["unconverged_steps"] and not self._has_warned:
            self._has_warned = True
            first = self._statistics()[FIRST : FIRST + 2].view(np.uint32)
            say(
                f"{self.name}: the solve of step {int(first[0]) + (int(first[1]) << 32)} did not"
                f" converge, nor that of {found['unconverged_steps'] - 1:.0f} later steps so far:"
                f" residual up to {found['largest_residual']:.2g}, tolerance"
                f" {self.number('tolerance'):g}; more iterations, a shorter step or more compliance"
                " would help"
            )

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self.device.fill(self.statistics, 0x00)
        self._restored_at = self.step

    def require_possible(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().require_possible(state)
        kept = state["velocities"][:, 3]
        if not (np.isfinite(kept).all() and (kept >= 0).all()):
            raise UserError(f"a state of {self.name} has pressures that are below 0 or no numbers")

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the observables of Tank, the last step's density errors, and solver statistics."""
        errors = np.maximum(self.density_errors(), 0.0) if self.step > self._restored_at else None
        of_density = {
            "largest_density_error": math.nan if errors is None else float(errors.max()),
            "mean_density_error": math.nan if errors is None else float(errors.mean()),
        }
        return {**super().observe(snapshot), **of_density, **self.solves()}

    def outcome(self) -> dict[str, int | float | str]:
        return {**self.solves()}

    def solves(self) -> dict[str, float]:
        """Return iterations per step, residuals, and unconverged steps since the last restore.

        A residual is the root mean square of gpubench.physics.constraint.residuals.
        """
        self.count_steps()
        words = self._statistics()
        total = int(words[TOTAL : TOTAL_HIGH + 1].view(np.uint64)[0])
        last, largest = (float(word) for word in words[LAST : LARGEST + 1].view(np.float32))
        return {
            "iterations": total / max(1, self.step - self._restored_at),
            "residual": last,
            "largest_residual": largest,
            "unconverged_steps": float(words[FAILED]),
        }

    def density_errors(self) -> Floats:
        """Return g at the start of the last step, float64 (particles,), in order of ids."""
        return self.by_id(self._start)[:, 3].astype(np.float64)

    def pressures(self) -> Floats:
        """Return the pressures of the last step, float64 (particles,), in order of ids."""
        kept: Floats = by_ids(self.state())["velocities"][:, 3].astype(np.float64)
        return kept / self.time_step

    def _statistics(self) -> NDArray[np.int32]:
        words: NDArray[np.int32] = self.device.download(self.statistics)
        return words

    def _allocate(self) -> None:
        super()._allocate()
        n, iterations = self.particles, int(self.number("iterations"))
        self._uses_gradients = self.parameters["solver"] == SOLVERS[0]
        whole, rest = divmod(iterations, int(self.number("restart")))
        self._rounds = [int(self.number("restart"))] * whole + [rest] * bool(rest)
        slots = iterations + 2 * len(self._rounds) + 2
        self.progress = self.array(slots * SLOT, "int32")
        self.statistics = self.array(WORDS, "int32")
        self._points = self.array((n, 4), "uint32")
        self._start, self._after, self._sway = (self.array((n, 4), "float32") for _ in range(3))
        self._x, self._r, self._image, self._diagonal = (self.array(n, "float32") for _ in range(4))
        self._held, self._noted = self.array(n, "int32"), self.array(n, "int32")
        self._is_resident = self.device.backend == "cuda" and self._uses_gradients
        self._meetings = self.array(3, "uint64")
        near = math.ceil(NOTED * self.number("neighbours"))
        self._near, self._notes = near, self.array(n * near, "int32")
        self._matrix = self.array(n * near * MATRICES[str(self.parameters["matrix"])], "float32")

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        packed = self.liquid.packed(self.particles)
        self._packed, self._limit = self.device.upload(packed.view("uint8")), packed["limit"][0]
        matrix = [*MATRICES].index(str(self.parameters["matrix"]))
        constants = {**self.constants, "NEAR": self._near, "MATRIX": matrix}
        names = list(KERNELS)
        if self._is_resident:
            constants["RESIDENT_BLOCKS"] = RESIDENT_BLOCKS
            names.append("solve_resident")
        self._kernels = {
            name: self.device.kernel("constraint_fluid.cu", name, **constants) for name in names
        }

    def _note_neighbours(self) -> None:
        self._kernels["note_neighbours"](
            self.blocks, BLOCK, self.current[0], *self.candidates, self.packed_box, self.clock,
            self.particles, len(self.progress), self._noted, self._notes, self.progress,
            self.statistics,
        )  # fmt: skip

    def _prepare_solve(self) -> None:
        self._kernels["blocks"](
            self.blocks, BLOCK, *self.current, *self.candidates, self._noted, self._notes,
            self.packed_box, self._packed, self.particles, self._points, self._start,
            self._diagonal, self._x, self._matrix,
        )  # fmt: skip

    def _solve(self) -> None:
        """Queue the maximum number of iterations; those after convergence exit at once."""
        if not self._uses_gradients:
            self._by_jacobi()
        elif self._is_resident:
            self.device.fill(self._meetings, 0xFF)
            # Every resident block takes equally many blocks of particles, as few as possible.
            turns = -(-self.blocks // (RESIDENT_BLOCKS * self.device.compute_units))
            blocks = -(-self.blocks // turns)
            self._launch(
                "solve_resident", self._meetings, int(self.number("iterations")),
                int(self.number("restart")), blocks=blocks,
            )  # fmt: skip
        else:
            self._by_gradients()

    def _by_gradients(self) -> None:
        """Queue rounds that choose an active set and run conjugate gradients on it."""
        slot, before = 0, -1
        for iterations in self._rounds:
            self._launch("cut_pressures", slot, 0)
            self._evaluate(slot, before, counts=False)
            if self.device.is_cpu and self._is_done(slot):
                return
            before = slot
            for number in range(iterations):
                self._launch("directions", slot, int(number == 0))
                self._launch("push_all_along", slot)
                self._launch("images", slot)
                self._launch("follow_all", slot)
                slot += 1
            slot += 1
        self._launch("cut_pressures", slot, 0)
        self._evaluate(slot, before, counts=False)

    def _is_done(self, slot: int) -> bool:
        """Read back whether a slot has converged; on a CPU this is cheaper than idle launches."""
        first = slot * SLOT + SQUARES
        words = self.device.download(self.progress)[first : first + LIMBS].view(np.uint32)
        total = sum(int(word) << (13 * place) for place, word in enumerate(words))
        return not np.float32(total) > np.float32(self._limit)

    def _by_jacobi(self) -> None:
        """Queue projected Jacobi steps."""
        iterations = int(self.number("iterations"))
        self._launch("cut_pressures", 0, 0)
        for slot in range(iterations):
            self._evaluate(slot, slot - 1, counts=True)
            self._launch("cut_pressures", slot + 1, 1)
        self._evaluate(iterations, iterations - 1, counts=False)

    def _evaluate(self, slot: int, before: int, *, counts: bool) -> None:
        """Queue kernels for velocities and residuals, which exit if slot `before` converged."""
        self._launch("push_all", slot, before)
        self._launch("residuals", slot, before, int(counts))

    def _launch(self, stage: str, *about: Any, blocks: int | None = None) -> None:
        """Queue the kernel `stage` of the solve."""
        self._kernels[stage](
            blocks or self.blocks, BLOCK, self._points, *self.candidates, self._noted, self._notes,
            self.packed_box, self._packed, self.current[1], self._start, self._diagonal,
            self._matrix, self._x, self._r, self._image, self._after, self._sway, self._held,
            self.progress, self.statistics, self.particles, *about,
        )  # fmt: skip

    def _integrate(self) -> None:
        self._kernels["integrate"](
            self.blocks, BLOCK, self.current[0], self._after, self._x, self.order, self.since,
            self.packed_box, self._packed, self.clock, self.particles,
            (self.skin / 2) ** 2, self.progress, self.statistics, self.places,
            self.state_columns[0], self.stale, self.fault,
        )  # fmt: skip
        self.stepped()
