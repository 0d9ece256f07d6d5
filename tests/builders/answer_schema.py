"""The schema of what `choose` answers in JSON."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from gpubench.choose import output

ANSWERS = Draft202012Validator(
    json.loads(Path(output.__file__).with_name("answer.schema.json").read_text(encoding="utf-8"))
)
