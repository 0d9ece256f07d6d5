"""The ladders of the study `lessons`: their steps, and that nothing else measures them."""

from __future__ import annotations

from gpubench import registry
from gpubench.algorithms.lessons import CountingSortLesson, NeighbourCountLesson
from gpubench.studies.study import load_study

LESSONS = {"sort": CountingSortLesson, "count": NeighbourCountLesson}


def test_a_sweep_climbs_all_steps_in_order():
    sweeps = {sweep.name: sweep for sweep in load_study("lessons").sweeps}
    assert sweeps.keys() == LESSONS.keys()
    for name, cls in LESSONS.items():
        steps = [(each.algorithm, each.form) for each in sweeps[name].subjects]
        assert steps == [(cls.name, form) for form in cls.forms]


def test_no_other_study_measures_a_step():
    names = {cls.name for cls in LESSONS.values()}
    for study in set(registry.studies()) - {"lessons"}:
        sweeps = load_study(study).sweeps
        assert not names & {each.algorithm for sweep in sweeps for each in sweep.subjects}, study
