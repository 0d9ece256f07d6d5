"""Trials that try to break what the documents promise; `make attack` runs them."""

from __future__ import annotations

from attack import (
    checkpoints,
    commands,
    disk,
    kill_ranks,
    kill_run,
    kill_simulate,
    odd_inputs,
    results,
    two_writers,
)  # fmt: skip
from attack.trial import Trial

_TRIALS: tuple[Trial, ...] = (
    kill_run, kill_simulate, kill_ranks, two_writers, disk, results, checkpoints, commands,
    odd_inputs,
)  # fmt: skip
TRIALS = {trial.NAME: trial for trial in _TRIALS}
