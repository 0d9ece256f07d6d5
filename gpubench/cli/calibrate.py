"""`gpubench calibrate`: false alarms and detectable slow-downs on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpubench.base.messages import say
from gpubench.cli import require, values
from gpubench.cli.options import Compared, From, JsonOption, SlowerRule, rule
from gpubench.cli.output import print_json, print_table
from gpubench.cli.values import opt

if TYPE_CHECKING:
    from gpubench.evidence.calibration import Calibration

CALIBRATION = Path("results/local/calibration")


def calibrate(
    what: Annotated[Compared, From(Compared)],
    rule: Annotated[SlowerRule, From(rule)],
    pairs: Annotated[
        int, opt("N", "How many pairs of processes to measure.", read=values.count)
    ] = 60,
    minutes: Annotated[float, opt("M", "Start no further pair after M minutes.")] = 60.0,
    comparisons: Annotated[
        int, opt("N", "Number of comparisons to draw from the pairs.", read=values.count)
    ] = 1000,
    out: Annotated[Path, opt("DIR", "Folder of calibrations.")] = CALIBRATION,
    as_json: JsonOption = False,
) -> None:
    """Measure how reliable `compare` is here.

    Compares this code with itself many times and counts false alarms. Also adds artificial
    slow-downs, to find the smallest that is detected nine times in ten.
    """
    from msgspec import to_builtins

    from gpubench.compare import calibrate as calibrating
    from gpubench.compare import commits
    from gpubench.evidence import calibration
    from gpubench.evidence.physics_results import free_path

    require.one_process("calibrate")
    require.folder("--out", out)
    found = calibrating.calibrate(
        commits.present_code(), what.job(), pairs, 60 * minutes, rule.threshold, rule.confidence,
        comparisons, lambda count: say(f"{count} of {pairs} pairs of processes measured"),
    )  # fmt: skip
    with free_path(out, found.study, found.environment) as path:
        calibration.save(found, path)
    if as_json:
        print_json(to_builtins(found.verdicts))
    else:
        _print_calibration(found)
    say(f"kept in {path}")


def _print_calibration(found: Calibration) -> None:
    verdicts = found.verdicts
    columns = (
        "cell", "false alarms", "inconclusive", "extra work", "found",
        "found 9 in 10 from", "between pairs",
    )  # fmt: skip
    rows = [
        (
            name, f"{rates.false_alarms:.1%}", f"{rates.cannot_tell:.1%}", f"{rates.slowed:+.1%}",
            f"{rates.found:.1%}", "none" if rates.smallest is None else f"{rates.smallest:.1%}",
            f"{rates.between:.2%}",
        )
        for name, rates in verdicts.cells.items()
    ]  # fmt: skip
    print_table(columns, rows)
    low, high = verdicts.pairs_taken
    print(
        f"{verdicts.comparisons} comparisons drawn from {len(found.started)} pairs, threshold"
        f" {verdicts.threshold:.1%}: false alarms {verdicts.false_alarms:.1%}, inconclusive"
        f" {verdicts.cannot_tell:.1%}; {low:g} pairs at the median, {high:g} at the 95th"
        f" percentile; of {verdicts.separate} comparisons without a common pair"
        f" {verdicts.separate_alarms} were false alarms"
    )
