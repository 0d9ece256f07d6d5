"""What must not change while the package is laid out anew: frame, pages, keys, collected tests.

It goes when the layout is reached. `golden.json` was made at d543f64.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gpubench.base import paths
from gpubench.evidence.files import load_results
from gpubench.evidence.frame import frame

ROOT = paths.repository()
GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
COLLECT = Path(__file__).with_name("collected.py")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def frozen() -> list[Path]:
    assert ROOT is not None
    return [ROOT / name for name in GOLDEN["files"]]


def test_the_frame_is_the_same():
    csv = frame(load_results(frozen())).drop(columns="file").to_csv(index=False)
    assert digest(csv.encode()) == GOLDEN["frame"]


@pytest.mark.long
def test_every_page_is_the_same(tmp_path):
    # In a process of its own: names inside SVG are numbered as they are drawn.
    command = [
        sys.executable,
        "-m",
        "gpubench",
        "report",
        *map(str, frozen()),
        "--out",
        str(tmp_path),
    ]
    subprocess.run(command, check=True, capture_output=True)
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    found = {str(path.relative_to(tmp_path)): digest(path.read_bytes()) for path in files}
    assert {
        name for name in found | GOLDEN["pages"] if found.get(name) != GOLDEN["pages"].get(name)
    } == set()


@pytest.mark.long
def test_no_test_is_lost(tmp_path):
    """Each kind of runtime and marks has at least the tests that it had."""
    out = tmp_path / "collected.json"
    done = subprocess.run(
        [sys.executable, str(COLLECT), str(out)], cwd=ROOT, capture_output=True, text=True
    )
    assert out.is_file(), done.stdout + done.stderr
    found = Counter(json.loads(out.read_text()))
    assert {key: (n, found[key]) for key, n in GOLDEN["collected"].items() if found[key] < n} == {}
