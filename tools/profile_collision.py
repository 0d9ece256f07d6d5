"""Time each level of a collision, and what filtering takes of it, by device events."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from gpubench.algorithms.obb_collision import ObbCollision
from gpubench.devices import open_device
from gpubench.inputs import make_mesh_pair
from gpubench.measure.phases import phase_times


class Stepped:
    """A collision as `phase_times` takes what it times: named launches in order."""

    def __init__(self, made: ObbCollision) -> None:
        self.device, self._made = made.device, made

    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the launches, by level and name."""
        first: tuple[str, Callable[[], None]] = ("0,begin", self._made._begin)
        return [first, *((f"{level},{what}", queue) for level, what, queue in self._made.steps())]


def profile(device_spec: str, form: str, shape: str, faces: int, pose: str) -> None:
    """Print the length and the times of each level, and the share of each kind of step."""
    pair = make_mesh_pair(shape, faces, pose)
    with open_device(device_spec) as device:
        made = ObbCollision(device, form, {}, **pair.made_for)
        made.load(pair)
        made.launch()
        lengths = str(made.outcome()["lengths"]).split()
        stepped: Any = Stepped(made)
        times = phase_times(stepped, 20)
    by_level: defaultdict[int, dict[str, float]] = defaultdict(dict)
    by_kind: defaultdict[str, float] = defaultdict(float)
    for name, time in times.items():
        number, what = name.split(",")
        by_level[int(number)][what] = time.median_ms
        by_kind[what] += time.median_ms
    for level, each in by_level.items():
        length = lengths[level] if level < len(lengths) else "triangles"
        steps = ", ".join(f"{what} {1e3 * ms:.1f}" for what, ms in each.items())
        print(f"{level:3} {length:>10}  {steps} us")
    whole = sum(by_kind.values())
    shares = ", ".join(f"{what} {ms / whole:.0%}" for what, ms in by_kind.items())
    print(f"{form}, {shape}, {faces:,} triangles, {pose}: {whole:.3f} ms; {shares}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--form", default="lookback")
    parser.add_argument("--shape", default="sphere")
    parser.add_argument("--faces", type=int, default=16384)
    parser.add_argument("--pose", default="deep")
    given = parser.parse_args()
    profile(given.device, given.form, given.shape, given.faces, given.pose)
