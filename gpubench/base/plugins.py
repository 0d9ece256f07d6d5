"""Plug-ins: modules from outside the package, with kernels in the same folder.

A module is added by an entry point in the group `gpubench.algorithms`, or by its path in the
environment variable GPUBENCH_ADD, which child processes inherit. For a path, the folder that
contains the module (or its outermost package) is put first on Python's path before the import.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from gpubench.base import paths
from gpubench.base.errors import UserError

GROUP = "gpubench.algorithms"
VARIABLE = "GPUBENCH_ADD"
KERNELS = frozenset({".cu", ".cuh", ".cl", ".h"})
SOURCES = KERNELS | {".py"}


@dataclass(frozen=True)
class Addition:
    """An added module, or a folder of modules.

    name: its name in results, taken from the entry point, file or folder.
    modules: the modules to search for algorithms; their kernels are in the same folders.
    folder: the folder of its sources. is_whole: True if everything below `folder` belongs to the
        addition, False if only the files directly in `folder` do.
    """

    name: str
    modules: tuple[ModuleType, ...]
    folder: Path
    is_whole: bool

    @property
    def kernel_folders(self) -> list[Path]:
        """The folders of its modules, without duplicates."""
        return list(dict.fromkeys(_file(module).parent for module in self.modules))

    def sources(self) -> Iterator[tuple[str, Path]]:
        """Yield each source file with a name that does not depend on the folder's location."""
        for path in self.folder.rglob("*") if self.is_whole else self.folder.glob("*"):
            inside = path.relative_to(self.folder)
            is_hidden = any(part.startswith(".") for part in inside.parts)
            if path.suffix in SOURCES and path.is_file() and not is_hidden:
                yield f"added/{self.name}/{inside.as_posix()}", path


def add(given: Iterable[Path]) -> None:
    """Add modules by path in this process and its children; call before looking up algorithms.

    Raises UserError if a path does not exist.
    """
    absolute = [str(path.absolute()) for path in given]
    for path in absolute:
        _require_importable(Path(path))
    os.environ[VARIABLE] = os.pathsep.join([*_given(), *absolute])
    additions.cache_clear()


@cache
def additions() -> tuple[Addition, ...]:
    """Import and return the added modules: paths first, then entry points by name.

    Duplicates appear once. Raises UserError for a path that is missing or not importable, for an
    entry point that is not a module, and for kernel files with equal names. Exceptions raised while
    importing a module propagate, with a note that names the module.
    """
    found: list[Addition] = []
    for path in _given():
        found += _new(_by_path(Path(path)), found)
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
        found += _new(_by_entry_point(point), found)
    _require_distinct_kernels(found)
    return tuple(found)


def moved(repository: Path, checkout: Path) -> str:
    """Return the value of GPUBENCH_ADD for another checkout of a repository.

    Paths inside the repository are replaced by those of the checkout, so that the commit there is
    measured with its own plug-ins; paths that the checkout lacks are omitted.
    """
    root = repository.resolve()
    there: list[Path] = []
    for path in (Path(given).resolve() for given in _given()):
        target = checkout / path.relative_to(root) if path.is_relative_to(root) else path
        if target.exists():
            there.append(target.absolute())
    return os.pathsep.join(map(str, there))


def kernel_folders(file: str) -> list[Path]:
    """Return the folders to search for a kernel file and its includes, in order.

    Raises UserError if no folder has the file.
    """
    package = paths.kernel_folder()
    if (package / file).is_file():
        return [package]
    for addition in additions():
        for folder in addition.kernel_folders:
            if (folder / file).is_file():
                return [folder, package]
    raise UserError(
        f"no kernels in {file}: the file belongs into {package}, or beside the module that was"
        " added and asks for it"
    )


def _given() -> list[str]:
    return [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]


def _new(addition: Addition, found: list[Addition]) -> list[Addition]:
    """Return a list of one: `addition` without modules that `found` has; empty if none is left."""
    known = {_file(module) for earlier in found for module in earlier.modules}
    modules = tuple(module for module in addition.modules if _file(module) not in known)
    if not modules:
        return []
    return [Addition(addition.name, modules, addition.folder, addition.is_whole)]


def _by_path(path: Path) -> Addition:
    _require_importable(path)
    path = path.resolve()
    if path.is_file():
        return Addition(path.stem, (_import(path),), path.parent, is_whole=False)
    if (path / "__init__.py").is_file():
        return Addition(path.name, _with_parts(_import(path)), path, is_whole=True)
    files = sorted(path.glob("[!_]*.py"))
    if not files:
        raise UserError(f"{path} holds no Python file that could declare an algorithm")
    return Addition(path.name, tuple(map(_import, files)), path, is_whole=True)


def _by_entry_point(point: metadata.EntryPoint) -> Addition:
    place = f"the entry point {point.name} = {point.value}"
    if point.attr:
        raise UserError(f"{place} names no module: {point.module} belongs there")
    module = _imported(point.module, place)
    is_whole = hasattr(module, "__path__")
    return Addition(point.name, _with_parts(module), _file(module).parent, is_whole)


def _with_parts(module: ModuleType) -> tuple[ModuleType, ...]:
    """Return a module and, if it is a package, its submodules with public names."""
    names = [part.name for part in pkgutil.iter_modules(getattr(module, "__path__", []))]
    parts = [f"{module.__name__}.{name}" for name in names if not name.startswith("_")]
    return module, *(_imported(part, part) for part in parts)


def _import(path: Path) -> ModuleType:
    """Import a file or a package by its full dotted name, starting at its outermost package."""
    name, root = path.stem, path.parent
    while (root / "__init__.py").is_file():
        name, root = f"{root.name}.{name}", root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    module = _imported(name, str(path))
    expected = path / "__init__.py" if path.is_dir() else path
    if _file(module) != expected:
        raise UserError(f"{path} cannot be imported: {_file(module)} is {name} too; rename one")
    return module


def _imported(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except SystemExit as end:
        raise UserError(
            f"{place} ends the program when it is imported: it must only declare"
        ) from end
    except Exception as error:
        error.add_note(f"while importing {place}, which was added to gpubench")
        raise


def _file(module: ModuleType) -> Path:
    """Return the file of a module; Python's built-in modules have none."""
    return Path(module.__file__ or "nowhere").resolve()


def _require_importable(path: Path) -> None:
    try:
        path.stat()
    except FileNotFoundError as error:
        raise UserError(
            f"there is no {path} to add: name a Python file, or a folder of them"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read {path!s:.80}: {error.strerror}") from error
    if not path.is_dir() and path.suffix != ".py":
        raise UserError(f"{path} cannot be added: name a Python file, or a folder of them")


def _require_distinct_kernels(found: Iterable[Addition]) -> None:
    folders = [paths.kernel_folder()]
    folders += [folder for addition in found for folder in addition.kernel_folders]
    owner: dict[str, Path] = {}
    for folder in dict.fromkeys(folders):
        for file in sorted(folder.glob("*.cu")):
            other = owner.setdefault(file.name, file)
            if other != file:
                raise UserError(f"{other} and {file} have one name: rename yours")
