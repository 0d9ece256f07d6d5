"""Ranks of a test may share a GPU, and write each other's memory there all the same.

Each takes a slice of time while another waits for it: slow, but in no other way than on several.
"""

from __future__ import annotations

from gpubench.distributed import transport


def share_if(spec: str) -> None:
    """Let all ranks reach the memory of each other's GPU if the spec is that of one."""
    if spec == "cuda:0":
        transport._reach_each_other = lambda places: True
