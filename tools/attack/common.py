"""What several trials do: a tiny study and simulation, and what must hold after each command."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack import processes
from attack.processes import Command, Ended
from attack.trial import require

DEVICE = "opencl:intel"
STUDY = """\
title = "Tiny"
question = "Does it hold?"
seed = 1
[[sweeps]]
name = "tiny"
particles = [64, 128, 256, 512]
per_cell = [4]
distribution = ["uniform"]
order = ["random"]
modes = ["hot"]
[[subjects]]
algorithm = "atomic-list"
form = "one-pass"
[[subjects]]
algorithm = "counting-sort"
form = "order"
"""
RUN = ("run", "tiny.toml", "--quick", "--device", DEVICE, "--out", "results")
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
NO_LINE = re.compile("Traceback|Exception ignored|Fatal Python|Segmentation")
# What a command tells of its work; not a complaint.
NEWS = re.compile(
    "gpubench: (measuring|checking|simulating|process|preparing|a sample|for the|going|.*compiled)"
)


def require_status(
    ended: Ended, *allowed: int, how: str = "", lines: tuple[int, ...] = (1,)
) -> None:
    """Raise Broken for any other status, a traceback, and a complaint of other than one line.

    how: what was tried. lines: of a complaint, where that may be another number.
    """
    said = f"{how}: {ended.said}" if how else ended.said
    require(ended.status in allowed, said)
    require(not NO_LINE.search(ended.err), f"traceback, {said}")
    if ended.status == 2:
        count = len(_complaint(ended.err))
        require(count in lines, f"{count} lines, {said}")


def _complaint(err: str) -> list[str]:
    """Return the lines that complain; the usage that Typer shows before its own is none."""
    lines = [line for line in err.splitlines() if line.strip() and not NEWS.match(line)]
    return [line for line in lines if not line.startswith(("Usage: ", "Try "))]


def require_nothing_left(folder: Path) -> None:
    """Raise Broken where temporary files or folders are left anywhere in an attempt's folder."""
    left = [path.name for path in (folder / "tmp").iterdir()]
    left += [
        path.name
        for path in (folder / "work").rglob("*")
        if path.suffix in (".tmp", ".partial") or path.name.startswith(".tmp")
    ]
    require(not left, f"left behind: {', '.join(sorted(left)[:4])}")


def require_page(folder: Path, how: str) -> None:
    """Raise Broken where the page of a report is not whole, or shows files that are not there."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    require(text.rstrip().endswith("</html>"), f"{how}: half a page")
    links = re.findall(r'(?:src|href)="([^"#:?]+)"', text)
    gone = [link for link in links if not (folder / link).exists()]
    require(not gone, f"{how}: the page shows {len(gone)} files that are not there")


def records(folder: Path) -> dict[str, Any]:
    """Return the records of all results below a folder by key; Broken where one is not whole."""
    from gpubench.errors import UserError
    from gpubench.results import load

    found: dict[str, Any] = {}
    for path in folder.rglob("*.json"):
        try:
            read = load(path).records
        except UserError as error:
            require(False, f"no whole results file: {error}")
        require(len({r["key"] for r in read}) == len(read), f"{path.name} holds a record twice")
        require(not found.keys() & {r["key"] for r in read}, f"{path.name} repeats another file")
        found |= {record["key"]: record for record in read}
    return found


def require_kept(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise Broken where a record that was there is not there any more, or another one."""
    lost = [key for key, record in before.items() if after.get(key) != record]
    require(not lost, f"{len(lost)} of {len(before)} acknowledged records are lost")


def once(folder: Path, make: Callable[[Path], object]) -> Any:
    """Return what was made for all attempts of a trial in a folder of its own, as plain JSON.

    What it leaves in its cache is what the attempts find in theirs.
    """
    place = folder.parent / "reference"
    told = place / "told.json"
    if not told.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        processes.surroundings(place)
        text = json.dumps(make(place))
        shutil.rmtree(folder.parent / "cache", ignore_errors=True)
        shutil.copytree(place / "cache", folder.parent / "cache")
        told.write_text(text)
    return json.loads(told.read_text())


def write_study(folder: Path) -> None:
    """Put the tiny study into folder/work."""
    processes.surroundings(folder)
    (folder / "work" / "tiny.toml").write_text(STUDY)


def measure_reference(folder: Path) -> dict[str, Any]:
    """Measure the tiny study without interruption; return keys, environment and seconds.

    start_s: of a new interpreter; fork_s: with the environment known.
    """
    write_study(folder)
    begin = time.monotonic()
    ended = processes.launch([processes.gpubench(), *RUN], folder).wait(60)
    require_status(ended, 0)
    (path,) = (folder / "work/results").rglob("*.json")
    found = json.loads(path.read_text())
    keys = sorted(record["key"] for record in found["records"])
    known = {"environment": found["environment"], "keys": keys, "start_s": time.monotonic() - begin}
    begin = time.monotonic()
    again = (*RUN[:-1], "again")
    require_status(processes.run(again, folder, before=knowing(known)), 0)
    return known | {"fork_s": time.monotonic() - begin}


def knowing(reference: dict[str, Any]) -> Callable[[], None]:
    """Return what spares a run the seconds in which it measures the bandwidth anew."""

    def know() -> None:
        from gpubench.studies import runner

        known = dict(reference["environment"])
        setattr(runner, "environment", lambda device: known)  # noqa: B010  # it is not exported

    return know


def let_run(command: Command, seconds: float) -> None:
    """Wait so many seconds, or until the command ends."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not command.poll():
        time.sleep(0.001)


def require_end(ended: Ended, number: int) -> None:
    """Raise Broken where a command that got a signal ended by neither that nor well."""
    from gpubench.paths import PACKAGE

    wanted = {0, -number, 128 + number}
    require(ended.status in wanted, f"after {signal.Signals(number).name}, {ended.said}")
    # Before its first line, the interpreter itself shows a traceback for Ctrl-C.
    if NO_LINE.search(ended.err):
        require(f"{PACKAGE}/" not in ended.err, f"after {signal.Signals(number).name}, traceback")


SIMULATE = (
    "simulate", "dpd-standard", "--device", DEVICE, "--particles", "300", "--steps", "40",
    "--checkpoint", "c.npz",
)  # fmt: skip
FRAMES = ("--frames", "frames", "--renderer", "matplotlib", "--frame-every", "20")


def simulate_reference(folder: Path) -> dict[str, Any]:
    """Simulate without interruption, with pictures; c.npz of it stays. Return what it took."""
    begin = time.monotonic()
    require_status(processes.run((*SIMULATE, *FRAMES), folder), 0)
    return {"seconds": time.monotonic() - begin, "bits": bits(folder / "work/c.npz")}


def bits(path: Path) -> str:
    """Return a hash of the state that a checkpoint holds: its step, and all arrays by id."""
    from gpubench.simulate import checkpoint

    found = checkpoint.load(path)
    digest = hashlib.sha256(str(found.step).encode())
    by_id = found.state["places"][:, 3].argsort()
    for name, array in sorted(found.state.items()):
        if len(array.shape) and len(array) == len(by_id):
            array = array[by_id]
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
