"""Results of `gpubench traps` on disk: what came of each trap, and the machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gpubench.evidence import bounds
from gpubench.evidence.bounds import Environment, Line, Name
from gpubench.evidence.records import to_json

RIGHT, FAILED = ("right", "refused", "not offered"), ("wrong", "crashed", "hung")


class Caught(Struct, frozen=True, forbid_unknown_fields=True):
    """What came of a trap.

    library: with its version. said: the error, or what is wrong. bug: lines that show it.
    group: that of the trap.
    """

    library: Line
    form: Name
    trap: Line
    state: Literal["right", "refused", "not offered", "wrong", "crashed", "hung"]
    said: Line = ""
    bug: Annotated[str, Meta(max_length=100_000)] = ""
    group: Line = ""


class TrapResults(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file: each library in each trap, on one device."""

    environment: Environment
    traps: Sequence[Caught]
    schema: Literal[1] = 1

    @property
    def columns(self) -> dict[str, dict[str, Caught]]:
        """The cells of each way to search by trap, by the library's name, version and form."""
        found: dict[str, dict[str, Caught]] = {}
        for cell in self.traps:
            found.setdefault(f"{cell.library} {cell.form}", {})[cell.trap] = cell
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the file's document."""
        return dict(json.loads(to_json(self)))


def load(path: Path) -> TrapResults:
    """Read a file; raises UserError where it is missing or not a file of traps."""
    return bounds.read(path, TrapResults, "a file of gpubench traps")
