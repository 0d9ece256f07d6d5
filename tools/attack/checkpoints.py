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

from attack import processes, scene
from attack.trial import Outcome, require

NAME = "checkpoints"
PROMISE = (
    "A forged checkpoint or array of positions is refused in one line: nothing in it is executed,"
    " and it takes no more memory than a good one."
)
START = ("simulate", "dpd-standard", "--device", scene.DEVICE, "--steps")
RESUME = (*START, "9", "--resume", "forged")
CHECK = (
    "check", "atomic-list", "--device", scene.DEVICE, "--positions", "forged",
    "--box", "8,8,8", "--cell-size", "1",
)  # fmt: skip
HEADER: dict[str, tuple[Any, ...]] = {
    "step": (-1, 2**63, 1e30, "7", None, [], True, 0.5),
    "format": (0, 2, "1", None),
    "observations": (7, [7], [{"step": "x"}], "text", {}, None),
    "setup": ({}, None, [], "text", {"workload": "dpd-standard"}),
    "extra": (1,),
}
SETUP: dict[str, tuple[Any, ...]] = {
    "workload": ("sph-dam-break", "none", "", 7, None, "../x", "a\0b"),
    "particles": (-1, 0, 10**12, 2**31, 2**63, 1e30, "300", None, True, 299),
    "algorithm": ("neighbour-query", "none", 7, None),
    "form": ("none", "", 7),
    "parameters": ({"time_step": "x"}, [], 7, {"time_step": -1}, {"time_step": 1e99}),
    "seed": (-1, 2**64, "x", 0.5, None),
    "skin": (-1, 1e300, "x", None, float("nan"), float("inf")),
}
SHAPES = ("(-1, 4)", f"({10**12}, 4)", f"({2**63}, 4)", "(2, 'a')", "'x'", "(0, 5)", "((((")
CLAIMED = ("<f4", "|O", "<f8", "junk")
OTHER_SHAPES: tuple[tuple[int, ...], ...] = ((0,), (7,), (300, 5), (9, 2), (2, 2, 2))
OTHER_TYPES = ("complex64", "U7", "datetime64[s]", "V3")


class _Marks:
    """What makes a folder where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Forge one file, and have a command read it with little memory to spare."""
    marker = folder / "executed"
    marks, is_positions = _Marks(marker), rng.random() < 0.15
    here = scene.Scene(folder, *([] if is_positions else [small]))
    if is_positions:
        how, content = _positions(rng, marks)
    else:
        forge = rng.choice((_header, _header, _array, _array, _array, _archive))
        how, content = forge(rng, (here.reference(small) / "work/c.npz").read_bytes(), marks)
    words = CHECK if is_positions else RESUME
    (here.work / "forged").write_bytes(content)
    ended = here.start(words, before=processes.limit_memory).wait()
    require(not marker.exists(), f"{how}: what the file holds was executed")
    scene.require_status(ended, 2, how=how)
    here.require_nothing_left()
    return Outcome(True, how)


def small(here: scene.Scene) -> dict[str, Any]:
    """Leave a good checkpoint."""
    here.run((*START, "4", "--particles", "300", "--checkpoint", "c.npz"))
    return {}


def _members(good: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _pack(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _claim(shape: str, dtype: str) -> bytes:
    """Return an array whose header claims what does not follow."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)


def _header(rng: Random, good: bytes, marks: _Marks) -> tuple[str, bytes]:
    """Change one field of the header."""
    members = _members(good)
    header = json.loads(str(np.load(io.BytesIO(members["header.npy"]))))
    field = rng.choice((*HEADER, *SETUP, *SETUP))
    value = rng.choice({**HEADER, **SETUP}[field])
    (header["setup"] if field in SETUP else header)[field] = value
    members["header.npy"] = _npy(np.array(json.dumps(header)))
    return f"{field} {str(value)[:40]!r}", _pack(members)


def _array(rng: Random, good: bytes, marks: _Marks) -> tuple[str, bytes]:
    """Replace one array, or take it away."""
    members = _members(good)
    name = rng.choice(sorted(members))
    old = np.load(io.BytesIO(members.pop(name)))
    kinds = {
        "gone": None,
        "shape": _npy(np.zeros(rng.choice(OTHER_SHAPES), old.dtype)),
        "dtype": _npy(np.zeros(old.shape, rng.choice(OTHER_TYPES))),
        "pickle": _npy(np.array([marks], dtype=object)),
        "NaN": _npy(np.full(old.shape or (1,), np.nan, np.float32)),
        "claim": _claim(rng.choice(SHAPES), rng.choice(CLAIMED)),
        "cut": _npy(old)[: rng.randrange(100)],
    }
    kind = rng.choice(sorted(kinds))
    if (content := kinds[kind]) is not None:
        members[name] = content
    return f"{name}: {kind}", _pack(members)


def _archive(rng: Random, good: bytes, marks: _Marks) -> tuple[str, bytes]:
    """Damage the file as a whole."""
    flipped = bytearray(good)  # a number, which the archive's checksum covers
    flipped[good.index(b"\x93NUMPY", good.index(b"state.places")) + 128 + rng.randrange(99)] ^= 1
    kinds = {
        "cut": good[: rng.randrange(len(good))],
        "flipped": bytes(flipped),
        "empty": b"",
        "pickle": pickle.dumps(marks),
        "text": b"PK\x03\x04 no archive",
        "array": _claim(rng.choice(SHAPES), "<f8"),
    }
    kind = rng.choice(sorted(kinds))
    return f"archive {kind}", kinds[kind]


def _positions(rng: Random, marks: _Marks) -> tuple[str, bytes]:
    """Forge an array of positions."""
    array = _npy(np.ones((9, 3), np.float32))
    kinds = {
        "claim": _claim(rng.choice(SHAPES), rng.choice(CLAIMED)),
        "pickle": _npy(np.array([marks], dtype=object)),
        "shape": _npy(np.zeros(rng.choice(OTHER_SHAPES), np.float32)),
        "NaN": _npy(np.full((9, 3), rng.choice((np.nan, np.inf, 1e300)))),
        "cut": array[: rng.randrange(len(array))],
        "version": array[:6] + bytes([rng.choice((0, 9, 255))]) + array[7:],
    }
    kind = rng.choice(sorted(kinds))
    return f"positions {kind}", kinds[kind]
