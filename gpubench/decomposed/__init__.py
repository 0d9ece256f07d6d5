"""SPH that several ranks share: each has planes of cells, and copies of the planes beside them.

In memory a plane is one stretch, so what ranks exchange are rows of arrays. In each step the
edges of a part travel to its neighbours while its inner planes are computed: places for the
densities, then velocities and densities for the forces (silva2012, section 6, Algorithm 2). All
sums are exact, so any number of ranks gives the same trajectory to the bit.

`slab`: each rank keeps its particles, and hands those that cross over to its neighbours while it
moves the others; planes change hands when loads have drifted apart. `master`: rank 0 keeps all
particles; in each step it sorts them, deals out equal parts, and gets them back, as the paper has
it.
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
    """Return a workload's class whose simulations the ranks of a device's team share.

    That is the workload itself where there is no decomposition. Raises UserError for a workload
    that cannot be shared.
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
