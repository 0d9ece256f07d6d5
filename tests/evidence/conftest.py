"""The results that come along, read once for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubench.evidence.files import load_results
from gpubench.evidence.frame import frame

SHIPPED = Path(__file__).parents[2] / "results" / "measured"


@pytest.fixture(scope="session")
def shipped_results():
    return load_results([SHIPPED])


@pytest.fixture(scope="session")
def shipped_frame(shipped_results):
    return frame(shipped_results)
