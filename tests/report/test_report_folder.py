"""A report replaces and removes files of its own, and no others."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from limits import no_file_longer_than
from report_pages import record, results

from gpubench import report
from gpubench.base.errors import UserError
from gpubench.base.writing import Lock
from gpubench.report.folder import MANIFEST, _own, replace
from gpubench.report.sources import Sources

SHIPPED = Path(__file__).parents[2] / "reports"
INDEX = '<meta name="generator" content="gpubench 0.1.0">'
MINE = ("mine.html", "mine.csv", "figures/notes.txt", "figures/mine.svg", "figures/mine.png")


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_what_an_earlier_report_left_is_removed(tmp_path: Path) -> None:
    replace(tmp_path, dict.fromkeys(["index.html", "old.html", "figures/old-0.svg"], INDEX))
    for name in MINE:
        (tmp_path / name).write_text("mine", encoding="utf-8")
    later = ["index.html", "new.html", "figures/new-0.svg"]
    replace(tmp_path, dict.fromkeys(later, INDEX))
    left = content(tmp_path)
    assert left.keys() == {*MINE, *later, MANIFEST}
    assert {left[name] for name in MINE} == {b"mine"}
    assert left[MANIFEST].decode().splitlines()[1:] == sorted(later)


def test_every_file_of_a_shipped_report_is_known_as_its_own() -> None:
    shipped = [*SHIPPED.glob("*/index.html")]
    assert shipped
    for index in shipped:
        assert content(index.parent).keys() - {MANIFEST} <= _own(index.parent)


@pytest.mark.parametrize("name", ["index.html", "report.md", MANIFEST, "figures/a-0.svg"])
@pytest.mark.parametrize("is_report", [False, True])
def test_a_file_of_somebody_else_is_not_written_over(
    tmp_path: Path, name: str, is_report: bool
) -> None:
    if is_report:
        replace(tmp_path, {"index.html": INDEX})
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('<a href="mine.html">', encoding="utf-8")
    before = content(tmp_path)
    with pytest.raises(UserError, match=rf"{name} is not a report's: give --out another folder"):
        replace(tmp_path, {"index.html": INDEX, "report.md": "text", "figures/a-0.svg": "figure"})
    assert content(tmp_path) == before


def test_a_front_page_of_somebody_else_is_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("mine", encoding="utf-8")
    monkeypatch.setattr(report.document, "build", None)
    with pytest.raises(UserError, match=r"index\.html is not a report's"):
        report.write(Sources([results([record()])]), tmp_path)


def test_a_manifest_leads_to_nothing_outside_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "mine.txt"
    outside.write_text("mine")
    folder = tmp_path / "folder"
    replace(folder, {"index.html": INDEX, "old.html": INDEX})
    with (folder / MANIFEST).open("a") as manifest:
        manifest.write(f"../mine.txt\nfigures/../../mine.txt\n{outside}\n")
    replace(folder, {"index.html": INDEX})
    assert outside.exists() and content(folder).keys() == {"index.html", MANIFEST}


def test_a_full_disk_leaves_the_earlier_files_whole(tmp_path: Path) -> None:
    earlier = {"index.html": INDEX, "old.html": INDEX}
    replace(tmp_path, earlier)
    later = {"new.html": INDEX, "index.html": INDEX + 5000 * " "}
    full = pytest.raises(UserError, match=r"cannot write .*index\.html: File too large")
    with full, no_file_longer_than(4096):
        replace(tmp_path, later)
    assert content(tmp_path).keys() == {*earlier, "new.html", MANIFEST}
    assert (tmp_path / "index.html").read_text() == INDEX
    replace(tmp_path, later)  # room again
    assert content(tmp_path).keys() == {*later, MANIFEST}


def test_reports_that_are_made_at_the_same_time_take_turns(tmp_path: Path) -> None:
    pages = [{"index.html": f"{INDEX}{n}", f"{n}.html": INDEX} for n in range(3)]
    with Lock(tmp_path / ".report.lock"):
        threads = [threading.Thread(target=replace, args=(tmp_path, files)) for files in pages]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    left = content(tmp_path)
    del left[MANIFEST]
    assert left in [{name: text.encode() for name, text in files.items()} for files in pages]
