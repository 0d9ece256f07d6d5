"""Hold the engine against NVIDIA's nvbench: the same launches, timed by both, in one process.

    pip install cuda-bench
    python tools/compare_nvbench.py

Both time launches of three algorithms, from microseconds to milliseconds, on the same stream and
the same arrays. nvbench's isolated ("cold") measurement overwrites the cache before every launch,
as our mode `cold` does; its batched measurement launches back to back, as `hot` does. Ours is
taken before and after nvbench's, so that the difference between the two shows what one engine
differs from itself. Exit status 1 where medians differ by more than the tolerance, 2 without an
NVIDIA GPU or cuda-bench.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpubench import registry
from gpubench.contracts import Algorithm
from gpubench.devices import open_device
from gpubench.devices.cuda import CUDADevice
from gpubench.errors import UserError
from gpubench.families import FAMILIES, first_launch
from gpubench.kinds import Particles
from gpubench.measure.environment import environment
from gpubench.measure.sampling import Budget, Mode, Task, sample
from gpubench.writing import whole_file

RESULTS = Path(__file__).resolve().parents[1] / "results" / "comparisons"
SEED = 20261121
BUDGET = Budget(seconds_per_task=1.0, min_samples=100, max_samples=400)
MODES: tuple[Mode, ...] = ("cold", "hot")


@dataclass(frozen=True)
class Case:
    """An algorithm on uniform particles in random order, four in a cell."""

    algorithm: str
    form: str
    particles: int

    @property
    def name(self) -> str:
        """A short name for people."""
        return f"{self.algorithm} {self.form}, {self.particles:,} particles"

    def make(self, device: CUDADevice) -> Algorithm:
        """Make it, and check its answer."""
        inputs = Particles(self.particles, per_cell=4).make(SEED)
        cls = registry.find_algorithm(self.algorithm)
        algorithm = cls(device, form=self.form, parameters={}, **inputs.made_for)
        oracle = FAMILIES[algorithm.family].oracle(inputs, False)
        if wrong := first_launch(algorithm, inputs, oracle):
            raise RuntimeError(f"{self.name}: {wrong}")
        return algorithm


CASES = (
    Case("atomic-list", "one-pass", 1 << 14),
    Case("counting-sort", "reorder", 1 << 20),
    Case("neighbour-query", "count-linked", 1 << 21),
)


class _StreamOf:
    """A PyCUDA stream as nvbench takes it."""

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


def nvbench(device: CUDADevice, algorithms: dict[str, Algorithm]) -> dict[str, dict[str, Any]]:
    """Return nvbench's results by name: times in ms and numbers of samples."""
    try:
        import cuda.bench as bench
        from cuda.bench.results import BenchmarkResult
    except ImportError as error:
        raise UserError(f"nvbench is missing ({error}): pip install cuda-bench") from None
    stream = _StreamOf(device.stream.handle)
    for name, algorithm in algorithms.items():

        def measured(state: Any, launch: Any = algorithm.launch) -> None:
            state.set_stream(stream)
            state.exec(lambda _: launch(), batched=True)

        bench.register(measured).set_name(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        bench.run_all_benchmarks(
            ["compare_nvbench", "--jsonbin", str(path), "--min-samples", "100", "-q"]
        )
        result = BenchmarkResult.from_json(path)
        found = {}
        for name in algorithms:
            (state,) = result[name]
            if state.is_skipped:
                raise RuntimeError(f"nvbench skipped {name}: {state.skip_reason}")
            batch = state.summaries["nv/batch/time/gpu/mean"].value
            found[name] = {
                "cold": 1e3 * statistics.median(state.samples),
                "hot": 1e3 * float(batch),
                "samples": len(state.samples),
                "summaries": {tag: str(each.value) for tag, each in state.summaries.items()},
            }
    return found


def main(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the results go.")] = None,
    tolerance: Annotated[float, typer.Option(help="Between medians, relative.")] = 0.02,
) -> None:
    """Time three algorithms with both, and compare."""
    with open_device("cuda") as device:
        assert isinstance(device, CUDADevice)
        described = environment(device)
        algorithms = {case.name: case.make(device) for case in CASES}
        before = {name: ours(device, algorithm) for name, algorithm in algorithms.items()}
        theirs = nvbench(device, algorithms)
        after = {name: ours(device, algorithm) for name, algorithm in algorithms.items()}
    rows = []
    for name in algorithms:
        for mode in MODES:
            own = statistics.fmean((before[name][mode], after[name][mode]))
            rows.append(
                {
                    "case": name,
                    "mode": mode,
                    "ours_before_ms": before[name][mode],
                    "ours_after_ms": after[name][mode],
                    "nvbench_ms": theirs[name][mode],
                    "difference": own / theirs[name][mode] - 1,
                    "self_difference": after[name][mode] / before[name][mode] - 1,
                }
            )
    table = Table(box=None)
    for column in ("case", "mode", "ours ms", "nvbench ms", "difference", "ours after / before"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            row["case"],
            row["mode"],
            f"{row['ours_before_ms']:.5f}",
            f"{row['nvbench_ms']:.5f}",
            f"{row['difference']:+.2%}",
            f"{row['self_difference']:+.2%}",
        )
    Console(width=140).print(table)
    path = out or RESULTS / f"{described['machine']}-nvbench.json"
    found = {
        "environment": described,
        "cuda-bench": metadata.version("cuda-bench"),
        "tolerance": tolerance,
        "rows": rows,
        "nvbench": theirs,
    }
    with whole_file(path) as file:
        file.write((json.dumps(found, indent=1) + "\n").encode())
    if any(abs(row["difference"]) > tolerance for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        print(f"compare_nvbench: {error}", file=sys.stderr)
        sys.exit(2)
