"""Cut a results file into several of about a megabyte, which load as one does.

    python tools/split_results.py FILE FOLDER [--megabytes 1]

The parts are FOLDER/NAME.json, NAME-2.json, ... as a store of results would number them, all with
the environment of the file, and with its records in their order. The file stays as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpubench.base.errors import UserError
from gpubench.evidence.results import Store, load


def split(file: Path, folder: Path, most_bytes: int) -> list[Path]:
    """Write the parts of a results file, each of about `most_bytes`; return their paths.

    Raises UserError where the file is none, or a part is there already.
    """
    results = load(file)
    each = max(1, int(len(results.records) * most_bytes / file.stat().st_size))
    parts = max(1, -(-len(results.records) // each))
    names = [file.stem, *(f"{file.stem}-{n}" for n in range(2, parts + 1))]
    paths = [folder / f"{name}.json" for name in names]
    for path in paths:
        if path.exists():
            raise UserError(f"{path} is there already: choose another folder")
    for number, path in enumerate(paths):
        records = results.records[number * each : (number + 1) * each]
        with Store(path, results.environment, results.study) as store:
            store.add(records)
    return paths


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=float, default=1.0)
    given = parser.parse_args()
    try:
        for path in split(given.file, given.folder, round(1e6 * given.megabytes)):
            print(path)
    except UserError as error:
        sys.exit(f"split_results: {error}")


if __name__ == "__main__":
    main()
