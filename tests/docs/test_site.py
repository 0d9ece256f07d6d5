"""The documentation site: what it changes in pages and docstrings, and all its links."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
from msgspec.structs import replace
from report_pages import full_records, record, results

from gpubench.report.cells import COUNTERS
from gpubench.report.machines import machines

ROOT = Path(__file__).resolve().parents[2]
AT = "/gpubench/"  # the site's path on its host


@pytest.fixture
def tools(monkeypatch):
    pytest.importorskip("mkdocs", reason="needs the documentation site: pip install '.[docs]'")
    monkeypatch.syspath_prepend(ROOT / "tools")
    import docs_fields
    import docs_site

    yield SimpleNamespace(fields=docs_fields, site=docs_site)
    for name in ("docs_fields", "docs_site"):
        sys.modules.pop(name)


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("index.md", "[a](docs/choosing.md#it)", "[a](choosing.md#it)"),
        ("choosing.md", "[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("decisions/README.md", "[a](../sph.md#forces)", "[a](../sph.md#forces)"),
        ("comparing.md", "[a](../reports/shipped/index.html)",
         "[a](reports/shipped/index.html)"),
        ("kernels.md", "[a](../examples/tile-sort/README.md)",
         "[a](https://host/we/blob/main/examples/tile-sort/README.md)"),
        ("checks.md", "[a](../results/checks)", "[a](https://host/we/tree/main/results/checks)"),
        ("checks.md", "[a](https://b.c/d)", "[a](https://b.c/d)"),
    ],
)  # fmt: skip
def test_links_lead_to_where_things_are_on_the_site(tools, page, link, on_the_site):
    config = SimpleNamespace(repo_url="https://host/we/", extra={"revision": "main"})
    file = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert tools.site.on_page_markdown(link, file, config) == on_the_site


def test_a_link_to_nowhere_is_refused(tools):
    file = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    with pytest.raises(ValueError, match=r"index.md links to docs/nowhere.md"):
        tools.site.on_page_markdown("[a](docs/nowhere.md)", file, SimpleNamespace(repo_url=""))


def test_a_table_has_the_algorithms_of_its_problem(tools):
    file = SimpleNamespace(file=SimpleNamespace(src_uri="algorithms.md"))
    text = tools.site.on_page_markdown("<!-- algorithms: pair-noise -->", file, SimpleNamespace())
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:]] == [
        "`noise-philox`",
        "`noise-rozen`",
    ]


def test_claims_have_the_verdicts_and_figures_of_records(tools):
    """No figure of the page is written by hand: its own text has none."""
    found = machines([results(full_records())])
    text = tools.site.told(found, "Synthetic GPU")
    claim = text[text.index("### Sorting takes longer") :].split("###")[1]
    assert "Table 1; published: 206.15 ms at 1" in claim
    assert "Verdict: **true**." in claim
    assert re.search(r"^- the device ends the loop: 5\.28. \(.*\), graph.?: true$", claim, re.M)
    assert re.search(r"^- Against today's best: counting-sort.*: false$", claim, re.M)
    assert "Verdict: **owed**." in text
    with pytest.raises(ValueError, match="no results of another card"):
        tools.site.told(found, "another card")
    source = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
    assert tools.site.CLAIMS.search(source)
    assert re.findall(r"\d+", source.split("\n", 1)[1]) == ["95", "100", "80", "3"]


def test_of_two_machines_with_one_card_the_first_is_told_and_the_other_beside_it(tools):
    rounds = [
        record("bucket-sort", "host-loop", 2**20, n, outcome={"rounds": n + 5}) for n in (1, 16)
    ]
    found = machines([results(full_records()), results(rounds, "other.json", machine="other")])
    assert len({machine.device.name for machine in found}) == 1 < len(found)
    for measured, told in ((found, "true"), (found[::-1], "owed** (on Synthetic GPU: **true")):
        text = tools.site.told(measured, "Synthetic GPU")
        claim = text[text.index("### Sorting takes longer") :].split("###")[1]
        assert f"Verdict: **{told}**" in claim


def test_a_ladder_is_drawn_from_records_alone(tools):
    forms, about = ("two-atomics", "kept-rank", "shipped"), {"study": "lessons", "sweep": "sort"}
    climbed = [
        record("counting-sort-lesson", form, 2**20, median=ms, mode=mode, **about)
        for form, ms in zip(forms, (0.2, 0.1, 0.025), strict=True)
        for mode, ms in (("graph", ms), ("hot", 3 * ms))
    ]
    read = dict.fromkeys(["kernel_ns", *(name for name, _ in COUNTERS.values())], 2e6)
    climbed[0] = replace(climbed[0], counters=read)
    found = machines([results(climbed)])
    text = tools.site.ladder(found, "sort")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert [row[:2] for row in rows] == [
        ["`two-atomics`", "0.200"], ["`kept-rank`", "0.100"], ["`shipped`", "0.0250"],
    ]  # fmt: skip
    assert [row[3] for row in rows] == ["1.00", "2.00", "4.00"]
    shares = [float(row[4].removesuffix(" %")) for row in rows]
    assert shares[1] / shares[0] == pytest.approx(2, rel=0.01)
    assert shares[2] / shares[0] == pytest.approx(8, rel=0.01)
    assert text.count("<svg") == 1 and "kept-rank: 0.100 ms" in text
    (head,) = (line for line in text.splitlines() if line.startswith("| Step"))
    assert head.split(" | ")[7:9] == ["DRAM, MB", "L2, MB"] and rows[0][7:9] == ["2", "2"]
    assert tools.site.ladder(found, "count") == ""
    hot = [each for each in climbed if each.mode == "hot"]
    assert tools.site.ladder(machines([results(hot)]), "sort") == ""


def test_fields_of_a_docstring_become_a_list(tools):
    assert tools.fields.as_list(
        "Do it.\n\nkeys, values: int32,\n    sorted.\nn: many.\nThe end."
    ) == ("Do it.\n\n\n- `keys, values`: int32,\n    sorted.\n- `n`: many.\n\nThe end.")


class Site:
    """The built site: of each page its links, the places in it, its title and description."""

    def __init__(self, folder):
        self.folder = folder
        self.pages = {path: Read(path) for path in sorted(folder.rglob("*.html"))}

    def target(self, page, link):
        """Return the file and the anchor that a link of a page leads to."""
        split = urlsplit(link)
        path = unquote(split.path)
        if path.startswith(AT):  # of 404.html
            page, path = self.folder / "404.html", path.removeprefix(AT) or "."
        file = (page.parent / path).resolve() if path else page
        return file / "index.html" if file.is_dir() else file, unquote(split.fragment)


class Read(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.description = [], set(), None
        text = path.read_text(encoding="utf-8")
        self.title = text[text.index("<title>") : text.index("</title>")]
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        self.links += [has[name] for name in ("href", "src") if has.get(name)]
        self.anchors |= {has[name] for name in ("id", "name") if has.get(name)}
        if tag == "meta" and has.get("name") == "description":
            self.description = has["content"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the site that CI has built for this address, or build it."""
    if built := os.environ.get("GPUBENCH_BUILT_SITE"):
        return Site(ROOT / built)
    pytest.importorskip("mkdocs", reason="needs the documentation site: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    set_by_the_workflow = {
        "GPUBENCH_SITE": f"https://we.host{AT}",
        "GPUBENCH_REPOSITORY": "https://host/we",
        "NO_MKDOCS_2_WARNING": "1",
    }
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT, env=os.environ | set_by_the_workflow, check=True,
    )  # fmt: skip
    return Site(folder)


@pytest.mark.long
def test_every_link_of_the_site_leads_somewhere(site):
    dead = []
    for page, read in site.pages.items():
        for link in read.links:
            if urlsplit(link).scheme:  # elsewhere
                continue
            file, anchor = site.target(page, link)
            is_there = file in site.pages if file.suffix == ".html" else file.is_file()
            if not is_there or (anchor and anchor not in site.pages[file].anchors):
                dead.append((page.relative_to(site.folder).as_posix(), link))
    assert not dead
    assert site.folder / "reports/shipped/index.html" in site.pages


@pytest.mark.long
def test_the_site_has_the_map_and_all_pages_of_the_report(site):
    home = site.folder / "index.html"
    assert "pictures/fastest-count.svg" in site.pages[home].links
    maps = next(link for link in site.pages[home].links if link.endswith("regimes.html"))
    assert '"tiles":' in site.target(home, maps)[0].read_text(encoding="utf-8")
    listed = site.folder / "report.html"
    reports = {page for page in site.pages if page.parent == site.folder / "reports/shipped"}
    assert reports <= {site.target(listed, link)[0] for link in site.pages[listed].links}


@pytest.mark.long
def test_every_page_has_a_title_and_a_description_of_its_own(site):
    pages = {p: r for p, r in site.pages.items() if "reports" not in p.parts and p.stem != "404"}
    for texts in ([r.title for r in pages.values()], [r.description for r in pages.values()]):
        assert len({*texts}) == len(texts) and min(map(len, texts)) >= 20, sorted(texts, key=len)


@pytest.mark.long
def test_the_sitemap_lists_every_page(site):
    text = (site.folder / "sitemap.xml").read_text(encoding="utf-8")
    listed = {urlsplit(url).path for url in re.findall("<loc>(.*)</loc>", text)}
    pages = {p.relative_to(site.folder).as_posix() for p in site.pages if "reports" not in p.parts}
    assert listed == {AT + name for name in pages - {"404.html"}}
