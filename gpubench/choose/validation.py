"""Cross-validation: hold out each input, and compare the advice with the times measured there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpubench.choose.evidence import InputPoint
from gpubench.choose.model import TimeModel
from gpubench.evidence.ranking import Variant


class Loss(NamedTuple):
    """Time lost over held-out inputs, as fractions of the fastest measured time."""

    mean: float
    p90: float
    worst: float


class HeldOut(NamedTuple):
    """A held-out input. loss: None if the choice has no time there."""

    place: InputPoint
    chosen: Variant
    loss: float | None


class Validation(NamedTuple):
    """The cross-validation of the advice on one task.

    held_out: inputs with advice. beyond: number of inputs at the edge, without advice. favourite:
    the best single choice: the subject with the least mean loss among those right on the largest
    number of held-out inputs. favourite_loss: its loss. gain: mean fraction of the favourite's time
    that the choice saves, over inputs where the two differ. failures, others: numbers of held-out
    inputs on which the choice has no time, and on which it is not the favourite.
    """

    task: str
    called_from: str
    held_out: Sequence[HeldOut]
    beyond: int
    favourite: Variant | None
    favourite_loss: Loss | None
    gain: float | None
    loss: Loss | None
    failures: int
    others: int


def validate(task: str, called_from: str, model: TimeModel) -> Validation:
    """Hold out each input of a task in turn, with all its measurements."""
    held_out: list[HeldOut] = []
    beyond = 0
    costs: dict[Variant, list[float]] = {}
    for place, guesses in zip(model.places, model.held_out.T, strict=True):
        right = {s: of[place].ms for s, of in model.right.items() if place in of}
        if not right:
            continue
        if np.isnan(guesses).all():
            beyond += 1
            continue
        chosen, best = model.subjects[np.nanargmin(guesses)], min(right.values())
        loss = right[chosen] / best - 1 if chosen in right else None
        held_out.append(HeldOut(place, chosen, loss))
        for subject, ms in right.items():
            costs.setdefault(subject, []).append(ms / best - 1)
    most = max(map(len, costs.values()), default=0)
    reliable = {s: costs[s] for s in model.subjects if len(costs.get(s, ())) == most > 0}
    favourite = min(reliable, key=lambda subject: float(np.mean(reliable[subject])), default=None)
    always = {} if favourite is None else model.right[favourite]
    others = [h for h in held_out if h.chosen != favourite]
    both = [h for h in others if h.loss is not None and h.place in always]
    saved = [1 - model.right[h.chosen][h.place].ms / always[h.place].ms for h in both]
    losses = [each.loss for each in held_out if each.loss is not None]
    return Validation(
        task, called_from, held_out, beyond, favourite,
        favourite_loss=None if favourite is None else _loss(reliable[favourite]),
        gain=float(np.mean(saved)) if saved else None,
        loss=_loss(losses), failures=len(held_out) - len(losses), others=len(others),
    )  # fmt: skip


def _loss(values: Sequence[float]) -> Loss | None:
    if not values:
        return None
    return Loss(float(np.mean(values)), float(np.quantile(values, 0.9)), max(values))
