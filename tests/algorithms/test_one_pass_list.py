"""Lists in cell order: their layout, and that they are compared with no list by particle."""

from __future__ import annotations

import numpy as np
import pytest

from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.algorithms.one_pass_list import STAGED, OnePassList
from gpubench.core.grid import Grid
from gpubench.neighbours.tune import _subjects
from gpubench.problems.particles.inputs import make

FORM = "list-in-cells"


def test_rows_fill_the_list_and_are_numbered_by_slot(device):
    """Also where a block has more neighbours than it stages at once."""
    inputs = make(700, Grid((4, 4, 4), (0.0,) * 3, (4.0,) * 3, (True,) * 3), seed=1)
    found = OnePassList(device, 700, inputs.grid, FORM, {})
    found.load(inputs)
    found.launch()
    begins, counts, slots, order = map(
        device.download,
        (found._begins, found._counts, found._neighbours, found._cells.answer.order),
    )
    by_place = np.argsort(begins)
    assert np.array_equal(np.cumsum(counts[by_place])[:-1], begins[by_place][1:])
    assert begins.min() == 0 and counts.sum() == len(slots)
    assert max(counts[first : first + 128].sum() for first in range(0, 700, 128)) > STAGED
    places = inputs.positions[order, :3].astype(np.float64)
    way = places[None] - places[:, None]
    way -= np.rint(way / 4) * 4
    near = (way**2).sum(2) < 1
    np.fill_diagonal(near, False)
    rows = [set(slots[begin : begin + many]) for begin, many in zip(begins, counts, strict=True)]
    assert rows == [set(row.nonzero()[0]) for row in near]


@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_it_is_compared_with_no_list_by_particle(backend):
    one, other = OnePassList.declared(FORM), CountingSortSearch.declared("list")
    assert one["task"] == other["task"] and one["answer"] != other["answer"]

    class Device:
        is_cpu = True

    Device.backend = backend
    names = {subject.algorithm for subject in _subjects("list", Device)}
    assert CountingSortSearch.name in names and OnePassList.name not in names
