"""`lab sweep`: an ablation planned, searched, trained look by look and reported; killed anywhere, the same
command continues it.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from lab.commands import jobs, places, plan_rows, registering, reports
from lab.commands.arguments import add_json, add_planning, add_retry

if TYPE_CHECKING:
    from lab.plan.planning import Plan

HELP = "run an ablation and write its report; the same command continues it"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_planning(parser)
    parser.add_argument(
        "--plan", action="store_true", help="print arms, counts, mismatch and time; start nothing"
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="first search the learning rate of each arm, on seeds of its own; "
        "then train at each arm's best, without horizons at one rate too, with them to the last of them",
    )
    parser.add_argument(
        "--fresh-seeds",
        action="store_true",
        help="judge with the next seeds that no sweep of this ablation and setting has judged with, as after "
        "a claim was changed; the same command continues with them",
    )
    parser.add_argument(
        "--published",
        action="store_true",
        help="take runs from the lines published in results/, of this torch and kind of device, "
        "instead of training them again",
    )
    add_retry(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    places.refuse_unwritable()
    plan = jobs.planned(options, overrides, quick=not options.search)
    if options.fresh_seeds:
        first = registering.first_fresh_seed(plan, searched=options.search)
        plan = jobs.planned(options, overrides, quick=not options.search, first_seed=first)
    from lab.sweep import rate_search, stages
    from lab.sweep.carry_out import Incomplete

    if options.search:
        rate_search.refuse_search(plan)
    plan_rows.refuse_undecidable(plan)
    jobs.tell(plan.work.accounts)
    if options.plan:
        plan_rows.show_plan(plan, places.store(), as_json=options.json)
        if options.search and not options.json:
            print(rate_search.foretold(plan))
        return 0

    def carry_out(part: "Plan", title: str) -> None:
        part.save()
        print(f"{options.name}: {title}", file=sys.stderr)
        if options.retry:
            jobs.reopen(part.jobs)
        if options.published and (taken := jobs.adopt(part.jobs)):
            print(f"{taken} runs taken from published lines", file=sys.stderr)
        jobs.execute(part.work, quiet=options.json)

    try:
        plan = stages.run(
            plan,
            places.store(),
            carry_out,
            search=options.search,
            results=places.RESULTS,
            stop_early=options.seeds is None,
            register=registering.register,
        )
    except Incomplete as incomplete:
        plan = incomplete.plan
    plan.save()
    entire = argparse.Namespace(**{**vars(options), "horizon": None, "seeds": None})
    return reports.told(plan, lambda: jobs.planned(entire, overrides, quick=False), as_json=options.json)
