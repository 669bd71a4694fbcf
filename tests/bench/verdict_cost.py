"""What does a verdict cost, against the naive grid of the same arms: 5 learning rates x 8 seeds, each run
to its end?

    python -m tests.bench.verdict_cost ffn-ratio [KEY=VALUE ...]

The sweep searches each arm's rate with tuning seeds, judges at the best and the common rate after 4 and
after 8 seeds, shares equal runs and ends diverging ones. The grid takes every arm at its best mean over 8
seeds; its diverging runs count as if trained to the end. Both train through the run store, so the same
command continues. Writes results/cost/<ablation>-<setting>.json.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lab.commands import listing, places
from lab.config.strict import plain
from lab.plan.planning import Plan, make
from lab.store.files import dumps, write_atomic
from lab.store.plan_record import PlanRecord
from lab.store.run_store import RunStore
from lab.store.states import RESULT_STATES
from lab.sweep import search as rates
from lab.sweep import stages as staged
from lab.sweep.local import execute
from lab.sweep.progress import preparing, shown
from lab.verdict.evidence import gather
from lab.verdict.verdicts import verdict

LOOKS = (4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ablation")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    store = RunStore(places.RESULTS / "runs")

    def carry_out(part: Plan, title: str) -> None:
        print(title, flush=True)
        with shown(quiet=False) as show:
            execute(part.jobs, store, workers=part.work.engine.workers, show=show)

    with preparing() as show:
        made = make(
            options.ablation,
            options.overrides,
            results=places.RESULTS,
            cache=places.CACHE,
            seeds=LOOKS[-1],
            progress=show,
        )
    made = replace(made, record=replace(made.record, looks=LOOKS))
    searched = staged.run(made, store, carry_out, search=True, results=places.RESULTS).record
    grid, grid_runs = naive(made, store, carry_out)
    ways = {
        "sweep": way(searched, searched.run_ids(), store),
        "grid": way(grid, grid_runs, store, to_the_end=True),
    }
    ratio = {key: ways["sweep"][key] / ways["grid"][key] for key in ("runs", "pflop", "core_minutes")}
    found = {
        "ablation": options.ablation,
        "setting": searched.setting,
        **ways,
        "ratio": ratio,
        "provenance": plain(store.record(grid_runs[0]).provenance),
    }
    path = places.RESULTS / "cost" / f"{options.ablation}-{searched.setting}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    print(listing.shown(path))


def naive(made: Plan, store: RunStore, carry_out: staged.CarryOut) -> tuple[PlanRecord, list[str]]:
    """Train the grid; the plan record that judges each arm at its best rate, and the ids of all its runs."""
    seeds, values = made.record.seeds, staged.first_rates(made)
    jobs, runs = staged.grid_jobs(made, values, seeds, places.RESULTS)
    carry_out(made.with_jobs(jobs), f"grid: {len(jobs)} runs")
    records = {name: store.record(name) for name in jobs}
    best = rates.table(runs, records, common=values[len(values) // 2], values=values, seeds=seeds).best
    arms = tuple(
        replace(arm, runs=runs[arm.name][best[arm.name]], best_lr=best[arm.name]) for arm in made.record.arms
    )
    return replace(made.record, looks=(), arms=arms), list(jobs)


def way(
    plan: PlanRecord, names: Iterable[str], store: RunStore, *, to_the_end: bool = False
) -> dict[str, Any]:
    """Runs, FLOPs and core-minutes of one way to a verdict, and the verdict; to_the_end: as if no run had
    ended early.
    """
    records = [store.record(name) for name in names]
    if failed := [record.run_id for record in records if record.state not in RESULT_STATES]:
        raise SystemExit(f"no result: {', '.join(failed)}; lab sweep --retry runs them again")
    flop = seconds = 0.0
    for record in records:
        config, summary = record.config, record.ended
        assert summary.tokens and summary.seconds is not None, f"run {record.run_id} was not measured"
        planned = config.steps * config.rows * config.shape.context_length
        tokens = planned if to_the_end else summary.tokens
        flop += tokens * record.counts.flops_per_token
        seconds += summary.seconds * tokens / summary.tokens
    judged = verdict(gather(plan, records))
    return {
        "runs": len(records),
        "pflop": flop / 1e15,
        "core_minutes": seconds / 60,
        "seeds": len(plan.seeds),
        "best_lr": {arm.name: arm.best_lr for arm in plan.arms},
        "claims": {claim.id: {"outcome": claim.outcome, "why": claim.why} for claim in judged.claims},
    }


if __name__ == "__main__":
    main()
