"""Conversion of kernels to plain CUDA C++: conditional compilation is resolved, the rest kept."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpubench.base.paths import kernel_folder

Constants = Mapping[str, int]
_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|else|endif)\b(.*)")


def resolved(text: str, constants: Constants) -> str:
    """Evaluate the preprocessor conditions in a source, and return the lines that they keep.

    Names that are not in `constants` count as undefined.
    """
    kept: list[str] = []
    holds: list[bool] = []  # for each open condition, whether lines are kept
    for line in text.splitlines():
        directive = _DIRECTIVE.match(line)
        word, condition = directive.groups() if directive else ("", "")
        if word == "else":
            holds[-1] = not holds[-1]
        elif word == "endif":
            holds.pop()
        elif word:
            holds.append(_holds(word, condition, constants))
        elif all(holds):
            kept.append(line)
    return "\n".join(kept) + "\n"


def _holds(word: str, condition: str, known: Constants) -> bool:
    """Evaluate the condition of an `#if`, `#ifdef` or `#ifndef`."""
    text = condition.partition("/*")[0].strip()
    if word != "if":
        return (text in known) == (word == "ifdef")
    text = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?", lambda found: str(int(found[1] in known)), text)
    text = re.sub(r"[A-Za-z_]\w*", lambda found: str(known.get(found[0], 0)), text)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
    return bool(eval(text, {"__builtins__": {}}))


CHOSEN = {"__CUDACC__": 1, "FROM_POSITIONS": 1, "STAGED": 1}  # defined by nvcc and the harness


def with_kernels(text: str, constants: Constants) -> str:
    """Return a template with its included files inserted, and an #undef for each macro in them."""
    constants = {**CHOSEN, **constants}
    text = re.sub(r'#include "(.+)"\n', lambda found: _body(found[1], constants), text)
    macros = dict.fromkeys(re.findall(r"^#define (?!GPUBENCH)(\w+)", text, re.MULTILINE))
    ends = "".join(f"#undef {macro}\n" for macro in macros)
    return re.sub(r"\n{3,}", "\n\n", text.replace("#undef MACROS\n", ends))


def _body(file: str, constants: Constants) -> str:
    """Return one file, resolved, without includes, guards and the macros GLOBAL and LOCAL."""
    text = resolved((kernel_folder() / file).read_text(encoding="utf-8"), constants)
    text = re.sub(r"^#(include .*|define (GPUBENCH_\w+|GLOBAL|LOCAL))\n", "", text, flags=re.M)
    text = text.replace("/* Address spaces of pointers, which CUDA infers. */\n", "")
    return f"/* {file} */\n" + re.sub(r"\b(GLOBAL|LOCAL) ", "", text)
