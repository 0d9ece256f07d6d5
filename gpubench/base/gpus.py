"""The NVIDIA GPUs of this machine by name, for what has no business with devices."""

from __future__ import annotations


def gpu_names() -> list[str]:
    """Return the names of this machine's GPUs, without opening one; none where NVML is not."""
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
