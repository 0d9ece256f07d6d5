"""The study that a command uses by default, as the studies declare."""

from __future__ import annotations

import tomllib
from functools import cache

from gpubench.base.paths import PACKAGE

# The commands that have a study of their own, and what says how far apart runs are.
ROLES = ("choose", "choose-sort", "compare", "spread")


@cache
def study_for(role: str) -> str:
    """Return the name of the one study that has a role, by reading the files of all studies.

    Needs no device and no algorithm. Raises LookupError where none has it, or several have.
    """
    files = sorted((PACKAGE / "studies").glob("*.toml"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    having = [  # to parse all of them takes as long as to answer a question
        name
        for name, text in texts.items()
        if "roles" in text and role in tomllib.loads(text).get("roles", ())
    ]
    if len(having) != 1:
        raise LookupError(f"the studies that {role} has: {', '.join(having) or 'none'}; not one")
    return having[0]
