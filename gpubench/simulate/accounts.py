"""Read the account, or summary, that a simulation writes; see `session.account`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from gpubench.evidence import bounds
from gpubench.evidence.bounds import Amount, Count, Line, Ms, Name, Real, Scalar, Size
from gpubench.evidence.declared import legacy

WARM_UP_BLOCKS = 2  # the first blocks, which also compile; not counted if others follow


class Block(Struct, frozen=True):
    """Steps that were queued together, and their total device time."""

    steps: Count
    elapsed_ms: Ms


class Account(Struct):
    """The summary of a simulation: its setup, its speed, and what was observed.

    ended: when the run ended; None in accounts written before version 0.2.
    """

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
    device: Line
    device_name: Line
    machine: Name
    commit: Line | None
    particle_steps_per_s: Annotated[dict[str, Size], Meta(min_length=3, max_length=3)] | None
    observations: list[dict[Name, Real | None]]
    blocks: list[Block] = []
    ended: Annotated[datetime, Meta(tz=True)] | None = None
    figure: Line = ""

    def __post_init__(self) -> None:
        for index, each in enumerate(self.observations):
            time = each.get("time")
            if time is None or time < 0:
                raise ValueError(f"Expected a time - at `$.observations[{index}].time`")
        for name, value in self.given.items():
            if isinstance(value, float) and value.is_integer():
                self.given[name] = int(value)

    @property
    def environment(self) -> dict[str, Any]:
        """Machine, device and commit as in results; `started` has the end time, "" if unknown."""
        device = {"backend": self.device.partition(":")[0], "name": self.device_name}
        ended = self.ended or legacy()["ended"].get((self.commit or "")[:7])
        started = "" if ended is None else ended.isoformat()
        return {
            "machine": self.machine, "device": device, "commit": self.commit, "started": started,
        }  # fmt: skip

    @property
    def command(self) -> str:
        """The command that simulates it again."""
        words = ["gpubench", "simulate", self.workload]
        for name in ("particles", "steps", "algorithm", "form", "seed"):
            words += [f"--{name}", str(getattr(self, name))]
        words += ["--skin", f"{self.skin:g}"] if self.skin else []
        for name, value in self.given.items():
            words += ["--parameter", f"{name}={value}"]
        return shlex.join([*words, "--frames", "DIR"])


def counted_ms(blocks: Sequence[Block]) -> list[float]:
    """Return the time of a step in each block that counts, in milliseconds."""
    counted = blocks[WARM_UP_BLOCKS:] or blocks[-1:]
    return [block.elapsed_ms / block.steps for block in counted]


def load(path: Path) -> Account:
    """Read an account; raises UserError if the file is missing, or is not an account."""
    return bounds.read(path, Account, "an account of a simulation")
