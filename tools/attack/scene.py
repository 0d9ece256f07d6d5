"""Where an attempt takes place: its folder, the commands in it, and what must hold after each."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import TYPE_CHECKING, Any

from attack.processes import Command, Ended
from attack.trial import Broken, require

if TYPE_CHECKING:
    from gpubench.evidence.records import Record

DEVICE = "opencl:intel"
STUDY = """\
title = "Tiny"
question = "Does it hold?"
seed = 1
[[sweeps]]
name = "tiny"
particles = [64, 128, 192, 256, 384, 512, 768, 1024]
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
SIMULATE = (
    "simulate", "dpd-standard", "--device", DEVICE, "--particles", "300", "--checkpoint", "c.npz",
)  # fmt: skip
FRAMES = ("--frames", "frames", "--renderer", "matplotlib", "--frame-every", "20")
SIGNALS = (SIGTERM, SIGKILL, SIGINT)
SCRIPTS = sysconfig.get_path("scripts")
GPUBENCH = Path(SCRIPTS, "gpubench")
STAND_IN_CACHE = f"gpubench-{os.getuid()}"
NO_LINE = re.compile("Traceback|Exception ignored|Fatal Python|Segmentation")
# What is no complaint: what a command tells of its work, the usage that Typer shows first, and that
# Matplotlib will look for fonts again.
NEWS = re.compile(
    r"gpubench: (measuring|checking|simulating|process|preparing|an empty sample|for the|going"
    r"|timing|\d+ s:|.*compiled|.* measured, )"
    "|Usage: |Try |Could not save font_manager cache|$"
)


Make = Callable[["Scene"], dict[str, Any]]


class Scene:
    """The folder of an attempt, with the study tiny.toml in its `work`, where commands run.

    Temporary files and caches have folders of their own. makes: what attempts need; each is made
    once. known: what they returned.
    """

    def __init__(self, folder: Path, *makes: Make) -> None:
        self.folder, self.work = folder, folder / "work"
        for place in (self.work, folder / "tmp", folder / "cache"):
            place.mkdir(exist_ok=True)
        (self.work / "tiny.toml").write_text(STUDY)
        self.known: dict[str, Any] = {}
        for make in makes:
            self.known |= self._once(make)
            made = self.reference(make) / "cache"
            shutil.copytree(made, folder / "cache", dirs_exist_ok=True)
        self.environment = {
            **os.environ, "TMPDIR": str(folder / "tmp"), "XDG_CACHE_HOME": str(folder / "cache"),
        }  # fmt: skip

    def reference(self, make: Make) -> Path:
        """Return the folder of what is made once for all attempts of all trials."""
        return self.folder.parents[1] / "reference" / make.__name__

    def _once(self, make: Make) -> Any:
        place = self.reference(make)
        place.parent.mkdir(exist_ok=True)
        told = place / "told.json"
        with (place.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not told.exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                told.write_text(json.dumps(make(Scene(place))))
        return json.loads(told.read_text())

    def start(
        self,
        words: Sequence[str],
        before: Callable[[], None] = lambda: None,
        out: int | None = None,
        program: Path | None = None,
    ) -> Command:
        """Start a command, see `Command`; a fork knows the environment that it would measure."""

        def prepare() -> None:
            if known := self.known.get("environment"):
                from gpubench.studies import runner

                setattr(runner, "environment", lambda device: dict(known))  # noqa: B010
            before()

        return Command(words, self.work, self.environment, prepare, out, program)

    def run(
        self,
        words: Sequence[str],
        *allowed: int,
        how: str = "",
        lines: Sequence[int] = (1,),
        **options: Any,
    ) -> Ended:
        """Run a command as `start` does; raise Broken as `require_status` does."""
        ended = self.start(words, **options).wait()
        require_status(ended, *(allowed or (0,)), how=how, lines=lines)
        return ended

    def require_nothing_left(self) -> None:
        """Raise Broken where temporary files or folders are left.

        What stands in for a cache folder that cannot be used is there for the next run.
        """
        left = [
            path.name for path in (self.folder / "tmp").iterdir() if path.name != STAND_IN_CACHE
        ]
        left += [p.name for p in self.work.rglob("*") if p.suffix in (".tmp", ".partial")]
        require(not left, f"left behind: {', '.join(sorted(left)[:4])}")

    def records(self, name: str = "results") -> dict[str, Record]:
        """Return the records of all results of a folder by key; Broken where one is not whole."""
        from gpubench.base.errors import UserError
        from gpubench.evidence.results import load

        every: list[Record] = []
        for path in (self.work / name).rglob("*.json"):
            try:
                every += load(path).records
            except UserError as error:
                raise Broken(str(error)) from error
        found = {record.key: record for record in every}
        require(len(found) == len(every), f"{len(every) - len(found)} records are there twice")
        return found

    def require_complete(self, before: dict[str, Record], how: str) -> None:
        """Raise Broken where the records are not those of a run in one go, and of before."""
        found = self.records()
        require_kept(before, found, how)
        require(sorted(found) == self.known["keys"], f"{how}: other keys than of a run in one go")

    def bits(self) -> str:
        """Return a hash of what c.npz holds: its step, and all arrays by id."""
        from gpubench.base.errors import UserError
        from gpubench.simulate import checkpoint

        try:
            found = checkpoint.load(self.work / "c.npz")
        except UserError as error:
            raise Broken(str(error)) from error
        digest = hashlib.sha256(str(found.step).encode())
        by_id = found.state["places"][:, 3].argsort()
        for name, array in sorted(found.state.items()):
            ordered = array[by_id] if array.shape[:1] == by_id.shape else array
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + ordered.tobytes())
        return digest.hexdigest()


def require_status(ended: Ended, *allowed: int, how: str = "", lines: Sequence[int] = (1,)) -> None:
    """Raise Broken for any other status, a traceback, and a complaint of another length."""
    said = f"{how}: {ended.said}" if how else ended.said
    require(ended.status in allowed, said)
    require(not NO_LINE.search(ended.err), f"traceback, {said}")
    count = sum(not NEWS.match(line) for line in ended.err.splitlines())
    require(ended.status != 2 or count in lines, f"{count} lines, {said}")


def require_end(ended: Ended, number: Signals) -> None:
    """Raise Broken where a command that got a signal ended neither by that nor well."""
    from gpubench.base.paths import PACKAGE

    said = f"after {number.name}, {ended.said}"
    require(ended.status in (0, -number, 128 + number), said)
    # Before its first line, the interpreter itself shows a traceback for Ctrl-C.
    require(not NO_LINE.search(ended.err) or f"{PACKAGE}/" not in ended.err, f"traceback {said}")


def require_kept(before: dict[str, Any], after: dict[str, Any], how: str = "") -> None:
    """Raise Broken where a record that was there is not there any more, or another one."""
    lost = [key for key, record in before.items() if after.get(key) != record]
    require(not lost, f"{how}: {len(lost)} of {len(before)} acknowledged records are lost")


def require_page(folder: Path, how: str) -> None:
    """Raise Broken where the page of a report is not whole, or shows files that are not there."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    require(text.rstrip().endswith("</html>"), f"{how}: half a page")
    links = re.findall(r'(?:src|href)="([^"#:?]+)"', text)
    gone = [link for link in links if not (folder / link).exists()]
    require(not gone, f"{how}: the page shows {len(gone)} files that are not there")


def shipped(rng: Random, name: str, size: int) -> dict[str, Any]:
    """Return some records of a results file of that name, of those that came with the package."""
    from gpubench.base.paths import measured_folder
    from gpubench.evidence.bounds import content_of

    every = sorted(measured_folder().rglob(name), key=lambda path: path.stat().st_size)
    smaller = every[: 1 + len(every) // 2]
    document: dict[str, Any] = json.loads(content_of(rng.choice(smaller)))
    first = rng.randrange(max(1, len(document["records"]) - size))
    document["records"] = document["records"][first : first + size]
    return document


def measured(scene: Scene) -> dict[str, Any]:
    """Measure the tiny study without interruption; return what it found, and took.

    start_s: of a new interpreter. fork_s: with the environment known.
    """
    begin = time.monotonic()
    scene.run(RUN, program=GPUBENCH)
    start_s = time.monotonic() - begin
    (path,) = (scene.work / "results").rglob("*.json")
    scene.known["environment"] = json.loads(path.read_text())["environment"]
    begin = time.monotonic()
    scene.run((*RUN[:-1], "again"))
    fork_s = time.monotonic() - begin
    return {**scene.known, "keys": sorted(scene.records()), "start_s": start_s, "fork_s": fork_s}


def simulated(scene: Scene) -> dict[str, Any]:
    """Simulate without interruption, with pictures; return what it found, and took."""
    begin = time.monotonic()
    scene.run((*SIMULATE, "--steps", "40", *FRAMES))
    return {"seconds": time.monotonic() - begin, "bits": scene.bits()}
