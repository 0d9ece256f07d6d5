"""What a trial is, and how an attempt of it ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol


@dataclass(frozen=True)
class Outcome:
    """Whether the promise held in one attempt, and in one line what was tried or what broke."""

    held: bool
    detail: str


class Broken(Exception):
    """The promise did not hold: the message says in one line what happened."""


class Untried(Exception):
    """The trial cannot run on this machine: the message says what is missing."""


class Trial(Protocol):
    """A module of this package: its NAME, and in one sentence the PROMISE that it attacks."""

    NAME: str
    PROMISE: str

    def attempt(self, rng: Random, folder: Path) -> Outcome:
        """Try to break the promise once; all chance comes from `rng`.

        folder: empty, of this attempt alone. Beside it stays what is made once for the trial.
        Raises Broken where the promise does not hold; may also return such an outcome.
        """
        ...


def require(held: bool, otherwise: str) -> None:
    """Raise Broken where the promise does not hold."""
    if not held:
        raise Broken(" ".join(otherwise.split()))
