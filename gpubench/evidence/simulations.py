"""Accounts of simulations that `gpubench simulate --frames` left, as far as a report reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gpubench.evidence.bounds import Amount, Count, Line, Ms, Name, Real, Scalar, Size, read
from gpubench.evidence.declared import legacy


class Account(Struct):
    """What was simulated, how fast, and what was observed at which time."""

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
        for number, each in enumerate(self.observations):
            time = each.get("time")
            if time is None or time < 0:
                raise ValueError(f"Expected a time - at `$.observations[{number}].time`")


def load(path: Path) -> dict[str, Any]:
    """Return an account as plain JSON; raises UserError for what is none."""
    account = read(path, Account, "an account of a simulation")
    account.figure = account.figure or legacy()["figures"].get(account.workload, "")
    found: dict[str, Any] = msgspec.to_builtins(account)
    return found
