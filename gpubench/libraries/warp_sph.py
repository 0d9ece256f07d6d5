"""The SPH fluid among NVIDIA Warp's examples, as it is shipped, at any resolution."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import ClassVar

import numpy as np

from gpubench.base.errors import NotSupported
from gpubench.libraries._engine import EngineStep
from gpubench.libraries._library import name_with_version, need
from gpubench.libraries._warp import Warp
from gpubench.problems.steps.inputs import SimulationStart

SAMPLE = 500  # particles whose densities are summed on the host
ERROR = 1e-4  # relative, of float32 sums
EDGE = 20.0  # of the column's base, in the example's unit


class WarpSPH(EngineStep):
    """`warp.examples.core.example_sph`: a column of fluid collapses in a corner of a box.

    Its particles start one smoothing length apart, on 4 k^3 places. A launch is one of its frames.
    """

    name = "warp-sph"
    summary = "the SPH example of NVIDIA Warp; on the host where the device is a CPU"
    source = "NVIDIA Warp, warp/examples/core/example_sph.py"
    needs: ClassVar[dict[str, str]] = {"workload": "sph-dam-break"}
    models_alike = False

    def prepare(self) -> None:
        along = round((self.particles / 4) ** (1 / 3))
        if 4 * along**3 != self.particles:
            raise NotSupported(f"{self.name} has 4 k^3 particles: 16384, 131072, 1048576")
        self._warp = Warp(self.device)
        self.library = name_with_version("warp-lang")
        shipped = need("warp.examples.core.example_sph", "warp-lang").Example
        # Its constructor sets the length from which it has its number of particles: keep ours.
        length = property(lambda self: EDGE / along, lambda self, value: None)
        self._example = type("Sized", (shipped,), {"smoothing_length": length})

    def load(self, inputs: SimulationStart) -> None:
        """Make the example, with its particles on their places."""
        with self._here():
            self._fluid = self._example(stage_path=None)
        if self._fluid.n != self.particles:  # its own arithmetic rounds down
            raise NotSupported(f"{self.name} rounds {self.particles} to {self._fluid.n} particles")
        self.launches = self._fluid.sim_step_to_frame_ratio

    def _here(self) -> ExitStack:
        """Return a context in which Warp works on our device, and prints no times."""
        stack, wp = ExitStack(), self._warp.wp
        stack.enter_context(wp.ScopedDevice(self._warp.spec))
        stack.enter_context(self._warp.on_stream())
        stack.callback(setattr, wp.ScopedTimer, "enabled", wp.ScopedTimer.enabled)
        wp.ScopedTimer.enabled = False
        return stack

    def work(self) -> None:
        with self._here():
            self._fluid.step()
        self.steps += self._fluid.sim_step_to_frame_ratio

    def wrong(self) -> str | None:
        """Do one step; compare some densities with float64, and all moves with the velocities."""
        from scipy.spatial import cKDTree  # slow to import

        fluid, before = self._fluid, self._fluid.x.numpy().astype(np.float64)
        fluid.sim_step_to_frame_ratio = 1
        self.launch()
        fluid.sim_step_to_frame_ratio = self.launches
        x, v, density = (a.numpy().astype(np.float64) for a in (fluid.x, fluid.v, fluid.rho))
        chosen = np.random.default_rng(self.seed).permutation(self.particles)[:SAMPLE]
        reach = fluid.smoothing_length
        near = cKDTree(before).query_ball_point(before[chosen], reach)
        self._neighbours = float(np.mean([len(own) - 1 for own in near]))
        for i, own in zip(chosen, near, strict=True):
            squares = ((before[own] - before[i]) ** 2).sum(axis=1)
            right = fluid.density_normalization * ((reach**2 - squares) ** 3).sum()
            if not abs(density[i] - right) <= ERROR * right:
                return f"the density of particle {i} is {density[i]:g}, and should be {right:g}"
        inside = np.clip(before, 0, [fluid.width, math.inf, fluid.length])
        if not np.abs(x - inside - v * fluid.dt).max() <= 1e-5 * fluid.width:
            return "the particles did not move by their velocities"
        return None

    def outcome(self) -> dict[str, int | float | str]:
        return {"steps_done": self.steps, "neighbours": round(self._neighbours, 2)}
