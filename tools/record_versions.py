"""Compute the code versions of older results, from the commits that measured them.

    python tools/record_versions.py RESULTS...

Writes gpubench/evidence/versions.json: for each commit, the version of each algorithm in its
records, alone or with a workload, of one rank or of several, if the records have none or the
current rule differs. Needs the commits in the history; entries of other commits are kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from gpubench.core.version import SourceTree
from gpubench.evidence.declared import VERSIONS, subject_of
from gpubench.evidence.files import load_results


def main() -> None:
    """Read the results and the commits, and write the file."""
    wanted: dict[str, dict[tuple[str, ...], str | None]] = {}
    for results in load_results([Path(path) for path in sys.argv[1:]]):
        if not (commit := results.environment["commit"]) or results.environment["dirty"]:
            continue
        own = {subject_of(record): record.version for record in results.records}
        wanted.setdefault(commit[:7], {}).update(own)
    known: dict[str, dict[str, str]] = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
    for commit, subjects in wanted.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            command = ["git", "archive", commit, "gpubench", "kernels"]
            packed = subprocess.run(command, check=True, capture_output=True).stdout
            with tarfile.open(fileobj=BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
            sources = SourceTree(folder / "gpubench", folder / "kernels")
            found = {
                " ".join(subject).strip(): sources.version(
                    [n for n in subject[1:] if n], subject[0]
                )
                for subject in sorted(subjects)
            }
        told = {" ".join(subject).strip(): version for subject, version in subjects.items()}
        changed = {n: v for n, v in found.items() if v is not None and v != told[n]}
        if changed:
            known.setdefault(commit, {}).update(changed)
        lacking = [name for name, version in found.items() if version is None]
        print(f"{commit}: {len(found)} versions", f"none of {lacking}" if lacking else "")
    VERSIONS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
