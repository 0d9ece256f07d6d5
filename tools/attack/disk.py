"""Let the disk be full at any file size."""

from __future__ import annotations

import json
import resource
import shutil
import signal
from pathlib import Path
from random import Random
from typing import Any

from attack import scene
from attack.trial import Outcome, require

NAME = "disk"
PROMISE = (
    "Where a file cannot be written to its end, a command says so in one line; the file of before"
    " stays, nothing half written does, and with room the same command succeeds."
)
SMALLEST, LARGEST = 50, 300_000  # bytes that a file may have
RESUME = (*scene.SIMULATE[:4], "--steps", "60", "--checkpoint", "c.npz", "--resume", "c.npz")
SIMULATE = (*RESUME, *scene.FRAMES, "--trajectory", "t.xyz")
REPORT = ("report", "good.json", "--out", "out")
COMPARE = ("compare", "good.json", "good.json", "--markdown", "c.md")


def attempt(rng: Random, folder: Path) -> Outcome:
    """Run one command while no file may grow beyond some size, and again without the limit."""
    here = scene.Scene(folder, scene.measured, written)
    limit = round(SMALLEST * (LARGEST / SMALLEST) ** rng.random())
    shutil.copytree(here.reference(written) / "work", here.work, dirs_exist_ok=True)
    if rng.random() < 0.2:
        shutil.rmtree(folder / "cache")
    trial = rng.choice((_run, _simulate, _report, _compare))
    how = f"{trial.__name__[1:]} with files of at most {limit} bytes"

    def before() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        # Python ignores it; Intel's OpenCL would not.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXFSZ})

    trial(rng, here, before, how)
    here.require_nothing_left()
    return Outcome(True, how)


def written(here: scene.Scene) -> dict[str, Any]:
    """Leave results, a checkpoint at step 40 and a report, which the limited commands find."""
    measured = here.reference(scene.measured) / "work/results"
    shutil.copytree(measured, here.work / "results")
    shutil.copy(next(measured.rglob("*.json")), here.work / "good.json")
    here.run(REPORT)
    here.run((*scene.SIMULATE, "--steps", "40"))
    content = (here.work / "c.npz").read_bytes()
    here.run(RESUME)
    bits = here.bits()
    (here.work / "c.npz").write_bytes(content)
    return {"bits": bits}


def _run(rng: Random, here: scene.Scene, before: Any, how: str) -> None:
    (path,) = (here.work / "results").rglob("*.json")
    document = json.loads(path.read_text())
    document["records"] = document["records"][: rng.choice((0, 4, 10))]
    path.write_text(json.dumps(document))
    old = here.records()
    here.run(scene.RUN, 0, 2, before=before, how=how)
    after = here.records()
    scene.require_kept(old, after, how)
    here.require_nothing_left()
    here.run(scene.RUN, how=f"again after {how}")
    here.require_complete(after, how)


def _simulate(rng: Random, here: scene.Scene, before: Any, how: str) -> None:
    here.run(SIMULATE, 0, 2, before=before, how=how)
    here.bits()
    here.require_nothing_left()
    here.run(SIMULATE, how=f"again after {how}")
    require(here.bits() == here.known["bits"], f"again after {how}: other bits")


def _report(rng: Random, here: scene.Scene, before: Any, how: str) -> None:
    here.run(REPORT, 0, 2, before=before, how=how)
    scene.require_page(here.work / "out", how)
    here.require_nothing_left()
    here.run(REPORT, how=f"again after {how}")


def _compare(rng: Random, here: scene.Scene, before: Any, how: str) -> None:
    comment = here.work / "c.md"
    comment.write_text("before\n")
    here.run(COMPARE, 2, 3, before=before, how=how)
    left = comment.read_text()
    here.require_nothing_left()
    here.run(COMPARE, 3, how=f"again after {how}")
    require(left in ("before\n", comment.read_text()), f"{how}: half a comment")
