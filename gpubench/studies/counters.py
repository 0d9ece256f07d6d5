"""Hardware counters of a launch, by Nsight Compute (`ncu`), in a process of their own.

ncu replays each kernel of the launch several times, so it runs beside the timing, never within.
"""

from __future__ import annotations

import csv
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from gpubench import devices
from gpubench.base import paths, plugins
from gpubench.evidence.records import AnyRecord, Ok, identity_of
from gpubench.studies.bench import made_for
from gpubench.studies.plan import DescribedDevice, Group, cell_key
from gpubench.studies.study import Subject

# By name in a record, the metric, and how values of several kernels become one of the launch: their
# sum per counted launch, their mean weighted by time, or the largest.
METRICS = {
    "kernel_ns": ("gpu__time_duration.sum", "sum"),
    "dram_bytes": ("dram__bytes.sum", "sum"),
    "l2_bytes": ("lts__t_bytes.sum", "sum"),
    "l1_wavefronts": ("l1tex__data_pipe_lsu_wavefronts.sum", "sum"),
    "instructions": ("smsp__inst_executed.sum", "sum"),  # of warps
    "issue_percent": ("sm__inst_issued.avg.pct_of_peak_sustained_active", "mean"),
    "occupancy_percent": ("sm__warps_active.avg.pct_of_peak_sustained_active", "mean"),
    "registers": ("launch__registers_per_thread", "max"),
}
SECONDS = 600  # after which a launch under ncu is given up
LAUNCHES = "launches: "


class Unreadable(Exception):
    """The counters cannot be read; the message gives the reason in one line."""


class Counting:
    """Adds counters to records; stops, with one line, where they cannot be read.

    groups: all inputs of the run. notice: called with the reason.
    """

    def __init__(
        self, groups: Sequence[Group], device: DescribedDevice, notice: Callable[[str], None]
    ) -> None:
        self._spec, self._notice, self._is_over = device.spec, notice, False
        self._known: dict[tuple[str, str], dict[str, float] | None] = {}
        items = ((group, item) for group in groups for item in group.items)
        self._of = {cell_key(g.identity(device, *item)): (g, item[0]) for g, item in items}
        if device.backend != "cuda":
            self._end("no counters: they need an NVIDIA GPU")
        elif shutil.which("ncu") is None:
            self._end("no counters: there is no ncu: install Nsight Compute, and put it on PATH")

    def _end(self, why: str) -> None:
        self._is_over = True
        self._notice(why)

    def counted(self, records: Sequence[AnyRecord]) -> list[AnyRecord]:
        """Return the records, those with a time with the counters of one launch."""
        named = [(each, self._of[cell_key(identity_of(each))]) for each in records]
        return [replace(r, counters=self.read(*of)) if isinstance(r, Ok) else r for r, of in named]

    def read(self, group: Group, subject: Subject) -> dict[str, float] | None:
        """Return the counters of a subject on an input, which are those of all modes."""
        known = (repr(group.recipe), subject.label)
        if known not in self._known and not self._is_over:
            try:
                self._known[known] = read_counters(group, subject, self._spec)
            except Unreadable as error:
                self._end(f"no counters from here on: {subject.label}: {error}")
        return self._known.get(known)


def read_counters(group: Group, subject: Subject, spec: str) -> dict[str, float]:
    """Launch a subject on an input under ncu; return its counters, or raise Unreadable."""
    with tempfile.TemporaryDirectory() as folder:
        asked, log = Path(folder, "asked"), Path(folder, "ncu.csv")
        asked.write_bytes(pickle.dumps((spec, group, subject)))
        command = [
            "ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
            "--profile-from-start", "off", "--log-file", str(log),
            "--metrics", ",".join(metric for metric, _ in METRICS.values()),
            sys.executable, "-P", "-m", "gpubench.studies.counters", str(asked),
        ]  # fmt: skip
        # This copy of the package; `children` would see that its parent is ncu.
        search = [str(paths.PACKAGE.parent), os.environ.get("PYTHONPATH")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search))}
        run = partial(subprocess.run, capture_output=True, text=True, check=False, env=env)
        try:
            done = run(command, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Unreadable(f"it took more than {SECONDS} s") from None
        text = log.read_text() if log.exists() else ""
    told = [line for line in done.stdout.splitlines() if line.startswith(LAUNCHES)]
    if done.returncode or not told:
        said = [line for line in (text + done.stdout + done.stderr).splitlines() if line.strip()]
        wrong = [line for line in said if "ERR" in line or "Error" in line] or said[-1:]
        raise Unreadable(wrong[0] if wrong else "ncu says nothing")
    return counters_in(text, int(told[0].removeprefix(LAUNCHES)))


def counters_in(text: str, launches: int = 1) -> dict[str, float]:
    """Return the counters in ncu's CSV: a line of names, one of units, a line for each kernel.

    launches: what sums are divided by. Raises Unreadable where a metric or all kernels are missing.
    """
    units, *kernels = [*csv.DictReader(n for n in text.splitlines() if n[:1] == '"')] or [{}]
    if missing := [metric for metric, _ in METRICS.values() if metric not in units]:
        raise Unreadable(f"ncu reports no {missing[0]}")
    if not kernels:
        raise Unreadable("ncu saw no kernel")
    found = {"kernels": len(kernels) / launches}
    weights: list[float] = []
    for name, (metric, how) in METRICS.items():
        try:
            values = [float(kernel[metric].replace(",", "")) for kernel in kernels]
        except ValueError as error:
            raise Unreadable(f"ncu reports what is no number for {metric}: {error}") from None
        weights = weights or values  # the first metric is time
        mean = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
        found[name] = {"max": max(values), "sum": sum(values) / launches, "mean": mean}[how]
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def launch_profiled(asked: Path) -> None:
    """Launch what a file names: once, then once for ncu; print the launches that a call counts."""
    plugins.additions()  # imported before receiving an input that they define
    spec, group, subject = pickle.loads(asked.read_bytes())
    with devices.open_device(spec) as device:
        inputs = group.recipe.make(group.seed)
        algorithm = made_for(subject, inputs, device)
        algorithm.load(inputs)
        algorithm.launch()
        device.synchronize()
        if device.backend == "cuda":
            import cupy

            cupy.cuda.runtime.profilerStart()
        algorithm.launch()
        device.synchronize()
        print(f"{LAUNCHES}{algorithm.launches}", flush=True)


if __name__ == "__main__":
    launch_profiled(Path(sys.argv[1]))
