"""`lab report`: every report of an ablation, written anew from the runs here or its published lines."""

import argparse

from lab.commands import listing, places, reports
from lab.commands.arguments import add_ablation, add_json
from lab.config.strict import ConfigError

HELP = "rebuild an ablation's reports from its runs or its published lines"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_ablation(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    here = reports.plans_here(options.name)
    from lab.report import write
    from lab.report.publication import published_folders, published_sweep

    folder = places.RESULTS / "sweeps" / options.name
    pages = [reports.write_report(plan, folder / setting) for setting, plan in here.items()]
    for sweep in map(published_sweep, published_folders(places.RESULTS, options.name)):
        if sweep.plan.setting not in here:
            pages.append(write(sweep.evidence(places.RESULTS), folder / sweep.plan.setting))
    if not pages:
        raise ConfigError(reports.never_run(options.name))
    rows = [{"id": str(listing.shown(page)), "state": "written"} for page in pages]
    listing.show(rows, as_json=options.json, columns=("id", "state"))
    return 0
