"""Texts of small studies, as their files hold them."""

from __future__ import annotations

import json
from typing import Any


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {as_toml(one)}" for name, one in value.items()) + " }"
    return json.dumps(value)


def study_text(*subjects: str, name: str = "table", seed: int = 7, **fields: Any) -> str:
    """Return the text of a study with one sweep of some fields.

    subjects: names of algorithms, each with a form behind it unless that is "plain".
    """
    lines = ['title = "A study"', 'question = "Which?"', f"seed = {seed}"]
    lines += ["[[sweeps]]", f'name = "{name}"']
    lines += [f"{field} = {as_toml(value)}" for field, value in fields.items()]
    for subject in subjects:
        algorithm, _, form = subject.partition(" ")
        lines += ["[[subjects]]", f'algorithm = "{algorithm}"', f'form = "{form or "plain"}"']
    return "\n".join([*lines, ""])
