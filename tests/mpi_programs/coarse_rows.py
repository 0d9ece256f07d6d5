"""See in all ranks that rows have the coarse positions that kernels read of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.decomposed import direct
from gpubench.decomposed.direct import DirectSlabs
from gpubench.decomposed.master import Master
from gpubench.decomposed.planes import Planes
from gpubench.decomposed.rows import HIGH
from gpubench.decomposed.slab_ranks import Slabs
from gpubench.physics.box import Box


def coarse_of(box: Box, reach: float, places: NDArray[Any]) -> NDArray[np.uint32]:
    """Return what kernels/common/coarse.h makes of places, uint32 (rows,)."""
    words = np.zeros(len(places), np.uint32)
    steps = box.packed(box.grid(reach), reach)["coarse"][0]
    for axis in range(3):
        place = places.view(np.uint32)[:, axis].astype(np.uint64)
        fraction = place if box.periodic[axis] else place << np.uint64(1)
        at = fraction * np.uint64(steps[axis]) >> np.uint64(32)
        words |= (at.astype(np.uint32) & np.uint32(255)) << np.uint32(8 * axis)
    return words


def require_coarse(rank: Planes, first: int, end: int, halo: Mapping[int, int]) -> None:
    """See that a rank's rows and those of its halo have theirs; halo: the rows from each side."""
    if not rank.is_marked:
        return
    for side, count in halo.items():
        if (side == HIGH) is not rank._wraps(side):
            end += count
        else:
            first -= count
    places, found = (
        rank.device.download(each)[first:end] for each in (rank.current[0], rank.coarse)
    )
    np.testing.assert_array_equal(found, coarse_of(rank.box, rank.reach, places))


def check_coarse() -> None:
    """Let each rank look in each step, when all its forces have been queued."""
    ends = {Slabs: "_hand_over", Master: "_return", DirectSlabs: "_end_step"}
    for kind, name in ends.items():
        looks = without_hosts if kind is DirectSlabs else with_hosts
        setattr(kind, name, behind(looks, getattr(kind, name)))


def behind(look: Callable[[Any], None], work: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return work that begins with a look."""

    def both(rank: Any) -> None:
        look(rank)
        work(rank)

    return both


def with_hosts(rank: Planes) -> None:
    """Look at the rows that a host knows."""
    halo = {side: int(rank.halo[side][0]) for side, _ in rank._neighbours()}
    require_coarse(rank, rank.edge, rank.edge + rank.owned, halo)


def without_hosts(rank: DirectSlabs) -> None:
    """Look at the rows that the device knows, unless a step without room is to be done again."""
    assert rank._boxes is not None
    part, *starts = map(rank.device.download, (rank._part, *rank._both("mine", "starts")))
    halo = {side: int(starts[side][-1]) for side, _ in rank._neighbours()}
    if not part[direct.FAULT]:
        require_coarse(rank, part[direct.BEGIN], part[direct.END], halo)
