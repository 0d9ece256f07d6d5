"""The Flexible Collision Library on the host, through python-fcl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.algorithm import Form
from gpubench.core.host_work import HostWork
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version, need
from gpubench.problems.collision.contract import Collisions, MeshCollision
from gpubench.problems.collision.inputs import MeshPair

MOST_CONTACTS = 2**31 - 1


class FclCollision(HostWork, MeshCollision):
    """`fcl.collide` of two models on one core: all intersecting triangles, no contact points.

    The OBBRSS trees are built when the input is loaded. python-fcl returns the contacts as a Python
    list; converting it to arrays is not timed.
    """

    name = "fcl-collision"
    summary = "fcl.collide on the host, all pairs of triangles"
    source = "FCL through python-fcl"
    forms: ClassVar[Mapping[str, Form]] = {
        "host": Form("depth first over trees of boxes, in float64", capturable=False)
    }

    def prepare(self) -> None:
        self._fcl: Any = need("fcl", "python-fcl", "meshes")
        self.library = name_with_version("python-fcl")
        self._result: Any = None

    def load(self, inputs: MeshPair) -> None:
        """Build the models of both meshes, with their trees."""
        fcl, pose = self._fcl, inputs.pose.astype(np.float64)
        places = fcl.Transform(), fcl.Transform(pose[:, :3], pose[:, 3])
        self._objects = [
            fcl.CollisionObject(self._model(mesh), place)
            for mesh, place in zip((inputs.first, inputs.second), places, strict=True)
        ]

    def _model(self, triangles: NDArray[np.float32]) -> Any:
        model, corners = self._fcl.BVHModel(), triangles.reshape(-1, 3).astype(np.float64)
        model.beginModel(len(corners), len(triangles))
        model.addSubModel(corners, np.arange(len(corners)).reshape(-1, 3))
        model.endModel()
        return model

    def launch(self) -> None:
        """Wait until the device is idle, then collide."""
        self.device.synchronize()
        self._collide()

    def _collide(self) -> None:
        self._result = self._fcl.CollisionResult()
        request = self._fcl.CollisionRequest(num_max_contacts=MOST_CONTACTS, enable_contact=False)
        self._fcl.collide(*self._objects, request, self._result)

    @property
    def answer(self) -> Collisions:
        if self._result is None:  # poisoned: return an invalid number of pairs
            return Collisions(np.zeros((0, 2), np.int32), np.array([-1, 0], np.int32))
        contacts = [(each.b1, each.b2) for each in self._result.contacts]
        pairs = np.array(contacts, np.int32).reshape(-1, 2)
        return Collisions(pairs, np.array([len(pairs), 0], np.int32))

    def poison(self) -> None:
        """Drop the last result."""
        self._result = None

    def outcome(self) -> dict[str, int | float | str]:
        return {"pairs_found": len(self._result.contacts)}

    def peak_bytes(self) -> int | None:
        return peak_of(self._collide)
