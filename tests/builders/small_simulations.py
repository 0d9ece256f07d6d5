"""Small simulations of any workload over any cell list, and their trajectories bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpubench import registry
from gpubench.devices import Device, missing_feature
from gpubench.problems.cells.contract import CellList

FORMS = [
    (name, form)
    for name, cls in registry.algorithms().items()
    if issubclass(cls, CellList)
    for form in cls.forms
]
# Chunks of the default size are made for more particles than there are here.
ROOM = {"fixed-capacity": {"capacity": 64}, "adaptive-bitonic": {"chunk": 32}}


def made(
    device: Device,
    workload: Any,
    algorithm: str = "counting-sort",
    form: str = "order",
    particles: int = 700,
    seed: int = 5,
    skin: float = 0.0,
    **parameters: Any,
) -> Any:
    """Return a simulation; skip where the device cannot keep its cells so."""
    cls: Any = registry.find_algorithm(algorithm)
    if lacking := missing_feature(cls.forms[form].requires, device):
        pytest.skip(lacking)
    given = {**ROOM.get(algorithm, {}), **parameters}
    return workload(device, particles, cls, form, given, seed, skin)


def bits(simulation: Any) -> bytes:
    """Return the state in the order of ids, bit for bit."""
    state = simulation.state()
    by_id = np.argsort(state["places"][:, 3])
    bodies = state.pop("bodies", np.zeros(0))
    parts = [state[name][by_id] for name in sorted(state.keys() - {"step"})]
    return b"".join(part.tobytes() for part in [*parts, bodies])


def trajectory(simulation: Any, steps: int) -> bytes:
    """Return the state after some steps, bit for bit."""
    simulation.advance(steps)
    simulation.require_sound()
    return bits(simulation)
