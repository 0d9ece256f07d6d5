"""Let the disk be full at any file size."""

from __future__ import annotations

import json
import resource
import shutil
import signal
from pathlib import Path
from random import Random
from typing import Any

from attack import common, processes
from attack.processes import Ended
from attack.trial import Outcome, require

NAME = "disk"
PROMISE = (
    "Where a file cannot be written to its end, a command says so in one line; the file of before"
    " stays, nothing half written does, and with room the same command succeeds."
)
SMALLEST, LARGEST = 50, 300_000  # bytes that a file may have
RESUME = (*common.SIMULATE[:4], "--steps", "60", "--checkpoint", "c.npz", "--resume", "c.npz")
SIMULATE = (*RESUME, *common.FRAMES, "--trajectory", "t.xyz")
REPORT = ("report", "good.json", "--out", "out")
COMPARE = ("compare", "good.json", "good.json", "--markdown", "c.md")


def attempt(rng: Random, folder: Path) -> Outcome:
    """Run one command while no file may grow beyond some size, and again without the limit."""
    known = common.once(folder, _reference)
    limit = round(SMALLEST * (LARGEST / SMALLEST) ** rng.random())
    shutil.copytree(folder.parent / "reference/work", folder / "work")
    processes.surroundings(folder, rng.random() < 0.2)
    command = rng.choice((_run, _simulate, _report, _compare))
    how = f"files of at most {limit} bytes"
    command(rng, folder, known, limit, how)
    common.require_nothing_left(folder)
    return Outcome(True, f"{command.__name__[1:]}: {how}")


def _reference(folder: Path) -> dict[str, Any]:
    known = common.measure_reference(folder)
    simulated = common.simulate_reference(folder)
    work = folder / "work"
    shutil.copy(work / "c.npz", work / "old.npz")
    common.require_status(processes.run(RESUME, folder), 0)
    bits = common.bits(work / "c.npz")
    (work / "old.npz").replace(work / "c.npz")
    shutil.rmtree(work / "frames")
    shutil.rmtree(work / "again")
    shutil.copy(next((work / "results").rglob("*.json")), work / "good.json")
    common.require_status(processes.run(REPORT, folder), 0)
    return known | {"old_bits": simulated["bits"], "bits": bits}


def _limited(words: tuple[str, ...], folder: Path, known: dict[str, Any], limit: int) -> Ended:
    know = common.knowing(known)

    def before() -> None:
        know()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        # Python ignores it; Intel's OpenCL would not.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXFSZ})

    return processes.run(words, folder, before=before)


def _run(rng: Random, folder: Path, known: dict[str, Any], limit: int, how: str) -> None:
    results = folder / "work/results"
    (path,) = results.rglob("*.json")
    document = json.loads(path.read_text())
    document["records"] = document["records"][: rng.choice((0, 3, 6))]
    path.write_text(json.dumps(document))
    old = common.records(results)
    ended = _limited(common.RUN, folder, known, limit)
    common.require_status(ended, 0, 2, how=f"run, {how}")
    after = common.records(results)
    common.require_kept(old, after)
    common.require_nothing_left(folder)
    again = processes.run(common.RUN, folder, before=common.knowing(known))
    common.require_status(again, 0, how=f"run again, {how}")
    found = common.records(results)
    common.require_kept(after, found)
    require(sorted(found) == known["keys"], f"run again, {how}: other keys")


def _simulate(rng: Random, folder: Path, known: dict[str, Any], limit: int, how: str) -> None:
    checkpoint = folder / "work/c.npz"
    ended = _limited(SIMULATE, folder, known, limit)
    common.require_status(ended, 0, 2, how=f"simulate, {how}")
    if ended.status == 2:
        common.bits(checkpoint)
    common.require_nothing_left(folder)
    again = processes.run(SIMULATE, folder)
    common.require_status(again, 0, how=f"simulate again, {how}")
    require(common.bits(checkpoint) == known["bits"], f"simulate again, {how}: other bits")


def _report(rng: Random, folder: Path, known: dict[str, Any], limit: int, how: str) -> None:
    ended = _limited(REPORT, folder, known, limit)
    common.require_status(ended, 0, 2, how=f"report, {how}")
    common.require_page(folder / "work/out", f"report, {how}")
    common.require_nothing_left(folder)
    common.require_status(processes.run(REPORT, folder), 0, how=f"report again, {how}")


def _compare(rng: Random, folder: Path, known: dict[str, Any], limit: int, how: str) -> None:
    comment = folder / "work/c.md"
    comment.write_text("before\n")
    ended = _limited(COMPARE, folder, known, limit)
    common.require_status(ended, 2, 3, how=f"compare, {how}")
    left = comment.read_text()
    common.require_nothing_left(folder)
    common.require_status(processes.run(COMPARE, folder), 3, how=f"compare again, {how}")
    require(left in ("before\n", comment.read_text()), f"compare, {how}: half a comment")
