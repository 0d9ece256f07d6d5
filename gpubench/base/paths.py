"""Locations of kernels, shipped results, the cache for compiled code, and the repository."""

from pathlib import Path

from gpubench.base.errors import UserError
from gpubench.base.user_cache import usable_cache

PACKAGE = Path(__file__).resolve().parents[1]


def kernel_folder() -> Path:
    """Return the folder of kernel sources: in an installed package, or beside it in a checkout."""
    installed = PACKAGE / "kernels"
    return installed if installed.is_dir() else PACKAGE.parent / "kernels"


def measured_folder() -> Path:
    """Return the folder of shipped results, which may not exist. It has a subfolder per machine.

    A checkout has results of every study, an installed wheel only those that `choose` needs.
    """
    installed = PACKAGE / "measured"
    return installed if installed.is_dir() else PACKAGE.parent / "results" / "measured"


def repository() -> Path | None:
    """Return the checkout that the package runs from, or None for an installed wheel."""
    root = PACKAGE.parent
    return root if (root / ".git").exists() and (root / "kernels").is_dir() else None


def cache_folder() -> Path:
    """Return (and make) the package's folder in the user's cache folder.

    Raises UserError if no cache folder is writable.
    """
    folder = usable_cache()
    if folder is None:
        raise UserError("no cache folder can be written: name one in XDG_CACHE_HOME")
    return folder
