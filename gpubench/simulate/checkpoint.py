"""Checkpoints: a simulation's complete state, in a file of NumPy arrays (.npz)."""

from __future__ import annotations

import dataclasses
import json
import struct
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.version import __version__
from gpubench.base.writing import whole_file
from gpubench.devices import Device
from gpubench.measure.environment import code_hash
from gpubench.physics.observables import observed
from gpubench.simulate.arrays import read_arrays
from gpubench.simulate.setup import Setup, possible
from gpubench.workloads.workload import Workload

FORMAT = 1
_HEADER = "header"  # JSON: the fields of a Checkpoint except its state
_STATE = "state."  # prefix of the names of the arrays
# The allowed types of each field of a header.
_KINDS = {
    "run": (str, NoneType), "step": (int,), "device": (str,), "version": (str,),
    "code_hash": (str,), "observations": (list,),
}  # fmt: skip
_SETUP_KINDS = {
    "workload": (str,), "particles": (int,), "algorithm": (str,), "form": (str,),
    "parameters": (dict,), "seed": (int,), "skin": (int, float),
}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """The state of a simulation at one step.

    setup: the complete setup. step: number of steps since the start.
    device, version, code_hash: identify the device and the package that made it.
    observations: all made so far.
    state: as returned by Workload.state.
    run: the id of the run, also stored in its frames and trajectory; None in older checkpoints, and
        in runs that resume from them.
    """

    setup: Setup
    step: int
    device: str
    version: str
    code_hash: str
    observations: list[dict[str, float]]
    state: dict[str, NDArray[Any]]
    run: str | None = None

    def resume(self, workload: Workload) -> None:
        """Restore this state in a workload of the same setup.

        Raises UserError for the state of another workload, and for an impossible state.
        """
        try:
            workload.require_possible(self.state)
            workload.restore(self.state)
        except UserError as error:
            raise UserError(f"{error}: give a checkpoint that --checkpoint wrote") from error
        if workload.step != self.step:
            raise UserError(
                f"the checkpoint is of step {self.step}, but its state of step {workload.step}:"
                " give one that --checkpoint wrote"
            )

    def why_inexact(self, device: Device) -> list[str]:
        """List reasons why the simulation might not continue bitwise identically here."""
        reasons = []
        if self.device != device.name:
            reasons.append(f"the device was {self.device}, and is {device.name}")
        if (self.version, self.code_hash) != (__version__, code_hash()):
            reasons.append(
                f"gpubench was {self.version} (code {self.code_hash}), and is {__version__}"
                f" (code {code_hash()})"
            )
        return reasons


def new_run() -> str:
    """Return the id of a new run, stored in all of its files."""
    return str(uuid.uuid4())


def save(
    path: Path,
    workload: Workload,
    observations: Sequence[dict[str, float]],
    run: str | None = None,
) -> None:
    """Write the current state; an existing checkpoint stays until the new one is complete.

    Raises UserError where the file cannot be written.
    """
    header = {
        "format": FORMAT,
        "run": run,
        "setup": dataclasses.asdict(Setup.of(workload)),
        "step": workload.step,
        "device": workload.device.name,
        "version": __version__,
        "code_hash": code_hash(),
        "observations": list(observations),
    }
    arrays: dict[str, Any] = {_HEADER: np.array(json.dumps(header))}
    arrays |= {f"{_STATE}{name}": array for name, array in workload.state().items()}
    with whole_file(path) as file:
        np.savez(file, **arrays)


def load(path: Path) -> Checkpoint:
    """Read an untrusted checkpoint; reading takes no more memory than the file has bytes.

    Raises UserError for a file that is not a complete checkpoint, and for a setup that cannot be
    made here. Whether the state fits the setup is checked by `resume`.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        with file, zipfile.ZipFile(file) as archive:
            arrays = read_arrays(archive)
        saved = _checkpoint(json.loads(str(arrays.pop(_HEADER))), arrays)
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError, EOFError, OverflowError,
        RuntimeError, MemoryError, struct.error, zipfile.BadZipFile,
    ) as error:  # fmt: skip
        raise UserError(
            f"{path} is no whole checkpoint of a simulation: give a file that --checkpoint wrote"
        ) from error
    try:
        return dataclasses.replace(saved, setup=possible(saved.setup))
    except UserError as error:
        raise UserError(f"the simulation of {path} cannot run here: {error}") from error


def _checkpoint(header: Any, arrays: Mapping[str, NDArray[Any]]) -> Checkpoint:
    """Make a checkpoint from a file's contents; ValueError, TypeError or KeyError if invalid.

    Older files hold no run id, and may use other names for observations.
    """
    if header.pop("format") != FORMAT:
        raise ValueError("another format")
    state = {n.removeprefix(_STATE): a for n, a in arrays.items() if n.startswith(_STATE)}
    saved = Checkpoint(**{**header, "setup": Setup(**header["setup"]), "state": state})
    for values, kinds in ((saved, _KINDS), (saved.setup, _SETUP_KINDS)):
        for name, allowed in kinds.items():
            # Not isinstance: that would accept a bool as a number.
            if type(getattr(values, name)) not in allowed:
                raise TypeError(f"{name} is a {type(getattr(values, name)).__name__}")
    if saved.run is not None and str(uuid.UUID(saved.run)) != saved.run:
        raise ValueError("another id")
    if not 0 <= saved.step < 2**63:
        raise ValueError("an impossible step")
    float(saved.setup.skin)  # OverflowError if out of range
    for observation in saved.observations:
        _require_observation(observation, saved.step)
    saved.observations[:] = [observed(saved.setup.workload, seen) for seen in saved.observations]
    if sum(array.nbytes for array in state.values()) < saved.setup.particles:
        raise ValueError("a state of fewer particles")
    return saved


def _require_observation(seen: Any, last: int) -> None:
    """Raise ValueError, TypeError, KeyError or OverflowError for an impossible observation."""
    if any(type(value) not in (int, float) for value in seen.values()):
        raise TypeError("observations are numbers")
    if not 0 <= seen["step"] <= last or not all(map(str.isprintable, seen)):
        raise ValueError("no observation")
    for value in seen.values():
        float(value)
