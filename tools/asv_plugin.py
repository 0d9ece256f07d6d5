"""Changes to asv's behaviour in this project; asv.conf.json lists this file as a plugin.

- `asv publish` makes a site that opens from a folder, without a web server or network.
- Results from an existing environment name its Python version, not its path.
- Commits link to a page of the site, since the project has no web address.
- Without a history, commits can come from a folder: see tools/asv_history.py.
"""

from __future__ import annotations

import html
import importlib.resources
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asv.commands.publish import Publish
from asv.environment import ExistingEnvironment
from asv.publishing import OutputPublisher
from asv.repo import NoSuchNameError, Repo

LIBRARIES = Path(__file__).resolve().parent / "asv_site"
REMOTE = re.compile(
    r'<(script|link)\b[^>]*?\b(?:src|href)="https://[^"]*/([^"/]+\.(?:js|css))"[^>]*>'
)
FOLDER_SCRIPTS = '<script src="data.js"></script><script src="folder.js"></script>'


def setup() -> None:
    """Patch asv, which calls this once after reading its configuration."""
    stock = ExistingEnvironment.__init__

    def init(self: Any, *arguments: Any) -> None:
        stock(self, *arguments)
        self._python = _python_version(self._executable)

    ExistingEnvironment.__init__ = init
    ExistingEnvironment.name = property(lambda self: f"existing-py{self.python}")
    Publish.run = classmethod(_publish(Publish.run.__func__))


def _python_version(executable: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _publish(stock: Callable[..., Any]) -> Callable[..., Any]:
    def run(cls: Any, conf: Any, *arguments: Any, **options: Any) -> Any:
        status = stock(cls, conf, *arguments, **options)
        make_openable(Path(conf.html_dir))
        return status

    return run


def make_openable(site: Path) -> None:
    """Change a published asv site so that it opens from its folder, without a network.

    Its libraries are copied into it, and its data are also written as a script, which a page opened
    from a file may load. Raises ValueError for a missing library.
    """
    flot = importlib.resources.files("pympler") / "templates/jquery.flot.min.js"  # asv needs it
    local = {_unversioned(file.name): file for file in (*LIBRARIES.glob("*.*"), Path(str(flot)))}

    def take(match: re.Match[str]) -> str:
        tag, name = match[1], match[2]
        file = local.get(_unversioned(name))
        if file is None:
            raise ValueError(f"asv's page loads {name}, which tools/asv_site lacks")
        shutil.copy(file, site)
        if tag == "link":
            return f'<link rel="stylesheet" href="{file.name}">'
        return f'<script src="{file.name}">'

    index = site / "index.html"
    page = REMOTE.sub(take, index.read_text(encoding="utf-8"))
    own = page.index("<script", page.index("</script>", page.index("bootstrap.min.js")))
    index.write_text(page[:own] + FOLDER_SCRIPTS + page[own:], encoding="utf-8")
    shutil.copy(LIBRARIES / "folder.js", site)
    shutil.copy(LIBRARIES / "LICENSE.txt", site)
    data = {
        file.relative_to(site).as_posix(): json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(site.rglob("*.json"))
    }
    text = json.dumps(data, separators=(",", ":"))
    (site / "data.js").write_text(f"window.ASV_DATA={text};\n", encoding="utf-8")


def _unversioned(name: str) -> str:
    return re.sub(r"-[\d.]+(?=\.min|\.js)|\.min(?=\.)", "", name)


class Commits(OutputPublisher):  # type: ignore[misc]  # asv has no types
    """The page `commits.html`, the target of asv's links to commits (`show_commit_url`)."""

    name = "commits"
    button_label = "Commits"
    description = "What was measured"

    @classmethod
    def publish(
        cls, conf: Any, repo: Any, benchmarks: Any, graphs: Any, revisions: dict[str, int]
    ) -> None:
        """Write the page: hash, date, and subject of each commit, newest first."""
        rows = ""
        for commit in sorted(revisions, key=lambda each: -revisions[each]):
            short = commit[: conf.hash_length]  # asv's links end with it
            shown = ["git", "-C", conf.repo, "show", "-s", "--format=%cs%n%s", commit]
            done = subprocess.run(shown, capture_output=True, text=True, check=True)
            date, subject = done.stdout.splitlines()[:2]
            rows += (
                f'<tr id="{short}"><td><code>{short}</code></td>'
                f"<td>{date}</td><td>{html.escape(subject)}</td></tr>\n"
            )
        (Path(conf.html_dir) / "commits.html").write_text(
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Commits</title>'
            "<style>body{font:16px sans-serif;margin:2em}td{padding:.2em 1em .2em 0}"
            "tr:target{background:#fe9}</style></head><body><h1>Commits that were measured</h1>"
            f"<table>\n{rows}</table></body></html>\n",
            encoding="utf-8",
        )


class CommitsInFolder(Repo):  # type: ignore[misc]
    """Hashes and dates of commits from `commits.json` in a folder, instead of a repository.

    Enough for `asv run --python=same --set-commit-hash`.
    """

    dvcs = "folder"

    def __init__(self, url: str, mirror_path: str) -> None:
        self._dates: dict[str, int] = json.loads((Path(url) / "commits.json").read_text())

    def pull(self) -> None:
        """Do nothing."""

    def get_hash_from_name(self, name: str) -> str:
        """Return the name, which must be a whole hash."""
        if name not in self._dates:
            raise NoSuchNameError(name)
        return name

    def get_name_from_hash(self, commit: str) -> None:
        """Return None: no commit has a name here."""

    def get_date(self, commit: str) -> int:
        """Return its author date, in milliseconds since 1970."""
        return 1000 * self._dates[commit]
