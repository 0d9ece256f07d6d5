"""MkDocs hooks: the parts of the documentation site besides the pages in docs/.

The README, CONTRIBUTING and CHANGELOG become pages, the shipped reports are copied into the site,
and the tables of algorithms come from the registry. Links are written for the repository; here they
become links within the site, or to the repository's host for other files.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from gpubench import registry

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
REPORTS = "reports"  # a folder of the repository and of the site, with one folder per machine
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
TABLE = re.compile(r"^<!-- algorithms: ([a-z-]+) -->$", re.MULTILINE)
# A script that the theme loads from the network, and our copy of it.
SHIM, OWN_SHIM = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the repository's root, and the reports."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "report.md", content="".join(_list_of_reports())))
    for path in sorted((ROOT / REPORTS).glob("nvidia-*/**/*")):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix != ".md":
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Fill in the tables of algorithms, and convert links to those of the site."""
    markdown = TABLE.sub(lambda found: _table(found[1]), markdown)
    return LINK.sub(lambda found: _link(found, page.file.src_uri, config), markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Load the script for searching without a server from the site itself."""
    return output.replace(SHIM, posixpath.relpath(OWN_SHIM, posixpath.dirname(page.url) or "."))


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """Do the same on the error page, which has no path of its own."""
    return output_content.replace(SHIM, f"/{OWN_SHIM}")


def _list_of_reports() -> Iterator[str]:
    """Yield the lines of a page that links to each page of each report."""
    yield "# Reports\n\nEvery measurement with its interval, machine by machine.\n"
    for folder in sorted((ROOT / REPORTS).glob("nvidia-*")):
        yield f"\n## {folder.name}\n\n"
        pages = sorted(folder.glob("*.html"), key=lambda path: (path.stem != "index", path.stem))
        for path in pages:
            found = TITLE.search(path.read_text(encoding="utf-8"))
            title = html.unescape(found[1]).split(" \N{MIDDLE DOT} ")[0] if found else path.stem
            yield f"- [{title}]({REPORTS}/{folder.name}/{path.name})\n"


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


def _link(found: re.Match[str], page: str, config: MkDocsConfig) -> str:
    """Convert a link in a page to a link of the site.

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
    elif path.startswith(f"{REPORTS}/") and (ROOT / path).is_file():
        inside = path
    else:
        return f"[{text}]({_elsewhere(path, config)}{anchor})" if config.repo_url else text
    return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"


def _elsewhere(path: str, config: MkDocsConfig) -> str:
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{str(config.repo_url).rstrip('/')}/{kind}/{config.extra['revision']}/{path}"
