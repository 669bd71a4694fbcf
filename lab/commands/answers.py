"""What a sweep is answered with in the terminal: its arms, its claims beside what was published of them, and
what to do next.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lab.commands import listing, places, plan_rows

if TYPE_CHECKING:
    from lab.config.schema import Tracker
    from lab.plan.planning import Plan
    from lab.report.answer import Answer
    from lab.store.plan_record import PlanRecord
    from lab.verdict.evidence import Evidence
    from lab.verdict.verdict_record import ClaimVerdict, Verdict


def of_sweep(evidence: "Evidence", verdict: "Verdict") -> "Answer":
    """The answer of a sweep, with what the published ones of its ablation say of the same claims."""
    from lab.report.answer import answer

    return answer(evidence, verdict, _published(evidence.plan))


def show(found: "Answer", page: Path) -> None:
    """Print an answer and where its report is."""
    from lab.report.answer import lines

    print("\n".join(lines(found)))
    print(f"report: {listing.shown(page)}")


def show_next(plan: "Plan", whole: "Callable[[], Plan]") -> None:
    """Print where the curves are, and the command that goes on from a sweep that has ended.

    whole() plans the same sweep with all seeds and horizons of its ablation.
    """
    from lab.report import rerun
    from lab.verdict.evidence import is_searched

    if curves := _curves(plan.work.tracker, plan.record.ablation):
        print(f"curves: {curves}")
    if not is_searched(plan.record) and _may_search(plan):
        least, most = plan_rows.minutes_with_search(whole(), places.store())
        about = f"{least:.0f}" if round(least) == round(most) else f"{least:.0f} to {most:.0f}"
        print(f"next:   {rerun.further(plan.record)}")
        print(f"        a rate of its own for each arm, all seeds and horizons; about {about} minutes here")
    else:
        print(f"next:   lab publish {plan.record.ablation} {plan.record.setting}")
        print("        keeps runs, verdict and report under results/ for a commit")


def _may_search(plan: "Plan") -> bool:
    return not any(text.startswith("optimizer.lr=") for item in plan.arms for text in item.arm.overrides)


def _curves(tracker: "Tracker", group: str) -> str:
    """Where a tracker shows the runs of a sweep; empty without one."""
    from lab.track.login import mode_of

    folder = listing.shown(places.RESULTS / tracker.name)
    if tracker.name == "none":
        return ""
    if tracker.name != "wandb":
        return f"{folder} ({tracker.name})"
    if mode_of("wandb", tracker.mode) == "online":
        return f"W&B, project {tracker.project}, group {group}"
    return f".venv/bin/wandb leet {folder}/wandb; after wandb login lab sync sends them to W&B"


def _published(plan: "PlanRecord") -> dict[str, str]:
    """Of each claim what its furthest published sweep came to, in a few words."""
    from lab.report.publication import published_folders
    from lab.verdict import verdict_record

    found: dict[str, tuple[tuple[int, int, int], str]] = {}
    for folder in published_folders(places.RESULTS, plan.ablation):
        if folder.name == plan.setting or not (folder / "verdict.json").exists():
            continue
        verdict = verdict_record.load(folder / "verdict.json")
        last = verdict.horizons[-1] if verdict.horizons else 0
        for claim in verdict.claims:
            rank = (verdict.protocol, last, claim.seeds)
            if claim.outcome != "not run" and rank > found.get(claim.id, ((0, 0, 0), ""))[0]:
                found[claim.id] = (rank, _in_words(claim, verdict))
    return {name: words for name, (_, words) in found.items()}


def _in_words(claim: "ClaimVerdict", verdict: "Verdict") -> str:
    way = f", {claim.direction.name}" if claim.direction and claim.direction.name != "open" else ""
    protocol = "" if verdict.protocol > 1 else ", protocol 1"
    return f"{claim.outcome}{way}, {verdict.setting}, {claim.seeds} seeds{protocol}"
