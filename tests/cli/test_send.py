"""`gpubench send`: what was measured on another GPU, as files to contribute."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from report_pages import ENVIRONMENT, record
from typer.testing import CliRunner, Result

from gpubench.base.errors import UserError
from gpubench.cli.app import app
from gpubench.evidence.results import Store, load


def stored(folder: Path, **changes: object) -> Path:
    with Store.open(folder, "rozen2008-table1", ENVIRONMENT | changes) as store:
        store.add([record()])
    return store.path


def send(*words: object) -> Result:
    return CliRunner().invoke(app, ["send", *map(str, words)])


def test_results_are_sent_compressed_by_machine_with_date_commit_and_study(tmp_path: Path) -> None:
    own = stored(tmp_path / "local")
    out = tmp_path / "measured"
    path = out / "synthetic-gpu" / "2000-01-02-0123456-rozen2008-table1.json.gz"
    for _ in range(2):  # again changes nothing
        done = send(tmp_path / "local", "--out", out)
        assert (done.exit_code, done.stdout) == (0, f"{path}\n")
        assert gzip.decompress(path.read_bytes()) == own.read_bytes()
    assert load(path).environment == load(own).environment
    assert send(path, "--out", tmp_path / "other").exit_code == 0  # also of a compressed file
    assert (tmp_path / "other" / "synthetic-gpu" / path.name).read_bytes() == path.read_bytes()


def test_what_others_sent_is_never_replaced(tmp_path: Path) -> None:
    stored(tmp_path / "local")
    assert send(tmp_path / "local", "--out", tmp_path / "out").exit_code == 0
    stored(tmp_path / "other", copy_bandwidth_gb_s=1.0)
    done = send(tmp_path / "other", "--out", tmp_path / "out")
    assert isinstance(done.exception, UserError)
    assert "holds other results: give --out another folder" in str(done.exception)


def test_code_with_local_changes_is_not_sent(tmp_path: Path) -> None:
    stored(tmp_path / "clean")
    stored(tmp_path / "dirty", dirty=True)
    done = send(tmp_path / "clean", tmp_path / "dirty", "--out", tmp_path / "out")
    assert isinstance(done.exception, UserError)
    assert "local changes: commit them, and measure again" in str(done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["absent.json"], ["."]])
def test_without_results_it_says_how_to_make_some(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(send(*words).exception, UserError)
