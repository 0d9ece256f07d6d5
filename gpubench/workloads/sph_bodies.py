"""Rigid bodies in SPH fluid, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.devices.base import Device, Kernel
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.rigid import RigidBody
from gpubench.physics.sph import SPHFluid
from gpubench.workloads.cell_workload import BLOCK

AXES = (2, 0, 1)  # the memory axes of a scene's x, y and z
# `struct Body` in kernels/sph_bodies.cu.
BODY_DTYPE = np.dtype([
    ("inverse_mass", np.float32), ("inverse_inertia", np.float32, 3), ("share", np.float32),
    ("radius", np.float32), ("first", np.int32), ("last", np.int32),
])  # fmt: skip


class BodyKernels(Protocol):
    """The kernels for bodies, and the fluid constants they read; see `SPHKernels`."""

    fluid: Any
    place_bodies: Kernel
    couple: Kernel
    move_bodies: Kernel


class BodiesOnDevice:
    """Rigid bodies and their particles on a device.

    pushes: float32 (body particles, 4), the forces of the fluid on the body particles, divided by
    the mass of a fluid particle.
    """

    def __init__(
        self, device: Device, bodies: Sequence[RigidBody], fluid: SPHFluid, box: Box
    ) -> None:
        self.device, self.bodies = device, bodies
        ends = np.cumsum([len(body.offsets) for body in bodies])
        self.count = int(ends[-1])
        packed = np.zeros(len(bodies), BODY_DTYPE)
        offsets = np.zeros((self.count, 4), np.float32)
        for number, (body, end) in enumerate(zip(bodies, ends, strict=True)):
            rows = slice(end - len(body.offsets), end)
            packed[number] = (
                fluid.mass / body.mass, fluid.mass / body.inertia,
                body.mass / fluid.mass / len(body.offsets), body.bounding_radius,
                rows.start, rows.stop,
            )  # fmt: skip
            offsets[rows, :3] = body.offsets
            offsets[rows, 3] = np.int32(number).view(np.float32)
        self._packed, self._offsets = device.upload(packed.view("uint8")), device.upload(offsets)
        self._states = [device.empty((len(bodies), 4), "float32") for _ in range(4)]
        self._before = device.empty((len(bodies), 4), "float32")
        self._places, self._speeds, self._arms, self.pushes = (
            device.empty((self.count, 4), "float32") for _ in range(4)
        )
        arrays = (self._offsets, *self._states, self._before, self._places, self._speeds)
        self.workspace_bytes = sum(a.nbytes for a in (*arrays, self._arms, self.pushes))

    def download_states(self) -> NDArray[np.float32]:
        """Return the states of the bodies, float32 (bodies, 4, 4); see `pack_states`."""
        return np.stack([self.device.download(part) for part in self._states], axis=1)

    def upload_states(self, states: NDArray[np.float32]) -> None:
        """Restore states returned by `download_states`."""
        for part, array in enumerate(self._states):
            self.device.write(array, np.ascontiguousarray(states[:, part]))

    def place(self, kernels: BodyKernels, box: Any) -> None:
        """Queue the kernel that computes positions and velocities of the body particles."""
        kernels.place_bodies(
            self.device.blocks(self.count, BLOCK), BLOCK, self._packed, *self._states,
            self._offsets, box, self.count, self._before, self._places, self._speeds, self._arms,
        )  # fmt: skip

    def couple(
        self,
        kernels: BodyKernels,
        places: Any,
        flow: Any,
        candidates: tuple[Any, Any],
        box: Any,
        particles: int,
        rows: tuple[int, int],
        planes: tuple[int, int],
        force: Any,
    ) -> None:
        """Queue the kernel of contacts with the fluid in `rows`, which fills the cell `planes`."""
        kernels.couple(
            self.device.blocks(self.count, BLOCK), BLOCK, self._places, self._speeds, self.count,
            places, flow, *candidates, box, kernels.fluid, particles, *rows, *planes, force,
            self.pushes,
        )  # fmt: skip

    def move(self, kernels: BodyKernels, box: Any, clock: Any, particles: int, fault: Any) -> None:
        """Queue the kernel that moves the bodies by the forces on their particles."""
        kernels.move_bodies(
            len(self.bodies), BLOCK, self._packed, self._before, self._places, self._speeds,
            self._arms, self.pushes, box, kernels.fluid, clock, len(self.bodies), particles,
            *self._states, fault,
        )  # fmt: skip


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    return tuple(int(axis) for axis in np.argsort(axes))


def in_memory(values: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Reorder three values from the scene's order of axes to memory order."""
    x, y, z = (values[axis] for axis in inverse(AXES))
    return x, y, z


def body_in_memory(body: RigidBody) -> RigidBody:
    """Permute the axes of a scene's body, and of its own frame, to memory order.

    The permutation is even, so rotations keep their sense.
    """
    order = list(inverse(AXES))
    turn = body.orientation
    return RigidBody(
        body.centre[order],
        np.array([turn[0], *turn[1:][order]]),
        body.velocity[order],
        body.angular_momentum[order],
        body.mass,
        body.inertia[order],
        body.offsets[:, order],
    )


def pack_states(bodies: Sequence[RigidBody], fluid: SPHFluid, box: Box) -> NDArray[np.float32]:
    """Return the states of bodies in the kernels' layout: float32 (bodies, 4, 4).

    For each body: the bits of the centre's place and of the body's number; orientation (x, y, z,
    w); velocity; angular momentum, divided by the mass of a fluid particle.
    """
    states = np.zeros((len(bodies), 4, 4), np.float32)
    for number, body in enumerate(bodies):
        place = np.append(box.to_units(body.centre[None])[0], np.uint32(number)).astype(np.uint32)
        states[number, 0] = place.view(np.float32)
        states[number, 1] = np.roll(body.orientation, -1)
        states[number, 2, :3] = body.velocity
        states[number, 3, :3] = body.angular_momentum / fluid.mass
    return states


def unpack_states(
    states: NDArray[np.float32], bodies: Sequence[RigidBody], fluid: SPHFluid, box: Box
) -> list[RigidBody]:
    """Return bodies with states computed by the kernels; see `pack_states`."""
    found = []
    for state, body in zip(states, bodies, strict=True):
        centre = box.to_positions(state[:1].copy().view(np.uint32))[0]
        orientation = np.roll(state[1].astype(np.float64), 1)
        found.append(
            RigidBody(
                centre, orientation / np.linalg.norm(orientation),
                state[2, :3].astype(np.float64), state[3, :3] * np.float64(fluid.mass),
                body.mass, body.inertia, body.offsets,
            )
        )  # fmt: skip
    return found


def require_possible_bodies(states: NDArray[np.float32], box: Box) -> None:
    """Raise UserError if states, packed as by `pack_states`, are impossible for bodies."""
    places = np.ascontiguousarray(states[:, 0]).view(np.uint32)
    turns = np.linalg.norm(states[:, 1].astype(np.float64), axis=1)
    if (
        (places[:, :3].max(axis=0) >= box.units).any()
        or (places[:, 3] != np.arange(len(states))).any()
        or not np.isfinite(states[:, 1:]).all()
        or not np.allclose(turns, 1.0, rtol=0, atol=1e-3)
    ):
        raise UserError("a state has bodies outside the box, or whose motion is no finite number")


def inside_box(positions: Floats, box: Box) -> Floats:
    """Return positions wrapped at periodic edges, and clamped to the walls."""
    size = np.asarray(box.size)
    wrapped = np.where(box.periodic, positions % size, positions)
    return np.clip(wrapped, 0.0, np.nextafter(size, 0))
