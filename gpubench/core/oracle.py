"""What says whether an answer is right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from gpubench.core.algorithm import Algorithm
from gpubench.core.recipe import Inputs

T = TypeVar("T")


class Oracle(ABC):
    """The right answers for one input.

    tells_idle: whether an answer that was poisoned is wrong until there is another launch.
    """

    tells_idle: bool = True

    @abstractmethod
    def check(self, algorithm: Any) -> str | None:
        """Download the answer of the last launch; return None, or a sentence on what is wrong."""

    @staticmethod
    def answer_of(algorithm: Any, kind: type[T]) -> T:
        """Return the answer of the last launch; raises TypeError where it is of another kind."""
        answer = algorithm.answer
        if not isinstance(answer, kind):
            found, expected = type(answer).__name__, kind.__name__
            raise TypeError(f"{algorithm.name} answers with {found}, not {expected}")
        return answer

    def poison(self, algorithm: Any) -> None:
        """Overwrite the answer, so that only the next launch can make it right."""
        algorithm.poison()


def first_launch(
    algorithm: Algorithm,
    inputs: Inputs,
    oracle: Oracle,
    do: Callable[[Callable[[], None]], None] | None = None,
) -> str | None:
    """Load an input, launch once, and check; return None, or a sentence on what is wrong.

    Where an input comes with an answer, that is checked first: a launch would work on it, and a
    broken list may have no end.
    do: what is to load and to launch, for more on either.
    """
    do = do or (lambda work: work())
    do(partial(algorithm.load, inputs))
    if algorithm.answers_once_loaded and (problem := oracle.check(algorithm)):
        return problem
    do(algorithm.launch)
    return oracle.check(algorithm)
