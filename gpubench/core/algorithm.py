"""The interface of all algorithms.

Arrays are device arrays: they have `shape`, `dtype` and `nbytes`; their device downloads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.poison import arrays_of, poison

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpubench.devices.base import Device


BACKENDS = frozenset({"cuda", "opencl"})


@dataclass(frozen=True)
class Form:
    """One way to run an algorithm.

    summary: one line of description.
    requires: device features it needs, e.g. {"cuda"}.
    capturable: False if the host reads something back, which a CUDA graph cannot capture.
    reorders: whether positions come back in cell order.
    stable: whether a filter keeps records in order.
    halves: 2 if a filter also keeps the null records, separately.
    allocates: whether a library allocates memory in a launch, which is timed.
    """

    summary: str
    requires: frozenset[str] = frozenset()
    capturable: bool = True
    reorders: bool = False
    stable: bool = True
    halves: int = 1
    allocates: bool = False


class Algorithm(ABC):
    """An algorithm constructed for a device, an input size and one of its forms.

    Construction allocates and compiles everything. ``launch``, which is timed, only launches: no
    allocation, no copy, no compilation. Forms of libraries that allocate in each call declare so.

    launches: how many times ``launch`` does the work; times and traffic are reported per time.
    library: name and version of the third-party library, if any.
    answers_once_loaded: whether `load` already makes an answer to check.
    conformance_parameters: overrides of the defaults in the conformance suite, for an algorithm
        whose defaults cannot solve all of it.
    variants: sets of parameters with different kernels; `make kernels` compiles all.
    needs: axis values that every input must have.
    replaces: for an update, the algorithm that builds the same structure from scratch.
    loses: the key in `outcome` of the lost part of the answer, if it may lose some.
    library_part: the part of the work done by the library, e.g. "sort", if the rest is ours.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    forms: ClassVar[Mapping[str, Form]]
    defaults: ClassVar[Mapping[str, int]] = {}
    launches: int = 1
    library: str | None = None
    answers_once_loaded: ClassVar[bool] = False
    conformance_parameters: ClassVar[Mapping[str, int]] = {}
    variants: ClassVar[Sequence[Mapping[str, int]]] = ({},)
    needs: ClassVar[Mapping[str, Any]] = {}
    replaces: ClassVar[str | None] = None
    loses: ClassVar[str | None] = None
    library_part: ClassVar[str | None] = None

    def __init__(self, device: Device, form: str, parameters: Mapping[str, int]) -> None:
        self.device = device
        self.form = form
        self.parameters = {**self.defaults, **parameters}
        self.workspace_bytes = 0

    @classmethod
    def declared(cls, form: str) -> dict[str, str | None]:
        """Return the fields of results that describe a form, for readers without the algorithm.

        problem: its name. task: the extent of a search, see TASKS. answer: the kind of answer; only
        algorithms with equal problem, task and answer are comparable. Others: as above.
        """
        task, answer = cls.task_and_answer(form)
        return {
            "problem": cls.family,
            "task": task,
            "answer": answer,
            "replaces": cls.replaces,
            "loses": cls.loses,
            "library_part": cls.library_part,
        }

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task of a form and the kind of its answer; None if there is only one."""
        return None, None

    def prepare(self) -> None:  # noqa: B027  # an algorithm may need nothing
        """Allocate all arrays and make all kernels; called once, after all else is set.

        Raises UserError for bad parameters, NotSupported if the device lacks a feature.
        """

    @abstractmethod
    def load(self, inputs: Any) -> None:
        """Upload an input of the problem's kind; not timed."""

    @abstractmethod
    def launch(self) -> None:
        """Do the work that is timed."""

    @property
    def answer(self) -> Any:
        """The answer of the last launch: the dataclass of arrays that the problem defines."""
        raise NotImplementedError(f"{self.name} has no answer")

    def poison(self) -> None:
        """Queue overwriting the answer with values that no correct answer contains; not timed.

        The next launch must recompute all of it: this is called before each launch whose answer is
        checked after timing, and an answer that is correct without that launch is rejected. The
        default fills the arrays of `answer`. An algorithm that derives `answer` from other data on
        request overwrites that data instead, such that `answer` can still be read.
        """
        poison(self.device, *arrays_of(self.answer))

    @abstractmethod
    def traffic_bytes(self) -> int | None:
        """Return the minimum bytes that one execution moves through device memory.

        None if there is no model.
        """

    @property
    def no_graph(self) -> str | None:
        """Return the reason why no graph can capture a launch, or None if one can."""
        form = self.forms[self.form]
        if form.allocates:
            return "its library allocates while it works, in memory that no CUDA graph would own"
        if form.capturable:
            return None
        return "the host reads a value back in the middle, which no CUDA graph can hold"

    def outcome(self) -> dict[str, int | float | str]:
        """Return further results of the last launch, e.g. its number of rounds."""
        return {}

    def level_steps(self) -> list[tuple[int, str, Callable[[], None]]]:
        """Return the steps of a launch that proceeds by levels: level, name, and function.

        The functions repeat the last launch. Empty if a launch has no levels.
        """
        return []

    def peak_bytes(self) -> int | None:
        """Return the peak device memory, if it exceeds `workspace_bytes`.

        This is the case if a library allocates; host memory for algorithms on the host.
        """
        return None

    def download(self, array: Any) -> NDArray[Any]:
        """Wait until an array of the answer is complete, and return it on the host."""
        return self.device.download(array)

    def allocate(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate a device array and add it to this algorithm's memory."""
        array = self.device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array
