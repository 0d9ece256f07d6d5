"""Installation hints for missing packages; the only module that names the distribution."""

from __future__ import annotations

from importlib.util import find_spec

from gpubench.base.errors import UserError

# `gpubench` on the package index is another project.
DISTRIBUTION = "gpubench-particles"
# For each extra, the modules that commands import from it.
MODULES = {
    "report": ("altair", "jinja2", "vl_convert"),
    "simulation": ("gsd", "matplotlib", "PIL"),
}


def hint(extra: str) -> str:
    """Return the command that installs an extra of this package."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def lacking(extra: str, what: str) -> str | None:
    """Say in one line which modules of an extra are missing, and how to install them; else None.

    extra: a key of MODULES. what: what needs the extra, e.g. "gpubench report".
    """
    missing = [name for name in MODULES[extra] if find_spec(name) is None]
    return f"{what} needs {', '.join(missing)}: {hint(extra)}" if missing else None


def require(extra: str, what: str) -> None:
    """Raise UserError if a module of an extra is missing; see `lacking`."""
    if said := lacking(extra, what):
        raise UserError(said)
