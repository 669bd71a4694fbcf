"""`lab tune`: a search of any numeric keys with Optuna, whose trials are thinned while they train."""

import argparse

from lab.commands import listing, places
from lab.commands.arguments import add_json, add_overrides, at_least_one, seed
from lab.commands.jobs import execute, tell

HELP = "search any numeric keys with Optuna; what is dropped early is never trained"


def arguments(parser: argparse.ArgumentParser) -> None:
    from lab.sweep import space

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"{parser.description}\n\n{space.__doc__}"
    parser.add_argument("name", metavar="NAME", help="of the study; the same command goes on with it")
    add_overrides(parser, help="ranges to search, see above, and plain overrides of every run")
    parser.add_argument(
        "--sampler", choices=("tpe", "sobol", "grid"), default="tpe", help="what suggests trials (tpe)"
    )
    parser.add_argument("--trials", type=at_least_one, default=24, metavar="N", help="trials in all (24)")
    parser.add_argument(
        "--batch", type=at_least_one, default=8, metavar="N", help="trials that are thinned together (8)"
    )
    parser.add_argument(
        "--factor",
        type=at_least_one,
        default=2,
        metavar="N",
        help="successive halving: 1 of N trials goes on at each rung (2); 1 trains all of them to the end",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="S", help="of the sampler (0); that of runs is seed=S"
    )
    parser.add_argument(
        "--storage", metavar="URL", help="a database for Optuna instead of results/tune/NAME.journal"
    )
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    places.refuse_unwritable()
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
        carry_out=lambda work: execute(work, quiet=options.json),
    )
    tell(trials.accounts)
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
