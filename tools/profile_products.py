"""Profile sparse matrix products with GPU counters, separating matrix and vector traffic.

    python tools/profile_products.py --particles 4194304 --per-cell 8

Needs an NVIDIA GPU and Nsight Compute's `ncu`, with the right to read counters. Each product runs
with particles in the order of their cells and in random order, and once more with `own` columns:
each column is replaced by its row, so the vector is read in order and the rest is access to the
matrix. Prints a row for each; exit status 2 if counters cannot be read.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

METRICS = {
    "time": "gpu__time_duration.sum",  # ns
    "dram": "dram__bytes.sum",
    "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1_hits": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l2_reads": "lts__t_sectors_op_read.sum",
    "l2_hits": "lts__t_sectors_op_read_lookup_hit.sum",
}
FORMS = (
    "ellpack-blocks product-float4",
    "ellpack-blocks product-planes",
    "ellpack-staged product-planes",
    "sliced-ell product-planes",
    "csr-product product-warp",
)
OWN = ("ellpack-blocks product-float4", "ellpack-blocks product-planes")
COLUMNS = (
    "product", "columns", "ms", "DRAM GB", "over least", "sectors/request", "L1 hits", "L2 hits",
)  # fmt: skip


class Unreadable(Exception):
    """The counters cannot be read; the message gives the reason in one line."""


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--particles", type=int, default=2**22)
    parser.add_argument("--per-cell", type=float, default=8)
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command; default: ncu")
    parser.add_argument("--launch", nargs=2, metavar=("PRODUCT", "COLUMNS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.launch:
        product, columns = given.launch
        launch(product, columns, given.particles, given.per_cell)
        return 0
    print(" | ".join(COLUMNS))
    runs = [(product, "own") for product in OWN]
    runs += [(product, order) for order in ("cell", "random") for product in FORMS]
    try:
        for product, columns in runs:
            counters, least = profile(given, product, columns)
            print(" | ".join(row(product, columns, counters, least)), flush=True)
    except Unreadable as error:
        print(f"profile_products: {error}", file=sys.stderr)
        return 2
    return 0


def launch(
    product: str, columns: str, particles: int, per_cell: float, device_spec: str = "cuda"
) -> None:
    """Launch a product three times, and print its minimum traffic in bytes."""
    import numpy as np

    from gpubench import registry
    from gpubench.devices import open_device
    from gpubench.problems.sparse_product.axes import Matrices

    order = "cell" if columns == "own" else columns
    inputs = Matrices("density-gradient", particles, per_cell, order=order).make(1)
    name, form = product.split()
    cls: Any = registry.find_algorithm(name)
    with open_device(device_spec) as device:
        algorithm = cls(device, form=form, parameters={}, **inputs.made_for)
        algorithm.load(inputs)
        if columns == "own":
            places = np.arange(algorithm.places, dtype=np.int64) % particles  # k * rows + i
            device.write(algorithm.columns, places.astype(np.int32))
        for _ in range(3):
            algorithm.launch()
        device.synchronize()
        print(f"least bytes: {algorithm.traffic_bytes()}")


def profile(given: argparse.Namespace, product: str, columns: str) -> tuple[dict[str, float], int]:
    """Return the counters of the third launch of a product, and its minimum bytes."""
    if shutil.which(given.ncu) is None:
        raise Unreadable(f"there is no {given.ncu}: install Nsight Compute, or name it with --ncu")
    command = [
        given.ncu, "--csv", "--page", "raw", "--print-units", "base", "--kernel-name",
        "regex:^multiply", "--launch-skip", "2", "--launch-count", "1",
        "--metrics", ",".join(METRICS.values()), sys.executable, __file__,
        "--particles", str(given.particles), "--per-cell", str(given.per_cell),
        "--launch", product, columns,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    least = [line for line in done.stdout.splitlines() if line.startswith("least bytes: ")]
    if done.returncode or not least:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        wrong = [line for line in said if "ERR" in line or "Error" in line] or said[-1:]
        raise Unreadable(f"{product}: {wrong[0] if wrong else f'{given.ncu} says nothing'}")
    return counters_in(done.stdout), int(least[0].split()[-1])


def counters_in(text: str) -> dict[str, float]:
    """Return the counters in ncu's CSV output: a line of names, one of units, the values."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    missing = [name for name in METRICS.values() if not rows or name not in rows[-1]]
    if missing:
        raise Unreadable(f"ncu reports no {missing[0]}")
    found = {name: rows[-1][metric].replace(",", "") for name, metric in METRICS.items()}
    try:
        return {name: float(value) for name, value in found.items()}
    except ValueError as error:
        raise Unreadable(f"ncu reports what is no number: {error}") from None


def row(product: str, columns: str, counters: Mapping[str, float], least: int) -> Sequence[str]:
    """Return a row of the table."""
    return (
        product,
        columns,
        f"{counters['time'] / 1e6:.4g}",
        f"{counters['dram'] / 1e9:.3f}",
        f"{counters['dram'] / least:.3f}",
        f"{counters['sectors'] / counters['requests']:.2f}",
        f"{counters['l1_hits'] / counters['sectors']:.0%}",
        f"{counters['l2_hits'] / counters['l2_reads']:.0%}",
    )


if __name__ == "__main__":
    sys.exit(main())
