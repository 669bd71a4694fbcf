"""How do runs travel to a machine that has torch and numpy only, and back? A folder with all that their
training needs.

DIR/plan.json            what was asked, as `lab sweep` keeps it
    jobs.json            the resolved jobs, with paths from DIR
    shards/<name>/       token shards
    runs/<run_id>/       the run store of `python -m lab.sweep.away DIR`; before that, parents to start from
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from lab.config.strict import ConfigError, plain, read
from lab.data.shards import ShardError, Shards
from lab.plan.job_set import Jobs, JobSet
from lab.plan.planning import Plan
from lab.store import plan_record
from lab.store.files import dumps, read_record, write_atomic
from lab.store.identity import NUMERICS, run_id
from lab.store.job import Job
from lab.store.plan_record import PlanRecord
from lab.store.run_store import RunStore, without_paths
from lab.store.states import RESULT_STATES

BROKEN = "Write it again with lab plan --out."


@dataclass(frozen=True)
class JobsFile:
    """jobs.json: the jobs, how many at a time, and the mathematics of training that named their runs."""

    numerics: int
    workers: int | None
    jobs: tuple[Job, ...]


def store_of(folder: Path) -> RunStore:
    return RunStore(folder / "runs")


def pack(plan: Plan, folder: Path, store: RunStore) -> None:
    """Write the folder of a plan; what it holds already of the same plan stays. Runs with a result in the
    store stay at home.

    Raises ConfigError where the folder holds other things.
    """
    _refuse_foreign(plan.record, folder)
    plan_record.save(plan.record, folder)  # first: it marks the folder as one of these
    pack_jobs(plan.work, folder, store)


def pack_jobs(work: JobSet, folder: Path, store: RunStore) -> None:
    """Write jobs.json and what the jobs read, for those without a result in the store."""
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    jobs = []
    for name, job in work.jobs.items():
        if store.state(name) in RESULT_STATES:
            continue
        source = Path(job.shards)
        _copy_shards(source, folder / "shards" / source.name)
        parent = job.manifest.parent
        if parent and (parent.run_id not in work.jobs or store.state(parent.run_id) in RESULT_STATES):
            store.lend(parent.run_id, parent.step, store_of(folder))
        away = without_paths(job.config)
        jobs.append(replace(job, config=away, store="runs", shards=f"shards/{source.name}"))
    content = JobsFile(NUMERICS, work.engine.workers, tuple(jobs))
    write_atomic(folder / "jobs.json", dumps(plain(content), indent=1))


def _refuse_foreign(record: PlanRecord, folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "plan.json").exists():
        raise ConfigError(f"--out {folder}: exists and holds no plan. Give a new folder.")
    other = plan_of(folder)
    if (other.ablation, other.setting) != (record.ablation, record.setting):
        what = f"{other.ablation} {other.setting}"
        raise ConfigError(f"--out {folder}: holds the plan of {what}. Give a new folder.")


def _copy_shards(source: Path, target: Path) -> None:
    try:
        Shards.open(target).verify()
    except ShardError:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        Shards.open(target).verify()


def plan_of(folder: Path) -> PlanRecord:
    """What the folder was written for. Raises ConfigError."""
    return plan_record.load(folder / "plan.json", fix=BROKEN)


def jobs_of(folder: Path) -> tuple[Jobs, int | None]:
    """The jobs of the folder by run id, with their paths, and how many at a time. Raises ConfigError."""
    path = folder / "jobs.json"
    content = read(JobsFile, read_record(path, fix=BROKEN), source=str(path), fix=BROKEN)
    if content.numerics != NUMERICS or any(run_id(job.config) != job.run_id for job in content.jobs):
        raise ConfigError(f"{folder}: was planned by another version of this code. Use one and the same.")
    jobs = {
        job.run_id: replace(job, store=str(folder / job.store), shards=str(folder / job.shards))
        for job in content.jobs
    }
    try:
        for shards in sorted({job.shards for job in jobs.values()}):
            Shards.open(Path(shards)).verify()
    except ShardError as error:
        raise ConfigError(f"{error} Copy the folder again.") from error
    return jobs, content.workers


@dataclass(frozen=True)
class Collected:
    """What became of one planned run of a folder, and what `lab collect` did with it."""

    run_id: str
    state: str
    arm: str
    seed: int
    note: str


def collect(folder: Path, store: RunStore) -> list[Collected]:
    """Merge the folder's runs with a result into a store, whose own results stay; a record of each planned
    run.
    """
    jobs, _ = jobs_of(folder)
    there, rows, problems = store_of(folder), [], []
    for name, job in jobs.items():
        state, outcome = there.state(name), ""
        if state in RESULT_STATES:
            try:
                outcome = store.collect(name, there)
            except ConfigError as error:
                problems += error.problems
        kept = f"kept the run here, {outcome}" if outcome else "not collected"
        note = "collected" if outcome == "collected" else kept
        now = store.state(name) if outcome else state
        rows.append(Collected(name, now, job.manifest.job_type, job.config.seed, note))
    if problems:
        raise ConfigError(problems)
    return rows
