"""Simulations in a report, from folders written by `gpubench simulate --frames`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from gpubench.base.errors import UserError
from gpubench.evidence.bounds import Amount, Count, Line, Ms, Name, Real, Scalar, Size, read
from gpubench.evidence.declared import legacy
from gpubench.physics.observables import observed
from gpubench.report import formats
from gpubench.report.pages import Page, Photo, Section, Table, number

_PANEL = "panel.png"


class Account(Struct):
    """The summary of a simulation: setup, speed, and observations with their times."""

    workload: Name
    particles: Count
    algorithm: Name
    form: Name
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    skin: Size
    given: dict[Name, Scalar]
    time_step: Size
    steps: Amount
    time: Size
    device_name: Line
    particle_steps_per_s: Annotated[dict[str, Size], Meta(min_length=3, max_length=3)] | None
    phases_mean_ms: dict[Name, Ms]
    observations: list[dict[Name, Real | None]]
    figure: Line = ""

    def __post_init__(self) -> None:
        for index, each in enumerate(self.observations):
            time = each.get("time")
            if time is None or time < 0:
                raise ValueError(f"Expected a time - at `$.observations[{index}].time`")
        for name, value in self.given.items():
            if isinstance(value, float) and value.is_integer():
                self.given[name] = int(value)


def page(simulations: Sequence[Section]) -> Page:
    """Return the page of all simulations."""
    count = len(simulations)
    lead = f"{count} simulation{'' if count == 1 else 's'} with pictures and speed."
    return Page("simulations", "Simulations", lead, simulations)


def sections(accounts: Iterable[Path]) -> list[Section]:
    """Read summaries of simulations and their panels; UserError for any other file."""
    return [_section(f"simulation-{index}", path) for index, path in enumerate(accounts, 1)]


def _section(slug: str, path: Path) -> Section:
    told = read(path, Account, "an account of a simulation")
    panel = path.with_name(_PANEL)
    png = panel.read_bytes() if panel.exists() else None
    if png is not None and not png.startswith(b"\x89PNG\r\n\x1a\n"):
        raise UserError(f"{panel} is no picture as PNG")
    shown = (
        f"Up to six moments of {told.workload} from time 0 to {told.time:g}: its particles,"
        " x to the right, z upwards."
    )
    given = "".join(f", {name.replace('_', ' ')} {value}" for name, value in told.given.items())
    said, *more = _sentences(told)
    seen = Table.of(
        "Observed at the end",
        observed(told.workload, [{}, *told.observations][-1]).items(),
        ("", lambda each: each[0].replace("_", " ")),
        {"value": lambda each: number(each[1], "{:,.6g}".format)},
    )
    return Section(
        title=f"{told.workload}, {formats.count(told.particles)} particles{given}",
        level=2,
        slug=slug,
        verdict=said,
        sentences=more,
        tables=[seen],
        command=_command(told),
        picture=None if png is None else Photo(png, shown),
    )


def _sentences(told: Account) -> list[str]:
    figure = told.figure or legacy()["figures"].get(told.workload, "")
    done = f"{told.steps:,} steps of {told.time_step:g}, up to time {told.time:g}"
    over = f"over {told.algorithm} {told.form} on {told.device_name}"
    said = [*filter(None, [figure]), f"{done}, {over}."]
    if rate := told.particle_steps_per_s:
        median, low, high = (formats.significant(v / 1e6) for v in rate.values())
        said.append(
            f"{median} million particle-steps per second (95 % interval of the median: {low} to"
            f" {high})."
        )
    return said


def _command(told: Account) -> str:
    words = ["gpubench", "simulate", told.workload]
    for name in ("particles", "steps", "algorithm", "form", "seed"):
        words += [f"--{name}", str(getattr(told, name))]
    words += ["--skin", f"{told.skin:g}"] if told.skin else []
    for name, value in told.given.items():
        words += ["--parameter", f"{name}={value}"]
    return shlex.join([*words, "--frames", "DIR"])
