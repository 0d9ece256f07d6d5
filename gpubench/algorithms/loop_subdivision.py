"""Uniform and adaptive Loop subdivision; each triangle is stored with its neighbourhood."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.primitives.filters import FILTERS, Stream
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.subdivision.contract import Subdivided, Subdivision
from gpubench.problems.subdivision.inputs import LoopMesh

BLOCK = 128
PLANES, BYTES = 12, 192  # float4s, and bytes, per triangle with its neighbourhood
TESTS = {"uniform": 0, "by-screen": 1, "by-bend": 2}
# `by-screen` with a stream filter in place of the scan that numbers split and finished triangles.
FILTERED = {f"by-screen-{name}": how for name, how in FILTERS.items()}
TESTS |= dict.fromkeys(FILTERED, TESTS["by-screen"])
NEAR = 1e-3  # smaller depths, and negative ones behind the camera, are clamped to this
BETA = {n: (5 / 8 - (3 / 8 + math.cos(2 * math.pi / n) / 4) ** 2) / n for n in (4, 5)}
WEIGHTS = {f"BETA_{n}": f"{beta!r}f" for n, beta in BETA.items()}
WEIGHTS |= {f"OWN_{n}": f"{1 - n * beta!r}f" for n, beta in BETA.items()}

Step = tuple[int, str, Callable[[], None]]  # level, name, function that queues the launches


class LoopSubdivision(Subdivision):
    """Splits triangles level by level; adaptive forms filter finished triangles out of the stream.

    Filters work on triangle indices; a scan counts the triangles that close gaps. All filters yield
    the same triangles, in different orders.

    pixels: for `by-screen`, an edge shorter than this on the screen is finished; with 0, none is.
    bend_percent: for `by-bend`, an edge PQ between triangles PQR and QPS is finished if
        |R + S - P - Q| is less than this percentage of |PQ|.
    capacity: maximum number of triangles on a level and in the answer; 0 for as many as `uniform`
        makes, which suffices for any adaptive mesh.
    """

    name = "loop-subdivision"
    summary = "Loop subdivision of triangles with their neighbourhood, 192 bytes each"
    source = "horn2005, section 36.4; Loop 1987"
    forms: ClassVar[Mapping[str, Form]] = {
        "uniform": Form("every triangle is split; a count takes the filter's place"),
        "by-screen": Form("until edges are short on the screen; a scan filters both halves"),
        "by-bend": Form("until the surface bends little across edges; a scan filters both halves"),
        **{
            form: Form(
                f"as by-screen, both halves by filter-{form.removeprefix('by-screen-')}"
                + ("" if how.stable else "; triangles in no order"),
                requires=how.requires,
            )
            for form, how in FILTERED.items()
        },
    }
    defaults: ClassVar[Mapping[str, int]] = {"pixels": 8, "bend_percent": 10, "capacity": 0}
    conformance_parameters: ClassVar[Mapping[str, int]] = {"pixels": 60, "bend_percent": 30}
    loses = "lost"

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the criterion for finished edges as the task, without the name of a filter."""
        return ("by-screen" if form in FILTERED else form), None

    def prepare(self) -> None:
        for name in self.defaults:
            if self.parameters[name] < 0:
                raise UserError(f"{name} must be at least 0, not {self.parameters[name]}")
        test = TESTS[self.form]
        self._bound = (
            0.0,
            float(self.parameters["pixels"]),
            self.parameters["bend_percent"] / 100,
        )[test]
        is_filtered = self.form in FILTERED
        constants: dict[str, int | str] = {
            "BLOCK": BLOCK, "TEST": test, "NEAR": f"{NEAR!r}f", "FILTERED": int(is_filtered),
        }  # fmt: skip
        names = ["begin", *(["classify", "split_some", "advance"] if test else ["split_all"])]
        self._kernels = {
            name: self.device.kernel("loop_subdivision.cu", name, **constants, **WEIGHTS)
            for name in [*names, *(["number"] if is_filtered else [])]
        }
        self._counts = self.allocate(3, "int32")
        self._view = self.allocate((3, 4), "float32")
        most = self.faces * 4**self.depth
        self._room = self.parameters["capacity"] or most
        if test:
            self._prepare_filter(most)
            return
        # Levels alternate between two buffers, sized for the last two levels.
        sizes = [self.faces * 4**level for level in (self.depth, self.depth - 1)]
        self._levels = [self.allocate((PLANES * size, 4), "float32") for size in sizes]

    def _prepare_filter(self, most: int) -> None:
        """Allocate the buffers of adaptive forms, whose answer omits the neighbourhoods."""
        self._sizes = [
            min(self.faces * 4**level, max(self.faces, self._room)) for level in range(self.depth)
        ]
        buffers = self._sizes[-1], max(self._sizes[-2:-1], default=0)
        self._levels = [self.allocate((PLANES * size, 4), "float32") for size in buffers]
        self._finished = self.allocate((3, min(self._room, most), 4), "float32")
        self._goes_on, self._leaves = (self.allocate(self._sizes[-1], "int32") for _ in range(2))
        self._places, self._before = (self.allocate(self._sizes[-1] + 1, "int32") for _ in range(2))
        self._scans = [ExclusiveScan(self.device, size) for size in self._sizes]
        self._filters = [
            FILTERED[self.form](self.device, size, both=True)
            for size in self._sizes
            if self.form in FILTERED
        ]
        self.workspace_bytes += sum(scan.workspace_bytes for scan in self._scans)
        self.workspace_bytes += sum(each.workspace_bytes for each in self._filters)
        if not self._filters:
            return
        places = self._sizes[-1]
        self._indices, kept, rest = (self.allocate((places, 1), "int32") for _ in range(3))
        self.device.write(self._indices, np.arange(places, dtype=np.int32)[:, None])
        self._kept, self._rest = (Stream(half, self.allocate(1, "int32")) for half in (kept, rest))

    def load(self, inputs: LoopMesh) -> None:
        """Upload the triangles with their neighbourhoods, and the camera."""
        self._mesh = self.device.upload(inputs.triangles)
        self.device.write(self._view, inputs.view)

    def launch(self) -> None:
        """Subdivide the loaded mesh."""
        for _, _, queue in self.level_steps():
            queue()

    def level_steps(self) -> list[Step]:
        """Return the steps of a launch, each with its level; the last step writes the counts."""
        if self.form == "uniform":
            return self._uniform_steps()
        steps: list[Step] = [(0, "begin", partial(self._begin, self.faces, 0))]
        source = self._mesh
        for level, size in enumerate(self._sizes):
            # The last level stored with neighbourhoods goes to the larger buffer.
            target = self._levels[(self.depth - level) % 2]
            room = self._sizes[min(level + 1, self.depth - 1)]
            steps += self._adaptive_steps(source, target, size, room, level)
            source = target
        return steps

    def _begin(self, going_on: int, finished: int) -> None:
        self._kernels["begin"](1, 1, self._counts, going_on, finished)

    def _uniform_steps(self) -> list[Step]:
        steps: list[Step] = []
        source, parents = self._mesh, self.faces
        for level in range(self.depth):
            target = self._levels[(self.depth - 1 - level) % 2]
            split = partial(
                self._kernels["split_all"], self.device.blocks(parents, BLOCK), BLOCK, source,
                target, parents,
            )  # fmt: skip
            steps.append((level, "split", split))
            source, parents = target, 4 * parents
        return [*steps, (self.depth - 1, "count", partial(self._begin, 0, parents))]

    def _adaptive_steps(
        self, source: Any, target: Any, size: int, room: int, level: int
    ) -> list[Step]:
        """Return the steps of a level: classify, number (or filter), split and count triangles."""
        grid, counts = (self.device.blocks(size, BLOCK), BLOCK), self._counts
        is_last = level + 1 == self.depth
        plane, next_plane = np.int64(size), np.int64(room)
        capacity = np.int64(self._finished.shape[1])
        classify = partial(
            self._kernels["classify"], *grid, source, plane, counts, self._view, self._bound,
            self._goes_on, self._leaves, size,
        )  # fmt: skip
        sizes = (self._kept.size, self._rest.size) if self._filters else (self._places,) * 2
        split = partial(
            self._kernels["split_some"], *grid, source, plane, counts, self._view, self._bound,
            self._places, self._before, *sizes, target, next_plane, self._finished, capacity, size,
            level + 1, is_last,
        )  # fmt: skip
        count = partial(
            self._kernels["advance"], 1, 1, counts, self._before, *sizes, next_plane, capacity,
            size, is_last,
        )  # fmt: skip
        scan = self._scans[level].launch
        numbering = [partial(scan, self._goes_on, self._places)]
        if self._filters:
            halves = self._kept, self._rest
            numbering = [
                partial(self._filters[level].launch, self._indices, self._goes_on, counts, *halves),
                partial(
                    self._kernels["number"], *grid, *self._kept, *self._rest, self._places, size
                ),
            ]
        return [
            (level, "classify", classify),
            *((level, "filter", queue) for queue in numbering),
            (level, "filter", partial(scan, self._leaves, self._before)),
            (level, "split", split),
            (level, "count", count),
        ]

    @property
    def answer(self) -> Subdivided:
        if self.form != "uniform":
            return Subdivided(self._finished, self._counts)
        triangles = self.faces * 4**self.depth
        return Subdivided(self._levels[0][: 3 * triangles].reshape(3, triangles, 4), self._counts)

    def outcome(self) -> dict[str, int | float | str]:
        _, triangles, lost = self.device.download(self._counts).tolist()
        return {"triangles": triangles, "lost": lost}

    def traffic_bytes(self) -> int | None:
        """Return the bytes of reading each level and writing the next; None for adaptive forms."""
        if self.form != "uniform":
            return None
        # Each level reads its triangles and writes four times as many.
        return int(BYTES * 5 * self.faces * (4**self.depth - 1) // 3)
