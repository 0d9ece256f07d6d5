"""The example of rozen2008, Figure 1: eight elements in four buckets, round by round."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpubench.algorithms.bucket_resort import BucketResort
from gpubench.algorithms.bucket_sort import BLOCK, HostRounds
from gpubench.devices import Device
from gpubench.problems.cells.contract import NULL
from gpubench.verify.conformance import run_conformance

CELL_OF = np.array([0, 2, 3, 2, 0, 1, 3, 3], np.int32)
BUCKETS = 4


class Sorter:
    """The arrays of Figure 1 on a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.cell_of = device.upload(CELL_OF)
        self.head = device.upload(np.full(BUCKETS, NULL, np.int32))
        self.next = device.upload(np.full(len(CELL_OF), NULL, np.int32))
        self.visited = device.upload(np.zeros(len(CELL_OF), np.int32))
        self.drawn = device.upload(np.zeros(1, np.int32))
        self.part = np.uint64(1), 1, len(CELL_OF), len(CELL_OF)

    def run(self, name: str, *arrays: Any) -> None:
        self.device.kernel("bucket_sort.cu", name)(1, BLOCK, self.cell_of, *arrays, *self.part)

    def scatter(self) -> tuple[NDArray[np.int32], int]:
        """Run lines 6 to 9; return the heads and how many elements were drawn."""
        self.device.fill(self.drawn, 0)
        self.run("scatter", self.visited, self.head, self.drawn)
        return self.device.download(self.head), int(self.device.download(self.drawn)[0])

    def link(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Run lines 12 to 17; return the next elements and the visited flags."""
        self.run("link_elements", self.visited, self.head, self.next)
        return self.device.download(self.next), self.device.download(self.visited)


@pytest.mark.second_runtime
def test_the_arrays_of_figure_1_after_each_round(device: Device) -> None:
    """Which of the writes to one head survives is open, so each round begins from the heads read.

    The figure shows one of the choices; rounds, numbers drawn and all else follow from Listing 1.
    """
    sorter = Sorter(device)
    next_of, visited = np.full(8, NULL), np.zeros(8, int)
    for drawn_in_paper in (8, 4, 1):
        before = visited.copy()
        head, drawn = sorter.scatter()
        assert drawn == drawn_in_paper
        for bucket in range(BUCKETS):
            candidates = np.flatnonzero((bucket == CELL_OF) & (before == 0))
            assert not candidates.size or head[bucket] in candidates
        for i in np.flatnonzero(before == 0):  # lines 12 to 17
            if head[CELL_OF[i]] == i:
                visited[i] = 1
            else:
                next_of[i] = head[CELL_OF[i]]
        found = sorter.link()
        np.testing.assert_array_equal(found[0], next_of)
        np.testing.assert_array_equal(found[1], visited)
    assert sorter.scatter()[1] == 0 and visited.all()
    lists = []
    for first in head:
        lists.append([])
        while first != NULL:
            lists[-1].append(int(first))
            first = next_of[first]
    assert [sorted(one) for one in lists] == [[0, 4], [5], [1, 3], [2, 6, 7]]


@pytest.mark.long
def test_the_suite_re_sorts_in_parts_and_in_one(opencl_device: Device, monkeypatch: Any) -> None:
    """With the defaults no case moves enough particles for a second part."""
    ran = []
    run = HostRounds.run
    monkeypatch.setattr(
        HostRounds,
        "run",
        lambda rounds, *arrays, **how: ran.append(how.get("parts")) or run(rounds, *arrays, **how),
    )
    make = partial(
        BucketResort, opencl_device, form="host-loop",
        parameters=BucketResort.conformance_parameters,
    )  # fmt: skip
    results = run_conformance(make, "cell-list-update")
    assert {result.status for result in results} == {"ok"}
    assert {1, 2, 3} <= {*ran}
