"""The default study of each command, as declared by the studies."""

from __future__ import annotations

import tomllib
from functools import cache

from gpubench.base.paths import PACKAGE

# Commands with a default study, and `spread`, the role of the study of run-to-run variation.
ROLES = ("choose", "choose-sort", "compare", "spread")


@cache
def study_for(role: str) -> str:
    """Return the name of the one study that declares a role.

    Reads only the study files. Raises LookupError if no study or several studies declare it.
    """
    files = sorted((PACKAGE / "studies").glob("*.toml"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    having = [  # parse only if needed: parsing all takes as long as answering a question
        name
        for name, text in texts.items()
        if "roles" in text and role in tomllib.loads(text).get("roles", ())
    ]
    if len(having) != 1:
        raise LookupError(f"the studies that {role} has: {', '.join(having) or 'none'}; not one")
    return having[0]
