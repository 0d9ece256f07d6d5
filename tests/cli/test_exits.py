"""Exit statuses: what is no answer is status 2, whatever went wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import compare_results as made
import numpy as np
import pytest

from gpubench.compare import procedure


@pytest.fixture
def slower(tmp_path: Path) -> list[str]:
    """Write results of which head is slower; return the words that compare them."""
    for name, ms in (("base", 1.0), ("head", 2.0)):
        for number, record in enumerate(made.processes(*8 * [ms])):
            made.write(tmp_path / name / f"{number}.json", record)
    return ["compare", str(tmp_path / "base"), str(tmp_path / "head")]


def redirected(redirection: str, *words: str) -> tuple[int, str]:
    """Run a command line in a shell with a redirection; return exit status and standard error."""
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh"]
    done = subprocess.run(
        [*shell, sys.executable, "-m", "gpubench", *words], stderr=subprocess.PIPE, text=True
    )
    return done.returncode, done.stderr


def test_a_verdict_that_cannot_be_printed_is_status_2(slower):
    told = "gpubench: cannot write standard output: No space left on device\n"
    assert redirected(">/dev/full", *slower) == (2, told)


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "standard output is closed: redirect it to /dev/null to discard it"),
        (">/dev/full 2>/dev/full", ""),
        (">&- 2>&-", ""),
    ],
)
def test_an_answer_that_cannot_be_printed_is_status_2(redirection, message):
    told = f"gpubench: {message}\n" if message else ""
    assert redirected(redirection, "--version") == (2, told)


@pytest.mark.parametrize(
    "words",
    [
        "report DATA --out LONG", "run rozen2008-table1 --quick --out LONG", "show LONG",
        "compare LONG DATA", "simulate dpd-standard --checkpoint LONG", "check dpd --out LONG/a",
    ],
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_one_line(words, slower, gpubench_command):
    given = words.replace("DATA", slower[1]).replace("LONG", 300 * "9")
    code, _, said = gpubench_command(*given.split())
    assert code == 2
    assert said.splitlines()[-1].startswith("gpubench: the name of a file or folder is too long: 9")
    assert "Traceback" not in said


def test_lack_of_memory_is_one_line_and_status_2(slower, monkeypatch, gpubench_command):
    def allocate(*_: object) -> None:
        np.empty(2**57, np.float64)

    monkeypatch.setattr(procedure, "compare_files", allocate)
    code, out, err = gpubench_command(*slower)
    assert (code, out) == (2, "")
    assert err.startswith("gpubench: there is not enough memory (Unable to allocate 1.00 EiB")
    assert err.endswith("): choose a smaller input\n") and err.count("\n") == 1


def test_an_error_of_the_program_is_its_traceback_and_status_2(
    slower, monkeypatch, gpubench_command
):
    def crash(*_: object) -> None:
        raise ZeroDivisionError("a step of 0 s")

    monkeypatch.setattr(procedure, "compare_files", crash)
    code, out, err = gpubench_command(*slower)
    assert (code, out) == (2, "")
    assert err.startswith("Traceback") and "in crash" in err
    last = "gpubench: ended without an answer because of ZeroDivisionError: a step of 0 s"
    assert err.splitlines()[-1] == last
