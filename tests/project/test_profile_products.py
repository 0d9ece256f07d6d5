"""The tool that reads a GPU's counters, with a stand-in for ncu."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/profile_products.py"
NAMES = (
    "gpu__time_duration.sum", "dram__bytes.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_read_lookup_hit.sum",
)  # fmt: skip


def run(tmp_path: Path, names: tuple[str, ...], *said: str, status: int = 0) -> tuple[int, str]:
    """Run the tool with an ncu that prints counters, and what else is said."""
    values = ('"2,000,000"', '"3,000,000,000"', '"100"', '"1,250"', '"250"', '"200"', '"50"')
    lines = [
        *said,
        ",".join(f'"{name}"' for name in ("ID", *names)),
        ",".join('""' for _ in ("ID", *names)),
        ",".join(('"0"', *values[: len(names)])),
    ]
    ncu = tmp_path / "ncu"
    script = f"import sys\nprint({chr(10).join(lines)!r})\nsys.exit({status})\n"
    ncu.write_text(f"#!{sys.executable}\n{script}")
    ncu.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(TOOL), "--ncu", str(ncu)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_counters_become_a_table(tmp_path: Path) -> None:
    status, said = run(tmp_path, NAMES, "==PROF== Profiling", "least bytes: 2000000000")
    assert status == 0
    assert said.count("\n") == 1 + 2 + 2 * 5
    first = said.splitlines()[1]
    assert first == "ellpack-blocks product-float4 | own | 2 | 3.000 | 1.500 | 12.50 | 20% | 25%"


@pytest.mark.parametrize(
    ("names", "said", "status", "sentence"),
    [
        (NAMES, "==ERROR== ERR_NVGPUCTRPERM", 1, "product-float4: ==ERROR== ERR_NVGPUCTRPERM"),
        (NAMES[:-1], "least bytes: 5", 0, "ncu reports no lts__t_sectors_op_read_lookup_hit.sum"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, names: tuple[str, ...], said: str, status: int, sentence: str
) -> None:
    found, text = run(tmp_path, names, said, status=status)
    assert found == 2
    heading, line = text.splitlines()
    assert heading.startswith("product | columns")
    assert line.startswith("profile_products: ") and sentence in line
