"""What a search holds on the device and what it launches, in C++ and in Python."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

# How CuPy is told of so many items of a type.
ITEMS = {
    "int": '{}, "i4"', "unsigned": '{}, "u4"', "uint64": '{}, "u8"', "float4": '({}, 4), "f4"',
}  # fmt: skip
MEMBERS = ("n", "cells", "cutoff2", "slack", "grid", "positions")  # beside the buffers
LAUNCH = re.compile(r"^(\w+)::(\w+)\[(.+?), (\w+)(?:, (\w+))?\]\(\s*(.*?)\)$", re.DOTALL)


def rendered(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return what stands for DECLARE_HERE, TAKE_HERE, COUNT_HERE, ... in C++ and in Python.

    text: of `search.in`, with its conditions resolved.
    """
    sections = dict(re.findall(r"^(\w+):\n(.*?)(?=^\w+:$|\Z)", text, re.MULTILINE | re.DOTALL))
    buffers = re.findall(r"^(\w+) (\w+) (.+)$", sections.pop("buffers"), re.MULTILINE)
    lengths = {name: length for _, name, length in buffers}
    names = re.compile(rf"\b({'|'.join((*lengths, *MEMBERS))})\b(?!::)")

    def in_cuda(line: str) -> str:
        if found := LAUNCH.match(line):
            kernel, things, threads, each, given = _parts(found)
            blocks = f"blocks({things}, {threads}{' * ' * bool(each)}{each})"
            return f"{kernel}<<<{blocks}, {threads}, 0, stream>>>(\n    {given});"
        if line == "sort":
            return "sort(stream);"
        _, name, byte = line.split()
        return f"cudaMemsetAsync({name}, {byte}, {lengths[name]} * sizeof *{name}, stream);"

    def in_python(line: str) -> str:
        if found := LAUNCH.match(line):
            kernel, things, threads, each, given = _parts(found)
            things, given = (names.sub(r"self.\1", words) for words in (things, given))
            rows = textwrap.indent(textwrap.fill(f"{given},", 88), "    ")
            return f'self._launch(\n    "{kernel}", {things}, {threads}, {each or 1},\n{rows}\n)'
        if line == "sort":
            return "self._sort()"
        _, name, byte = line.split()
        return f'self.{name}.view("u1").fill({byte})'

    cuda, python = (
        {f"{name.upper()}_HERE": _lines(of, write) for name, of in sections.items()}
        for write in (in_cuda, in_python)
    )
    cuda["DECLARE_HERE"] = "\n".join(
        f"    {'detail::' * (kind == 'uint64')}{kind} *{name} = nullptr;"
        for kind, name, _ in buffers
    )
    cuda["TAKE_HERE"] = "\n".join(
        f"        take(at, {name}, {of});" for name, of in lengths.items()
    )
    python["TAKE_HERE"] = "\n".join(
        f"        self.{name} = cupy.zeros({ITEMS[kind].format(of)})" for kind, name, of in buffers
    )
    return cuda, python


def _parts(found: re.Match[str]) -> list[str]:
    """Return kernel, things, threads, things of a thread, arguments; constants with namespace."""
    space, kernel, *words, given = found.groups(default="")
    words = [re.sub(r"\b([A-Z_]+)\b", rf"{space}::\1", word) for word in words]
    return [f"{space}::{kernel}", *words, given]


def _lines(section: str, write: Callable[[str], str]) -> str:
    """Write the lines of a section, of which launches may take two."""
    launches = section.strip().replace("(\n    ", "(").splitlines()
    return textwrap.indent("\n".join(map(write, launches)), " " * 8)
