"""Check before allocation that an input fits into the available memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from gpubench.core.recipe import Recipe

OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


class HasMemory(Protocol):
    """The properties of a device that this module needs; see `Device`."""

    @property
    def name(self) -> str:
        """The vendor's name of the device."""

    @property
    def memory_bytes(self) -> int:
        """Memory available to arrays, in bytes."""


def why_too_large(recipe: Recipe, device: HasMemory, inputs: int = 1) -> str | None:
    """Return a message if `inputs` inputs of a recipe exceed host or device memory, else None."""
    for needed, available, place in (
        (recipe.host_bytes, _machine_bytes(), "of this machine"),
        (recipe.host_bytes, allowed_bytes(), "that this process may take"),
        (recipe.device_bytes, device.memory_bytes, f"of {device.name}"),
    ):
        needed *= inputs
        if needed > available:
            return (
                f"needs at least {needed / 2**30:.1f} GiB of memory, more than the"
                f" {available / 2**30:.1f} GiB {place}: make the input smaller"
            )
    return None


def allowed_bytes() -> int:
    """Return the memory that this process may use, in bytes."""
    return min(_limits(), default=_machine_bytes())


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limits() -> Iterator[int]:
    """Yield the memory limits of this process in bytes: resource limits and control groups."""
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield soft
    for line in OWN_GROUPS.read_text().splitlines() if OWN_GROUPS.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        # In a container this path may not exist: the container's group may be mounted as the root.
        top, name = (
            (GROUPS / "memory", "memory.limit_in_bytes") if controllers else (GROUPS, "memory.max")
        )
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            file = folder / name
            if folder.is_relative_to(top) and file.is_file():
                text = file.read_text().strip()
                if text.isdecimal():  # otherwise "max", no limit
                    yield int(text)
