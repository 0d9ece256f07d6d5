"""Odd arrays, and trajectories as other programs write them, or broken; see `odd_inputs`."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

Odd = tuple[str, str, bytes, bool]  # what it is, its name and content, and whether it is good
BOX = (5.0, 6.0, 7.0)
LATTICE = 'Lattice="5 0 0 0 6 0 0 0 7"'
PROPERTIES = (("species:S:1", "Ar"), ("id:I:1", "7"), ("mass:R:1", "1.5"), ("velo:R:3", "9 8 7"))


def _with(value: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    x[3, 1] = value
    return x


# Of an array of positions, and whether it must be accepted.
ARRAYS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "float32": (lambda x: x.astype(np.float32), True),
    "float64": (lambda x: x, True),
    "strided": (lambda x: np.repeat(x, 2, axis=0)[::2], True),
    "reversed": (lambda x: x[::-1].copy()[::-1], True),
    "Fortran order": (np.asfortranarray, True),
    "some columns": (lambda x: np.pad(x, ((0, 0), (2, 2)))[:, 2:5], True),
    "read-only": (lambda x: np.frombuffer(x.tobytes()).reshape(x.shape), True),
    "four columns": (lambda x: np.pad(x, ((0, 0), (0, 1))), True),
    "zero rows": (lambda x: x[:0], True),
    "one row": (lambda x: x[:1], True),
    "big-endian": (lambda x: x.astype(">f8"), False),
    **{kind: (methodcaller("astype", kind), False) for kind in (
        "float16", "int64", "uint8", "longdouble", "complex128", "object", "str", "bool", "S8")},
    **{f"one {value}": (partial(_with, value), False)
       for value in (np.nan, np.inf, 1e308, -1e308, 1e38, 1e8, 1e-320)},
    **{f"shape {shape}": (partial(np.resize, new_shape=shape), False)
       for shape in ((), (3,), (4, 2), (4, 5), (0,), (0, 2), (2, 3, 3))},
    "list": (lambda x: x.tolist(), False),
    "masked": (lambda x: np.ma.masked_greater(x, 1), False),
    "None": (lambda x: None, False),
}  # fmt: skip
TENSORS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "tensor": (lambda t: t, True),
    "of a gradient": (lambda t: t.requires_grad_(), True),
    "transposed": (lambda t: t.T.contiguous().T, True),
    "strided": (lambda t: t.repeat_interleave(2, 0)[::2], True),
    **{kind: (methodcaller(kind), False)
       for kind in ("bfloat16", "half", "int", "to_sparse", "cfloat", "bool")},
    "meta": (lambda t: t.to("meta"), False),
    "conjugated": (lambda t: t.cfloat().conj().real, False),
}  # fmt: skip


def write(rng: Random, frames: NDArray[np.float64], work: Path) -> Odd:
    """Return frames, shape (frames, particles, 3), in BOX as an odd file. work: a folder."""
    return _xyz(rng, frames) if rng.random() < 0.6 else _binary(rng, frames, work)


def _xyz(rng: Random, frames: NDArray[np.float64]) -> Odd:
    """Write XYZ, extended or not."""
    is_extended, ends = rng.random() < 0.6, rng.choice(("\n", "\r\n"))
    between = rng.choice((0, 0, 1, 3))
    columns = rng.sample(PROPERTIES, rng.randrange(4))
    at = rng.randrange(len(columns) + 1)
    names = [name for name, _ in columns]
    names.insert(at, "pos:R:3")
    lattice = LATTICE if is_extended and rng.random() < 0.5 else ""
    harm = rng.choice(("", "", "", "cut", "count", "NaN", "word", "tilted", "changing", "sizes"))
    lines = []
    for number, frame in enumerate(frames):
        comment = (
            f"{lattice} Properties={':'.join(names)}" if is_extended else rng.choice(("", "a"))
        )
        if harm in ("tilted", "changing") and number == len(frames) - 1 > 0:
            comment = comment.replace("0 6 0", "1 6 0" if harm == "tilted" else "0 8 0")
        rows = frame[: len(frame) - (harm == "sizes" and number > 0)]
        lines += [str(len(rows) + (harm == "count")), comment]
        for row in rows.tolist():
            words = [word for _, word in columns] if is_extended else ["Ar"]
            words.insert(at if is_extended else 1, " ".join(map(str, row)))
            lines.append(" ".join(words))
        lines += [""] * between
    text = ends.join(lines) + ends
    if harm == "cut":
        text = text[: text.rindex(" ")]  # without the last column
    if harm in ("NaN", "word"):
        text = text.replace(str(frames[-1, -1, 1]), {"NaN": "nan", "word": "x"}[harm])
    content = text.encode()
    is_zipped = rng.random() < 0.3
    kind = ":".join(names) if is_extended else "plain"
    how = f"{kind}{', lattice' * bool(lattice)}, {between} blank lines, harm {harm!r}"
    content, name = (gzip.compress(content), "t.xyz.gz") if is_zipped else (content, "t.xyz")
    return how, name, content, not harm and not is_zipped


def _binary(rng: Random, frames: NDArray[np.float64], work: Path) -> Odd:
    """Write a GSD file or an array."""
    if rng.random() < 0.5:
        kinds = ("<f8", ">f8", "<f4", "f2", "c16", "U9", "O", "?", "M8[s]")
        file, kind = io.BytesIO(), rng.choice(kinds)
        array = frames.astype(kind) if kind != "M8[s]" else frames.astype("i8").astype(kind)
        np.save(file, np.asfortranarray(array) if rng.random() < 0.5 else array)
        return kind, "t.npy", file.getvalue(), kind in ("<f8", "<f4")
    import gsd.hoomd

    harm = rng.choice(("", "none", "sizes", "tilted", "changing", "cut"))
    with gsd.hoomd.open(str(work / "t.gsd"), "w") as file:
        for number, frame in enumerate(frames[: 0 if harm == "none" else None]):
            moment, is_last = gsd.hoomd.Frame(), number == len(frames) - 1 > 0
            tilt = float(harm == "tilted" and is_last)
            moment.configuration.box = [5, 6 + (harm == "changing" and is_last), 7, tilt, 0, 0]
            rows = frame[: len(frame) - (harm == "sizes" and number > 0)]
            moment.particles.N, moment.particles.position = len(rows), rows - np.asarray(BOX) / 2
            file.append(moment)
    content = (work / "t.gsd").read_bytes()
    return f"lattice, harm {harm!r}", "t.gsd", content[: 300 if harm == "cut" else None], not harm
