"""SPH and DPD by several ranks: each has planes of cells, and copies of adjacent planes (halo).

In memory a plane is contiguous, so ranks exchange rows of arrays. In each step the edge planes of a
part travel to its neighbours while its inner planes are computed: in SPH positions for the
densities, then velocities and densities for the forces (silva2012, section 6, Algorithm 2); in DPD
positions and velocities at once. All sums are exact, so any number of ranks gives bitwise the same
trajectory.

`slab`: each rank keeps its particles. It passes migrants (particles that cross to another rank) to
its neighbours while it moves the others; planes are reassigned when loads become unequal. `master`:
as in the paper, rank 0 keeps all particles, and in each step sorts, distributes and collects them;
with a hash grid, as the paper does, ranks get shares of its order in place of planes.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpubench.base.errors import NotSupported, UserError
from gpubench.decomposed.direct_dpd import DirectDPD
from gpubench.decomposed.direct_sph import DirectSPH
from gpubench.decomposed.dpd_ranks import DPDPlanes
from gpubench.decomposed.hashed_master import HashedMaster
from gpubench.decomposed.master import Master
from gpubench.decomposed.planes import Planes
from gpubench.decomposed.shared import Shared
from gpubench.decomposed.slab_ranks import Slabs
from gpubench.decomposed.sph_ranks import SPHPlanes
from gpubench.devices.base import Device
from gpubench.problems.cells.contract import CellList, HashedCells
from gpubench.workloads.dpd import DPD
from gpubench.workloads.sph import SPH
from gpubench.workloads.workload import Workload

DECOMPOSITIONS: Mapping[str, type[Planes]] = {kind.decomposition: kind for kind in (Slabs, Master)}
PHYSICS: Mapping[type[Workload], type[Planes]] = {
    SPH: SPHPlanes,  # type: ignore[type-abstract]
    DPD: DPDPlanes,  # type: ignore[type-abstract]
}
# Slabs on devices that write each other's memory.
DIRECT: Mapping[type[Workload], type[Planes]] = {
    SPH: DirectSPH,  # type: ignore[type-abstract]
    DPD: DirectDPD,  # type: ignore[type-abstract]
}


def share(
    workload: type[Workload],
    decomposition: str | None,
    device: Device,
    algorithm: type[CellList],
) -> type[Workload]:
    """Return a subclass of a workload whose simulations the device's ranks share.

    Without a decomposition, returns the workload itself. Raises UserError for a workload that
    cannot be shared, and NotSupported for an algorithm over whose cells it cannot.
    """
    if decomposition is None:
        return workload
    physics = next((each for each in PHYSICS if issubclass(workload, each)), None)
    if physics is None:
        raise UserError(
            f"{workload.name} runs on one rank: start it without mpirun; what ranks can share are"
            " the workloads of SPH and DPD, such as sph-dam-break"
        )
    kinds: tuple[type[Shared], ...] = DECOMPOSITIONS[decomposition], PHYSICS[physics]
    if algorithm.shape() is HashedCells:
        if physics is not SPH or decomposition != Master.decomposition:
            raise NotSupported(
                f"{algorithm.name} scatters the planes of a box: ranks share it in the workloads of"
                " SPH with --decomposition master; else choose sorted cells, such as counting-sort"
            )
        kinds = (HashedMaster,)
    if kinds[0] is Slabs and device.team.transport.mailbox_kind:
        kinds = (DIRECT[physics],)
    name = f"{kinds[0].__name__}{workload.__name__}"
    return type(name, (*kinds, workload), {"team": device.team})
