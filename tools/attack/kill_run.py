"""Kill `gpubench run` at any moment, and resume it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from attack import processes, scene
from attack.trial import Outcome

NAME = "kill-run"
PROMISE = (
    "A run that is killed loses no record that was written, leaves no process and no temporary"
    " file, and the same command completes it."
)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Kill a run of a tiny study, and see what is left and that it can be resumed."""
    here = scene.Scene(folder, scene.measured)
    number, share = rng.choice(scene.SIGNALS), rng.random()
    has_children, is_started = rng.random() < 0.1, rng.random() < 0.2
    if has_children or is_started:  # by an interpreter of its own
        words = [*scene.RUN, *(["--processes", "2"] if has_children else [])]
        command = here.start(words, program=scene.GPUBENCH)
        moment = share * here.known["start_s"]
    else:
        command = here.start(scene.RUN)
        moment = share * here.known["fork_s"]
    command.let(moment)
    before = here.records()
    command.signal(number)
    scene.require_end(command.wait(), number)
    processes.require_no_orphan()
    after = here.records()
    scene.require_kept(before, after)
    how = f"{number.name} after {moment:.1f} s, at {len(after)} records"
    if not has_children:
        here.run(scene.RUN, how=f"resumed after {how}")
        here.require_complete(after, f"resumed after {how}")
    here.require_nothing_left()
    return Outcome(True, how)
