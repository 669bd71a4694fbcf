"""`lab plan`: what `lab sweep` would do, printed, or written to a folder for another machine."""

import argparse
from pathlib import Path

from lab.commands import jobs, places, plan_rows, registering
from lab.commands.arguments import add_json, add_planning
from lab.commands.listing import shown

HELP = "print what a sweep would do; with --out, write it for a machine with torch and numpy only"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_planning(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write resolved runs and token shards to DIR. python -m lab.sweep.away DIR trains them on a "
        "machine with this repository, torch 2.11 or newer and numpy; lab collect DIR merges them. "
        "engine.device=cuda plans for a GPU there",
    )
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.sweep import parcel

    plan = jobs.planned(options, overrides, elsewhere=options.out is not None)
    if options.out is not None:
        registering.register(plan)
        parcel.pack(plan, options.out, places.store())
    plan_rows.show_plan(plan, places.store(), as_json=options.json)
    if options.out is not None and not options.json:
        where = shown(options.out)
        print(f"written to {where}; there: python -m lab.sweep.away {where}; then here: lab collect {where}")
    return 0
