"""What every algorithm declares and does, whatever its problem.

Arrays are those of a device: with `shape`, `dtype` and `nbytes`, and downloadable by their device.
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

    summary: one line for people.
    requires: device features it needs, e.g. {"cuda"}.
    capturable: False where the host reads something back, which no CUDA graph can hold.
    reorders: whether positions come back in cell order.
    stable: whether a filter keeps the records in their order.
    halves: 2 where a filter keeps the null records too, apart from the others.
    allocates: whether a library allocates for itself in a launch, which counts as its work.
    """

    summary: str
    requires: frozenset[str] = frozenset()
    capturable: bool = True
    reorders: bool = False
    stable: bool = True
    halves: int = 1
    allocates: bool = False


class Algorithm(ABC):
    """An algorithm made for one device and one size of input, in one of its forms.

    Making it allocates and compiles everything. ``launch`` only launches: no allocation, no
    copy, no compilation; it is what gets timed. Libraries that allocate whenever they are called
    say so in their form.

    launches: how many times ``launch`` does the work; reported times and traffic are of one.
    library: name and version of whose work it is, where it is not ours.
    answers_once_loaded: whether there is an answer to check before the first launch.
    conformance_parameters: what differs from the defaults where the conformance suite is run,
        for an algorithm that by default must not answer all of it.
    variants: sets of parameters between which kernels differ; `make kernels` compiles all.
    needs: axes that every input for it must have, with their values.
    replaces: of an update, the algorithm that builds from nothing what it updates.
    loses: the name in `outcome` of how much the answer lacks, for what may lose a part of it.
    library_part: what of the work is the library's, e.g. "sort", where the rest is ours.
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
        """Return the fields of results that describe a form: reading them needs no algorithm.

        problem: what is asked. task: how far a search goes, see TASKS. answer: the kind of answer;
        only what has the same problem, task and answer does equal work. The others: as above.
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
        """Return the task of a form and the kind of its answer; None where there is only one."""
        return None, None

    def prepare(self) -> None:  # noqa: B027  # an algorithm may need nothing
        """Allocate all arrays and make all kernels; called once, with everything else set.

        Raises UserError for bad parameters, NotSupported where the device lacks something.
        """

    @abstractmethod
    def load(self, inputs: Any) -> None:
        """Bring an input of the family's kind to the device; not timed."""

    @abstractmethod
    def launch(self) -> None:
        """Do the work that is timed."""

    @property
    def answer(self) -> Any:
        """The answer of the last launch: the dataclass of arrays that the family prescribes."""
        raise NotImplementedError(f"{self.name} has no answer")

    def poison(self) -> None:
        """Queue overwriting the answer with values that no right answer contains; not timed.

        A launch must make all of it again: this comes before each launch whose answer is checked
        after timing, and an answer that is right without that launch is refused. By default the
        arrays of `answer` are filled. An algorithm that makes `answer` of something else when it
        is asked overwrites that instead, such that `answer` can still be read.
        """
        poison(self.device, *arrays_of(self.answer))

    @abstractmethod
    def traffic_bytes(self) -> int | None:
        """Return the fewest bytes that the work had to move through device memory, done once.

        None where no model exists.
        """

    @property
    def no_graph(self) -> str | None:
        """Say why no graph can hold a launch, or return None if one can."""
        form = self.forms[self.form]
        if form.allocates:
            return "its library allocates while it works, in memory that no CUDA graph would own"
        if form.capturable:
            return None
        return "the host reads a value back in the middle, which no CUDA graph can hold"

    def outcome(self) -> dict[str, int | float | str]:
        """Return what the last launch reports beside its answer, e.g. its round count."""
        return {}

    def level_steps(self) -> list[tuple[int, str, Callable[[], None]]]:
        """Return what a launch that goes level by level queues: on which level, what, and how.

        The queued work repeats the last launch. Empty where a launch has no levels.
        """
        return []

    def peak_bytes(self) -> int | None:
        """Return the most device memory that the work took, where not all is `workspace_bytes`.

        That is where a library allocates for itself; host memory for what works on the host.
        """
        return None

    def download(self, array: Any) -> NDArray[Any]:
        """Return an array of the answer on the host, when it is complete."""
        return self.device.download(array)

    def allocate(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate a device array and count it as this algorithm's memory."""
        array = self.device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array
