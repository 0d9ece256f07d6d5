"""By what is compared: device time where work is replayed from a graph, else launches."""

from __future__ import annotations

import json

import pytest
from answer_schema import ANSWERS
from searches import grid, record, results, write

from gpubench.choose import output
from gpubench.choose.chooser import Chooser
from gpubench.choose.question import NO_GRAPHS, Question
from gpubench.neighbours import method

SIZES = [2**k for k in range(10, 23, 2)]
OCCUPANCIES = [1, 2, 4, 8, 16]
GRAPHS = {"ours": lambda n, p: 1e-6 * n, "other": lambda n, p: 1.5e-6 * n}
# From Python the other is faster; the library takes twice as long as ours, in a graph it cannot be.
LAUNCHED = {"other": lambda n, p: 0.1 + 1.5e-6 * n, "ours": lambda n, p: 0.2 + 1e-6 * n}
LAUNCHED |= {"library": lambda n, p: 2 * (0.2 + 1e-6 * n)}


def measured(**fields):
    """Return records in both modes; the library is skipped where a graph would hold it."""
    skipped = [
        record("library", None, n, p, mode="graph", status="skipped", reason="it waits", **fields)
        for n in SIZES
        for p in OCCUPANCIES
    ]
    graphs = grid(GRAPHS, SIZES, OCCUPANCIES, mode="graph", **fields)
    return [*graphs, *skipped, *grid(LAUNCHED, SIZES, OCCUPANCIES, **fields)]


def asked(called_from, particles=30_000, **fields):
    return Question(particles, 3, called_from=called_from, **fields)


@pytest.fixture(scope="module")
def chooser():
    return Chooser([results(*measured())])


@pytest.mark.parametrize(("called_from", "best"), [("graph", "ours"), ("python", "other")])
def test_the_caller_decides_what_is_compared(chooser, called_from, best):
    answer = chooser.choose(asked(called_from))
    assert answer.best.subject.algorithm == best
    laws = GRAPHS if called_from == "graph" else LAUNCHED
    assert answer.best.ms == pytest.approx(laws[best](30_000, 3), rel=0.05)
    assert answer.validation.called_from == called_from
    assert NO_GRAPHS not in answer.warnings


def test_what_no_graph_holds_is_compared_as_launched_and_has_no_time(chooser):
    answer = chooser.choose(asked("graph"))
    ratios = {each.other.subject.algorithm: each.ratio for each in answer.margins}
    assert ratios == {"other": pytest.approx(1.5), "library": pytest.approx(2)}
    library = next(line for line in output.evidence_lines(answer) if "library" in line)
    assert library.startswith("then: library count: compared as launched from Python, 2.00 times")
    document = output.as_json(answer)
    (candidate,) = (c for c in document["candidates"] if c["as_launched"])
    assert candidate["subject"]["algorithm"] == "library"
    assert candidate["ms"] is candidate["low_ms"] is candidate["high_ms"] is None


def test_a_launched_one_that_is_the_fastest_has_no_invented_time():
    quick = {"ours": LAUNCHED["ours"], "library": lambda n, p: 0.5 * LAUNCHED["ours"](n, p)}
    graphs = grid({"ours": GRAPHS["ours"]}, SIZES, OCCUPANCIES, mode="graph")
    answer = Chooser([results(*graphs, *grid(quick, SIZES, OCCUPANCIES))]).choose(asked("graph"))
    said = output.sentence(answer)
    assert said.startswith("use library count: compared as launched from Python, 240 kB; expected")
    nearest = next(line for line in output.evidence_lines(answer) if line[:8] == "measured")
    assert f"{answer.nearest[0].known.median_ms:.3g} ms as launched from Python at" in nearest
    place = answer.nearest[0].place
    launched = quick["library"](place.particles, place.per_cell)
    assert answer.nearest[0].known.median_ms == pytest.approx(launched)


def test_without_graphs_it_says_that_times_are_as_launched():
    hot = Chooser([results(*grid(LAUNCHED, SIZES, OCCUPANCIES))])
    answer = hot.choose(asked("graph"))
    assert NO_GRAPHS in answer.warnings
    assert answer.validation.called_from == "python"
    same = hot.choose(asked("python"))
    assert (answer.best, answer.margins) == (same.best, same.margins)
    assert NO_GRAPHS not in same.warnings
    beyond = hot.choose(asked("graph", 2**25))
    assert f"note: {NO_GRAPHS}" in output.evidence_lines(beyond)


def test_where_no_graph_was_timed_a_launch_stands_beside_none():
    """The other sizes were timed as launched alone; they are no evidence for graphs."""
    extra = grid(LAUNCHED, [2**25], OCCUPANCIES, study="another")
    chooser = Chooser([results(*measured(), *extra)])
    assert chooser.choose(asked("graph", 2**24)).verdict == "declined"
    assert chooser.choose(asked("python", 2**24)).best is not None


def test_what_is_wrong_in_a_graph_is_no_candidate_for_one():
    records = [
        record("other", None, each.at("particles"), each.at("per_cell"), mode="graph")
        if each.algorithm == "other" and each.mode == "graph"
        else each
        for each in measured()
    ]
    answer = Chooser([results(*records)]).choose(asked("graph"))
    assert {m.other.subject.algorithm for m in answer.margins} == {"library"}
    assert [(each.subject.algorithm, each.status) for each in answer.barred] == [("other", "wrong")]


def test_the_command_takes_the_caller(gpubench_command, tmp_path):
    write(tmp_path / "a.json", measured())
    words = ("--particles", 30_000, "--per-cell", 3, "--results", tmp_path)
    answers = {}
    for called_from in ("graph", "python"):
        _, out, _ = gpubench_command("choose", *words, "--json", "--called-from", called_from)
        answers[called_from] = json.loads(out)
        ANSWERS.validate(json.loads(out))
        assert answers[called_from]["question"]["called_from"] == called_from
    assert json.loads(gpubench_command("choose", *words, "--json")[1]) == answers["graph"]
    assert answers["graph"]["best"] != answers["python"]["best"]
    validated = [
        gpubench_command("choose", "--validate", "--called-from", each, "--results", tmp_path)[1]
        for each in ("graph", "python")
    ]
    assert [
        f"count, called from {each}: " in out for each, out in zip(answers, validated, strict=True)
    ] == [True, True]
    for more in (words, ("--validate",), ("--keys", 9)):
        status, _, err = gpubench_command("choose", *more, "--called-from", "abacus")
        assert status == 2 and "--called-from takes one of graph, python" in err


def test_a_neighbour_list_is_called_from_python(monkeypatch):
    """Its methods are launched by the host, whatever graphs would choose."""
    questions = []

    class Asked:
        def choose(self, question, with_changes):
            questions.append(question)
            return Chooser([results(*measured(form="list"))]).choose(question)

    monkeypatch.setattr(method, "_chooser", lambda backend: Asked())
    device = type("Device", (), {"backend": "cuda", "name": "A GPU"})
    names, _ = method._measured(device, 30_000, type("Grid", (), {"count": 10_000}))
    assert [each.called_from for each in questions] == ["python"]
    assert names[0] == "other"
