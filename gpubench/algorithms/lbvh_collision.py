"""Collision of two meshes over a linear bounding volume hierarchy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.primitives.linear_bvh import LinearBvh
from gpubench.problems.collision.contract import Collisions, MeshCollision
from gpubench.problems.collision.inputs import MeshPair

BLOCK = 128
FEWEST_PLACES = 2**14
SLACK = 2.0**-19  # times the largest coordinate: bounds the float32 error of transforming triangles


class LbvhCollision(MeshCollision):
    """Each triangle of the second mesh independently traverses a tree over the first mesh.

    capacity: maximum number of triangle pairs with overlapping boxes; 0 for eight times the
        triangles of both meshes, but at least 2^14.
    """

    name = "lbvh-collision"
    summary = "depth-first traversal of a linear BVH of the first mesh"
    source = "Karras 2012, Maximizing parallelism in the construction of BVHs"
    forms: ClassVar[Mapping[str, Form]] = {
        "given-tree": Form("the tree is built when the input is loaded"),
        "built-tree": Form("each launch builds the tree, then traverses it"),
    }
    defaults: ClassVar[Mapping[str, int]] = {"capacity": 0}
    loses = "lost"

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task: `build-and-collide`, or `collide` if the tree is given."""
        return ("build-and-collide" if form == "built-tree" else "collide"), None

    def prepare(self) -> None:
        if self.parameters["capacity"] < 0:
            raise UserError(f"capacity must be at least 0, not {self.parameters['capacity']}")
        self._room = self.parameters["capacity"] or max(FEWEST_PLACES, 8 * sum(self.faces))
        self._pose = self.allocate((3, 4), "float32")
        self._boxes = self.allocate((2 * self.faces[0], 4), "float32")
        self._candidates, self._pairs = (self.allocate((self._room, 2), "int32") for _ in range(2))
        self._count, self._found = (self.allocate(1, "int32") for _ in range(2))
        self._counts = self.allocate(2, "int32")
        self._tree = LinearBvh(self.device, self.faces[0])
        self.workspace_bytes += self._tree.workspace_bytes
        names = ["make_boxes", "traverse", "test_candidates", "finish"]
        self._kernels = {
            name: self.device.kernel("lbvh_collision.cu", name, BLOCK=BLOCK) for name in names
        }

    def load(self, inputs: MeshPair) -> None:
        """Upload triangles and pose; in the form `given-tree`, also build the tree."""
        meshes = inputs.first, inputs.second
        self._triangles = [self.device.upload(mesh.reshape(-1, 9)) for mesh in meshes]
        self.device.write(self._pose, inputs.pose)
        self._slack = SLACK * inputs.largest
        corners = inputs.first.reshape(-1, 3)
        low, high = corners.min(axis=0), corners.max(axis=0)
        self._low = float(low[0]), float(low[1]), float(low[2])
        self._edge = float((high - low).max())
        if self.form == "given-tree":
            self._build()

    def _build(self) -> None:
        n = self.faces[0]
        self._kernels["make_boxes"](
            self.device.blocks(n, BLOCK), BLOCK, self._triangles[0], n, self._boxes
        )
        self._tree.launch(self._boxes, self._low, self._edge)

    def launch(self) -> None:
        """Find the intersecting pairs of triangles of the loaded meshes."""
        if self.form == "built-tree":
            self._build()
        for count in (self._count, self._found):
            self.device.fill(count, 0x00)
        blocks, (leaves, n), tree = self.device.blocks, self.faces, self._tree
        self._kernels["traverse"](
            blocks(n, BLOCK), BLOCK, self._triangles[1], n, tree.children, tree.node_boxes,
            tree.leaf_boxes, tree.order, leaves, self._pose, self._slack, self._candidates,
            self._count, self._room,
        )  # fmt: skip
        self._kernels["test_candidates"](
            blocks(n, BLOCK), BLOCK, self._candidates, self._count, self._room, *self._triangles,
            self._pose, self._pairs, self._found,
        )  # fmt: skip
        self._kernels["finish"](1, 1, self._count, self._found, self._room, self._counts)

    @property
    def answer(self) -> Collisions:
        return Collisions(self._pairs, self._counts)

    def outcome(self) -> dict[str, int | float | str]:
        pairs, lost = self.device.download(self._counts).tolist()
        tested = int(self.device.download(self._count)[0])
        return {"triangle_tests": tested, "pairs_found": pairs, "lost": lost}

    def traffic_bytes(self) -> None:
        """Return None: the number of boxes read from memory depends on the caches."""
