"""Check that timed launches do their work: overwrite the answer, launch as timed, check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm
from gpubench.core.oracle import Oracle
from gpubench.core.poison import arrays_of
from gpubench.devices import Device
from gpubench.measure.sampling import Mode, Run
from gpubench.problems.cells.contract import CellListUpdate
from gpubench.problems.neighbours.contract import Neighbours

GLANCED = 4096  # number of elements compared to see whether an array was written


class AnswerOutOfReach(Exception):
    """Overwriting cannot invalidate an answer, so launches that do nothing would pass."""


def wrong_after_timing(
    device: Device, checked: Sequence[tuple[Algorithm, Oracle]], runs: Mapping[Mode, Run]
) -> str | None:
    """Overwrite the answers, launch once more, and check; return the first error, or None.

    checked: the alternating algorithms, each with the oracle of its input. runs: the timed runs, by
    mode. Where possible, only the graph's answers are checked: it replays the plain launches, so it
    is enough to see that these rewrite their answers. That is always tested, since a graph of
    several launches gives a right answer even if only one of them works. If a launch works on its
    own answer, both modes are checked, the graph first: a check may advance the state by an update
    or a step, which would invalidate the graph.
    Raises AnswerOutOfReach if an answer passes its check without a launch, or NotSupported if it
    does so because it is empty.
    """

    def poison() -> None:
        for algorithm, oracle in checked:
            oracle.poison(algorithm)

    def wrong(is_graph: bool, glance: bool = False) -> str | None:
        poison()
        before = [_beginning(algorithm) for algorithm, _ in checked] if glance else []
        launch = _launch_as_timed(device, checked, runs, is_graph, poison)
        if not glance:
            for algorithm, oracle in checked:
                if oracle.tells_idle and oracle.check(algorithm) is None:
                    if _lists_nothing(algorithm.answer):
                        raise NotSupported("no particle has a neighbour: no list shows a launch")
                    raise AnswerOutOfReach(
                        "its answer was overwritten and is right without a launch: use a larger"
                        " input, or define poison(), see contracts.Algorithm"
                    )
        launch()
        if glance and all(
            _beginning(algorithm) != was
            for (algorithm, _), was in zip(checked, before, strict=True)
        ):
            return None
        found = (oracle.check(algorithm) for algorithm, oracle in checked)
        return next((f"after timing: {problem}" for problem in found if problem), None)

    if "graph" not in runs:
        return wrong(is_graph=False)
    if _beginning(checked[0][0]) is None or ends_where_it_began(checked[0][0]):
        return wrong(is_graph=True) or wrong(is_graph=False)
    return wrong(is_graph=False, glance=True) or wrong(is_graph=True)


def _lists_nothing(answer: object) -> bool:
    """Return whether an answer is an empty list of neighbours, which cannot be overwritten."""
    return (
        isinstance(answer, Neighbours)
        and answer.neighbours is not None
        and not len(answer.neighbours)
    )


def _beginning(algorithm: Algorithm) -> list[bytes] | None:
    """Return the first elements of all arrays of an answer; None if it has none."""
    try:
        arrays = arrays_of(algorithm.answer)
    except (NotImplementedError, TypeError):  # simulation steps, or a library's own type of answer
        return None
    return [algorithm.download(array[:GLANCED]).tobytes() for array in arrays] or None


def _launch_as_timed(
    device: Device,
    checked: Sequence[tuple[Algorithm, Oracle]],
    runs: Mapping[Mode, Run],
    is_graph: bool,
    poison: Callable[[], None],
) -> Callable[[], None]:
    """Return a function that launches as timed: by replaying the graph, or by plain launches."""
    works = [algorithm.launch for algorithm, _ in checked]
    if is_graph and ends_where_it_began(checked[0][0]):
        # The timed graph is right only for its first state, where an idle launch goes unnoticed.
        works = [device.capture(work).launch for work in works]
    else:
        for mode, run in runs.items():
            if (mode == "graph") is is_graph:
                return partial(run.once_more, poison)

    def launch() -> None:
        for work in works:
            work()

    return launch


def ends_where_it_began(algorithm: Algorithm) -> bool:
    """Return whether a launch starts from its own answer and restores it, as an update does.

    A graph of such a launch is only right for the state in which it was recorded.
    """
    return isinstance(algorithm, CellListUpdate) or getattr(algorithm, "task", "") == "update"
