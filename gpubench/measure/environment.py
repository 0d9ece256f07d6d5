"""The environment record: machine, code version, and copy bandwidth."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpubench.base import paths, plugins
from gpubench.base.version import __version__
from gpubench.measure import clock
from gpubench.measure.sampling import overhead
from gpubench.measure.statistics import six_digits

if TYPE_CHECKING:
    from gpubench.devices.base import Device

MIB = 1 << 20
REPEATS = 11
EMPTY_SAMPLES = 25

# Libraries that can affect timings; for each, its possible distribution names, preferred first.
LIBRARIES = {
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "pycuda": ("pycuda",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "nvidia-ml-py": ("nvidia-ml-py",),
    "pyopencl": ("pyopencl",),
    "intel-opencl-rt": ("intel-opencl-rt",),
    "pocl": ("pocl-binary-distribution",),
}
SOURCE_SUFFIXES = {".py", ".toml", ".json", ".cu", ".cuh", ".cl", ".h"}


def environment(device: Device) -> dict[str, Any]:
    """Describe machine, device, libraries and code for a results file.

    Measures the copy bandwidth and the time of an empty sample, which takes up to about a second
    on a CPU. Raises OutOfMemory if the arrays for the copy do not fit on the device.
    """
    return {
        **conditions(device),
        "copy_bandwidth_gb_s": copy_bandwidth_gb_s(device),
        "overhead_ms": overhead_ms(device),
        "started": clock.timestamp(),
    }


def conditions(device: Device) -> dict[str, Any]:
    """Describe machine, device, libraries and code, without measuring."""
    commit, dirty = commit_of(paths.repository())
    return {
        "machine": machine(device.name, device.is_cpu),
        "device": device.environment(),
        "host": _host(),
        "libraries": {"gpubench": __version__}
        | {label: _version(names) for label, names in LIBRARIES.items()},
        "commit": commit,
        "dirty": dirty,
        "code_hash": code_hash(),
        **_added(),
    }


def _added() -> dict[str, Any]:
    """Return the plug-ins, and the commit of each; an empty dictionary without plug-ins."""
    additions = plugins.additions()
    if not additions:
        return {}
    codes = {each.name: _code_of([path for _, path in each.sources()]) for each in additions}
    return {
        "added": list(codes),
        "added_commits": {name: commit for name, (commit, _) in codes.items()},
        "added_dirty": {name: dirty for name, (_, dirty) in codes.items()},
    }


def _code_of(files: Sequence[Path]) -> tuple[str | None, bool | None]:
    """Return the commit of the repository that contains `files`, and whether they differ from it.

    None for both if the files are not in git.
    """
    names = [str(path) for path in files]
    if not files or not git(files[0].parent, "ls-files", "--", *names):
        return None, None
    changes = git(files[0].parent, "status", "--porcelain", "--", *names)
    commit = git(files[0].parent, "rev-parse", "HEAD")
    return commit, None if changes is None else changes != ""


def machine(device_name: str, is_cpu: bool) -> str:
    """Return a short name for a machine: the GPU's name, or `cpu-` and the processor's name.

    Lower-case letters, digits, dashes; used as a folder name.
    """
    return f"cpu-{_slug(_cpu_model())}" if is_cpu else _slug(device_name)


def code_hash() -> str:
    """Return the first 16 hex digits of a SHA-256 over the sources of package and kernels.

    Includes plug-ins. A checkout and the wheel built from it have the same hash.
    """
    return _hash_of(paths.PACKAGE, paths.kernel_folder(), plugins.additions())


@cache  # the process keeps running the sources it started with
def _hash_of(package: Path, kernels: Path, additions: tuple[plugins.Addition, ...]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(_sources(package, kernels, additions)):
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def copy_bandwidth_gb_s(device: Device) -> float | None:
    """Measure the device-to-device copy bandwidth, in 10^9 bytes read and written per second.

    The best of several runs, as in STREAM, to measure the capability of the memory. Array sizes:
    1 GiB on a GPU; on a CPU four times the cache, between 64 and 256 MiB; never more than an
    eighth of the memory. None if the device's clock is too coarse to time the copy.
    """
    size = min(max(4 * device.cache_bytes, 64 * MIB), 256 * MIB) if device.is_cpu else 1024 * MIB
    size = max(1, min(size, device.memory_bytes // 8))
    source, target = device.empty(size, np.uint8), device.empty(size, np.uint8)
    device.fill(source, 0)
    device.fill(target, 0)
    best_ms = min(_copy_ms(device, source, target) for _ in range(REPEATS))
    return six_digits(2 * size / best_ms / 1e6) if best_ms > 0 else None


def _copy_ms(device: Device, source: Any, target: Any) -> float:
    start = device.record()
    device.copy(source, target)
    return device.elapsed_ms(start, device.record())


def overhead_ms(device: Device) -> dict[str, float]:
    """Measure the median duration of an empty sample in each mode.

    Every sample includes this time once, whatever its batch size; it is not subtracted.
    """
    found = overhead(device, EMPTY_SAMPLES)
    return {mode: six_digits(summary.median_ms) for mode, summary in found.items()}


def _host() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": _usable_cores(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "os": _operating_system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name from the operating system; if unavailable, from Python."""
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    found = re.search(r"^model name\s*:\s*(\S.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine() or "unknown"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _slug(name: str) -> str:
    """Turn a vendor's processor name into a short name without trademarks and clock rates."""
    plain = re.sub(r"\((r|tm|c)\)|@.*|\b(\d+-core|processor|cpu)\b", " ", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "unknown"


def _version(distributions: tuple[str, ...]) -> str | None:
    for distribution in distributions:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def commit_of(repository: Path | None) -> tuple[str | None, bool | None]:
    """Return the commit, and whether the sources differ from it; None for each if unknown.

    Only sources count: results and reports in the tree do not make it dirty. For sources without
    their git history, e.g. on an offline machine, set the commit in GPUBENCH_COMMIT.
    """
    if "GPUBENCH_COMMIT" in os.environ or repository is None:
        return os.environ.get("GPUBENCH_COMMIT"), None
    commit = git(repository, "rev-parse", "HEAD")
    changes = git(repository, "status", "--porcelain", "--", "gpubench", "kernels")
    return commit, None if changes is None else changes != ""


def git(repository: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails or git is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _sources(
    package: Path, kernels: Path, additions: tuple[plugins.Addition, ...]
) -> Iterator[tuple[str, Path]]:
    """Yield the name in a checkout, and the path, of each source file."""
    # In a wheel, kernels and results are inside the package; in a checkout, they are beside it.
    apart = (kernels, paths.measured_folder())
    for folder, prefix in ((package, "gpubench"), (kernels, "kernels")):
        for path in folder.rglob("*"):
            elsewhere = folder is not kernels and any(path.is_relative_to(a) for a in apart)
            if path.suffix in SOURCE_SUFFIXES and not elsewhere:
                yield f"{prefix}/{path.relative_to(folder).as_posix()}", path
    for addition in additions:
        yield from addition.sources()
