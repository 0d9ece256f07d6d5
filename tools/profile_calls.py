"""Measure the Python overhead of gpubench.NeighbourList calls on an NVIDIA GPU.

Few particles, so that the GPU waits for the host. The launches of one call are recorded and then
queued alone, by the same driver function with the same arguments: the difference is Python, the
allocation of answers, and without a capacity the wait for the number of pairs. Prints microseconds,
medians over interleaved rounds, and the output of cProfile.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import cupy
import numpy as np

from gpubench import NeighbourList
from gpubench.neighbours.arrays import on_cuda

EDGE, REPEATS = 8.0, 50


def launches_of(call: Callable[[], Any], kind: str) -> list[tuple[Any, ...]]:
    """Return the arguments of the launches of a call."""
    noted: list[tuple[Any, ...]] = []
    device = on_cuda(0, kind == "torch").device
    queue = device.queue

    def noting(*given: Any) -> None:
        noted.append(given)
        queue(*given)

    with mock.patch.object(device, "queue", noting):
        call()
    return noted


def timed(call: Callable[[], Any]) -> float:
    """Return the host time per call in microseconds, over many calls."""
    cupy.cuda.runtime.deviceSynchronize()
    begin = time.perf_counter()
    for _ in range(REPEATS):
        call()
    took = time.perf_counter() - begin
    cupy.cuda.runtime.deviceSynchronize()
    return took / REPEATS * 1e6


def calls(kind: str, particles: int) -> dict[str, Callable[[], Any]]:
    """Return ways to call a search with CuPy or PyTorch arrays."""
    host = np.random.default_rng(1).random((particles, 3), np.float32) * np.float32(EDGE)
    positions: Any = cupy.asarray(host)
    if kind == "torch":
        import torch

        positions = torch.from_dlpack(positions)
    waits = NeighbourList(1.0, (EDGE,) * 3, True)
    room = len(waits(positions))
    kept = NeighbourList(1.0, (EDGE,) * 3, True, capacity=room)
    out = kept(positions)
    return {
        f"{kind}, capacity and out": lambda: kept(positions, out=out),
        f"{kind}, capacity": lambda: kept(positions),
        f"{kind}, waits": lambda: waits(positions),
    }


def main(given: Sequence[str] | None = None) -> None:
    """Print the times of calls and of their launches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--particles", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--arrays", nargs="+", choices=["cupy", "torch"], default=["cupy", "torch"])
    options = parser.parse_args(given)
    queue = cupy.cuda.driver.launchKernel
    for kind in options.arrays:
        for name, call in calls(kind, options.particles).items():
            for _ in range(20):
                call()
            noted = launches_of(call, kind)
            alone = lambda noted=noted: [queue(*each) for each in noted]  # noqa: E731
            rounds = [(timed(call), timed(alone)) for _ in range(options.rounds)]
            whole, launches = np.median(rounds, axis=0)
            print(
                f"{name:26} {whole:7.1f} us, its {len(noted)} launches {launches:6.1f},"
                f" the rest {whole - launches:6.1f}"
            )
            profile = cProfile.Profile()
            profile.enable()
            for _ in range(REPEATS):
                call()
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(14)


if __name__ == "__main__":
    main()
