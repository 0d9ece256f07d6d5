"""Launches through CuPy's driver interface, with a driver that notes what it is given."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np

from gpubench.devices.cupy import Launch


class Array:
    def __init__(self, address):
        self.data = SimpleNamespace(ptr=address)


def read(address, *types):
    """Return the arguments that a driver would copy."""
    pointers = (ctypes.c_void_p * len(types)).from_address(address)
    return [kind.from_address(at).value for kind, at in zip(types, pointers, strict=True)]


def test_each_launch_has_its_own_arguments():
    noted = []
    types = ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_uint64

    def launch_kernel(function, *rest):
        noted.append((function, rest[:8], read(rest[8], *types), rest[9]))

    cuda = SimpleNamespace(
        driver=SimpleNamespace(launchKernel=launch_kernel),
        get_current_stream=lambda: SimpleNamespace(ptr=77),
    )
    kernel = SimpleNamespace(kernel=SimpleNamespace(ptr=5))
    launch = Launch(SimpleNamespace(ndarray=Array, cuda=cuda), kernel)
    a, b = Array(2**48 + 8), Array(2**47)
    launch(3, 256, a, -2, np.int64(2**40), 0.5, b)
    launch(4, 128, b, 7, np.int64(-1), np.float32(-1.5), a)
    b.data.ptr = 16  # as after an allocation elsewhere
    launch(4, 128, b, 7, np.int64(-1), np.float32(-1.5), a)
    assert noted == [
        (5, (3, 1, 1, 256, 1, 1, 0, 77), [2**48 + 8, -2, 2**40, 0.5, 2**47], 0),
        (5, (4, 1, 1, 128, 1, 1, 0, 77), [2**47, 7, -1, -1.5, 2**48 + 8], 0),
        (5, (4, 1, 1, 128, 1, 1, 0, 77), [16, 7, -1, -1.5, 2**48 + 8], 0),
    ]
