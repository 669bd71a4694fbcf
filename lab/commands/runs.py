"""What ran, its reports, its published lines and its mirrors: `lab status`, `report`, `publish`, `sync`."""

import argparse
from typing import Any

from lab.commands import arguments, listing, places
from lab.commands.jobs import write_report
from lab.config.strict import ConfigError, closest
from lab.store.files import read_record


def status(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.verdict.evidence import runs_of_arms

    planned = {run_id: (plan["ablation"], arm) for plan in _plans() for run_id, arm in runs_of_arms(plan)}
    known = planned | {run_id: ("train", None) for run_id in places.store().ids() if run_id not in planned}
    rows = [
        listing.run_row(places.store(), run_id, group=group, arm=arm)
        for run_id, (group, arm) in known.items()
    ]
    rows.sort(key=lambda row: (row["ablation"], row["arm"] or "", row["seed"] or 0))
    listing.show(
        rows, as_json=options.json, columns=("id", "state", "ablation", "arm", "seed", "tokens", "val/bpb")
    )
    return 0


def report(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.report import write
    from lab.report.publication import published
    from lab.verdict.evidence import exact_lines

    here = {plan["setting"]: plan for plan in _plans(options.name)}
    folder = places.RESULTS / "sweeps" / options.name
    pages = [write_report(plan, folder / setting) for setting, plan in here.items()]
    for plan, records in published(places.RESULTS, options.name):
        if plan["setting"] not in here:
            exact = exact_lines(places.RESULTS)
            pages.append(write(plan, records, folder / plan["setting"], exact=exact))
    if not pages:
        raise ConfigError(_never_run(options.name))
    rows = [{"id": str(listing.shown(page)), "state": "written"} for page in pages]
    listing.show(rows, as_json=options.json, columns=("id", "state"))
    return 0


def publish(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.report import publication as publishing

    plans = {plan["setting"]: plan for plan in _plans(options.name)}
    if not plans:
        raise ConfigError(_never_run(options.name))
    setting = options.setting or (next(iter(plans)) if len(plans) == 1 else "")
    if setting not in plans:
        raise ConfigError(f"{options.name} {setting}: name one of its settings here: {', '.join(plans)}.")
    folder = publishing.publish(plans[setting], places.store(), places.RESULTS)
    rows = [{"id": str(listing.shown(folder)), "state": "published"}]
    listing.show(rows, as_json=options.json, columns=("id", "state"))
    return 0


def sync(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.config.compose import Override, compose
    from lab.track import follower as tracker

    to = compose([Override(text) for text in overrides]).tracker
    if to.name == "none":
        raise ConfigError("tracker = none: no tracker to send to. Leave it out, or name one.")
    sent = tracker.sync(
        places.RESULTS / "runs", places.RESULTS / to.name, board=to.name, project=to.project, mode=to.mode
    )
    listing.show(sent, as_json=options.json, columns=("id", "state", "sent"))
    return 0


def _plans(name: str | None = None) -> list[dict[str, Any]]:
    if name is not None and name not in arguments.ablations():
        raise ConfigError(
            f"{name}: no such ablation.{closest(name, arguments.ablations())} Known: {', '.join(arguments.ablations())}."
        )
    paths = sorted((places.RESULTS / "sweeps").glob(f"{name or '*'}/*/plan.json"))
    return [read_record(path, fix="Remove it, then repeat the sweep.") for path in paths]


def _never_run(name: str) -> str:
    return f"{name}: no sweep of it has run here. Start one with make sweep-{name}."
