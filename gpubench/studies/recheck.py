"""Whether what was timed does its work: overwrite its answer, launch as it was timed, check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gpubench.contracts import Algorithm
from gpubench.devices import Device
from gpubench.families import Oracle, ends_where_it_began
from gpubench.measure.sampling import Mode, Run


class AnswerOutOfReach(Exception):
    """An answer is right although it was overwritten, so a launch that does nothing would pass."""


def wrong_after_timing(
    device: Device, checked: Sequence[tuple[Algorithm, Oracle]], runs: Mapping[Mode, Run]
) -> str | None:
    """Launch once more in each way that was timed; return what is wrong with an answer, or None.

    checked: the algorithms that take turns, each with the oracle of its input. runs: what timed
    them, by mode.
    Raises AnswerOutOfReach where an answer passes its check without a launch.
    """

    def poison() -> None:
        for algorithm, oracle in checked:
            oracle.poison(algorithm)

    for mode in _ways(runs):
        poison()
        launch: Callable[[], None] = partial(runs[mode].once_more, poison)
        if mode == "graph" and ends_where_it_began(checked[0][0]):
            # The graph that was timed holds for the oldest state, where it shows nothing.
            launch = _recorded(device, [algorithm.launch for algorithm, _ in checked])
        for algorithm, oracle in checked:
            if oracle.tells_idle and oracle.check(algorithm) is None:
                raise AnswerOutOfReach(
                    "its answer was overwritten and is right without a launch: use a larger input,"
                    " or define poison(), see contracts.Algorithm"
                )
        launch()
        for algorithm, oracle in checked:
            if wrong := oracle.check(algorithm):
                return f"after timing: {wrong}"
    return None


def _ways(runs: Mapping[Mode, Run]) -> list[Mode]:
    """Return the modes whose launches differ: a replayed graph first, then a plain launch.

    Checks move some states by one update or step, after which the graph would not be right.
    """
    plain = [mode for mode in runs if mode != "graph"]
    return [mode for mode in runs if mode == "graph"] + plain[:1]


def _recorded(device: Device, works: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Record a graph of each of the works; return what replays all."""
    graphs = [device.capture(work) for work in works]

    def replay() -> None:
        for graph in graphs:
            graph.launch()

    return replay
