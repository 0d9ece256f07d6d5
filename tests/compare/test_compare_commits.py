"""A regression planted in a repository of its own: caught, named, and led back to its commit.

Its commits are this package with a device whose times are made up from the kernel that it runs, so
that a busy machine changes no verdict.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from gpubench.base.paths import PACKAGE

ROOT = PACKAGE.parent
STUDY = """
title = "One cell"
question = "Is it as fast as it was?"
seed = 3
[[sweeps]]
name = "cells"
particles = [4096]
per_cell = [4]
distribution = ["uniform"]
order = ["random"]
modes = ["hot"]
[[subjects]]
algorithm = "atomic-list"
form = "one-pass"
"""
# Short, since all samples are alike: one look at two pairs, which can bear intervals of
# 80 % (see verdict.are_enough), and both sides described once, as they are on one machine.
COMMAND = """
from gpubench.cli import app as cli
from gpubench.compare import pairs, procedure

described = []


def describe(code, device):
    if not described:
        described.append(pairs.describe(code, device))
    return described[0]


procedure.LOOKS = (2,)
procedure.describe = describe
pairs.TURNS = 8
cli.main()
"""
OPTIONS = (
    "--study", "tiny.toml", "--device", "opencl:intel", "--threshold", "50%",
    "--confidence", "80%",
)  # fmt: skip
LINE = "        next[i] = atomicExch(&head[cell_of[i]], (int)i);\n"
SLOW = f"""    {{
        atomicAdd(&head[cell_of[i]], 0);
{LINE}    }}
"""
ELAPSED = "return float(end.profile.end - start.profile.end) * 1e-6\n"
MADE_UP = """from gpubench.base.paths import kernel_folder
        return 1.0 + (kernel_folder() / "atomic_list.cu").read_text().count("atomicAdd(&head")
"""

pytestmark = pytest.mark.long

SUBJECTS = ("Begin", "Tell more", "Count on the heads", "Say goodbye")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Make a repository of this package with four commits, the third of which is slower."""
    root = tmp_path_factory.mktemp("project")
    for name in ("gpubench", "kernels"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "tiny.toml").write_text(STUDY)
    device = root / "gpubench" / "devices" / "opencl.py"
    kernel = root / "kernels" / "atomic_list.cu"
    source = kernel.read_text()
    assert (source.count(LINE), device.read_text().count(ELAPSED)) == (1, 1)
    device.write_text(device.read_text().replace(ELAPSED, MADE_UP))
    git(root, "init", "--quiet")
    for number, subject in enumerate(SUBJECTS):
        (root / "notes.txt").write_text(subject)
        if number == 2:
            kernel.write_text(source.replace(LINE, SLOW))
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", subject)
    return root


def git(root, *arguments):
    who = {
        f"GIT_{role}_{what}": "a@b"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "-C", str(root), *arguments], check=True, env=os.environ | who | config)


@pytest.fixture
def gpubench(project, tmp_path_factory):
    """Run a command of gpubench in the project, with a cache of its own."""
    cache = tmp_path_factory.getbasetemp() / "cache"

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments, *OPTIONS],
            cwd=project, capture_output=True, text=True, timeout=1800,
            env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        )  # fmt: skip

    return run


def test_a_slower_commit_is_caught_and_its_cell_named(gpubench):
    done = gpubench("compare", "HEAD~3", "HEAD")
    assert done.returncode == 1, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("slower: 1 of 1 cell, at worst 100 %: ")
    assert "tiny/cells: atomic-list one-pass, particles=4096" in first


@pytest.mark.thorough
def test_git_bisect_run_leads_to_the_commit(project, tmp_path, tmp_path_factory):
    """As docs/comparing.md has it, in a clone whose v1.0 is the first commit."""
    clone, command = tmp_path / "clone", tmp_path / "bin" / "gpubench"
    git(tmp_path, "clone", "--quiet", str(project), str(clone))
    git(clone, "tag", "v1.0", "HEAD~3")
    command.parent.mkdir()
    script = f'exec {shlex.join([sys.executable, "-c", COMMAND])} "$@" {shlex.join(OPTIONS)}\n'
    command.write_text(f"#!/bin/sh\n{script}")
    command.chmod(0o755)
    page = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```sh\n(git bisect start.*?)```", page, re.DOTALL)
    variables = {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "cache"),
    }
    done = subprocess.run(
        ["sh", "-e", "-c", shown], cwd=clone, capture_output=True, text=True, timeout=1800,
        env=os.environ | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is the first bad commit\n" in done.stdout and SUBJECTS[2] in done.stdout
