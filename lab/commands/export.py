"""`lab export`: the newest checkpoint of a run as a folder that other software loads."""

import argparse
from pathlib import Path

from lab.commands import listing, places
from lab.commands.arguments import add_json, add_run

HELP = "write a run's newest checkpoint as a folder that Hugging Face transformers loads"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--to",
        choices=("hf",),
        required=True,
        help="hf: weights, configuration and tokenizer for transformers",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder, or that of an earlier export")
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.plan.branch import run_named
    from lab.sweep.progress import preparing

    name = run_named(options.name, places.store(), asked=f"{options.name} (command line)")
    from lab.checkpoint.export import folder

    with preparing() as show:
        about = folder.write(name, places.store(), options.folder, cache=places.CACHE, progress=show)
    rows = [{"id": str(listing.shown(options.folder)), "state": "written", **about}]
    listing.show(rows, as_json=options.json, columns=("id", "state", "architecture", "run_id", "step"))
    return 0
