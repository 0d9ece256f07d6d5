"""Files of positions that are forged or broken are refused in one line, at once."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest

from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.problems.particles.positions import read_particles

GRID = Grid((4, 4, 4), (0.0,) * 3, (4.0,) * 3, (True, True, True))


def forged(header: str | bytes, data: bytes = bytes(96), version: int = 1) -> bytes:
    """Return the bytes of a `.npy` file with any header."""
    text = header if isinstance(header, bytes) else header.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes((version, 0)) + length + text + b"\n" + data


def header(descr: object = "<f8", shape: object = (4, 3)) -> str:
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"


BAD = {
    "object array": forged(header("|O")),
    "huge shape": forged(header(shape=(10**18, 3))),
    "shape that overflows": forged(header(shape=(2**62, 4))),
    "shape beyond any integer": forged(header(shape=(10**30, 3))),
    "huge shape of nothing": forged(header("<U0", shape=(10**18, 3))),
    "negative shape": forged(header(shape=(-1, 3))),
    "shape that is no shape": forged(header(shape=1e400)),
    "many dimensions": forged(header(shape=(1,) * 70)),
    "huge item": forged(header([("a", "f8", (10**9, 10**9))])),
    "text as a type": forged(header("((((")),
    "number as a type": forged(header([1])),
    "empty type": forged(header(())),
    "keys of several types": forged("{1: 2, 'a': 3}"),
    "nesting": forged("[" * 90 + "]" * 90),
    "deep nesting": forged("-" * 5000 + "1"),
    "unfinished": forged("{'descr': '<f8'"),
    "no Python": forged("\0"),
    "not ASCII": forged(b"\xff\xfe" * 20, version=3),
    "long header": forged("1" * 20000, version=2),
    "header longer than the file": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    "unknown version": b"\x93NUMPY\x09\x09" + bytes(100),
    "half of the data": forged(header(), bytes(48)),
    "no data": forged(header(), b""),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.npy"
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_particles(file, GRID)
    message = str(error.value)
    assert "\n" not in message and len(message) < 400 + len(str(file))


def test_files_with_some_other_bytes_are_read_or_refused(tmp_path: Path) -> None:
    good = forged(header())
    file = tmp_path / "bad.npy"
    file.write_bytes(good)
    assert read_particles(file, GRID).particles == 4
    rng = random.Random(1)
    taken = 0
    for _ in range(300):
        changed = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(good))] = rng.randrange(256)
        file.write_bytes(changed)
        try:
            read = read_particles(file, GRID)
        except UserError:
            continue
        assert np.isfinite(read.positions).all()
        taken += 1
    assert 20 < taken < 280


@pytest.mark.parametrize("number", [float("inf"), float("nan"), np.longdouble("1e4000")])
def test_what_is_no_finite_number_is_refused(tmp_path: Path, number: np.longdouble) -> None:
    file = tmp_path / "bad.npy"
    np.save(file, np.full((2, 3), number))
    with pytest.raises(UserError, match="2 of 2 are not finite"):
        read_particles(file, GRID)


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "<f16", "<i1", ">u8"])
def test_every_kind_of_number_is_read(tmp_path: Path, dtype: str) -> None:
    file = tmp_path / "good.npy"
    np.save(file, np.array([[1, 2, 3], [0, 0, 1]], dtype, order="F"))
    assert read_particles(file, GRID).positions[:, :3].tolist() == [[1, 2, 3], [0, 0, 1]]


def test_no_particles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    with pytest.raises(UserError, match="holds no particles"):
        read_particles(tmp_path / "none.npy", GRID)


def test_too_many_for_memory_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(array: object) -> object:
        raise MemoryError("Unable to allocate 64 GiB")

    np.save(tmp_path / "many.npy", np.zeros((5, 3)))
    monkeypatch.setattr(np, "isfinite", no_memory)
    with pytest.raises(UserError, match=r"^5 particles of .* do not fit into memory"):
        read_particles(tmp_path / "many.npy", GRID)
