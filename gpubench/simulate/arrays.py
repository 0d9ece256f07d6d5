"""Reading arrays from an untrusted .npz file."""

from __future__ import annotations

import math
import re
import zipfile
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

# Header of a plain array's .npy file, as `numpy.savez` writes it: kind, bytes, order and shape.
_START = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][biufU]\d+)', 'fortran_order': (?:False|True),"
    rb" 'shape': \(([\d, ]*)\), \} *\n",
    re.DOTALL,
)
_LONGEST_START = 4096


def read_arrays(archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
    """Read all arrays that `numpy.savez` wrote, by name; nothing is unpickled.

    The declared sizes are compared with the actual bytes before memory is allocated.
    Raises ValueError for a member that `savez` does not write: compressed, of objects, or with more
    or fewer bytes than its shape requires.
    """
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two members have one name")
    assert archive.fp is not None
    if sum(member.file_size for member in members) > archive.fp.seek(0, 2):
        raise ValueError("the members are larger than the file")
    found = {}
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise ValueError(f"{member.filename} is compressed")
        with archive.open(member) as file:
            _require_whole(file.read(_LONGEST_START), member.file_size)
        with archive.open(member) as file:
            found[member.filename.removesuffix(".npy")] = npy.read_array(file, allow_pickle=False)
    return found


def _require_whole(start: bytes, size: int) -> None:
    """Raise ValueError where an .npy file's size does not match its declared array."""
    told = _START.match(start)
    if told is None:
        raise ValueError("no plain array")
    kind, shape = told.groups()
    items = math.prod(int(edge) for edge in shape.replace(b" ", b"").split(b",") if edge)
    if size != told.end() + items * np.dtype(kind.decode()).itemsize:
        raise ValueError("another number of bytes than the shape asks for")
