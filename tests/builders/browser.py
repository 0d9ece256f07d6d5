"""Pages in headless Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")


FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def chromium(folder: Path, page: Path, width: int, *flags: str) -> str:
    done = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},2000",
            *flags,
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.stdout


def layout(folder: Path, pages: Sequence[str], widths: Sequence[int], profile: Path) -> Any:
    """Look at the whole of some pages in frames of these widths, each select in each state.

    Returns how many `pages` and `states` were seen, and the `faults` as sentences. One browser
    does it all; the frames are same-origin by a flag.
    """
    asked = json.dumps({"pages": list(pages), "widths": list(widths)})
    script = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
    probe = folder / f"layout-{profile.name}.html"
    html = f"<title></title><body><script>const asked = {asked};\n{script}</script></body>"
    probe.write_text(html, encoding="utf-8")
    budget = "--virtual-time-budget=10000000"
    try:
        dumped = chromium(
            profile, probe, 1500, "--dump-dom", budget, "--allow-file-access-from-files"
        )
    finally:
        probe.unlink()
    title = re.search("<title>(.*?)</title>", dumped)
    assert title is not None and title[1], "the pages were not looked at to the end"
    return json.loads(unescape(title[1]))
