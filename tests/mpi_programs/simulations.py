"""Run shared simulations one after the other, and tell of each in a line of JSON.

Arguments: a device, and runs as `Run` has them, as a list in JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpubench.devices import Device
from gpubench.simulate.ranks import Crew
from gpubench.simulate.setup import Setup
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


def bits(simulation: SPH, with_computed: bool = True) -> str:
    """Return a hash of all that a simulation has, in order of ids, which it counts by the way.

    with_computed: also of densities and accelerations, which are those of the last step.
    """
    state = simulation.state()
    by_id = np.argsort(state["places"][:, 3], kind="stable")
    arrays: list[Any] = [state["places"][by_id], state["velocities"][by_id]]
    arrays += [state["bodies"]] if "bodies" in state else []
    if with_computed:
        arrays += [simulation.computed(name)[by_id] for name in ("flow", "force")]
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def moments(run: Run, device: Device) -> list[dict[str, Any]]:
    """Do a run; return step, bits, and bounds of the parts at each moment.

    The last step before a moment is done phase by phase, as it is when phases are timed.
    """
    setup = Setup(run.workload, run.particles, parameters=run.parameters)
    simulation = setup.make(device, run.decomposition)
    assert isinstance(simulation, SPH)
    found = []
    for _ in range(run.steps // run.every):
        simulation.advance(run.every - 1)
        for _, launch in simulation.phases():
            launch()
        simulation.require_sound()
        bounds = getattr(simulation, "bounds", np.zeros(0)).tolist()
        found.append({"step": simulation.step, "bits": bits(simulation), "bounds": bounds})
    return found


def main() -> None:
    crew = Crew.join(sys.argv[1])
    with crew.ends_all():
        if crew.follows:
            crew.follow()
            return
        with crew.lead() as device:
            for given in json.loads(sys.argv[2]):
                print(json.dumps(moments(Run(**given), device)), flush=True)


if __name__ == "__main__":
    main()
