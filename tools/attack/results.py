"""Give results files of others to the commands that read them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from attack import common, processes
from attack.trial import Outcome, require

NAME = "results"
PROMISE = (
    "Whatever a results file holds, `report`, `compare` and `choose` read it or refuse it in one"
    " line; no script gets into a page, and no file out of its folder."
)
SECRET = "attack4711"
TEXTS = (
    f"<script>{SECRET}()</script>", f'"><img src=x onerror={SECRET}()>', f"javascript:{SECRET}()",
    "two $ in a $ name", "\ud800", "a\0b", "n" * 300, "../../escaped", "/escaped", "", " ",
    "{{ 7 * 7 }}", "|a|b|", "\u202e", "%s%n", "line\nline", "\\frac{", "None",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    2**63, -(2**63) - 1, 10**40, 1e308, -1e308, 5e-324, 0, -0.0, -1, -1.5, 0.5, 2**53 + 1,
    float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"a": {"b": [1]}}, [1, "2", None])
DATES = ("0000-01-01T00:00:00Z", "9999-99-99T99:99:99", "2026-11-22T00:00:00+99:99", "2026-11-22T")
IN_PAGE = re.compile(
    rf"<script>{SECRET}|<img src=x onerror|(?:href|src)=.?javascript:{SECRET}", re.IGNORECASE
)


def attempt(rng: Random, folder: Path) -> Outcome:
    """Change a few results here and there, and have one command read them."""
    from gpubench.paths import measured_folder

    processes.surroundings(folder)
    work = folder / "work"
    words, allowed, name = rng.choice(_COMMANDS)
    shipped = sorted(measured_folder().rglob(name), key=lambda path: path.stat().st_size)
    source = rng.choice(shipped[: 1 + len(shipped) // 2])
    document = json.loads(source.read_text())
    size = rng.choice((1, 4, 12, 40))
    begin = rng.randrange(max(1, len(document["records"]) - size))
    document["records"] = document["records"][begin : begin + size]
    (work / "good.json").write_text(json.dumps(document))
    changes = [_change(rng, document) for _ in range(rng.choice((1, 1, 2)))]
    # Python's own names of infinities are no JSON; a number too large for a float is.
    text = json.dumps(document).replace("Infinity", rng.choice(("Infinity", "1e999")))
    if rng.random() < 0.1:
        change, text = rng.choice(_TEXT_CHANGES)(rng, text)
        changes.append(change)
    (work / "bad.json").write_text(text, encoding="utf-8")
    how = f"{words[0]} of {source.name} with {'; '.join(changes)}"
    before = _files(folder)
    ended = processes.run(words, folder, before=processes.limit_memory)
    common.require_status(ended, *allowed, how=how)
    outside = [path for path in _files(folder) - before if work / "out" not in path.parents]
    require(not outside, f"{how}: wrote {', '.join(map(str, outside))}")
    for page in (work / "out").rglob("*"):
        if page.suffix in (".html", ".svg"):
            found = IN_PAGE.search(page.read_text(encoding="utf-8", errors="replace"))
            require(not found, f"{how}: a script in {page.name}")
    common.require_nothing_left(folder)
    shutil.rmtree(work)
    return Outcome(True, f"{how}: status {ended.status}")


_READ, _VERDICT, _SEARCH = (0, 2), (0, 1, 2, 3), (0, 2, 3)
_MAP = "*-regimes*.json"
_REPORT = (["report", "bad.json", "--out", "out"], _READ, "*.json")
_COMMANDS = (
    _REPORT,
    _REPORT,
    (["report", "good.json", "bad.json", "--out", "out"], _READ, "*.json"),
    (["compare", "good.json", "bad.json"], _VERDICT, "*.json"),
    (["compare", "bad.json", "good.json", "--force", "--markdown", "out/c.md"], _VERDICT, "*.json"),
    (["compare", "bad.json", "bad.json", "--json", "--force"], (0, 2, 3), "*.json"),
    (["choose", "--particles", "9999", "--per-cell", "4", "--results", "bad.json"], _SEARCH, _MAP),
    (["choose", "--validate", "--results", "bad.json"], _SEARCH, _MAP),
)


def _files(folder: Path) -> set[Path]:
    besides = folder / "cache"
    return {p for p in folder.rglob("*") if p.is_file() and besides not in p.parents}


def _change(rng: Random, document: dict[str, Any]) -> str:
    """Change one thing in a document; say what."""
    places: dict[str, list[tuple[Any, Any]]] = {}
    records = document.get("records")
    is_record = bool(records) and isinstance(records, list) and rng.random() < 0.7
    for holder, key in _holders(records if is_record else document):
        places.setdefault(key if isinstance(key, str) else "item", []).append((holder, key))
    holder, key = rng.choice(places[rng.choice(sorted(places))])
    old, kind = holder[key], rng.random()
    if kind < 0.06:
        if isinstance(holder, dict):
            del holder[key]
            return f"no {key}"
        holder.append(holder[key])
        return "an item twice"
    if kind < 0.08 and isinstance(holder, dict):
        holder["extra"] = rng.choice(OTHERS)
        return "an extra field"
    if kind < 0.12 and isinstance(records, list) and records:
        records.append(json.loads(json.dumps(rng.choice(records))))
        return "a record twice"
    if kind < 0.18:
        new: Any = rng.choice((*TEXTS, *NUMBERS, *OTHERS, "deep"))
    elif key == "started":
        new = rng.choice(DATES)
    elif isinstance(old, str):
        new = rng.choice(TEXTS)
    elif isinstance(old, bool) or not isinstance(old, int | float):
        new = rng.choice((*OTHERS, *NUMBERS))
    else:
        likes = [number for number in NUMBERS if isinstance(number, type(old))]
        new = rng.choice(likes or NUMBERS)
    holder[key] = _deep() if new == "deep" else new
    return f"{key} {str(new)[:30]!r}"


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(400):
        nested = [nested]
    return nested


def _holders(value: Any) -> list[tuple[Any, Any]]:
    """Return every place of a document: what holds it, and its key there."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 8)):
            found += [(value, key), *_holders(value[key])]
    return found


def _cut(rng: Random, text: str) -> tuple[str, str]:
    return "its end cut off", text[: rng.randrange(len(text))]


def _nest(rng: Random, text: str) -> tuple[str, str]:
    depth = rng.choice((500, 5000, 200_000))
    return f"{depth} brackets", text.replace('"records": [', '"records": [' + "[" * depth, 1)


def _long_number(rng: Random, text: str) -> tuple[str, str]:
    digits = rng.choice(("9" * 5000, "1e400", "1e-400", "-1e999999"))
    return "a number of many digits", re.sub(
        r'("particles": )\d+', rf"\g<1>{digits}", text, count=1
    )


def _repeat_key(rng: Random, text: str) -> tuple[str, str]:
    return "a field twice", text.replace('"schema": 1', '"schema": 1, "schema": 2', 1)


_TEXT_CHANGES: tuple[Callable[[Random, str], tuple[str, str]], ...] = (
    _cut, _nest, _long_number, _repeat_key,
)  # fmt: skip
