"""Give hostile command lines, outputs that cannot be written, and homes that cannot be used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from signal import SIGINT
from typing import Any

from attack import processes, scene
from attack.trial import Outcome

NAME = "commands"
PROMISE = (
    "Bad input ends in one line and status 2, Ctrl-C in 130, output that cannot be written in 2;"
    " a home that cannot be used stops nothing."
)
PATIENCE_S = 8.0  # then a command that took hostile values for good ones gets a Ctrl-C
# None names a place outside of the attempt's folder that can be written.
VALUES = (
    "", " ", "-1", "0", "1", "7", "0.5", "-0", "nan", "inf", "-inf", "1e309", "1e-400",
    "2147483648", "9" * 20, "1" + "0" * 40, "9" * 5000, "0x10", "\u0663", "a" * 5000, "\u202e",
    "\udcff", "line\nline", "--", "-", "=", "a=b", "a=1", ",", ",,", "1,2,3", "%s", "$(id)",
    "a.toml", "missing.json", "folder", "file", "file/below", "..", "/proc/self/mem", "/proc/1/x",
    "/proc", "good.json", "tiny.toml", "cuda:99", "opencl:none", "auto:1",
)  # fmt: skip
# Begins of command lines that are right, to which hostile options are added.
BEGINS = (
    "run tiny.toml --quick --device opencl:intel", "run tiny.toml", "run",
    "simulate dpd-standard --particles 300 --steps 9", "simulate dpd-standard", "simulate",
    "choose --particles 9999 --per-cell 4 --results good.json", "choose",
    "report good.json", "report", "compare good.json good.json", "compare good.json", "compare",
    "check atomic-list", "check", "calibrate --pairs 3", "compare no-commit", "devices",
    "list",
)  # fmt: skip
# What succeeds, and says something.
GOOD = (
    "list", "devices --json", "compare good.json good.json", "compare good.json good.json --json",
    "report good.json --out out", " ".join(scene.RUN), " ".join(scene.SIMULATE) + " --steps 5",
)  # fmt: skip


def attempt(rng: Random, folder: Path) -> Outcome:
    """Give one command hostile words, a bad standard output, or a bad home."""
    here = scene.Scene(folder)
    document = scene.shipped(rng, "*rozen2008-table[12].json.gz", 12)
    (here.work / "good.json").write_text(json.dumps(document))
    (here.work / "folder").mkdir()
    (here.work / "file").write_text("no JSON\n")
    how = rng.choice((_words, _words, _words, _words, _output, _home))(rng, here)
    here.require_nothing_left()
    return Outcome(True, how)


def _words(rng: Random, here: scene.Scene) -> str:
    """Add hostile options and arguments to a command."""
    from typer.main import get_command

    from gpubench.cli.app import app

    described: Any = get_command(app)
    words = rng.choice(BEGINS).split()
    own = [option for option in described.commands[words[0]].params if option.opts[0][0] == "-"]
    every = [option for command in described.commands.values() for option in command.params]
    for _ in range(rng.choice((1, 1, 2, 3))):
        option = rng.choice(every if rng.random() < 0.1 else own)
        flag = rng.choice(option.opts)
        takes = not getattr(option, "is_flag", False) and rng.random() < 0.97
        words += [flag] * flag.startswith("-") + [rng.choice(VALUES)] * takes
    if rng.random() < 0.3:
        words.insert(rng.randrange(len(words) + 1), rng.choice(VALUES))
    if rng.random() < 0.1:
        words[:0] = ["--add", rng.choice(VALUES)]
    how = " ".join(repr(word[:40]) for word in words)
    command = here.start(words)
    command.let(PATIENCE_S)
    is_long = not command.poll()
    command.signal(SIGINT)
    ended = command.wait()
    processes.require_no_orphan()
    scene.require_status(ended, *((0, 2, 3, 130) if is_long else (0, 1, 2, 3)), how=how)
    return f"{how}: status {ended.status}"


def _output(rng: Random, here: scene.Scene) -> str:
    """Let a good command write to where nothing can be written."""
    words, kind = rng.choice(GOOD).split(), rng.choice(("full", "closed", "unread"))
    how = f"{words[0]}, standard output {kind}"
    if kind == "closed":
        here.run(words, 2, how=how, program=scene.GPUBENCH, out=processes.CLOSED)
        return how
    if kind == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    here.run(words, 2, how=how, out=descriptor, lines=(0, 1) if kind == "unread" else (1,))
    return how


def _home(rng: Random, here: scene.Scene) -> str:
    """Let a good command run with a home and caches that cannot be used."""
    words = rng.choice(GOOD).split()
    closed = here.folder / "closed"
    closed.mkdir(mode=0)
    place = rng.choice(("/proc/1/no", str(here.work / "file"), str(closed), "/dev/null", "", "x"))
    here.environment["HOME"] = here.environment["XDG_CACHE_HOME"] = place
    if rng.random() < 0.7:
        del here.environment["XDG_CACHE_HOME"]
    how = f"{words[0]}, home {place.rpartition('/')[2]!r}"
    allowed = (0, 3) if words[0] == "compare" else (0,)
    here.run(words, *allowed, how=how, program=scene.GPUBENCH)
    return how
