"""The report in headless Chromium: what a reader's browser makes of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from test_report import cpu_results, full_records, results

from gpubench import report

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
DARK = "--blink-settings=preferredColorScheme=0"
# Written into the page's title, since the tree that Chromium dumps holds no layout.
PROBE = """<script>
const wide = [...document.querySelectorAll("body *")].filter(element =>
  !element.closest(".scroll, pre, svg") && element.getBoundingClientRect().right > innerWidth + 1);
document.title = JSON.stringify({overflow: document.documentElement.scrollWidth - innerWidth,
  wide: wide.map(element => element.className || element.tagName)});
</script>"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
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
        timeout=120,
    )
    return done.stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    return report.write([results(full_records()), cpu_results()], out)


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_but_tables_is_wider_than_the_screen(
    width: int, page: Path, tmp_path: Path
) -> None:
    probed = tmp_path / "probed.html"
    html = page.read_text(encoding="utf-8").replace("</body>", f"{PROBE}</body>")
    probed.write_text(html, encoding="utf-8")
    dumped = chromium(tmp_path, probed, width, "--dump-dom")
    title = re.search("<title>(.*?)</title>", dumped)
    assert title is not None
    assert title[1] == '{"overflow":0,"wide":[]}'


@pytest.mark.parametrize(("flags", "dark"), [((), False), ((DARK,), True)], ids=["light", "dark"])
def test_page_follows_the_colour_scheme(
    flags: tuple[str, ...], dark: bool, page: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "page.png"
    chromium(tmp_path, page, 1280, f"--screenshot={picture}", *flags)
    brightness = np.asarray(image.imread(picture))[..., :3].mean(axis=2)
    assert np.median(brightness) < 0.2 if dark else np.median(brightness) > 0.8
    contrast = brightness.max() - brightness.min()
    assert contrast > 0.7
