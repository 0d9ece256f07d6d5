"""The machine of a report: device, host, libraries, state while measuring, and its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpubench.report import formats
from gpubench.report.machines import Machine
from gpubench.report.pages import Item, Row, Table

_OVERHEAD = (
    "Overhead is what a sample takes in which nothing is launched (older results have it of hot"
    " samples alone: empty launch). It is in every sample once, however many launches the sample"
    " holds, and is not taken off."
)
# Endings of names, how their numbers are written, and in what unit.
_UNITS: Mapping[str, tuple[Callable[[Any], str], str]] = {
    "_bytes": (formats.size, ""),
    "_gb_s": (formats.significant, " GB/s"),
    "_ms": (formats.significant, " ms"),
}
_OF_RUNS = ("started", "commit", "dirty", "code_hash")  # which the table of runs shows


def environment(machine: Machine) -> Table:
    """Return what the machine was: device, host, libraries, state of the clocks."""
    found: dict[tuple[str, str], list[Any]] = {}
    for run in machine.runs:
        read = [("", run.environment)]
        states = (state for r in run.records for state in (r.state_before, r.state_after))
        read += [("while measuring: ", state) for state in states if state]
        for prefix, values in read:
            for label, name, value in _flat(values):
                found.setdefault((prefix + label, name), []).append(value)
    known = {key for run in machine.runs for key, value in run.environment.items() if value}
    notes = [_OVERHEAD] if known & {"overhead_ms", "empty_launch_ms"} else []
    rows = [Row(label, [Item(_summary(name, v), "words")]) for (label, name), v in found.items()]
    return Table("The machine", ["What", "Value"], rows, notes=notes)


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield label, name with its unit, and value, without what the table of runs shows."""
    for name, value in values.items():
        if isinstance(value, dict):
            for label, inner, item in _flat(value):
                yield f"{_words(name)}: {label}", name if name.endswith((*_UNITS,)) else inner, item
        elif name not in _OF_RUNS:
            yield _words(name), name, value


def _words(name: str) -> str:
    for ending in _UNITS:
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def _summary(name: str, values: Sequence[Any]) -> str:
    """Write what several runs had: the least and the greatest number, or all words."""
    flat = [each for v in values for each in (v if isinstance(v, list) else [v])]
    known = [each for each in flat if each is not None]
    if not known:
        return "not known" if flat else "none"
    if any(isinstance(each, bool | str) for each in known):
        return ", ".join(dict.fromkeys(map(formats.plain, known)))
    ending = next((ending for ending in _UNITS if name.endswith(ending)), "")
    write, unit = _UNITS.get(ending, (formats.plain, ""))
    return " to ".join(dict.fromkeys(map(write, (min(known), max(known))))) + unit


def runs(machine: Machine) -> Table:
    """Return the runs that the numbers come from."""
    rows = []
    for run in machine.runs:
        environment = run.environment
        commit = formats.plain(environment["commit"])[:12]
        studies = ", ".join(dict.fromkeys(r["study"] for r in run.records)) or formats.DASH
        changed = f"{commit} (with changes)" if environment["dirty"] else commit
        names = (environment["started"], studies, changed, environment["code_hash"])
        items = [*(Item(name, "name") for name in names), Item(str(len(run.records)))]
        rows.append(Row(run.path.name, items))
    columns = ["Results file", "Started", "Studies", "Commit", "Hash of the code", "Records"]
    return Table("Runs", columns, rows)
