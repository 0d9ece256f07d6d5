"""`gpubench check`: check the answers of algorithms and the physics of workloads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.base.numbers import read_number
from gpubench.cli import require
from gpubench.cli.options import CellOption, DeviceOption, From, JsonOption, PeriodicOption
from gpubench.cli.output import print_json, print_table
from gpubench.cli.values import arg, opt

if TYPE_CHECKING:
    from gpubench.evidence.physics_results import CheckResults
    from gpubench.problems.collision.inputs import MeshPair
    from gpubench.problems.particles.inputs import ParticleSet

CHECKS = Path("results/checks")


@dataclass(frozen=True)
class OwnParticles:
    """The options that describe a user's own particles."""

    positions: Annotated[
        Path | None,
        opt("FILE.npy", "Check on your own particles: an array of shape (particles, 3)."),
    ] = None
    box: Annotated[str | None, opt("X,Y,Z", "Edges of the box of --positions.")] = None
    cell: CellOption = None
    low: Annotated[str, opt("X,Y,Z", "Lower corner of the box.")] = "0,0,0"
    cell_size: Annotated[float | None, opt("S", "Shortest edge of a cell: the cutoff.")] = None
    periodic: PeriodicOption = ""

    @property
    def are_given(self) -> bool:
        """Whether --positions, --box, --cell or --cell-size was given."""
        given = (self.positions, self.box, self.cell, self.cell_size)
        return any(each is not None for each in given)

    def read(self) -> ParticleSet | None:
        """Return the particles; None if no option is given; raise UserError if one is missing."""
        if self.positions is None:
            if self.are_given:
                raise UserError(
                    "--box, --cell and --cell-size describe particles: add --positions FILE.npy"
                )
            return None
        from gpubench.core.grid import Grid
        from gpubench.problems.particles.positions import read_particles

        edges = box_in(self.box, self.cell)
        if edges is None or self.cell_size is None:
            raise UserError("--positions needs --box X,Y,Z and --cell-size S")
        axes, low = axes_in(self.periodic), triple("--low", self.low)
        return read_particles(self.positions, Grid.in_box(low, edges, self.cell_size, axes))


def _own_meshes(paths: list[Path]) -> MeshPair:
    """Read a user's own meshes."""
    if len(paths) != 2:
        raise UserError("two meshes collide: give --mesh FILE twice")
    from gpubench.problems.collision.mesh_files import read_mesh_pair

    return read_mesh_pair(*paths)


def check(
    own: Annotated[OwnParticles, From(OwnParticles)],
    algorithms: Annotated[
        list[str] | None,
        arg(
            "[ALGORITHM]...",
            "Default: all. Or a family of workloads, to check its physics: {families}.",
            among=("algorithms", "families"),
        ),
    ] = None,
    mesh: Annotated[
        list[Path] | None,
        opt("FILE", "Check on your own meshes, given twice: OBJ, STL, PLY, or triangles as .npy."),
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    smallest: Annotated[
        bool,
        typer.Option("--smallest", help="For each wrong variant, shrink the first failing input."),
    ] = False,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            help="With a family: use the sizes for a GPU and store the findings in results/checks.",
        ),
    ] = False,
    out: Annotated[
        Path | None, opt("FILE", "With a family: store the findings in this file.")
    ] = None,
) -> None:
    """Check the answers of algorithms, in every variant. Exit 1 if one is wrong.

    `check dpd` checks the physics of a family of workloads against published figures and theory.
    """
    from gpubench.physics_checks.runner import FAMILIES

    require.one_process("check")
    families = [name for name in algorithms or () if name in FAMILIES]
    if families:
        if len(algorithms or ()) > 1 or own.are_given or mesh:
            raise UserError(
                f"`check {families[0]}` checks physics: leave out algorithms, particles and meshes"
            )
        _check_family(families[0], device, as_json, long, out)
    elif long or out is not None:
        raise UserError(f"--long and --out are for checks of {', '.join(FAMILIES)}")
    elif own.are_given and mesh:
        raise UserError("give either --positions or --mesh")
    else:
        inputs = _own_meshes(mesh) if mesh else own.read()
        _check_algorithms(algorithms, device, inputs, as_json, smallest)


def _check_algorithms(
    names: list[str] | None,
    device: str,
    inputs: ParticleSet | MeshPair | None,
    as_json: bool,
    smallest: bool,
) -> None:
    """Check algorithms, by default all; raise Exit(1) if an answer is wrong or a check fails."""
    from gpubench import registry
    from gpubench.cli.conformance import check_forms
    from gpubench.devices import open_device

    chosen = [registry.find_algorithm(name) for name in dict.fromkeys(names or ())]
    with open_device(device) as opened:
        outcomes = check_forms(
            chosen or list(registry.algorithms().values()), opened, inputs, smallest
        )
        if as_json:
            print_json({"device": opened.spec, "name": opened.name, "checks": outcomes})
        else:
            say(f"checking on {opened.name} ({opened.spec})")
            _print_outcomes(outcomes)
    if any(outcome["status"] in ("wrong", "failed") for outcome in outcomes):
        raise typer.Exit(1)


def _print_outcomes(outcomes: list[dict[str, Any]]) -> None:
    """Print a row for each variant, then the smallest failing inputs found."""
    rows = [
        (
            outcome["algorithm"], outcome["form"],
            {"ok": "right"}.get(outcome["status"], outcome["status"]),
            str(len(outcome["cases"]) or ""), outcome["reason"],
        )
        for outcome in outcomes
    ]  # fmt: skip
    print_table(("algorithm", "form", "answers", "cases", "reason"), rows)
    for outcome in outcomes:
        if shrunk := outcome.get("smallest"):
            say(f"the smallest failure of {outcome['algorithm']} {outcome['form']}:")
            print(shrunk)


def _check_family(family: str, device: str, as_json: bool, is_long: bool, out: Path | None) -> None:
    """Check the physics of a family of workloads; raise Exit(1) if a check does not pass."""
    from gpubench.devices import open_device
    from gpubench.evidence import physics_results
    from gpubench.physics_checks.runner import run as run_checks

    if out is not None:
        require.file("--out", out)
    elif is_long:
        require.folder("the folder of results", CHECKS)
    with open_device(device) as opened:
        say(f"checking {family} on {opened.name} ({opened.spec})")
        found = run_checks(family, opened, is_long=is_long)
    if out is not None:
        physics_results.save(found, out)
    elif is_long:
        with physics_results.free_path(CHECKS, family, found.environment) as out:
            physics_results.save(found, out)
    if out is not None:
        say(f"kept in {out}")
    if as_json:
        print_json(found.as_json())
    else:
        _print_checks(found)
    if not found.is_sound:
        raise typer.Exit(1)


def _print_checks(found: CheckResults) -> None:
    """Print a row for each quantity and for each failed check."""
    rows = []
    for check in found.checks:
        if check.failure:
            rows.append((check.name, "", "", "", "failed", check.failure))
        for finding in check.findings:
            against = finding.reference
            reference = f"{against.value:.4g} ± {against.tolerance:g}" if against else "none"
            said = (finding.quantity, finding.written, reference, finding.verdict, finding.note)
            rows.append((check.name, *said))
    print_table(("check", "quantity", "value", "reference", "verdict", "note"), rows)


def triple(option: str, text: str) -> tuple[float, float, float]:
    """Read three comma-separated numbers."""
    try:
        x, y, z = (read_number(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option} takes three numbers such as 10,10,10, not {text!r}") from None
    return x, y, z


def edges_in(cell: str) -> tuple[float, float, float]:
    """Read the edges of an orthogonal cell; raise UserError for others, which no study has.

    cell: nine numbers, the rows of a matrix, or six, lengths and angles in degrees.
    """
    import numpy as np  # slow to import

    from gpubench.core.grid import edges_of

    numbers: list[float] = []
    with suppress(ValueError):
        numbers = [read_number(part) for part in cell.split(",")]
    if len(numbers) not in (6, 9):
        wanted = "nine numbers, the rows of a matrix, or six, lengths and angles"
        raise UserError(f"--cell takes {wanted}, not {cell!r}")
    matrix = np.diag(numbers[:3]) if numbers[3:] == [90] * 3 else np.resize(numbers, (3, 3))
    if (edges := edges_of(matrix)) is None:
        raise UserError(
            "--cell takes orthogonal cells, which alone are measured: NeighbourList searches tilted"
            " ones, among images of the particles"
        )
    if not min(edges) > 0:
        raise UserError(f"--cell takes edges above 0, not {cell!r}")
    return edges


def box_in(box: str | None, cell: str | None) -> tuple[float, float, float] | None:
    """Read the edges of --box or --cell, of which one may be given; None if neither is."""
    if box is not None and cell is not None:
        raise UserError("--box and --cell say the same: give one of them")
    if cell is not None:
        return edges_in(cell)
    return None if box is None else triple("--box", box)


def axes_in(text: str) -> tuple[bool, bool, bool]:
    """Read the periodic axes of a box, such as "xz"."""
    text = "" if text == "none" else text
    if set(text) - set("xyz"):
        raise UserError(f"--periodic takes axes such as x, xy or xyz, or none, not {text!r}")
    return "x" in text, "y" in text, "z" in text
