"""Run shared simulations one after the other, and tell of each in a line of JSON.

Arguments: a device (see one_gpu.py); runs as `Run` has them, as a list in JSON; and what constants
of gpubench/decomposed/room.py and gpubench/workloads/dpd.py shall be; or DIRECT, for steps as on
GPUs that write each other's memory, with stand-ins for boxes and graphs. With MARKS among them,
ranks look at their coarse positions in each step.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.decomposed import room
from gpubench.decomposed.planes import Planes
from gpubench.devices import Device
from gpubench.simulate.ranks import Crew
from gpubench.simulate.setup import ALGORITHM, Setup
from gpubench.workloads import dpd
from gpubench.workloads.sph import SPH
from gpubench.workloads.workload import Value


@dataclass(frozen=True)
class Run:
    """Steps of a workload, of which moments are kept.

    decomposition: None for one rank. every: steps between moments.
    """

    workload: str
    particles: int
    parameters: dict[str, Value]
    decomposition: str | None
    steps: int
    every: int
    algorithm: str = ALGORITHM


def bits(simulation: SPH | dpd.DPD) -> str:
    """Return a hash of the state, and of what the last step computed."""
    if isinstance(simulation, SPH):
        columns = [simulation.computed("flow"), simulation.computed("force")]
        return hash_of(simulation.state(), *columns)
    state = simulation.state()
    by_id = np.argsort(state["places"][:, 3])
    felt, seen = simulation.felt(state)[by_id], simulation.snapshot()
    velocities = state[simulation.columns[-1]][by_id]
    return hash_of(state, velocities, felt, seen.positions, seen.velocities)


def hash_of(state: Mapping[str, NDArray[Any]], *columns: NDArray[Any]) -> str:
    """Return a hash of a state in order of ids, and of columns that are in that order already.

    Ids are hashed too, so it is another one where a particle is lost or doubled.
    """
    by_id = np.argsort(state["places"][:, 3], kind="stable")
    ordered = [state[name][by_id] for name in ("places", "velocities")]
    found = hashlib.sha256()
    for array in [*ordered, state.get("bodies", np.zeros(0)), *columns]:
        found.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def moments(run: Run, device: Device) -> list[dict[str, Any]]:
    """Do a run; return step, bits, bounds of the parts, and contacts with bodies at each moment.

    The last step before a moment is done phase by phase, as it is when phases are timed.
    """
    setup = Setup(run.workload, run.particles, run.algorithm, parameters=run.parameters)
    simulation = setup.make(device, run.decomposition)
    assert isinstance(simulation, (SPH, dpd.DPD))
    found = []
    for _ in range(run.steps // run.every):
        simulation.advance(run.every - 1)
        for _, launch in simulation.phases():
            launch()
        simulation.require_sound()
        bounds = getattr(simulation, "bounds", np.zeros(0)).tolist()
        touched = bool(getattr(simulation, "bodies", ())) and bool(
            device.download(simulation.on_device.pushes).any()
        )
        if isinstance(simulation, Planes) and getattr(simulation, "bodies", ()):
            own = simulation.workspace_bytes - simulation._part_bytes
            assert own == simulation.on_device.workspace_bytes
        found.append(
            {
                "step": simulation.step,
                "bits": bits(simulation),
                "bounds": bounds,
                "touched": touched,
                "redone": getattr(simulation, "redone", None),
            }
        )
    return found


def main() -> None:
    from one_gpu import share_if  # found only where this is run as a program

    constants = json.loads(sys.argv[3])
    if constants.pop("DIRECT", False):
        from stand_ins import stand_in

        stand_in()
    if "MARKS" in constants:
        from coarse_rows import check_coarse

        check_coarse()
    for name, value in constants.items():
        module = room if hasattr(room, name) else dpd
        assert hasattr(module, name)
        setattr(module, name, value)
    share_if(sys.argv[1])
    crew = Crew.join(sys.argv[1], oversubscribed=True)
    with crew.ends_all():
        if crew.follows:
            crew.follow()
            return
        with crew.lead() as device:
            for given in json.loads(sys.argv[2]):
                print(json.dumps(moments(Run(**given), device)), flush=True)


if __name__ == "__main__":
    main()
