"""Pages in headless Chromium."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

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
