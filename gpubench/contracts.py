"""The door to `gpubench.core.contracts` for what was written before it moved there."""

from gpubench.core.answers import *  # noqa: F403
from gpubench.core.contracts import *  # noqa: F403
from gpubench.core.tasks import *  # noqa: F403
from gpubench.problems.key_sort.contract import *  # noqa: F403
from gpubench.problems.stream_filter.contract import *  # noqa: F403
