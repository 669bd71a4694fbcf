"""The ledger, and what is computed or measured without training: `lab claims`, `verify-exact`, `measure`."""

import argparse
import sys

from lab import listing, places


def claims(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab import ledger, worklist

    rows = ledger.rows(places.RESULTS)
    if options.write:
        from lab.report import ledger as page

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


def verify_exact(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.exact import verify

    records = verify.verify(options.names)
    rows = [{"id": r["claim"], "state": "holds" if r["holds"] else "fails", **r} for r in records]
    listing.show(rows, as_json=options.json, columns=("id", "state", "check", "expected", "measured"))
    if not options.names:
        print(listing.shown(verify.write(records, places.RESULTS)), file=sys.stderr)
    return 0 if all(r["holds"] for r in records) else 1


def measure(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.exact import measure as measuring

    rows = []
    for record in measuring.measure(options.names, device=options.device):
        path = listing.shown(measuring.write(record, places.RESULTS))
        rows.append({"id": record["claim"], "state": record["outcome"], "written": str(path), **record})
    columns = ("id", "state", "core_minutes", "written")
    listing.show(rows, as_json=options.json, columns=columns)
    return 0
