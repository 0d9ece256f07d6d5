"""What `gpubench check` notices about memory: relied on to be zero, or not declared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from additions import nothing_added
from typer.testing import CliRunner

from gpubench.cli import app
from gpubench.verify.allocations import INTEGER, soiled_memory

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tile-sort"


def check_with(folder, device, line):
    """Check the example without the lines that begin so; return its outcome."""
    (folder / "tile_sort.cu").write_bytes((EXAMPLE / "tile_sort.cu").read_bytes())
    lines = (EXAMPLE / "tile_sort.py").read_text(encoding="utf-8").splitlines()
    kept = [text for text in lines if not text.strip().startswith(line)]
    assert len(kept) == len(lines) - 1
    (folder / "broken_tile_sort.py").write_text("\n".join(kept))
    with nothing_added(folder):
        words = ["--add", str(folder), "check", "tile-sort", "--device", device.spec, "--json"]
        result = CliRunner().invoke(app.app, words)
    assert result.exit_code == 1 and result.stdout, (result.output, result.exception)
    (outcome,) = json.loads(result.stdout)["checks"]
    return outcome


def test_an_algorithm_that_relies_on_zeroed_memory_is_wrong(tmp_path, opencl_device):
    outcome = check_with(tmp_path, opencl_device, "device.fill(self._counts, 0x00)")
    assert outcome["status"] == "wrong"
    assert {case["status"] for case in outcome["cases"]} == {"wrong"}


def test_memory_of_a_primitive_that_is_not_declared_fails(tmp_path, opencl_device):
    outcome = check_with(tmp_path, opencl_device, "self.workspace_bytes += self._scan")
    assert outcome["status"] == "failed"
    assert outcome["reason"].startswith("workspace_bytes is ")
    assert "add the workspace_bytes of each primitive" in outcome["reason"]


@pytest.mark.parametrize("shape", [5, (2, 3), 0])
def test_memory_is_soiled_and_counted_until_the_end(opencl_device, shape):
    given = np.arange(4, dtype=np.int32)
    with soiled_memory(opencl_device) as memory:
        integers = opencl_device.empty(shape, "int32")
        floats = opencl_device.empty(shape, "float32")
        uploaded = opencl_device.upload(given)
    expected = np.full(shape, INTEGER, np.int32)
    assert np.array_equal(opencl_device.download(integers), expected)
    assert np.isnan(opencl_device.download(floats)).all()
    assert np.array_equal(opencl_device.download(uploaded), given)
    assert memory.total == 2 * expected.nbytes
    opencl_device.empty(9, "int32")
    assert memory.total == 2 * expected.nbytes
