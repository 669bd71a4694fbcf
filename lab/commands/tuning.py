"""`lab tune`."""

import argparse

from lab.commands import listing, places
from lab.commands.jobs import execute


def tune(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.store.identity import NUMERICS
    from lab.sweep import space
    from lab.sweep import study as tuning
    from lab.sweep.trials import Trials

    tuning.check_name(options.name)
    ranges, rest = space.parsed(overrides)
    trials = Trials(
        rest,
        ranges,
        places.store(),
        results=places.RESULTS,
        cache=places.CACHE,
        carry_out=lambda plan: execute(plan, quiet=options.json),
    )
    rungs = tuning.Rungs.of(
        trials.steps, points=trials.points, factor=options.factor if options.factor > 1 else None
    )
    about = {
        "ranges": [found.json() for found in ranges],
        "overrides": sorted(rest),
        "sampler": options.sampler,
        "seed": options.seed,
        "batch": options.batch,
        "rungs": list(rungs.steps),
        "factor": rungs.factor,
        "numerics": NUMERICS,
    }
    with tuning.owner(options.name, places.RESULTS / "tune"):
        study = tuning.open_study(
            options.name, storage=options.storage, folder=places.RESULTS / "tune", about=about
        )
        found = tuning.search(
            study,
            ranges,
            trials.score,
            sampler=options.sampler,
            seed=options.seed,
            trials=options.trials,
            batch=options.batch,
            rungs=rungs,
            drop=trials.drop,
        )
    if options.json:
        listing.show([vars(found)], as_json=True, columns=())
    else:
        rows = [
            row | {"params": " ".join(r.override(row["params"][r.key]) for r in ranges)}
            for row in found.trials
        ]
        listing.show(rows, as_json=False, columns=("id", "state", "value", "rung", "params"))
        print("\n".join(tuning.told(found)))
    return 0 if found.best else 1
