"""The door to `gpubench.verify.problems` for what was written before it moved there."""

from gpubench.verify.problems import *  # noqa: F403
