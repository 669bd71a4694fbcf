"""`lab claims`: the ledger of the lecture's claims, what is left to run of it, and running that."""

import argparse
import sys

from lab.commands import listing, places
from lab.commands.arguments import add_json, not_negative

HELP = "the ledger of 114 claims; what is left to run, and running it"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--write", action="store_true", help="write results/LEDGER.md and results/ledger.html"
    )
    parser.add_argument("--todo", action="store_true", help="list what is still to be run, cheapest first")
    parser.add_argument(
        "--run",
        dest="go",
        action="store_true",
        help="run it, as far as --budget goes, and publish it in results/",
    )
    parser.add_argument(
        "--budget", type=not_negative, default=60.0, metavar="MINUTES", help="core-minutes for --run (60)"
    )
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture import ledger, worklist

    rows = ledger.rows(places.RESULTS)
    if options.write:
        from lab.lecture import ledger_page as page

        for path in page.write(rows, ledger.beyond_register(places.RESULTS), places.RESULTS):
            print(listing.shown(path), file=sys.stderr)
    if options.go:
        return worklist.run(worklist.open_work(rows, places.RESULTS), places.RESULTS, budget=options.budget)
    if options.todo:
        work = [
            {
                "id": " ".join(item.command),
                "state": "open",
                "core_minutes": item.minutes,
                "claims": ", ".join(item.claims),
            }
            for item in worklist.open_work(rows, places.RESULTS)
        ]
        listing.show(work, as_json=options.json, columns=("id", "core_minutes", "claims"))
        return 0
    shown = [
        {**row, **{f"minutes_{key}": value for key, value in row["core_minutes"].items()}} for row in rows
    ]
    listing.show(
        shown,
        as_json=options.json,
        columns=("id", "state", "kind", "minutes_estimate", "minutes_spent", "says"),
    )
    return 0
