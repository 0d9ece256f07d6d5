"""Kernels that are compiled together: none goes unnoticed that would fail by itself."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
KERNEL = """__global__ void first(int *values)
{
    values[0] = VALUE;
#if VALUE == 2
    int forgotten = 3;
#endif
}
"""

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit)")


@pytest.mark.long
def test_a_warning_and_a_missing_name_are_told_of_their_own_unit(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = runpy.run_path(str(TOOLS / "compile_kernels.py"))
    (tmp_path / "prelude").symlink_to(TOOLS.parent / "kernels" / "prelude")
    (tmp_path / "some.cu").write_text(KERNEL)
    monkeypatch.setattr(tool["plugins"], "kernel_folders", lambda file: [tmp_path])
    one, two, three = (tool["Unit"]("some.cu", (("VALUE", value),)) for value in (1, 2, 3))
    right = {one: {"first"}, three: {"first"}}
    assert tool["check_together"](right, "sm_80") == {one: None, three: None}
    assert tool["are_right_together"](right, "sm_80", tmp_path)
    assert not tool["are_right_together"](right | {one: {"second"}}, "sm_80", tmp_path)
    found = tool["check_together"]({one: {"first"}, two: {"first"}, three: {"second"}}, "sm_90")
    assert found.pop(one) is None
    assert "forgotten" in found[two]
    assert found[three] == "has no second"
