"""What options take and say: numbers, lists, allowed values, help, completion, --quiet."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from gpubench import registry
from gpubench.base import messages
from gpubench.base.numbers import read_number, read_whole
from gpubench.cli import values
from gpubench.cli.app import COMMANDS, app
from gpubench.distributed.transport import NAMES
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.axes import DESTINATIONS, DISTRIBUTIONS, ORDERS
from gpubench.problems.steps.axes import DECOMPOSITIONS
from gpubench.simulate.pictures import RENDERERS
from gpubench.studies import plan
from gpubench.studies.selection import Selection

NUMBERS = {"N", "N,N", "P", "P,P", "F,F", "S", "M", "K", "X"}  # metavars of number options


@pytest.fixture(autouse=True)
def loud():
    yield
    messages.be_quiet(False)


def help_of(command):
    done = CliRunner().invoke(app, [command, "-h"])
    assert done.exit_code == 0
    return " ".join(done.stdout.split())


def options():
    """Yield the name of each command with each of its options."""
    for name, command in get_command(app).commands.items():
        for option in command.params:
            yield name, option


@pytest.mark.parametrize(
    ("text", "number"),
    [("65536", 65536), ("1e6", 10**6), ("2**20", 2**20), ("-1", -1), (" 7 ", 7), ("2.0", 2),
     ("1_000", 1000), ("18446744073709551615", 2**64 - 1)],
)  # fmt: skip
def test_whole_numbers_are_written_in_several_ways(text, number):
    assert read_whole(text) == number
    assert read_number(text) == float(number)


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "nan", "inf", "2**", "2**99", "9**9**9", "1e999999999", "0x10", "2^20"]
)
def test_non_integers_are_refused(text):
    with pytest.raises(ValueError, match="number such as 65536, 1e6 or 2"):
        read_whole(text)


def test_lists_are_written_as_they_are_read():
    found = values.wholes("65536,1e6,2**20,65536")
    assert found == (65536, 10**6, 2**20)
    assert values.wholes(str(found)) == found
    assert values.numbers(str(values.numbers("0.5,4"))) == (0.5, 4.0)
    with pytest.raises(typer.BadParameter):
        values.wholes("65536,")


def test_every_number_option_takes_a_number_in_every_way():
    commands = get_command(app).commands
    numbers = [(command, option) for command, option in options() if option.metavar in NUMBERS]
    assert len(numbers) >= 20
    for command, option in numbers:
        context = commands[command].make_context(command, [], resilient_parsing=True)
        assert str(option.process_value(context, "2**2")) in ("4", "4.0"), option.name


def test_the_axes_of_run_take_lists(monkeypatch):
    asked = []
    monkeypatch.setattr(plan, "plan", lambda study, selection: asked.append(selection))

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    monkeypatch.setattr("gpubench.simulate.ranks.Crew.lead", stop)
    words = ["run", "rozen2008-table1", "--particles", "65536,1e6", "--per-cell", "2**2,0.5"]
    CliRunner().invoke(app, [*words, "--parameter", "capacity=2**3"])
    assert asked == [
        Selection(particles=(65536, 10**6), per_cell=(4.0, 0.5), parameters={"capacity": 8})
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "s", "--particles", "64", "--particles", "128"],
        ["run", "s", "--device", "cuda", "--device=opencl"],
        ["compare", "a", "b", "--quick", "--full"],
        ["run", "s", "--parameter", "a=1", "--parameter", "a=2"],
    ],
)
def test_a_repeated_option_is_refused_in_one_line(words):
    done = subprocess.run(
        [sys.executable, "-m", "gpubench", *words], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpubench: --") and "once" in done.stderr
    assert done.stderr.count("\n") == 1


def test_repeatable_options_may_repeat():
    done = CliRunner().invoke(app, ["list", "--json", "--json", "--quiet", "-q"])
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("command", "option", "allowed"),
    [
        ("choose", "--task", TASKS),
        ("choose", "--distribution", DISTRIBUTIONS),
        ("choose", "--order", ORDERS),
        ("choose", "--destination", DESTINATIONS),
        ("choose", "--device", ("cuda", "opencl")),
        ("run", "--transport", NAMES),
        ("simulate", "--decomposition", DECOMPOSITIONS),
        ("simulate", "--renderer", RENDERERS),
    ],
)
def test_the_help_says_what_an_option_takes(command, option, allowed):
    text = re.split(r" (?=-)", help_of(command))
    (of_option,) = [part for part in text if part.startswith(f"{option} ")]
    assert ", ".join(allowed) in of_option


@pytest.mark.parametrize("command", COMMANDS)
def test_help_leaves_nothing_unfilled(command):
    text = help_of(command)
    assert not re.search(r"\{[a-z_]+\}", text)
    assert "--quiet" in text


def complete(*words):
    """Return what a shell is told for the last of some words."""
    asked = {
        "_GPUBENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["gpubench", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "gpubench"], env=os.environ | asked, capture_output=True, text=True
    )
    return done.stdout.split()


def test_the_shell_completes_commands_and_values():
    assert complete("comp") == ["compare"]
    assert set(complete("run", "rozen")) == {n for n in registry.studies() if n.startswith("rozen")}
    assert complete("choose", "--task", "ten") == ["ten-counts"]
    assert complete("run", "regimes", "--algorithms", "atomic-list,hash-g") == [
        "atomic-list,hash-grid"
    ]


def test_quiet_prints_only_errors(monkeypatch):
    monkeypatch.setattr("gpubench.devices.survey", lambda: messages.say("news") or [])
    assert "news" in CliRunner().invoke(app, ["devices"]).stderr
    assert CliRunner().invoke(app, ["devices", "--quiet"]).stderr == ""
    done = subprocess.run(
        [sys.executable, "-m", "gpubench", "run", "no-such", "-q"], capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr.startswith("gpubench: no study 'no-such'")


def test_list_filters_by_word():
    done = CliRunner().invoke(app, ["list", "Hash"])
    assert "hash-grid" in done.stdout and "counting-sort" not in done.stdout
    assert "adaptive-bitonic" in CliRunner().invoke(app, ["list", "intervals"]).stdout
    done = CliRunner().invoke(app, ["list", "zebra"])
    assert (done.exit_code, done.stdout) == (0, "") and "zebra" in done.stderr


def test_no_color_is_respected():
    code = (
        "from rich.text import Text; from gpubench.cli.output import print_table;"
        " print_table(['a'], [[Text('x', 'red')]])"
    )
    forced = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    colourless = forced | {"NO_COLOR": "1"}
    texts = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout
        for env in (forced, colourless)
    ]
    assert "\x1b[31m" in texts[0]
    assert "\x1b[31m" not in texts[1] and "x" in texts[1]


def loaded_after(code):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_help_and_the_list_import_nothing_slow():
    assert not loaded_after("from gpubench.cli.app import app") & {"numpy", "pandas", "rich"}
    listing = (
        "from gpubench import registry; from gpubench.studies import study;"
        " registry.algorithms(); registry.workloads();"
        " [study.load_study(name) for name in registry.studies()]"
    )
    assert not {name for name in loaded_after(listing) if name.startswith("scipy.")}
