"""`lab site`: every published report and the ledger as pages for a browser, in one folder."""

import argparse
import sys
from pathlib import Path

from lab.commands import listing, places
from lab.commands.arguments import add_json

HELP = "build the pages of every published report and of the ledger"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="where the pages go; DIR/reports.html lists them"
    )
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture import ledger, ledger_page
    from lab.report import static_site

    entries = []
    for entry in static_site.write_reports(places.RESULTS, options.folder):
        print(listing.shown(options.folder / entry.address), file=sys.stderr)
        entries.append(entry)
    known = ledger.load(places.RESULTS)
    page, picture = ledger_page.of_site(known), ledger_page.picture(known)
    if picture:
        (options.folder / ledger_page.PICTURE).write_bytes(picture)
    static_site.write_frame(places.RESULTS, options.folder, entries=entries, ledger=page)
    written = [{"id": str(listing.shown(options.folder / "reports.html")), "state": "written"}]
    listing.show(written, as_json=options.json, columns=("id", "state"))
    return 0
