"""The summary of regressions, from a site that asv publishes of made-up results."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import needs
import pytest

pytest.importorskip("asv.results", reason=needs.reason("asv"))

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {"machine": "cpu-test", "os": "Linux", "arch": "x86_64", "cpu": "test", "num_cpu": "2",
           "ram": "8 GiB"}  # fmt: skip
COMMITS = 24
SLOW_FROM = 15  # the first commit of the planted regression
NOISE = (0.0, 0.01, -0.01, 0.005)
NAME = "algorithms.Sort.track_time"


def call(*command: object, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def history(root: Path) -> list[str]:
    """Make a repository of COMMITS commits; return their hashes, oldest first."""
    call("git", "init", "-q", cwd=root)
    for number in range(COMMITS):
        date = f"2026-01-{number + 1:02}T12:00:00Z"
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        call("git", *identity, "commit", "-q", "--allow-empty", "-m", f"Change {number}", cwd=root,
             GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)  # fmt: skip
    return call("git", "rev-list", "--reverse", "HEAD", cwd=root).split()


def write_results(root: Path, hashes: list[str], slow_from: int) -> None:
    """Write what asv would: two variants, of which `order` is 30 % slower from a commit on."""
    from asv.benchmarks import Benchmarks
    from asv.config import Config
    from asv.results import Results
    from asv.runner import BenchmarkResult
    from asv.util import write_json

    benchmark = {
        "name": NAME, "type": "track", "unit": "seconds", "version": "1", "code": "",
        "pretty_name": "sort: time", "param_names": ["form"], "params": [["'order'", "'reorder'"]],
        "timeout": 60,
    }  # fmt: skip
    folder = root / "results/asv"
    conf = Config.from_json({"results_dir": str(folder), "repo": str(root), "project": "test"})
    benchmarks = Benchmarks(conf, [benchmark])
    benchmarks.save()
    write_json(str(folder / "cpu-test/machine.json"), MACHINE, api_version=1)
    for number, (commit, noise) in enumerate(zip(hashes, itertools.cycle(NOISE), strict=False)):
        values = [2e-3 * (1 + noise) * (1.3 if number >= slow_from else 1), 1e-3 * (1 - noise)]
        measured = BenchmarkResult(
            result=values, samples=[None] * 2, number=[None] * 2, errcode=0, stderr="", profile=None
        )
        result = Results({**MACHINE, "python": "3.11"}, {}, commit, 1767268800000 + number, "3.11",
                         "existing-py3.11", {})  # fmt: skip
        result.add_result(benchmarks[NAME], measured, record_samples=True)
        result.save(str(folder))


def publish(root: Path) -> Path:
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "asv.conf.json", root)
    call(sys.executable, "-m", "asv", "publish", cwd=root, HOME=str(root))
    return root / "reports/asv"


@pytest.mark.parametrize("slow_from", [SLOW_FROM, COMMITS])
def test_the_summary_names_the_planted_regression_and_no_other(tmp_path, slow_from):
    if shutil.which("git") is None:
        needs.skip_without("git")
    hashes = history(tmp_path)
    write_results(tmp_path, hashes, slow_from)
    site = publish(tmp_path)
    printed = call(sys.executable, ROOT / "tools/asv_regressions.py", site, cwd=tmp_path)
    rows = [line for line in printed.splitlines() if line.startswith("| `")]
    if slow_from == COMMITS:
        assert rows == []
        assert f"None in {COMMITS} commits." in printed
        return
    (row,) = rows
    assert f"`{NAME}('order')` | cpu-test | `{hashes[slow_from][:8]}` | 2.0" in row
    assert 28 <= int(row.rpartition("+")[2].rstrip("% |")) <= 32
    assert len(json.loads((site / "index.json").read_text())["revision_to_hash"]) == COMMITS
