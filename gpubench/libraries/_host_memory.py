"""Peak host memory of a function call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"  # written to CLEAR, it resets the peak that Linux reports


def peak_of(work: Callable[[], object]) -> int | None:
    """Call `work` once; return the increase of peak resident memory in bytes.

    Returns None if unavailable: it needs Linux, and permission to reset the peak. Memory that
    `work` reuses from earlier calls is not counted, so free such memory first.
    """
    _trim()
    try:
        CLEAR.write_text(FORGET_PEAK)
        before = _resident("VmRSS")
    except (OSError, KeyError):
        work()
        return None
    work()
    return max(0, _resident("VmHWM") - before)


def _trim() -> None:
    """Give freed memory, which the C library may cache, back to the operating system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)


def _resident(what: str) -> int:
    """Return a field of /proc/self/status, such as VmRSS, in bytes."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines() if ":" in line)
    kilobytes, _ = lines[what].split()
    return int(kilobytes) * 1024
