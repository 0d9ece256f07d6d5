"""Kill a rank, or the launcher, of a run under mpirun at any moment."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

from attack import processes, scene
from attack.trial import Outcome, Untried, require

NAME = "kill-ranks"
PROMISE = (
    "A run of several ranks of which one is killed ends, leaves no process and no shared memory,"
    " and resumes: a simulation to the same bits."
)
SPREAD = (*scene.RUN, "--spread")
SIMULATE = (
    "simulate", "sph-dam-break", "--device", scene.DEVICE, "--particles", "800", "--steps", "40",
    "--checkpoint", "c.npz", "--checkpoint-every", "5",
)  # fmt: skip
SEGMENTS = "/dev/shm/"


def attempt(rng: Random, folder: Path) -> Outcome:
    """Kill one process of a simulation or a spread study on two ranks, and complete it alone."""
    launcher = _mpirun()
    here = scene.Scene(folder, scene.measured, ranks)
    victim = rng.choice(("rank 0", "rank 1", "launcher"))
    number = rng.choice(scene.SIGNALS) if victim == "launcher" else SIGKILL
    share, is_spread = rng.random(), rng.random() < 0.3
    command = here.start(_ranks(SPREAD if is_spread else SIMULATE), program=launcher)
    segments: set[str] = set()
    until = time.monotonic() + share * here.known["start_s" if is_spread else "ranks_s"]
    while time.monotonic() < until and not command.poll():
        segments |= _segments()
        command.let(0.03)
    how = (
        f"{number.name} to {victim} of {'a study' if is_spread else 'a simulation'} at {share:.0%}"
    )
    process = None if victim == "launcher" else _rank(int(victim[-1]))
    if victim == "launcher":
        command.signal(number)
    elif process is not None:
        with suppress(ProcessLookupError):
            os.kill(process, number)
    ended = command.wait()
    processes.require_no_orphan()
    require(not scene.NO_LINE.search(ended.err), f"traceback after {how}: {ended.said}")
    left = [Path(segment) for segment in segments if Path(segment).exists()]
    for segment in left:
        segment.unlink()
    require(not left, f"{len(left)} segments of shared memory left after {how}")
    if is_spread:
        before = here.records()
        here.run(scene.RUN, how=f"resumed after {how}")
        here.require_complete(before, f"resumed after {how}")
    elif ended.status != 0:
        saved = ["--resume", "c.npz"] if (here.work / "c.npz").exists() else []
        here.run([*SIMULATE, *saved], how=f"completed after {how}")
        require(here.bits() == here.known["ranks_bits"], f"other bits after {how}")
    here.require_nothing_left()
    return Outcome(True, how)


def _mpirun() -> Path:
    """Return the launcher beside the interpreter, else that on PATH."""
    found = shutil.which("mpirun", path=f"{scene.SCRIPTS}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        raise Untried("there is no mpirun with mpi4py: pip install 'gpubench-particles[mpi]'")
    return Path(found)


def _ranks(words: tuple[str, ...]) -> list[str]:
    return ["-n", "2", sys.executable, str(scene.GPUBENCH), *words]


def ranks(here: scene.Scene) -> dict[str, Any]:
    """Simulate on two ranks without a kill; return what was found, and what it took."""
    begin = time.monotonic()
    here.run(_ranks(SIMULATE), program=_mpirun())
    return {"ranks_s": time.monotonic() - begin, "ranks_bits": here.bits()}


def _rank(number: int) -> int | None:
    """Return the process of a rank, once there is one: a child of the launcher's proxy."""
    for process, parent in processes.descendants().items():
        with suppress(OSError):
            environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            if (
                f"PMI_RANK={number}".encode() in environment
                and "hydra" in Path(f"/proc/{parent}/comm").read_text()
            ):
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
