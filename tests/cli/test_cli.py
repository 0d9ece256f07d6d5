import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_algorithms import ALGORITHMS, ENVIRONMENT
from fakes import FakeDevice
from study_texts import study_text

import gpubench.devices
import gpubench.report
from gpubench import __version__, registry
from gpubench.base import paths
from gpubench.base.errors import DeviceUnavailable, UserError
from gpubench.devices.base import DeviceReport
from gpubench.evidence import results
from gpubench.measure.sampling import Budget
from gpubench.studies import runner, study
from gpubench.verify import conformance

STUDY = study_text(
    "right-sort", "wrong-sort",
    particles=[64], per_cell=[1, 4], modes=["hot"], quick={"per_cell": [4]},
)  # fmt: skip


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture(autouse=True)
def fakes(monkeypatch, tmp_path, device):
    """Put a fake device, fake algorithms and a study of two of them behind the commands."""
    monkeypatch.chdir(tmp_path)

    def open_device(spec="auto"):
        if spec not in ("auto", "cuda"):
            raise DeviceUnavailable(f"no device {spec!r}: try cuda")
        return device

    parsed = study.parse_study("a-study", STUDY)

    def load_study(name):
        registry.require_known("study", name, ["a-study"])
        return parsed

    monkeypatch.setattr(gpubench.devices, "open_device", open_device)
    monkeypatch.setattr(registry, "algorithms", lambda: ALGORITHMS)
    monkeypatch.setattr(registry, "studies", lambda: ["a-study"])
    monkeypatch.setattr(study, "load_study", load_study)
    monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)
    monkeypatch.setattr(runner, "Budget", lambda: Budget(0.001, 6, 6))


def written(folder):
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*"))


# Bad input


UNIT_BOX = ("--box", "1,1,1", "--cell-size", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "a-studdy"], "did you mean a-study"),
        (["run", "a-study", "--algorithms", "right-sorte"], "did you mean right-sort"),
        (["check", "sort-of-mine"], "one of your own: gpubench --add PATH"),
        (["simulate", "flow-of-mine"], "one of your own: gpubench --add PATH"),
        (["run", "a-study", "--algorithms", "huge-sort"], "does not measure huge-sort"),
        (["run", "a-study", "--algorithms", ""], "no algorithm ''"),
        (["run", "a-study", "--particles", "-1"], "at least 1"),
        (["run", "a-study", "--particles", "63"], "whole number"),
        (["run", "a-study", "--particles", str(2**30)], "memory"),
        (["run", "a-study", "--per-cell", "nan"], "per cell"),
        (["run", "a-study", "--per-cell", "0"], "per cell"),
        (["run", "a-study", "--device", "abacus"], "no device 'abacus'"),
        (["check", "right-srot"], "did you mean right-sort"),
        (["check", "--device", "abacus"], "no device 'abacus'"),
        (["check", "--box", "1,1,1"], "add --positions"),
        (["check", "--mesh", "x.npy"], "give --mesh FILE twice"),
        (["check", "--mesh", "x.npy", "--mesh", "y.npy"], "no file x.npy"),
        (["check", "--mesh", "x.npy", "--box", "1,1,1"], "either --positions or --mesh"),
        (["check", "--positions", "absent.npy"], "needs --box"),
        (["check", "--positions", "x.npy", *UNIT_BOX], "cannot read x.npy: No such file"),
        (["check", "--positions", "x", "--box", "1,1", "--cell-size", "1"], "three numbers"),
        (["check", "--positions", "x", "--box", "1,a,1", "--cell-size", "1"], "three numbers"),
        (["check", "--positions", "x", "--box", "1,1,nan", "--cell-size", "1"], "a box"),
        (["check", "--positions", "x", "--box", "1,1,1", "--cell-size", "-1"], "cell size"),
        (["check", "--positions", "x", *UNIT_BOX, "--periodic", "w"], "--periodic takes axes"),
        (["check", "--cell", "1,1,1,90,90,90"], "--cell-size describe particles: add"),
        (
            ["check", "--positions", "x", *UNIT_BOX, "--cell", "1,1,1,90,90,90"],
            "--box and --cell say the same",
        ),
        (
            ["check", "--positions", "x", "--cell", "1,1,1,90,90,60", "--cell-size", "1"],
            "--cell takes orthogonal cells",
        ),
        (
            ["tune", "x.npy", "--cutoff", "1", "--cell", "1,0,0,0.5,1,0,0,0,1"],
            "--cell takes orthogonal cells, which alone are measured: NeighbourList searches",
        ),
        (["tune", "x.npy", "--cutoff", "1", "--cell", "1,2,3"], "nine numbers, the rows of a"),
        (["tune", "x.npy", "--cutoff", "1", "--cell", "1,2,3,90,90,80"], "takes orthogonal cells"),
        (["tune", "x.npy", "--cutoff", "1", "--cell", "1,2,0,90,90,90"], "edges above 0"),
        (["report"], "no results yet"),
        (["report", "absent.json"], "cannot read absent.json"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    gpubench_command, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.setattr(paths, "repository", lambda: None)
    code, out, err = gpubench_command(*arguments)
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if not line.startswith("gpubench: measuring on")]
    assert len(lines) == 1 and lines[0].startswith("gpubench: ") and message in lines[0]
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["run"], ["run", "a-study", "--fast"], ["run", "a-study", "--particles", "x"]],
)
def test_bad_usage_is_typers_message(gpubench_command, tmp_path, arguments):
    code, out, err = gpubench_command(*arguments)
    assert (code, out) == (2, "")
    assert "Error: " in err and "Traceback" not in err
    assert written(tmp_path) == []


@pytest.mark.parametrize("command", ["run", "report"])
def test_out_must_be_a_folder(gpubench_command, tmp_path, command):
    (tmp_path / "file").write_text("mine")
    argument = "a-study" if command == "run" else "file"
    for out in ("file", "file/below"):
        code, _, err = gpubench_command(command, argument, "--out", out)
        assert code == 2 and "takes a folder" in err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_multi_line_user_error_prints_as_one_line(gpubench_command, monkeypatch):
    def fail(spec):
        raise UserError("first\nsecond")

    monkeypatch.setattr(gpubench.devices, "open_device", fail)
    assert gpubench_command("check")[2] == "gpubench: first second\n"


# devices, list, version


def test_devices_says_why_a_device_is_unusable(gpubench_command, monkeypatch):
    found = [
        DeviceReport("cuda", "cuda", None, False, "no driver: install it"),
        DeviceReport("opencl:[x]", "opencl", "A CPU", True, None, {"cores": 2}),
    ]
    monkeypatch.setattr(gpubench.devices, "survey", lambda: found)
    code, out, _ = gpubench_command("devices")
    assert code == 0
    assert "no driver: install it" in out and "A CPU" in out and "opencl:[x]" in out
    code, out, err = gpubench_command("devices", "--json")
    assert (code, err) == (0, "")
    assert [device["usable"] for device in json.loads(out)] == [False, True]


def test_list_names_algorithms_forms_and_studies(gpubench_command):
    code, out, err = gpubench_command("list")
    assert (code, err) == (0, "")
    assert all(word in out for word in ("right-sort", "host-loop", "graphs", "a-study", "Which?"))
    listed = json.loads(gpubench_command("list", "--json")[1])
    assert listed.keys() == {"algorithms", "workloads", "studies"}
    by_name = {algorithm["name"]: algorithm for algorithm in listed["algorithms"]}
    assert by_name.keys() == ALGORITHMS.keys()
    assert by_name["right-sort"]["forms"]["graphs-only"]["requires"] == ["graphs"]


def test_version(gpubench_command):
    assert gpubench_command("--version")[:2] == (0, f"{__version__}\n")


# check


@pytest.fixture
def two_cases(monkeypatch):
    every = conformance.cases
    monkeypatch.setattr(
        conformance,
        "cases",
        lambda family: [c for c in every(family) if c.name in ("33 particles", "32 particles")],
    )


def test_check_of_a_right_algorithm(gpubench_command, two_cases, device):
    device.features = frozenset({"cuda"})
    code, out, err = gpubench_command("check", "right-sort", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["device"] == "cuda:0"
    assert [(c["form"], c["status"], len(c["cases"])) for c in told["checks"]] == [
        ("plain", "ok", 2),
        ("host-loop", "ok", 2),
        ("graphs-only", "skipped", 0),
    ]
    assert "--device cuda" in told["checks"][2]["reason"]


def test_check_exits_1_for_a_wrong_answer_and_checks_the_rest(gpubench_command, two_cases):
    code, out, _ = gpubench_command("check", "--json")
    assert code == 1
    plain = ("plain", "count")
    found = {c["algorithm"]: c for c in json.loads(out)["checks"] if c["form"] in plain}
    assert found.keys() == ALGORITHMS.keys()
    assert {name: c["status"] for name, c in found.items()} == {
        "right-sort": "ok",
        "bad-graph-sort": "ok",
        "breaking-sort": "ok",
        "wrong-sort": "wrong",
        "spoilt-sort": "wrong",
        "broken-sort": "failed",
        "huge-sort": "skipped",
        "twice-sort": "ok",
        "right-filter": "ok",
        "losing-search": "ok",
    }
    assert found["wrong-sort"]["reason"].startswith("32 particles: ")
    assert found["wrong-sort"]["reason"].endswith("(and 1 more)")
    assert found["broken-sort"]["reason"] == "RuntimeError: illegal address"


def test_check_continues_after_an_algorithm_exits(gpubench_command, two_cases, monkeypatch):
    monkeypatch.setattr(ALGORITHMS["wrong-sort"], "launch", lambda self: sys.exit(0))
    code, out, _ = gpubench_command("check", "wrong-sort", "right-sort", "--json")
    found = {c["algorithm"]: (c["status"], c["reason"]) for c in json.loads(out)["checks"]}
    assert code == 1
    assert found == {"wrong-sort": ("failed", "SystemExit: 0"), "right-sort": ("ok", None)}


def test_check_shrinks_the_first_input_that_is_wrong(gpubench_command, monkeypatch):
    every = conformance.cases
    names = ("two particles, far apart", "all in one cell", "all at one point")
    chosen = {"neighbour-search": [c for c in every("neighbour-search") if c.name in names]}
    monkeypatch.setattr(conformance, "cases", chosen.get)
    code, out, err = gpubench_command("check", "losing-search", "--smallest")
    assert code == 1
    assert "the smallest failure of losing-search count:" in err
    positions = out[out.index("positions:") :].splitlines()
    assert [line.split(":")[0].strip() for line in positions[1:6]] == list("01234")
    assert positions[6].startswith("wrong: after the first launch: particle ")
    assert "has 3 neighbours, expected 4" in positions[6]
    code, out, _ = gpubench_command("check", "wrong-sort", "losing-search", "--smallest", "--json")
    assert code == 1
    assert all("wrong: after the" in c["smallest"] for c in json.loads(out)["checks"] if c["cases"])


def test_check_shrinks_given_particles(gpubench_command):
    np.save("mine.npy", np.random.default_rng(0).random((500, 3)) * [4, 5, 6])
    box = ["--positions", "mine.npy", "--box", "4,5,6", "--cell-size", "1"]
    code, out, _ = gpubench_command("check", "losing-search", *box, "--smallest", "--json")
    assert code == 1
    (found,) = json.loads(out)["checks"]
    assert len(found["smallest"].splitlines()) == 2 + 5 + 1
    code, out, _ = gpubench_command("check", "losing-search", *box, "--json")
    assert "smallest" not in json.loads(out)["checks"][0]


def test_check_on_given_particles(gpubench_command, tmp_path):
    np.save("mine.npy", np.random.default_rng(0).random((500, 3)) * [4, 5, 6] - 1)
    box = ["--positions", "mine.npy", "--box", "4,5,6", "--low=-1,-1,-1", "--cell-size", "1.1"]
    assert gpubench_command("check", "right-sort", *box)[0] == 0
    cell = ["--positions", "mine.npy", "--cell", "4,5,6,90,90,90", *box[4:]]
    assert gpubench_command("check", "right-sort", *cell)[0] == 0
    code, out, _ = gpubench_command("check", "wrong-sort", *box, "--periodic", "xz", "--json")
    assert code == 1
    assert {c["status"] for c in json.loads(out)["checks"]} == {"wrong"}


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((4, 3), np.nan), "not finite"),
        (np.full((4, 3), 2.0), "outside the box"),
        (np.zeros((4, 2)), "shape"),
        (np.zeros((0, 3)), "holds no particles"),
        (np.zeros((4, 3), complex), "numbers"),
        (np.array([["a", "b", "c"]]), "numbers"),
        (np.array([[None] * 3], object), "cannot read"),
    ],
)
def test_check_refuses_bad_particles(gpubench_command, array, message):
    np.save("bad.npy", array)
    code, out, err = gpubench_command("check", "--positions", "bad.npy", *UNIT_BOX)
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY\x01\x00", b"PK\x03\x04"])
def test_check_refuses_a_file_that_is_no_array(gpubench_command, content):
    Path("bad.npy").write_bytes(content)
    code, _, err = gpubench_command("check", "--positions", "bad.npy", *UNIT_BOX)
    assert code == 2 and err.startswith("gpubench: cannot read bad.npy: ")
    assert err.count("\n") == 1


def test_check_refuses_too_few_cells_along_a_periodic_axis(gpubench_command):
    np.save("good.npy", np.full((4, 3), 0.5))
    code, out, err = gpubench_command(
        "check", "right-sort", "losing-search", "--positions", "good.npy",
        "--box", "2,2,2", "--cell-size", "1", "--periodic", "x",
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert "a periodic axis needs at least 3 cells" in err.splitlines()[-1]


def test_check_refuses_several_arrays(gpubench_command):
    np.savez("two.npz", a=np.zeros((2, 3)), b=np.zeros((2, 3)))
    code, _, err = gpubench_command("check", "--positions", "two.npz", *UNIT_BOX)
    assert code == 2 and "numpy.save" in err and err.count("\n") == 1


# run


def test_run_prints_the_path_and_what_to_do_next(gpubench_command, tmp_path):
    code, out, err = gpubench_command("run", "a-study", "--algorithms", "right-sort")
    assert code == 0
    path = Path(out.strip())
    assert path.is_relative_to("results/local")
    assert len(results.load(path).records) == 2
    assert "2 measured, 0 reused" in err
    assert "gpubench report" in err
    code, again, err = gpubench_command("run", "a-study", "--algorithms", "right-sort")
    assert (code, again) == (0, out)
    assert "0 measured, 2 reused" in err


def test_run_exits_1_where_an_answer_was_wrong(gpubench_command):
    code, out, err = gpubench_command("run", "a-study", "--quick", "--out", "elsewhere")
    assert code == 1
    assert "1 measured" in err and "1 wrong" in err
    assert "gpubench report elsewhere" in err
    assert Path(out.strip()).is_relative_to("elsewhere")


def test_run_closes_the_device(gpubench_command, device):
    gpubench_command("run", "a-study")
    assert device.log[-1] == "close"


def test_a_bad_second_study_is_noticed_before_the_first_is_measured(gpubench_command, tmp_path):
    assert gpubench_command("run", "a-study", "b-study")[0] == 2
    assert written(tmp_path) == []


def test_stopping_says_where_the_results_are(gpubench_command, monkeypatch, device):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", stop)
    code, out, err = gpubench_command("run", "a-study", "--out", "mine")
    assert (code, out) == (130, "")
    last = err.splitlines()[-1]
    assert "kept in mine" in last and "same command" in last
    assert device.log[-1] == "close"


# report


def test_report_takes_the_results_of_run(gpubench_command, monkeypatch):
    given = []

    def write(found, out):
        given.append([len(result.records) for result in found.results])
        return out / "index.html"

    monkeypatch.setattr(gpubench.report, "write", write)
    gpubench_command("run", "a-study")
    code, out, _ = gpubench_command("report")
    assert (code, out) == (0, "reports/local/index.html\n")
    code, out, _ = gpubench_command("report", "results", "--out", "page")
    assert (code, out) == (0, "page/index.html\n")
    assert given == [[4], [4]]


def test_report_falls_back_on_the_results_of_the_checkout(gpubench_command, monkeypatch, tmp_path):
    gpubench_command("run", "a-study", "--out", "checkout/results/measured")
    other = tmp_path / "checkout/results/comparisons/of-another-tool.json"
    other.parent.mkdir()
    other.write_text("{}")
    monkeypatch.setattr(paths, "repository", lambda: tmp_path / "checkout")
    monkeypatch.setattr(gpubench.report, "write", lambda found, out: out / str(len(found.results)))
    assert gpubench_command("report")[1] == "reports/local/1\n"


def test_report_refuses_a_file_without_results(gpubench_command, tmp_path):
    Path("x.json").write_text("{}")
    code, out, err = gpubench_command("report", "x.json")
    assert (code, out) == (2, "")
    assert "not a gpubench results file" in err and err.count("\n") == 1
    assert written(tmp_path) == ["x.json"]


# As a process of its own


def test_the_module_runs_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "gpubench", "run", "no-such-study"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpubench: no study 'no-such-study'")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_ends_silently():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "gpubench", "list", "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (2, "")
