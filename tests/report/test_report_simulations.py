"""Simulations in a report: accounts and panels beside the results of studies."""

from __future__ import annotations

import json
import re
import shlex
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from simulation_pages import account
from typer.main import get_command

from gpubench import registry, report
from gpubench.base.errors import UserError
from gpubench.cli.app import app
from gpubench.report.sources import sort_out
from gpubench.simulate.accounts import load


@pytest.fixture
def folder(tmp_path):
    """Return a function that writes an account, with a panel, into a folder of its own."""

    def write(name="run", panel=True, **changes):
        place = tmp_path / name
        place.mkdir()
        (place / "simulation.json").write_text(json.dumps(account(**changes)))
        if panel:
            Image.new("RGB", (12, 8), (0, 114, 178)).save(place / "panel.png")
        return place

    return write


def written(paths, out):
    sources = sort_out(paths)
    report.write(sources, out)
    return (out / "simulations.html").read_text(), (out / "report.md").read_text()


def test_tells_what_was_simulated(folder, tmp_path):
    page, text = written([folder()], tmp_path / "out")
    for said in (
        "dpd-separation, 2¹² (4,096) particles, dimensions 2",
        "2,500 million particle-steps",
    ):
        assert said in page and said in text
    assert "Some &lt;GPU&gt;" in page
    assert "There are no results" not in page
    assert "| pressure | \N{EN DASH} |" in text


def test_a_half_step_temperature_of_before_is_not_shown_as_one_of_full_steps(folder, tmp_path):
    older = {"step": 9, "time": 9.0, "kinetic_temperature": 1.07}
    now = {**older, "kinetic_temperature": 1.03, "half_step_temperature": 1.06}
    _, text = written([folder(observations=[older])], tmp_path / "older")
    assert "| half step temperature | 1.07 |" in text and "kinetic temperature" not in text
    _, text = written([folder("now", observations=[now])], tmp_path / "now-page")
    assert "| kinetic temperature | 1.03 |" in text
    assert "| half step temperature | 1.06 |" in text
    _, text = written(
        [folder("sph", workload="sph-dam-break", observations=[older])], tmp_path / "sph-page"
    )
    assert "| kinetic temperature | 1.07 |" in text


def test_the_published_figure_is_named_also_where_an_old_account_does_not(folder, tmp_path):
    folder("old")
    folder("new", figure="Figure 9 of elsewhere.")
    page, _ = written([tmp_path], tmp_path / "out")
    assert registry.workloads()["dpd-separation"].figure in page
    assert "Figure 9 of elsewhere." in page


def test_the_panel_stands_beside_page_and_text(folder, tmp_path):
    page, text = written([folder()], tmp_path / "out")
    assert 'src="figures/simulation-1.png"' in page
    assert "](figures/simulation-1.png)" in text
    picture = Image.open(BytesIO((tmp_path / "out/figures/simulation-1.png").read_bytes()))
    assert np.asarray(picture.convert("RGB"))[0, 0].tolist() == [0, 114, 178]
    (tmp_path / "run" / "panel.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"panel\.png is no picture as PNG"):
        written([tmp_path / "run"], tmp_path / "out")


def test_the_command_is_one(folder, tmp_path):
    _, text = written([folder()], tmp_path / "out")
    (line,) = [line for line in text.splitlines() if line.startswith("`gpubench")]
    words = shlex.split(line.removeprefix("`gpubench ").rstrip("`"))
    parameters = get_command(app).commands["simulate"].make_context("simulate", words[1:]).params
    assert list(parameters["parameter"]) == ["dimensions=2"]
    assert (parameters["skin"], parameters["seed"], parameters["steps"]) == (0.3, 3, 400)


def test_no_panel_no_rate_no_steps(folder, tmp_path):
    page, text = written(
        [folder(panel=False, particle_steps_per_s=None, blocks=[], observations=[])],
        tmp_path / "out",
    )
    assert "figures/" not in page and "Phases" not in text


def test_several_in_one_folder(folder, tmp_path):
    folder("a")
    folder("b", workload="dpd-standard")
    page, _ = written([tmp_path], tmp_path / "elsewhere")
    assert page.count(' id="simulation-') == 2


def test_a_speed_has_its_day_and_commit_and_says_how_it_changed(folder, tmp_path):
    page, text = written([folder()], tmp_path / "out")
    assert "2,400 to 2,600), on 2000-01-02, commit 0123456." in text
    assert "A step took 10.0 ms at first and 10.0 ms at the end" in text
    assert "fall between blocks. Studies time steps soon after the start alone." in page
    counted = [(1, 9.0), (8, 90.0), (100, 45.6), (50, 33.45)]  # the first two are warm-up
    blocks = [{"steps": steps, "elapsed_ms": ms} for steps, ms in counted]
    _, text = written([folder("more", blocks=blocks)], tmp_path / "more-page")
    assert "A step took 0.456 ms at first and 0.669 ms at the end of this run." in text


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ((1450.1, 1449.6, 1450.8), "1,450 million particle-steps per second (95 % interval of the"
         " median: 1,450 to 1,451), on"),
        ((1.45678, 1.45674, 1.45681), "1.4568 million particle-steps per second (95 % interval of"
         " the median: 1.4567 to 1.4568), on"),
        ((1450.0001, 1450.0, 1450.0002), "1,450 million particle-steps per second, on"),
    ],
)  # fmt: skip
def test_the_ends_of_an_interval_differ_or_are_left_out(folder, tmp_path, ends, told):
    rate = dict(zip(("median", "low", "high"), (1e6 * end for end in ends), strict=True))
    _, text = written([folder(particle_steps_per_s=rate)], tmp_path / "out")
    assert told in text


def test_the_day_of_an_old_account_is_known_of_those_that_ship_alone(folder, tmp_path):
    _, text = written([folder(ended=None, commit="7d9062cea0")], tmp_path / "shipped")
    assert "on 2026-11-21, commit 7d9062c." in text
    _, text = written([folder("other", ended=None)], tmp_path / "unknown")
    assert "2,600), on an unknown day." in text


def test_each_machine_is_named_with_the_days_of_its_simulations(folder, tmp_path):
    folder("a")
    folder("b", ended="2000-02-03T04:05:06Z", commit="fedcba9876")
    folder("c", machine="other", device_name="Other")
    page, _ = written([tmp_path], tmp_path / "out")
    assert re.findall('data-machine="([^"]*)" id="simulation-', page) == [
        *["Some &lt;GPU&gt;, CUDA, from 2000-01-02 to 2000-02-03, commits 0123456 to fedcba9"] * 2,
        "Other, CUDA, on 2000-01-02, commit 0123456",
    ]


@pytest.mark.parametrize("seen", [{"step": 9}, {"time": None}, {"time": -1.0}])
def test_an_observation_without_a_time_is_refused(folder, seen):
    place = folder(observations=[{"time": 0.0}, seen])
    with pytest.raises(UserError, match=r"at \$\.observations\[1\]\.time: Expected a time"):
        load(place / "simulation.json")


@pytest.mark.parametrize("text", ["[]", "{", '{"workload": "x"}'])
def test_what_is_no_account_is_one_clear_line(tmp_path, text):
    (tmp_path / "simulation.json").write_text(text)
    with pytest.raises(UserError, match="is not an account of a simulation") as caught:
        sort_out([tmp_path])
    assert "\n" not in str(caught.value)
