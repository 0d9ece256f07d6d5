"""Kill `gpubench run` at any moment, and resume it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from signal import Signals

from attack import common, processes
from attack.trial import Outcome, require

NAME = "kill-run"
PROMISE = (
    "A run that is killed loses no record that was written, leaves no process and no temporary"
    " file, and the same command completes it."
)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Kill a run of a tiny study, and see what is left and that it can be resumed."""
    known = common.once(folder, common.measure_reference)
    number, share = rng.choice(common.SIGNALS), rng.random()
    starts, is_cold, has_children = (rng.random() < p for p in (0.2, 0.1, 0.1))
    environment = processes.surroundings(folder, is_cold)
    common.write_study(folder)
    results = folder / "work/results"
    if starts or has_children:
        words = [*common.RUN, *(["--processes", "2"] if has_children else [])]
        command = processes.launch([processes.gpubench(), *words], folder, environment=environment)
        moment = share * known["start_s"]
    else:
        command = processes.start(
            common.RUN, folder, environment=environment, before=common.knowing(known)
        )
        moment = share * known["fork_s"]
    common.let_run(command, moment)
    before = common.records(results)
    command.signal(number)
    ended = command.wait()
    common.require_end(ended, number)
    processes.require_no_orphan()
    after = common.records(results)
    common.require_kept(before, after)
    if not has_children:
        resumed = processes.run(common.RUN, folder, before=common.knowing(known))
        common.require_status(resumed, 0, how=f"resumed after {Signals(number).name}")
        completed = common.records(results)
        common.require_kept(after, completed)
        require(sorted(completed) == known["keys"], "the keys differ from a run in one go")
    common.require_nothing_left(folder)
    return Outcome(True, f"{Signals(number).name} after {moment:.1f} s, at {len(after)} records")
