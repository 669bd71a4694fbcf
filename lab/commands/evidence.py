"""The ledger, and evidence of its own: `lab claims`, `verify-exact`, `measure`, `noise`."""

import argparse
import sys
from typing import Any

from lab.commands import listing, places
from lab.commands.jobs import execute, outcomes, reopen, tell_failures
from lab.config.strict import ConfigError, plain


def claims(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture import ledger, worklist

    known = ledger.load(places.RESULTS)
    if options.write:
        from lab.lecture import ledger_page

        for path in ledger_page.write(known, places.RESULTS):
            print(listing.shown(path), file=sys.stderr)
    if options.go:
        open_ = worklist.open_work(known, places.RESULTS)
        return worklist.run(open_, places.RESULTS, budget=options.budget)
    if options.todo:
        work = [
            {
                "id": " ".join(item.command),
                "state": "open",
                "core_minutes": item.minutes,
                "claims": ", ".join(item.claims),
            }
            for item in worklist.open_work(known, places.RESULTS)
        ]
        listing.show(work, as_json=options.json, columns=("id", "core_minutes", "claims"))
        return 0
    shown = [
        plain(row) | {"minutes_estimate": row.core_minutes.estimate, "minutes_spent": row.core_minutes.spent}
        for row in known.rows
    ]
    listing.show(
        shown,
        as_json=options.json,
        columns=("id", "state", "kind", "minutes_estimate", "minutes_spent", "says"),
    )
    return 0


def verify_exact(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture.exact.verify import verify
    from lab.store import exact_check

    checks = verify(options.names)
    rows = [{"id": c.claim, "state": "holds" if c.holds else "fails", **plain(c)} for c in checks]
    listing.show(rows, as_json=options.json, columns=("id", "state", "check", "expected", "measured"))
    if not options.names:
        print(listing.shown(exact_check.save(checks, places.RESULTS)), file=sys.stderr)
    return 0 if all(check.holds for check in checks) else 1


def measure(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.lecture.exact import measured_claim, measuring

    rows = []
    for record in measuring.measure(options.names, device=options.device):
        path = listing.shown(measured_claim.save(record, places.RESULTS))
        rows.append({"id": record.claim, "state": record.outcome, "written": str(path), **plain(record)})
    columns = ("id", "state", "core_minutes", "written")
    listing.show(rows, as_json=options.json, columns=columns)
    return 0


def noise(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.plan import planning
    from lab.sweep.progress import preparing
    from lab.verdict import seed_noise as measuring

    with preparing() as show:
        plan = planning.make_noise(overrides, results=places.RESULTS, cache=places.CACHE, progress=show)
    setting = plan.record["setting"]
    plan.save()
    print(f"noise: the baseline and a near twin x {measuring.SEEDS} seeds, {setting}", file=sys.stderr)
    if options.retry:
        reopen(plan)
    execute(plan, quiet=options.json)
    if failed := tell_failures(outcomes(plan, group="noise")):
        return failed
    baseline, twin = (
        [places.store().record(run_id) for run_id in arm["runs"].values()] for arm in plan.record["arms"]
    )
    try:
        summary = measuring.summarise(baseline, {measuring.TWIN: twin})
    except ValueError as error:
        raise ConfigError(f"noise of {setting}: {error}.") from error
    path = measuring.store(places.RESULTS, setting, summary)
    rows = measuring.rows(summary)
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
