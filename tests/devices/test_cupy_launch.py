"""Launches through CuPy's driver interface, with a driver that notes what it is given."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from builders.cuda_bindings import STREAM, Bindings

from gpubench.devices.cupy import BorrowedArray, CuPyDevice, Launch
from gpubench.neighbours.arrays import Layout


def array(address, size=0):
    return BorrowedArray(address, (size,), np.dtype("uint8"), None)


def read(address, *types):
    """Return the arguments that a driver would copy."""
    pointers = (ctypes.c_void_p * len(types)).from_address(address)
    return [kind.from_address(at).value for kind, at in zip(types, pointers, strict=True)]


class Driver(CuPyDevice):
    """A device whose launches are noted with the arguments that the driver would copy."""

    def __init__(self, *types):
        self.types, self.launched, self.noted = types, [], None
        self.stream = lambda: 77

    def queue(self, function, *rest):
        self.launched.append((function, rest[:8], read(rest[8], *self.types), rest[9]))

    def launch(self, address, shared=0):
        return Launch(self, address, shared)


def test_each_launch_has_its_own_arguments():
    driver = Driver(
        ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_uint64
    )
    launch = driver.launch(5)
    a, b = array(2**48 + 8), array(2**47)
    launch(3, 256, a, -2, np.int64(2**40), 0.5, b)
    launch(4, 128, b, 7, np.int64(-1), np.float32(-1.5), a)
    b.ptr = 16  # as after an allocation elsewhere
    launch(4, 128, b, 7, np.int64(-1), np.float32(-1.5), a)
    assert driver.launched == [
        (5, (3, 1, 1, 256, 1, 1, 0, 77), [2**48 + 8, -2, 2**40, 0.5, 2**47], 0),
        (5, (4, 1, 1, 128, 1, 1, 0, 77), [2**47, 7, -1, -1.5, 2**48 + 8], 0),
        (5, (4, 1, 1, 128, 1, 1, 0, 77), [16, 7, -1, -1.5, 2**48 + 8], 0),
    ]


def test_a_block_may_share_as_much_as_a_constant_says(monkeypatch):
    driver = Bindings().install(monkeypatch)
    device = CuPyDevice(0, allocate=None, stream=lambda: STREAM)
    for more in ({}, {"SHARED_BYTES": 100_000}):
        device.kernel("bucketed_sort.cu", "place_buckets", **more)(1, 1024, array(8))
    assert driver.shared == {1: 100_000}
    assert [grid[6] for _, grid, _ in driver.launched] == [0, 100_000]


class TestReplay:
    TYPES = (ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64)

    def test_queues_the_launches_that_the_work_would_with_its_arrays(self):
        driver = Driver(*self.TYPES)
        first, second, kept = driver.launch(5), driver.launch(6, 2**16), array(4096)

        def work(given, other):
            first(3, 256, given, -2, np.int64(other.shape[0]))
            second(4, 128, kept, 7, np.int64(9))
            second(4, 128, other, 7, np.int64(given.shape[0]))

        replay = driver.replayed(work, 2)
        assert driver.launched == [] and driver.noted is None
        for addresses, sizes in (((8, 16), (100, 200)), ((2**48, 0), (1, 0))):
            arrays = [array(at, size) for at, size in zip(addresses, sizes, strict=True)]
            work(*arrays)
            expected, driver.launched = driver.launched, []
            replay(*arrays)
            assert driver.launched == expected
            assert [grid[6] for _, grid, _, _ in expected] == [0, 2**16, 2**16]
            driver.launched = []

    def test_launches_that_differ_from_time_to_time_are_not_replayed(self):
        driver = Driver(*self.TYPES)
        launch, arrays = driver.launch(5), [array(8), array(16)]

        def work(given):
            arrays.reverse()
            launch(1, 32, arrays[0], 0, np.int64(given.shape[0]))

        assert driver.replayed(work, 1) is work

    @pytest.mark.parametrize(
        "more",
        [
            lambda driver, given: driver.fill(given, 0),
            lambda driver, given: driver.copy(given, given),
            lambda driver, given: driver.write(given, np.zeros(1)),
            lambda driver, given: driver.download(given),
            lambda driver, given: driver.empty(1, "int32"),
        ],
        ids=["fill", "copy", "write", "download", "empty"],
    )
    def test_work_that_does_more_than_launch_is_not_replayed(self, more):
        driver, seen = Driver(*self.TYPES), []

        def work(given):
            driver.launch(5)(1, 32, given, 0, np.int64(0))
            seen.append(len(driver.noted))
            more(driver, given)

        assert driver.replayed(work, 1) is work
        assert seen == [1] and driver.launched == []


def test_arrays_in_one_allocation_lie_apart():
    layout = Layout((3, "int32"), (65, "int64"), (0, "int32"), (1, "float32"))
    begins = [begin for begin, _, _ in layout.places]
    ends = [at + shape[0] * dtype.itemsize for at, shape, dtype in layout.places]
    assert all(begin % 256 == 0 for begin in begins)
    assert all(end <= after for end, after in zip(ends, [*begins[1:], layout.bytes], strict=True))


def test_a_view_goes_to_kernels_by_its_address():
    driver = Driver(ctypes.c_uint64, ctypes.c_int32)
    view = BorrowedArray(2**47 + 256, (4, 3), np.dtype("float64"), owner=None)
    driver.launch(5)(1, 32, view, 7)
    ((*_, arguments, _),) = driver.launched
    assert arguments == [2**47 + 256, 7]
    assert (view.size, view.nbytes) == (12, 96)
