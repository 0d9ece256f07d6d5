"""Simulations in a report, from folders written by `gpubench simulate --frames`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpubench.base.errors import UserError
from gpubench.evidence.declared import legacy
from gpubench.physics.observables import observed
from gpubench.report import formats
from gpubench.report.machines import when
from gpubench.report.pages import Page, Section, Table, number
from gpubench.simulate.accounts import Account, counted_ms, load

_PANEL = "panel.png"
_SPEED = (
    "Speeds are of the median device time of a step, over blocks of steps of the whole run: graphs"
    " are replayed where the algorithm allows; frames, observations and checkpoints fall between"
    " blocks. Studies time steps soon after the start alone."
)


def page(simulations: Sequence[Section]) -> Page:
    """Return the page of all simulations."""
    count = len(simulations)
    lead = f"{count} simulation{'' if count == 1 else 's'} with pictures and speed."
    return Page("simulations", "Simulations", lead, simulations)


def sections(accounts: Iterable[Path]) -> list[Section]:
    """Read summaries of simulations and their panels; UserError for any other file."""
    return [_section(f"simulation-{index}", path) for index, path in enumerate(accounts, 1)]


def _section(slug: str, path: Path) -> Section:
    told = load(path)
    panel = path.with_name(_PANEL)
    png = panel.read_bytes() if panel.exists() else b""
    if panel.exists() and not png.startswith(b"\x89PNG\r\n\x1a\n"):
        raise UserError(f"{panel} is no picture as PNG")
    shown = f"Up to six moments of {told.workload} from time 0 to {told.time:g}: its particles,"
    shown += " x to the right, z upwards."
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
        measured=[told.environment],
        verdict=said,
        notes=[_SPEED],
        sentences=more,
        tables=[seen],
        command=told.command,
        picture=png,
        seen=shown,
    )


def _sentences(told: Account) -> list[str]:
    figure = told.figure or legacy()["figures"].get(told.workload, "")
    done = f"{told.steps:,} steps of {told.time_step:g}, up to time {told.time:g}"
    over = f"over {told.algorithm} {told.form} on {told.device_name}"
    said = [*filter(None, [figure]), f"{done}, {over}."]
    if rate := told.particle_steps_per_s:
        median, low, high = formats.apart([value / 1e6 for value in rate.values()])
        interval = f" (95 % interval of the median: {low} to {high})" if low != high else ""
        per_second = f"{median} million particle-steps per second{interval}"
        said.append(f"{per_second}, {when([told.environment])}.")
    if times := counted_ms(told.blocks):
        first, last = map(formats.significant, (times[0], times[-1]))
        said.append(f"A step took {first} ms at first and {last} ms at the end of this run.")
    return said
