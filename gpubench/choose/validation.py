"""How good the advice is: inputs are held out, and the choice made from the others is timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpubench.choose.evidence import Place, Subject
from gpubench.choose.model import Model


@dataclass(frozen=True)
class Loss:
    """Time lost against the best that was measured, as shares of it, over held-out inputs."""

    mean: float
    p90: float
    worst: float


@dataclass(frozen=True)
class HeldOut:
    """One input that was held out. loss: None where what was chosen has no time there."""

    place: Place
    chosen: Subject
    best: Subject
    loss: float | None


@dataclass(frozen=True)
class Validation:
    """What advice on one task was worth.

    task: None of all together. held_out: inputs on which there was advice. beyond: inputs at the
        edge of what was measured, on which the others give none. loss: of the advice, None without
        any to judge.
    failures: held-out inputs on which what was chosen has no time: it was wrong or failed there,
        or was not measured there.
    favourite: the one subject with the least mean loss among those that were right on most of the
        held-out inputs; favourite_loss: of taking it always, where it is right.
    """

    task: str | None
    held_out: Sequence[HeldOut]
    beyond: int
    loss: Loss | None
    failures: int
    favourite: Subject | None
    favourite_loss: Loss | None


def validate(task: str, model: Model) -> Validation:
    """Hold out each input of a task in turn, with all that was measured on it."""
    held_out: list[HeldOut] = []
    beyond = 0
    for place in model.places:
        right = {
            subject: model.right(subject)[place].median_ms
            for subject in model.subjects
            if place in model.right(subject)
        }
        if not right:
            continue
        guesses = {
            subject: ms
            for subject in model.subjects
            if (ms := model.held_out(subject, place)) is not None
        }
        if not guesses:
            beyond += 1
            continue
        chosen, best = min(guesses, key=guesses.__getitem__), min(right, key=right.__getitem__)
        loss = right[chosen] / right[best] - 1 if chosen in right else None
        held_out.append(HeldOut(place, chosen, best, loss))
    favourite, losses = _favourite(model, held_out)
    known = [each.loss for each in held_out if each.loss is not None]
    return Validation(
        task, held_out, beyond, _loss(known), len(held_out) - len(known), favourite, _loss(losses)
    )


def together(validations: Sequence[Validation]) -> Validation:
    """Return what advice on all tasks was worth, each held-out input counted once; no task."""
    held_out = [each for validation in validations for each in validation.held_out]
    known = [each.loss for each in held_out if each.loss is not None]
    beyond = sum(each.beyond for each in validations)
    return Validation(None, held_out, beyond, _loss(known), len(held_out) - len(known), None, None)


def _favourite(model: Model, held_out: Sequence[HeldOut]) -> tuple[Subject | None, Sequence[float]]:
    losses: dict[Subject, list[float]] = {}
    for each in held_out:
        best = model.right(each.best)[each.place].median_ms
        for subject in model.subjects:
            if each.place in model.right(subject):
                ms = model.right(subject)[each.place].median_ms
                losses.setdefault(subject, []).append(ms / best - 1)
    if not losses:
        return None, []
    most = max(map(len, losses.values()))
    # What is right on fewer inputs cannot be taken always.
    reliable = {subject: each for subject, each in losses.items() if len(each) == most}
    favourite = min(reliable, key=lambda subject: float(np.mean(reliable[subject])))
    return favourite, reliable[favourite]


def _loss(values: Sequence[float]) -> Loss | None:
    if not values:
        return None
    return Loss(float(np.mean(values)), float(np.quantile(values, 0.9)), max(values))
