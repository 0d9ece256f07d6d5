"""Kernels launched with keyword arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from gpubench.base.plugins import kernel_folders
from gpubench.devices.base import Device


class NamedKernel:
    """A kernel launched with keyword arguments, named like the parameters in its source."""

    def __init__(self, device: Device, file: str, name: str, **constants: int | str) -> None:
        self._kernel, self._what = device.kernel(file, name, **constants), f"{name} of {file}"
        self._names = parameters_of(file, name)

    def __call__(self, blocks: int, threads: int, **arguments: Any) -> None:
        """Queue a launch; see `Kernel`. Raises TypeError for missing or unexpected arguments."""
        names = self._names
        if len(arguments) != len(names) or not all(map(arguments.__contains__, names)):
            wrong = ", ".join(sorted(arguments.keys() ^ set(names)))
            raise TypeError(f"{self._what} takes {', '.join(names)}; wrong: {wrong}")
        self.launch_from(blocks, threads, arguments)

    def launch_from(self, blocks: int, threads: int, given: Mapping[str, Any]) -> None:
        """Queue a launch; items of `given` that the kernel does not take are ignored."""
        self._kernel(blocks, threads, *map(given.__getitem__, self._names))


@cache
def parameters_of(file: str, name: str) -> tuple[str, ...]:
    """Return a kernel's parameter names, which must be the same in all its definitions."""
    text = (kernel_folders(file)[0] / file).read_text(encoding="utf-8")
    attribute = r"(?:\w+(?:\([^()]*\))?\s+)?"
    kernel = rf"(?:__global__|__kernel)\s+void\s+{attribute}{name}\(([^)]*)\)"
    lists = re.findall(kernel, text)
    found = {tuple(re.findall(r"(\w+)(?:,|$)", each)) for each in lists}
    if len(found) != 1:
        raise ValueError(f"{file} has {len(found)} lists of parameters for {name}")
    return found.pop()
