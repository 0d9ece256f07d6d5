"""Let two commands write to one place at once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from attack import scene
from attack.processes import LONGEST_S, Command, Ended
from attack.trial import Outcome, require

NAME = "two-writers"
PROMISE = (
    "Of two commands that would write the same files, the later one is refused in one line, or"
    " both succeed; nothing that was written is lost."
)
MORE = ", ".join(map(str, range(68, 128, 4)))  # numbers of particles


def attempt(rng: Random, folder: Path) -> Outcome:
    """Start two runs, two reports or two simulations, one some time after the other."""
    here = scene.Scene(folder, scene.measured)
    trial = rng.choice((_two_runs, _two_runs, _two_reports, _two_simulations))
    how = trial(rng, here)
    here.require_nothing_left()
    return Outcome(True, how)


def _two_runs(rng: Random, here: scene.Scene) -> str:
    """Run the study twice into one folder; one of both may be short."""
    share, waits = rng.random(), rng.random() < 0.5
    shorter = [*scene.RUN, "--algorithms", "atomic-list"]
    words = rng.choice(((scene.RUN, scene.RUN), (scene.RUN, shorter)))
    study = here.work / "tiny.toml"
    study.write_text(scene.STUDY.replace("[64,", f"[{MORE}, 64,"))  # so that the second meets it
    seen: dict[str, Any] = {}
    first = here.start(words[0])
    if waits:
        _watch(here, seen, LONGEST_S, first, until_seen=True)
    _watch(here, seen, share * here.known["fork_s"] * (0.3 if waits else 1), first)
    was_first, count = bool(seen), len(seen)
    second = here.start(words[1])
    _watch(here, seen, LONGEST_S, first, second)
    ends = first.wait(), second.wait()
    how = f"two runs, the second after {count} records"
    _require_ends(*ends, how)
    require(not was_first or ends[0].status == 0, f"{how}: the first one is refused")
    found = here.records()
    scene.require_kept(seen, found, how)
    if ends[0].status == 0:
        require(set(here.known["keys"]) < found.keys(), f"{how}: the first one is not complete")
    return how


def _watch(
    here: scene.Scene,
    seen: dict[str, Any],
    seconds: float,
    *commands: Command,
    until_seen: bool = False,
) -> None:
    """Note the records as they are written, for so many seconds or until the commands end."""
    for _ in range(round(seconds / 0.01)):
        if all(command.poll() for command in commands) or (until_seen and seen):
            return
        seen |= here.records()
        commands[-1].let(0.01)


def _require_ends(first: Ended, second: Ended, how: str) -> None:
    told = f"{how}: {first.said}; {second.said}"
    require({first.status, second.status} in ({0}, {0, 2}), told)
    for ended in (first, second):
        scene.require_status(ended, 0, 2, how=how)


def _two_reports(rng: Random, here: scene.Scene) -> str:
    """Write two reports into one folder; every picture of the page must be there."""
    words = ["report", str(here.reference(scene.measured) / "work/results"), "--out", "report"]
    share = rng.random()
    first = here.start(words)
    first.let(2 * share)
    how = f"two reports, the second after {2 * share:.1f} s"
    _require_ends(here.start(words).wait(), first.wait(), how)
    scene.require_page(here.work / "report", how)
    return how


def _two_simulations(rng: Random, here: scene.Scene) -> str:
    """Simulate twice with one new checkpoint: one of both must be refused."""
    words, share = [*scene.SIMULATE, "--steps", "40"], rng.random()
    first = here.start(words)
    first.let(2 * share)
    second = here.start([*words, "--seed", "2"])
    ends = first.wait(), second.wait()
    how = f"two simulations with one checkpoint, the second after {2 * share:.1f} s"
    require(any(ended.status for ended in ends), f"{how}: one of both is lost")
    _require_ends(*ends, how)
    here.bits()
    return how
