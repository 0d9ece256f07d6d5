"""Give results files of others to the commands that read them."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from random import Random
from typing import Any

from attack import processes, scene
from attack.trial import Outcome, require

NAME = "results"
PROMISE = (
    "Whatever a results file holds, `report`, `compare` and `choose` read it or refuse it in one"
    " line; no script gets into a page, and no file out of its folder."
)
TEXTS = (
    "<script>attack()</script>", '"><img src=x onerror=attack()>', "javascript:attack()",
    "two $ in a $ name", "\ud800", "a\0b", "n" * 300, "../../escaped", "/escaped", "", " ",
    "{{ 7 * 7 }}", "|a|b|", "\u202e", "%s%n", "line\nline", "\\frac{", "None",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    2**63, -(2**63) - 1, 10**40, 2**53 + 1, 0, -1, 1e308, -1e308, 5e-324, -0.0, -1.5, 0.5,
    float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, [], {}, [[]], {"a": {"b": [1]}}, [1, "2", None], "deep")
DATES = ("0000-01-01T00:00:00Z", "9999-99-99T99:99:99", "2026-11-22T00:00:00+99:99", "2026-11-22T")
SCRIPT = re.compile("<script>attack|<img src=x onerror|(?:href|src)=.?javascript:attack")
READ, VERDICT, ANSWER = (0, 2), (0, 1, 2, 3), (0, 2, 3)
REPORT = ("report bad.json --out out", READ, "*.json.gz")
COMMANDS = (
    REPORT,
    REPORT,
    ("report good.json bad.json --out out", READ, "*.json.gz"),
    ("compare good.json bad.json", VERDICT, "*.json.gz"),
    ("compare bad.json good.json --force --markdown out/c.md", VERDICT, "*.json.gz"),
    ("compare bad.json bad.json --json --force", ANSWER, "*.json.gz"),
    ("choose --particles 9999 --per-cell 4 --results bad.json", ANSWER, "*-regimes*.json.gz"),
    ("choose --validate --results bad.json", ANSWER, "*-regimes*.json.gz"),
)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Change something in a few results, and have one command read them."""
    here = scene.Scene(folder)
    words, allowed, name = rng.choice(COMMANDS)
    document = scene.shipped(rng, name, rng.choice((1, 4, 12, 40)))
    (here.work / "good.json").write_text(json.dumps(document))
    changes = [_change(rng, document) for _ in range(rng.choice((1, 1, 2)))]
    # Python's own names of infinities are no JSON; a number too large for a float is.
    text = json.dumps(document).replace("Infinity", rng.choice(("Infinity", "1e999")))
    if rng.random() < 0.1:
        change = rng.choice(("cut", "500 brackets", "200000 brackets", "digits", "twice"))
        text = _text(rng, change, text)
        changes.append(change)
    (here.work / "bad.json").write_text(text, encoding="utf-8")
    how = f"{words.split()[0]} with {'; '.join(changes)}"
    before = _files(folder)
    # A comparison ends with 2 as well where shipped answers are wrong, and says so in its answer.
    lines = (0, 1) if words.startswith("compare") else (1,)
    ended = here.run(words.split(), *allowed, how=how, lines=lines, before=processes.limit_memory)
    require(bool(ended.out or ended.err) or not ended.status, f"{how}: {ended.said}")
    outside = {p for p in _files(folder) - before if here.work / "out" not in p.parents}
    require(not outside, f"{how}: wrote {', '.join(map(str, outside))}")
    for page in (here.work / "out").rglob("*"):
        if page.suffix in (".html", ".svg"):
            found = SCRIPT.search(page.read_text(encoding="utf-8", errors="replace"))
            require(not found, f"{how}: a script in {page.name}")
    here.require_nothing_left()
    return Outcome(True, f"{how}: status {ended.status}")


def _files(folder: Path) -> set[Path]:
    cache = folder / "cache"
    return {path for path in folder.rglob("*") if path.is_file() and cache not in path.parents}


def _change(rng: Random, document: dict[str, Any]) -> str:
    """Change one thing in a document, in most cases in a record; say what."""
    records: Any = document.get("records")
    kind = rng.random()
    is_record = isinstance(records, list) and bool(records) and rng.random() < 0.7
    places: dict[str, list[tuple[Any, Any]]] = {}
    for holder, key in _holders(records if is_record else document):
        places.setdefault(key if isinstance(key, str) else "item", []).append((holder, key))
    name = rng.choice(sorted(places))
    holder, key = rng.choice(places[name])
    if kind < 0.06:
        del holder[key]
        return f"no {name}"
    if kind < 0.1:
        document["extra"] = rng.choice(OTHERS)
        return "an extra field"
    if kind < 0.14 and is_record:
        records.append(copy.deepcopy(rng.choice(records)))
        return "a record twice"
    old = holder[key]
    if kind < 0.2 or old is None or isinstance(old, bool | list | dict):
        new: Any = rng.choice((*TEXTS, *NUMBERS, *OTHERS))
    elif isinstance(old, str):
        new = rng.choice(DATES if name == "started" else TEXTS)
    else:
        new = rng.choice([number for number in NUMBERS if isinstance(number, type(old))])
    holder[key] = json.loads("[" * 400 + "]" * 400) if new == "deep" else new
    return f"{name} {str(new)[:30]!r}"


def _holders(value: Any) -> list[tuple[Any, Any]]:
    """Return every place of a document: what holds it, and its key there."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 8)):
            found += [(value, key), *_holders(value[key])]
    return found


def _text(rng: Random, change: str, text: str) -> str:
    """Change what is no longer a document in the text of one."""
    if change == "cut":
        return text[: rng.randrange(len(text))]
    if change == "twice":
        return text.replace('"schema": 1', '"schema": 1, "schema": 2', 1)
    if change == "digits":
        digits = rng.choice(("9" * 5000, "1e400", "1e-400", "-1e999999"))
        return re.sub(r'("particles": )\d+', rf"\g<1>{digits}", text, count=1)
    return text.replace('"records": [', '"records": [' + "[" * int(change.split()[0]), 1)
