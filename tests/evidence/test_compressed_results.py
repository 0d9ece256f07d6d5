"""Results that are compressed: the same output as of plain ones, never continued, never trusted."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import compare_results as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench import report
from gpubench.base.errors import UserError
from gpubench.compare import output, procedure
from gpubench.evidence import bounds, calibration
from gpubench.evidence.files import load_results
from gpubench.evidence.frame import frame
from gpubench.evidence.physics_results import free_path
from gpubench.evidence.results import Store, files_of, load
from gpubench.report.sources import Sources, sort_out

RESULTS = Path(__file__).parents[2] / "results"
NAME = "2026-01-31-abc1234-a-study.json"


def pack(folder: Path) -> None:
    """Compress every file of JSON of a folder as `gzip -9nr` does."""
    for path in [*folder.rglob("*.json")]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        path.unlink()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with files of all kinds, those of one compressed."""
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    made.write(plain / "measured" / "fake" / NAME, made.record(), made.record("quick-sort"))
    made.write(plain / "measured" / "fake" / NAME.replace(".json", "-2.json"), made.record())
    for kind in ("checks", "calibration"):
        shutil.copytree(RESULTS / kind / "nvidia-h200", plain / kind / "nvidia-h200")
    shutil.copytree(RESULTS / "simulations/nvidia-h200/dpd-separation", plain / "simulation")
    shutil.copytree(plain, packed)
    pack(packed)
    return plain, packed


def without_paths(sources: Sources) -> list[object]:
    studies = [(each.environment, each.records, each.study) for each in sources.results]
    return [studies, sources.simulations, sources.checks, sources.calibrations]


def pages(folder: Path, sources: Sources) -> dict[str, bytes]:
    """Return pages and tables of a report, these decompressed and with the names of plain files."""
    report.write(sources, folder)
    found = {}
    for path in folder.glob("*.*"):  # figures number their parts by process
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content).replace(b".json.gz", b".json")
        found[str(path.relative_to(folder))] = content
    return found


@pytest.mark.long
def test_a_folder_of_compressed_results_is_one_of_plain_ones(folders, tmp_path):
    plain, packed = map(sort_out, ([folder] for folder in folders))
    assert without_paths(packed) == without_paths(plain)
    assert len(plain.results) == 2 and plain.simulations and plain.checks and plain.calibrations
    assert all(each.path.name.endswith(".json.gz") for each in packed.results)
    assert pages(tmp_path / "a", packed) == pages(tmp_path / "b", plain)
    tables = [frame(load_results([folder])).drop(columns="file") for folder in folders]
    assert tables[0].equals(tables[1]) and len(tables[0])
    same = [procedure.compare_files(folder, folder, None, 0.99, True) for folder in folders]
    assert output.as_json(same[0], "x")["cells"] == output.as_json(same[1], "x")["cells"]


def test_compressed_results_are_found_by_study_and_by_machine(folders, monkeypatch):
    plain, packed = folders
    of_plain, of_packed = (files_of(each / "measured/fake", "a-study") for each in folders)
    assert [f"{path.name}.gz" for path in of_plain] == [path.name for path in of_packed]
    known = []
    for folder in (plain, packed):
        monkeypatch.setattr(calibration.paths, "repository", lambda folder=folder: folder.parent)
        folder.rename(folder.parent / "results")
        known.append(calibration.spreads("nvidia-h200"))
        (folder.parent / "results").rename(folder)
    assert known[0] == known[1] != {}


def test_a_file_that_is_there_in_both_forms_is_read_once(tmp_path):
    path = made.write(tmp_path / NAME, made.record())
    shutil.copytree(tmp_path, tmp_path / "packed")
    pack(tmp_path / "packed")
    (tmp_path / "packed" / f"{NAME}.gz").rename(f"{path}.gz")
    assert [each.path for each in load_results([tmp_path])] == [path]
    assert files_of(tmp_path, "a-study") == [path]


def test_a_compressed_file_is_never_continued(tmp_path):
    environment = made.environment()
    with Store.open(tmp_path, "a-study", environment) as store:
        store.add([made.record()])
    pack(tmp_path)
    packed = store.path.with_name(f"{store.path.name}.gz")
    before = packed.read_bytes()
    with Store.open(tmp_path, "a-study", environment) as second:
        assert second.path.name == store.path.name.replace(".json", "-2.json")
        assert second.begins_anew == f"{packed} is not continued, since it is compressed"
        assert not second.done
        second.add([made.record()])
    with Store.open(tmp_path, "a-study", environment) as third:
        assert third.path == second.path
    with free_path(tmp_path, "a-study", environment) as free:
        assert free.name == store.path.name.replace(".json", "-3.json")
    with pytest.raises(UserError, match=r"\.json\.gz is compressed: .*gunzip"):
        Store(packed, environment)
    assert packed.read_bytes() == before and sorted(tmp_path.rglob("*.gz*")) == [packed]


def refusal(path: Path) -> str:
    """Return the line with which a file is refused, by itself and in its folder."""
    said = set()
    for read in (lambda: load(path), lambda: load_results([path.parent]), lambda: sort_out([path])):
        with pytest.raises(UserError) as caught:
            read()
        said.add(str(caught.value))
    (message,) = said
    assert message.isprintable() and len(message) < 500 and str(path) in message
    return message


WHOLE = gzip.compress(b'{"records": [1, 2, 3]}' * 10, mtime=0)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "no JSON"),
        (gzip.compress(b"", mtime=0), "no JSON"),
        (gzip.compress(b"records", mtime=0), "no JSON"),
        (gzip.compress(b"\xff\xfe", mtime=0), "not text"),
        (b'{"records": []}', "Not a gzipped file"),
        (WHOLE[:-9], "it is damaged"),
        (WHOLE[:5], "it is damaged"),
        (WHOLE[:-8] + bytes(8), "CRC check failed"),
        (WHOLE[:12] + b"\xff" * 8 + WHOLE[20:], "it is damaged"),
        (WHOLE + b"more", "Not a gzipped file"),
    ],
)
def test_what_cannot_be_decompressed_is_refused_in_one_line(tmp_path, content, named):
    path = tmp_path / f"{NAME}.gz"
    path.write_bytes(content)
    assert named in refusal(path)


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=4))
def test_no_damage_ends_in_another_error(tmp_path_factory, at, put):
    path = tmp_path_factory.mktemp("damaged") / f"{NAME}.gz"
    path.write_bytes(WHOLE[:at] + put)
    refusal(path)


def test_what_grows_beyond_all_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "LONGEST", 1000)
    path = tmp_path / f"{NAME}.gz"
    path.write_bytes(gzip.compress(bytes(1001), mtime=0))
    assert "more than 1000 bytes" in refusal(path)
    path.write_bytes(gzip.compress(bytes(1000), mtime=0))
    assert "no JSON" in refusal(path)
