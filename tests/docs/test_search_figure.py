"""The figure of the fastest search shows a search that is right, and is drawn from it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import draw_search

    yield draw_search
    sys.modules.pop("draw_search")


@pytest.mark.parametrize("asked", range(12))
def test_its_search_finds_all_neighbours(tool, asked):
    positions = np.random.default_rng(tool.SEED).random((tool.PARTICLES, 2)) * tool.CELLS
    near = np.linalg.norm(positions - positions[asked], axis=1) < 1
    assert (
        sorted([*tool.search(positions, asked).neighbours, asked]) == np.flatnonzero(near).tolist()
    )


def test_the_page_shows_what_the_tool_draws(tool, tmp_path):
    pytest.importorskip("matplotlib")
    tool.draw(tmp_path / "drawn.svg")
    shown = (ROOT / "docs/pictures/fastest-search.svg").read_text()
    texts = [line.strip() for line in shown.splitlines() if "<text" in line]
    drawn = (tmp_path / "drawn.svg").read_text()
    assert texts and [line.strip() for line in drawn.splitlines() if "<text" in line] == texts
