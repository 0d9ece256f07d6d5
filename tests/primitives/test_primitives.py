"""Scans, radix sort, cell ids, and the device's own copies, on every device there is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpubench.base.errors import OutOfMemory, UserError
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives import scan
from gpubench.primitives.radix_sort import PairRadixSort
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.particles.cell_ids import CellIds

pytestmark = pytest.mark.second_runtime

TYPES = {"int": np.int32, "int64": np.int64}


def tile_of(device: Device) -> int:
    return scan.BLOCK * (scan.ITEMS_CPU if device.is_cpu else scan.ITEMS)


def scanned(
    device: Device, counts: NDArray[np.int32], sum_type: str = "int", clear: bool = False
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the sums, and the counts after the scan."""
    items = len(counts)
    given, sums = device.upload(counts), device.empty(items + 1, TYPES[sum_type])
    device.fill(sums, 0xA5)
    ExclusiveScan(device, items, sum_type=sum_type, clear=clear).launch(given, sums)
    return device.download(sums), device.download(given)


def exclusive(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


class TestScan:
    @pytest.mark.parametrize("sum_type", ["int", "int64"])
    @pytest.mark.parametrize(
        ("tiles", "extra"),
        [(0, n) for n in (0, 1, 2, 255, 257)]
        + [(1, n) for n in (-1, 0, 1, 5)]
        + [(2, 0), (5, -77)],
    )
    def test_sizes_around_the_tile(
        self, device: Device, tiles: int, extra: int, sum_type: str
    ) -> None:
        items = tiles * tile_of(device) + extra
        counts = np.random.default_rng(items).integers(0, 99, items, np.int32)
        sums, after = scanned(device, counts, sum_type)
        np.testing.assert_array_equal(sums, exclusive(counts))
        np.testing.assert_array_equal(after, counts)

    @pytest.mark.parametrize("items", [10**6, 4 * 10**6 + 1])
    def test_a_million_and_more(self, device: Device, items: int) -> None:
        counts = np.random.default_rng(items).integers(0, 9, items, np.int32)
        np.testing.assert_array_equal(scanned(device, counts)[0], exclusive(counts))

    def test_more_tiles_than_one_pass_over_the_tile_sums(self, device: Device) -> None:
        items = (scan.BLOCK + 1) * tile_of(device) + 3
        counts = (np.arange(items) % 7).astype(np.int32)
        np.testing.assert_array_equal(scanned(device, counts)[0], exclusive(counts))

    def test_sums_beyond_int32(self, device: Device) -> None:
        counts = np.full(3 * tile_of(device) + 5, 2**31 - 1, np.int32)
        sums, _ = scanned(device, counts, "int64")
        np.testing.assert_array_equal(sums, exclusive(counts))

    def test_sums_up_to_the_last_int32(self, device: Device) -> None:
        counts = np.zeros(2 * tile_of(device) + 1, np.int32)
        counts[[0, -1]] = 2**30, 2**30 - 1
        assert scanned(device, counts)[0][-1] == 2**31 - 1

    @pytest.mark.parametrize("extra", [-1, 0, 1])
    def test_clear_leaves_zeros_for_the_next_histogram(self, device: Device, extra: int) -> None:
        items = 2 * tile_of(device) + extra
        counts = np.random.default_rng(1).integers(1, 99, items, np.int32)
        given, sums = device.upload(counts), device.empty(items + 1, np.int32)
        scan_and_clear = ExclusiveScan(device, items, clear=True)
        scan_and_clear.launch(given, sums)
        np.testing.assert_array_equal(device.download(sums), exclusive(counts))
        assert not device.download(given).any()
        scan_and_clear.launch(given, sums)
        assert not device.download(sums).any()

    def test_one_scan_serves_many_launches(self, device: Device) -> None:
        items = 3 * tile_of(device)
        exclusive_scan = ExclusiveScan(device, items)
        sums = device.empty(items + 1, np.int32)
        for seed, most in ((0, 1000), (1, 2), (2, 1000)):
            counts = np.random.default_rng(seed).integers(0, most, items, np.int32)
            exclusive_scan.launch(device.upload(counts), sums)
            np.testing.assert_array_equal(device.download(sums), exclusive(counts))

    def test_the_form_is_what_the_device_allows(self, device: Device) -> None:
        expected = "single-pass" if device.backend == "cuda" else "three-pass"
        made = ExclusiveScan(device, 10)
        assert made.form == expected
        assert made.workspace_bytes > 0


class TestRadixSort:
    @staticmethod
    def check(device: Device, keys: NDArray[np.int32], bits: int) -> None:
        values = np.arange(len(keys), dtype=np.int32)[::-1].copy()
        device_keys, device_values = device.upload(keys), device.upload(values)
        sort = PairRadixSort(device, len(keys), bits)
        for _ in range(2):
            sort.launch(device_keys, device_values)
            order = np.argsort(keys & ((1 << bits) - 1), kind="stable")
            np.testing.assert_array_equal(device.download(sort.keys), keys[order])
            np.testing.assert_array_equal(device.download(sort.values), values[order])
            np.testing.assert_array_equal(device.download(device_keys), keys)
            np.testing.assert_array_equal(device.download(device_values), values)

    @pytest.mark.parametrize("items", [0, 1, 2, 255, 257, 5000, 70001])
    def test_sorts_stably(self, device: Device, items: int) -> None:
        # Few different keys: most are duplicates, whose values must keep their order.
        self.check(device, np.random.default_rng(items).integers(0, 50, items, np.int32), 6)

    @pytest.mark.parametrize("bits", [1, 3, 8, 9, 20, 31])
    def test_sorts_by_every_bit(self, device: Device, bits: int) -> None:
        keys = np.random.default_rng(bits).integers(0, 1 << bits, 3000).astype(np.int32)
        self.check(device, keys, bits)

    @pytest.mark.parametrize("bits", [8, 16])  # whole digits
    def test_higher_bits_cost_no_pass(self, device: Device, bits: int) -> None:
        keys = np.random.default_rng(bits).integers(0, 2**31, 3000).astype(np.int32)
        self.check(device, keys, bits)

    def test_equal_keys_stay_in_order(self, device: Device) -> None:
        self.check(device, np.full(3000, 5, np.int32), 3)

    @given(
        keys=st.lists(st.integers(0, 2**12 - 1), max_size=300),
        bits=st.integers(12, 31),
    )
    @settings(max_examples=10)
    def test_any_keys(self, device: Device, keys: list[int], bits: int) -> None:
        self.check(device, np.array(keys, np.int32), bits)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Any box that float32 resolves: negative corners, cells of any size, not cubic."""
    cells = draw(st.tuples(*[st.integers(1, 40)] * 3))
    low = draw(st.tuples(*[st.floats(-100, 100, width=32)] * 3))
    size = draw(st.tuples(*[st.floats(2**-4, 1000, width=32)] * 3))
    periodic = draw(st.tuples(*[st.booleans()] * 3))
    try:
        return Grid(cells, low, size, periodic)
    except UserError:  # cells too small for that corner
        return Grid(cells, (0.0, 0.0, 0.0), size, periodic)


class TestCellIds:
    @given(grid=grids(), seed=st.integers(0, 2**32 - 1))
    @settings(max_examples=30)
    def test_agree_with_numpy_bit_for_bit(self, device: Device, grid: Grid, seed: int) -> None:
        rng = np.random.default_rng(seed)
        low, size = np.asarray(grid.low), np.asarray(grid.size)
        anywhere = rng.random((200, 3))
        # Walls of cells, and the floats next to them on either side.
        walls = rng.integers(0, np.add(grid.cells, 1), (200, 3)) / grid.cells
        xyz = (low + np.concatenate((anywhere, walls, walls, walls)) * size).astype(np.float32)
        xyz[400:600] = np.nextafter(xyz[400:600], np.float32(-np.inf))
        xyz[600:] = np.nextafter(xyz[600:], np.float32(np.inf))
        positions = np.zeros((len(xyz), 4), np.float32)
        positions[:, :3] = np.clip(xyz, low.astype(np.float32), (low + size).astype(np.float32))
        positions[:, 3] = rng.random(len(xyz))  # free for the user: must not matter
        cell_of = device.empty(len(positions), np.int32)
        CellIds(device, grid).launch(device.upload(positions), cell_of)
        found = device.download(cell_of)
        np.testing.assert_array_equal(found, grid.cell_ids(positions))
        assert found.min() >= 0
        assert found.max() < grid.count

    def test_writes_no_further_than_the_last_particle(self, device: Device) -> None:
        grid = Grid((4, 4, 4), (0.0,) * 3, (4.0,) * 3)
        cell_of = device.empty(512, np.int32)
        device.fill(cell_of, 0xFF)
        positions = device.upload(np.zeros((300, 4), np.float32))
        CellIds(device, grid).launch(positions, cell_of[:300])
        np.testing.assert_array_equal(device.download(cell_of)[300:], -1)

    def test_of_no_particles(self, device: Device) -> None:
        grid = Grid((4, 4, 4), (0.0,) * 3, (4.0,) * 3)
        cell_of = device.empty(0, np.int32)
        CellIds(device, grid).launch(device.empty((0, 4), np.float32), cell_of)
        assert device.download(cell_of).shape == (0,)


class TestMemory:
    @pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float32", "uint8"])
    @pytest.mark.parametrize("shape", [(1,), (1000,), (37, 4)])
    def test_what_goes_up_comes_down(
        self, device: Device, shape: tuple[int, ...], dtype: str
    ) -> None:
        host = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
        array = device.upload(host)
        assert (array.shape, array.dtype, array.nbytes) == (host.shape, host.dtype, host.nbytes)
        np.testing.assert_array_equal(device.download(array), host)

    def test_rows_apart_in_memory_are_packed(self, device: Device) -> None:
        host = np.arange(24, dtype=np.int32).reshape(6, 4)[::2]
        np.testing.assert_array_equal(device.download(device.upload(host)), host)

    def test_write_replaces_the_values_in_place(self, device: Device) -> None:
        array = device.upload(np.arange(10, dtype=np.int32))
        host = np.arange(10, 20, dtype=np.int32)
        device.write(array, host)
        host[:] = -5  # the device has its own copy
        np.testing.assert_array_equal(device.download(array), np.arange(10, 20))

    def test_a_download_is_the_callers_own(self, device: Device) -> None:
        array = device.upload(np.zeros(10, np.int32))
        device.download(array)[:] = 7
        assert not device.download(array).any()

    @pytest.mark.parametrize(("byte", "value"), [(0x00, 0), (0xFF, -1), (0x01, 0x01010101)])
    def test_fill_sets_every_byte(self, device: Device, byte: int, value: int) -> None:
        array = device.upload(np.arange(1001, dtype=np.int32))
        device.fill(array, byte)
        np.testing.assert_array_equal(device.download(array), value)

    def test_fill_and_copy_of_a_part_leave_the_rest(self, device: Device) -> None:
        array = device.upload(np.arange(100, dtype=np.int32))
        device.fill(array[20:40], 0xFF)
        device.copy(array[50:60], array[:10])
        expected = np.arange(100)
        expected[20:40] = -1
        expected[:10] = np.arange(50, 60)
        np.testing.assert_array_equal(device.download(array), expected)

    def test_copy(self, device: Device) -> None:
        source = device.upload(np.arange(1000, dtype=np.int32))
        target = device.upload(np.zeros(1000, np.int32))
        device.copy(source, target)
        device.fill(source, 0)
        np.testing.assert_array_equal(device.download(target), np.arange(1000))

    @pytest.mark.parametrize("shape", [0, (0,), (0, 4)])
    def test_nothing_is_allowed(self, device: Device, shape: int | tuple[int, ...]) -> None:
        array = device.empty(shape, np.float32)
        assert array.nbytes == 0
        device.fill(array, 0xFF)
        device.copy(array, array)
        device.write(array, np.empty(shape, np.float32))
        host = device.download(array)
        assert host.shape == np.empty(shape).shape
        assert host.dtype == np.float32

    def test_more_than_there_is_is_one_line(self, device: Device) -> None:
        with pytest.raises(OutOfMemory) as error:
            device.empty(2**50, np.uint8)
        message = str(error.value)
        assert "\n" not in message
        assert "1048576.00 GiB" in message
        assert device.name in message
        # The device still works.
        np.testing.assert_array_equal(device.download(device.upload(np.ones(3))), 1)


class TestEvents:
    def test_elapsed_time_is_a_time(self, device: Device) -> None:
        array = device.empty(1 << 20, np.int32)
        start = device.record()
        device.fill(array, 0)
        middle = device.record()
        device.fill(array, 1)
        end = device.record()
        first, second = device.elapsed_ms(start, middle), device.elapsed_ms(middle, end)
        both = device.elapsed_ms(start, end)
        assert all(math.isfinite(ms) and ms >= 0 for ms in (first, second, both))
        assert both >= max(first, second) - 1e-3  # what events resolve
        device.synchronize()

    def test_events_with_nothing_between_them(self, device: Device) -> None:
        start, end = device.record(), device.record()
        elapsed = device.elapsed_ms(start, end)
        assert math.isfinite(elapsed)
        assert elapsed >= 0
