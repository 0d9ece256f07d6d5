"""Memory that answers are downloaded to, from a pool as CuPy's: a block for each size."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from gpubench.devices import cuda
from gpubench.devices.cuda import LARGE_BYTES, CUDADevice


class Pool:
    """Hands out blocks of the size asked for; `take_back` stands for an array that is dropped."""

    def __init__(self):
        self.free, self.made = Counter(), []

    def n_free_blocks(self):
        return self.free.total()

    def free_all_blocks(self):
        self.free.clear()

    def host_buffer(self, size):
        if self.free[size]:
            self.free[size] -= 1
        else:
            self.made.append(size)
        return np.empty(size, np.uint8)

    def take_back(self, memory):
        self.free[memory.base.nbytes] += 1


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def lock(pool):
    cupy = SimpleNamespace(get_default_pinned_memory_pool=lambda: pool)
    device = SimpleNamespace(_cupy=cupy, _locked=0, host_buffer=pool.host_buffer)
    return lambda size: CUDADevice._page_locked(device, size)


@pytest.mark.parametrize("size", [0, 1, LARGE_BYTES - 1])
def test_little_memory_is_numpys(lock, pool, size):
    assert lock(size).nbytes == size and not pool.made


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1, 3 * LARGE_BYTES - 1, 2**24 + 12345])
def test_a_block_has_room_and_little_to_spare(lock, pool, size):
    assert lock(size).nbytes == size
    assert size <= pool.made[0] <= 1.125 * size


def test_answers_of_nearly_one_size_share_a_block(lock, pool):
    for size in range(10 * LARGE_BYTES - 5000, 10 * LARGE_BYTES + 1, 1000):
        pool.take_back(lock(size))
    assert len(pool.made) == 1


def test_what_is_unused_goes_back_after_so_much_new_memory(lock, pool, monkeypatch):
    monkeypatch.setattr(cuda, "POOLED_BYTES", 8 * LARGE_BYTES)
    for _ in range(100):
        pool.take_back(lock(4 * LARGE_BYTES))
    assert pool.made == [4 * LARGE_BYTES]  # a block in use again is no new memory
    for size in range(2, 8):
        pool.take_back(lock(size * LARGE_BYTES))
    assert pool.n_free_blocks() < 7
