"""Let two commands write to one place at once."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from attack import common, processes
from attack.processes import Command, Ended
from attack.trial import Outcome, require

NAME = "two-writers"
PROMISE = (
    "Of two commands that would write the same files, the later one is refused in one line, or"
    " both succeed; nothing that was written is lost."
)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Start two runs, two reports or two simulations, one some time after the other."""
    known = common.once(folder, _reference)
    kind = rng.choice((_two_runs, _two_runs, _two_reports, _two_simulations))
    share = rng.random() ** 2  # rather soon after the first
    common.write_study(folder)
    shutil.copytree(folder.parent / "reference/work/results", folder / "work/shown")
    how = kind(known, folder, share)
    common.require_nothing_left(folder)
    return Outcome(True, how)


def _reference(folder: Path) -> dict[str, Any]:
    return common.measure_reference(folder)


def _two_runs(known: dict[str, Any], folder: Path, share: float) -> str:
    """Run the study twice into one folder; the second may end the first one's work."""
    results = folder / "work/results"
    know = common.knowing(known)
    seen: dict[str, Any] = {}
    first = processes.start(common.RUN, folder, before=know)
    _watch(results, seen, [first], share * known["fork_s"])
    was_first = bool(seen)
    second = processes.start(common.RUN, folder, before=know)
    _watch(results, seen, [first, second], processes.LONGEST_S)
    ends = [first.wait(), second.wait()]
    how = f"two runs, the second after {len(seen) if was_first else 0} records"
    _require_ends(ends, how)
    if was_first:
        require(ends[0].status == 0, f"{how}: the first one was refused: {ends[0].said}")
    found = common.records(results)
    common.require_kept(seen, found)
    require(sorted(found) == known["keys"], f"{how}: other keys than of one run")
    return how


def _watch(
    results: Path, seen: dict[str, Any], commands: Sequence[Command], seconds: float
) -> None:
    """Note the records as they are written, for so many seconds or until the commands end."""
    steps = max(1, round(seconds / 0.01))
    for _ in range(steps):
        if all(command.poll() for command in commands):
            return
        seen |= common.records(results)
        common.let_run(commands[0], 0.01)


def _require_ends(ends: Sequence[Ended], how: str) -> None:
    told = f"{how}: {ends[0].said}; {ends[1].said}"
    require(sorted(ended.status for ended in ends) in ([0, 0], [0, 2]), told)
    for ended in ends:
        common.require_status(ended, 0, 2)


def _two_reports(known: dict[str, Any], folder: Path, share: float) -> str:
    """Write two reports into one folder; every picture of the page must be there."""
    first = processes.start(["report", "shown", "--out", "report"], folder)
    common.let_run(first, 2 * share)
    second = processes.start(["report", "shown", "--out", "report"], folder)
    ends = [first.wait(), second.wait()]
    how = f"two reports, the second after {2 * share:.1f} s"
    _require_ends(ends, how)
    common.require_page(folder / "work/report", how)
    return how


def _two_simulations(known: dict[str, Any], folder: Path, share: float) -> str:
    """Simulate twice with one new checkpoint: one of both must be refused."""
    first = processes.start(common.SIMULATE, folder)
    common.let_run(first, 3 * share)
    second = processes.start([*common.SIMULATE, "--seed", "2"], folder)
    ends = [first.wait(), second.wait()]
    how = f"two simulations with one checkpoint, the second after {3 * share:.1f} s"
    require(not all(ended.status == 0 for ended in ends), f"{how}: one of both is lost")
    _require_ends(ends, how)
    common.bits(folder / "work/c.npz")
    return how
