"""Kernels as plain CUDA C++: the variants that macros choose are resolved, the rest stays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpubench.core.paths import kernel_folder

Constants = Mapping[str, int | str]
# As nvcc has them.
BUILT_IN: Constants = {"__CUDACC__": 1}
_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b(.*)")
_COMMENT = re.compile(r"/\*.*?\*/")
_WORD = re.compile(r"[A-Za-z_]\w*")


def resolved(text: str, constants: Constants) -> str:
    """Return a source with only those parts that conditions over the constants keep.

    A name that is not among them counts as not defined, so guards against a second inclusion
    go as well, with the definitions that belong to them.
    """
    known = {**BUILT_IN, **constants}
    kept: list[str] = []
    # For each open condition: whether its present branch is kept, and whether any has been.
    branches: list[tuple[bool, bool]] = []
    for line in text.replace("\\\n", "\\\x00").splitlines():
        directive = _DIRECTIVE.match(line)
        if directive is None:
            if all(is_kept for is_kept, _ in branches):
                kept.append(line.replace("\\\x00", "\\\n"))
            continue
        word, condition = directive.groups()
        was_kept = branches.pop()[1] if word in ("elif", "else", "endif") else False
        if word != "endif":
            is_kept = not was_kept and (word == "else" or _holds(word, condition, known))
            branches.append((is_kept, was_kept or is_kept))
    return "\n".join(kept) + "\n"


def _holds(word: str, condition: str, known: Constants) -> bool:
    """Evaluate a preprocessor's condition, behind `if`, `elif`, `ifdef` or `ifndef`."""
    text = _COMMENT.sub("", condition.replace("\\\x00", " ")).strip()
    if word in ("ifdef", "ifndef"):
        return (text in known) == (word == "ifdef")
    text = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?", lambda found: str(int(found[1] in known)), text)
    text = _WORD.sub(lambda found: str(known.get(found[0], 0)), text)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
    if not re.fullmatch(r"[\d\s()<>!=+*/%-]*(?:(?:and|or|not)[\d\s()<>!=+*/%-]*)*", text):
        raise ValueError(f"a condition that cannot be resolved: {condition}")
    return bool(eval(text, {"__builtins__": {}}))


def namespace(name: str, files: Sequence[str], constants: Constants) -> str:
    """Return kernels with their headers, resolved, in a namespace of their own.

    Constants that the code still reads become `constexpr`, or a type its alias; macros end with
    the namespace.
    """
    bodies = [_body(file, constants) for file in files]
    code = "\n".join(bodies)
    used = set(_WORD.findall(re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)))
    lines = [
        f"constexpr int {key} = {value};" if isinstance(value, int) else f"using {key} = {value};"
        for key, value in constants.items()
        if key in used
    ]
    macros = dict.fromkeys(re.findall(r"^\s*#\s*define\s+(\w+)", code, re.MULTILINE))
    ends = [f"#undef {macro}" for macro in macros]
    return "\n".join([f"namespace {name} {{", "", *lines, "", code.strip(), "", *ends, "}", ""])


def _body(file: str, constants: Constants) -> str:
    """Return one file, resolved, without inclusions, guards and words of the dialect."""
    text = (kernel_folder() / file).read_text(encoding="utf-8")
    text = re.sub(r"^#ifndef (GPUBENCH_\w+)\n#define \1\n(.*)#endif\n$", r"\2", text,
                  flags=re.MULTILINE | re.DOTALL)  # fmt: skip
    text = resolved(text, constants)
    text = re.sub(r"^\s*#\s*include .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^#define (GLOBAL|LOCAL)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b(GLOBAL|LOCAL) ", "", text)
    text = re.sub(r"/\* Address spaces of pointers, which CUDA infers\. \*/\n", "", text)
    return re.sub(r"\n{3,}", "\n\n", text)
