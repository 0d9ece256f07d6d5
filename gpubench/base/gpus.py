"""The names of this machine's NVIDIA GPUs, read without opening a device."""

from __future__ import annotations


def gpu_names() -> list[str]:
    """Return the names of this machine's GPUs; empty without NVML."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        return []
    handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
    return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
