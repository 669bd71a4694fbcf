"""What does a verdict cost, against the naive grid of the same arms: 5 learning rates x 8 seeds, each run
to its end?

    python -m tests.bench.verdict_cost ffn-ratio [KEY=VALUE ...]

The sweep searches each arm's rate with tuning seeds, judges at the best and the common rate after 4 and
after 8 seeds, shares equal runs and ends diverging ones. The grid takes every arm at its best mean over 8
seeds; its diverging runs count as if trained to the end. Both train through the run store, so the same
command continues. Writes results/cost/<ablation>-<setting>.json.
"""

import argparse
import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from lab.commands import listing, places
from lab.plan import planning as plan
from lab.store.files import dumps, write_atomic
from lab.store.run_store import RunStore
from lab.store.states import RESULT_STATES
from lab.sweep import search as rates
from lab.sweep import stages as staged
from lab.sweep.local import execute
from lab.sweep.progress import preparing, shown
from lab.verdict.evidence import run_ids
from lab.verdict.verdicts import verdict

LOOKS = [4, 8]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ablation")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    store = RunStore(places.RESULTS / "runs")

    def carry_out(part: plan.Plan, title: str) -> None:
        print(title, flush=True)
        with shown(quiet=False) as show:
            execute(part.jobs, store, workers=part.engine.workers, show=show)

    with preparing() as show:
        made = plan.make(
            options.ablation,
            options.overrides,
            results=places.RESULTS,
            cache=places.CACHE,
            seeds=LOOKS[-1],
            progress=show,
        )
    made = dataclasses.replace(made, record=made.record | {"looks": LOOKS})
    searched = staged.run(made, store, carry_out, search=True, results=places.RESULTS).record
    grid, grid_runs = naive(made, store, carry_out)
    ways = {
        "sweep": way(searched, run_ids(searched), store),
        "grid": way(grid, grid_runs, store, to_the_end=True),
    }
    ratio = {key: ways["sweep"][key] / ways["grid"][key] for key in ("runs", "pflop", "core_minutes")}
    first = store.record(grid_runs[0])["provenance"]
    found = {
        "ablation": options.ablation,
        "setting": searched["setting"],
        **ways,
        "ratio": ratio,
        "provenance": first,
    }
    path = places.RESULTS / "cost" / f"{options.ablation}-{searched['setting']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    print(listing.shown(path))


def naive(made: plan.Plan, store: RunStore, carry_out: staged.CarryOut) -> tuple[dict[str, Any], list[str]]:
    """Train the grid; the plan record that judges each arm at its best rate, and the ids of all its runs."""
    seeds, values = made.record["seeds"], staged.first_rates(made)
    jobs, runs = staged.grid_jobs(made, values, seeds, places.RESULTS)
    carry_out(dataclasses.replace(made, jobs=jobs), f"grid: {len(jobs)} runs")
    records = {name: store.record(name) for name in jobs}
    best = rates.table(runs, records, common=values[len(values) // 2], values=values, seeds=seeds)["best"]
    arms = [
        arm | {"runs": runs[arm["name"]][rates.written(best[arm["name"]])], "best_lr": best[arm["name"]]}
        for arm in made.record["arms"]
    ]
    record = {key: value for key, value in made.record.items() if key != "looks"}
    return record | {"arms": arms}, list(jobs)


def way(
    record: dict[str, Any], names: Iterable[str], store: RunStore, *, to_the_end: bool = False
) -> dict[str, Any]:
    """Runs, FLOPs and core-minutes of one way to a verdict, and the verdict; to_the_end: as if no run had
    ended early.
    """
    records = [store.record(name) for name in names]
    if failed := [run["run_id"] for run in records if run["state"] not in RESULT_STATES]:
        raise SystemExit(f"no result: {', '.join(failed)}; lab sweep --retry runs them again")
    flop = seconds = 0.0
    for run in records:
        config, summary = run["config"], run["summary"]
        planned = config["steps"] * config["rows"] * config["shape"]["context_length"]
        tokens = planned if to_the_end else summary["tokens"]
        flop += tokens * run["counts"]["flops_per_token"]
        seconds += summary["seconds"] * tokens / summary["tokens"]
    judged = verdict(record, records)
    return {
        "runs": len(records),
        "pflop": flop / 1e15,
        "core_minutes": seconds / 60,
        "seeds": len(record["seeds"]),
        "best_lr": {arm["name"]: arm["best_lr"] for arm in record["arms"]},
        "claims": {
            claim["id"]: {key: claim[key] for key in ("outcome", "why")} for claim in judged["claims"]
        },
    }


if __name__ == "__main__":
    main()
