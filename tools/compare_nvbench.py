"""Compare the engine with NVIDIA's nvbench: the same launches, timed by both, in one process.

    pip install cuda-bench
    python tools/compare_nvbench.py

Both time launches of three algorithms, from microseconds to milliseconds, on the same stream and
arrays, several times: half of our runs before nvbench, which can run once per process, half after.
nvbench's isolated ("cold") measurement overwrites the cache before every launch, as our mode `cold`
does; its batched measurement launches back to back, as `hot` does. Each engine's own spread is
printed beside the difference. If back-to-back launches take longer than isolated ones, which start
with a cold cache, both engines time the host; the row says so and is not judged.

Exit status 1 if medians differ by more than the tolerance, 2 without an NVIDIA GPU or cuda-bench.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpubench import problems, registry
from gpubench.base.errors import UserError
from gpubench.base.writing import whole_file
from gpubench.core.algorithm import Algorithm
from gpubench.core.oracle import first_launch
from gpubench.devices import open_device
from gpubench.devices.cuda import CUDADevice
from gpubench.measure.environment import environment
from gpubench.measure.sampling import Budget, Mode, Task, sample
from gpubench.problems.particles.axes import Particles

RESULTS = Path(__file__).resolve().parents[1] / "results" / "comparisons"
SEED = 20261121
BUDGET = Budget(seconds_per_task=1.0, min_samples=100, max_samples=400)
MODES: tuple[Mode, ...] = ("cold", "hot")


Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An algorithm on uniform particles in random order, four per cell."""

    algorithm: str
    form: str
    particles: int

    @property
    def name(self) -> str:
        """A short display name."""
        return f"{self.algorithm} {self.form}, {self.particles:,} particles"

    def make(self, device: CUDADevice) -> Algorithm:
        """Make the algorithm, and check its answer."""
        inputs = Particles(self.particles, per_cell=4).make(SEED)
        cls = registry.find_algorithm(self.algorithm)
        algorithm = cls(device, form=self.form, parameters={}, **inputs.made_for)
        oracle = problems.problems()[algorithm.family].oracle(inputs, False)
        if wrong := first_launch(algorithm, inputs, oracle):
            raise RuntimeError(f"{self.name}: {wrong}")
        return algorithm


CASES = (
    Case("atomic-list", "one-pass", 1 << 14),
    Case("counting-sort", "reorder", 1 << 20),
    Case("neighbour-query", "count-linked", 1 << 21),
)


class _StreamOf:
    """A PyCUDA stream in the form that nvbench accepts."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def ours(device: CUDADevice, algorithm: Algorithm) -> dict[str, float]:
    """Return the medians of our engine in milliseconds, by mode."""
    tasks = [Task(mode, [algorithm.launch], mode, compared_with=mode) for mode in MODES]
    found = sample(device, tasks, BUDGET, SEED)
    return {
        mode: each.summary.median_ms
        for mode, each in zip(MODES, found, strict=True)
        if each.summary is not None
    }


def nvbench(
    device: CUDADevice, algorithms: dict[str, Algorithm], rounds: int
) -> list[dict[str, dict[str, float]]]:
    """Return nvbench's times in milliseconds, for each round by name and mode.

    Cold times are medians, hot times the means of its batches.
    """
    import cuda.bench as bench
    from cuda.bench.results import BenchmarkResult

    stream = _StreamOf(device.stream.handle)
    for turn, (name, algorithm) in itertools.product(range(rounds), algorithms.items()):

        def measured(state: Any, launch: Any = algorithm.launch) -> None:
            state.set_stream(stream)
            state.exec(lambda _: launch(), batched=True)

        bench.register(measured).set_name(f"{name} #{turn}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        bench.run_all_benchmarks(
            ["compare_nvbench", "--jsonbin", str(path), "--min-samples", "100", "-q"]
        )
        result = BenchmarkResult.from_json(path)
        return [
            {name: _times_of(*result[f"{name} #{turn}"]) for name in algorithms}
            for turn in range(rounds)
        ]


def _times_of(state: Any) -> dict[str, float]:
    if state.is_skipped:
        raise RuntimeError(f"nvbench skipped {state.name()}: {state.skip_reason}")
    batch_s = state.summaries["nv/batch/time/gpu/mean"].value
    return {"cold": 1e3 * statistics.median(state.samples), "hot": 1e3 * batch_s}


def spread(times: Sequence[float]) -> float:
    """Return the range of times relative to their median."""
    return (max(times) - min(times)) / statistics.median(times)


def main(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the results go.")] = None,
    tolerance: Annotated[float, typer.Option(help="Between medians, relative.")] = 0.02,
    rounds: Annotated[int, typer.Option(help="How often each engine times all.")] = 6,
) -> None:
    """Time three algorithms with both engines, and compare."""
    try:
        version = metadata.version("cuda-bench")
    except metadata.PackageNotFoundError:
        raise UserError("nvbench is missing: pip install cuda-bench") from None
    with open_device("cuda") as device:
        assert isinstance(device, CUDADevice)
        described = environment(device)
        algorithms = {case.name: case.make(device) for case in CASES}
        every = algorithms.items()
        own = [{n: ours(device, a) for n, a in every} for _ in range(rounds // 2)]
        theirs = nvbench(device, algorithms, rounds)
        own += [{n: ours(device, a) for n, a in every} for _ in range(rounds - rounds // 2)]
    rows: list[Row] = []
    for name, mode in itertools.product(algorithms, MODES):
        mine, its = ([turn[name][mode] for turn in turns] for turns in (own, theirs))
        medians = statistics.median(mine), statistics.median(its)
        rows.append(
            {
                "case": name,
                "mode": mode,
                "ours_ms": mine,
                "nvbench_ms": its,
                "difference": medians[0] / medians[1] - 1,
                "ours_spread": spread(mine),
                "nvbench_spread": spread(its),
            }
        )
    for row, cold in zip(rows[1::2], rows[::2], strict=True):
        row["launch_bound"] = min(row["ours_ms"]) > min(cold["ours_ms"])
    show(rows)
    path = out or RESULTS / f"{described['machine']}-nvbench.json"
    found = {
        "environment": described,
        "cuda-bench": version,
        "tolerance": tolerance,
        "rows": rows,
    }
    with whole_file(path) as file:
        file.write((json.dumps(found, indent=1) + "\n").encode())
    judged = [row for row in rows if not row.get("launch_bound")]
    if any(abs(row["difference"]) > tolerance for row in judged):
        raise typer.Exit(1)


def show(rows: Sequence[Row]) -> None:
    """Print a row for each case and mode."""
    table = Table(box=None)
    columns = ("case", "mode", "ours ms", "nvbench ms", "difference", "spread of ours, of its", "")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(
            row["case"], row["mode"],
            f"{statistics.median(row['ours_ms']):.5f}",
            f"{statistics.median(row['nvbench_ms']):.5f}",
            f"{row['difference']:+.2%}",
            f"{row['ours_spread']:.2%}, {row['nvbench_spread']:.2%}",
            "the host's launches are timed" if row.get("launch_bound") else "",
        )  # fmt: skip
    Console(width=160).print(table)


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        print(f"compare_nvbench: {error}", file=sys.stderr)
        sys.exit(2)
