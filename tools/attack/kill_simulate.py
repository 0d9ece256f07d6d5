"""Kill `gpubench simulate` at any moment, and start it again or resume it."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from attack import processes, scene
from attack.trial import Outcome, require

NAME = "kill-simulate"
PROMISE = (
    "A simulation that is killed starts again or resumes, to the same bits, pictures and"
    " trajectory as without the kill."
)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Kill a simulation with pictures, trajectory and checkpoints; complete it and compare."""
    here = scene.Scene(folder, scene.simulated)
    number, share, begins = rng.choice(scene.SIGNALS), rng.random(), rng.random() < 0.5
    trajectory = here.work / rng.choice(("t.xyz", "t.gsd"))
    words = [
        *scene.SIMULATE, *scene.FRAMES, "--steps", "40", "--trajectory", trajectory.name,
        "--checkpoint-every", str(rng.choice((1, 7, 20))),
    ]  # fmt: skip
    command = here.start(words)
    while begins and not list(here.work.glob("frames/f*")) and not command.poll():
        command.let(0.001)  # until the first picture is there, the first checkpoint is not
    command.let(here.known["seconds"] * share * (0.01 if begins else 1))
    command.signal(number)
    ended = command.wait()
    scene.require_end(ended, number)
    processes.require_no_orphan()
    how = f"{number.name}, with {' '.join(_files(here))} there"
    if ended.status != 0:
        is_saved = (here.work / "c.npz").exists()
        name = "resumed" if is_saved else "started again"
        again = [*words, *(["--resume", "c.npz"] if is_saved else [])]
        here.run(again, how=f"{name} after {how}")
    require(here.bits() == here.known["bits"], f"other bits after {how}")
    pictures = len(list((here.work / "frames").glob("frame-*")))
    require(pictures == 3, f"{pictures} of 3 pictures after {how}")
    require(_steps(trajectory) == [0, 20, 40], f"another trajectory after {how}")
    here.require_nothing_left()
    return Outcome(True, how)


def _files(here: scene.Scene) -> list[str]:
    return sorted({path.suffix for path in here.work.rglob("*.*") if path.is_file()})


def _steps(trajectory: Path) -> list[int]:
    if trajectory.suffix == ".xyz":
        return [int(step) for step in re.findall(r" Step=(\d+)", trajectory.read_text())]
    import gsd.hoomd

    with gsd.hoomd.open(str(trajectory), "r") as moments:
        return [int(moment.configuration.step) for moment in moments]
