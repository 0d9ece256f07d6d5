"""Collision of two meshes by breadth-first traversal of trees of oriented boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.algorithm import Form
from gpubench.primitives.filters import FILTERS, AtomicFilter, Stream
from gpubench.problems.collision.contract import Collisions, MeshCollision
from gpubench.problems.collision.inputs import MeshPair

BLOCK = 128
FEWEST_PLACES = 2**14
MOST_UNFILTERED = 24  # maximum number of levels without a filter: each doubles the stream
SLACK = 2.0**-19  # times the largest coordinate: bounds the float32 error of transforming boxes
UNFILTERED = "no-filter"

Step = tuple[int, str, Callable[[], None]]  # level, name, function that queues the launches


class ObbCollision(MeshCollision):
    """Each level tests, filters, partitions and expands pairs; the form selects the filter.

    The number of pairs on a level stays on the device: a launch reads nothing back. `load` runs one
    traversal that reads these numbers back, and rounds them up to powers of two, for which launches
    are sized; a launch counts pairs beyond that as lost.

    capacity: maximum number of pairs on a level, of leaf pairs, and of pairs in the answer; 0 for
        four times the triangles of both meshes, but at least 2^14.
    """

    name = "obb-collision"
    summary = "breadth-first traversal of two trees of oriented bounding boxes"
    source = "horn2005, Listing 36-4; Gottschalk, Lin and Manocha 1996"
    forms: ClassVar[Mapping[str, Form]] = {
        **{
            name: Form(
                f"levels are filtered and parted by filter-{name}"
                + ("" if how.stable else "; pairs in no order"),
                requires=how.requires,
            )
            for name, how in FILTERS.items()
        },
        UNFILTERED: Form("each level is twice as long as the one before, whatever was rejected"),
    }
    defaults: ClassVar[Mapping[str, int]] = {"capacity": 0}
    loses = "lost"

    def prepare(self) -> None:
        if self.parameters["capacity"] < 0:
            raise UserError(f"capacity must be at least 0, not {self.parameters['capacity']}")
        self._room = self.parameters["capacity"] or max(FEWEST_PLACES, 4 * sum(self.faces))
        self._room += self._room % 2  # `expand` writes an even number of pairs
        self._pose = self.allocate((3, 4), "float32")
        self._counts = self.allocate(2, "int32")
        names = ["begin", "test_boxes", "is_split", "expand", "test_triangles", "finish"]
        if self.form == UNFILTERED:
            self._prepare_unfiltered()
            names = ["begin", "step_unfiltered", "test_unfiltered", "finish"]
        else:
            how = FILTERS[self.form]
            self._drop = how(self.device, self._room, 2)
            self._part = how(self.device, self._room, 2, both=True)
            self.workspace_bytes += self._drop.workspace_bytes + self._part.workspace_bytes
            self._pairs, self._left, self._splits, self._leaves = (
                self._stream(self._room) for _ in range(4)
            )
            self._all_leaves = self.allocate((self._room, 2), "int32")
        # For each level, and one more: its pairs, the leaf pairs of earlier levels, its capacity.
        self._lengths, self._before, self._bounds = (
            self.allocate(self.levels + 2, "int32") for _ in range(3)
        )
        self._keep = self.allocate(self._room, "int32")
        self._found = self._stream(self._room)
        self._none = self.allocate(1, "int32")
        self.device.fill(self._none, 0x00)
        self._kernels = {
            name: self.device.kernel("obb_collision.cu", name, BLOCK=BLOCK) for name in names
        }
        self._most: list[int] = []

    def _prepare_unfiltered(self) -> None:
        if self.levels > MOST_UNFILTERED:
            raise NotSupported(
                f"the trees have {self.levels} levels together, and without a filter each doubles"
                f" the stream: at most {MOST_UNFILTERED}"
            )
        self._room = 2 ** (self.levels + 1)
        self._pair_levels = [self.allocate((self._room, 2), "int32") for _ in range(2)]
        self._pairs = Stream(self._pair_levels[0], self.allocate(1, "int32"))
        self._part = AtomicFilter(self.device, self._room, 2)
        self.workspace_bytes += self._part.workspace_bytes

    def _stream(self, places: int) -> Stream:
        return Stream(self.allocate((places, 2), "int32"), self.allocate(1, "int32"))

    def load(self, inputs: MeshPair) -> None:
        """Upload triangles, trees and pose; with a filter, count the pairs on each level."""
        upload, trees = self.device.upload, inputs.trees
        if (levels := inputs.made_for["levels"]) > self.levels:
            raise UserError(f"made for trees of {self.levels} levels together, not {levels}")
        self._triangles = [upload(tree.triangles.reshape(-1, 9)) for tree in trees]
        self._boxes = [upload(tree.boxes.reshape(-1, 4)) for tree in trees]
        self._links = [upload(tree.links) for tree in trees]
        self.device.write(self._pose, inputs.pose)
        self._slack = SLACK * inputs.largest
        if self.form != UNFILTERED:
            self._follow()

    def _follow(self) -> None:
        """Traverse once, reading back the number of pairs, and set the capacity of each level."""
        download = self.device.download
        self._begin()
        most: list[int] = []
        bounds = np.zeros(self.levels + 2, np.int32)
        while len(most) <= self.levels and (length := int(download(self._pairs.size)[0])):
            bounds[len(most)] = min(self._room, length)
            for _, _, queue in self._level(len(most), int(bounds[len(most)])):
                queue()
            most.append(min(self._room, 1 << length.bit_length(), 2 ** len(most)))
        leaves = int(download(self._before)[len(most)])
        self._most, self._most_leaves = most, min(self._room, 1 << leaves.bit_length())
        bounds[: len(most) + 1] = [*most, self._most_leaves]
        self.device.write(self._bounds, bounds)

    def launch(self) -> None:
        """Find the intersecting pairs of triangles of the loaded meshes."""
        self._begin()
        if self.form == UNFILTERED:
            self._launch_unfiltered()
            return
        for _, _, queue in self._steps():
            queue()
        self._finish(len(self._most))

    def level_steps(self) -> list[Step]:
        """Return the steps of a launch, of which the last test triangles; none without a filter."""
        return [] if self.form == UNFILTERED else [(0, "begin", self._begin), *self._steps()]

    def _steps(self) -> list[Step]:
        levels, most = len(self._most), self._most_leaves
        test = partial(
            self._kernels["test_triangles"], self.device.blocks(most, BLOCK), BLOCK,
            self._all_leaves, self._before, levels, most, *self._links, *self._triangles,
            self._pose, self._keep, self._pairs.size,
        )  # fmt: skip
        last = partial(
            self._drop.launch, self._all_leaves, self._keep, self._pairs.size, self._found,
            most=most,
        )  # fmt: skip
        return [
            *(step for level, most in enumerate(self._most) for step in self._level(level, most)),
            (levels, "test triangles", test),
            (levels, "filter", last),
        ]

    def _begin(self) -> None:
        self._kernels["begin"](1, 1, *self._pairs, self._lengths, self._before)

    def _finish(self, levels: int) -> None:
        self._kernels["finish"](
            1, 1, self._found.size, self._lengths, self._before, self._bounds, levels, self._counts
        )

    def _level(self, level: int, most: int) -> list[Step]:
        """Return the steps of one level with at most `most` pairs."""
        grid, kernels, left = (self.device.blocks(most, BLOCK), BLOCK), self._kernels, self._left
        test = partial(
            kernels["test_boxes"], *grid, *self._pairs, most, *self._boxes, self._pose,
            self._slack, self._keep,
        )  # fmt: skip
        drop = partial(
            self._drop.launch, self._pairs.records, self._keep, self._pairs.size, left, most=most
        )
        find = partial(kernels["is_split"], *grid, *left, most, *self._links, self._keep)
        part = partial(
            self._part.launch, left.records, self._keep, left.size, self._splits, self._leaves,
            most=most,
        )  # fmt: skip
        expand = partial(
            kernels["expand"], *grid, *self._splits, *self._leaves, *self._links, *self._pairs,
            self._all_leaves, self._lengths, self._before, level, self._room,
        )  # fmt: skip
        return [
            (level, "test boxes", test),
            (level, "filter", drop),
            (level, "find leaves", find),
            (level, "filter", part),
            (level, "expand", expand),
        ]

    def _launch_unfiltered(self) -> None:
        """Queue the levels, each with twice as many pairs as the previous level."""
        blocks, (pairs, following) = self.device.blocks, self._pair_levels
        for level in range(self.levels + 1):
            n = 2**level
            self._kernels["step_unfiltered"](
                blocks(n, BLOCK), BLOCK, pairs, following, n, *self._boxes, *self._links,
                self._pose, self._slack,
            )  # fmt: skip
            pairs, following = following, pairs
        self._kernels["test_unfiltered"](
            blocks(self._room, BLOCK), BLOCK, pairs, self._room, *self._links, *self._triangles,
            self._pose, self._keep,
        )  # fmt: skip
        self._part.launch(pairs, self._keep, None, self._found)
        self._finish(-1)

    @property
    def answer(self) -> Collisions:
        return Collisions(self._found.records, self._counts)

    def outcome(self) -> dict[str, int | float | str]:
        pairs, lost = self.device.download(self._counts).tolist()
        if self.form == UNFILTERED:
            lengths, leaves = [2**level for level in range(self.levels + 1)], self._room
        else:
            lengths = self.device.download(self._lengths)[: len(self._most)].tolist()
            leaves = int(self.device.download(self._before)[len(self._most)])
        return {
            "levels": len(lengths),
            "longest": max(lengths),
            "box_tests": sum(lengths),
            "triangle_tests": leaves,
            "pairs_found": pairs,
            "lost": lost,
            "lengths": " ".join(map(str, lengths)),
        }

    def traffic_bytes(self) -> None:
        """Return None: the number of boxes read from memory depends on the caches."""
