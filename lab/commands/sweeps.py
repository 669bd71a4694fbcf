"""An ablation, planned and swept, here or on another machine: `lab sweep`, `plan`, `collect`."""

import argparse
import sys
from typing import Any

from lab.commands import listing, places
from lab.commands.jobs import adopt, execute, reopen, told, write_report
from lab.store.files import dumps, read_record, write_atomic
from lab.store.states import RESULT_STATES


def sweep(options: argparse.Namespace, overrides: list[str]) -> int:
    plan = _planned(options, overrides)
    from lab.sweep import stages as staged

    if options.search:
        staged.refuse_search(plan)
    if options.plan:
        listing.print_plan(plan, places.store(), as_json=options.json)
        if options.search and not options.json:
            print(staged.foretold(plan))
        return 0

    def carry_out(part: Any, title: str) -> None:
        part.save()
        print(f"{options.name}: {title}", file=sys.stderr)
        if options.retry:
            reopen(part)
        if options.published and (taken := adopt(part)):
            print(f"{taken} runs taken from published lines", file=sys.stderr)
        execute(part, quiet=options.json)

    try:
        plan = staged.run(
            plan,
            places.store(),
            carry_out,
            search=options.search,
            results=places.RESULTS,
            stop_early=options.seeds is None,
        )
    except staged.Incomplete as incomplete:
        plan = incomplete.plan
    plan.save()
    return told(plan, group=options.name, options=options, with_report=True)


def plan(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.sweep import parcel

    made = _planned(options, overrides, elsewhere=options.out is not None)
    if options.out is not None:
        parcel.pack(made, options.out, places.store())
    listing.print_plan(made, places.store(), as_json=options.json)
    if options.out is not None and not options.json:
        where = listing.shown(options.out)
        print(f"written to {where}; there: python -m lab.sweep.away {where}; then here: lab collect {where}")
    return 0


def collect(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.sweep import parcel
    from lab.verdict.evidence import run_ids

    rows, record = parcel.collect(options.folder, places.store()), parcel.plan_of(options.folder)
    page = None
    if "arms" in record and any(row["state"] in RESULT_STATES for row in rows):
        folder = places.RESULTS / "sweeps" / record["ablation"] / record["setting"]
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "plan.json").exists():
            fix = f"Remove it, and collect {listing.shown(options.folder)} again."
            known = read_record(folder / "plan.json", fix=fix)
            ours, theirs = set(run_ids(known)), set(run_ids(record))
            if ours - theirs:
                record = known
            if ours - theirs and theirs - ours:
                print(
                    f"the report is that of the sweep here, which has {len(ours - theirs)} other runs; lab sweep with all seeds and arms reports both",
                    file=sys.stderr,
                )
        write_atomic(folder / "plan.json", dumps(record, indent=1))
        page = write_report(record, folder)
    listing.show(rows, as_json=options.json, columns=("id", "state", "arm", "seed", "note"))
    if page and not options.json:
        print(f"report: {listing.shown(page)}")
    return 0 if all(row["state"] in RESULT_STATES for row in rows) else 1


def _planned(options: argparse.Namespace, overrides: list[str], *, elsewhere: bool = False) -> Any:
    from lab.plan import planning
    from lab.sweep.progress import preparing

    with preparing() as show:
        return planning.make(
            options.name,
            overrides,
            results=places.RESULTS,
            cache=places.CACHE,
            seeds=options.seeds,
            extra_arms=options.extra_arms,
            hold=options.match,
            progress=show,
            elsewhere=elsewhere,
        )
