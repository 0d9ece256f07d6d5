"""SPH shared by several ranks: each has planes of cells, and copies of adjacent planes (halo).

In memory a plane is contiguous, so ranks exchange rows of arrays. In each step the edge planes of a
part travel to its neighbours while its inner planes are computed: positions for the densities, then
velocities and densities for the forces (silva2012, section 6, Algorithm 2). All sums are exact, so
any number of ranks gives bitwise the same trajectory.

`slab`: each rank keeps its particles. It passes migrants (particles that cross to another rank) to
its neighbours while it moves the others; planes are reassigned when loads become unequal. `master`:
as in the paper, rank 0 keeps all particles, and in each step sorts, distributes and collects them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpubench.base.errors import UserError
from gpubench.decomposed.master import Master
from gpubench.decomposed.shared import Shared
from gpubench.decomposed.slab_ranks import Slabs
from gpubench.devices.base import Device
from gpubench.workloads.sph import SPH
from gpubench.workloads.workload import Workload

DECOMPOSITIONS: Mapping[str, type[Shared]] = {kind.decomposition: kind for kind in (Slabs, Master)}


def share(workload: type[Workload], decomposition: str | None, device: Device) -> type[Workload]:
    """Return a subclass of a workload whose simulations the device's ranks share.

    Without a decomposition, returns the workload itself. Raises UserError for a workload that
    cannot be shared.
    """
    if decomposition is None:
        return workload
    if not issubclass(workload, SPH):
        raise UserError(
            f"{workload.name} runs on one rank: start it without mpirun; what ranks can share are"
            " the SPH workloads, such as sph-dam-break"
        )
    kind = DECOMPOSITIONS[decomposition]
    return type(f"{kind.__name__}{workload.__name__}", (kind, workload), {"team": device.team})
