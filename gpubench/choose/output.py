"""Format answers in words and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from gpubench.base.numbers import digits, percent, size
from gpubench.choose.chooser import Answer, Change, Chooser, Near
from gpubench.choose.evidence import AXES
from gpubench.choose.model import Margin, TimeEstimate
from gpubench.choose.validation import Validation
from gpubench.evidence.ranking import Variant

_SAME = 0.01  # octaves within which two inputs count as the same
_LITTLE = 0.001  # smaller expected losses are reported as below this
_LAUNCHED = "compared as launched from Python"


def sentence(answer: Answer) -> str:
    """Return the decision and its risk in one sentence."""
    how = f"; to measure it: `{answer.command}`" if answer.command else ""
    if answer.best is None:
        limits = ", which skips what is above the study's limits" if how else ""
        return f"inconclusive: {answer.reason}{how}{limits}"
    reason = f"; {answer.reason}" if answer.reason else ""
    return f"use {answer.best.subject.label}: {_promise(answer, answer.best)}{reason}{how}"


def _promise(answer: Answer, best: TimeEstimate) -> str:
    """Describe the time, memory and risk of the best."""
    # Peak memory if a library reports it, else the workspace.
    memory = best.workspace_bytes if best.peak_bytes is None else best.peak_bytes
    needs = "" if memory is None else f", {size(memory)}"
    text = f"{_LAUNCHED if best.as_launched else f'about {_ms(best.ms)}'}{needs}"
    if (risk := answer.risk) is None:
        return f"{text}; inconclusive: only {best.subject.label} was measured around there"
    if math.isinf(risk.worst):
        return f"{text}; nothing bounds what it loses against the best"
    mean = percent(risk.expected) if risk.expected >= _LITTLE else f"below {percent(_LITTLE)}"
    worst = f"at worst {percent(risk.worst)}" if risk.worst else "none within the intervals"
    return f"{text}; expected loss against the best {mean}, {worst}"


def evidence_lines(answer: Answer) -> list[str]:
    """Return the lines below the sentence: the candidates, then the evidence for the answer."""
    lines = []
    if answer.best is not None:
        lines += [f"for {answer.question.words}, on {answer.machine.device}"]
        lines += [_candidate(each.other, each, "may be as fast") for each in answer.tied]
        lines += [_candidate(answer.best, None, "fastest" if answer.margins else "only")]
        lines += [_candidate(m.other, m, "then") for m in answer.margins[:2] if m.is_known]
    lines += [_near(near) for near in answer.nearest]
    lines += [_change(change) for change in answer.changes or ()]
    if answer.best is not None and answer.won >= len(answer.nearest) > 1:
        where = f"at every measured input nearby (the {answer.won} nearest)"
        lines.append(f"{answer.best.subject.label} won {where}")
    lines += [f"not considered: {each.subject.label}: {each.reason}" for each in answer.barred]
    lines += [f"note: {warning}" for warning in answer.warnings]
    if answer.validation is not None:
        lines.append(validated(answer.validation))
    return lines


def as_json(answer: Answer) -> dict[str, Any]:
    """Convert an answer to the format of answer.schema.json."""
    first = [] if answer.best is None else [_candidate_as_json(answer.best, None)]
    alike = ("machine", "verdict", "reason", "command", "risk", "won", "barred", "warnings")
    return {
        "schema": 1,
        "question": _plain(answer.question) | {"task": answer.question.its_task},
        "files": [str(path) for path in answer.files],
        "sentence": sentence(answer),
        "best": _plain(answer.best and answer.best.subject),
        "runner_up": _plain(answer.margins[0].other.subject if answer.margins else None),
        "tied": _plain([margin.other.subject for margin in answer.tied]),
        "unmeasured": None,
        "candidates": [*first, *(_candidate_as_json(each.other, each) for each in answer.margins)],
        "nearest": [_near_as_json(near) for near in answer.nearest],
        "changes": _plain(answer.changes or []),
        "validation": _plain(answer.validation),
        **{name: _plain(getattr(answer, name)) for name in alike},
    }


def _plain(value: Any) -> Any:
    """Convert a value to JSON: named tuples to objects, infinity to null."""
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
    if estimate.as_launched:  # the interpolated time was not measured directly
        found |= dict.fromkeys(("ms", "low_ms", "high_ms"))
    ratio, low, high = (margin.ratio, margin.low, margin.high) if margin else (1.0, None, None)
    return found | {"ratio": ratio, "ratio_low": low, "ratio_high": _plain(high)}


def _near_as_json(near: Near) -> dict[str, Any]:
    known = ("low_ms", "high_ms", "library", "file", "commit")
    told = {name: getattr(near.known, name) for name in known} | {"ms": near.known.median_ms}
    place = {axis: getattr(near.place, axis) for axis in AXES}
    return place | {"octaves": near.octaves, "subject": _plain(near.subject)} | told


def validations_as_json(validations: Sequence[Validation], chooser: Chooser) -> dict[str, Any]:
    """Convert cross-validations to the format of answer.schema.json."""
    return {
        "schema": 1, "machine": _plain(chooser.machine), "files": list(map(str, chooser.files)),
        "validations": _plain(validations),
    }  # fmt: skip


def _candidate(estimate: TimeEstimate, margin: Margin | None, place: str) -> str:
    time = f"{_ms(estimate.ms)} ({digits(estimate.low_ms)} to {digits(estimate.high_ms)})"
    text = f"{place}: {estimate.subject.label}: {_LAUNCHED if estimate.as_launched else time}"
    if margin:
        ratio, low, high = map(digits, margin[1:4])
        text += f", {ratio} times as long, {low} to {high}"
    workspace = estimate.workspace_bytes
    text += f"; workspace {'not counted' if workspace is None else size(workspace)}"
    if estimate.peak_bytes not in (None, workspace):
        text += f", at its peak {size(estimate.peak_bytes or 0)}"
    return text


def _near(near: Near) -> str:
    known = near.known
    away = f"{near.octaves:.2g} octaves away" if near.octaves > _SAME else "as asked"
    source = f"{known.file} of {known.commit[:7]}" if known.commit else known.file
    time = f"{_ms(known.median_ms)}{' as launched from Python' * known.is_launched}"
    return f"measured: {near.subject.label}: {time} at {near.place.words} ({away}), {source}"


def _change(change: Change) -> str:
    if change.below is None:
        doubt = "" if change.is_known else ", but within the uncertainty"
        return f"with {change.axis} {change.value}: {change.winner.label}{doubt}"
    value = float(change.value)
    if change.axis == "moved":
        where = f"where {'less' if change.below else 'more'} than about {percent(value)} move"
    else:
        many = {
            "particles": f"{float(f'{value:.2g}'):,.0f} particles",
            "per_cell": f"{value:.2g} per cell",
        }.get(change.axis, f"{change.axis} {value:.2g}")
        where = f"{'below' if change.below else 'above'} about {many}"
    return f"{where}: {change.winner.label}"


def validated(found: Validation) -> str:
    """Summarise the cross-validation of a task in one sentence."""
    count, favourite = len(found.held_out), found.favourite
    if found.loss is None:
        return f"cross-validation of {found.task}: too few inputs to hold any out"
    text = (
        f"cross-validation of {found.task}, called from {found.called_from}: {count} of"
        f" {count + found.beyond} inputs, left out one by one; the choice took"
        f" {percent(found.loss.mean)} longer than the best on average, {percent(found.loss.worst)}"
        " at worst"
    )
    text += f", and {found.failures} times has no time there" if found.failures else ""
    if favourite and found.favourite_loss:
        text += (
            f"; {count - found.others} times it was {favourite.label}, which is also the best"
            f" single choice ({percent(found.favourite_loss.mean)} longer than the best)"
        )
    if found.gain is not None:
        more = "less" if found.gain >= 0 else "more"
        text += f"; on the other {found.others} it took {percent(abs(found.gain))} {more} time"
    return text


def _ms(value: float) -> str:
    return f"{digits(value)} ms"
