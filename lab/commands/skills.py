"""`lab skills`: what runs have learnt, skill by skill, beside the best n-gram and the floor of stories."""

import argparse
from pathlib import Path

from lab.commands import listing, places
from lab.commands.arguments import add_json
from lab.config.strict import ConfigError, collected

HELP = "compare runs skill by skill with the floor and the best n-gram"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="finished runs on stories, each by its id or the beginning of it: RUN or LABEL=RUN",
    )
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write the learning curves to this PNG")
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.plan.branch import run_named

    store, wanted, problems = places.store(), list[str](), list[str]()
    for text in options.runs:
        label, equals, start = text.rpartition("=")
        with collected(problems):
            wanted.append(f"{label}{equals}{run_named(start, store, asked=f'{start} (command line)')}")
    if problems:
        raise ConfigError(problems)
    from lab.checkpoint.learning import compare

    columns, rows = compare(wanted, store, cache=places.CACHE, figure=options.figure)
    listing.show(rows, as_json=options.json, columns=columns)
    return 0
