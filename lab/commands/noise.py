"""`lab noise`: how much the baseline of a size and a text varies by its seed alone."""

import argparse
import sys
from typing import TYPE_CHECKING

from lab.commands import jobs, listing, places, run_rows
from lab.commands.arguments import add_json, add_overrides, add_retry
from lab.config.strict import ConfigError

if TYPE_CHECKING:
    from lab.store.noise_record import NoiseRecord

HELP = "measure how much the baseline varies by its seed alone, for the margins of later sweeps"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser, help="size, data and its paths, engine and tracker; the baseline stays as it is")
    add_retry(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    places.refuse_unwritable()
    from lab.plan.noise_plan import noise_runs
    from lab.store import noise_record, plan_record
    from lab.store.noise_record import SEEDS, TWIN
    from lab.sweep.progress import preparing
    from lab.verdict import seed_noise

    with preparing() as show:
        plan, work = noise_runs(overrides, results=places.RESULTS, cache=places.CACHE, progress=show)
    plan_record.save(plan, places.RESULTS / "sweeps" / plan.ablation / plan.setting)
    print(f"noise: the baseline and a near twin x {SEEDS} seeds, {plan.setting}", file=sys.stderr)
    jobs.tell(work.accounts)
    if options.retry:
        jobs.reopen(work.jobs)
    jobs.execute(work, quiet=options.json)
    if failed := run_rows.tell_failures(run_rows.rows_of(work.jobs, group=plan.ablation)):
        return failed
    store = places.store()
    baseline, twin = ([store.record(run_id) for run_id in arm.runs.values()] for arm in plan.arms)
    try:
        measured = seed_noise.summarise(baseline, {TWIN: twin})
    except ValueError as error:
        raise ConfigError(f"noise of {plan.setting}: {error}.") from error
    path = noise_record.save(places.RESULTS, plan.setting, measured)
    if options.json:
        listing.show(seed_noise.rows(measured), as_json=True, columns=())
    else:
        told = [_in_words(name, measured) for name in measured.metrics]
        listing.show(told, as_json=False, columns=list(told[0]))
    print(listing.shown(path), file=sys.stderr)
    return 0


def _in_words(name: str, noise: "NoiseRecord") -> dict[str, object]:
    """The cells of a metric's row, spreads in the unit of its differences."""
    from lab.store.metric import named
    from lab.verdict.seed_noise import SEEDS_TOLD, smallest_margin
    from lab.verdict.wording import amount

    metric, found = named(name), noise.metrics[name]
    least = {seeds: smallest_margin(noise, metric, seeds=seeds) for seeds in SEEDS_TOLD}
    return {
        "metric": name,
        "n": found.n,
        "mean": found.mean,
        "seed sd": amount(metric, found.seed_sd),
        "95 % interval": f"{amount(metric, found.seed_sd_low)} to {amount(metric, found.seed_sd_high)}",
        "paired sd": "" if found.paired_sd is None else amount(metric, found.paired_sd),
        **{
            f"{seeds} seeds tell": "" if margin is None else amount(metric, margin)
            for seeds, margin in least.items()
        },
    }
