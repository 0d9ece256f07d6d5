"""What was seen right at a version of the code, which CI leaves out.

`make test-all` runs all. `GPUBENCH_RECORD=1 pytest FILE` writes what it saw, beside that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PASSED = pytest.StashKey[bool]()  # whether a test has, set by tests/conftest.py


def unless_seen(request: pytest.FixtureRequest, known: Path) -> Iterator[Callable[[str], None]]:
    """Yield what skips a test whose version was seen right; record it where asked to.

    known: a file with the version of each case.
    """
    given: list[str] = []
    case = request.node.name.removeprefix("test_")

    def leave_out(version: str) -> None:
        given.append(version)
        is_everything_asked = "not thorough" not in request.config.option.markexpr
        if not is_everything_asked and json.loads(known.read_text()).get(case) == version:
            pytest.skip("seen right at this version of the code (make test-all)")

    yield leave_out
    has_passed = request.node.stash.get(PASSED, False)
    if given and has_passed and os.environ.get("GPUBENCH_RECORD") == "1":
        seen = json.loads(known.read_text()) | {case: given[0]}
        known.write_text(json.dumps(seen, indent=0, sort_keys=True) + "\n")
