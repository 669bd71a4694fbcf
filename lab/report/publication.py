"""`lab publish`: the only writer of results/<ablation>/<setting>/, from which any clone rebuilds a report.

`lab sweep --published` takes the runs in them for its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import ConfigError, plain, read
from lab.report import build, write_record
from lab.store import exact_check, plan_record, registration
from lab.store.curves import halved
from lab.store.files import dumps, read_lines, write_atomic
from lab.store.plan_record import PlanRecord
from lab.store.registration import Registration
from lab.store.run_record import Curves, RunRecord
from lab.store.run_store import RunStore
from lab.store.states import END_STATES, RESULT_STATES
from lab.verdict.evidence import Evidence, gather

MAX_LINE_BYTES = 8192
RESTORE = "Restore the file from the commit."


@dataclass(frozen=True)
class PublishedSweep:
    """What `lab publish` left in a folder below results/: the plan of a sweep and its runs."""

    folder: Path
    plan: PlanRecord
    records: tuple[RunRecord, ...]

    def evidence(self, results: Path) -> Evidence:
        """The evidence that its report rests on, with the checks of results/exact.jsonl."""
        return gather(self.plan, self.records, exact=exact_check.load(results))


def publish(
    plan: PlanRecord, store: RunStore, results: Path, *, registered: Registration | None = None
) -> Path:
    """Write runs.jsonl, plan.json and the registration of one sweep, for `write_report` to go on from, and
    return their folder; a run published before keeps its bytes.

    Trunks that end beyond the last horizon of the plan are left out. Raises ConfigError where the sweep is
    unfinished or would take seeds or arms away from what is
    published.
    """
    folder = results / plan.ablation / plan.setting
    path = folder / "runs.jsonl"
    before = path.read_text().splitlines() if path.exists() else []
    kept = {
        record.run_id: line
        for line, record in zip(before, read_records(path), strict=True)
        if record.state != "failed"
    }
    pausing = {run for arm in plan.arms for run in (arm.trunks or {}).values()}
    planned = [run for run in plan.run_ids() if run not in pausing or store.state(run) in END_STATES]
    lost = [run_id for run_id in kept if run_id not in planned]
    open_runs = [run_id for run_id in planned if run_id not in kept and store.state(run_id) not in END_STATES]
    where = f"{plan.ablation} {plan.setting}"
    earlier = folder / "plan.json"
    if earlier.exists() and (old := plan_record.load(earlier, fix=RESTORE)).protocol < plan.protocol:
        raise ConfigError(
            f"{where}: what is published there was judged by protocol {old.protocol}, and stays. Give the "
            "ablation horizons, whose sweeps have folders of their own."
        )
    if open_runs:
        raise ConfigError(
            f"{where}: {len(open_runs)} of {len(planned)} runs have not ended. Continue the sweep first."
        )
    if lost:
        raise ConfigError(
            f"{where}: {len(lost)} published runs are not in this sweep. Run it with the seeds and arms of "
            f"{folder / 'plan.json'} and more, or delete that folder first."
        )
    for run_id in planned:
        if run_id not in kept:
            kept[run_id] = store.published_line(run_id) or line_of(store.record(run_id))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(f"{kept[run_id]}\n" for run_id in planned))
    plan_record.save(plan, folder)
    if registered:
        registration.save(registered, folder)
    return folder


def keep(
    plan: PlanRecord, store: RunStore, results: Path, *, registered: Registration | None = None
) -> tuple[Path, int]:
    """Write the ended runs of an unfinished sweep and its registration where it will be published, for a
    commit: `lab sweep --published` goes on from them. Returns the folder and how many there are.

    No plan and no verdict stand beside them, so no page shows them. Raises ConfigError where the sweep is
    published, or has no ended run.
    """
    folder = results / plan.ablation / plan.setting
    if (folder / "plan.json").exists():
        raise ConfigError(f"{plan.ablation} {plan.setting}: is published already. Finish the sweep first.")
    path = folder / "runs.jsonl"
    before = path.read_text().splitlines() if path.exists() else []
    kept = {record.run_id: line for line, record in zip(before, read_records(path), strict=True)}
    for run_id in plan.run_ids():
        if run_id not in kept and store.state(run_id) in RESULT_STATES:
            kept[run_id] = store.published_line(run_id) or line_of(store.record(run_id))
    if not kept:
        raise ConfigError(f"{plan.ablation} {plan.setting}: none of its runs has ended. Continue the sweep.")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(f"{line}\n" for line in kept.values()))
    if registered:
        registration.save(registered, folder)
    return folder, len(kept)


def write_report(folder: Path, results: Path) -> None:
    """Write verdict, report and figures of a published folder from its lines alone, as any clone would."""
    write_record(build(published_sweep(folder).evidence(results)), folder)


def line_of(record: RunRecord) -> str:
    """A record as one line, its curves of skills thinned until it has MAX_LINE_BYTES or less, or no points
    to spare.
    """
    line, thinner = "", record.curves
    while True:
        line = dumps(plain(dataclasses.replace(record, curves=thinner)), separators=(",", ":"))
        fewer: Curves | None = halved(thinner) if len(line.encode()) > MAX_LINE_BYTES else None
        if fewer is None:
            return line
        thinner = fewer


def published_folders(results: Path, name: str = "*") -> list[Path]:
    """The folder of every published sweep, or of those of one ablation."""
    return sorted(path.parent for path in results.glob(f"{name}/*/plan.json"))


def published_sweep(folder: Path) -> PublishedSweep:
    """What is published in a folder. Raises ConfigError naming a damaged file."""
    return PublishedSweep(folder, published_plan(folder), tuple(read_records(folder / "runs.jsonl")))


def published_plan(folder: Path) -> PlanRecord:
    """The plan of a published sweep. Raises ConfigError for a damaged file."""
    return plan_record.load(folder / "plan.json", fix=RESTORE)


def published_runs(results: Path) -> Iterator[tuple[RunRecord, str]]:
    """Every published run that has a result, with its line. Raises ConfigError for a line that is no
    record.
    """
    for path in sorted(results.glob("*/*/runs.jsonl")):
        for record, line in zip(read_records(path), path.read_text().splitlines(), strict=True):
            if record.state in RESULT_STATES:
                yield record, line


def read_records(path: Path) -> Iterator[RunRecord]:
    """The records of a file of published lines; none without it. Raises ConfigError naming file and line."""
    for number, line in enumerate(read_lines(path), start=1):
        yield read(RunRecord, line, source=f"{path}, line {number}", fix=RESTORE)
