"""`lab claims`: the ledger of the lecture's claims, what is left to run of it, and running that."""

import argparse
import sys

from lab.commands import listing, places
from lab.commands.arguments import add_json, not_negative
from lab.config.strict import plain

HELP = "the ledger of 114 claims; what is left to run, and running it"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="write results/LEDGER.md")
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

    known = ledger.load(places.RESULTS)
    if options.write:
        from lab.lecture import ledger_page

        print(listing.shown(ledger_page.write(known, places.RESULTS)), file=sys.stderr)
    if options.go:
        work = worklist.open_work(known, places.RESULTS)
        return worklist.run(work, places.RESULTS, budget=options.budget)
    if options.todo:
        listed = [
            {
                "id": " ".join(item.command),
                "state": "open",
                "core_minutes": item.minutes,
                "claims": ", ".join(item.claims),
            }
            for item in worklist.open_work(known, places.RESULTS)
        ]
        listing.show(listed, as_json=options.json, columns=("id", "core_minutes", "claims"))
        return 0
    shown = [
        plain(row)
        | {
            "outcome": row.outcome,
            "minutes_estimate": row.core_minutes.estimate,
            "minutes_spent": row.core_minutes.spent,
        }
        for row in known.rows
    ]
    listing.show(
        shown,
        as_json=options.json,
        columns=("id", "outcome", "kind", "minutes_estimate", "minutes_spent", "says"),
    )
    return 0
