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
from gpubench.choose.validation import Validation
from gpubench.evidence.ranking import Variant

SCHEMA_FILE = Path(__file__).with_name("answer.schema.json")
_SAME = 0.01  # octaves
_LAUNCHED = "compared as launched from Python"


def sentence(answer: Answer) -> str:
    """Return the answer in one sentence."""
    question, best = answer.question, answer.best
    if best is None:
        text = f"inconclusive: {answer.reason}"
        how = f"`{answer.command}`, which skips what is above the study's limits"
        return f"{text}; to measure it: {how}" if answer.command else text
    where = f"{question.words} on {answer.machine.device}"
    # What it takes at most: a library's peak, else what was counted.
    memory = best.workspace_bytes if best.peak_bytes is None else best.peak_bytes
    needs = "" if memory is None else f", {size(memory)}"
    time = _LAUNCHED if best.as_launched else f"about {_ms(best.ms)}"
    text = f"use {best.subject.label}: {time}{needs} at {where}"
    if not answer.margins:
        text += f"; inconclusive: only {best.subject.label} was measured around there"
    elif (margin := answer.margins[0]).is_known:
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
        lines += [_candidate(answer.best, None, "fastest" if answer.margins else "only")]
        others = [*answer.margins[:2], *(m for m in answer.margins[2:] if not m.is_known)]
        lines += [_candidate(margin.other, margin, "then") for margin in others]
    lines += [_near(near) for near in answer.nearest]
    lines += [_change(change) for change in answer.changes or ()]
    if answer.best is not None and answer.changes == []:
        lines.append("nothing that was measured around there changes the answer")
    lines += [f"not considered: {each.subject.label}: {each.reason}" for each in answer.barred]
    lines += [f"note: {warning}" for warning in answer.warnings]
    if answer.validation is not None:
        lines.append(validated(answer.validation))
    return lines


def as_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as answer.schema.json has it."""
    first = [] if answer.best is None else [_candidate_as_json(answer.best, None)]
    return {
        "schema": 1,
        "question": _plain(answer.question) | {"task": answer.question.its_task},
        "machine": _plain(answer.machine),
        "files": [str(path) for path in answer.files],
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
        "changes": _plain(answer.changes or []),
        "warnings": list(answer.warnings),
        "validation": _plain(answer.validation),
    }


def _plain(value: Any) -> Any:
    """Return what JSON can hold: objects for tuples with names, null for what nothing bounds."""
    match value:
        case Variant():
            return value._asdict() | {"parameters": dict(value.parameters)}
        case Validation():
            return _plain(value._asdict() | {"held_out": len(value.held_out)})
        case tuple() if hasattr(value, "_asdict"):
            return _plain(value._asdict())
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case float() if not math.isfinite(value):
            return None
    return _plain(vars(value)) if dataclasses.is_dataclass(value) else value


def _candidate_as_json(estimate: TimeEstimate, margin: Margin | None) -> dict[str, Any]:
    found: dict[str, Any] = _plain(estimate)
    del found["measured"]
    if estimate.as_launched:  # what was interpolated is no time of its own
        found |= dict.fromkeys(("ms", "low_ms", "high_ms"))
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
        "validations": _plain(validations),
    }


def _candidate(estimate: TimeEstimate, margin: Margin | None, place: str) -> str:
    time = f"{_ms(estimate.ms)} ({digits(estimate.low_ms)} to {digits(estimate.high_ms)})"
    text = f"{place}: {estimate.subject.label}: {_LAUNCHED if estimate.as_launched else time}"
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
    launched = " as launched from Python" if known.is_launched else ""
    return (
        f"measured: {near.subject.label}: {_ms(known.median_ms)}{launched} at {near.place.words}"
        f" ({away}), {known.file}{commit}"
    )


def _change(change: Change) -> str:
    if change.below is None:
        doubt = "" if change.is_known else ", but within the uncertainty"
        return f"with {change.axis} {change.value}: {change.winner.label}{doubt}"
    value = float(change.value)
    if change.axis == "moved":
        where = f"where {'less' if change.below else 'more'} than about {percent(value)} move"
    else:
        is_count = change.axis == "particles"
        many = f"{float(f'{value:.2g}'):,.0f} particles" if is_count else f"{value:.2g} per cell"
        where = f"{'below' if change.below else 'above'} about {many}"
    return f"{where}: {change.winner.label}"


def validated(found: Validation) -> str:
    """Return what advice on a task was worth, in one sentence."""
    task, favourite, count = found.task, found.favourite, len(found.held_out)
    if found.loss is None:
        return f"cross-validation of {task}: too few inputs to hold any out"
    text = (
        f"cross-validation of {task}, called from {found.called_from}: {count} of"
        f" {count + found.beyond} inputs, left out one by one; the choice took"
        f" {percent(found.loss.mean)} longer than the best on average, {percent(found.loss.worst)}"
        " at worst"
    )
    if found.failures:
        text += f", and {found.failures} times has no time there"
    if favourite and found.favourite_loss:
        text += (
            f"; {count - found.others} times it was {favourite.label}, which is also the best"
            f" single choice ({percent(found.favourite_loss.mean)} longer than the best)"
        )
    if found.gain is not None:
        more = "less" if found.gain >= 0 else "more"
        text += f"; on the other {found.others} it took {percent(abs(found.gain))} {more} time"
    return text


def _longer(margin: Margin) -> str:
    ratio, low, high = digits(margin.ratio), digits(margin.low), digits(margin.high)
    return f"{ratio} times as long, {low} to {high}"


def _ms(value: float) -> str:
    return f"{digits(value)} ms"
