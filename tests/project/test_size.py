"""That a clone stays small: results ship compressed, generated files are few, code is short."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import needs
import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 35 * 2**20
MOST_LINES = 9_600  # of what only reads results
READERS = ("evidence", "report", "choose", "compare")


def tracked() -> list[Path]:
    """Return the files that git tracks; skips without git, and in sources without a checkout."""
    if shutil.which("git") is None:
        needs.skip_without("git")
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_the_tracked_files_are_small():
    assert sum(path.stat().st_size for path in tracked() if path.is_file()) <= MOST_BYTES


def test_results_of_studies_ship_compressed():
    folders = (ROOT / "results" / "measured", ROOT / "results" / "partial")
    results = [path for path in tracked() if any(path.is_relative_to(each) for each in folders)]
    assert results and not [path for path in results if path.suffix == ".json" and path.is_file()]


def test_what_reads_results_is_short():
    files = (path for part in READERS for path in (ROOT / "gpubench" / part).rglob("*"))
    code = [path for path in files if path.suffix in (".py", ".j2")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in code)
    assert code and lines <= MOST_LINES
