import io
import itertools
import json
import os
import re
import subprocess
import threading

import pytest
from fakes import FakeDevice
from rich.console import Console
from rich.progress import Progress

from gpubench.base import paths
from gpubench.evidence.results import Store
from gpubench.measure import clock, progress
from gpubench.measure import environment as env


def test_the_environment_fits_the_schema_and_json(tmp_path):
    environment = env.environment(FakeDevice())
    Store(tmp_path / "new.json", environment)  # refuses what does not fit
    assert json.loads(json.dumps(environment, allow_nan=False)) == environment
    assert environment["machine"] == "nvidia-h200"
    assert environment["libraries"]["numpy"]
    assert environment["host"]["cores"] >= 1
    assert environment["host"]["memory_bytes"] > 2**20


def test_the_copy_bandwidth_counts_bytes_read_and_written():
    device = FakeDevice(bandwidth_gb_s=3000.0)
    assert env.copy_bandwidth_gb_s(device) == pytest.approx(3000.0)


@pytest.mark.parametrize(
    ("is_cpu", "cache", "memory", "expected"),
    [
        (False, 2**20, 2**40, 2**30),
        (False, 2**20, 2**28, 2**25),
        (True, 2**20, 2**40, 64 * 2**20),
        (True, 32 * 2**20, 2**40, 128 * 2**20),
        (True, 2**30, 2**40, 256 * 2**20),
        (True, 2**20, 2**28, 2**25),
    ],
)
def test_the_copied_arrays_are_far_larger_than_the_cache_and_fit(is_cpu, cache, memory, expected):
    device = FakeDevice(is_cpu=is_cpu, cache_bytes=cache, memory_bytes=memory)
    env.copy_bandwidth_gb_s(device)
    assert set(device.filled_bytes) == {expected}


def test_a_clock_too_coarse_for_the_copy_gives_no_bandwidth():
    assert env.copy_bandwidth_gb_s(FakeDevice(bandwidth_gb_s=float("inf"))) is None


def test_the_overhead_is_that_of_an_empty_sample_in_each_mode():
    device = FakeDevice(bandwidth_gb_s=float("inf"))
    plain = device.record

    def slow_record():
        device.clock_ms += 0.25
        return plain()

    device.record = slow_record
    assert env.overhead_ms(device) == {"cold": 0.25, "hot": 0.25, "graph": 0.25}


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA GeForce RTX 4090", "nvidia-geforce-rtx-4090"),
        ("Intel(R) Arc(TM) A770 Graphics", "intel-arc-a770-graphics"),
        ("???", "unknown"),
    ],
)
def test_a_gpu_names_its_machine(name, slug):
    assert env.machine(name, is_cpu=False) == slug


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("AMD EPYC 7B13 64-Core Processor", "cpu-amd-epyc-7b13"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "cpu-intel-xeon"),
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "cpu-intel-core-i7-8650u"),
    ],
)
def test_a_cpu_machine_is_named_after_the_processor(tmp_path, monkeypatch, model, slug):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: {model}\nmodel name\t: another\n")
    found = env._cpu_model(cpuinfo)
    assert found == model
    monkeypatch.setattr(env, "_cpu_model", lambda: found)
    assert env.machine("pthread-whatever", is_cpu=True) == slug


def test_a_processor_that_the_kernel_does_not_name_still_has_a_name(tmp_path):
    assert env._cpu_model(tmp_path / "missing")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one module and one kernel, that the package believes it runs from."""
    root = tmp_path / "checkout"
    for name, text in {"gpubench/a.py": "A = 1\n", "kernels/a.cu": "// a\n"}.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    monkeypatch.setattr(paths, "PACKAGE", root / "gpubench")
    for name in [n for n in os.environ if n.startswith("GIT_")]:
        monkeypatch.delenv(name)

    def git(*arguments):
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return root


def test_the_commit_is_dirty_only_when_sources_differ(checkout):
    commit, dirty = env.commit_of(paths.repository())
    assert re.fullmatch("[0-9a-f]{40}", commit)
    assert dirty is False
    (checkout / "results").mkdir()
    (checkout / "results" / "new.json").write_text("{}")
    assert env.commit_of(checkout) == (commit, False)
    (checkout / "kernels" / "new.cu").write_text("// new\n")
    assert env.commit_of(checkout) == (commit, True)


def test_no_commit_is_told_outside_a_repository(tmp_path):
    assert env.commit_of(None) == (None, None)
    assert env.commit_of(tmp_path / "missing") == (None, None)


def in_a_new_process():
    """Return the hash that a process has which begins now."""
    env._hash_of.cache_clear()
    return env.code_hash()


def test_the_code_hash_follows_content_and_names_of_sources(checkout):
    first = in_a_new_process()
    assert re.fullmatch("[0-9a-f]{16}", first)
    (checkout / "gpubench" / "notes.txt").write_text("no source")
    assert in_a_new_process() == first
    kernel = checkout / "kernels" / "a.cu"
    kernel.write_text("// b\n")
    assert in_a_new_process() != first
    kernel.write_text("// a\n")
    assert in_a_new_process() == first
    kernel.rename(kernel.with_name("b.cu"))
    assert in_a_new_process() != first


def test_an_installed_wheel_has_the_code_hash_of_its_checkout(checkout):
    from_checkout = env.code_hash()
    (checkout / "kernels").rename(checkout / "gpubench" / "kernels")
    assert paths.kernel_folder() == checkout / "gpubench" / "kernels"
    assert env.code_hash() == from_checkout


def test_the_clock_tells_utc_and_never_goes_back():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", clock.timestamp())
    first = clock.now()
    assert clock.now() >= first


def drawn(*, terminal, shown_after_s, monkeypatch):
    """Return what a progress bar over two steps leaves on its console."""
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", shown_after_s)
    console = Console(file=io.StringIO(), force_terminal=terminal, force_interactive=terminal)
    with progress.progress(2, "Sorting", console) as bar:
        if terminal and shown_after_s == 0:
            bar.show()  # what the timer does; twice is harmless
        bar.advance()
        bar.describe("Sorting more")
        bar.advance()
    return console.file.getvalue()


def test_progress_is_drawn_on_a_terminal_once_the_work_takes_long(monkeypatch):
    assert "Sorting more" in drawn(terminal=True, shown_after_s=0, monkeypatch=monkeypatch)


def test_progress_does_not_flash_for_short_work(monkeypatch):
    assert drawn(terminal=True, shown_after_s=3600, monkeypatch=monkeypatch) == ""


def test_progress_of_short_work_is_silent_where_the_output_is_no_terminal(monkeypatch, capfd):
    assert drawn(terminal=False, shown_after_s=0, monkeypatch=monkeypatch) == ""
    with progress.progress(1, "Sorting") as bar:
        bar.advance()
    assert capfd.readouterr() == ("", "")


def test_progress_is_told_in_lines_where_the_output_is_no_terminal(monkeypatch):
    told = threading.Event()

    def say(line):
        if line.endswith(" s: Sorting more: 1 of 3 done"):
            told.set()

    monkeypatch.setattr(progress, "say", say)
    monkeypatch.setattr(progress, "LINE_AFTER_S", 0.0)
    with progress.progress(3, "Sorting", Console(file=io.StringIO())) as bar:
        bar.advance()
        bar.describe("Sorting more")
        assert told.wait(60)


def test_progress_goes_on_from_what_was_done_before(monkeypatch):
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", 3600)
    console = Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=200)
    with progress.progress(50, "Gas", console, done=10, unit="steps") as bar:
        bar.advance(5)
        bar.show()
    assert "15/50" in console.file.getvalue()


@pytest.mark.parametrize(
    ("steps", "told"), [(5000, "5,000 steps/s"), (10, "10 steps/s"), (0.25, "0.25 steps/s")]
)
def test_progress_tells_the_rate_of_this_run_alone(steps, told):
    """What was done before counts for how far it is, not for how fast."""
    column, second = progress.RateColumn("steps"), itertools.count()
    bar = Progress(column, get_time=lambda: float(next(second)))
    task = bar.add_task("Gas", total=1e6, completed=900_000)
    assert column.render(bar.tasks[0]).plain == ""
    for _ in range(20):
        bar.advance(task, steps)
    assert column.render(bar.tasks[0]).plain == told


def test_progress_ends_with_the_work_when_that_fails(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, force_interactive=True)
    with pytest.raises(KeyboardInterrupt), progress.progress(1, "Sorting", console):
        raise KeyboardInterrupt
    assert console.file.getvalue() == ""
