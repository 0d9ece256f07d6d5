"""Answers in words, and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpubench.base.numbers import digits, listing, percent, size
from gpubench.choose.chooser import Answer, Change, Chooser, Near
from gpubench.choose.model import Margin, TimeEstimate
from gpubench.choose.validation import Loss, Validation
from gpubench.evidence.ranking import Variant

SCHEMA_FILE = Path(__file__).with_name("answer.schema.json")
EXIT_CODES = {"chosen": 0, "cannot tell": 3, "declined": 3}
_SAME = 0.01  # octaves
VALIDATION_COLUMNS = (
    "task", "held out", "mean loss", "90 % below", "worst", "failures",
    "single choice", "mean loss", "90 % below", "worst",
)  # fmt: skip


def sentence(answer: Answer) -> str:
    """Return the answer in one sentence."""
    question, best = answer.question, answer.best
    if best is None:
        measure = (
            f"; to measure it: `{answer.command}`, which skips what is above the study's limits"
            if answer.command
            else ""
        )
        return f"inconclusive: {answer.reason}{measure}"
    moved = "" if question.moved is None else f", {percent(question.moved)} moved"
    where = (
        f"{question.particles:,} particles, {question.per_cell:g} per cell{moved}"
        f" on {answer.machine.device}"
    )
    # What it takes at most: a library's peak, else what was counted.
    memory = best.workspace_bytes if best.peak_bytes is None else best.peak_bytes
    needs = "" if memory is None else f", {size(memory)}"
    text = f"use {best.subject.label}: about {_ms(best.ms)}{needs} at {where}"
    if answer.margins and answer.margins[0].is_known:
        margin = answer.margins[0]
        text += f"; {margin.other.subject.label} takes {_longer(margin)}"
    if answer.tied:
        margin, *others = answer.tied
        first = f"{margin.other.subject.label} ({_longer(margin)})"
        tied = listing([first, *(each.other.subject.label for each in others)])
        text += f"; inconclusive: {tied} may be as fast"
    return text


def evidence_lines(answer: Answer) -> list[str]:
    """Return what the answer rests on, a line each."""
    lines = []
    if answer.best is not None:
        lines += [_candidate(answer.best, None)]
        others = [*answer.margins[:2], *(m for m in answer.margins[2:] if not m.is_known)]
        lines += [_candidate(margin.other, margin) for margin in others]
    lines += [_near(near) for near in answer.nearest]
    lines += [_change(change) for change in answer.changes]
    if answer.best is not None and not answer.changes:
        lines.append("nothing that was measured around there changes the answer")
    lines += [f"not considered: {each.subject.label}: {each.reason}" for each in answer.barred]
    lines += [f"note: {warning}" for warning in answer.warnings]
    if answer.validation is not None:
        lines.append(_validated(answer.validation))
    return lines


def validation_rows(validations: Sequence[Validation]) -> list[tuple[str, ...]]:
    """Return a row for each task; see VALIDATION_COLUMNS."""
    return [
        (
            each.task,
            f"{len(each.held_out)} of {len(each.held_out) + each.beyond}",
            *_shares(each.loss),
            str(each.failures),
            each.favourite.label if each.favourite else "",
            *_shares(each.favourite_loss),
        )
        for each in validations
    ]


def as_json(answer: Answer, chooser: Chooser) -> dict[str, Any]:
    """Return an answer as answer.schema.json has it."""
    first = [] if answer.best is None else [_candidate_as_json(answer.best, None)]
    return {
        "schema": 1,
        "question": _plain(answer.question) | {"task": answer.question.its_task},
        "machine": _plain(answer.machine),
        "files": [str(path) for path in chooser.files],
        "verdict": answer.verdict,
        "sentence": sentence(answer),
        "reason": answer.reason,
        "command": answer.command,
        "best": _plain(answer.best and answer.best.subject),
        "runner_up": _plain(answer.margins[0].other.subject if answer.margins else None),
        "tied": _plain([margin.other.subject for margin in answer.tied]),
        "candidates": [*first, *(_candidate_as_json(each.other, each) for each in answer.margins)],
        "barred": _plain(answer.barred),
        "nearest": [_near_as_json(near) for near in answer.nearest],
        "changes": _plain(answer.changes),
        "warnings": list(answer.warnings),
        "validation": _validation(answer.validation) if answer.validation else None,
    }


def _plain(value: Any) -> Any:
    """Return what JSON can hold: a subject as an object, null for what nothing bounds."""
    match value:
        case Variant():
            return value._asdict() | {"parameters": dict(value.parameters)}
        case list() | tuple():
            return [_plain(each) for each in value]
        case float() if not math.isfinite(value):
            return None
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name)) for name in names}
    return value


def _candidate_as_json(estimate: TimeEstimate, margin: Margin | None) -> dict[str, Any]:
    found: dict[str, Any] = _plain(estimate)
    del found["measured"]
    ratio, low, high = (margin.ratio, margin.low, margin.high) if margin else (1.0, None, None)
    return found | {"ratio": ratio, "ratio_low": low, "ratio_high": _plain(high)}


def _near_as_json(near: Near) -> dict[str, Any]:
    place, known = near.place, near.known
    return {
        "particles": place.particles, "per_cell": place.per_cell, "moved": place.moved,
        "octaves": near.octaves, "subject": _plain(near.subject),
        "ms": known.median_ms, "low_ms": known.low_ms, "high_ms": known.high_ms,
        "library": known.library, "file": known.file, "commit": known.commit,
    }  # fmt: skip


def validations_as_json(validations: Sequence[Validation], chooser: Chooser) -> dict[str, Any]:
    """Return what cross-validation found as answer.schema.json has it."""
    return {
        "schema": 1,
        "machine": _plain(chooser.machine),
        "files": [str(path) for path in chooser.files],
        "validations": [_validation(each) for each in validations],
    }


def _validation(found: Validation) -> dict[str, Any]:
    return {
        **_plain(found),
        "held_out": len(found.held_out),
        "loss": _plain(found.loss),
        "failures": found.failures,
    }


def _candidate(estimate: TimeEstimate, margin: Margin | None) -> str:
    text = (
        f"{'then' if margin else 'fastest'}: {estimate.subject.label}: {_ms(estimate.ms)}"
        f" ({digits(estimate.low_ms)} to {digits(estimate.high_ms)})"
    )
    if margin:
        text += f", {_longer(margin)}"
    workspace = estimate.workspace_bytes
    text += f"; workspace {'not counted' if workspace is None else size(workspace)}"
    if estimate.peak_bytes not in (None, workspace):
        text += f", at its peak {size(estimate.peak_bytes or 0)}"
    return text


def _near(near: Near) -> str:
    known = near.known
    away = f"{near.octaves:.2g} octaves away" if near.octaves > _SAME else "as asked"
    commit = f" of {known.commit[:7]}" if known.commit else ""
    return (
        f"measured: {near.subject.label}: {_ms(known.median_ms)} at {near.place.words}"
        f" ({away}), {known.file}{commit}"
    )


def _change(change: Change) -> str:
    if change.below is None:
        doubt = "" if change.is_known else ", but within the uncertainty"
        return f"with {change.axis} {change.value}: {change.winner.label}{doubt}"
    side = "below" if change.below else "above"
    value = float(change.value)
    match change.axis:
        case "particles":
            where = f"{side} about {float(f'{value:.2g}'):,.0f} particles"
        case "per_cell":
            where = f"{side} about {value:.2g} per cell"
        case _:
            where = f"where {'less' if change.below else 'more'} than about {percent(value)} move"
    return f"{where}: {change.winner.label}"


def _validated(found: Validation) -> str:
    if found.loss is None:
        return f"cross-validation of {found.task}: too few inputs to hold any out"
    text = (
        f"cross-validation of {found.task}: {len(found.held_out)} inputs, left out one by one; the"
        f" choice took {percent(found.loss.mean)} longer than the best on average,"
        f" {percent(found.loss.worst)} at worst"
    )
    if found.failures:
        text += f", and {found.failures} times has no time there"
    if found.favourite and found.favourite_loss:
        text += f"; always {found.favourite.label}: {percent(found.favourite_loss.mean)}"
    return text


def _shares(loss: Loss | None) -> tuple[str, str, str]:
    if loss is None:
        return "", "", ""
    return percent(loss.mean), percent(loss.p90), percent(loss.worst)


def _longer(margin: Margin) -> str:
    ratio, low, high = digits(margin.ratio), digits(margin.low), digits(margin.high)
    return f"{ratio} times as long, {low} to {high}"


def _ms(value: float) -> str:
    return f"{digits(value)} ms"
