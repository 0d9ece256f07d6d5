"""Give hostile command lines, outputs that cannot be written, and homes that cannot be used."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from random import Random
from typing import Any

from attack import common, processes
from attack.trial import Outcome

NAME = "commands"
PROMISE = (
    "Bad input ends in one line and status 2, Ctrl-C in 130; `compare` says 1 for a verdict alone;"
    " a home that cannot be used stops nothing."
)
PATIENCE_S = 8.0  # then a command that took hostile values for good ones gets a Ctrl-C
# None names a place that can be written outside of the attempt's folder.
VALUES = (
    "", " ", "-1", "0", "1", "7", "0.5", "-0", "nan", "inf", "-inf", "1e309", "1e-400",
    "2147483648", "9" * 20, "1" + "0" * 40, "9" * 5000, "0x10", "\u0663", "a" * 5000, "\u202e",
    "\udcff", "line\nline", "--", "-", "=", "a=b", "a=1", ",", ",,", "1,2,3", "%s", "$(id)",
    "a.toml", "missing.json", "folder", "file", "file/below", "..",
    "/proc/self/mem", "/proc/1/x", "/proc", "good.json", "tiny.toml", "cuda:99", "opencl:none",
    "auto:1",
)  # fmt: skip
# Begin of a command line that is right, to which hostile options are added.
BEGINS: dict[str, tuple[tuple[str, ...], ...]] = {
    "run": (("tiny.toml", "--quick", "--device", common.DEVICE), ("tiny.toml",), ()),
    "simulate": (("dpd-standard", "--particles", "300", "--steps", "9"), ("dpd-standard",), ()),
    "report": (("good.json",), ()),
    "choose": (("--particles", "9999", "--per-cell", "4", "--results", "good.json"), ()),
    "compare": (("good.json", "good.json"), ("good.json",), ()),
    "check": (("atomic-list",), ()),
    "calibrate": (("--again", "good.json"), ()),
    "bisect": (("no-commit",), ()),
    "devices": ((),),
    "list": ((),),
}
# What must be done, and say something, wherever standard output and home lead.
GOOD = (
    ("list",), ("devices", "--json"), ("compare", "good.json", "good.json"),
    ("compare", "good.json", "good.json", "--json"), ("report", "good.json", "--out", "out"),
    ("simulate", "dpd-standard", "--particles", "300", "--steps", "5", "--device", common.DEVICE),
    common.RUN,
)  # fmt: skip


def attempt(rng: Random, folder: Path) -> Outcome:
    """Give one command hostile words, a bad standard output, or a bad home."""
    known = common.once(folder, common.measure_reference)
    common.write_study(folder)
    work = folder / "work"
    reference = next((folder.parent / "reference/work/results").rglob("*.json"))
    shutil.copy(reference, work / "good.json")
    (work / "folder").mkdir()
    (work / "file").write_text("no JSON\n")
    kind = rng.choice((_words, _words, _words, _words, _output, _home))
    how = kind(rng, folder, known)
    common.require_nothing_left(folder)
    return Outcome(True, how)


def _words(rng: Random, folder: Path, known: dict[str, Any]) -> str:
    """Add hostile options and arguments to a command."""
    from typer.main import get_command

    from gpubench.cli import app

    described: Any = get_command(app)
    name = rng.choice(sorted(described.commands))
    words = [name, *rng.choice(BEGINS.get(name, ((),)))]
    options = [option for option in described.commands[name].params if option.opts[0][0] == "-"]
    others = [o for command in described.commands.values() for o in command.params]
    for _ in range(rng.choice((1, 1, 2, 3))):
        option = rng.choice(others if rng.random() < 0.1 else options)
        flag = rng.choice(option.opts)
        takes = not getattr(option, "is_flag", False) and rng.random() < 0.97
        words += [flag] * flag.startswith("-") + [rng.choice(VALUES)] * takes
    if rng.random() < 0.3:
        words.insert(rng.randrange(len(words) + 1), rng.choice(VALUES))
    if rng.random() < 0.1:
        words[:0] = ["--add", rng.choice(VALUES)]
    how = " ".join(repr(word[:40]) for word in words)
    command = processes.start(words, folder, before=common.knowing(known))
    common.let_run(command, PATIENCE_S)
    is_long = not command.poll()
    command.signal(signal.SIGINT)
    ended = command.wait()
    processes.require_no_orphan()
    common.require_status(ended, *((0, 2, 3, 130) if is_long else (0, 1, 2, 3)), how=how)
    return f"{how}: status {ended.status}"


def _output(rng: Random, folder: Path, known: dict[str, Any]) -> str:
    """Let a good command write to where nothing can be written."""
    words = rng.choice(GOOD)
    kind = rng.choice(("full", "closed", "unread"))
    how = f"{words[0]}, standard output {kind}"
    if kind == "closed":
        ended = processes.launch([processes.gpubench(), *words], folder, closed=[1]).wait()
    else:
        if kind == "full":
            descriptor = os.open("/dev/full", os.O_WRONLY)
        else:
            reader, descriptor = os.pipe()
            os.close(reader)
        know = common.knowing(known)
        ended = processes.run(words, folder, before=know, out=descriptor)
        os.close(descriptor)
    common.require_status(ended, 2, how=how, lines=(0, 1) if kind == "unread" else (1,))
    return f"{how}: status {ended.status}"


def _home(rng: Random, folder: Path, known: dict[str, Any]) -> str:
    """Let a good command run with a home and caches that cannot be used."""
    words = rng.choice(GOOD)
    environment = processes.surroundings(folder)
    closed = folder / "closed"
    closed.mkdir(mode=0)
    place = rng.choice(("/proc/1/no", str(folder / "work/file"), "/dev/null", str(closed), "", "x"))
    del environment["XDG_CACHE_HOME"]
    environment["HOME"] = place
    if rng.random() < 0.3:
        environment["XDG_CACHE_HOME"] = place
    how = f"{words[0]}, home {place.rpartition('/')[2]!r}"
    ended = processes.launch([processes.gpubench(), *words], folder, environment=environment).wait()
    allowed = (0, 3) if words[0] == "compare" else (0,)
    common.require_status(ended, *allowed, how=how)
    return f"{how}: status {ended.status}"
