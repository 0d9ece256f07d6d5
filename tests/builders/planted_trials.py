"""Run the trials of `make attack` with some that are made up; arguments as those have them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import attack
from attack import processes, runner
from attack.trial import Outcome, Untried, require


def planted(rng, folder):
    """Hold, unless chance has it otherwise; leave a process behind."""
    processes.Command([], folder, {}, program=Path("/bin/cat"))
    drawn = rng.randrange(1000)
    require(drawn % 3 != 0, f"the promise of\n{drawn}")
    return Outcome(True, "held")


def not_here(rng, folder):
    raise Untried("no such machine")


def mistaken(rng, folder):
    raise KeyError("a mistake of its own")


if __name__ == "__main__":
    for function in (planted, not_here, mistaken):
        name = function.__name__
        attack.TRIALS[name] = SimpleNamespace(NAME=name, PROMISE="It holds.", attempt=function)
    processes.warm = lambda: None  # it takes seconds, and attempts are few
    sys.exit(runner.main())
