"""Checkpoints: all that a simulation needs to go on, in a file of NumPy arrays (.npz)."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench import __version__
from gpubench.devices import Device
from gpubench.errors import UserError
from gpubench.measure.environment import code_hash
from gpubench.simulate.setup import Setup
from gpubench.workloads.workload import Workload
from gpubench.writing import whole_file

FORMAT = 1
_HEADER = "header"  # JSON: the fields of a Checkpoint but for its state
_STATE = "state."  # before the names of the arrays


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a simulation.

    setup: complete. step: since the beginning.
    device, version, code_hash: of the machine and the package that made it.
    observations: what was observed up to this moment.
    state: as Workload.state returned it.
    """

    setup: Setup
    step: int
    device: str
    version: str
    code_hash: str
    observations: list[dict[str, float]]
    state: dict[str, NDArray[Any]]

    def resume(self, workload: Workload) -> None:
        """Bring a workload of this setup to this moment."""
        workload.restore(self.state)

    def why_inexact(self, device: Device) -> list[str]:
        """Say why the simulation may not go on bit for bit here; empty where it will."""
        reasons = []
        if self.device != device.name:
            reasons.append(f"the device was {self.device}, and is {device.name}")
        if (self.version, self.code_hash) != (__version__, code_hash()):
            reasons.append(
                f"gpubench was {self.version} (code {self.code_hash}), and is {__version__}"
                f" (code {code_hash()})"
            )
        return reasons


def save(path: Path, workload: Workload, observations: Sequence[dict[str, float]]) -> None:
    """Write the present moment; a checkpoint that is there stays until the new one is whole.

    Raises UserError where the file cannot be written.
    """
    header = {
        "format": FORMAT,
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
    """Read a checkpoint; raise UserError for a file that is none, or not a whole one."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("no .npz file")
            file.seek(0)
            arrays: dict[str, NDArray[Any]] = dict(np.load(file, allow_pickle=False))
        header = json.loads(str(arrays[_HEADER]))
        if header.pop("format") != FORMAT:
            raise ValueError("another format")
        state = {n.removeprefix(_STATE): a for n, a in arrays.items() if n.startswith(_STATE)}
        return Checkpoint(**{**header, "setup": Setup(**header["setup"]), "state": state})
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (
        ValueError, TypeError, KeyError, AttributeError, EOFError, NotImplementedError,
        MemoryError, zipfile.BadZipFile,
    ) as error:  # fmt: skip
        raise UserError(
            f"{path} is no whole checkpoint of a simulation: give a file that --checkpoint wrote"
        ) from error
