"""Give forged checkpoints and arrays to the commands that read them."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attack import common, processes
from attack.trial import Outcome, require

NAME = "checkpoints"
PROMISE = (
    "A forged checkpoint or array of positions is refused in one line: nothing in it is executed,"
    " and it takes no more memory than a good one."
)
RESUME = ("simulate", "dpd-standard", "--device", common.DEVICE, "--steps", "60")
CHECK = (
    "check", "atomic-list", "--device", common.DEVICE, "--positions", "forged.npy",
    "--box", "8,8,8", "--cell-size", "1",
)  # fmt: skip
HEADERS: dict[str, tuple[Any, ...]] = {
    "step": (-1, 2**63, 1e30, "7", None, [], True, 0.5),
    "format": (0, 2, "1", None),
    "observations": (7, [7], [{"step": "x"}], "text", {}, None),
    "setup": ({}, None, [], "text", {"workload": "dpd-standard"}),
    "extra": (1,),
}
SETUPS: dict[str, tuple[Any, ...]] = {
    "workload": ("sph-dam-break", "none", "", 7, None, "../x", "a\0b"),
    "particles": (-1, 0, 10**12, 2**31, 2**63, 1e30, "300", None, True, 299),
    "algorithm": ("neighbour-query", "none", 7, None),
    "form": ("none", "", 7),
    "parameters": ({"time_step": "x"}, {"none": 1}, [], 7, {"time_step": -1}, {"time_step": 1e99}),
    "seed": (-1, 2**64, "x", 0.5, None),
    "skin": (-1, 1e300, "x", None, float("nan"), float("inf")),
}
SHAPES = ("(-1, 4)", f"({10**12}, 4)", f"({2**63}, 4)", "(2, 'a')", "'x'", "()", "(0, 4)", "((((")


class _Marks:
    """What leaves a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Forge one file, and have a command read it with little memory to spare."""
    common.once(folder, common.simulate_reference)
    processes.surroundings(folder)
    work, marker = folder / "work", folder / "executed"
    forge = rng.choice((_header, _header, _array, _array, _array, _archive, _positions))
    is_checkpoint = forge is not _positions
    words = (*RESUME, "--resume", "forged.npz") if is_checkpoint else CHECK
    target = work / ("forged.npz" if is_checkpoint else "forged.npy")
    how = forge(rng, folder.parent / "reference/work/c.npz", target, marker)
    ended = processes.run(words, folder, before=processes.limit_memory)
    require(not marker.exists(), f"{how}: what the file holds was executed")
    common.require_status(ended, 2, how=how)
    common.require_nothing_left(folder)
    return Outcome(True, how)


def _members(source: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(source) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _pack(target: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _header(rng: Random, source: Path, target: Path, marker: Path) -> str:
    """Change one field of the header."""
    members = _members(source)
    header = json.loads(str(np.load(io.BytesIO(members["header.npy"]))))
    field = rng.choice((*HEADERS, *SETUPS, *SETUPS))
    value = rng.choice({**HEADERS, **SETUPS}[field])
    (header["setup"] if field in SETUPS else header)[field] = value
    members["header.npy"] = _npy(np.array(json.dumps(header)))
    _pack(target, members)
    return f"{field} {str(value)[:40]!r}"


def _array(rng: Random, source: Path, target: Path, marker: Path) -> str:
    """Replace one array, or take it away."""
    members = _members(source)
    name = rng.choice(sorted(members))
    old = np.load(io.BytesIO(members[name]))
    kind = rng.choice(("gone", "shape", "dtype", "pickle", "NaN", "claim", "bytes"))
    if kind == "gone":
        del members[name]
    elif kind == "claim":
        members[name] = _claim(rng.choice(SHAPES), rng.choice(("<f4", "|O", "<f8", "junk")))
    elif kind == "bytes":
        content = bytearray(members[name])
        content[rng.randrange(min(80, len(content)))] ^= 1 << rng.randrange(8)
        members[name] = bytes(content[: rng.randrange(len(content))])
    else:
        new: NDArray[Any]
        if kind == "shape":
            new = np.zeros(rng.choice(((0,), (7,), (300, 5), (2, 2, 2))), old.dtype)
        elif kind == "dtype":
            new = np.zeros(old.shape, rng.choice(("complex64", "U7", "datetime64[s]", "V3")))
        elif kind == "pickle":
            new = np.array([_Marks(marker)], dtype=object)
        else:
            new = np.full(old.shape or (1,), np.nan, np.float32)
        members[name] = _npy(new)
    _pack(target, members)
    return f"{name}: {kind}"


def _claim(shape: str, dtype: str) -> bytes:
    """Return an array whose header claims what does not follow."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)


def _archive(rng: Random, source: Path, target: Path, marker: Path) -> str:
    """Damage the file as a whole."""
    content = source.read_bytes()
    kind = rng.choice(("cut", "flipped", "empty", "pickle", "text", "array", "folder"))
    if kind == "cut":
        target.write_bytes(content[: rng.randrange(len(content))])
    elif kind == "flipped":  # a number in an array, which the archive's checksum covers
        place = (
            content.index(b"\x93NUMPY", content.index(b"state.places")) + 128 + rng.randrange(99)
        )
        target.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    elif kind == "pickle":
        target.write_bytes(pickle.dumps(_Marks(marker)))
    elif kind == "array":
        target.write_bytes(_claim(rng.choice(SHAPES), "<f8"))
    elif kind == "folder":
        target.mkdir()
    else:
        target.write_text("" if kind == "empty" else "PK\x03\x04 no archive")
    return f"archive {kind}"


def _positions(rng: Random, source: Path, target: Path, marker: Path) -> str:
    """Forge an array of positions."""
    kind = rng.choice(("claim", "pickle", "shape", "NaN", "cut", "version"))
    good = _npy(np.ones((9, 3), np.float32))
    if kind == "claim":
        content = _claim(rng.choice(SHAPES[:-2]), rng.choice(("<f4", "|O", "<f8", "junk")))
    elif kind == "pickle":
        content = _npy(np.array([_Marks(marker)], dtype=object))
    elif kind == "shape":
        content = _npy(np.zeros(rng.choice(((3,), (9, 2), (3, 3, 3))), np.float32))
    elif kind == "NaN":
        content = _npy(np.full((9, 3), rng.choice((np.nan, np.inf, 1e300))))
    elif kind == "cut":
        content = good[: rng.randrange(len(good))]
    else:
        content = good[:6] + bytes([rng.choice((0, 9, 255))]) + good[7:]
    target.write_bytes(content)
    return f"positions {kind}"
