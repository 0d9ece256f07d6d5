"""Try to break what the documents promise, and count what held.

The trials share the minutes fairly, two attempts at a time, each in a process and a folder of its
own. Exit 1 where a promise was broken.
"""

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
from attack.trial import Broken, Trial, Untried

AT_ONCE = 2
LONGEST_S = 180.0  # of an attempt; then it counts as broken


@dataclass
class Tally:
    """What came of the attempts of one trial.

    seconds: that they took. broken: seed and detail of each that did not hold. untried: why the
    trial cannot run here.
    """

    trial: Trial
    seconds: float = 0.0
    started: int = 0
    held: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)
    untried: str | None = None

    @property
    def row(self) -> str:
        """A line of a table in Markdown."""
        name = self.trial.NAME + (f" (not tried: {self.untried})" if self.untried else "")
        return f"| {name} | {self.held + len(self.broken)} | {self.held} | {len(self.broken)} |"


@dataclass(frozen=True)
class Attempt:
    """An attempt under way: its process, and a descriptor that can be read when that has ended."""

    tally: Tally
    seed: int
    process: int
    descriptor: int
    folder: Path
    begin: float


class Runner:
    """Runs attempts of the trials until the time is up.

    seed: of the first attempt of each trial; the next ones count up. most: attempts of a trial.
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
            processes.end_children()

    def _next(self) -> Tally | None:
        """Return the trial that had the least time so far; never one that is under way."""
        busy = {attempt.tally.trial.NAME for attempt in self._live.values()}
        free = [
            tally
            for tally in self.tallies
            if tally.trial.NAME not in busy
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
        descriptor = os.pidfd_open(process)
        self._live[process] = Attempt(tally, seed, process, descriptor, folder, time.monotonic())

    def _wait(self) -> None:
        """Wait for the next attempts to end, or to run out of time, and count them."""
        live = {attempt.descriptor: attempt for attempt in self._live.values()}
        until = min(self._deadline, *(a.begin + LONGEST_S for a in live.values()))
        ended, _, _ = select.select(live, [], [], max(0.0, until - time.monotonic()))
        for descriptor, attempt in live.items():
            if descriptor in ended or time.monotonic() > attempt.begin + LONGEST_S:
                self._count(attempt)

    def _count(self, attempt: Attempt) -> None:
        tally = attempt.tally
        del self._live[attempt.process]
        processes.end_children(besides=self._live)
        os.close(attempt.descriptor)
        tally.seconds += time.monotonic() - attempt.begin
        try:
            found = json.loads((attempt.folder / "outcome.json").read_text())
        except FileNotFoundError:
            found = {"held": False, "detail": f"the attempt died, or took {LONGEST_S:g} s"}
        shutil.rmtree(attempt.folder, ignore_errors=True)
        if "untried" in found:
            tally.untried = found["untried"]
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
    try:
        found = dataclasses.asdict(trial.attempt(random.Random(f"{trial.NAME} {seed}"), folder))
    except Broken as broken:
        found = {"held": False, "detail": str(broken)}
    except Untried as untried:
        found = {"untried": str(untried)}
    except BaseException:
        told = " | ".join(traceback.format_exc().splitlines()[-5:])
        found = {"held": False, "detail": f"the trial itself failed: {told}"}
    (folder / "outcome.json").write_text(json.dumps(found))
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials; return 1 where a promise was broken, 130 after Ctrl-C, else 0."""
    from attack import TRIALS

    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first attempts; default: by chance")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all trials together")
    parser.add_argument("--attempts", type=int, help="of each trial at most")
    parser.add_argument(
        "--only", choices=list(TRIALS), action="append", metavar="TRIAL",
        help=f"may be repeated: {', '.join(TRIALS)}",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there too")
    given = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    chosen = [TRIALS[name] for name in given.only or TRIALS]
    print(f"{len(chosen)} trials, {given.minutes:g} minutes, seed {seed}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="gpubench-attack-"))
    runner = Runner(chosen, seed, given.minutes, given.attempts, root)
    status = 0
    try:
        processes.warm()
        runner.run()
    except KeyboardInterrupt:
        status = 130
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rows = [tally.row for tally in runner.tallies]
    print("\n".join(["| trial | attempts | held | broken |", "|---|---|---|---|", *rows]))
    if given.json is not None:
        told = [
            dataclasses.asdict(dataclasses.replace(tally, trial=tally.trial.NAME))  # type: ignore[arg-type]
            for tally in runner.tallies
        ]
        date = datetime.date.today().isoformat()
        text = json.dumps({"date": date, "seed": seed, "trials": told}, indent=2)
        given.json.write_text(f"{text}\n")
    return status or int(any(tally.broken for tally in runner.tallies))
