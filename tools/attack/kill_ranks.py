"""Kill a rank, or the launcher, of a run under mpirun at any moment."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from attack import common, processes
from attack.processes import Command
from attack.trial import Outcome, require

NAME = "kill-ranks"
PROMISE = (
    "A run of several ranks of which one is killed ends, names the rank, leaves no process and no"
    " shared memory, and resumes: a simulation to the same bits."
)
SIMULATE = (
    "simulate", "sph-dam-break", "--device", common.DEVICE, "--particles", "800", "--steps", "40",
    "--checkpoint", "c.npz", "--checkpoint-every", "5",
)  # fmt: skip
SEGMENTS = "/dev/shm/"


def attempt(rng: Random, folder: Path) -> Outcome:
    """Kill one process of a simulation or a spread study on two ranks, and complete it alone."""
    known = common.once(folder, _reference)
    victim = rng.choice(("rank 0", "rank 1", "launcher"))
    number = signal.SIGKILL if victim != "launcher" else rng.choice(common.SIGNALS)
    share, is_spread = rng.random(), rng.random() < 0.3
    common.write_study(folder)
    words = [*common.RUN, "--spread"] if is_spread else [*SIMULATE]
    started = _launch(words, folder)
    segments: set[str] = set()
    moment = time.monotonic() + share * known["spread_s" if is_spread else "seconds"]
    while time.monotonic() < moment and not started.poll():
        segments |= _segments()
        time.sleep(0.03)
    how = f"{signal.Signals(number).name} to {victim} after {share:.0%}"
    rank = None if victim == "launcher" else _rank(int(victim[-1]))
    if victim == "launcher":
        started.signal(number)
    elif rank is not None:
        with suppress(ProcessLookupError):
            os.kill(rank, number)
    ended = started.wait()
    processes.require_no_orphan()
    require(not common.NO_LINE.search(ended.err), f"traceback after {how}, {ended.said}")
    if rank is not None and ended.status != 0:
        require(f"{victim} of 2 was killed" in ended.err, f"not named after {how}: {ended.said}")
    left = sorted(segment for segment in segments if Path(segment).exists())
    for segment in left:
        Path(segment).unlink()
    require(not left, f"{len(left)} segments of shared memory left after {how}")
    if ended.status != 0:
        _complete(folder, is_spread, known, how)
    common.require_nothing_left(folder)
    return Outcome(True, how)


def _reference(folder: Path) -> dict[str, Any]:
    """Measure and simulate without a kill; return keys, bits, and how long each takes."""
    found = common.measure_reference(folder)
    for name, words in (("seconds", SIMULATE), ("spread_s", (*common.RUN[:-1], "s", "--spread"))):
        begin = time.monotonic()
        common.require_status(_launch(words, folder).wait(60), 0)
        found[name] = time.monotonic() - begin
    return {**found, "bits": common.bits(folder / "work/c.npz")}


def _launch(words: Sequence[str], folder: Path) -> Command:
    launcher = (processes.mpirun(), "-n", "2", sys.executable, processes.gpubench())
    return processes.launch([*map(str, launcher), *words], folder)


def _rank(number: int) -> int | None:
    """Return the process of a rank, once there is one: a child of the launcher's proxy."""
    for process, parent in processes.descendants().items():
        with suppress(OSError):
            is_started = "hydra" in Path(f"/proc/{parent}/comm").read_text()
            environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            if is_started and f"PMI_RANK={number}".encode() in environment:
                return process
    return None


def _segments() -> set[str]:
    """Return the shared memory that processes of this attempt have mapped, by path."""
    found = set()
    for process in processes.descendants():
        with suppress(OSError):
            for line in Path(f"/proc/{process}/maps").read_text().splitlines():
                if SEGMENTS in line and not line.endswith("(deleted)"):
                    found.add(line[line.index(SEGMENTS) :])
    return found


def _complete(folder: Path, is_spread: bool, known: dict[str, Any], how: str) -> None:
    """Complete in one process what ranks began; see that it is what they would have found."""
    work = folder / "work"
    if is_spread:
        before = common.records(work / "results")
        again = processes.run(common.RUN, folder, before=common.knowing(known))
    else:
        saved = ["--resume", "c.npz"] if (work / "c.npz").exists() else []
        again = processes.run([*SIMULATE, *saved], folder)
    common.require_status(again, 0, how=f"resumed after {how}")
    if is_spread:
        after = common.records(work / "results")
        common.require_kept(before, after)
        require(sorted(after) == known["keys"], f"other keys after {how}")
    else:
        require(common.bits(work / "c.npz") == known["bits"], f"other bits after {how}")
