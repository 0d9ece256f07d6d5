"""Share the minutes among the trials, two attempts at a time, and count what held."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import random
import select
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from attack import processes
from attack.trial import Broken, Outcome, Trial, Untried

AT_ONCE = 2
LONGEST_S = 180.0  # of an attempt; then it counts as broken


@dataclass
class Tally:
    """What came of the attempts of one trial.

    seconds: spent on it. broken: seed and detail of each attempt that did not hold.
    untried: why the trial cannot run here.
    """

    trial: Trial
    seconds: float = 0.0
    started: int = 0
    held: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)
    untried: str | None = None


@dataclass(frozen=True)
class Attempt:
    """An attempt under way, in a process of its own."""

    tally: Tally
    seed: int
    process: int
    descriptor: int
    folder: Path
    begin: float


class Runner:
    """Runs attempts of the trials until the time is up.

    seed: of the first attempt of each trial; the next ones count up. most: attempts a trial.
    root: a folder of the runner's own.
    """

    def __init__(
        self, trials: Sequence[Trial], seed: int, minutes: float, most: int | None, root: Path
    ) -> None:
        self.tallies = [Tally(trial) for trial in trials]
        self._seed, self._most, self._root = seed, most, root
        self._deadline = time.monotonic() + 60 * minutes
        self._live: dict[int, Attempt] = {}

    def run(self) -> None:
        """Run until the deadline; attempts under way then are ended and do not count."""
        processes.adopt_orphans()
        try:
            while time.monotonic() < self._deadline:
                while len(self._live) < AT_ONCE and (tally := self._next()):
                    self._start(tally)
                if not self._live:
                    return
                self._wait()
        finally:
            for attempt in self._live.values():
                os.close(attempt.descriptor)
            processes.end_children()

    def _next(self) -> Tally | None:
        """Return the trial that had the least time so far; never one that is under way."""
        busy = [attempt.tally for attempt in self._live.values()]
        free = [
            tally
            for tally in self.tallies
            if not any(tally is other for other in busy)
            and tally.untried is None
            and (self._most is None or tally.started < self._most)
        ]
        return min(free, key=lambda tally: tally.seconds, default=None)

    def _start(self, tally: Tally) -> None:
        seed = self._seed + tally.started
        tally.started += 1
        folder = self._root / tally.trial.NAME / str(seed)
        folder.mkdir(parents=True)
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            _attempt(tally.trial, seed, folder)
        self._live[process] = Attempt(
            tally, seed, process, os.pidfd_open(process), folder, time.monotonic()
        )

    def _wait(self) -> None:
        """Wait for the next attempt to end, or to run out of time, and count it."""
        now = time.monotonic()
        first = min(attempt.begin for attempt in self._live.values())
        until = min(first + LONGEST_S, self._deadline)
        descriptors = [attempt.descriptor for attempt in self._live.values()]
        ended, _, _ = select.select(descriptors, [], [], max(0.0, until - now))
        now = time.monotonic()
        for attempt in list(self._live.values()):
            late = now - attempt.begin > LONGEST_S
            if attempt.descriptor in ended or late:
                self._count(attempt, late)

    def _count(self, attempt: Attempt, late: bool) -> None:
        tally = attempt.tally
        del self._live[attempt.process]
        processes.end_children(besides=self._live)
        os.close(attempt.descriptor)
        tally.seconds += time.monotonic() - attempt.begin
        try:
            found = json.loads((attempt.folder / "outcome.json").read_text())
        except FileNotFoundError:
            reason = f"took more than {LONGEST_S:g} s" if late else "died"
            found = {"held": False, "detail": f"the attempt {reason}"}
        shutil.rmtree(attempt.folder, ignore_errors=True)
        if "untried" in found:
            tally.untried = found["untried"]
            tally.started -= 1
        elif found["held"]:
            tally.held += 1
        else:
            tally.broken.append((attempt.seed, found["detail"]))
            name = tally.trial.NAME
            again = f"python tools/attack --only {name} --seed {attempt.seed} --attempts 1"
            print(f"broken: {name}: {found['detail']}; again: {again}", flush=True)


def _attempt(trial: Trial, seed: int, folder: Path) -> NoReturn:
    """Make one attempt in this process, write what came of it, and end the process."""
    os.setsid()
    processes.adopt_orphans()
    found: dict[str, object]
    try:
        outcome = trial.attempt(random.Random(f"{trial.NAME} {seed}"), folder)
    except Broken as broken:
        outcome = Outcome(False, str(broken))
    except Untried as untried:
        (folder / "outcome.json").write_text(json.dumps({"untried": str(untried)}))
        os._exit(0)
    except BaseException:
        told = " | ".join(traceback.format_exc().splitlines()[-5:])
        outcome = Outcome(False, f"the trial itself failed: {told}")
    found = dataclasses.asdict(outcome)
    (folder / "outcome.json").write_text(json.dumps(found))
    os._exit(0)


def table(tallies: Sequence[Tally]) -> str:
    """Return what came of the trials as a table in Markdown."""
    lines = ["| trial | attempts | held | broken |", "|---|---|---|---|"]
    for tally in tallies:
        counts = f"{tally.held + len(tally.broken)} | {tally.held} | {len(tally.broken)}"
        untried = f" (not tried: {tally.untried})" if tally.untried else ""
        lines.append(f"| {tally.trial.NAME}{untried} | {counts} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials; return 1 where a promise was broken, 130 after Ctrl-C, else 0."""
    from attack import TRIALS

    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first attempts; default: by chance")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all trials together")
    parser.add_argument("--attempts", type=int, help="of each trial at most")
    parser.add_argument("--only", choices=list(TRIALS), metavar="TRIAL", help=", ".join(TRIALS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there too")
    given = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    chosen = [TRIALS[given.only]] if given.only else list(TRIALS.values())
    print(f"{len(chosen)} trials, {given.minutes:g} minutes, seed {seed}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="gpubench-attack-"))
    status = 0
    try:
        runner = Runner(chosen, seed, given.minutes, given.attempts, root)
        try:
            processes.warm()
            runner.run()
        except KeyboardInterrupt:
            status = 130
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(table(runner.tallies))
    if given.json is not None:
        given.json.write_text(json.dumps(_as_json(runner.tallies, seed), indent=2) + "\n")
    return status or int(any(tally.broken for tally in runner.tallies))


def _as_json(tallies: Sequence[Tally], seed: int) -> dict[str, object]:
    return {
        "date": datetime.date.today().isoformat(),
        "seed": seed,
        "trials": [
            {
                "name": tally.trial.NAME,
                "promise": tally.trial.PROMISE,
                "attempts": tally.held + len(tally.broken),
                "held": tally.held,
                "seconds": round(tally.seconds, 1),
                "broken": [{"seed": seed, "detail": detail} for seed, detail in tally.broken],
                "untried": tally.untried,
            }
            for tally in tallies
        ],
    }
