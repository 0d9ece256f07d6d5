"""Benchmarks of one subject on one kind of input, as asv wants them: a class for each subject.

The engine of the commit that is measured checks the answer, takes the samples and checks again;
asv keeps the samples. It is asked through the text of a study, which all commits can read.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from asv_runner.benchmarks.mark import SkipNotImplemented

from ._suite import DEVICE, ROOT, suite

# asv keeps results of one version together: raise it where another thing is measured than before.
VERSION = "1"
TIMEOUT_S = 600
SEED = 20080204


class WrongOrFailed(Exception):
    """The engine gave no time: the answer was wrong, or something was raised."""


@dataclass(frozen=True)
class Case:
    """What one point of a plot is of.

    algorithm, form, parameters: see studies.Subject. axes: values along the axes of the input.
    workload: which one the algorithm keeps the cells of, or None.
    size: the value of the axis by which an input is large or small; sizes: of this device.
    """

    algorithm: str
    form: str
    size: int
    sizes: Sequence[int]
    axes: Mapping[str, Any]
    parameters: Mapping[str, int] = field(default_factory=dict)
    workload: str | None = None

    @property
    def about(self) -> Any:
        """What the form is, as this checkout has it."""
        return suite()["algorithms"][self.algorithm]["forms"][self.form]

    @property
    def modes(self) -> list[str]:
        """The mode in which it is timed, and that which comes next where it cannot be."""
        graphs = "graphs" in suite()["device"]["features"] and self.about["capturable"]
        return ["graph", "hot"] if graphs else ["hot"]

    def study(self, mode: str) -> str:
        """Return the study of this one cell, as TOML."""
        axes = "".join(f"{name} = {json.dumps([value])}\n" for name, value in self.axes.items())
        parameters = ", ".join(f"{name} = {value}" for name, value in self.parameters.items())
        return (
            f'title = "asv"\nquestion = "Has it become slower?"\nseed = {SEED}\n'
            f'[[sweeps]]\nname = "asv"\n{axes}modes = ["{mode}"]\n'
            f'[[subjects]]\nalgorithm = "{self.algorithm}"\nform = "{self.form}"\n'
            f"parameters = {{ {parameters} }}\n"
        )

    def require_here(self) -> None:
        """Raise NotImplementedError where the device is not meant, or the commit lacks it."""
        from gpubench import registry

        if self.size not in self.sizes:
            raise NotImplementedError(f"{self.size} is a size for other devices")
        lacking = set(self.about["requires"]) - set(suite()["device"]["features"])
        if lacking:
            raise NotImplementedError(f"the device lacks {', '.join(sorted(lacking))}")
        algorithm = registry.algorithms().get(self.algorithm)
        if algorithm is None or self.form not in algorithm.forms:
            raise NotImplementedError(f"this commit has no {self.algorithm} {self.form}")
        if self.workload is not None and self.workload not in registry.workloads():
            raise NotImplementedError(f"this commit has no {self.workload}")

    def record(self, budget: Any) -> Any:
        """Open the device, measure, and return the engine's record of status `ok`.

        Raises SkipNotImplemented for what the device cannot, WrongOrFailed for what went wrong.
        """
        from gpubench.devices import open_device
        from gpubench.studies.runner import measure

        record: Any = None
        with open_device(DEVICE) as device:
            for mode in self.modes:
                group = self._plan(mode)
                (found,) = measure(group, group.items, device, budget, lambda final: None)
                record = SimpleNamespace(**found) if isinstance(found, dict) else found
                if record.status != "skipped":
                    break
        if record.status == "skipped":
            raise SkipNotImplemented(record.reason)
        if record.status != "ok":
            raise WrongOrFailed(f"{record.status}: {record.reason}")
        return record

    def _plan(self, mode: str) -> Any:
        """Return the group of this one cell; what an older commit cannot read is skipped."""
        import gpubench
        from gpubench.studies.runner import plan
        from gpubench.studies.study import StudyError, parse_study

        try:
            (group,) = plan(parse_study("asv", self.study(mode)))
        except StudyError as error:
            if Path(gpubench.__file__).parent == ROOT / "gpubench":
                raise
            raise SkipNotImplemented(f"this commit has no such study: {error}") from None
        return group


def benchmarks(
    name: str,
    summary: str,
    make_case: Callable[..., Case],
    params: Mapping[str, Sequence[Any]],
    memory_params: Mapping[str, Sequence[Any]],
) -> type:
    """Make the class of a subject: its time, and how much memory it takes.

    make_case: makes a case of a value of each of the params. memory_params: fewer values of the
        same, for what needs no repetition to be known.
    """

    def present(function: Any, what: str, unit: str, along: Mapping[str, Sequence[Any]]) -> None:
        function.pretty_name = f"{name}: {what}"
        function.pretty_source = f"{name}: {summary}\n{function.__doc__}"
        function.unit = unit
        function.params = [list(values) for values in along.values()]
        function.param_names = list(along)
        function.version = VERSION
        function.timeout = TIMEOUT_S

    class Benchmarks:
        def setup(self, *values: Any) -> None:
            self.case = make_case(*values)
            self.case.require_here()

        def track_time(self, *values: Any) -> dict[str, Any]:
            """Time of one launch, or of one step, by the device's clock; samples in seconds."""
            from gpubench.measure.sampling import Budget

            record = self.case.record(Budget())
            return {
                "samples": [float(f"{1e-3 * ms:.6g}") for ms in record.samples_ms],
                "number": 1,
            }

        def track_workspace(self, *values: Any) -> int:
            """Device memory that it takes beside its input, in bytes."""
            return int(self._launch_once().workspace_bytes)

        def peakmem_process(self, *values: Any) -> None:
            """Peak host memory of a process that draws an input, launches and checks, in bytes."""
            self._fill_caches()
            self._launch_once()

        def _fill_caches(self) -> None:
            """Launch once in another process, since a compiler takes more memory than all else."""
            if child := os.fork():
                os.waitpid(child, 0)
                return
            try:
                self._launch_once()
            finally:
                os._exit(0)  # what went wrong goes wrong again, where it is told

        def _launch_once(self) -> Any:
            from gpubench.measure.sampling import Budget

            once = Budget(seconds_per_task=0, min_samples=1, max_samples=1, max_batch=1)
            return self.case.record(once)

    Benchmarks.__doc__ = summary
    Benchmarks.__name__ = "".join(word.capitalize() for word in name.split("-"))
    present(Benchmarks.track_time, "time", "seconds", params)
    present(Benchmarks.track_workspace, "workspace", "bytes", memory_params)
    present(Benchmarks.peakmem_process, "peak memory", "bytes", memory_params)
    return Benchmarks


def sizes(on_cpu: Sequence[int], on_gpu: Sequence[int]) -> tuple[list[int], Sequence[int]]:
    """Return the sizes of every device, which asv's one list of parameters needs, and of this."""
    return [*itertools.chain(on_cpu, on_gpu)], on_cpu if suite()["device"]["is_cpu"] else on_gpu
