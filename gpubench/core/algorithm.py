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
    capturable: False if the host reads a value back during a launch, which rules out CUDA graphs.
    reorders: whether positions come back in cell order.
    stable: whether a filter keeps records in order.
    halves: 2 if a filter also outputs the null records, separately; otherwise 1.
    allocates: whether a library allocates memory during a launch; times include the allocation.
    """

    summary: str
    requires: frozenset[str] = frozenset()
    capturable: bool = True
    reorders: bool = False
    stable: bool = True
    halves: int = 1
    allocates: bool = False


class Algorithm(ABC):
    """An algorithm constructed for a device, an input size and one of its variants (forms).

    Construction allocates and compiles everything. ``launch``, which is timed, only launches: no
    allocation, no copy, no compilation. Forms whose library allocates in a launch set `allocates`.

    launches: how often ``launch`` repeats the work; times and traffic are per repetition.
    library: name and version of the third-party library, if any.
    answers_once_loaded: whether `load` already produces an answer to check.
    conformance_parameters: overrides of the defaults in the conformance suite, for an algorithm
        that cannot solve every case of the suite with its defaults.
    variants: sets of `parameters` that need different kernels; `make kernels` compiles them all.
    needs: axis values that every input must have.
    replaces: for an update, the algorithm that builds the same structure from scratch.
    loses: the key in `outcome` of the number of missing items, if answers may be incomplete.
    library_part: the part of the work done by the library, e.g. "sort", if the rest is ours.
    is_exact: whether float32 decides an input that it holds exactly; not where coordinates are
        rounded first, which the tolerance of other inputs then covers.
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
    is_exact: ClassVar[bool] = True

    def __init__(self, device: Device, form: str, parameters: Mapping[str, int]) -> None:
        self.device = device
        self.form = form
        self.parameters = {**self.defaults, **parameters}
        self.workspace_bytes = 0

    @classmethod
    def declared(cls, form: str) -> dict[str, str | None]:
        """Return fields that results store, so that a variant is described without this class.

        problem: the problem's name. task: the work of a search, see TASKS. answer: the kind of
        answer. Only variants with equal values of these three are comparable. For the other
        fields, see `Algorithm`.
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
        """Return a variant's task and its kind of answer; each None if the problem has only one."""
        return None, None

    def prepare(self) -> None:  # noqa: B027  # an algorithm may need nothing
        """Allocate all arrays and build all kernels; called once, at the end of __init__.

        Raises UserError for bad parameters, NotSupported if the device lacks a feature.
        """

    @abstractmethod
    def load(self, inputs: Any) -> None:
        """Upload an input of the kind that the problem takes; not timed."""

    @abstractmethod
    def launch(self) -> None:
        """Do the timed work."""

    @property
    def answer(self) -> Any:
        """The answer of the last launch: the dataclass of arrays that the problem defines."""
        raise NotImplementedError(f"{self.name} has no answer")

    def poison(self) -> None:
        """Queue fills of the answer with values that no correct answer contains; not timed.

        Called before each launch whose answer is checked after timing, to prove that this launch
        computes it: an answer that is correct before the launch is rejected. The default fills the
        arrays of `answer`. An algorithm that derives `answer` from other data when it is read must
        overwrite that data instead, so that `answer` can still be read.
        """
        poison(self.device, *arrays_of(self.answer))

    @abstractmethod
    def traffic_bytes(self) -> int | None:
        """Return the minimum device-memory traffic of one execution in bytes; None if unknown."""

    @property
    def no_graph(self) -> str | None:
        """The reason why a launch cannot be captured in a CUDA graph, or None if it can."""
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

        Calling the functions in order repeats the last launch. Empty if a launch has no levels.
        """
        return []

    def peak_bytes(self) -> int | None:
        """Return the peak memory in bytes if a library also allocates, otherwise None.

        It is device memory or, for algorithms that run on the host, host memory.
        """
        return None

    def download(self, array: Any) -> NDArray[Any]:
        """Wait until an array of the answer is complete, and return it on the host."""
        return self.device.download(array)

    def allocate(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate a device array and add its size to `workspace_bytes`."""
        array = self.device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array
