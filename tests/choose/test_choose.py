from __future__ import annotations

import json
import math
import pickle
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from answer_schema import ANSWERS
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay
from searches import grid, record, results, write

from gpubench import registry
from gpubench.base import paths, user_cache
from gpubench.base.errors import UserError
from gpubench.choose import evidence, output
from gpubench.choose.chooser import Chooser, chooser_for
from gpubench.choose.evidence import InputPoint, Setting
from gpubench.choose.model import Margin, Risk, TimeEstimate, TimeModel
from gpubench.choose.question import Question
from gpubench.choose.surface import basis, corners, solution
from gpubench.evidence.pooling import pool
from gpubench.problems.neighbours.tasks import TASKS, task_of

SIZES = [2**k for k in range(12, 23, 2)]
OCCUPANCIES = [1, 2, 4, 8, 16]
# Equal at 2^17 particles, whatever is in a cell.
LAWS = {
    "quick-to-start": lambda n, p: 0.01 * (n / 2**12) ** 0.9 * p**0.2,
    "quick-in-the-end": lambda n, p: 0.01 * 2 ** (5 * 0.4) * (n / 2**12) ** 0.5 * p**0.2,
}
CROSSING = 2**17
# The same, but one is never the fastest.
THREE = LAWS | {"never": lambda n, p: 3 * LAWS["quick-to-start"](n, p)}


# Whose short times are not those of launches from Python.
NO_LAUNCHES = {"backend": "opencl", "name": "A device"}


def chooser(*records, **fields):
    return Chooser([results(*records, **fields)])


def names(subjects):
    return [subject.algorithm for subject in subjects]


def tied(answer):
    return names(margin.other.subject for margin in answer.tied)


@pytest.fixture
def choose(gpubench_command, monkeypatch, tmp_path):
    """Return a function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return partial(gpubench_command, "choose")


# The answer


@pytest.mark.parametrize(
    ("particles", "best"), [(30_000, "quick-to-start"), (1_000_000, "quick-in-the-end")]
)
def test_the_fastest_is_chosen_with_its_margin(particles, best):
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES)).choose(Question(particles, 3))
    assert (answer.verdict, answer.best.subject.algorithm) == ("chosen", best)
    truth = {name: law(particles, 3) for name, law in THREE.items()}
    assert answer.best.ms == pytest.approx(truth[best])
    assert [margin.other.subject.algorithm for margin in answer.margins] == sorted(
        set(truth) - {best}, key=truth.__getitem__
    )
    for margin in answer.margins:
        assert margin.ratio == pytest.approx(truth[margin.other.subject.algorithm] / truth[best])
        assert 1 < margin.low < margin.ratio < margin.high
    assert answer.best.workspace_bytes == pytest.approx(8 * particles, rel=1e-3)
    assert answer.best.peak_bytes is None


def test_where_two_cross_it_cannot_tell_between_them():
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES)).choose(Question(CROSSING + 1, 3))
    assert answer.verdict == "cannot tell"
    assert {answer.best.subject.algorithm, *tied(answer)} == set(LAWS)
    said = output.sentence(answer)
    assert said.startswith(f"use {answer.best.subject.label}: about ")
    assert "; expected loss against the best below 0.1 %, at worst 0." in said
    tie = output.evidence_lines(answer)[1]
    assert tie.startswith(f"may be as fast: {answer.margins[0].other.subject.label}: ")


def test_ratios_have_three_digits_also_where_these_are_zeros():
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES)).choose(Question(CROSSING + 1, 3))
    closest = answer.margins[0]._replace(ratio=1.0001, low=0.9994, high=1.0004)
    lines = output.evidence_lines(replace(answer, margins=[closest]))
    assert ", 1.00 times as long, 0.999 to 1.00; " in lines[1]
    far = closest._replace(ratio=14.04, low=13.96, high=math.inf)
    lines = output.evidence_lines(replace(answer, margins=[far]))
    assert ", 14.0 times as long, 14.0 to ?; " in lines[2]


def test_what_was_measured_nearest_has_its_distance():
    found = chooser(*moved_records())
    place = found.choose(Question(50_000, 4, moved=0.01)).nearest[0].place
    # So near that the share differs by a rounding only.
    question = Question(place.particles, place.per_cell, moved=place.moved * (1 + 1e-9))
    first, second, *_ = (
        line for line in output.evidence_lines(found.choose(question)) if line[:8] == "measured"
    )
    assert "(as asked)" in first
    assert re.search(r"\(\d[.\d]* octaves away\)", second)


def test_wide_intervals_of_measurements_make_a_margin_unknown():
    law = {"a": LAWS["quick-to-start"], "b": lambda n, p: 1.1 * LAWS["quick-to-start"](n, p)}
    question = Question(30_000, 3)
    narrow = chooser(*grid(law, SIZES, [2, 4]), device=NO_LAUNCHES)
    assert narrow.choose(question).verdict == "chosen"
    wide = chooser(*grid(law, SIZES, [2, 4], width=0.06), device=NO_LAUNCHES).choose(question)
    assert (wide.verdict, tied(wide)) == ("cannot tell", ["b"])


def test_errors_of_interpolation_widen_a_margin():
    smooth, rough = (
        chooser(*grid(THREE, SIZES, OCCUPANCIES, noise=noise), device=NO_LAUNCHES).choose(
            Question(30_000, 3)
        )
        for noise in (0.0, 0.05)
    )
    assert rough.margins[-1].high / rough.margins[-1].low > 1.1
    assert smooth.margins[-1].high / smooth.margins[-1].low < 1.02


def test_the_crossing_is_found_on_either_side():
    found = chooser(*grid(THREE, SIZES, OCCUPANCIES))
    below, above = (found.choose(Question(n, 3)) for n in (30_000, 1_000_000))
    (upwards,), (downwards,) = below.changes, above.changes
    assert (upwards.axis, upwards.below, downwards.below) == ("particles", False, True)
    assert upwards.winner == above.best.subject
    assert downwards.winner == below.best.subject
    for change in (upwards, downwards):
        assert change.value == pytest.approx(CROSSING, rel=0.01)


def test_another_order_that_changes_the_answer_is_told():
    sorted_ones = {
        "quick-to-start": LAWS["quick-to-start"],
        "quick-in-the-end": lambda n, p: 0.5 * LAWS["quick-to-start"](n, p),
    }
    found = chooser(
        *grid(LAWS, SIZES, OCCUPANCIES),
        *grid(sorted_ones, SIZES, OCCUPANCIES, order="morton"),
    )
    answer = found.choose(Question(20_000, 3))
    (order,) = [change for change in answer.changes if change.axis == "order"]
    winner = "quick-in-the-end"
    assert (order.value, order.winner.algorithm, order.is_known) == ("morton", winner, True)
    asked = found.choose(Question(20_000, 3, order="morton"))
    assert asked.best.subject.algorithm == winner


def test_on_a_measured_input_it_repeats_the_measurement():
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES, noise=0.1)).choose(Question(2**16, 4))
    near = answer.nearest[0]
    assert near.octaves == 0
    assert answer.best.ms == pytest.approx(near.known.median_ms, rel=1e-12)
    assert answer.best.low_ms == pytest.approx(near.known.low_ms, rel=1e-5)
    assert answer.best.high_ms == pytest.approx(near.known.high_ms, rel=1e-5)


def test_tasks_are_answered_apart():
    found = chooser(
        *grid({"a": LAWS["quick-to-start"], "b": lambda n, p: 1.0}, SIZES, [2, 4], form="count"),
        *grid({"b": LAWS["quick-to-start"]}, SIZES, [2, 4], form="list-matrix"),
    )
    assert found.choose(Question(30_000, 3)).best.subject[:2] == ("a", "count")
    assert found.choose(Question(30_000, 3, task="list")).best.subject[:2] == ("b", "list-matrix")
    nothing = found.choose(Question(30_000, 3, task="build"))
    assert (nothing.verdict, nothing.command) == ("declined", None)


@pytest.mark.parametrize(
    "question", [Question(30_000, 3), Question(2**23, 3), Question(50_000, 4, moved=0.02)]
)
def test_a_prepared_chooser_answers_alike_in_another_process(question):
    found = chooser(*grid(THREE, SIZES, OCCUPANCIES), *moved_records())
    kept = pickle.loads(pickle.dumps(found.prepared(question.its_task, question.called_from)))
    answers = (output.as_json(each.choose(question)) for each in (kept, found))
    assert next(answers) == next(answers)


# Moved particles


def moved_records():
    """A re-sort costs by what moved, a rebuild does not: they meet where a tenth moves."""
    return [
        record(name, ms * n / 2**16, n, p, form=form, moved=share)
        for share in (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
        for n in SIZES
        for p in (2, 8)
        for name, form, ms in (
            ("search-resort", "update", 0.1 + share),
            ("search-sort", "count", 0.2),
            ("search-sort", "build", 0.01),
        )
    ]


def test_builds_of_other_structures_are_no_alternatives():
    """Linked lists are built faster; which structure pays, a task that queries it tells."""
    times = {"search-atomic-list": 0.1, "search-counting-sort": 0.3, "search-radix-grid": 0.5}
    made = [
        record(name, ms * n / 1e6, n, p, form="build")
        for name, ms in times.items()
        for n in SIZES
        for p in OCCUPANCIES
    ]
    answer = Chooser([results(*made)]).choose(Question(30_000, 3, task="build"))
    assert answer.best.subject.algorithm == "search-counting-sort"
    assert [each.other.subject.algorithm for each in answer.margins] == ["search-radix-grid"]
    assert any("sorted cells" in each for each in answer.warnings)


def test_updates_and_rebuilds_are_alternatives_where_particles_moved():
    found = chooser(*moved_records())
    assert [each.task for each in found.cross_validate()] == ["update"]
    few, many = (found.choose(Question(50_000, 4, moved=share)) for share in (0.005, 0.5))
    assert few.best.subject[:2] == ("search-resort", "update")
    assert many.best.subject[:2] == ("search-sort", "count")
    (change,) = few.changes
    assert (change.axis, change.below) == ("moved", False)
    assert change.value == pytest.approx(0.1, rel=0.06)
    assert "where more than about 10 % move: search-sort count" in output.evidence_lines(few)


def test_what_moved_is_no_evidence_for_what_did_not():
    found = chooser(*moved_records())
    assert found.choose(Question(50_000, 4)).verdict == "declined"


# What it does not answer


LAWS_OF_RATIOS = {
    "tree": lambda ratio, n, p: 0.01 * (n / 2**12) ** 0.9 * p**0.2,
    "cells": lambda ratio, n, p: 0.01 * (n / 2**12) ** 0.9 * p**0.2 * (ratio / 100) ** 0.5,
}


@pytest.mark.parametrize(
    ("axis", "ratios", "setting"),
    [("contrast", (10, 300, 10**4), {"distribution": "clusters"}), ("radii", (None, 8, 300), {})],
)
def test_contrasts_and_radii_are_interpolated_and_no_further(axis, ratios, setting):
    records = [
        each
        for ratio in ratios
        for each in grid(
            {name: partial(law, ratio or 1) for name, law in LAWS_OF_RATIOS.items()},
            SIZES, [1, 4, 16], **setting, **{axis: ratio},
        )
    ]  # fmt: skip
    found = chooser(*records)

    def asked(ratio):
        return found.choose(Question(30_000, 3, **setting, **{axis: ratio}))

    below, above = asked(40), asked(250)
    assert [each.best.subject.algorithm for each in (below, above)] == ["cells", "tree"]
    assert (below.verdict, above.verdict) == ("chosen", "chosen")
    (crossing,) = (change for change in below.changes if change.axis == axis)
    assert crossing.value == pytest.approx(100, rel=0.1) and crossing.winner.algorithm == "tree"
    assert f"above about {axis} 1e+02: tree" in "\n".join(output.evidence_lines(below))
    ANSWERS.validate(json.loads(json.dumps(output.as_json(below))))
    beyond = asked(2 * 10**4)
    assert beyond.verdict == "declined" and beyond.command is None
    assert f", {axis} 2e+04 is outside of what was measured" in beyond.reason
    assert asked(ratios[-1]).best.subject.algorithm == "tree"


def test_clusters_with_and_without_a_contrast_are_others():
    records = grid(LAWS, SIZES, OCCUPANCIES, distribution="clusters", contrast=100)
    answer = chooser(*records).choose(Question(30_000, 3, distribution="clusters"))
    only = "nothing was measured of clusters, random, only of: clusters of a given contrast, random"
    assert answer.reason == only
    with pytest.raises(UserError, match="--distribution takes one of power-law, free-surface"):
        Question(30_000, 3, contrast=10)
    for fields in ({"radii": 0.5}, {"contrast": 1.0, "distribution": "clusters"}):
        with pytest.raises(UserError, match="--contrast takes a number above 1"):
            Question(30_000, 3, **fields)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(2**23, 3), "nearest 4,194,304 particles"),
        (Question(2**11, 3), "nearest 4,096 particles"),
        (Question(2**14, 0.5), "nearest 16,384 particles, 1 per cell"),
        (Question(2**14, 3, order="morton"), "nothing was measured of uniform, morton, only of"),
        (Question(2**14, 3, moved=0.1), "task update"),
    ],
)
def test_it_declines_outside_of_what_was_measured(question, words):
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES)).choose(question)
    assert (answer.verdict, answer.best) == ("declined", None)
    assert words in answer.reason


def test_it_names_the_command_that_would_measure_it():
    found = chooser(*grid(THREE, SIZES, OCCUPANCIES))
    command = found.choose(Question(2**23, 3)).command
    assert command == "gpubench run regimes --particles 8388608 --per-cell 3"
    moved = chooser(*moved_records()).choose(Question(1000, 4, moved=0.25))
    assert moved.command.endswith("--particles 1000 --per-cell 4 --moved 250")


@pytest.mark.parametrize(
    ("asked", "setting"),
    [
        ({"destination": "step"}, "uniform, random, moved step"),
        ({"order": "morton"}, "uniform, morton, moved next"),
    ],
)
def test_a_setting_is_told_with_where_particles_moved_to(asked, setting):
    answer = chooser(*moved_records()).choose(Question(50_000, 4, moved=0.01, **asked))
    only = "uniform, random, moved next"
    assert answer.reason == f"nothing was measured of {setting}, only of: {only}"


def test_the_command_is_said_to_measure_more_than_the_input():
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES)).choose(Question(2**23, 3))
    assert f"; to measure it: `{answer.command}`, which skips" in output.sentence(answer)
    skipped = [record("a", None, n, p, status="skipped") for n in SIZES for p in OCCUPANCIES]
    assert chooser(*skipped).choose(Question(2**14, 4)).command is None


def test_it_declines_inside_the_ranges_but_outside_the_hull():
    corner = [
        r for r in grid(THREE, SIZES, OCCUPANCIES) if r.at("particles") * r.at("per_cell") < 2**20
    ]
    answer = chooser(*corner).choose(Question(2**18, 14))
    assert answer.verdict == "declined"
    assert "outside of what was measured" in answer.reason


def test_it_declines_in_a_hole_wider_than_those_it_was_tested_on():
    far = [*range(12, 17), 26]
    answer = chooser(*grid(THREE, [2**k for k in far], OCCUPANCIES)).choose(Question(2**21, 3))
    assert answer.verdict == "declined"
    assert "octaves from what was measured nearest" in answer.reason


@pytest.mark.parametrize("status", ["wrong", "failed", "skipped"])
def test_what_has_no_right_answer_near_there_is_not_chosen_but_named(status):
    records = [
        record(name, None, n, p, status=status, reason="room for 4 only")
        if name == "quick-to-start" and p == 4 and n == 2**14
        else record(name, law(n, p), n, p)
        for n in SIZES
        for p in OCCUPANCIES
        for name, law in THREE.items()
    ]
    found = chooser(*records)
    for question in (Question(2**14, 4), Question(2**14 + 100, 4), Question(2**14 + 100, 3.9)):
        answer = found.choose(question)
        assert answer.best.subject.algorithm == "quick-in-the-end"
        (barred,) = answer.barred
        assert (barred.subject.algorithm, barred.status) == ("quick-to-start", status)
        assert "room for 4 only" in barred.reason
    far = found.choose(Question(20_000, 12))
    assert far.best.subject.algorithm == "quick-to-start"
    assert far.barred == []
    assert any(status in each for each in far.warnings) == (status != "skipped")


def test_a_slow_one_that_fails_does_not_matter():
    records = [
        record(name, None if name == "never" and n == 2**14 else law(n, p), n, p)
        for n in SIZES
        for p in OCCUPANCIES
        for name, law in THREE.items()
    ]
    assert chooser(*records).choose(Question(2**14, 4)).barred == []


def test_where_nothing_is_right_it_declines():
    records = [record("a", None if n == 2**14 else 1.0, n, p) for n in SIZES for p in (2, 4)]
    answer = chooser(*records).choose(Question(2**14, 3))
    assert answer.verdict == "declined"
    assert "a pair is lost" in answer.reason
    assert names(each.subject for each in answer.barred) == ["a"]


QUESTIONS = st.builds(
    Question,
    st.integers(2**10, 2**24),
    st.floats(0.25, 64),
    order=st.sampled_from(["random", "morton"]),
)


@pytest.fixture(scope="module")
def two_orders():
    """Two orders, one of which was measured on a triangle only."""
    all_of_it = grid(THREE, SIZES, OCCUPANCIES)
    half = [
        r for r in grid(THREE, SIZES, OCCUPANCIES, order="morton")
        if math.log2(r.at("particles")) + 2 * math.log2(r.at("per_cell")) <= 22
    ]  # fmt: skip
    return chooser(*all_of_it, *half)


@settings(max_examples=60)
@given(question=QUESTIONS)
def test_there_is_never_an_answer_outside_the_hull(two_orders, question):
    n, p = math.log2(question.particles), math.log2(question.per_cell)
    inside = 12 <= n <= 22 and 0 <= p <= 4
    if question.order == "morton":
        inside = inside and n + 2 * p <= 22
    answer = two_orders.choose(question)
    assert (answer.best is not None) == inside
    if not inside:
        assert (answer.verdict, answer.changes, answer.tied) == ("declined", (), [])


# Cross-validation


def test_the_loss_on_held_out_inputs():
    """Four sizes in a row: the inner two can be held out, and one of them is judged wrongly."""
    times = {"a": [1.0, 1.0, 1.0, 1.0], "b": [2.0, 2.0, 0.5, 2.0]}
    records = [
        record(name, ms, 2 ** (12 + k), 4)
        for name, series in times.items()
        for k, ms in enumerate(series)
    ]
    (found,) = chooser(*records).cross_validate()
    assert (found.task, found.beyond, found.failures) == ("count", 2, 0)
    assert [(each.chosen.algorithm, each.loss) for each in found.held_out] == [("a", 0), ("a", 1)]
    assert (found.loss.mean, found.loss.worst) == (0.5, 1.0)
    assert found.loss.p90 == pytest.approx(0.9)
    assert found.favourite.algorithm == "a"
    assert found.favourite_loss == found.loss


def test_a_choice_without_a_right_answer_is_a_failure_and_no_loss():
    records = [
        record(name, None if (name, k) == ("a", 2) else ms, 2 ** (12 + k), 4)
        for name, ms in (("a", 1.0), ("b", 2.0))
        for k in range(5)
    ]
    (found,) = chooser(*records).cross_validate()
    by_size = {each.place.particles: each for each in found.held_out}
    held_out = by_size[2**14]
    assert (held_out.chosen.algorithm, held_out.loss, found.failures) == ("a", None, 1)
    # On either side a corner is wrong, so that the other is chosen there.
    assert by_size[2**13].loss == by_size[2**15].loss == 1.0


def test_advice_beats_the_favourite_where_laws_cross():
    found = chooser(*grid(THREE, SIZES, OCCUPANCIES, noise=0.02)).cross_validate()[0]
    assert found.loss.mean <= 0.05
    assert found.favourite_loss.mean > 5 * found.loss.mean
    assert found.beyond == 4
    assert len(found.held_out) == len(SIZES) * len(OCCUPANCIES) - 4


# Surfaces and regions


def surface(points, values, others):
    """Return the values of a surface through points at others."""
    axes = points.shape[1]
    return basis(others, points, axes) @ (solution(points, axes) @ values)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_errors_of_a_surface_are_those_of_leaving_points_out(axes):
    rng = np.random.default_rng(1)
    points, values = rng.random((12, axes)) * 5, rng.random(12)
    assert surface(points, values, points) == pytest.approx(values)
    found = solution(points, axes)
    errors = (found @ values)[:12] / np.diag(found)
    for i in range(len(points)):
        rest = np.arange(len(points)) != i
        without = surface(points[rest], values[rest], points[i : i + 1])[0]
        assert values[i] - without == pytest.approx(errors[i])


def test_a_surface_repeats_a_plane():
    rng = np.random.default_rng(2)
    points, others = rng.random((9, 2)), rng.random((20, 2))
    slope = np.array([2.0, -1.0])
    assert surface(points, points @ slope + 3, others) == pytest.approx(others @ slope + 3)


def test_points_along_one_axis_have_no_slope_along_the_other():
    points = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
    found = surface(points, np.array([0.0, 1.0, 2.0, 3.0]), np.array([[1.5, 1.0]]))
    assert found == pytest.approx([1.5])


def corners_of(points, others, preferred=True):
    """Return the corners among all points in one case."""
    flags = np.full((1, len(points)), True) & preferred
    index, weight = corners(points, others, np.full((1, 1, len(points)), True), flags)
    return index[0], weight[0]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_corners_make_the_point(axes):
    rng = np.random.default_rng(3)
    points = rng.random((30, axes))
    others = rng.random((50, axes)) * 1.4 - 0.2
    index, weight = corners_of(points, others)
    inside = weight.any(axis=1)
    assert 0 < inside.sum() < len(others)
    made = np.einsum("mc,mca->ma", weight, points[index])
    assert made[inside] == pytest.approx(others[inside])
    assert (weight >= 0).all()


@pytest.mark.parametrize("axes", [2, 3])
def test_corners_are_those_of_delaunay(axes):
    rng = np.random.default_rng(4)
    points, others = rng.random((40, axes)), rng.random((60, axes))
    found = Delaunay(points)
    simplices = found.find_simplex(others)
    index, weight = corners_of(points, others)
    assert (weight.any(axis=1) == (simplices >= 0)).all()
    for i in np.flatnonzero(simplices >= 0):
        assert {*index[i][weight[i] > 0]} == {*found.simplices[simplices[i]]}


def test_of_several_simplices_one_of_preferred_points_is_taken():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    inside = np.array([[0.6, 0.7]])
    for out, is_taken in ((0, False), (1, False), (2, True), (3, True)):
        index, weight = corners_of(square, inside, np.arange(4) != out)
        assert (out in index[0][weight[0] > 0]) == is_taken


def test_points_on_a_line_hold_nothing_but_the_line():
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    others = np.array([[1.0, 1.0], [1.5, 1.5], [1.0, 1.1], [3.5, 3.5]])
    _, weight = corners_of(points, others)
    assert weight.any(axis=1).tolist() == [True, True, False, False]


@given(st.floats(0, 1))
def test_shares_come_back_from_octaves(share):
    there = evidence.to_octaves("moved", share)
    assert evidence.from_octaves("moved", there) == pytest.approx(share, abs=1e-12)


# Evidence


def table(found):
    """Return what is known of the task `count`, as launched."""
    return evidence.tables(pool(found), "python")["count"][0]


def task_declared(name: str, form: str) -> str | None:
    return registry.find_algorithm(name).declared(form)["task"]


def test_queries_of_cells_that_are_there_are_no_searches():
    """Their forms are named as tasks are, so that only their names tell."""

    def names_a_task(form):
        return any(form == task or form.startswith(f"{task}-") for task in TASKS)

    others = {
        name
        for name, algorithm in registry.algorithms().items()
        if algorithm.family != "neighbour-search" and any(map(names_a_task, algorithm.forms))
    }
    known = registry.algorithms()
    assert not [name for name in others for form in known[name].forms if task_declared(name, form)]
    assert task_of("count-linked") == "count"
    records = grid({"neighbour-query": LAWS["quick-to-start"]}, SIZES, [4], form="count-linked")
    with pytest.raises(UserError, match="no neighbour search"):
        chooser(*records)


@pytest.mark.parametrize(
    "fields",
    [{"mode": "cold"}, {"inputs": 4}, {"form": "order"}, {"form": "update"}, {"workload": "dpd"}],
)
def test_other_records_are_left_aside(fields):
    with pytest.raises(UserError, match="no neighbour search"):
        chooser(record("a", 1.0, 4096, 4, **fields))


def test_the_newest_code_counts_and_its_timings_are_pooled():
    old = results(record("a", 9.0, 4096, 4), started="2026-01-01T00:00:00Z", code_hash="old")
    new = results(
        record("a", 1.0, 4096, 4, width=0.1),
        record("a", 4.0, 4096, 4, sweep="spread", width=0.1),
        started="2026-02-01T00:00:00Z",
    )
    place = InputPoint(4096, 4.0, None, Setting("uniform", "random", None, ""))
    (found,) = table([old, new]).values()
    measured = found[place]
    assert (measured.median_ms, measured.low_ms, measured.high_ms) == pytest.approx(
        (2.0, 2 * 0.9**0.5**0.5, 2 * 1.1**0.5**0.5)
    )
    wrong = replace(new, records=[*new.records, record("a", None, 4096, 4, sweep="moved")])
    (found,) = table([wrong]).values()
    assert found[place].why[0] == "wrong"


@pytest.mark.parametrize("turn", [1, -1])
def test_what_one_sweep_skips_another_may_have_timed(turn):
    skipped = record("a", None, 4096, 4, sweep="cpu", status="skipped")
    records = [skipped, record("a", 1.0, 4096, 4)][::turn]
    (found,) = table([results(*records)]).values()
    assert [known.median_ms for known in found.values()] == [1.0]
    (found,) = table([results(skipped)]).values()
    assert [known.why[0] for known in found.values()] == ["skipped"]


def test_who_was_measured_on_fewer_inputs_does_not_win_between_them():
    """All are slow in the middle; one was not measured there, and is slower wherever it was."""

    def law(n, p):
        return 4.0 * (n / 2**12) ** 0.9 * (2.0 if n == 2**17 else 1.0)

    sizes = [2**k for k in range(12, 23)]
    records = grid({"a": law, "b": lambda n, p: 1.2 * law(n, p)}, sizes, OCCUPANCIES)
    records += grid({"seldom": lambda n, p: 1.1 * law(n, p)}, sizes[::2], OCCUPANCIES)
    found = chooser(*records)
    answer = found.choose(Question(2**17, 4))
    assert answer.best.subject.algorithm == "a"
    ratios = {margin.other.subject.algorithm: margin.ratio for margin in answer.margins}
    assert ratios == pytest.approx({"seldom": 1.1, "b": 1.2})
    assert not any(change.winner.algorithm == "seldom" for change in answer.changes)
    # Held out, it is asked where it was not measured, too, and is not taken there.
    model, _ = found.known("count")
    place = InputPoint(2**17, 4.0, None, Setting("uniform", "random", None, ""))
    guesses = model.held_out[:, model.places.index(place)]
    held = dict(zip(names(model.subjects), guesses, strict=True))
    assert held["seldom"] == pytest.approx(1.1 * held["a"])
    assert held["a"] < 0.9 * law(2**17, 4)
    (validation,) = found.cross_validate()
    assert validation.failures == 0
    assert {each.chosen.algorithm for each in validation.held_out} == {"a"}


def test_only_the_newest_code_counts_and_the_rest_is_named():
    """The same name was slower work before, on an input that is not measured any more."""
    old = results(
        *grid({"quick-to-start": lambda n, p: 9.0}, SIZES, [1, 3, 16]),
        started="2026-01-01T00:00:00Z", code_hash="old",
    )  # fmt: skip
    laws = grid(THREE, SIZES, OCCUPANCIES)
    new = [
        results(*part, started=f"2026-02-0{day}T00:00:00Z", code_hash="new")
        for day, part in ((1, laws[::2]), (2, laws[1::2]))
    ]
    answer = Chooser([new[1], old, new[0]]).choose(Question(16_384, 3))
    assert answer.best.ms == pytest.approx(LAWS["quick-to-start"](16_384, 3), rel=0.02)
    assert answer.warnings[-1].startswith("left out: ")
    assert not any("older code" in each for each in Chooser(new).choose(answer.question).warnings)


def test_ties_have_their_figures_before_what_is_slower():
    """A margin that is known may be the smaller one."""
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES)).choose(Question(CROSSING + 1, 3))
    open_one = answer.tied[0]
    label = open_one.other.subject.label

    def known(form):
        """Return a margin like the open one, of another form, and known."""
        subject = open_one.other.subject._replace(form=form)
        other = open_one.other._replace(subject=subject)
        return open_one._replace(other=other, ratio=1.001, low=1.0001)

    crowded = replace(answer, margins=[known("list"), known("build"), *answer.margins])
    lines = output.evidence_lines(crowded)
    words = [line.split(":")[0] for line in lines[1:5]]
    assert words == ["may be as fast", "fastest", "then", "then"]
    assert lines[1].startswith(f"may be as fast: {label}: ")


def test_of_several_machines_the_one_with_cuda_counts():
    cpu = {"backend": "opencl", "name": "A CPU"}
    gpu, other = results(record("a", 1.0, 4096, 4)), results(record("a", 2.0, 4096, 4))
    slow = results(record("a", 5.0, 4096, 4, device="opencl"), device=cpu, machine="cpu-a")
    assert Chooser([slow, gpu]).machine.backend == "cuda"
    assert Chooser([slow]).machine.device == "A CPU"
    other.environment["machine"] = "another"
    with pytest.raises(UserError, match="several machines: another"):
        Chooser([gpu, other])


def test_default_results_are_ones_own_before_those_that_came_along(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    came = tmp_path / "came"
    monkeypatch.setattr(paths, "measured_folder", lambda: came)
    name = "2026-01-31-abc1234-regimes.json"
    with pytest.raises(UserError, match="`gpubench run regimes` makes some"):
        Chooser.load()
    write(came / "nvidia-h200" / name, [record("a", 1.0, 4096, 4)])
    write(came / "nvidia-h200" / "2026-01-31-abc1234-other.json", [record("a", 3.0, 4096, 4)])
    assert Chooser.load().files == [came / "nvidia-h200" / name]
    own = Path("results/local/cpu-a") / name.replace(".json", "-2.json")
    cpu = {"backend": "opencl", "name": "A CPU"}
    write(own, [record("a", 2.0, 4096, 4, device="opencl")], device=cpu)
    assert Chooser.load().files == [own]
    assert Chooser.load(device="cuda").files == [came / "nvidia-h200" / name]


def test_of_several_gpus_the_default_is_the_one_here_or_the_latest(monkeypatch, tmp_path, gpus):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "measured_folder", lambda: tmp_path / "came")
    monkeypatch.setattr(user_cache, "_folder_to_remember_in", lambda: tmp_path)
    for gpu, day in (("gpu-a", "31"), ("gpu-b", "30"), ("gpu-b", "29")):
        write(
            tmp_path / "came" / gpu / f"2026-01-{day}-abc1234-regimes.json",
            grid(THREE, SIZES, OCCUPANCIES),
            device={"backend": "cuda", "name": gpu},
            machine=gpu,
            started=f"2026-01-{day}T00:00:00Z",
        )
    for here, device in (([], "gpu-a"), (["gpu-c"], "gpu-a"), (["gpu-c", "gpu-b"], "gpu-b")):
        gpus[:] = here
        chooser = Chooser.load()
        assert chooser.machine.device == device
        assert chooser_for("count", "graph", (), None).machine.device == device
        assert {path.parent.name for path in chooser.files} == {device}
    with pytest.raises(UserError, match=r"several machines: .*give those of one"):
        Chooser.load([tmp_path / "came"])


# The command


@pytest.fixture(autouse=True)
def gpus(monkeypatch):
    """Stand for the GPUs of this machine, of which there are none at first."""
    names = []
    monkeypatch.setattr("gpubench.base.gpus.gpu_names", lambda: names)
    return names


@pytest.fixture(scope="module")
def came_along(tmp_path_factory):
    folder = tmp_path_factory.mktemp("came")
    write(
        folder / "nvidia-h200" / "2026-01-31-abc1234-regimes.json",
        [*grid(THREE, SIZES, OCCUPANCIES), *moved_records()],
    )
    return folder


@pytest.fixture
def shipped(monkeypatch, came_along):
    monkeypatch.setattr(paths, "measured_folder", lambda: came_along)


def valid(text):
    document = json.loads(text)
    ANSWERS.validate(document)
    return document


@pytest.fixture
def two_gpus(monkeypatch, tmp_path):
    """Results of two GPUs: they agree below 2^17 particles, above on the second `never` wins."""
    monkeypatch.setattr(paths, "measured_folder", lambda: tmp_path / "came")
    monkeypatch.setattr(user_cache, "_folder_to_remember_in", lambda: tmp_path)
    second = THREE | {
        "never": lambda n, p: (2 if n < CROSSING else 0.1) * LAWS["quick-to-start"](n, p)
    }
    for name, day, laws in (("Maker G1 80GB", "2", THREE), ("Maker G2", "1", second)):
        write(
            tmp_path / "came" / day / "2026-01-31-abc1234-regimes.json",
            grid(laws, SIZES, OCCUPANCIES),
            device={"backend": "cuda", "name": name},
            machine=name.lower().replace(" ", "-"),
            started=f"2026-01-0{day}T00:00:00Z",
        )


AGREED = ("--particles", 30_000, "--per-cell", 3)
ELSEWHERE = "Maker G9 was not measured: `gpubench run regimes --sweeps map` there measures it"


@pytest.mark.parametrize("is_here", [True, False])
def test_of_a_gpu_that_was_not_measured_it_says_what_the_others_agree_on(
    choose, two_gpus, gpus, is_here
):
    """It is this machine's, or named; nothing that others do makes the answer one about it."""
    gpus[:] = ["Maker G9"] if is_here else []
    named = () if is_here else ("--device", "Maker G9")
    status, out, _ = choose(*AGREED, *named)
    first, *rest = out.splitlines()
    both = (
        "quick-to-start count, the choice on every GPU measured there: Maker G1 80GB and Maker G2"
    )
    assert (status, first) == (3, f"use {both}; {ELSEWHERE}")
    starts = ("  on Maker G1 80GB", "  on Maker G2")
    for line, start in zip(rest, starts, strict=False):
        assert line.startswith(
            f"{start}, as launched from Python: use quick-to-start count: about "
        )
    status, out, _ = choose("--particles", 2**20, "--per-cell", 3, *named)
    differs = "quick-in-the-end count on Maker G1 80GB and never count on Maker G2"
    assert status == 3
    assert out.startswith(f"inconclusive: the choice differs between GPUs, {differs}; {ELSEWHERE}")
    document = valid(choose(*AGREED, *named, "--json")[1])
    assert (document["verdict"], document["sentence"]) == (
        "cannot tell",
        f"use {both}; {ELSEWHERE}",
    )
    assert document["unmeasured"]["name"] == "Maker G9"
    devices = [each["machine"]["device"] for each in document["unmeasured"]["answers"]]
    assert devices == ["Maker G1 80GB", "Maker G2"]
    _, out, _ = choose("--particles", 2**25, "--per-cell", 3, *named)
    assert out.startswith("inconclusive: nothing was measured nearby on any GPU; Maker G9 was not")


@pytest.mark.parametrize(("words", "device"), [("g2", "Maker G2"), ("80gb maker", "Maker G1 80GB")])
def test_a_measured_gpu_is_taken_by_words_of_its_name(choose, two_gpus, gpus, words, device):
    gpus[:] = ["Maker G9"]
    status, out, _ = choose(*AGREED, "--device", words)
    assert status == 0
    assert out.splitlines()[1] == f"  for 30,000 particles, 3 per cell, on {device}"
    status, out, err = choose(*AGREED, "--device", "Maker")
    assert (status, out) == (2, "")
    assert "--device Maker may be Maker G1 80GB or Maker G2" in err


def test_a_list_is_the_task_where_neighbours_are_given(choose, shipped):
    for more, task in ((), "list"), (("--task", "count"), "count"), (("--moved", 0.1), "update"):
        out = choose("--particles", 30_000, "--neighbours", 12, *more, "--json")[1]
        assert valid(out)["question"]["task"] == task


# The risk


def margin_of(ratio, width, off=0.0):
    """Return a margin of measurements whose intervals reach as far as `width`, off as given."""
    best = TimeEstimate(None, 1.0, 1.0, 1.0, width, False, None, None)
    other = best._replace(ms=ratio)
    return Margin.of(best, other, 2 * width + off, off)


@pytest.mark.parametrize(
    "sides",
    [
        [(1.0, 0.1, 0.0)],
        [(1.1, 0.05, 0.2)],
        [(1.0, 0.05, 0.1), (1.02, 0.1, 0.3), (1.5, 0.02, 0.0)],
        [(1.3, 0.01, 0.0), (4.0, 0.5, 1.0)],
    ],
)
def test_the_expected_loss_is_that_of_drawn_ratios(sides):
    """Parts of an interval are independent, and so are rivals."""
    margins = [margin_of(*each) for each in sides]
    rng, drawn = np.random.default_rng(11), 400_000
    best = np.zeros(drawn)
    for ratio, width, off in sides:
        parts = (rng.normal(0, half / 1.96, drawn) for half in (width, width, off))
        best = np.minimum(best, math.log(ratio) + sum(parts))
    losses = np.expm1(-best)
    found = Risk.of(margins)
    spread = losses.std() / math.sqrt(drawn)
    assert found.expected == pytest.approx(losses.mean(), abs=5 * spread + 1e-9)
    worst = max(math.exp(2 * width + off) / ratio for ratio, width, off in sides) - 1
    assert found.worst == pytest.approx(max(0.0, worst))


def test_a_loss_that_nothing_bounds_has_no_figure():
    answer = chooser(*grid(THREE, SIZES, OCCUPANCIES)).choose(Question(CROSSING, 3))
    unbound = answer.margins[0]._replace(low=0.0, high=math.inf, deviation=math.inf)
    without = replace(answer, margins=[unbound])
    assert output.as_json(without)["risk"] == {"expected": None, "worst": None}
    assert output.sentence(without).endswith("; nothing bounds what it loses against the best")


def test_what_is_lost_on_inputs_that_were_left_out_is_what_was_told():
    """Of rough times about a crossover; the loss on each input is known to the test."""
    rng, sizes = np.random.default_rng(0), [2**k for k in range(12, 23)]
    found = []
    for _ in range(6):
        records = [
            record(name, law(n, p) * math.exp(0.1 * rng.normal()), n, p)
            for n in sizes
            for p in OCCUPANCIES
            for name, law in LAWS.items()
        ]
        whole, _ = chooser(*records, device=NO_LAUNCHES).known("count")
        inner = (p for p in whole.places if SIZES[0] < p.particles < SIZES[-1] and p.per_cell < 16)
        for place in inner:
            table = {
                subject: {other: known for other, known in of.items() if other != place}
                for subject, of in whole.table.items()
            }
            best, margins, _ = TimeModel(table).ranked(place)
            if best is not None:
                least = min(of[place].ms for of in whole.right.values())
                found.append((whole.right[best.subject][place].ms / least - 1, *Risk.of(margins)))
    lost, expected, worst = np.array(found).T
    assert len(lost) > 150
    assert lost.mean() > 0.003
    assert expected.mean() == pytest.approx(lost.mean(), rel=0.5)
    assert (lost > worst).mean() < 0.05


# A box that was not measured


def test_of_a_periodic_box_it_says_that_nothing_was_measured():
    found = chooser(*grid(THREE, SIZES, OCCUPANCIES))
    answer = found.choose(Question(30_000, 3, periodic="xz"))
    said = output.sentence(answer)
    assert answer.verdict == "cannot tell"
    assert "; nothing was measured in a box periodic along xz, and this is of an open box; " in said
    assert said.endswith("`gpubench tune FILE --cutoff S --periodic xz`")
    assert answer.best == found.choose(Question(30_000, 3)).best


def test_a_periodic_box_that_was_measured_has_its_own_answer():
    other = {"quick-to-start": THREE["never"], "never": THREE["quick-to-start"]}
    sides = [True, True, True]
    found = chooser(
        *grid(THREE, SIZES, OCCUPANCIES), *grid(other, SIZES, OCCUPANCIES, periodic=sides)
    )
    asked = (Question(30_000, 3, periodic=axes) for axes in ("xyz", ""))
    answers = [found.choose(each) for each in asked]
    assert names(each.best.subject for each in answers) == ["never", "quick-to-start"]
    assert [each.verdict for each in answers] == ["chosen", "chosen"]


# What won nearby


def test_it_says_that_the_best_won_nearby_only_where_it_did():
    found = chooser(*grid(THREE, SIZES, OCCUPANCIES))
    near = found.choose(Question(2**13, 4))
    inputs = [n for n in SIZES if n < CROSSING for _ in OCCUPANCIES]
    line = f"quick-to-start count won at every measured input nearby (the {near.won} nearest)"
    assert 3 <= near.won <= len(inputs)
    assert line in output.evidence_lines(near)
    beside = found.choose(Question(CROSSING - 1000, 3))
    assert beside.won < 3
    assert not any(" won at " in line for line in output.evidence_lines(beside))


@pytest.mark.parametrize(
    "given",
    [
        ("--density", 0.375, "--cutoff", 2),
        ("--neighbours", 4 * math.pi, "--task", "count"),
        ("--cell", "20,0,0,0,40,0,0,0,100", "--cutoff", 2),
        ("--cell", "20,40,100,90,90,90", "--cutoff", 2),
    ],
)
def test_occupancy_may_be_given_otherwise(choose, shipped, given):
    expected = choose("--particles", 30_000, "--per-cell", 3)
    assert choose("--particles", 30_000, *given) == expected


def test_choose_answers_in_a_sentence_first(choose, shipped):
    status, out, err = choose("--particles", 30_000, "--per-cell", 3)
    assert (status, err) == (0, "")
    first, *rest = out.splitlines()
    assert first.startswith("use quick-to-start count: about 0.0")
    risk = "expected loss against the best below 0.1 %, none within the intervals"
    assert first.endswith(f"ms, 240 kB; {risk}")
    assert rest[0] == "  for 30,000 particles, 3 per cell, on A GPU"
    text = "\n".join(rest)
    assert "then: quick-in-the-end count: 0.1" in text and ", 1.8" in text
    assert "above about 130,000 particles: quick-in-the-end count" in text
    assert "2026-01-31-abc1234-regimes.json" in text
    assert "cross-validation of count, called from python: 26 of 30 inputs" in text


def test_what_is_kept_between_runs_follows_the_results(choose, shipped, monkeypatch, tmp_path):
    monkeypatch.setattr(user_cache, "_folder_to_remember_in", lambda: tmp_path / "cache")
    asked = ("--particles", 30_000, "--per-cell", 3)
    first = choose(*asked)
    with monkeypatch.context() as broken:
        broken.setattr("gpubench.choose.chooser.Chooser.load", None)
        assert choose(*asked) == first
    own = Path("results/local/cpu-a/2026-02-01-abc1234-regimes.json")
    write(own, grid({"only": lambda n, p: 1.0}, SIZES, OCCUPANCIES))
    assert choose(*asked)[1].startswith("use only count: about 1.00 ms")


def test_a_ranking_of_one_is_no_win(choose, tmp_path):
    """Nor where another drops out along an axis, or was not measured in another order."""
    records = grid(THREE, SIZES, OCCUPANCIES)
    records += grid({"alone": lambda n, p: 1.0}, SIZES, OCCUPANCIES, order="morton")
    write(tmp_path / "mine" / "a.json", records)
    asked = ("--particles", 30_000, "--per-cell", 3, "--results", tmp_path / "mine")
    status, out, _ = choose(*asked, "--order", "morton")
    assert status == 3
    assert "; inconclusive: only alone count was measured around there" in out
    assert "fastest" not in out
    assert "with order morton" not in choose(*asked)[1]


@pytest.mark.parametrize(
    ("arguments", "status", "verdict"),
    [
        ((30_000, 3), 0, "chosen"),
        ((CROSSING, 3), 3, "cannot tell"),
        ((2**25, 3), 3, "declined"),
        ((50_000, 4, "--moved", 0.01), 0, "chosen"),
        ((50_000, 4, "--task", "build"), 3, "declined"),
    ],
)
def test_choose_as_json(choose, shipped, arguments, status, verdict):
    particles, per_cell, *more = arguments
    asked = ("--particles", particles, "--per-cell", per_cell, *more)
    code, out, err = choose(*asked, "--json")
    assert (code, err) == (status, "")
    document = valid(out)
    assert document["verdict"] == verdict
    assert choose(*asked)[:2][1].splitlines()[0] == document["sentence"]
    if verdict == "declined":
        assert document["best"] is None
    else:
        assert document["candidates"][0]["subject"] == document["best"]
        assert document["candidates"][1]["subject"] == document["runner_up"]


def test_validation_says_how_often_the_choice_was_no_constant(choose, shipped):
    """Quick-to-start is best on 13 inputs that were held out, quick-in-the-end on the others."""
    found = Chooser.load().cross_validate()[0]
    others = [each for each in found.held_out if each.chosen != found.favourite]
    law = {each.algorithm: LAWS[each.algorithm] for each in {h.chosen for h in found.held_out}}
    at = [(each.place.particles, each.place.per_cell) for each in others]
    best, always = (law[name] for name in (others[0].chosen.algorithm, found.favourite.algorithm))
    gain = np.mean([1 - best(*each) / always(*each) for each in at])
    assert (found.others, found.gain) == (len(others), pytest.approx(gain))
    same = len(found.held_out) - len(others)
    _, out, _ = choose("--particles", 30_000, "--per-cell", 3)
    label = found.favourite.label
    assert f"; {same} times it was {label}, which is also the best single choice (" in out
    assert re.search(rf"; on the other {len(others)} it took {100 * gain:.2g} % less time", out)


def test_choose_validates(choose, shipped):
    status, out, _ = choose("--validate")
    assert status == 0
    assert "26 of 30" in out
    status, out, _ = choose("--validate", "--json")
    document = valid(out)
    assert [each["task"] for each in document["validations"]] == ["count", "update"]


AT = ["--particles", 9, "--per-cell", 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs --particles N and --per-cell P"),
        (["--particles", 9], "needs --particles N and --per-cell P"),
        (["--particles", 0, "--per-cell", 4], "at least 1"),
        (["--particles", 9, "--per-cell", 0], "above 0"),
        (["--particles", 9, "--per-cell", "nan"], "above 0"),
        (["--particles", 9, "--density", 4], "--density and --cutoff belong together"),
        (["--particles", 9, "--density", 4, "--cutoff", -1], "--cutoff takes a positive number"),
        ([*AT, "--neighbours", 9], "give one of them"),
        (["--particles", 9, "--cell", "1,1,1,90,90,90"], "(or --cell, --cutoff): give both"),
        (["--keys", 9, "--cell", "1,1,1,90,90,90"], "sorting takes --task sort and --keys N"),
        (
            ["--particles", 9, "--cell", "1,1,1,90,90,90", "--density", 1, "--cutoff", 1],
            "--cell and --density say the same",
        ),
        (
            ["--particles", 9, "--neighbours", 9, "--distribution", "lattice"],
            "for --distribution uniform",
        ),
        ([*AT, "--moved", 2], "from 0 to 1"),
        ([*AT, "--task", "fly"], "build, count"),
        ([*AT, "--task", "sort"], "--keys N, and no particles"),
        ([*AT, "--task", "update"], "needs --moved"),
        ([*AT, "--task", "list", "--moved", 0.1], "for --task upd"),
        ([*AT, "--device", "cuda:0"], "cuda, opencl or a GPU's name, not 'cuda:0'"),
        (["--validate", "--device", "abacus"], "--device abacus: no such GPU was measured"),
        ([*AT, "--periodic", "xw"], "--periodic takes axes such as x, xy or xyz"),
        ([*AT, "--device", "opencl"], "through opencl"),
        ([*AT, "--results", "nowhere.json"], "cannot read nowhere"),
        ([*AT, "--distribution", "lumps"], "uniform, lattice"),
        ([*AT, "--order", "hilbert"], "random, cell, morton"),
        (
            [*AT, "--moved", 0.1, "--destination", "away"],
            "--destination takes one of random, next, step, not 'away'",
        ),
        (["--validate", "--particles", 9], "leave out --particles"),
        (["--validate", "--task", "nonsense", "--moved", 7], "leave out --moved, --task"),
        (["--validate", "--order", "random"], "leave out --order"),
        (
            ["--validate", "--distribution", "uniform", "--destination", "next"],
            "leave out --distribution, --destination",
        ),
    ],
)
def test_bad_input_is_one_line(choose, shipped, arguments, message):
    status, out, err = choose(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_without_results_it_says_what_makes_them(choose, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "measured_folder", lambda: tmp_path / "nothing")
    status, out, err = choose("--particles", 9, "--per-cell", 4)
    assert (status, out) == (2, "")
    assert err == (
        "gpubench: there are no results of the study regimes: `gpubench run regimes` makes some\n"
    )


def test_it_takes_results_by_path(choose, tmp_path):
    write(tmp_path / "mine" / "a.json", grid(THREE, SIZES, OCCUPANCIES))
    (tmp_path / "mine" / "b.json").write_text('{"calibration": {}}')
    asked = ("--particles", 30_000, "--per-cell", 3, "--results")
    assert choose(*asked, tmp_path / "mine")[0] == 0
    (tmp_path / "empty").mkdir()
    status, _, err = choose(*asked, tmp_path / "empty")
    assert status == 2
    assert "no results of studies" in err


def test_that_there_is_no_evidence_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(user_cache, "_folder_to_remember_in", lambda: tmp_path)
    asked = []

    def load(*question):
        asked.append(question)
        raise UserError("no results")

    monkeypatch.setattr(Chooser, "load", load)
    for _ in range(2):
        with pytest.raises(UserError, match="no results"):
            chooser_for("list", "python", [], "nothing")
    assert asked == [([], "nothing")]


def test_other_runs_of_the_device_widen_intervals_and_are_no_answers(tmp_path, monkeypatch):
    """Of the study that says how far apart runs are, times enter no table."""
    monkeypatch.setattr(paths, "measured_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    found = [results(*grid(THREE, SIZES, OCCUPANCIES))]
    device = found[0].environment["device"]["name"]
    apart = [
        results(
            *(
                record("quick-to-start", ms * factor, n, 4, study="again", width=1e-4)
                for n, ms in zip(range(8, 28), [0.05] * 20, strict=True)
            ),
            started=f"2026-03-0{day}T00:00:00Z",
        )
        for day, factor in ((1, 1.0), (2, 1.2))
    ]
    monkeypatch.setattr(evidence, "repeats", lambda name: apart if name == device else [])
    alone, wider = (Chooser(found, are_default=each) for each in (False, True))
    question = Question(30_000, 3)
    one, other = (each.choose(question).best for each in (alone, wider))
    assert one.ms == other.ms
    assert other.measured > one.measured + 0.1
    assert wider.files == alone.files
