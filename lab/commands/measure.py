"""`lab measure`: the claims on freshly initialised models and on time, measured and written to results/."""

import argparse

from lab.commands import listing, places
from lab.commands.arguments import add_claims, add_json
from lab.config.strict import plain

HELP = "measure the claims on fresh models and on time"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_claims(parser)
    add_json(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where times are taken")


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture.exact import measured_claim, measuring

    rows = []
    for record in measuring.measure(options.names, device=options.device):
        path = listing.shown(measured_claim.save(record, places.RESULTS))
        rows.append({"id": record.claim, "state": record.outcome, "written": str(path), **plain(record)})
    columns = ("id", "state", "core_minutes", "written")
    listing.show(rows, as_json=options.json, columns=columns)
    return 0
