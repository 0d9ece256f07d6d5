"""Advice on sorting keys."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from answer_schema import ANSWERS
from key_records import key_records
from report_pages import ENVIRONMENT

from gpubench.base.errors import UserError
from gpubench.choose import output
from gpubench.choose.question import NO_GRAPHS, SortQuestion
from gpubench.choose.sorts import choose
from gpubench.evidence.records import as_json

TIMES = {
    "bitonic-sort": {1024: 0.01, 16384: 0.16},
    "radix-sort": {1024: 0.04, 16384: 0.08},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records: list[dict[str, Any]] = [
        *key_records(TIMES),
        *key_records({"radix-sort": {1024: 9.0, 16384: 9.0}}, key_bits=8),
        *key_records({"cub-sort": {1024: 0.001}}),
    ]
    return write(tmp_path / "2000-01-02-0123456-key-sort.json", records)


def write(file: Path, records: list[Any]) -> Path:
    document = {
        "schema": 2, "environment": ENVIRONMENT, "records": [as_json(each) for each in records],
    }  # fmt: skip
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_times_lie_on_a_line_between_measured_sizes(folder: Path) -> None:
    answer = choose(SortQuestion(4096), [folder], None)
    (margin,) = answer.margins
    assert margin.other.subject.label == "radix-sort onesweep"
    assert margin.other.ms == pytest.approx(math.sqrt(0.04 * 0.08))
    assert output.sentence(answer).startswith("use bitonic-sort index: about 0.0400 ms, ")
    assert output.evidence_lines(answer)[0].startswith("for 4,096 keys of uint32, ")
    assert answer.verdict == "chosen"
    assert NO_GRAPHS in answer.warnings


def test_a_sort_is_called_from_a_graph_or_from_python(tmp_path: Path) -> None:
    graphs = {"bitonic-sort": {1024: 0.01}, "radix-sort": {1024: 0.005}}
    hot = {"bitonic-sort": {1024: 0.02}, "radix-sort": {1024: 0.03}, "cub-sort": {1024: 0.06}}
    records = [*key_records(graphs, mode="graph"), *key_records(hot, mode="hot")]
    file = write(tmp_path / "2000-01-02-0123456-key-sort.json", records)
    for called_from, best in (("graph", "radix-sort onesweep"), ("python", "bitonic-sort index")):
        answer = choose(SortQuestion(1024, called_from=called_from), [file], None)
        assert answer.best is not None and answer.best.subject.label == best
        assert NO_GRAPHS not in answer.warnings
        cub = answer.margins[-1]
        assert cub.other.as_launched == (called_from == "graph")
        # As launched it takes twice as long as what is the fastest in a graph.
        assert cub.ratio == pytest.approx(2 if called_from == "graph" else 3)


def test_a_sort_that_was_measured_alone_is_no_win(tmp_path: Path) -> None:
    alone = key_records({"bitonic-sort": {1024: 0.01}})
    file = write(tmp_path / "2000-01-02-0123456-key-sort.json", alone)
    answer = choose(SortQuestion(1024), [file], None)
    assert answer.verdict == "cannot tell"
    assert "only bitonic-sort index was measured" in output.sentence(answer)


def test_at_a_measured_size_all_that_was_measured_there_counts(folder: Path) -> None:
    answer = choose(SortQuestion(1024), [folder], "cuda")
    assert answer.best is not None and answer.best.subject.label == "cub-sort radix"


def test_where_nothing_was_measured_nothing_is_chosen(folder: Path, gpubench_command: Any) -> None:
    for question in (SortQuestion(100), SortQuestion(4096, 16), SortQuestion(4096, 4, "int64")):
        answer = choose(question, [folder], None)
        assert answer.verdict == "declined"
        assert output.sentence(answer).startswith("inconclusive: no two sizes")
    words = ("--task", "sort", "--keys", 100, "--results", folder)
    code, out, _ = gpubench_command("choose", *words)
    assert code == 3 and "inconclusive" in out


def test_close_times_are_inconclusive(tmp_path: Path) -> None:
    close = key_records({"bitonic-sort": {1024: 0.01}, "radix-sort": {1024: 0.01001}})
    file = write(tmp_path / "2000-01-02-0123456-key-sort.json", close)
    answer = choose(SortQuestion(1024), [file], None)
    assert answer.risk is not None and 0 < answer.risk.expected < answer.risk.worst
    assert output.evidence_lines(answer)[1].startswith("may be as fast: radix-sort onesweep: ")
    document = output.as_json(answer)
    ANSWERS.validate(document)
    assert document["verdict"] == "cannot tell"


@pytest.mark.parametrize(
    ("question", "said"),
    [((0,), "--keys"), ((9, 8), "--value-bytes takes one of"), ((9, 4, "text"), "--key-type")],
)
def test_questions_that_make_no_sense(question: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        SortQuestion(*question)


@pytest.mark.parametrize("words", [["--task", "sort"], ["--keys", "9", "--task", "count"]])
def test_a_sort_needs_keys_and_no_other_task(words: list[str], gpubench_command: Any) -> None:
    code, _, err = gpubench_command("choose", *words)
    assert code == 2 and "--keys N" in err
