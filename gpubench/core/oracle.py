"""Oracles: reference answers that decide whether an algorithm's answer is correct."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from gpubench.core.algorithm import Algorithm
from gpubench.core.recipe import Inputs

T = TypeVar("T")


class Oracle(ABC):
    """The correct answers for one input.

    tells_idle: whether a poisoned answer stays wrong until the next launch.
    """

    tells_idle: bool = True

    @abstractmethod
    def check(self, algorithm: Any) -> str | None:
        """Check the answer of the last launch; return None, or a description of the first error."""

    @staticmethod
    def answer_of(algorithm: Any, kind: type[T]) -> T:
        """Return the answer of the last launch; raises TypeError if it is not a `kind`."""
        answer = algorithm.answer
        if not isinstance(answer, kind):
            found, expected = type(answer).__name__, kind.__name__
            raise TypeError(f"{algorithm.name} answers with {found}, not {expected}")
        return answer

    def poison(self, algorithm: Any) -> None:
        """Overwrite the answer, so that only another launch can make it correct."""
        algorithm.poison()


def first_launch(
    algorithm: Algorithm,
    inputs: Inputs,
    oracle: Oracle,
    do: Callable[[Callable[[], None]], None] | None = None,
) -> str | None:
    """Load an input, launch once, and check; return None, or a description of the first error.

    If loading already produces an answer, it is checked before the launch, which starts from it and
    might never end on a broken linked list. do: called twice, to run the load, then the launch.
    """
    do = do or (lambda work: work())
    do(partial(algorithm.load, inputs))
    if algorithm.answers_once_loaded and (problem := oracle.check(algorithm)):
        return problem
    do(algorithm.launch)
    return oracle.check(algorithm)
