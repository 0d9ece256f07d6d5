"""Run tests repeatedly beside busy loops, and count which of them fail.

    python tools/repeat_tests.py tests/distributed/test_ranks.py tests/studies/test_spread.py

A test that starts processes may pass only while they are fast. Here all cores are overloaded: tests
that wait for a time instead of an event fail sooner or later. Prints each failure with its message,
and finally the failure count of each test; exit 1 if any failed, 2 if pytest cannot run them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

RAN = (0, 1)  # pytest's exit statuses if tests were run


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="+", metavar="TEST", help="files or node ids, as for pytest")
    parser.add_argument("--times", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument("--busy", type=int, default=3, metavar="B", help="busy loops; default: 3")
    given = parser.parse_args()
    failed: Counter[str] = Counter()
    with busy(given.busy):
        for number in range(1, given.times + 1):
            found = failures(given.tests)
            if found is None:
                return 2
            failed.update(found.keys())
            print(f"round {number} of {given.times}: {len(found)} failed", flush=True)
            for name, message in found.items():
                print(f"  {name}: {message}", flush=True)
    for name, count in failed.most_common():
        print(f"{count} of {given.times} failed: {name}")
    return 1 if failed else 0


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep up to `count` cores busy during the body of the `with`."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def failures(tests: list[str]) -> dict[str, str] | None:
    """Run tests once; return the first line of each failure, None if none was run."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *tests]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in RAN:
            print(done.stdout + done.stderr, file=sys.stderr)
            return None
        return {
            f"{case.get('classname')}::{case.get('name')}": (said.get("message") or "").partition(
                "\n"
            )[0]
            for case in ElementTree.parse(report).iter("testcase")
            for said in (*case.iter("failure"), *case.iter("error"))
        }


if __name__ == "__main__":
    sys.exit(main())
