"""`lab verify-exact`: the claims that can be computed, each checked against a closed form or a reference."""

import argparse
import sys

from lab.commands import listing, places
from lab.commands.arguments import add_claims, add_json
from lab.config.strict import plain

HELP = "compute every exact claim; fails if a check does"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_claims(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture.exact.verify import verify
    from lab.store import exact_check

    checks = verify(options.names)
    rows = [{"id": c.claim, "state": "holds" if c.holds else "fails", **plain(c)} for c in checks]
    listing.show(rows, as_json=options.json, columns=("id", "state", "check", "expected", "measured"))
    if not options.names:
        print(listing.shown(exact_check.save(checks, places.RESULTS)), file=sys.stderr)
    return 0 if all(check.holds for check in checks) else 1
