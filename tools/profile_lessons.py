"""Profile each step of the study `lessons` by GPU counters, for docs/lessons.md.

    python tools/profile_lessons.py docs/lessons-profile.csv

Needs an NVIDIA GPU and Nsight Compute's `ncu`, with the right to read counters. Writes a row for
each kernel of a step, on the first input of its sweep; exit status 2 if counters cannot be read.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

from profile_products import Unreadable

# By column: ncu's metric, and what of its base unit the column is in.
METRICS = {
    "time, us": ("gpu__time_duration.sum", 1e-3),
    "issue slots, %": ("sm__inst_issued.avg.pct_of_peak_sustained_active", 1),
    "L1, %": ("l1tex__throughput.avg.pct_of_peak_sustained_active", 1),
    "L2, %": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "DRAM, %": ("dram__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "DRAM, MB": ("dram__bytes.sum", 1e-6),
    "lanes of 32": ("smsp__thread_inst_executed_per_inst_executed.ratio", 1),
    "occupancy, %": ("sm__warps_active.avg.pct_of_peak_sustained_active", 1),
}
COLUMNS = ("card", "sweep", "step", "kernel", *METRICS)


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="the CSV file to write")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command; default: ncu")
    parser.add_argument("--launch", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    from gpubench.studies.study import load_study

    sweeps = load_study("lessons").sweeps
    if given.launch:
        launch(sweeps[given.launch[0]], given.launch[1])
        return 0
    rows = []
    try:
        for number, sweep in enumerate(sweeps):
            for step, subject in enumerate(sweep.subjects):
                found = kernels_in(profiled(given.ncu, str(given.out), str(number), str(step)))
                rows += [(row[0], sweep.name, subject.form, *row[1:]) for row in found]
    except Unreadable as error:
        print(f"profile_lessons: {error}", file=sys.stderr)
        return 2
    with given.out.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return 0


def launch(sweep: Any, step: int, device_spec: str = "cuda") -> None:
    """Launch a step three times, the last for the profiler; print the card."""
    from gpubench import registry
    from gpubench.devices import open_device
    from gpubench.devices.cupy import import_cupy

    inputs, subject = sweep.recipes()[0].make(1), sweep.subjects[step]
    cls: Any = registry.find_algorithm(subject.algorithm)
    with open_device(device_spec) as device:
        algorithm = cls(device, form=subject.form, parameters={}, **inputs.made_for)
        algorithm.load(inputs)
        for is_last in (False, False, True):
            device.synchronize()
            if is_last:
                import_cupy().cuda.profiler.start()
            algorithm.launch()
        device.synchronize()
        import_cupy().cuda.profiler.stop()
        print(f"card: {device.name}")


def profiled(ncu: str, *launched: str) -> str:
    """Return what ncu says of a step."""
    out, *launched_step = launched
    command = [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off",
        "--metrics", ",".join(metric for metric, _ in METRICS.values()),
        sys.executable, __file__, out, "--launch", *launched_step,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unreadable(f"there is no {ncu}: install Nsight Compute, or name it") from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or [f"{ncu} says nothing"]
        raise Unreadable(next((line for line in said if "ERR" in line), said[-1]))
    return done.stdout


def kernels_in(text: str) -> list[tuple[str, ...]]:
    """Return card, name and counters of each kernel in ncu's CSV output."""
    card = next((line[6:] for line in text.splitlines() if line.startswith("card: ")), "")
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(io.StringIO("\n".join(lines))) if row["ID"]]
    if not rows or not card:
        raise Unreadable("ncu reports no kernel")
    found = []
    for row in rows:
        try:
            counted = [float(row[name].replace(",", "")) * unit for name, unit in METRICS.values()]
        except (KeyError, ValueError) as error:
            raise Unreadable(f"ncu reports no number of {error}") from None
        found.append((card, row["Kernel Name"].split("(")[0], *(f"{n:.3g}" for n in counted)))
    return found


if __name__ == "__main__":
    sys.exit(main())
