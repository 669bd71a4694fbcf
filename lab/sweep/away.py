"""`python -m lab.sweep.away DIR`: trains the runs of a folder that `lab plan --out DIR` wrote, with torch
and numpy alone.

The same command again continues what was stopped or killed anywhere. The runs come home with `lab collect
DIR`.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from lab.config.strict import ConfigError
from lab.store.states import RESULT_STATES, STOPPED
from lab.sweep import parcel
from lab.sweep.local import Stopped, execute
from lab.sweep.progress import lines

OLDEST_TORCH = (2, 11)
SECONDS_BETWEEN_LINES = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.sweep.away", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="a folder written by lab plan NAME --out DIR"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="runs at a time; default: one a core, or one a GPU"
    )
    parser.add_argument("--retry", action="store_true", help="train failed runs again")
    options = parser.parse_args(arguments)
    try:
        return _train(options.folder, options.workers, retry=options.retry)
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename or options.folder}: {error.strerror or error}", file=sys.stderr)
        return 2
    except Stopped:
        print("stopped; every started run is saved. The same command continues.", file=sys.stderr)
        return STOPPED


def _train(folder: Path, workers: int | None, *, retry: bool) -> int:
    jobs, planned_workers = parcel.jobs_of(folder)
    store = parcel.store_of(folder)
    _refuse_machine({job.device for job in jobs.values()}, workers)
    for name in jobs if retry else ():
        if store.state(name) == "failed":
            store.reopen(name)
    states = execute(jobs, store, workers=workers or planned_workers, show=lines(every=SECONDS_BETWEEN_LINES))
    for name, job in jobs.items():
        summary = store.summary(name)
        said = (
            (summary.reason if summary.bpb is None else f"{summary.bpb:.4f} bits a byte")
            if summary
            else "not ended"
        )
        print(f"{name} {job.manifest.job_type} seed {job.config.seed}: {states[name]}, {said}")
    lacking = sum(state not in (*RESULT_STATES, "paused") for state in states.values())
    if lacking:
        print(
            f"error: {lacking} of {len(jobs)} runs have no result; --retry trains failed ones again.",
            file=sys.stderr,
        )
    return 1 if lacking else 0


def _refuse_machine(devices: set[str], workers: int | None) -> None:
    problems = []
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < OLDEST_TORCH:
        problems.append(f"torch {torch.__version__}: is too old. Install 2.11 or newer.")
    if "cuda" in devices and not torch.cuda.is_available():
        problems.append("engine.device = cuda (jobs.json): no such device here. Found: cpu.")
    if workers is not None and workers < 1:
        problems.append(f"--workers {workers}: needs a whole number of 1 or more.")
    if problems:
        raise ConfigError(problems)


if __name__ == "__main__":
    raise SystemExit(main())
