"""Time gpubench.NeighbourList beside vesin and SciPy's cKDTree: arrays in, a list out.

Uniform particles in a cube, NumPy float64 in and out, on a CPU. Calls take turns, in a new order
each round, after one of each that is not timed; before that, all must find as many pairs. A list
of ours and of vesin has each pair from both sides; `query_pairs` has it once, and its tree is
built in the call. Each runs with the threads that it takes by itself. A ratio is the median over
rounds of their time over ours, with its 95% interval.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import vesin
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from gpubench import NeighbourList
from gpubench.measure.statistics import summarise

CUTOFF = 1.0
Call = Callable[[], int]  # a search, that returns how many pairs from both sides it found


def particles_of(number: int, neighbours: float, seed: int) -> tuple[NDArray[np.float64], float]:
    """Return positions (number, 3), and the edge of the cube in which they have neighbours."""
    edge = (number * 4 / 3 * np.pi * CUTOFF**3 / neighbours) ** (1 / 3)
    return np.random.default_rng(seed).random((number, 3)) * edge, float(edge)


def calls(positions: NDArray[np.float64], edge: float, periodic: bool) -> dict[str, Call]:
    """Return what is compared, ours first."""
    ours = NeighbourList(CUTOFF, (edge,) * 3, periodic)
    theirs = vesin.NeighborList(cutoff=CUTOFF, full_list=True)
    box = np.eye(3) * edge

    def from_vesin() -> Any:
        return theirs.compute(points=positions, box=box, periodic=periodic, quantities="ij")[0]

    def from_tree() -> Any:
        tree = cKDTree(positions, boxsize=edge if periodic else None)
        return tree.query_pairs(CUTOFF, output_type="ndarray")

    return {
        "NeighbourList": lambda: len(ours(positions).neighbours),
        "vesin": lambda: len(from_vesin()),
        "cKDTree.query_pairs": lambda: 2 * len(from_tree()),
    }


def times(compared: dict[str, Call], rounds: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return seconds of each call, one a round. Raises SystemExit where answers differ."""
    found = {name: call() for name, call in compared.items()}
    # A pair within rounding of the cutoff may be of one list and not of another.
    if max(found.values()) - min(found.values()) > 1e-5 * max(found.values()) + 2:
        raise SystemExit(f"not the same number of pairs: {found}")
    rng, taken = np.random.default_rng(seed), {name: np.empty(rounds) for name in compared}
    for turn in range(rounds):
        for name in rng.permutation(list(compared)):
            begin = time.perf_counter()
            compared[name]()
            taken[name][turn] = time.perf_counter() - begin
    return taken


def main(given: Sequence[str] | None = None) -> None:
    """Print times and ratios, periodic and open."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--particles", type=int, default=100_000)
    parser.add_argument("--neighbours", type=float, default=16.0, help="of each, on average")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=20261123)
    options = parser.parse_args(given)
    positions, edge = particles_of(options.particles, options.neighbours, options.seed)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{options.particles:,} particles, {options.rounds} rounds, {cores} cores")
    for periodic in (True, False):
        taken = times(calls(positions, edge, periodic), options.rounds, options.seed)
        print("periodic" if periodic else "open")
        for name, seconds in taken.items():
            ratio = summarise((seconds / taken["NeighbourList"]).tolist())
            print(
                f"  {name:20} {np.median(seconds) * 1e3:9.2f} ms   x {ratio.median_ms:6.2f}"
                f"  [{ratio.ci95_low_ms:.2f}, {ratio.ci95_high_ms:.2f}]"
            )


if __name__ == "__main__":
    main()
