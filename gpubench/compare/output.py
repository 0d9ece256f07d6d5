"""A comparison in words: for the terminal, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

from gpubench.base.markdown import escaped
from gpubench.base.markdown import table as table_of
from gpubench.base.numbers import percent
from gpubench.compare.files import FaultKind
from gpubench.compare.procedure import Comparison
from gpubench.compare.verdict import Judgement, risk

COLUMNS = ("cell", "base ms", "head ms", "head / base", "interval", "verdict")
ROWS = 40  # maximum in a Markdown table: comments are limited to about 65,000 characters
DASH = "\N{EN DASH}"


def in_words(verdict: str) -> str:
    """Return a verdict as displayed; JSON and the code keep the older name `cannot tell`."""
    return "inconclusive" if verdict == "cannot tell" else verdict


def headline(comparison: Comparison) -> str:
    """Return a one-line verdict on the whole comparison, starting with the verdict itself.

    It says why cells are inconclusive, and where calibration replaced measured spreads.
    """
    said, every = _verdict(comparison), comparison.judgements
    reasons = {each.reason for each in every if each.verdict == "cannot tell"}
    if comparison.verdict == "cannot tell" and len(reasons) == 1:
        said += f"; {reasons.pop()}"
    if resting := sum(each.rests_on == "calibration" for each in every):
        said += f"; in {_of(resting, len(every))} the interval rests on this machine's calibration"
    return said


def _verdict(comparison: Comparison) -> str:
    total = len(comparison.judgements)
    counts = comparison.counts
    match comparison.verdict:
        case "broken":
            return f"broken: right in base and not in head: {_names(comparison, 'broken')}"
        case "wrong":
            return f"wrong: in head, and not right in base either: {_names(comparison, 'wrong')}"
        case "slower":
            worst = _ordered(comparison)[0]
            by = percent((worst.ratio or 1.0) - 1)
            return f"slower: {_of(counts['slower'], total)}, at worst {by}: {worst.name}"
        case "cannot tell":
            return f"inconclusive: {_of(counts['cannot tell'], total)}; none is known to be slower"
        case "faster":
            return f"faster: {_of(counts['faster'], total)}; none is slower"
    if not total:
        return "same: nothing to judge but answers, and none broke"
    return f"same: {_of(total, total)}, to within {percent(comparison.threshold)}"


def table(comparison: Comparison, every: bool = False) -> list[tuple[str, ...]]:
    """Return a row for each cell that is not judged `same`, or for all if `every`; see COLUMNS."""
    return [_row(each) for each in _ordered(comparison) if every or each.verdict != "same"]


def notes(comparison: Comparison) -> list[str]:
    """Return notes to display beside the table, a line each."""
    return [
        *(f"forced: {difference}" for difference in comparison.matched.differences),
        *(f"broken: {fault.name}: head {fault.head}" for fault in comparison.faults("broken")),
        *(f"wrong: {f.name}: base {f.base}; head {f.head}" for f in comparison.faults("wrong")),
        *(f"right again: {fault.name}: base {fault.base}" for fault in comparison.faults("mended")),
        *(f"left out: {each.name}: {each.why}" for each in comparison.matched.left_out),
        _counts(comparison),
        _terms(comparison),
    ]


def markdown(comparison: Comparison, command: str) -> str:
    """Return a comment for a pull request; its first line is the verdict.

    command: the command that repeats the comparison.
    """
    first, _, rest = headline(comparison).partition(":")
    lines = [line for line in notes(comparison)[:-2] if not line.startswith("left out")]
    changed = table(comparison)
    same = [row for row in table(comparison, every=True) if row not in changed]
    left_out = comparison.matched.left_out
    sides = {"base": comparison.base, "head": comparison.head}
    environment = [*(sides | dict(comparison.matched.environment)).items()]
    parts = [
        f"**{first.capitalize()}**: {escaped(rest)}",
        "\n".join(f"- {escaped(line)}" for line in lines),
        _markdown_table(COLUMNS, changed),
        escaped(f"{_counts(comparison)}. {_terms(comparison)}."),
        _folded(f"{len(same)} the same", _markdown_table(COLUMNS, same)),
        _folded(f"{len(left_out)} left out", _markdown_table(("cell", "why"), left_out)),
        _folded("Environment", _markdown_table(("", ""), environment)),
        f"To repeat it:\n\n```sh\n{command}\n```",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_json(comparison: Comparison, command: str) -> dict[str, Any]:
    """Return the comparison in the format of comparison.schema.json."""
    cells = len(comparison.judgements)
    alpha = risk(cells, comparison.confidence, comparison.looks) if cells else None
    alike = ("verdict", "exit_code", "base", "head", "threshold", "confidence", "looks")
    return {
        "schema": 1,
        "headline": headline(comparison),
        "command": command,
        **{name: getattr(comparison, name) for name in alike},
        "cell_confidence": None if alpha is None else 1 - alpha,
        "environment": dict(comparison.matched.environment),
        "forced": list(comparison.matched.differences),
        "counts": dict(comparison.counts),
        "cells": [dataclasses.asdict(judgement) for judgement in comparison.judgements],
        **{of: [each._asdict() for each in comparison.faults(of)] for of in get_args(FaultKind)},
        "left_out": [each._asdict() for each in comparison.matched.left_out],
    }


def _ordered(comparison: Comparison) -> list[Judgement]:
    """Return cells, worst first: slower (by ratio), inconclusive, faster, the same."""
    order, sign = list(comparison.counts), {"slower": -1, "faster": 1}

    def place(each: Judgement) -> tuple[int, float]:
        return order.index(each.verdict), sign.get(each.verdict, 0) * (each.ratio or 1.0)

    return sorted(comparison.judgements, key=place)


def _row(judgement: Judgement) -> tuple[str, ...]:
    interval = DASH
    if judgement.ratio_low is not None and judgement.ratio_high is not None:
        rests_on = " (calibrated)" if judgement.rests_on == "calibration" else ""
        interval = f"{judgement.ratio_low:.4g} to {judgement.ratio_high:.4g}{rests_on}"
    ratio = DASH if judgement.ratio is None else f"{judgement.ratio:.4g}"
    times = f"{judgement.base_ms:.4g}", f"{judgement.head_ms:.4g}"
    why = f": {judgement.reason}" if judgement.reason else ""
    return judgement.name, *times, ratio, interval, in_words(judgement.verdict) + why


def _of(count: int, total: int) -> str:
    return f"{count} of {total} cell{'s' if total > 1 else ''}"


def _names(comparison: Comparison, kind: FaultKind) -> str:
    faults = comparison.faults(kind)
    more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"{faults[0].name} ({faults[0].head}){more}"


def _counts(comparison: Comparison) -> str:
    return ", ".join(f"{count} {in_words(name)}" for name, count in comparison.counts.items())


def _terms(comparison: Comparison) -> str:
    looks = f" at {comparison.looks} looks" if comparison.looks > 1 else ""
    return (
        f"A change counts from {percent(comparison.threshold)} on; all intervals hold together"
        f"{looks} with {100 * comparison.confidence:g} % confidence"
    )


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of the first rows; an empty string without rows."""
    more = f"\n\nand {len(rows) - ROWS} more, which `--all` and `--json` show"
    return table_of(columns, rows[:ROWS]) + (more if len(rows) > ROWS else "") if rows else ""


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>" if body else ""
