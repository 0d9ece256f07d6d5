"""The version of the timed code: a hash of exactly the code that affects an algorithm's time.

Included: the algorithm's class, all definitions in the package that it uses, even indirectly, and
kernel files named there, with their includes; for several ranks also all decompositions and
transports; for calls of `NeighbourList`, which adapters import by name, also the searches that it
chooses among. Excluded: code that describes, checks or reports,
comments, docstrings, annotations, messages, and names of files and imports; results stay valid
when these change. The sources are parsed, never imported, so that any commit can be hashed.

Compiler options and the rest of `devices` affect every algorithm but are not hashed: increment
EPOCH when a change there affects times.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from gpubench.base import paths

EPOCH = 1
RANKS = "ranks"  # in place of a name: several ranks share the work
# Where the code that ranks share work by begins, in this commit and in older ones.
SHARED = (
    ("decomposed", "share"),
    ("distributed/team", "Team"),
    ("distributed/transport", "open_transport"),
    ("distributed/domain_decomposition", "share"),
    ("workloads/shared", "share"),
    ("parallel/transport", "open_transport"),
)
NAMED_IN = ("algorithms", "libraries", "workloads")  # packages whose classes have a `name`
# Packages and modules that are never timed, of this commit and of older ones.
NOT_TIMED = {
    "axes", "base", "cases", "checks", "choose", "cli", "compare", "contract", "contracts", "core",
    "devices", "evidence", "families", "inputs", "measure", "oracle", "physics", "physics_checks",
    "registry", "report", "simulate", "studies", "tasks", "verify",
}  # fmt: skip
DESCRIBES = {
    "conformance_parameters", "declared", "figure", "full_step_velocities", "is_exact",
    "library_part", "loses", "name", "needs", "observe", "outcome", "replaces", "sample_sizes",
    "snapshot", "snapshot_of", "source", "structure", "summary", "task_and_answer",
    "traffic_bytes", "variants",
}  # fmt: skip
_UNSAID = {"ctx", "kind", "lineno", "type_comment", "type_params"}
_NAME = re.compile(r'^    name(?:: [^=]+)? = "([a-z0-9-]+)"', re.MULTILINE)
_KERNEL = re.compile(r"[\w/]+\.(cu|cuh|cl|h)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REFERENCE = re.compile(r"@\{([\w/]+):(\w+)\}")
_FILE = re.compile(r"%\{([^}]+)\}")
_INCLUDE = re.compile(r'#\s*include\s*"([^"]+)"')

Place = tuple[str, str]  # the path of a module in the package, and a name in that module


@dataclass
class Module:
    """The top-level definitions of a file, and its imports from the package."""

    defines: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)


class SourceTree:
    """The package and kernel folders of one version of the code."""

    def __init__(self, package: Path, kernels: Path) -> None:
        self._package, self._kernels = package, kernels
        self._modules: dict[str, Module] = {}
        self._forms: dict[Place, str] = {}

    def version(self, names: Sequence[str], backend: str) -> str | None:
        """Return the version of an algorithm, or of an algorithm and a workload, by name.

        names: with RANKS among them, that of several ranks. backend: cuda or opencl. Returns EPOCH
        and 12 hex digits; None for an unknown name.
        """
        named = [name for name in names if name != RANKS]
        if not all(name in self._named for name in named):
            return None
        todo = [self._named[name] for name in named]
        if RANKS in names:
            todo += [(module, name) for module, name in SHARED if self.has(module, name)]
        seen: set[Place] = set()
        while todo:
            place = todo.pop()
            if place not in seen:
                seen.add(place)
                todo += [(m[1], m[2]) for m in _REFERENCE.finditer(self._form(place))]
        digests = sorted(_digest(self._in_full(place, backend)) for place in seen)
        text = "\n".join([self._kernel(f"prelude/{backend}.h"), *digests])
        return f"{EPOCH}.{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @cached_property
    def interface(self) -> list[Place]:
        """The places of `NeighbourList` and of the searches that it chooses among."""
        public = self.resolve("__init__", "NeighbourList")
        searches = (place for place in self._named.values() if place[0] == "algorithms/cell_search")
        return [] if public is None else [public, *sorted(searches)]

    @cached_property
    def _named(self) -> dict[str, Place]:
        """The place of each named class."""
        found = {}
        for room in NAMED_IN:
            for path in sorted(self._package.joinpath(room).glob("*.py")):
                if not _NAME.search(path.read_text(encoding="utf-8")):
                    continue
                module = f"{room}/{path.stem}"
                for name, nodes in self.module(module).defines.items():
                    for given in (n for node in nodes for n in _given_name(node)):
                        found[given] = (module, name)
        return found

    def module(self, module: str) -> Module:
        """Return the definitions and imports of a module; empty if there is no such module."""
        if module not in self._modules:
            path = self._package / f"{module}.py"
            path = path if path.exists() else self._package / module / "__init__.py"
            tree = ast.parse(path.read_bytes()) if path.exists() else ast.Module([], [])
            made = Module()
            for node in _top_level(tree.body):
                for name in _defined(node):
                    made.defines.setdefault(name, []).append(node)
            made.imports = _imports(tree)
            self._modules[module] = made
        return self._modules[module]

    def resolve(self, module: str, name: str) -> Place | None:
        """Return the place where a name used in a module is defined; None outside the package.

        For definitions in the package that are not timed, the place is ("", "").
        """
        for _ in range(9):  # follow re-exports
            own = self.module(module)
            if name in own.defines:
                return (module, name) if not NOT_TIMED & {*module.split("/")} else ("", "")
            if name not in own.imports:
                return None
            target, attribute = own.imports[name]
            if attribute is None or not self.has(target, attribute):
                return ("", "")
            module, name = target, attribute
        return None

    def has(self, module: str, name: str) -> bool:
        """Whether a name can be imported from a module."""
        own = self.module(module)
        return name in own.defines or name in own.imports

    def _form(self, place: Place) -> str:
        """Return the text of a definition, reduced to what affects its time.

        References to other definitions become `@{module:name}`, kernel files `%{file}`.
        """
        if place not in self._forms:
            writer, nodes = _Writer(self, place), self.module(place[0]).defines[place[1]]
            self._forms[place] = "\n".join(writer.line(_own(node)) for node in nodes)
        return self._forms[place]

    def _in_full(self, place: Place, backend: str) -> str:
        """Return a definition with kernel files and references replaced by hashes of their text."""

        def kernel(match: re.Match[str]) -> str:
            return "" if backend == "cuda" and match[1].endswith(".cl") else self._kernel(match[1])

        def shallow(match: re.Match[str]) -> str:
            form = self._form((match[1], match[2]))
            return _digest(_REFERENCE.sub("@", _FILE.sub(kernel, form)))

        return _REFERENCE.sub(shallow, _FILE.sub(kernel, self._form(place)))

    @cache  # noqa: B019  # lives as long as its SourceTree
    def _kernel(self, file: str, within: str = "") -> str:
        """Return the hash of a kernel file with its includes; empty if it is missing."""
        near = self._kernels / within / file
        path = near if near.is_file() else self._kernels / file
        if not path.is_file():
            return ""
        text = _COMMENT.sub(" ", path.read_text(encoding="utf-8"))
        folder = path.parent.relative_to(self._kernels).as_posix()
        whole = _INCLUDE.sub(lambda match: f"@{self._kernel(match[1], folder)}", text)
        return _digest(" ".join(whole.split()))


class _Writer(ast.NodeTransformer):
    """Normalises the syntax tree of one definition, in place."""

    def __init__(self, sources: SourceTree, place: Place) -> None:
        self._sources, self._place = sources, place
        self._imports: dict[str, tuple[str, str | None]] = {}

    def line(self, node: ast.stmt) -> str:
        """Return a definition as one line."""
        self._imports = _imports(node)
        return _plain(self.visit(node))

    def _reference(self, place: Place | None, otherwise: ast.expr) -> ast.expr:
        if place is None:
            return otherwise
        is_apart = place not in (("", ""), self._place)
        return ast.Name(f"@{{{place[0]}:{place[1]}}}" if is_apart else "@")

    def _resolve(self, name: str) -> Place | None:
        if name in self._imports:
            target, attribute = self._imports[name]
            return self._sources.resolve(target, attribute) if attribute else ("", "")
        return self._sources.resolve(self._place[0], name)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._reference(self._resolve(node.id), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name):
            imports = self._sources.module(self._place[0]).imports | self._imports
            target, attribute = imports.get(node.value.id, ("", ""))
            module = target if attribute is None else f"{target}/{attribute}"
            if target and self._sources.has(module, node.attr):
                return self._reference(self._sources.resolve(module, node.attr), node)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(ast.Name("need"), [ast.Constant("gpubench"), *_]):
                return ast.Tuple([self._reference(each, node) for each in self._sources.interface])
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and _KERNEL.fullmatch(node.value):
            return ast.Name(f"%{{{node.value}}}")
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None or _is_described(node.target):
            return None
        return self.visit(ast.Assign([node.target], node.value))  # type: ignore[no-any-return]

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if _is_described(node.targets[0]) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = "@"
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        if node.name in DESCRIBES:
            return None
        node.returns = None
        if (self._place[1]) == node.name:
            node.name = "@"
        return self.generic_visit(node)


def _own(node: ast.stmt) -> ast.stmt:
    """Return a statement that _Writer may modify: a copy where it may define several names."""
    has_one_name = isinstance(node, ast.ClassDef | ast.FunctionDef)
    return node if has_one_name else copy.deepcopy(node)


def _plain(node: object) -> str:
    """Return a tree as text without empty fields; the same for every version of Python."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in _UNSAID)
        given = (f"{name}={_plain(value)}" for name, value in fields if value not in (None, []))
        return f"{type(node).__name__}({', '.join(given)})"
    if isinstance(node, list):
        return f"[{', '.join(map(_plain, node))}]"
    return repr(node)


def _is_described(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id in DESCRIBES


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, also in `if` and `try`, except those for type checkers."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _top_level(node.orelse)
        elif isinstance(node, ast.If | ast.Try):
            yield from _top_level(
                each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)
            )
        else:
            yield node


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _given_name(node: ast.stmt) -> Iterator[str]:
    """Yield the name of a class as used in studies and results: its attribute `name`."""
    for each in node.body if isinstance(node, ast.ClassDef) else ():
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        value = getattr(each, "value", None)
        for target in targets:
            is_name = isinstance(target, ast.Name) and target.id == "name"
            if is_name and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def _imports(tree: ast.AST) -> dict[str, tuple[str, str | None]]:
    """Return a tree's imports from the package: local name to (module, name in the module)."""
    found: dict[str, tuple[str, str | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpubench"):
            path = "/".join((node.module or "").split(".")[1:])
            for each in node.names:
                found[each.asname or each.name] = (path, each.name)
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _sources() -> SourceTree:
    return SourceTree(paths.PACKAGE, paths.kernel_folder())


@cache
def version_of(
    algorithm: str, workload: str | None, backend: str, ranks: int | None = None
) -> str | None:
    """Return the version of an algorithm, or of an algorithm together with a workload.

    ranks: the number of ranks that share the workload. None for algorithms from outside the
    package.
    """
    shared = RANKS if workload and (ranks or 1) > 1 else None
    return _sources().version([n for n in (algorithm, workload, shared) if n], backend)
