"""`lab verify-exact`: the claims that can be computed, each checked against a closed form or a reference."""

import argparse
import sys

from lab.commands import listing, places
from lab.commands.arguments import add_claims, add_json

HELP = "compute every exact claim; fails if a check does"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_claims(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture.exact import verify

    records = verify.verify(options.names)
    rows = [{"id": r["claim"], "state": "holds" if r["holds"] else "fails", **r} for r in records]
    listing.show(rows, as_json=options.json, columns=("id", "state", "check", "expected", "measured"))
    if not options.names:
        print(listing.shown(verify.write(records, places.RESULTS)), file=sys.stderr)
    return 0 if all(r["holds"] for r in records) else 1
