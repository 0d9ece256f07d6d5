"""Print the regressions in a site of `asv publish`, as Markdown for a job summary.

    python tools/asv_regressions.py reports/asv

asv detects the steps (`asv.step_detect`); this prints its `regressions.json`, largest first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from asv.util import human_value

HASH_LENGTH = 8
HEADER = """| Benchmark | Machine | Commits | Before | After | Change |
| :-- | :-- | :-- | --: | --: | --: |
"""


def summary(site: Path) -> str:
    """Return a Markdown table with a row for each step of each regression.

    site: a folder written by `asv publish`. Raises FileNotFoundError if it is not one.
    """
    index = _load(site / "index.json")
    rows = [
        (after / before if before else float("inf"), _row(index, regression, jump))
        for regression in _load(site / "regressions.json")["regressions"]
        for jump in regression[-1]
        for before, after in [jump[2:]]
    ]
    title = "## asv: regressions\n\n"
    commits = len(index["revision_to_hash"])
    if not rows:
        return f"{title}None in {commits} commits.\n"
    rows.sort(key=lambda row: -row[0])
    return f"{title}{len(rows)} in {commits} commits.\n\n{HEADER}" + "".join(row for _, row in rows)


def _row(index: dict[str, Any], regression: list[Any], jump: list[Any]) -> str:
    """Return the row of one step: `jump` is [last revision before or None, first after, values]."""
    entry, graph, *_ = regression
    first, last, before, after = jump
    unit = index["benchmarks"][entry.partition("(")[0]]["unit"]
    hashes = [
        index["revision_to_hash"][str(revision)][:HASH_LENGTH]
        for revision in (first, last)
        if revision is not None
    ]
    machine = next(part for part in graph.split("/") if part.startswith("machine-"))
    change = f"{after / before - 1:+.0%}" if before else "from 0"
    cells = (
        f"`{entry}`",
        machine.removeprefix("machine-"),
        "..".join(f"`{name}`" for name in hashes),
        human_value(before, unit),
        human_value(after, unit),
        change,
    )
    return f"| {' | '.join(cells)} |\n"


def _load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    print(summary(Path(sys.argv[1])), end="")
