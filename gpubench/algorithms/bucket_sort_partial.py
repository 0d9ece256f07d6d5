"""The bucket sort's partial update (rozen2008, section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms.bucket_sort import HostLoop
from gpubench.core.algorithm import Form


class BucketSortPartial(HostLoop):
    """Listing 1 over parts that become active one after another, so that fewer writes collide.

    parts: the number of equal parts. threshold: a part becomes active in the round after its
    predecessor drew fewer unvisited elements than this.
    """

    name = "bucket-sort-partial"
    summary = "bucket sort in parts, each of which starts when the one before has nearly finished"
    source = "rozen2008, section 2.1, partial update"
    forms: ClassVar[Mapping[str, Form]] = {
        "host-loop": Form("the host reads back each part's count every round", capturable=False)
    }
    defaults: ClassVar[Mapping[str, int]] = {"parts": 4, "threshold": 65536}
