"""Run asv's benchmarks on several commits in the current environment, installing nothing.

For machines on which nothing can be installed, such as a GPU box without a network. Each commit's
sources are unpacked to a folder that comes first on Python's path; the benchmarks are those of this
checkout. It runs in two steps, as the checkout there has no history:

    python tools/asv_history.py pack FOLDER COMMIT...    where the history is
    python tools/asv_history.py run FOLDER -- OPTIONS    where the device is, on FOLDER's copy

The options go to `asv run`, e.g. --machine nvidia-h200 --bench 'algorithms.*1048576'.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("gpubench", "kernels")
DATES = "commits.json"


def pack(folder: Path, commits: list[str]) -> None:
    """Write the sources of each commit to `<hash>.tar`, and their dates to `commits.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    dates = {}
    for name in commits:
        commit = _git("rev-parse", "--verify", f"{name}^{{commit}}")
        dates[commit] = int(_git("show", "-s", "--format=%at", commit))
        _git("archive", "--output", str(folder.resolve() / f"{commit}.tar"), commit, *SOURCES)
    (folder / DATES).write_text(json.dumps(dates, indent=1) + "\n", encoding="utf-8")


def run(folder: Path, options: list[str]) -> int:
    """Run asv on each commit of a folder written by `pack`, oldest first; return the worst status.

    Results go to the folder in this checkout's asv.conf.json.
    """
    folder = folder.resolve()
    dates: dict[str, int] = json.loads((folder / DATES).read_text(encoding="utf-8"))
    worst = 0
    for commit in sorted(dates, key=dates.__getitem__):
        with tempfile.TemporaryDirectory() as sources:
            with tarfile.open(folder / f"{commit}.tar") as archive:
                archive.extractall(sources, filter="data")
            # asv removes PYTHONPATH for its benchmarks, and sets it to this variable.
            path = os.pathsep.join(filter(None, [sources, os.environ.get("PYTHONPATH")]))
            settings = str(_configuration(folder, commit))
            command = ["asv", "run", "--config", settings, "--python=same"]
            done = subprocess.run(
                [sys.executable, "-m", *command, "--set-commit-hash", commit, "--record-samples",
                 *options],
                cwd=ROOT,
                env={**os.environ, "ASV_PYTHONPATH": path},
                check=False,
            )  # fmt: skip
        worst = max(worst, done.returncode)
    return worst


def _configuration(folder: Path, commit: str) -> Path:
    """Write asv's configuration for one commit of a folder; return its path."""
    from asv.util import load_json

    settings = load_json(str(ROOT / "asv.conf.json"), js_comments=True)
    for place in ("benchmark_dir", "results_dir", "html_dir", "env_dir"):
        settings[place] = str(ROOT / settings[place])
    settings |= {"repo": str(folder), "dvcs": "folder", "branches": [commit]}
    path = folder / "asv.conf.json"
    path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return path


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    for part in ("pack", "run"):
        of_part = parts.add_parser(part)
        of_part.add_argument("folder", type=Path)
        of_part.add_argument("commits" if part == "pack" else "options", nargs="*")
    given = parser.parse_args()
    if given.part == "run":
        sys.exit(run(given.folder, given.options))
    pack(given.folder, given.commits)
