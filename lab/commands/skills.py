"""`lab skills`: what runs have learnt, skill by skill, beside the best n-gram and the floor of stories."""

import argparse
from pathlib import Path

from lab.commands import listing, places
from lab.commands.arguments import add_json

HELP = "compare runs skill by skill with the floor and the best n-gram"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="finished runs on stories: RUN or LABEL=RUN")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write the learning curves to this PNG")
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.checkpoint.learning import compare

    columns, rows = compare(options.runs, places.store(), cache=places.CACHE, figure=options.figure)
    listing.show(rows, as_json=options.json, columns=columns)
    return 0
