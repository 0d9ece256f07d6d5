"""Recommend a sort of keys, by interpolating times between measured sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpubench.base.roles import study_for
from gpubench.choose.chooser import Answer
from gpubench.choose.evidence import Known, compared, files, machine, repeats
from gpubench.choose.model import Margin, TimeEstimate
from gpubench.choose.question import NO_GRAPHS, SortQuestion
from gpubench.evidence.pooling import pool
from gpubench.evidence.ranking import Variant

STUDY = study_for("choose-sort")
PLAIN = {"key_order": "uniform", "key_entropy": 1, "key_bits": None, "segment_keys": None}


def choose(question: SortQuestion, given: Sequence[Path], device: str | None) -> Answer:
    """Answer a question from results files and folders, by default local ones, else shipped ones.

    Log times and the log widths of their intervals are interpolated linearly in log size.
    Raises UserError if there are no results, or results of several machines.
    """
    where, found = machine(files(given, device, STUDY))
    beside = () if given else repeats(where.device)
    plain = {**PLAIN, "value_bytes": question.value_bytes, "key_type": question.key_type}
    every = ((m, {axis: m.record.at(axis) for axis in plain}) for m in pool(found, beside))
    times, way = compared([m for m, at in every if at == plain], question.called_from)
    by_subject: dict[Variant, dict[int, Known]] = {}
    for measured, time in times:
        known, size = Known.of(measured, time, way), measured.record.at("key_count") or 0
        if known.why is None:
            by_subject.setdefault(Variant.of(measured.record), {})[size] = known
    able = (_between(subject, of, question.keys) for subject, of in by_subject.items())
    ranked = sorted((each for each in able if each), key=lambda each: each.ms)
    paths, notes = [each.path for each in found], [NO_GRAPHS] * (way != question.called_from)
    if not ranked:
        reason = f"no two sizes about {question.words} were measured"
        return Answer(question, where, paths, reason=reason, warnings=notes)
    best, *others = ranked
    margins = [Margin.of(best, o, math.hypot(best.measured, o.measured)) for o in others]
    return Answer(question, where, paths, best=best, margins=margins, changes=None, warnings=notes)


def _between(subject: Variant, times: Mapping[int, Known], keys: int) -> TimeEstimate | None:
    """Interpolate the time at a size; None outside the measured sizes."""
    below = max((size for size in times if size <= keys), default=None)
    above = min((size for size in times if size >= keys), default=None)
    if below is None or above is None:
        return None
    share = 0.0 if below == above else math.log(keys / below) / math.log(above / below)
    around = [(times[below], 1 - share), (times[above], share)]
    ms = math.exp(sum(share * math.log(known.ms) for known, share in around))
    return TimeEstimate.between(subject, ms, 0.0, around)
