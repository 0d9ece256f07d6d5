"""What asv tracks of this repository: times that gpubench measured, of answers that it checked."""

import subprocess
import tempfile
from pathlib import Path

import gpubench

ROOT = Path(__file__).resolve().parents[1]


class RunList:
    """The cell list of own_kernel."""

    unit = "ms"
    timeout = 600

    def track_median(self) -> float:
        """Return the median time at the smallest size; fails where the answer is wrong."""
        with tempfile.TemporaryDirectory() as out:
            command = ["gpubench", "--add", "own_kernel", "run", "run-lists.toml", "--quick"]
            done = subprocess.run([*command, "--out", out], cwd=ROOT, capture_output=True)
            done.check_returncode()
            times = gpubench.load(out).query("algorithm == 'run-list'")
        return float(times.sort_values("particles")["median_ms"].iloc[0])
