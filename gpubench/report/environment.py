"""The machines of a report: device, host, libraries, and what was measured of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpubench.report import formats
from gpubench.report.cells import overhead_ms
from gpubench.report.machines import Machine
from gpubench.report.pages import NOTHING, Item, Table, words

_NOTES = (
    "Driver, host and libraries are those of the newest run; results files have all of each run.",
    "Overhead is what a warm sample of nothing takes; each sample holds it once, and none is taken"
    " off.",
)
# What is shown of a device or a host, and how.
_WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "cpu": str, "cores": "{} cores".format, "driver": "driver {}".format,
    "cuda_toolkit": "CUDA {}".format, "memory_bytes": formats.size, "os": str,
    "python": "Python {}".format,
}  # fmt: skip


def table(machines: Sequence[Machine]) -> Table:
    """Return a row for each machine."""
    return Table.of(
        "Machines",
        machines,
        ("Device", lambda machine: machine.device.name),
        {
            "Measured": lambda machine: words(machine.dates),
            "Driver, memory": lambda machine: words(_of(machine.environment["device"])),
            "Host": lambda machine: words(_of(machine.environment["host"])),
            "Libraries": lambda machine: words(_versions(machine.environment["libraries"])),
            "Copy, GB/s": lambda machine: _span(
                run.environment.get("copy_bandwidth_gb_s") for run in machine.runs
            ),
            "Overhead, ms": lambda machine: _span(
                overhead_ms(run.environment).get("hot") for run in machine.runs
            ),
        },
        _NOTES,
    )


def _of(known: Mapping[str, Any]) -> str:
    return ", ".join(w(known[n]) for n, w in _WRITTEN.items() if known.get(n) is not None)


def _versions(libraries: Mapping[str, str | None]) -> str:
    known = [f"{name} {version}" for name, version in libraries.items() if version is not None]
    return formats.listing(known or [formats.DASH])


def _span(values: Iterable[float | None]) -> Item:
    known = [value for value in values if value is not None]
    return Item(formats.span(known)) if known else NOTHING
