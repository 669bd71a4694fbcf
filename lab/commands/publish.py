"""`lab publish`: a sweep's runs, verdict and report below results/, for a commit."""

import argparse

from lab.commands import listing, places, registering, reports
from lab.commands.arguments import add_ablation, add_json
from lab.config.strict import ConfigError

HELP = "write an ablation's runs, verdict and report under results/ for a commit"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_ablation(parser)
    add_json(parser)
    parser.add_argument(
        "setting", nargs="?", metavar="SETTING", help="which of its settings, where there are several"
    )
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="keep the runs of a sweep that have ended, without a verdict; lab sweep NAME --published goes "
        "on from them in any clone",
    )


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    plans = reports.plans_here(options.name)
    if not plans:
        raise ConfigError(reports.never_run(options.name))
    setting = options.setting or (next(iter(plans)) if len(plans) == 1 else "")
    if setting not in plans:
        raise ConfigError(f"{options.name} {setting}: name one of its settings here: {', '.join(plans)}.")
    from lab.report import publication

    plan = plans[setting]
    registered = registering.unmoved(plan)
    if options.unfinished:
        folder, count = publication.keep(plan, places.store(), places.RESULTS, registered=registered)
        rows = [{"id": str(listing.shown(folder)), "state": f"unfinished, {count} runs kept"}]
        listing.show(rows, as_json=options.json, columns=("id", "state"))
        return 0
    folder = publication.publish(plan, places.store(), places.RESULTS, registered=registered)
    publication.write_report(folder, places.RESULTS)
    rows = [{"id": str(listing.shown(folder)), "state": "published"}]
    listing.show(rows, as_json=options.json, columns=("id", "state"))
    return 0
