"""Base of the adapters. Libraries are optional, and imported when an algorithm is constructed."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base import install
from gpubench.base.errors import NotSupported
from gpubench.problems.neighbours.contract import NeighbourSearch


class LibrarySearch(NeighbourSearch):
    """A search by a library; `neighbours` copies the library's answer to the host."""

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)

    def traffic_bytes(self) -> int | None:
        """Return None: the library determines the traffic."""
        return None


def need(module: str, package: str, extra: str | None = "rivals") -> ModuleType:
    """Import a module of a package, or raise NotSupported with the command that installs it.

    package: the distribution's name on PyPI. extra: the extra of gpubench that installs it, if any.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            why = f"{package} is not installed"
        else:
            why = f"{package} lacks {error.name}"
    except ImportError as error:
        why = f"{package} cannot be imported ({str(error).splitlines()[0]})"
    how = f"pip install {package}" if extra is None else install.hint(extra)
    raise NotSupported(f"{why}: {how}")


def name_with_version(package: str) -> str:
    """Return a distribution's name and version, e.g. "vesin 0.4.2"."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:  # importable, but installed without metadata
        return package
