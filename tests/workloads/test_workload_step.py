"""Steps of a workload as a study measures them: right ones pass, wrong ones are found and named."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from gpubench import problems, registry
from gpubench.algorithms.atomic_list import AtomicList
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.base.errors import UserError
from gpubench.core.oracle import first_launch
from gpubench.devices import Device, missing_feature
from gpubench.evidence import results
from gpubench.measure.sampling import Budget
from gpubench.physics import motion
from gpubench.physics.step import check_dpd_step
from gpubench.problems.cells.contract import CellList
from gpubench.problems.steps.axes import Simulation
from gpubench.steps import workload_step
from gpubench.steps.workload_step import WorkloadStep
from gpubench.studies import bench, runner
from gpubench.studies.plan import plan
from gpubench.studies.runner import run
from gpubench.studies.selection import Selection
from gpubench.studies.study import StudyError, check_names, parse_study
from gpubench.workloads import workload as workload_module
from gpubench.workloads.dpd import (
    DPD,
    DPDRayleighTaylor,
    DPDSeparation,
    DPDStandard,
    RayleighTaylorOfPaper,
    SeparationOfPaper,
)
from gpubench.workloads.workload import drawn_once

PARTICLES = 700
BUDGET = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=2)
# What differs from the defaults for so few particles.
PARAMETERS = {"fixed-capacity": {"capacity": 40}, "adaptive-bitonic": {"chunk": 32}}
FORMS = [
    (name, form)
    for name, cls in registry.algorithms().items()
    if issubclass(cls, CellList)
    for form in cls.forms
]


def made(
    device: Device,
    algorithm: str | type[CellList] = "counting-sort",
    form: str = "order",
    *,
    workload: type[DPD] = DPDStandard,
    skin: float = 0.0,
    **parameters: Any,
) -> DPD:
    cls: Any = registry.find_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    if lacking := missing_feature(cls.forms[form].requires, device):
        pytest.skip(lacking)
    given = {**PARAMETERS.get(cls.name, {}), **parameters}
    return workload(device, PARTICLES, cls, form, given, 5, skin)


def test_what_begins_alike_is_drawn_once(device):
    class Counted(DPDStandard):
        drawn = 0

        def draw(self, rng):
            Counted.drawn += 1
            return super().draw(rng)

    def begins(simulation: DPD) -> dict[str, bytes]:
        return {name: array.tobytes() for name, array in simulation.state().items()}

    with drawn_once():
        first = made(device, workload=Counted)
        at_first = begins(first)
        first.plain_steps(3)
        assert begins(made(device, "atomic-list", "one-pass", workload=Counted)) == at_first
        assert Counted.drawn == 1
        assert begins(made(device, workload=Counted, density=2.0)) != at_first
        assert begins(made(device, workload=Counted)) == at_first
        other = Counted(device, PARTICLES, CountingSort, "order", {}, 6)
        assert begins(other) != at_first
        assert Counted.drawn == 4
    for _ in range(2):
        assert begins(made(device, workload=Counted)) == at_first
    assert Counted.drawn == 6


# A step held against float64


@pytest.mark.parametrize("skin", [0.0, 0.25])
@pytest.mark.parametrize(("algorithm", "form"), FORMS)
def test_right_steps_pass_with_any_algorithm(device, algorithm, form, skin):
    simulation = made(device, algorithm, form, skin=skin)
    for step in range(4):
        assert simulation.check() is None
        assert simulation.step == step + 1


@pytest.mark.second_runtime
@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        (DPDStandard, {"integrator": "leap-frog"}),
        (DPDStandard, {"integrator": "groot-warren", "pair_noise": "rozen2008"}),
        (DPDSeparation, {"walls": "z", "time_step": 0.02}),
        (DPDSeparation, {"dimensions": 2}),
        (DPDRayleighTaylor, {"depth": 4.5, "gravity": 5.0, "integrator": "leap-frog"}),
        (SeparationOfPaper, {}),
        (RayleighTaylorOfPaper, {"depth": 4.5, "gravity": 5.0}),
    ],
)
def test_right_steps_pass_in_any_model(device, workload, parameters):
    """Walls, gravity, two masses, two dimensions, each integrator, each generator."""
    simulation = made(device, workload=workload, **parameters)
    for _ in range(5):
        assert simulation.check() is None
        simulation.advance(7)


class Loser(CountingSort):
    """Writes one particle's index over another's, so that one is lost."""

    name = "loser"

    def build(self, cell_of: Any, positions: Any) -> None:
        super().build(cell_of, positions)
        order = self.device.download(self.answer.order)
        order[100] = order[400]
        self.device.write(self.answer.order, order)


class Shortener(AtomicList):
    """Leaves the first particle of the longest list out of it."""

    name = "shortener"

    def build(self, cell_of: Any, positions: Any) -> None:
        super().build(cell_of, positions)
        head, after = (self.device.download(a) for a in (self.answer.head, self.answer.next))
        fullest = np.argmax(np.bincount(self.device.download(cell_of), minlength=len(head)))
        head[fullest] = after[head[fullest]]
        self.device.write(self.answer.head, head)


FORCE = r"step 0: the force on particle \d+ along [xyz] is (\S+), and should be (\S+)"
SUM = r"step 0: the forces on all particles add up to \S+ along [xyz], and should add up to 0"


def test_a_lost_particle_is_missed(device):
    found = made(device, Loser).check()
    assert found and re.fullmatch(
        r"step 0: particle \d+ is there [02] times, and should be there once", found
    )


def test_a_particle_that_others_do_not_see_is_missed(device, monkeypatch):
    found = re.fullmatch(FORCE, made(device, Shortener, "one-pass").check() or "")
    assert found and abs(float(found[1]) - float(found[2])) > 0.01
    # Out of the region in which forces are compared, the sum of all shows it.
    monkeypatch.setattr(motion, "SAMPLE", 1)
    assert re.match(SUM, made(device, Shortener, "one-pass").check() or "")


@pytest.mark.parametrize("coefficient", ["repulsion", "friction", "noise"])
def test_a_wrong_coefficient_is_found(device, coefficient):
    simulation = made(device)
    packed = simulation.fluid.packed(simulation.time_step, "velocity-verlet")
    packed[coefficient] *= 1.01
    device.write(simulation._packed_fluid, packed.view(np.uint8))
    assert re.fullmatch(FORCE, simulation.check() or "")


def test_a_wrong_time_step_is_found(device):
    simulation = made(device)
    packed = simulation.fluid.packed(simulation.time_step, "velocity-verlet")
    packed["time_step"] *= 1.0001
    device.write(simulation._packed_fluid, packed.view(np.uint8))
    assert "and should be" in (simulation.check() or "")


def test_a_blow_up_is_a_wrong_step(device):
    simulation = made(device)
    state = simulation.state()
    state["velocities"][3, 0] = 1e4
    simulation.restore(state)
    assert re.match(r"step 0: particle \d+ would move further", simulation.check() or "")


def test_lost_particles_of_full_cells_are_a_wrong_step(device):
    simulation = made(device, "fixed-capacity", "one-pass", capacity=1)
    assert "has no room for" in (simulation.check() or "")


@pytest.fixture(scope="module")
def right_step(open_once):
    """Return the arguments of the check of a right step: between walls, with a second velocity."""
    simulation = made(open_once("opencl:intel"), workload=DPDSeparation, integrator="leap-frog")
    simulation.advance(3)
    before = simulation.state()
    simulation.advance(1)
    return {
        "before": before,
        "after": simulation.state(),
        "force": simulation.in_place(simulation._force),
        "box": simulation.box,
        "fluid": simulation.fluid,
        "integrator": "leap-frog",
        "time_step": simulation.time_step,
        "seed": simulation.seed,
        "generator": "philox-10",
    }


def changed(arguments: dict[str, Any], array: str, where: Any, value: Any) -> dict[str, Any]:
    after = {name: values.copy() for name, values in arguments["after"].items()}
    after[array][where] = value
    return {**arguments, "after": after}


def test_what_is_right_is_right_in_any_order(right_step):
    assert check_dpd_step(**right_step) is None
    shuffled = np.random.default_rng(0).permutation(PARTICLES)
    after = {n: v if n == "step" else v[shuffled] for n, v in right_step["after"].items()}
    mixed = {**right_step, "after": after, "force": right_step["force"][shuffled]}
    assert check_dpd_step(**mixed) is None


@pytest.mark.parametrize(
    ("array", "where", "value", "said"),
    [
        ("places", (10, 3), 2**31, "there is a particle 2147483648, and ids go up to 699"),
        ("places", (10, 0), 5, "the place of particle {id} along x is"),
        ("velocities", (10, 1), 99.0, "the velocity of particle {id} along y is 99, and should"),
        ("velocities", (10, 2), np.nan, "the velocity of particle {id} along z is nan"),
        ("drags", (10, 2), 99.0, "the velocity for the drag of particle {id} along z is 99"),
    ],
)
def test_any_wrong_number_is_named(right_step, array, where, value, said):
    number = right_step["after"]["places"][10, 3]
    found = check_dpd_step(**changed(right_step, array, where, value))
    assert found is not None and found.startswith(f"step 3: {said.format(id=number)}")


def test_a_step_that_was_not_done_is_wrong(right_step):
    still = {**right_step, "after": right_step["before"]}
    assert check_dpd_step(**still) is not None


@pytest.mark.parametrize("name", ["seed", "time_step"])
def test_another_seed_or_time_step_is_wrong(right_step, name):
    assert check_dpd_step(**{**right_step, name: right_step[name] * 2 + 1}) is not None


# As something that a study measures


def stepper(device: Device, algorithm: str, form: str, skin: float = 0.0) -> WorkloadStep:
    cls: Any = registry.find_algorithm(algorithm)
    if lacking := missing_feature(cls.forms[form].requires, device):
        pytest.skip(lacking)
    inputs = Simulation("dpd-standard", PARTICLES, skin).make(3)
    parameters = PARAMETERS.get(algorithm, {})
    return WorkloadStep(device, DPDStandard, cls, form, parameters, **inputs.made_for)


@pytest.mark.parametrize(
    ("algorithm", "form"), [("counting-sort", "reorder"), ("atomic-resort", "one-pass")]
)
def test_a_launch_is_an_even_number_of_steps(device, algorithm, form):
    subject = stepper(device, algorithm, form)
    inputs = Simulation("dpd-standard", PARTICLES).make(3)
    oracle = problems.problems()["workload-step"].oracle(inputs)
    assert first_launch(subject, inputs, oracle) is None
    assert subject.launches == 2
    assert subject.outcome()["steps_done"] == 3
    assert subject.phases_ms().keys() == {"cell ids", "sort", "force", "integrate"}
    assert subject.workspace_bytes > 48 * PARTICLES
    assert subject.input_hash == stepper(device, "radix-grid", "order").input_hash


@pytest.mark.cuda
@pytest.mark.parametrize(("algorithm", "form"), [pair for pair in FORMS if pair[1] != "host-loop"])
def test_a_graph_of_plain_steps_replays(cuda_device, algorithm, form):
    device = cuda_device
    subject = stepper(device, algorithm, form)
    subject.launch()
    assert subject.check() is None
    graph = device.capture(subject.launch)
    for _ in range(3):
        graph.launch()
    assert subject.check() is None
    assert subject.outcome()["steps_done"] == 2 + 1 + 6 + 1


@pytest.mark.parametrize(
    ("algorithm", "form"),
    [("counting-sort", "reorder"), ("counting-resort", "order"), ("atomic-list", "one-pass")],
)
def test_the_share_that_changes_cells_is_that_of_the_physics(opencl_device, algorithm, form):
    """Whatever cells the algorithm has, and in whatever order it keeps the particles."""
    subject = stepper(opencl_device, algorithm, form)
    simulation = subject.workload
    simulation.advance(40)  # away from the lattice on which it may begin
    assert subject.outcome() == {"steps_done": 40}
    before = simulation.snapshot()
    assert subject.check() is None
    after = simulation.snapshot()
    edges = np.array(before.size) // 1  # as many cells, each at least as long as the cutoff
    cells = [np.floor(s.positions / np.array(before.size) * edges) for s in (before, after)]
    expected = (cells[0] != cells[1]).any(axis=1).mean()
    assert 0 < expected < 0.5
    assert subject.outcome()["moved_share"] == pytest.approx(expected, abs=1e-6)


def test_what_the_host_reads_back_is_in_no_graph(opencl_device):
    assert stepper(opencl_device, "counting-sort", "order").no_graph is None
    assert "reads a value back" in str(stepper(opencl_device, "bucket-sort", "host-loop").no_graph)
    assert "lists still hold" in str(stepper(opencl_device, "counting-sort", "order", 0.2).no_graph)


STUDY = """
title = "Steps"
question = "Which?"
seed = 7
[[sweeps]]
name = "steps"
workload = ["dpd-standard"]
particles = [700]
modes = ["hot", "graph"]
[[subjects]]
algorithm = "counting-sort"
form = "order"
"""
LOSER = '[[subjects]]\nalgorithm = "loser"\nform = "order"\n'
HOST_LOOP = '[[subjects]]\nalgorithm = "bucket-sort"\nform = "host-loop"\n'


@pytest.fixture
def intel(open_once, environment_once, monkeypatch):
    monkeypatch.setattr(runner, "environment", environment_once)
    known = {**registry.algorithms(), "loser": Loser}
    monkeypatch.setattr(registry, "algorithms", lambda: known)
    monkeypatch.setattr(workload_step, "STEPS_WITH_SKIN", 4)
    return open_once("opencl:intel")


def measured(text: str, device: Device, folder: Any) -> list[dict[str, Any]]:
    summary = run(parse_study("steps", text), device, folder, budget=BUDGET)
    return results.load(summary.path).records


def test_steps_are_measured_and_recorded(intel, tmp_path):
    hot, graph = measured(STUDY, intel, tmp_path)
    assert hot.status == "ok" and hot.steps == 2 and hot.batch % 2 == 0
    assert (hot.at("workload"), hot.at("skin"), hot.at("time_step")) == ("dpd-standard", 0, 0.04)
    assert hot.particle_steps_per_s == pytest.approx(700e3 / hot.median_ms, rel=1e-5)
    assert hot.phases_ms.keys() == {"cell ids", "sort", "force", "integrate"}
    assert hot.outcome["steps_done"] > 2 * 6 and hot.at("per_cell") is None
    assert re.fullmatch("[0-9a-f]{16}", hot.input_hash)
    assert graph.status == "skipped" and "CUDA graphs" in graph.reason
    again = run(parse_study("steps", STUDY), intel, tmp_path, budget=BUDGET)
    assert (again.measured, again.resumed) == (0, 2)


def test_a_study_draws_a_simulation_once(intel, tmp_path, monkeypatch):
    seeds = []
    real = DPD.draw

    def draw(workload, rng):
        seeds.append(workload.seed)
        return real(workload, rng)

    monkeypatch.setattr(DPD, "draw", draw)
    # A draw is no part of the first call of an algorithm: of making, loading and launching.
    monkeypatch.setattr(bench, "timed", lambda work: (work(), 5.0))
    monkeypatch.setattr(workload_module, "timed", lambda work: (work(), 3.0))
    of_two = HOT.replace("particles = [700]", "particles = [700, 800]")
    records = measured(of_two + HOST_LOOP, intel, tmp_path)
    assert [record.status for record in records] == ["ok"] * 4
    assert [record.first_call_ms for record in records] == [12_000, 15_000] * 2
    assert len({record.input_hash for record in records}) == 2
    assert len(seeds) == 2


SEVERAL = """
[[sweeps]]
name = "several"
workload = ["dpd-standard"]
particles = [700]
ranks = [2, 4]
decomposition = ["master"]
modes = ["hot"]
"""
HOT = STUDY.replace('"hot", "graph"', '"hot"')


def test_what_takes_other_ranks_waits_for_a_run_that_has_them(intel, tmp_path, monkeypatch):
    made: list[str | None] = []

    def alone(workload: type[DPD], decomposition: str | None, *_: object) -> type[DPD]:
        made.append(decomposition)
        return workload

    monkeypatch.setattr(workload_step, "share", alone)
    study = parse_study("steps", HOT.replace("[[subjects]]", SEVERAL + "[[subjects]]"))

    def again(**options: Any) -> tuple[Any, list[dict[str, Any]]]:
        summary = run(study, intel, tmp_path, budget=BUDGET, **options)
        return summary, results.load(summary.path).records

    summary, records = again()
    assert (summary.measured, summary.skipped) == (1, 2)
    assert [r.status for r in records] == ["ok", "skipped", "skipped"]
    assert [r.at("ranks") for r in records] == [None, 2, 4]
    assert records[1].reason == "is measured by 2 ranks: mpirun -n 2 gpubench run steps"
    assert made == [None]

    summary, records = again(ranks=2)
    assert (summary.measured, summary.resumed, summary.skipped) == (1, 2, 0)
    assert (records[3].status, records[3].at("ranks")) == ("ok", 2)
    assert records[3].at("decomposition") == "master" and made == [None, "master"]

    summary, records = again(ranks=2, fresh=True)
    assert (summary.measured, summary.skipped, len(records)) == (1, 0, 5)
    summary, records = again()
    assert (summary.measured, summary.resumed, len(records)) == (0, 3, 5)


def test_one_rank_waits_as_well(intel, tmp_path):
    study = parse_study("steps", HOT)
    summary = run(study, intel, tmp_path, budget=BUDGET, ranks=2)
    (waiting,) = results.load(summary.path).records
    assert waiting.reason == "is measured by one rank: gpubench run steps"
    assert run(study, intel, tmp_path, budget=BUDGET).measured == 1


def test_a_workload_that_cannot_be_shared_is_refused(intel, tmp_path):
    shared = HOT.replace("[[subjects]]", SEVERAL + "[[subjects]]")
    study = parse_study("steps", shared.replace("dpd-standard", "constraint-fluid"))
    with pytest.raises(UserError, match="constraint-fluid runs on one rank"):
        run(study, intel, tmp_path, budget=BUDGET, ranks=2)


SETTINGS = """
title = "t"
question = "q"
seed = 1
[[sweeps]]
name = "walls"
workload = ["sph-dam-break"]
particles = [700]
setting = [{}]
modes = ["hot"]
[[subjects]]
algorithm = "counting-sort"
form = "order"
"""


def test_a_setting_reaches_the_workload_and_the_record(opencl_device, monkeypatch):
    seen = []
    made_one = workload_step.WorkloadStep.__init__

    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        made_one(self, *arguments, **named)
        seen.append(self.workload.parameters["wall_epsilon"])

    monkeypatch.setattr(workload_step.WorkloadStep, "__init__", noted)
    study = parse_study("walls", SETTINGS.format('"wall_epsilon=0", "wall_epsilon=0.25"'))
    records = [
        record
        for group in plan(study)
        for record in runner.measure(group, group.items, opencl_device, BUDGET, lambda final: None)
    ]
    assert [record.status for record in records] == ["ok", "ok"]
    assert [record.at("setting") for record in records] == ["wall_epsilon=0", "wall_epsilon=0.25"]
    assert seen == [0.0, 0.25]
    assert records[0].key != records[1].key


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("wall_epsilom=1", "no parameter 'wall_epsilom'"),
        ("wall_epsilon=much", "parameter wall_epsilon takes a finite number, not 'much'"),
    ],
)
def test_a_setting_that_is_none_is_refused(setting, message):
    with pytest.raises(UserError, match=message):
        plan(parse_study("walls", SETTINGS.format(f'"{setting}"')))


def test_ranks_need_a_decomposition():
    with pytest.raises(UserError, match="several ranks need a decomposition"):
        Simulation("sph-dam-break", 700, ranks=2)
    with pytest.raises(UserError, match="one rank has none"):
        Simulation("sph-dam-break", 700, ranks=1, decomposition="slab")
    assert Simulation("sph-dam-break", 700, ranks=1) == Simulation("sph-dam-break", 700)
    assert Simulation("sph-dam-break", 700, ranks=2, decomposition="slab").title.endswith(
        "2 ranks, slab"
    )


def test_a_skin_is_measured_over_more_steps(intel, tmp_path):
    text = STUDY.replace("modes", "skin = [0.2]\ntime_step = [0.01]\nmodes")
    hot, graph = measured(text, intel, tmp_path)
    assert (hot.steps, hot.at("skin"), hot.at("time_step")) == (4, 0.2, 0.01)
    assert {"test", "lists"} < hot.phases_ms.keys()
    assert "lists still hold" in graph.reason


def test_a_wrong_step_has_no_time_and_stops_no_other(intel, tmp_path):
    records = measured(STUDY + LOSER + HOST_LOOP, intel, tmp_path)
    found = {(r.algorithm, r.mode): r for r in records}
    for mode in ("hot", "graph"):
        wrong = found["loser", mode]
        assert wrong.status == "wrong" and wrong.median_ms is None
        assert "and should be there once" in wrong.reason and wrong.phases_ms is None
    assert found["counting-sort", "hot"].status == "ok"
    assert found["bucket-sort", "hot"].status == "ok"
    assert "reads a value back" in found["bucket-sort", "graph"].reason


class LateLoser(Loser):
    """Loses a particle once it has been launched for some time."""

    name = "loser"
    builds: ClassVar[int] = 0

    def build(self, cell_of: Any, positions: Any) -> None:
        type(self).builds += 1
        (super() if self.builds > 12 else super(Loser, self)).build(cell_of, positions)


def test_a_step_that_is_wrong_after_timing_has_no_time(intel, tmp_path, monkeypatch):
    known = {**registry.algorithms(), "loser": LateLoser}
    monkeypatch.setattr(registry, "algorithms", lambda: known)
    LateLoser.builds = 0
    records = measured(STUDY.replace("counting-sort", "loser"), intel, tmp_path)
    assert records[0].status == "wrong" and records[0].reason.startswith("after timing: ")
    assert records[0].median_ms is None and records[0].phases_ms is None


def test_a_workload_makes_a_sweep_one_of_simulations():
    study = parse_study("steps", STUDY)
    assert study.sweeps[0].kind is Simulation
    (group,) = plan(study, Selection(particles=(900,)))
    assert group.recipe == Simulation("dpd-standard", 900, 0.0, 0.04)
    assert group.recipe.title == "dpd-standard, 900 particles, time step 0.04"
    with pytest.raises(StudyError, match="per_cell does not go with workload"):
        parse_study("steps", STUDY.replace("particles", "per_cell = [1]\nparticles"))
    with pytest.raises(StudyError, match="it needs particles"):
        parse_study("steps", STUDY.replace("particles = [700]", ""))
    with pytest.raises(UserError, match="no workload 'dpd-standart': did you mean dpd-standard"):
        plan(parse_study("steps", STUDY.replace("dpd-standard", "dpd-standart")))


def test_only_what_makes_cells_is_part_of_a_step():
    for name, form in (("filter-atomic", "aggregated"), ("neighbour-query", "count-sorted")):
        text = STUDY.replace("counting-sort", name).replace('"order"', f'"{form}"')
        with pytest.raises(StudyError, match=f"{name} takes .*, which its sweep has not"):
            check_names(parse_study("steps", text), registry.algorithms())
    per_cell = STUDY.replace('workload = ["dpd-standard"]', "per_cell = [4]")
    assert parse_study("steps", per_cell).sweeps[0].kind is not Simulation


def test_too_many_particles_are_known_before_anything_is_made(intel, tmp_path):
    study = parse_study("steps", STUDY)
    huge = replace(study, sweeps=(study.sweeps[0].along({"particles": (2**31 - 1,)}),))
    summary = run(huge, intel, tmp_path, budget=BUDGET)
    assert summary.skipped == 2
