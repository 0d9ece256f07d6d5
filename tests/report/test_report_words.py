"""How much a reader has to read: words of the pages on all shipped results, and their sizes."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import needs
import pytest
from browser import CHROMIUM, layout

from gpubench import report
from gpubench.base import paths
from gpubench.evidence.results import Results
from gpubench.report.sources import sort_out

FRONT, BEFORE, MOST = 400, 150, 1300  # words on the front page, before a figure, on any page
MOST_BYTES = 400_000  # for each machine on a page
BESIDE = ("simulations", "checks", "calibration")


class Words(HTMLParser):
    """Count the words that stand outside of tables: all, and those before the first figure.

    What a page has no figure for begins with its first table.
    """

    unread = frozenset({"table", "svg", "script", "style", "title", "pre", "code"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.all = 0
        self.before: int | None = None
        self._within = 0
        has_figure = "<figure" in html
        self._begins = "figcaption" if has_figure else "table"
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == self._begins and self.before is None:
            self.before = self.all
        self._within += tag in self.unread

    def handle_endtag(self, tag: str) -> None:
        self._within -= tag in self.unread

    def handle_data(self, data: str) -> None:
        self.all += 0 if self._within else len(data.split())


def test_words_are_counted_outside_of_tables_and_before_the_figure() -> None:
    found = Words("<p>one two</p><table><tr><td>not</td></tr></table><figure><figcaption>three")
    assert (found.all, found.before) == (3, 2)
    assert Words("<p>one</p><code>not</code><table></table>two").before == 1


def of_one_machine(html: str) -> str:
    """Leave out the sections of all machines but the first, which a page shows one at a time."""
    first, *others = re.findall(r'<section data-machine="([^"]*)"', html) or [""]
    for other in {*others} - {first}:
        section = rf'<section data-machine="{re.escape(other)}".*?</section>'
        html = re.sub(section, "", html, flags=re.DOTALL)
    return html


def machines(html: str) -> int:
    """Count the machines of a study's page: each links to how it was timed."""
    return html.count("#method")


@pytest.mark.long
def test_pages_on_all_shipped_results(shipped_results: list[Results], tmp_path: Path) -> None:
    """One test, so that the report is drawn once: two workers would draw it twice."""
    root = paths.repository()
    if root is None:
        pytest.skip("needs a checkout")
    found = sort_out([root / "results" / name for name in BESIDE])
    out = tmp_path / "shipped"
    report.write(found._replace(results=shipped_results), out)
    pages = {path.name: path.read_text(encoding="utf-8") for path in out.glob("*.html")}
    are_short(pages)
    answers_for_the_gpu_first(pages["index.html"])
    assert (out / "gpubench.js").stat().st_size < 1_000_000
    if CHROMIUM is None:
        pytest.skip(needs.reason("Chromium"))
    fits = layout(out, sorted(pages), (390, 1400), tmp_path)
    assert fits["faults"] == [] and fits["pages"] == 2 * len(pages)


def are_short(pages: dict[str, str]) -> None:
    counted = {name: Words(of_one_machine(html)) for name, html in pages.items()}
    assert counted["index.html"].all <= FRONT
    assert {n: w.all for n, w in counted.items() if w.all > MOST} == {}
    assert {n: w.before for n, w in counted.items() if (w.before or 0) > BEFORE} == {}
    sizes = {n: len(html.encode()) / max(1, machines(html)) for n, html in pages.items()}
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}


def answers_for_the_gpu_first(html: str) -> None:
    answers = html.partition("<h2>Studies")[0]
    assert answers.count('class="half"') == answers.count('<p class="verdict">Take ') == 2
    assert "CPU times" not in answers
