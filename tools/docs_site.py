"""Hooks of MkDocs: what the documentation site has beside the pages in docs/.

The README, CONTRIBUTING and CHANGELOG become pages, the shipped report is copied into the site, the
tables of algorithms come from the registry, verdicts on claims and times of lessons from shipped
records. Links are written for the repository; here they are turned into links of the site, and into
links of the repository's host for other files. A page's heading is its title, and its first
paragraph what search engines show of it.
"""

from __future__ import annotations

import html
import posixpath
import re
import shutil
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from gpubench import registry
from gpubench.base.markdown import escaped
from gpubench.evidence.files import load_results
from gpubench.evidence.ranking import Variant
from gpubench.report import claims, formats, vega
from gpubench.report.axes import describe
from gpubench.report.cells import MeasurementRow
from gpubench.report.figures import BarChart, StackedBar
from gpubench.report.machines import Machine, machines
from gpubench.studies.claims import OWED
from gpubench.studies.study import load_study

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
REPORT = "reports/shipped"  # a folder of the repository and of the site
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
TABLE = re.compile(r"^<!-- algorithms: ([a-z-]+) -->$", re.MULTILINE)
FILE = re.compile(r"^<!-- file: (\S+)\.(\w+) -->$", re.MULTILINE)
CLAIMS = re.compile(r"^<!-- claims: (.+) -->$", re.MULTILINE)
LESSON = re.compile(r"^<!-- lessons: ([a-z-]+) -->$", re.MULTILINE)
# What the theme loads from elsewhere, and our copy of it.
SHIM, OWN_SHIM = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
SHOWN = 160  # characters that search engines show of a page's description


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the repository's root, and the report."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "report.md", content="".join(_pages_of_the_report())))
    for path in sorted((ROOT / REPORT).rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix != ".md":  # which would become a page of the site
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Copy the report's tables in Markdown, to which its pages link."""
    shutil.copy(ROOT / REPORT / "report.md", Path(config.site_dir) / REPORT)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Fill in algorithms, claims, lessons, files; make links lead to where things are there."""
    markdown = TABLE.sub(lambda found: _table(found[1]), markdown)
    markdown = CLAIMS.sub(lambda found: told(_measured(), found[1]), markdown)
    markdown = LESSON.sub(lambda found: ladder(_measured(), found[1]), markdown)
    markdown = FILE.sub(lambda found: _code(*found.groups()), markdown)
    return LINK.sub(lambda found: _link(found, page.file.src_uri, config), markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Give the page a title and a description of its own; the navigation has shorter titles."""
    page.meta["title"] = config.site_description if page.is_homepage else page.toc.items[0].title
    texts = (html.unescape(re.sub(r"<[^>]*>", "", each)) for each in PARAGRAPH.findall(content))
    first = next(filter(str.strip, texts), None)
    if first is None:
        raise ValueError(f"{page.file.src_uri} has no paragraph that says what it is about")
    page.meta["description"] = textwrap.shorten(first, SHOWN, placeholder=" ...")
    return content


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Load the script that the search needs without a server from the site itself."""
    return output.replace(SHIM, posixpath.relpath(OWN_SHIM, posixpath.dirname(page.url) or "."))


def on_post_template(output_content: str, config: MkDocsConfig, **_: Any) -> str:
    """Do so on the page of a wrong address as well, which has no place of its own."""
    base = urlsplit(config.site_url or "").path.rstrip("/")
    return output_content.replace(SHIM, f"{base}/{OWN_SHIM}")


def _pages_of_the_report() -> Iterator[str]:
    """Yield a page with a link to each page of the report. Raises ValueError where it has none."""
    pages = sorted((ROOT / REPORT).glob("*.html"), key=lambda path: (path.stem != "index", path))
    if not pages:
        raise ValueError(f"{REPORT} holds no page of a report")
    yield "# Measured: the fastest GPU neighbour searches and sorts\n\n"
    yield "Every measurement that ships with gpubench, with its interval and machine: maps of the"
    yield " fastest neighbour search, libraries, sorts of keys, tables of papers.\n\n"
    for path in pages:
        found = TITLE.search(path.read_text(encoding="utf-8"))
        title = html.unescape(found[1]).split(" \N{MIDDLE DOT} ")[0] if found else path.stem
        yield f"- [{title}]({REPORT}/{path.name})\n"


@cache
def _measured() -> list[Machine]:
    return machines(load_results([ROOT / "results/measured"]))


def told(measured: list[Machine], card: str) -> str:
    """Return all claims, by paper, with the verdicts and tests of a card as Markdown.

    Claims that are owed on it have those of the first other card that has a verdict.
    """
    known = claims.studies()
    judged = [(machine.device.name, claims.judge(machine, known)) for machine in measured]
    own = next((found for name, found in judged if name == card), None)
    if own is None:
        raise ValueError(f"no results of {card} ship")
    others = [each for each in judged if each[1] is not own]
    lines = [f"**{claims.summary(own)}**"]
    paper = ""
    for index, each in enumerate(own):
        if each.paper != paper:
            paper = each.paper
            lines.append(f"## {paper}")
        elsewhere = claims.elsewhere(index, others) if each.verdict.word == OWED else None
        lines += [
            f"### {escaped(each.claim.says)}",
            f"{escaped(each.claim.where)}; published: {escaped(each.claim.published)}.",
            f"Verdict: **{escaped(each.verdict)}**"
            + (f" (on {elsewhere[0]}: **{escaped(elsewhere[1].verdict)}**)." if elsewhere else "."),
            "\n".join(f"- {escaped(test)}" for test in _tests(elsewhere[1] if elsewhere else each)),
        ]
    return "\n\n".join(lines)


def _tests(judged: claims.Judged) -> list[str]:
    heads = {False: "", True: "Against today's best: "}
    return [f"{heads[which]}{test}" for which in heads for test in judged.of(which)]


def ladder(measured: list[Machine], name: str) -> str:
    """Return a chart and a table of each input on which a sweep of `lessons` was measured.

    Device time in the order of the steps, with the hardware counters of those that have them.
    """
    (sweep,) = (each for each in load_study("lessons").sweeps if each.name == name)
    steps = [Variant(each.algorithm, each.form) for each in sweep.subjects]
    parts = []
    for machine in measured:
        for run in (run for run in machine.studies if run.study.name == "lessons"):
            for place, cells in run.by_place.items():
                timed = {c.subject: c.modes["graph"] for c in cells if c.is_timed("graph")}
                if steps[0] in timed:
                    where = f"{machine.device.name}, {describe(place, ('particles', 'order'))}"
                    parts += _climbed(where, [timed[step] for step in steps if step in timed])
    return "\n\n".join(parts)


def _climbed(where: str, rows: list[MeasurementRow]) -> list[str]:
    first, shown, bars = rows[0], [], []
    counted = [*next(filter(None, (row.hardware for row in rows)), ())]
    for before, row in zip([first, *rows], rows, strict=False):
        # Of one bound for all, the least traffic of the problem.
        share = (
            formats.percent(first.bound * first.median_ms / row.median_ms) if first.bound else ""
        )
        time, gain = formats.significant(row.median_ms), before.median_ms / row.median_ms
        step = f"`{row.subject.form}`"
        read = [row.hardware.get(heading, "") for heading in counted]
        own = [f"{each:.3g}" if isinstance(each, float | int) else each for each in read]
        shown.append(
            [step, time, f"{row.low_ms:.3g} to {row.high_ms:.3g}", f"{gain:.2f}", share, *own]
        )
        bars.append(StackedBar(f"{row.subject.form}: {time} ms", {"device time": row.median_ms}))
    chart = BarChart("lesson", "Device time", "", "device time, ms", {where: bars})
    picture = "".join(vega.draw(chart).svg.splitlines())
    columns = ["Step", "ms", "95 % interval", "times faster than the step before", "of the bound"]
    return [f"**{where}**", f"<figure>{picture}</figure>", _rows([*columns, *counted], shown)]


def _rows(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, [":---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _table(family: str) -> str:
    """Return the algorithms of a problem as a Markdown table."""
    rows = ["| Algorithm | What it is | Variants | Source |", "| :--- | :--- | :--- | :--- |"]
    for name, cls in sorted(registry.algorithms().items()):
        if cls.family == family:
            forms = ", ".join(f"`{form}`" for form in cls.forms)
            rows.append(f"| `{name}` | {cls.summary} | {forms} | {cls.source} |")
    if len(rows) == 2:
        raise ValueError(f"no algorithm belongs to {family}")
    return "\n".join(rows)


def _code(name: str, suffix: str) -> str:
    """Return a file of the repository as a block of code."""
    text = (ROOT / f"{name}.{suffix}").read_text(encoding="utf-8")
    return f"```{suffix}\n{text}```"


def _link(found: re.Match[str], page: str, config: MkDocsConfig) -> str:
    """Return a link of a page as a link of the site.

    page: its path in the site; links are relative to its file in the repository.
    """
    text, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target or target.startswith("mailto:") or page == "report.md":
        return found[0]
    of_root = page in PAGES.values()
    folder = "" if of_root else posixpath.join("docs", posixpath.dirname(page))
    path = posixpath.normpath(posixpath.join(folder, target))
    if not (ROOT / path).exists():
        raise ValueError(f"{page} links to {target}, which is not in the repository")
    if path in PAGES:
        inside = PAGES[path]
    elif path.startswith("docs/"):
        inside = path.removeprefix("docs/")
    elif path.startswith(f"{REPORT}/") and (ROOT / path).is_file():
        inside = path
    else:
        return f"[{text}]({_elsewhere(path, config)}{anchor})" if config.repo_url else text
    return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"


def _elsewhere(path: str, config: MkDocsConfig) -> str:
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{str(config.repo_url).rstrip('/')}/{kind}/{config.extra['revision']}/{path}"
