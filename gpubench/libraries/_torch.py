"""PyTorch on our arrays, in the context and stream of our CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpubench.devices.base import Device
from gpubench.libraries._library import need

EXTRA = "rivals-cuda13"


class Torch:
    """PyTorch on one of our CUDA devices.

    torch: the module. device: our device as a torch.device. library: name and version.
    """

    def __init__(self, device: Device) -> None:
        self.torch: Any = need("torch", "torch", EXTRA)
        self.library = f"torch {self.torch.__version__}"
        self.device = self.torch.device(device.spec)
        handle = device.stream.handle  # type: ignore[attr-defined]  # of a CUDADevice
        self._stream = self.torch.cuda.ExternalStream(handle, device=self.device)

    def on_stream(self) -> Any:
        """Return a context in which PyTorch uses our device's stream."""
        return self.torch.cuda.stream(self._stream)

    def view(self, array: Any) -> Any:
        """Return a tensor that shares the memory of one of our arrays; not for empty arrays."""
        return self.torch.from_dlpack(array)

    def allocated(self) -> int:
        """Return the bytes allocated to tensors."""
        return int(self.torch.cuda.memory_allocated(self.device))

    def peak_of(self, work: Callable[[], None]) -> int:
        """Call `work`; return the peak increase of PyTorch's memory in bytes."""
        cuda = self.torch.cuda
        cuda.reset_peak_memory_stats(self.device)
        before = cuda.memory_allocated(self.device)
        work()
        return int(cuda.max_memory_allocated(self.device) - before)
