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
    """A module of this package: one promise, and an attempt to break it.

    NAME: of the trial. PROMISE: what it attacks, in one sentence.
    """

    NAME: str
    PROMISE: str

    def attempt(self, rng: Random, folder: Path) -> Outcome:
        """Try to break the promise once; all chance comes from `rng`.

        folder: is empty, and of this attempt alone. `folder.parent` belongs to the trial: what is
        made once for all attempts stays there (`common.reference`).
        Raises Broken in place of returning an outcome that did not hold.
        """
        ...


def require(held: bool, otherwise: str) -> None:
    """Raise Broken where the promise did not hold."""
    if not held:
        raise Broken(" ".join(otherwise.split()))
