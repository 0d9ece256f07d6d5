"""The report in headless Chromium: what a reader's browser makes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import calibrations
import needs
import numpy as np
import pytest
from browser import CHROMIUM, chromium
from check_pages import GROWTH, PRESSURE, a_check, found
from matplotlib import image
from PIL import Image
from report_pages import STUDY, cpu_results, full_records, record, results
from simulation_pages import account

from gpubench import report
from gpubench.report.sources import sort_out

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
    pytest.mark.skipif(CHROMIUM is None, reason=needs.reason("Chromium")),
]


PAGES = ("index", STUDY, f"{STUDY}-measurements", "simulations", "checks", "calibration")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report with pages of every kind, on two machines."""
    out = tmp_path_factory.mktemp("report")
    odd = [record(per_cell=p, order="cell", remarks=["drift: slower by 3 %"]) for p in range(1, 20)]
    measured = [results([*full_records(), *odd]), cpu_results()]
    simulation = tmp_path_factory.mktemp("simulation") / "simulation.json"
    simulation.write_text(json.dumps(account()), encoding="utf-8")
    Image.new("RGB", (1600, 900), (0, 114, 178)).save(simulation.with_name("panel.png"))
    checks = [found(a_check(PRESSURE, figures=[GROWTH]))]
    name = "a-study/cells: counting-sort reorder, particles=1048576, per_cell=4, uniform, hot"
    calibrated = [calibrations.calibration({name: calibrations.pairs(14, 0.02)})]
    report.write(measured, out, sort_out([simulation]).simulations, checks, calibrated)
    return out


# Each look at a page starts a browser: the other pages are built from the same template.
EVERY_PAGE = [
    name if name == "index" else pytest.param(name, marks=pytest.mark.long) for name in PAGES
]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_nothing_but_tables_is_wider_than_the_screen(
    name: str, width: int, pages: Path, tmp_path: Path
) -> None:
    probed = tmp_path / "probed.html"
    html = (pages / f"{name}.html").read_text(encoding="utf-8")
    html = html.replace("<details>", "<details open>").replace("</body>", f"{PROBE}</body>")
    probed.write_text(html, encoding="utf-8")
    dumped = chromium(tmp_path, probed, width, "--dump-dom")
    title = re.search("<title>(.*?)</title>", dumped)
    assert title is not None
    assert title[1] == '{"overflow":0,"wide":[]}'


@pytest.mark.parametrize(("flags", "dark"), [((), False), ((DARK,), True)], ids=["light", "dark"])
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_page_follows_the_colour_scheme(
    name: str, flags: tuple[str, ...], dark: bool, pages: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "page.png"
    chromium(tmp_path, pages / f"{name}.html", 1280, f"--screenshot={picture}", *flags)
    brightness = np.asarray(image.imread(picture))[..., :3].mean(axis=2)
    assert np.median(brightness) < 0.2 if dark else np.median(brightness) > 0.8
    contrast = brightness.max() - brightness.min()
    assert contrast > 0.7


@pytest.mark.long
def test_the_front_page_opens_from_a_folder_and_leads_to_every_page(
    pages: Path, tmp_path: Path
) -> None:
    dumped = chromium(tmp_path, pages / "index.html", 1280, "--dump-dom")
    assert "What was found" in dumped and "atomic-list is fastest" in dumped
    led_to = set(re.findall(r'href="([a-z0-9-]+\.html)', dumped))
    assert led_to == {f"{STUDY}.html", "simulations.html", "checks.html", "calibration.html"}
    for name in led_to:
        there = chromium(tmp_path, pages / name, 1280, "--dump-dom")
        assert 'href="index.html"' in there and "<h1>" in there
