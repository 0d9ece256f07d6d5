"""`gpubench simulate`: run a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpubench.base import install
from gpubench.base.messages import say
from gpubench.cli import require
from gpubench.cli.options import (
    DeviceOption,
    From,
    JsonOption,
    OversubscribeOption,
    TransportOption,
)
from gpubench.cli.output import print_json, print_table
from gpubench.cli.values import arg, opt

if TYPE_CHECKING:
    from gpubench.devices import Device
    from gpubench.simulate.session import Outputs


def setup(
    particles: Annotated[int | None, opt("N", "Default: the workload's own.")] = None,
    algorithm: Annotated[
        str | None,
        opt(
            "A",
            "Algorithm that builds the cells; see `gpubench list`. Default: {cells}.",
            among="algorithms",
        ),
    ] = None,
    form: Annotated[
        str | None, opt("F", "Variant. Default: the first that can run here and reorders.")
    ] = None,
    skin: Annotated[
        float | None, opt("X", "Keep neighbour lists within cutoff plus X. Default: 0, no lists.")
    ] = None,
    seed: Annotated[int | None, opt("N", "Default: 1.")] = None,
) -> dict[str, Any]:
    """Return the options that describe a simulation, as fields of `simulate.setup.Setup`."""
    return locals()


def outputs(
    frames: Annotated[
        Path | None, opt("DIR", "Write pictures, an animation and a panel into this folder.")
    ] = None,
    frame_every: Annotated[
        int | None, opt("K", "Steps between frames, also of a trajectory. Default: 50 frames.")
    ] = None,
    renderer: Annotated[
        str | None,
        opt(
            "R",
            "How pictures are drawn, in perspective or as a slab: one of {renderers}. Default:"
            " auto, in perspective where that is possible and colours show the speed.",
            among="renderers",
        ),
    ] = None,
    trajectory: Annotated[Path | None, opt("FILE", "Write FILE.gsd or FILE.xyz.")] = None,
    observe_every: Annotated[
        int | None, opt("K", "Steps between observations. Default: 10 in all.")
    ] = None,
    checkpoint: Annotated[Path | None, opt("FILE", "Write a checkpoint to resume from.")] = None,
    checkpoint_every: Annotated[
        int | None, opt("K", "Steps between checkpoints. Default: 10 in all.")
    ] = None,
) -> dict[str, Any]:
    """Return the options for a simulation's output, as fields of `simulate.session.Outputs`."""
    return locals()


StepsOption = Annotated[
    int | None,
    opt("S", "Counted from the beginning, also with --resume. Default: the workload's own."),
]
DecompositionOption = Annotated[
    str | None,
    opt(
        "D",
        "How the ranks that mpirun started share it: one of {decompositions}. Default: slab.",
        among="decompositions",
    ),
]
WorkloadArgument = Annotated[str, arg("WORKLOAD", "See `gpubench list`.", among="workloads")]


def simulate(
    workload: WorkloadArgument,
    setup: Annotated[dict[str, Any], From(setup)],
    outputs: Annotated[dict[str, Any], From(outputs)],
    steps: StepsOption = None,
    parameter: Annotated[
        list[str] | None,
        opt("NAME=VALUE", "A parameter of the workload or the algorithm; may be repeated."),
    ] = None,
    resume: Annotated[
        Path | None, opt("FILE", "Resume from a checkpoint, with the options stored in it.")
    ] = None,
    decomposition: DecompositionOption = None,
    device: DeviceOption = "auto",
    transport: TransportOption = "auto",
    oversubscribe: OversubscribeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a simulation and report its speed.

    Also reports the time of each phase, and observations. Ctrl-C stops it after the current steps,
    with a checkpoint if --checkpoint is given, and exit status 130. Exit 2 if the simulation blows
    up. Under mpirun, all ranks share the simulation.
    """
    from gpubench.simulate.ranks import Crew, choose_decomposition

    crew = Crew.join(device, transport, oversubscribe)
    with crew.ends_all():
        if crew.follows:
            crew.follow()
            return
        install.require("simulation", "gpubench simulate")
        from gpubench.simulate.session import Outputs

        sharing = choose_decomposition(decomposition, crew.size)
        session = _Session(Outputs(**outputs), workload, setup, parameter or [], steps, resume)
        with crew.lead() as opened:
            told, stopped = session.run(opened, sharing)
        if as_json:
            print_json(told)
        else:
            _print_simulation(told)
        if stopped:
            kept = told["checkpoint"]
            way_on = f"the same command with --resume {kept} resumes"
            without = "there is no checkpoint to resume from: next time, add --checkpoint FILE"
            say(f"stopped after step {told['steps']:,}: {way_on if kept else without}")
            raise typer.Exit(130)


class _Session:
    """A simulation: options are checked on construction, before `run`."""

    def __init__(
        self,
        outputs: Outputs,
        workload: str,
        given: dict[str, Any],
        parameters: list[str],
        steps: int | None,
        resume: Path | None,
    ) -> None:
        """Raise UserError if the simulation cannot run or write; nothing is written yet."""
        from gpubench import registry
        from gpubench.simulate import checkpoint, session, setup

        self._outputs = outputs
        self._contents = outputs.contents()
        self._saved = saved = checkpoint.load(resume) if resume is not None else None
        self._run_id = saved.run if saved else checkpoint.new_run()
        self._setup = setup.settle(workload, given, parameters, saved.setup if saved else None)
        wanted = registry.find_workload(workload).steps_by_default if steps is None else steps
        self._timetable = outputs.timetable(wanted, saved.step if saved else 0)
        if outputs.frames is not None:
            require.folder("--frames", outputs.frames)
        for option, path in (
            ("--trajectory", outputs.trajectory), ("--checkpoint", outputs.checkpoint)
        ):  # fmt: skip
            if path is not None:
                require.file(option, path)
        outputs.require_free(resume)
        self._writers = session.Writers(
            outputs, self._setup, run=self._run_id, is_resumed=saved is not None, say=say
        )

    def run(self, device: Device, sharing: str | None) -> tuple[dict[str, Any], bool]:
        """Run the simulation; return its report, and whether Ctrl-C stopped it."""
        from gpubench.simulate import runner, session

        outputs, saved = self._outputs, self._saved
        made = self._setup.make(device, sharing)
        with outputs.held(self._contents):
            if saved is not None:
                saved.resume(made)
                for reason in saved.why_inexact(device):
                    say(f"resuming, but not bit for bit: {reason}")
            say(f"simulating {made.particles:,} particles on {device.name} ({device.spec})")
            done = runner.simulate(
                made,
                self._timetable,
                on_frame=self._writers.on_frame,
                checkpoint=outputs.checkpoint,
                run=self._run_id,
                observations=saved.observations if saved else (),
            )
            pictures = self._writers.finish()
            told = session.account(made, done) | {
                "run": self._run_id,
                "animation": str(pictures[0]) if pictures else None,
                "panel": str(pictures[1]) if pictures else None,
                "trajectory": str(outputs.trajectory) if outputs.trajectory else None,
                "checkpoint": str(outputs.checkpoint) if outputs.checkpoint else None,
            }
            self._writers.keep(told)
        return told, done.stopped


def _print_simulation(told: dict[str, Any]) -> None:
    """Print the report of `session.account` as tables."""
    rate = told["particle_steps_per_s"]
    rows = [
        ("device", f"{told['device_name']} ({told['device']})"),
        ("algorithm", f"{told['algorithm']} {told['form']}"),
        ("particles", f"{told['particles']:,}"),
        ("steps", f"{told['steps'] - told['first_step']:,}, to step {told['steps']:,}"),
    ]
    if rate:
        median, low, high = (f"{value / 1e6:,.4g}" for value in rate.values())
        interval = f"(95 % interval of the median: {low} to {high})"
        rows.append(("particle-steps/s", f"{median} million {interval}"))
    written = ("animation", "panel", "trajectory", "checkpoint")
    rows += [(name, told[name]) for name in written if told[name]]
    print_table((told["workload"], ""), rows)
    if medians := told["phases_ms"]:
        means = told["phases_mean_ms"]
        whole = sum(means.values()) or 1
        phases = [
            (name, f"{median_ms:.4g}", f"{means[name]:.4g}", f"{means[name] / whole:.1%}")
            for name, median_ms in medians.items()
        ]
        print_table(("phase of a step", "median ms", "mean ms", "share of the mean"), phases)
    last = told["observations"][-1].items()
    seen = [(name, "none" if value is None else f"{value:.6g}") for name, value in last]
    print_table(("last observation", ""), seen)
