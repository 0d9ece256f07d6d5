"""The line that ends a run of the tests."""

from __future__ import annotations

from collections import Counter

import needs


def test_a_run_that_left_nothing_out_says_so():
    assert needs.closing_line(Counter(), {"cuda": 0}) == "Not run: nothing, all tests ran"


def test_what_is_missing_is_named_with_the_way_to_get_it():
    skips = Counter({needs.reason("PoCL"): 12, needs.reason("Chromium"): 1, "odd": 2})
    skips["fcl is not installed: pip install fcl"] = 8
    assert needs.closing_line(skips, {"long": 30, "cuda": 400}) == (
        "Not run: 1 need Chromium (apt-get install chromium);"
        " 12 need PoCL (apt-get install pocl-opencl-icd); 8 need fcl (pip install fcl);"
        " 2: odd;"
        " 30 long (make test-all); 400 cuda (make test-gpu)"
    )
