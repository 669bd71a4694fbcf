"""`lab report`: every report of an ablation, written anew from the runs here or its published lines."""

import argparse

from lab.commands import answers, listing, places, reports
from lab.commands.arguments import add_ablation, add_json
from lab.config.strict import ConfigError, plain

HELP = "rebuild an ablation's reports from its runs or its published lines"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_ablation(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    here = reports.plans_here(options.name)
    from lab.report.publication import published_folders, published_sweep

    folder = places.RESULTS / "sweeps" / options.name
    found = [reports.written(plan, folder / setting) for setting, plan in here.items()]
    for sweep in map(published_sweep, published_folders(places.RESULTS, options.name)):
        if sweep.plan.setting not in here:
            found.append(reports.of_evidence(sweep.evidence(places.RESULTS), folder / sweep.plan.setting))
    if not found:
        raise ConfigError(reports.never_run(options.name))
    if options.json:
        rows = [
            {"id": str(listing.shown(page)), "state": "written", "answer": plain(answer)}
            for answer, page in found
        ]
        listing.show(rows, as_json=True, columns=())
        return 0
    for number, (answer, page) in enumerate(found):
        print(end="\n" if number else "")
        answers.show(answer, page)
    return 0
