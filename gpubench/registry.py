"""The door to `gpubench.core.registry` for what was written before it moved there."""

from gpubench.core.registry import *  # noqa: F403
