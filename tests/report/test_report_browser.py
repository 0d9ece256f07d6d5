"""The report in headless Chromium: what a reader's browser makes of it."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import calibrations
import needs
import numpy as np
import pytest
from browser import CHROMIUM, chromium, layout
from check_pages import GROWTH, PRESSURE, a_check, found
from fluid_steps import SUBJECTS, every_record, step
from matplotlib import image
from PIL import Image
from regime_records import grid, spread
from report_pages import STUDY, cpu_results, full_records, record, results
from simulation_pages import account

from gpubench import report
from gpubench.report.sources import Sources, sort_out

DRAWN = "--virtual-time-budget=10000"  # until all charts are drawn
DARK = "--blink-settings=preferredColorScheme=0"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason=needs.reason("Chromium")),
]


PAGES = ("index", STUDY, "silva2012-table1", "claims", "simulations", "checks", "calibration")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report with pages of every kind, on two machines."""
    out = tmp_path_factory.mktemp("report")
    many = [record(median=p, parameters={"parts": p}) for p in range(1, 20)]
    euler = [
        step(*subject, size, workload="sph-silva2012", time_step=0.125)
        for subject in SUBJECTS
        for size in (128000, 1024000)
    ]
    measured = [results([*full_records(), *many, *every_record(), *euler]), cpu_results()]
    simulated = [tmp_path_factory.mktemp("simulation") / "simulation.json" for _ in range(3)]
    for number, simulation in enumerate(simulated):
        other = {"machine": "other", "device_name": "Other"} if number == 2 else {}
        simulation.write_text(json.dumps(account(**other)), encoding="utf-8")
        Image.new("RGB", (1600, 900), (0, 114, 178)).save(simulation.with_name("panel.png"))
    checks = [found(a_check(PRESSURE, figures=[GROWTH]))]
    name = "a-study/cells: counting-sort reorder, particles=1048576, per_cell=4, uniform, hot"
    calibrated = [calibrations.calibration({name: calibrations.pairs(14, 0.02)})]
    report.write(Sources(measured, sort_out(simulated).simulations, checks, calibrated), out)
    return out


@pytest.fixture(scope="module")
def maps_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report that answers, with maps of several kinds of input."""
    out = tmp_path_factory.mktemp("maps")
    report.write(Sources([results([*grid(), *spread(16)])]), out)
    return out


def told(folder: Path, page: str, width: int, script: str, profile: Path) -> Any:
    """Return what a script leaves in `told` on a page whose charts are drawn.

    The script may wait; `at(element, kind)` sends an event to the middle of an element.
    """
    probe = f"""<script>{{
    const at = (element, ...kinds) => {{
      const box = element.getBoundingClientRect();
      const [clientX, clientY] = [box.x + box.width / 2, box.y + box.height / 2];
      const place = {{bubbles: true, clientX, clientY}};
      for (const kind of kinds) element.dispatchEvent(new PointerEvent(kind, place));
    }};
    const wait = (ms) => new Promise((done) => setTimeout(done, ms));
    addEventListener("load", async () => {{
      await wait(4000);
      const told = {{}};
      {script}
      document.title = JSON.stringify(told);
    }});
    }}</script></body>"""
    probed = folder / f"probed-{profile.name}.html"
    html = (folder / page).read_text(encoding="utf-8")
    probed.write_text(html.replace("</body>", probe), encoding="utf-8")
    dumped = chromium(profile, probed, width, "--dump-dom", DRAWN)
    title = re.search("<title>(.*?)</title>", dumped)
    assert title is not None
    return json.loads(unescape(title[1]))


def test_a_map_tells_on_hover_picks_by_its_legend_and_switches(
    maps_folder: Path, tmp_path: Path
) -> None:
    found = told(
        maps_folder,
        "index.html",
        1400,
        """
        const figure = document.querySelector(".half figure:has(.chart)");
        const tiles = () => [...figure.querySelectorAll(".mark-rect path")];
        const faint = () => tiles().filter((tile) => +tile.getAttribute("opacity") < 0.5).length;
        told.bottom = figure.getBoundingClientRect().bottom;
        told.tiles = tiles().length;
        at(tiles()[0], "pointerover", "pointermove", "mousemove");
        await wait(300);
        told.hover = document.querySelector("#vg-tooltip-element")?.innerText;
        at(tiles()[0], "pointerdown", "pointerup", "click");
        await wait(300);
        told.command = figure.querySelector("output").textContent;
        told.faintBefore = faint();
        at(figure.querySelector(".role-legend-symbol path"), "pointerdown", "pointerup", "click");
        await wait(300);
        told.faintPicked = faint();
        const choice = figure.querySelector("select");
        told.choices = choice.options.length;
        choice.selectedIndex = 1;
        choice.dispatchEvent(new Event("input", {bubbles: true}));
        choice.dispatchEvent(new Event("change", {bubbles: true}));
        await wait(300);
        told.tilesOfOther = tiles().length;
        """,
        tmp_path,
    )
    assert found["bottom"] <= 900
    assert found["tiles"] > 40 and found["choices"] == 9
    for words in ("median", "95 % interval", "of copy bandwidth", "gpubench run regimes"):
        assert words in found["hover"]
    assert found["command"].startswith("gpubench run regimes --device cuda --algorithms ")
    assert found["faintBefore"] == 0 < found["faintPicked"] < found["tiles"]
    assert 0 < found["tilesOfOther"] < found["tiles"]


def test_a_point_of_a_line_tells_its_interval_bound_and_command(
    pages: Path, tmp_path: Path
) -> None:
    found = told(
        pages,
        f"{STUDY}.html",
        1400,
        """
        const figure = document.querySelector("figure:has(.chart)");
        const point = figure.querySelector(".mark-symbol.role-mark path");
        at(point, "pointerover", "pointermove", "mousemove");
        await wait(300);
        told.hover = document.querySelector("#vg-tooltip-element")?.innerText;
        at(point, "pointerdown", "pointerup", "click");
        await wait(300);
        told.command = figure.querySelector("output").textContent;
        """,
        tmp_path,
    )
    for words in (
        "median device time, ms",
        "95 % interval",
        " to ",
        "of copy bandwidth",
        "to repeat",
    ):
        assert words in found["hover"]
    assert found["command"].startswith(f"gpubench run {STUDY} --device ")
    assert found["command"] in " ".join(found["hover"].split())


def test_claims_sort_by_paper_and_verdict_beside_a_bar_for_each(
    pages: Path, tmp_path: Path
) -> None:
    found = told(
        pages,
        "claims.html",
        1400,
        """
        const table = document.querySelector("section:not([hidden]) table");
        const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
        for (const name of ["Source", "Verdict"]) {
          const column = heads.indexOf(name);
          table.tHead.rows[0].cells[column].querySelector("button").click();
          told[name] = [...table.tBodies[0].rows].map((row) => row.cells[column].textContent);
        }
        told.bars = document.querySelectorAll("section:not([hidden]) .mark-rect path").length;
        """,
        tmp_path,
    )
    assert (
        found["Source"] == sorted(found["Source"], key=str.casefold) and len(found["Source"]) > 25
    )
    verdicts = [text.partition(" ")[0] for text in found["Verdict"]]
    assert verdicts == sorted(verdicts) and {"owed", "true"} <= {*verdicts}
    assert found["bars"] >= 6  # published alone, where nothing of it is measured


def test_labels_of_published_speed_ups_are_whole_on_a_phone(pages: Path, tmp_path: Path) -> None:
    found = told(
        pages,
        "claims.html",
        1400,
        """
        document.body.style.width = "390px";  // a headless window is wider
        dispatchEvent(new Event("resize"));
        await wait(1000);
        const figure = document.querySelector("section:not([hidden]) figure:has(.chart)");
        const drawn = figure.querySelector("svg");
        told.width = drawn.getBoundingClientRect().width;
        told.labels = [...figure.querySelectorAll(".role-axis-label text")]
          .map((label) => [...label.querySelectorAll("tspan")].map((line) => line.textContent));
        """,
        tmp_path,
    )
    assert 300 < found["width"] <= 390
    assert ["Rozen 2008", "bucket sort over GPUSort"] in found["labels"]
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(map("".join, found["labels"]))


def test_tables_sort_by_their_headings_and_filter(pages: Path, tmp_path: Path) -> None:
    found = told(
        pages,
        f"{STUDY}.html",
        1400,
        """
        const table = document.querySelector("table[aria-label='4 per cell: ms by particles']");
        const heads = [...[...table.tHead.rows].at(-1).cells].map((cell) => cell.textContent);
        const median = heads.indexOf("2¹⁶");
        const values = () => [...table.tBodies[0].rows]
          .map((row) => parseFloat(row.cells[median].firstChild.textContent.replaceAll(",", "")));
        const button = [...table.tHead.rows].at(-1).cells[median].querySelector("button");
        button.click();
        told.up = values();
        button.click();
        told.down = values();
        told.sorted = button.closest("th").ariaSort;
        const box = table.closest(".scroll").previousElementSibling;
        box.value = "atomic-list parts=9";
        box.dispatchEvent(new Event("input"));
        const shown = [...table.tBodies[0].rows].filter((row) => !row.hidden);
        told.all = shown.every((row) => row.textContent.includes("atomic-list"));
        told.shown = shown.length;
        """,
        tmp_path,
    )
    up = [value for value in found["up"] if value is not None]
    down = [value for value in found["down"] if value is not None]
    assert up == sorted(up) and down == sorted(down, reverse=True)
    assert found["up"][: len(up)] == up and found["down"][: len(down)] == down
    assert found["sorted"] == "descending"
    assert found["all"] and 0 < found["shown"] < len(found["up"])


def test_every_page_fits_both_widths_in_each_state_of_its_selects(
    pages: Path, maps_folder: Path, tmp_path: Path
) -> None:
    for folder, least in ((pages, 60), (maps_folder, 40)):
        names = sorted(page.name for page in folder.glob("*.html") if "probed" not in page.name)
        found = layout(folder, names, (390, 1400), tmp_path)
        assert found["faults"] == []
        assert found["pages"] == 2 * len(names) and found["states"] > least


def test_one_machine_is_shown_at_a_time_that_of_the_address_first(
    pages: Path, tmp_path: Path
) -> None:
    html = (pages / f"{STUDY}.html").read_text("utf-8")
    places = re.findall(r'<li><a href="#([^"]+)', html)  # which lead there without a script
    assert len(places) == 2 and all(f'id="{place}"' in html for place in places)
    found = told(
        pages,
        f"{STUDY}.html",
        1400,
        f"""
        const shown = () => [...new Set([...document.querySelectorAll("section[data-machine]")]
          .filter((each) => !each.hidden).map((each) => each.dataset.machine))];
        told.first = shown();
        location.hash = "{places[1]}";
        await wait(300);
        told.second = shown();
        const choice = document.querySelector("header select");
        told.choices = [...choice.options].map((each) => each.text);
        told.chosen = choice.value;
        choice.selectedIndex = 0;
        choice.dispatchEvent(new Event("change"));
        told.last = shown();
        """,
        tmp_path,
    )
    first, second = found["choices"]
    assert first == "Synthetic GPU, CUDA, on 2000-01-02, commit 0123456"
    assert second.startswith("Synthetic CPU, OpenCL, ")
    assert (found["first"], found["second"], found["last"]) == ([first], [second], [first])
    assert found["chosen"] == second


def test_contents_and_notes_are_those_of_the_machine_that_is_shown(
    pages: Path, tmp_path: Path
) -> None:
    """On the page of simulations, whose machines have their own, as on all others."""
    found = told(
        pages,
        "simulations.html",
        1400,
        """
        const seen = (what) => [...document.querySelectorAll(what)]
          .filter((each) => each.getClientRects().length).map((each) => each.textContent);
        const look = () => [seen("h2").length, seen("nav li").length, seen(".notes").length];
        told.first = look();
        const choice = document.querySelector("header select");
        told.choices = choice.length;
        choice.selectedIndex = 1;
        choice.dispatchEvent(new Event("change"));
        told.second = look();
        """,
        tmp_path,
    )
    # A list of one is none.
    assert (found["choices"], found["first"], found["second"]) == (2, [2, 2, 1], [1, 0, 1])


# Each look at a page starts a browser: the other pages are built from the same template.
EVERY_PAGE = [
    name if name == "index" else pytest.param(name, marks=pytest.mark.thorough) for name in PAGES
]


@pytest.mark.parametrize(("flags", "dark"), [((), False), ((DARK,), True)], ids=["light", "dark"])
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_page_follows_the_colour_scheme(
    name: str, flags: tuple[str, ...], dark: bool, pages: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "page.png"
    chromium(tmp_path, pages / f"{name}.html", 1280, f"--screenshot={picture}", DRAWN, *flags)
    brightness = np.asarray(image.imread(picture))[..., :3].mean(axis=2)
    assert np.median(brightness) < 0.2 if dark else np.median(brightness) > 0.8
    contrast = brightness.max() - brightness.min()
    assert contrast > 0.7


def test_the_front_page_opens_from_a_folder_and_leads_to_every_page(
    pages: Path, tmp_path: Path
) -> None:
    dumped = chromium(tmp_path, pages / "index.html", 1280, "--dump-dom")
    assert "The papers' tables" in dumped and "For linked lists take atomic-list" in dumped
    led_to = set(re.findall(r'href="([a-z0-9-]+\.html)', dumped))
    assert led_to == {f"{name}.html" for name in PAGES if name != "index"}
    for name in led_to:
        there = chromium(tmp_path, pages / name, 1280, "--dump-dom")
        assert 'href="index.html"' in there and "<h1>" in there
