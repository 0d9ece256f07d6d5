"""The default study of each command, as declared by the studies."""

from __future__ import annotations

import tomllib
from functools import cache

from gpubench.base.paths import PACKAGE

# The commands with a default study, and the role of the study of run-to-run spread.
ROLES = ("choose", "choose-sort", "compare", "spread")


@cache
def study_for(role: str) -> str:
    """Return the name of the only study with a role, by reading the files of all studies.

    Needs no device and no algorithm. Raises LookupError if none or several have it.
    """
    files = sorted((PACKAGE / "studies").glob("*.toml"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    having = [  # parsing all of them takes as long as answering a query
        name
        for name, text in texts.items()
        if "roles" in text and role in tomllib.loads(text).get("roles", ())
    ]
    if len(having) != 1:
        raise LookupError(f"the studies that {role} has: {', '.join(having) or 'none'}; not one")
    return having[0]
