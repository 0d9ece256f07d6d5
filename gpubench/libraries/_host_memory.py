"""The memory of this process while it works on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"  # what makes Linux count the peak from now on


def peak_of(work: Callable[[], object]) -> int | None:
    """Work once; return by how many bytes resident memory rose at its peak.

    None where the system does not tell: it takes Linux, and leave to reset the peak. What earlier
    work left allocated is not counted again, so let go of it first.
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
    """Give freed memory back to the system, which the C library keeps for later."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)


def _resident(what: str) -> int:
    """Return a size that Linux reports of this process, in bytes."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines() if ":" in line)
    kilobytes, _ = lines[what].split()
    return int(kilobytes) * 1024
