"""The workflows of continuous integration, and what they call."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
OURS = {path.stem: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
EXAMPLE = ROOT / "examples/own-kernel/.github/workflows/guard.yml"
FILES = [*OURS.values(), EXAMPLE]
ACTION = re.compile(r"[\w-]+/[\w-]+@v\d+")
MAKE = re.compile(r"^\s*make ([a-z][a-z-]*)", re.MULTILINE)
# Jobs that may write, and the only actions that they use.
WRITERS = {
    "comment": ("actions/download-artifact",),
    "publish": ("actions/deploy-pages",),
    "store": ("actions/download-artifact",),
}
FROM_HERE = "github.event.pull_request.head.repo.full_name == github.repository"


@cache
def jobs(path):
    return YAML(typ="safe").load(path)["jobs"]


def steps(path):
    return [step for job in jobs(path).values() for step in job.get("steps", [])]


def scripts(path):
    return [step["run"] for step in steps(path) if "run" in step]


def targets(path):
    """Return the make targets that a workflow calls, itself or by the workflows that it uses."""
    found = {name for script in scripts(path) for name in MAKE.findall(script)}
    for job in jobs(path).values():
        if "uses" in job:
            found |= targets(ROOT / job["uses"])
    return found


def of_each_file(test):
    names = [str(path.relative_to(ROOT)) for path in FILES]
    return pytest.mark.parametrize("path", FILES, ids=names)(test)


def test_they_fit_githubs_schema():
    check = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([sys.executable, *check, *FILES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_machines_are_guarded_and_measured_by_the_same_targets():
    measured = {"benchmark", "benchmark-regressions"}
    hosted, own = targets(OURS["ci"]), targets(OURS["gpu"])
    assert hosted == {"test-ci", "lint", "reproduce", "kernels", "guard", *measured}
    assert own == {"test-gpu", "guard", *measured}


@pytest.mark.parametrize("target", sorted(set.union(*map(targets, OURS.values()))))
def test_the_targets_exist(target):
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@of_each_file
def test_scripts_are_shell_without_expressions(path):
    """An expression in a script would run what a branch or a title has in its name."""
    for script in scripts(path):
        assert "${{" not in script
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert done.returncode == 0, f"{script}\n{done.stderr}"


@of_each_file
def test_actions_are_pinned_to_a_major_version(path):
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used
    assert all(ACTION.fullmatch(action) for action in used)


@of_each_file
def test_every_job_ends(path):
    for job in jobs(path).values():
        assert "uses" in job or "timeout-minutes" in job


@of_each_file
def test_what_runs_the_code_of_a_pull_request_cannot_write(path):
    assert YAML(typ="safe").load(path)["permissions"] in ({}, {"contents": "read"})
    for name, job in jobs(path).items():
        may_write = "write" in job.get("permissions", {}).values()
        assert may_write == (name in WRITERS or "uses" in job)
        if may_write:
            used = {step.get("uses", "").split("@")[0] for step in job.get("steps", [])}
            assert used <= {"", *WRITERS.get(name, ())}
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_forks_do_not_run_on_the_machine_with_the_gpu():
    """Those jobs ask, or wait for one that does, or do not run for pull requests at all."""
    found = jobs(OURS["gpu"])
    assert f"github.event_name != 'pull_request' || {FROM_HERE}" in found["test"]["if"]
    for name, job in found.items():
        assert name == "test" or job["needs"] == "test"
        assert "always()" not in job["if"]
    assert set(YAML(typ="safe").load(OURS["gpu"])["on"]) == {
        "pull_request",
        "push",
        "workflow_dispatch",
    }
    assert all(job.get("runs-on", "ubuntu-latest") == "ubuntu-latest"
               for job in jobs(OURS["ci"]).values())  # fmt: skip


class TestGuard:
    """.ci/guard, around a comparison that is a script of the test's."""

    @pytest.fixture
    def guard(self, tmp_path):
        script = tmp_path / ".ci" / "guard"
        script.parent.mkdir()
        script.write_text((ROOT / ".ci/guard").read_text())
        summary = tmp_path / "summary.md"

        def run(status, *, writes=True, **environment):
            compare = tmp_path / "compare"
            page = "printf '%s\\n' \"$@\" >arguments; shift 2; echo '**verdict**' >\"$2\"\n"
            compare.write_text(f"#!/bin/sh\n{page if writes else ''}exit {status}\n")
            compare.chmod(0o755)
            clean = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
            done = subprocess.run(
                ["bash", str(script), str(compare), "base", "head"],
                env={**clean, "GITHUB_STEP_SUMMARY": str(summary), **environment},
                capture_output=True,
                text=True,
            )
            return done, summary.read_text()

        run.folder = tmp_path
        return run

    @pytest.mark.parametrize(
        ("status", "cannot_tell", "expected", "level"),
        [
            (0, "warn", 0, "notice"),
            (1, "warn", 1, "error"),
            (2, "warn", 2, "error"),
            (3, "warn", 0, "warning"),
            (3, "fail", 3, "error"),
            (130, "warn", 130, "error"),
        ],
    )
    def test_passes_on_what_the_comparison_says(self, guard, status, cannot_tell, expected, level):
        done, summary = guard(status, CANNOT_TELL=cannot_tell, GITHUB_ACTIONS="true")
        assert done.returncode == expected
        assert done.stdout.startswith(f"::{level} title=gpubench compare::")
        assert summary == "**verdict**\n"
        arguments = (guard.folder / "arguments").read_text().split()
        assert arguments == ["base", "head", "--markdown", "reports/local/compare.md"]

    def test_shows_no_verdict_of_before(self, guard):
        guard(0)
        done, summary = guard(2, writes=False)
        assert done.returncode == 2
        assert summary == (
            "**verdict**\n**Not compared**: exit status 2; the log of the job says why.\n"
        )

    def test_says_it_in_plain_words_elsewhere(self, guard):
        done, _ = guard(3)
        assert done.returncode == 0
        assert (done.stdout, "inconclusive" in done.stderr) == ("", True)


class TestComment:
    """The script of the job that comments, with a `gh` of the test's."""

    GH = """#!{python}
import json, pathlib, sys
log = pathlib.Path({log!r})
calls = json.loads(log.read_text()) if log.exists() else []
calls.append([*sys.argv[1:], pathlib.Path("comment.md").read_text()])
log.write_text(json.dumps(calls))
if "--jq" in sys.argv and {known}:
    print({known})
"""

    @pytest.mark.parametrize(("known", "method"), [(0, "POST"), (4711, "PATCH")])
    def test_writes_one_comment_for_each_machine(self, tmp_path, known, method):
        (script,) = (s["run"] for s in jobs(OURS["guard"])["comment"]["steps"] if "run" in s)
        log = tmp_path / "log.json"
        gh = tmp_path / "bin" / "gh"
        gh.parent.mkdir()
        gh.write_text(self.GH.format(python=sys.executable, log=str(log), known=known))
        gh.chmod(0o755)
        (tmp_path / "compare.md").write_text("**same**\n")
        environment = {
            "PATH": f"{gh.parent}:{os.environ['PATH']}",
            "GITHUB_REPOSITORY": "a/b",
            "NUMBER": "12",
            "MACHINE": "GPU",
        }
        subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True)
        asked, wrote = json.loads(log.read_text())
        assert "repos/a/b/issues/12/comments" in asked
        place = f"issues/comments/{known}" if known else "issues/12/comments"
        assert {method, f"repos/a/b/{place}", "body=@comment.md"} <= set(wrote)
        assert wrote[-1].startswith("**same**\n")
        assert "<!-- gpubench compare on the GPU -->" in wrote[-1]


class TestHistory:
    """The script that stores results of asv, and the one that brings them back."""

    @pytest.fixture
    def clean(self, tmp_path):
        origin = tmp_path / "origin" / "a" / "b"
        subprocess.run(["git", "init", "-q", "--bare", origin], check=True)
        gh = tmp_path / "bin" / "gh"
        gh.parent.mkdir()
        gh.write_text("#!/bin/sh\n")
        gh.chmod(0o755)
        return {
            "PATH": f"{gh.parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "GITHUB_SERVER_URL": str(tmp_path / "origin"),
            "GITHUB_REPOSITORY": "a/b",
            "GITHUB_SHA": "1234",
        }

    def store(self, runner, name, environment):
        (script,) = (s["run"] for s in jobs(OURS["asv"])["store"]["steps"] if "run" in s)
        (runner / "measured/cpu").mkdir(parents=True)
        (runner / "measured/cpu" / name).write_text(name)
        subprocess.run(["bash", "-e", "-c", script], cwd=runner, env=environment, check=True)

    def bring_back(self, checkout, environment):
        if not checkout.exists():
            origin = Path(environment["GITHUB_SERVER_URL"], "a/b")
            subprocess.run(["git", "init", "-q", checkout], check=True)
            subprocess.run(["git", "remote", "add", "origin", origin], cwd=checkout, check=True)
        subprocess.run([ROOT / ".ci/asv-results"], cwd=checkout, env=environment, check=True)
        return sorted(path.name for path in checkout.rglob("results/asv/cpu/*"))

    def test_each_run_adds_to_what_is_stored(self, tmp_path, clean):
        checkout = tmp_path / "checkout"
        assert self.bring_back(checkout, clean) == []
        self.store(tmp_path / "one", "1.json", clean)
        self.store(tmp_path / "two", "2.json", clean)
        assert self.bring_back(checkout, clean) == ["1.json", "2.json"]

    def test_an_unreachable_store_is_an_error(self, tmp_path, clean):
        self.bring_back(tmp_path / "checkout", clean)
        (tmp_path / "origin").rename(tmp_path / "gone")
        with pytest.raises(subprocess.CalledProcessError):
            self.bring_back(tmp_path / "checkout", clean)

    def test_the_site_is_published_with_the_documents_and_after_each_measurement(self):
        workflow = YAML(typ="safe").load(OURS["docs"])
        names = {YAML(typ="safe").load(OURS[name])["name"] for name in ("ci", "gpu")}
        assert set(workflow["on"]["workflow_run"]["workflows"]) == names
        assert scripts(OURS["docs"]) == [".ci/asv-results", "make docs", "make docs-benchmarks"]

    def test_regressions_are_told_in_the_summary(self):
        (step,) = (s for s in steps(OURS["asv"]) if s.get("name") == "Regressions")
        assert step["run"] == 'make benchmark-regressions >>"$GITHUB_STEP_SUMMARY"'
