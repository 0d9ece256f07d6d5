"""The machine of a report: device, host, libraries, state while measuring."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpubench.report import formats
from gpubench.report.machines import Machine
from gpubench.report.pages import Table, words

_OVERHEAD = (
    "Overhead is what a sample takes in which nothing is launched (older results have it of hot"
    " samples alone: empty launch). It is in every sample once, however many launches the sample"
    " holds, and is not taken off."
)
# Endings of names, how their numbers are written, and in what unit.
_UNITS: Mapping[str, tuple[Callable[[Any], str], str]] = {
    "bytes": (formats.size, ""),
    "gb_s": (formats.significant, " GB/s"),
    "ms": (formats.significant, " ms"),
}
_ENDING = re.compile(rf"_({'|'.join(_UNITS)})\b")
_ADDED = ("overhead_ms", "empty_launch_ms")
_OF_RUNS = ("started", "commit", "dirty", "code_hash")


def environment(machine: Machine) -> Table:
    """Return what the machine was: device, host, libraries, state of the clocks."""
    found: dict[str, list[Any]] = {}
    for run in machine.runs:
        states = (state for r in run.records for state in (r.state_before, r.state_after))
        for values in (run.environment, *({"while measuring": s} for s in states if s)):
            for name, value in _flat(values):
                found.setdefault(name, []).append(value)
    return Table.of(
        "The machine",
        found.items(),
        ("What", lambda each: _ENDING.sub("", each[0]).replace("_", " ")),
        {"Value": lambda each: words(_summary(*each))},
        notes=[_OVERHEAD] if any(name.startswith(_ADDED) for name in found) else [],
    )


def _flat(values: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of all names, but for what is of one run."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{within}{name}: ")
        elif name not in _OF_RUNS:
            yield f"{within}{name}", value


def _summary(name: str, values: Sequence[Any]) -> str:
    """Write what several runs had: the least and the greatest number, or all words."""
    flat = [each for v in values for each in (v if isinstance(v, list) else [v])]
    known = [each for each in flat if each is not None]
    if not known:
        return "not known" if flat else "none"
    if any(isinstance(each, bool | str) for each in known):
        return ", ".join(dict.fromkeys(map(formats.plain, known)))
    ending = _ENDING.search(name)
    write, unit = _UNITS[ending[1]] if ending else (formats.plain, "")
    return " to ".join(dict.fromkeys(map(write, (min(known), max(known))))) + unit
