"""Stands for CuPy's bindings and for PyTorch where there is no GPU: host memory, noted launches."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np

from gpubench.devices import cupy
from gpubench.neighbours import arrays

CONTEXT, STREAM, PAIRS = 11, 77, 1234


class Bindings:
    """The parts of CuPy's wheels that a CuPyDevice takes; kernels are numbers of their names.

    launched: the name, grid and argument words of each launch. copies: bytes of each copy.
    shared: what a block of a kernel may share at most, where that was asked for.
    """

    hostAllocMapped, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 2, 1, 2, 3  # noqa: N815

    def __init__(self):
        self.launched, self.copies, self.names, self.kept = [], [], [], []
        self.words, self.shared, self.context = {}, {}, 0

    def install(self, monkeypatch):
        """Put this in the place of imports, and of PyTorch; kernels are not compiled."""
        monkeypatch.setattr(cupy, "import_cupy", self._module)
        monkeypatch.setattr(arrays, "import_cupy", self._module)
        monkeypatch.setattr(cupy.CuPyDevice, "_code", lambda *_: b"")
        monkeypatch.setitem(sys.modules, "torch", TORCH)
        packed = cupy.Launch.packed

        def counted(launch, arguments):
            self.words[launch.function] = len(arguments)
            return packed(launch, arguments)

        monkeypatch.setattr(cupy.Launch, "packed", counted)
        arrays.on_cuda.cache_clear()
        return self

    def _module(self, name="cupy"):
        assert name.startswith("cupy_backends"), "CuPy itself takes long to import"
        return self

    def moduleLoadData(self, code):  # noqa: N802
        return 1

    def moduleGetFunction(self, module, name):  # noqa: N802
        self.names.append(name)
        return len(self.names) - 1

    def funcSetAttribute(self, function, attribute, value):  # noqa: N802
        assert attribute == 8
        self.shared[function] = value

    def launchKernel(self, function, *given):  # noqa: N802
        """Note a launch with what the driver would copy, and do what `note_pairs` does."""
        pointers = (ctypes.c_void_p * self.words[function]).from_address(given[8])
        words = [ctypes.c_uint64.from_address(at).value for at in pointers]
        self.launched.append((self.names[function], given[:8], words))
        if self.names[function] in ("note_pairs", "sum_rows"):
            ctypes.c_int64.from_address(words[-1] + 16).value = PAIRS

    def ctxGetCurrent(self):  # noqa: N802
        return self.context

    def getDevice(self):  # noqa: N802
        return 0

    def setDevice(self, number):  # noqa: N802
        self.context = CONTEXT

    def getDeviceCount(self):  # noqa: N802
        return 1

    def getDeviceProperties(self, number):  # noqa: N802
        names = (
            "multiProcessorCount", "l2CacheSize", "totalGlobalMem", "sharedMemPerBlockOptin",
        )  # fmt: skip
        return {"name": b"NVIDIA H200", "major": 9, "minor": 0, **dict.fromkeys(names, 2**27)}

    def hostAlloc(self, size, flags):  # noqa: N802
        self.kept.append(ctypes.create_string_buffer(size))
        return ctypes.addressof(self.kept[-1])

    def memcpyAsync(self, target, source, size, kind, stream):  # noqa: N802
        ctypes.memmove(target, source, size)
        self.copies.append(size)

    def memsetAsync(self, target, byte, size, stream):  # noqa: N802
        ctypes.memset(target, byte, size)

    def streamSynchronize(self, stream):  # noqa: N802
        assert stream == STREAM


class Tensor:
    """A tensor of PyTorch on cuda:0, as far as a NeighbourList asks."""

    __module__ = "torch"
    is_cuda, requires_grad = True, False

    def __init__(self, host):
        self.host = host

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: f"torch.{self.host.dtype.name}")

    def __getitem__(self, where):
        return Tensor(self.host[where])

    def get_device(self):
        return 0

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.host))

    def is_neg(self):
        return False

    def is_contiguous(self):
        return self.host.flags.c_contiguous

    def data_ptr(self):
        return self.host.ctypes.data

    def new_empty(self, size):
        return Tensor(np.zeros(size, np.uint8))

    def view(self, what):
        is_type = isinstance(what, str)
        return Tensor(self.host.view(what[6:]) if is_type else self.host.reshape(what))


TORCH = SimpleNamespace(
    Tensor=Tensor,
    **{name: f"torch.{name}" for name in ("uint8", "float32", "float64", "int32", "int64")},
    device=lambda *_: None,
    empty=lambda size, dtype, device: Tensor(np.zeros(size, np.uint8)),
    OutOfMemoryError=MemoryError,
    _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda _: STREAM),
)
