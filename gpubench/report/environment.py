"""The machine of a report: device, host, libraries, state while measuring, and its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpubench.report import formats
from gpubench.report.machines import Machine
from gpubench.report.pages import Item, Row, Table

_OVERHEAD = (
    "Overhead is what a sample takes in which nothing is launched (older results have it of hot"
    " samples alone: empty launch). It is in every sample once, however many launches the sample"
    " holds, and is not taken off."
)
_ENDINGS = {"_bytes": "", "_gb_s": " GB/s", "_ms": " ms"}  # of names, with their units
_OF_RUNS = ("started", "commit", "dirty", "code_hash")  # which the table of runs shows


def environment(machine: Machine) -> Table:
    """Return what the machine was: device, host, libraries, state of the clocks."""
    found: dict[str, dict[str, None]] = {}
    states: dict[str, list[Any]] = {}
    for run in machine.runs:
        for label, value in _flat(run.environment):
            found.setdefault(label, {})[value] = None
        for state in (s for r in run.records for s in (r.state_before, r.state_after) if s):
            for name, reading in state.items():
                label = f"while measuring: {name.replace('_', ' ')}"
                states.setdefault(label, []).append(reading)
    shown = {label: _together(list(values)) for label, values in found.items()}
    shown |= {label: _summary(values) for label, values in states.items()}
    known = {key for run in machine.runs for key, value in run.environment.items() if value}
    notes = [_OVERHEAD] if known & {"overhead_ms", "empty_launch_ms"} else []
    rows = [Row(label, [Item(value, "words")]) for label, value in shown.items()]
    return Table("The machine", ["What", "Value"], rows, notes=notes)


def _together(values: Sequence[str]) -> str:
    """Write what several runs had: the least and the greatest time or rate, or all else."""
    for unit in filter(None, _ENDINGS.values()):
        if len(values) > 2 and all(value.endswith(unit) for value in values):
            numbers = {float(v.removesuffix(unit).replace(",", "")): v for v in values}
            return f"{numbers[min(numbers)].removesuffix(unit)} to {numbers[max(numbers)]}"
    return "; ".join(values)


def _summary(values: Sequence[Any]) -> str:
    """Write what was read several times: the least and the greatest number, or all words."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return " to ".join(dict.fromkeys(map(formats.plain, (min(values), max(values)))))
    flat = [each for v in values for each in (v if isinstance(v, list) else [v])]
    return ", ".join(dict.fromkeys(formats.plain(v) for v in flat if v is not None)) or "none"


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


def _flat(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Flatten an environment into labelled values, without what the table of runs shows."""
    for name, value in environment.items():
        if isinstance(value, dict):
            unit_of = name if name.endswith(tuple(_ENDINGS)) else ""
            for key, item in value.items():
                yield f"{_words(name)}: {_words(key)}", _measure(unit_of or key, item)
        elif name not in _OF_RUNS:
            yield _words(name), _measure(name, value)


def _words(name: str) -> str:
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def _measure(name: str, value: Any) -> str:
    if value is None:
        return "not known"
    if name.endswith("_bytes"):
        return formats.size(int(value))
    if isinstance(value, dict):
        return ", ".join(f"{_words(k)} {_measure(k, v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(formats.plain(v) for v in value) or "none"
    unit = next((unit for ending, unit in _ENDINGS.items() if name.endswith(ending)), "")
    return f"{formats.significant(value)}{unit}" if unit else formats.plain(value)
