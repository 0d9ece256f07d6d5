"""Kill `gpubench simulate` at any moment, and start it again or resume it."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from signal import Signals

from attack import common, processes
from attack.trial import Outcome, require

NAME = "kill-simulate"
PROMISE = (
    "A simulation that is killed starts again or resumes, to the same bits, pictures and"
    " trajectory as without the kill."
)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Kill a simulation with pictures, trajectory and checkpoints; complete it and compare."""
    known = common.once(folder, common.simulate_reference)
    number, share, begins = rng.choice(common.SIGNALS), rng.random(), rng.random() < 0.5
    trajectory = rng.choice(("t.xyz", "t.gsd"))
    command = [
        *common.SIMULATE, "--trajectory", trajectory, *common.FRAMES,
        "--checkpoint-every", str(rng.choice((1, 7, 20))),
    ]  # fmt: skip
    started = processes.start(command, folder)
    work = folder / "work"
    if begins:  # right after the first file appears
        while not list(work.rglob("*.*")) and not started.poll():
            common.let_run(started, 0.001)
        share *= 0.02
    common.let_run(started, share * known["seconds"])
    started.signal(number)
    ended = started.wait()
    common.require_end(ended, number)
    processes.require_no_orphan()
    seen = sorted({path.suffix for path in work.rglob("*") if path.is_file()})
    how = f"{Signals(number).name}, with {' '.join(seen) or 'no files'} there"
    if ended.status != 0:
        saved = (work / "c.npz").exists()
        again = processes.run([*command, *(["--resume", "c.npz"] if saved else [])], folder)
        name = "resumed" if saved else "started again"
        common.require_status(again, 0, how=f"{name} after {how}")
    require(common.bits(work / "c.npz") == known["bits"], f"other bits after {how}")
    pictures = {path.name for path in (work / "frames").glob("frame-*")}
    require(len(pictures) == 3, f"{len(pictures)} of 3 pictures after {how}")
    require(_steps(work / trajectory) == [0, 20, 40], f"another trajectory after {how}")
    common.require_nothing_left(folder)
    return Outcome(True, how)


def _steps(trajectory: Path) -> list[int]:
    if trajectory.suffix == ".xyz":
        return [int(step) for step in re.findall(r" Step=(\d+)", trajectory.read_text())]
    import gsd.hoomd

    with gsd.hoomd.open(str(trajectory), "r") as moments:
        return [int(moment.configuration.step) for moment in moments]
