"""`lab noise`: how much the baseline of a size and a text varies by its seed alone."""

import argparse
import sys
from typing import Any

from lab.commands import jobs, listing, places, run_rows
from lab.commands.arguments import add_json, add_overrides, add_retry
from lab.config.strict import ConfigError

HELP = "measure how much the baseline varies by its seed alone, for the margins of later sweeps"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser, help="size, data and its paths, engine and tracker; the baseline stays as it is")
    add_retry(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.plan import planning
    from lab.sweep.progress import preparing
    from lab.verdict import seed_noise

    with preparing() as show:
        plan = planning.make_noise(overrides, results=places.RESULTS, cache=places.CACHE, progress=show)
    setting = plan.record["setting"]
    plan.save()
    print(f"noise: the baseline and a near twin x {seed_noise.SEEDS} seeds, {setting}", file=sys.stderr)
    if options.retry:
        jobs.reopen(plan)
    jobs.execute(plan, quiet=options.json)
    if failed := run_rows.tell_failures(run_rows.rows_of(plan, group="noise")):
        return failed
    baseline, twin = (
        [places.store().record(run_id) for run_id in arm["runs"].values()] for arm in plan.record["arms"]
    )
    try:
        summary = seed_noise.summarise(baseline, {seed_noise.TWIN: twin})
    except ValueError as error:
        raise ConfigError(f"noise of {setting}: {error}.") from error
    path = seed_noise.store(places.RESULTS, setting, summary)
    rows = seed_noise.rows(summary)
    if options.json:
        listing.show(rows, as_json=True, columns=())
    else:
        told = [_in_words(row) for row in rows]
        listing.show(told, as_json=False, columns=list(told[0]))
    print(listing.shown(path), file=sys.stderr)
    return 0


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    """The cells of a metric's row, spreads in the unit of its differences."""
    from lab.verdict.metric import named

    amount = named(row["id"]).amount
    low, high = amount(row["seed_sd_low"]), amount(row["seed_sd_high"])
    least = {
        f"{seeds} seeds tell": "" if margin is None else amount(margin)
        for seeds, margin in row["smallest_margin"].items()
    }
    return {
        "metric": row["id"],
        "n": row["n"],
        "mean": row["mean"],
        "seed sd": amount(row["seed_sd"]),
        "95 % interval": f"{low} to {high}",
        "paired sd": "" if row["paired_sd"] is None else amount(row["paired_sd"]),
        **least,
    }
