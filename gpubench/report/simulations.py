"""Simulations in a report: what `gpubench simulate --frames` left in a folder."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpubench.base.errors import UserError
from gpubench.evidence.simulations import load
from gpubench.report import formats
from gpubench.report.pages import Page, Photo, Section, Table, number

_PANEL = "panel.png"


def page(simulations: Sequence[Section]) -> Page:
    """Return the page of all simulations."""
    count = len(simulations)
    lead = f"{count} simulation{'' if count == 1 else 's'} with pictures and speed."
    return Page("simulations", "Simulations", lead, simulations)


def sections(accounts: Iterable[Path]) -> list[Section]:
    """Read accounts of simulations, with the panels beside them; UserError for what is none."""
    return [_section(f"simulation-{index}", path) for index, path in enumerate(accounts, 1)]


def _section(slug: str, path: Path) -> Section:
    told = load(path)
    told["given"] = {  # whole numbers without a point
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in told["given"].items()
    }
    panel = path.with_name(_PANEL)
    png = panel.read_bytes() if panel.exists() else None
    if png is not None and not png.startswith(b"\x89PNG\r\n\x1a\n"):
        raise UserError(f"{panel} is no picture as PNG")
    shown = (
        f"Up to six moments of {told['workload']} from time 0 to {told['time']:g}: its particles,"
        " x to the right, z upwards."
    )
    given = "".join(f", {name.replace('_', ' ')} {value}" for name, value in told["given"].items())
    said, *more = _sentences(told)
    return Section(
        title=f"{told['workload']}, {formats.count(told['particles'])} particles{given}",
        level=2,
        slug=slug,
        verdict=said,
        sentences=more,
        tables=[_facts(told)],
        command=_command(told),
        picture=None if png is None else Photo(png, shown),
    )


def _sentences(told: Mapping[str, Any]) -> list[str]:
    rate = told["particle_steps_per_s"]
    done = f"{told['steps']:,} steps of {told['time_step']:g}, up to time {told['time']:g}"
    over = f"over {told['algorithm']} {told['form']} on {told['device_name']}"
    said = [told["figure"]] if told["figure"] else []
    said.append(f"{done}, {over}.")
    if rate:
        median, low, high = (formats.significant(v / 1e6) for v in rate.values())
        said.append(
            f"{median} million particle-steps per second (95 % interval of the median: {low} to"
            f" {high})."
        )
    return said


def _facts(told: Mapping[str, Any]) -> Table:
    last = told["observations"][-1] if told["observations"] else {}
    return Table.of(
        "Observed at the end",
        last.items(),
        ("", lambda each: each[0].replace("_", " ")),
        {"value": lambda each: number(each[1], "{:,.6g}".format)},
    )


def _command(told: Mapping[str, Any]) -> str:
    words = ["gpubench", "simulate", told["workload"]]
    for name in ("particles", "steps", "algorithm", "form", "seed"):
        words += [f"--{name}", str(told[name])]
    words += ["--skin", f"{told['skin']:g}"] if told["skin"] else []
    for name, value in told["given"].items():
        words += ["--parameter", f"{name}={value}"]
    return shlex.join([*words, "--frames", "DIR"])
