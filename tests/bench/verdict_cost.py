"""What did a verdict cost, against the naive grid of the same arms at the same horizon: 5 learning rates x 8
seeds, each run to its end?

    python -m tests.bench.verdict_cost activation [SETTING]

Counts the FLOPs of a published sweep over horizons, its search, the seeds that judge at every horizon and
the check of a lower rate; a trunk counts once, as far as a branch left it. The grid is counted and not
trained. Writes results/cost/<ablation>-<setting>.json.
"""

import argparse
import json
from dataclasses import dataclass
from typing import Any

from lab.commands import listing, places
from lab.config.strict import ConfigError, plain
from lab.plan.ablation import Search
from lab.report.publication import published_folders, published_sweep
from lab.store.files import dumps, write_atomic
from lab.store.plan_record import PlanRecord
from lab.store.run_record import RunRecord
from lab.verdict import verdict_record

SEEDS = 8


@dataclass(frozen=True)
class Cost:
    """Runs that end, and PFLOP of training."""

    runs: int
    pflop: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ablation")
    parser.add_argument("setting", nargs="?", default="*-lr")
    options = parser.parse_args()
    folders = [
        folder
        for folder in published_folders(places.RESULTS, options.ablation)
        if folder.match(options.setting) and published_sweep(folder).plan.horizons
    ]
    if len(folders) != 1:
        raise SystemExit(f"{options.ablation} {options.setting}: {len(folders)} published sweeps; name one.")
    [folder] = folders
    published = published_sweep(folder)
    sweep, grid = of_sweep(published.records), of_grid(published.plan)
    found: dict[str, Any] = {
        "ablation": options.ablation,
        "setting": folder.name,
        "sweep": plain(sweep),
        "grid": plain(grid),
        "ratio": sweep.pflop / grid.pflop,
        "seeds": len(published.plan.seeds),
        "claims": {claim.id: claim.outcome for claim in verdict_record.load(folder / "verdict.json").claims},
    }
    path = places.RESULTS / "cost" / f"{options.ablation}-{folder.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    print(listing.shown(path))


def of_sweep(records: tuple[RunRecord, ...]) -> Cost:
    """Of branches, and of each trunk as far as any of them left it."""
    flop, trunks = 0.0, dict[str, float]()
    branches = [record for record in records if record.parent is not None]
    for record in branches:
        assert record.parent is not None
        rate = record.counts.flops_per_token
        flop += (record.ended.tokens or 0) * rate
        reached = record.parent.tokens * rate
        trunks[record.parent.run_id] = max(trunks.get(record.parent.run_id, 0.0), reached)
    if not branches:
        raise ConfigError("no branches: this sweep has no horizons.")
    return Cost(len(branches), (flop + sum(trunks.values())) / 1e15)


def of_grid(plan: PlanRecord) -> Cost:
    """Of every arm at every rate of a standard search with every seed, trained to the last horizon."""
    each = Search.standard().points * SEEDS
    return Cost(
        each * len(plan.arms),
        sum(each * arm.tokens * arm.counts.flops_per_token for arm in plan.arms) / 1e15,
    )


if __name__ == "__main__":
    main()
