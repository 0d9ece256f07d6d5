"""Count the collected tests by runtime and marks into a file of JSON."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

MARKS = {"cuda", "long", "browser", "second_runtime"}


class Count:
    def pytest_collection_finish(self, session):
        found = Counter()
        for item in session.items:
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            runtime = parameters.get("device") or parameters.get("opencl_device") or ""
            marks = sorted({mark.name for mark in item.iter_markers()} & MARKS)
            found[f"{runtime}|{','.join(marks)}"] += 1
        Path(sys.argv[1]).write_text(json.dumps(dict(sorted(found.items())), indent=0))


pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"], plugins=[Count()])
