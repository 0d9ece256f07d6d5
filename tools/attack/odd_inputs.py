"""Give odd files, arrays, attributes, copies and caches to what reads them."""

from __future__ import annotations

import copy
import io
import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attack import odd, scene
from attack.trial import Outcome, require

NAME = "odd-inputs"
PROMISE = (
    "Odd files, arrays, attributes, copies and caches give a right answer, or one line that says"
    " what is wrong (and status 2): never a traceback, never silence."
)
CUTOFF, BOX = 1.0, odd.BOX
THEIRS = ("pocl", "warp", "matplotlib")  # caches that gpubench cannot check before they are read
OPTIONS: dict[str, tuple[Any, ...]] = {
    "cutoff": (1e-23, 1e-300, 1e300, "1", None, -1, 0, np.nan, np.inf, [1.0], 1 + 0j),
    "box": (
        np.diag(BOX) + 1e-17 * (1 - np.eye(3)), np.diag(BOX) + np.eye(3, k=1), 5.0, (5, 6), "abc",
        (0, 6, 7), (np.nan, 6, 7), (1e308,) * 3, (10**4,) * 3, (1e-30,) * 3,
    ),
    "periodic": ("xyz", 1, None, (True, False), (1, 0, 1), np.array([True, False, True])),
    "low": (None, "abc", (1, 2), (np.nan,) * 3, (1e300,) * 3, (-7, 1e5, 0)),
    "capacity": (2.5, "10", True, -1, 10**12, 10**40, 0, 7, np.int64(9999), np.nan),
    "half": ("no", 2, None, np.True_),
    "order": ("cell", 1, None, ["cells"], "cells"),
    "skin": (-1, np.nan, "1", 1e300, None, 0.1),
    "method": ("none", 1, None, "radix-grid", "atomic-list"),
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "cutoff": (0.5, 1.5, -1, "x"), "box": ((9.0, 9.0, 9.0), None), "skin": (0.6, -1),
    "periodic": (False,), "low": ((1.0, 1.0, 1.0),), "half": (True,), "reach": (0.2,),
    "order": ("cells",), "capacity": (3,), "method": ("radix-grid",), "cutof": (0.5,),
}  # fmt: skip


def attempt(rng: Random, folder: Path) -> Outcome:
    """Draw one odd thing; all but caches are read by this process."""
    here = scene.Scene(folder, scene.measured)
    os.environ.update(here.environment)
    how = rng.choice((_file, _file, _array, _array, _option, _attribute, _copy, _cache))(rng, here)
    here.require_nothing_left()
    return Outcome(True, how)


def _points(rng: Random, frames: int = 1, count: int = 60) -> NDArray[np.float64]:
    return np.random.default_rng(rng.getrandbits(32)).random((frames, count, 3)) * BOX


def _answer(how: str, must: bool, work: Callable[[], Any]) -> Any:
    """Return what some work returns; None where it is refused in one line, or warns in one.

    Raises Broken for any other exception, and for a refusal where it must be accepted.
    """
    from gpubench.base.errors import UserError

    with redirect_stderr(io.StringIO()), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = work()
        except UserError as error:
            require("\n" not in str(error) and len(str(error)) > 9, f"{how}: not a line: {error}")
            require(not must, f"{how}: refused: {error}")
            return None
        except Exception as error:
            require(False, f"{how}: {type(error).__name__}: {error}")
    warned = [each for each in said if "bound" in str(each.message)]
    return None if warned and not must else found


def _require_pairs(how: str, found: Any, points: Any, cutoff: float, box: Any, wraps: Any) -> None:
    """Compare the pairs of a search with all that there are, but those within rounding."""
    x = np.asarray(points, np.float64)[:, :3]
    away = x[:, None] - x
    size = np.asarray(BOX if box is None else box, np.float64)
    if box is None and len(x):
        size = np.ptp(x, axis=0) + 2 * cutoff
    away -= np.where(wraps, np.round(away / size) * size, 0.0)
    far = np.sqrt((away**2).sum(-1)) + np.where(np.eye(len(x)), np.inf, 0)
    rounding = min(2.0**-20 * (np.hypot.reduce(size) + cutoff), 1e-3 * cutoff)
    listed = np.zeros(far.shape, np.int64)
    ids = np.arange(len(x)) if found.ids is None else np.asarray(found.ids)
    pairs = ids[np.asarray(found.pairs()).T]
    np.add.at(listed, tuple(pairs), 1)
    right = (listed >= (far < cutoff - rounding)) & (listed <= (far < cutoff + rounding))
    wrong = int((~right).sum())
    require(not wrong, f"{how}: {wrong} pairs are wrong, of {len(pairs.T)}")
    distances = np.asarray(getattr(found.distances(), "detach", found.distances)())
    require(np.allclose(distances, far[tuple(pairs)], atol=1e-5), f"{how}: wrong distances")


def _array(rng: Random, here: scene.Scene) -> str:
    """Search odd arrays, and tensors."""
    import gpubench

    box, wraps = rng.choice(((BOX, True), (BOX, False), (None, False)))
    x = _points(rng)[0]
    if find_spec("torch") and rng.random() < 0.3:
        import torch

        kind = rng.choice(sorted(odd.TENSORS))
        (make, must), x = odd.TENSORS[kind], torch.from_numpy(x)
    else:
        kind = rng.choice(sorted(odd.ARRAYS))
        make, must = odd.ARRAYS[kind]
    given, how = make(x), f"{kind}, box {box}, periodic {wraps}"
    found = _answer(how, must, lambda: gpubench.NeighbourList(CUTOFF, box, wraps)(given))
    if found is None:
        return how
    plain = given.detach().float().numpy() if hasattr(given, "detach") else np.asarray(given)
    _require_pairs(how, found, plain, CUTOFF, box, wraps)
    if kind == "of a gradient":
        _answer(how, must, lambda: found.distances().sum().backward())
        require(given.grad is not None, f"{how}: no gradient, and no word")
    return how


def _option(rng: Random, here: scene.Scene) -> str:
    """Give one odd option; what is accepted must find what it says."""
    import gpubench

    name = rng.choice(sorted(OPTIONS))
    value, x = rng.choice(OPTIONS[name]), _points(rng)[0]
    options = {"cutoff": CUTOFF, "box": BOX, "periodic": True, name: value}
    how = f"{name}={value!r:.60}"

    def work() -> Any:
        search = gpubench.NeighbourList(**options)
        found = search(x)
        require(bool((np.asarray(search.count(x)) >= 0).all()), f"{how}: counts below 0")
        return found.check() if name == "capacity" else found

    found = _answer(how, False, work)
    if found is not None and name not in ("half", "skin"):
        size = np.asarray(options["box"], np.float64)
        size = np.diagonal(size) if size.ndim == 2 else size
        _require_pairs(how, found, x, float(options["cutoff"]), size, options["periodic"])
    return how


def _attribute(rng: Random, here: scene.Scene) -> str:
    """Set an attribute between two searches: it is taken, or refused."""
    import gpubench
    from gpubench.base.errors import UserError

    name, x = rng.choice(sorted(SETTINGS)), _points(rng)[0]
    value, skin = rng.choice(SETTINGS[name]), rng.choice((0.0, 0.2))
    search, how = gpubench.NeighbourList(CUTOFF, BOX, True, skin=skin), f"{name} = {value!r}"
    search(x)
    cutoff, box = CUTOFF, BOX
    try:
        setattr(search, name, value)
    except (AttributeError, UserError) as error:
        require("\n" not in str(error), f"{how}: not a line: {error}")
    else:
        require(name in ("cutoff", "box"), f"{how}: set silently")
        cutoff, box = (value, BOX) if name == "cutoff" else (CUTOFF, value)
    if (found := _answer(how, False, lambda: search(x))) is not None:
        _require_pairs(how, found, x, cutoff + skin, box, box is not None)
    return how


def _copy(rng: Random, here: scene.Scene) -> str:
    """Copy or pickle a search, or what it found, after its first search."""
    import gpubench

    name, x = rng.choice(("pickle", "copy", "deepcopy")), _points(rng)[0]
    way = (lambda it: pickle.loads(pickle.dumps(it))) if name == "pickle" else getattr(copy, name)
    search = gpubench.NeighbourList(CUTOFF, BOX, True, order=rng.choice(("input", "cells")))
    found, is_result = search(x), rng.random() < 0.4
    how = f"{name} of {'what was found' if is_result else 'a search'}"
    again = _answer(how, not is_result, lambda: way(found) if is_result else way(search)(x))
    if again is not None:
        _require_pairs(how, again, x, CUTOFF, BOX, True)
    return how


def _file(rng: Random, here: scene.Scene) -> str:
    """Write an odd trajectory; all of it is read, or `tune` refuses it in one line, status 2."""
    from gpubench.problems.particles.trajectory import read_frames

    frames = _points(rng, rng.choice((1, 2, 4)), rng.choice((1, 7, 40)))
    how, name, content, must = odd.write(rng, frames, here.work)
    how, path = f"{name}: {how}", here.work / name
    path.write_bytes(content)
    found = _answer(how, must, lambda: read_frames(path))
    if found is None or found.positions.dtype.kind != "f" or not np.isfinite(found.positions).all():
        words = ("tune", name, "--cutoff", "1", "--device", scene.DEVICE, "--task", "build")
        here.run(words, 2, how=how)
        return how
    require(found.positions.shape[:2] == frames.shape[:2], f"{how}: frames are lost")
    middle = np.asarray(BOX) / 2 if name.endswith("gsd") else 0.0
    read = np.asarray(found.positions[..., :3], np.float64) + middle
    require(np.allclose(read, frames, atol=1e-2), f"{how}: other positions")
    require(("lattice" in how) <= (found.box is not None), f"{how}: no box, and no word")
    require(found.box is None or np.allclose(found.box, BOX, atol=1e-4), f"{how}: {found.box}")
    return how


def _cache(rng: Random, here: scene.Scene) -> str:
    """Spoil one file of the cache, or a folder: the next commands, two at once, do not notice."""
    words, cache = ("devices", "--json"), here.folder / "cache"
    before = here.run(words, program=scene.GPUBENCH).out
    every = [path for path in cache.rglob("*") if not {*path.relative_to(cache).parts} & {*THEIRS}]
    path, how = rng.choice(sorted(every)), rng.choice(("empty", "cut", "garbage", "folder", "gone"))
    content = path.read_bytes() if path.is_file() else b"folder"
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if how == "folder":
        path.mkdir()
    elif how != "gone":
        cut = {"empty": b"", "cut": content[: len(content) // 2]}
        path.write_bytes(cut.get(how, rng.randbytes(len(content))))
    how = f"{path.relative_to(cache)}: {how}"
    run = (*scene.RUN[:-1], "after")
    both = [here.start(run, program=scene.GPUBENCH), here.start((*scene.RUN[:-1], "other"))]
    for command in both:
        scene.require_status(command.wait(), 0, how=how)
    require(here.run(words, how=how, program=scene.GPUBENCH).out == before, f"{how}: other devices")
    return how
