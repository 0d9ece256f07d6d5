"""Resolve the GPU for `gpubench choose`: given by name or this machine's, measured or not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from gpubench.base import gpus
from gpubench.base.errors import UserError
from gpubench.base.numbers import listing
from gpubench.choose import evidence, output, sorts
from gpubench.choose.chooser import Answer, chooser_for
from gpubench.choose.question import Question, SortQuestion
from gpubench.cli import values
from gpubench.evidence import results
from gpubench.evidence.files import load_results


class OtherGpus(NamedTuple):
    """A GPU that was not measured, the command to measure it, and answers for measured GPUs."""

    name: str
    command: str
    answers: Sequence[Answer]


def answer(
    question: Question | SortQuestion, given: Sequence[Path], device: str | None
) -> tuple[Answer, OtherGpus | None]:
    """Answer for a device; if it was not measured, add the answers for all measured GPUs.

    given: results files and folders. device: see `resolve`; by default this machine's GPU.
    """

    def ask(known: str | None) -> Answer:
        if isinstance(question, SortQuestion):
            return sorts.choose(question, given, known)
        chooser = chooser_for(question.its_task, question.called_from, given, known)
        return chooser.choose(question)

    study = sorts.STUDY if isinstance(question, SortQuestion) else evidence.STUDY
    unmeasured, known = resolve(device, given, study)
    found, here = ask(known), gpus.gpu_names()
    is_default = device in (None, "cuda") and not given and found.machine.backend == "cuda"
    if is_default and here and found.machine.device not in here:
        unmeasured = here[0]
    if unmeasured is None:
        return found, None
    names = evidence.measured_gpus(_results(given, study))
    answers = [found if name == found.machine.device else ask(name) for name in names]
    return found, OtherGpus(unmeasured, found.command or _command(question, study), answers)


def resolve(device: str | None, given: Sequence[Path], study: str) -> tuple[str | None, str | None]:
    """Return the GPU's name if it was not measured, else None; and the device to read results of.

    device: a backend, or words from a GPU's name. Raises UserError if several GPUs match.
    """
    backends = values.among("backends")
    if device is None or device in backends:
        return None, device
    words = {*device.lower().split()}
    if not words or device.split(":")[0] in (*backends, "auto"):
        raise UserError(f"--device takes {', '.join(backends)} or a GPU's name, not {device!r}")
    names = evidence.measured_gpus(_results(given, study))
    alike = [name for name in names if words <= {*name.lower().split()}]
    exact = [name for name in alike if len(words) == len({*name.split()})]
    if len(exact or alike) > 1:
        raise UserError(f"--device {device} may be {' or '.join(alike)}: give more of its name")
    return (None, (exact or alike)[0]) if alike else (device, "cuda")


def _results(given: Sequence[Path], study: str) -> Sequence[results.Results]:
    if given:
        return load_results(given)
    return list(map(results.load, chain(*evidence.default_files(study))))


def _command(question: Question | SortQuestion, study: str) -> str:
    """Return a command that measures what this question needs, with as few sweeps as possible."""
    if isinstance(question, SortQuestion) or question.moved is not None:
        return f"gpubench run {study}"
    setting = question.distribution, question.order, question.radii
    is_on_map = setting == (Question.distribution, Question.order, Question.radii)
    return f"gpubench run {study}" + (f" --sweeps {evidence.MAP}" if is_on_map else "")


def sentence(found: OtherGpus) -> str:
    """Return a sentence: whether the measured GPUs agree, and how to measure the missing GPU."""
    told = [(a.best.subject.label, a.machine.device) for a in found.answers if a.best]
    how = f"{found.name} was not measured: `{found.command}` there measures it"
    match [*dict.fromkeys(label for label, _ in told)]:
        case []:
            return f"inconclusive: nothing was measured nearby on any GPU; {how}"
        case [label]:
            devices = listing(device for _, device in told)
            return f"use {label}, the choice on every GPU measured there: {devices}; {how}"
    each = listing(f"{label} on {device}" for label, device in told)
    return f"inconclusive: the choice differs between GPUs, {each}; {how}"


def as_json(found: OtherGpus) -> dict[str, Any]:
    """Return the JSON fields that replace those of an answer when the GPU was not measured."""
    keys = ("machine", "verdict", "sentence", "best", "risk", "tied")
    documents = [output.as_json(each) for each in found.answers]
    answers = [{key: each[key] for key in keys} for each in documents]
    has_any = any(each.best for each in found.answers)
    return {
        "verdict": "cannot tell" if has_any else "declined",
        "sentence": sentence(found),
        "command": found.command,
        "unmeasured": {"name": found.name, "answers": answers},
    }
