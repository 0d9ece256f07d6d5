"""The door to `gpubench.core.registry` for what was written before it moved there."""

import sys

from gpubench.core import registry
from gpubench.core.registry import *  # noqa: F403

sys.modules[__name__] = registry  # one module under two names, so that what is set in it is seen
