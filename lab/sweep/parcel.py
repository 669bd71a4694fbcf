"""How do runs travel to a machine that has torch and numpy only, and back? A folder with all that their
training needs.

DIR/plan.json            what was asked, as `lab sweep` keeps it
    jobs.json            the resolved jobs, with paths from DIR
    shards/<name>/       token shards
    runs/<run_id>/       the run store of `python -m lab.sweep.away DIR`; before that, the parents that runs start from
"""

import shutil
from pathlib import Path
from typing import Any

from lab.config.schema import run_config
from lab.config.strict import ConfigError
from lab.data.shards import ShardError, Shards
from lab.store.files import dumps, read_record, write_atomic
from lab.store.identity import NUMERICS, run_id
from lab.store.run_store import RunStore, without_paths
from lab.store.states import RESULT_STATES

BROKEN = "Write it again with lab plan --out."


def store_of(folder: Path) -> RunStore:
    return RunStore(folder / "runs")


def pack(plan: Any, folder: Path, store: RunStore) -> None:
    """Write the folder of a plan; what it holds already of the same plan stays. Runs with a result in the
    store stay at home.

    Raises ConfigError where the folder holds other things.
    """
    _refuse_foreign(plan.record, folder)
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    write_atomic(
        folder / "plan.json", dumps(plan.record, indent=1)
    )  # first: it marks the folder as one of these
    jobs = []
    for name, job in plan.jobs.items():
        if store.state(name) in RESULT_STATES:
            continue
        source = Path(job["shards"])
        _copy_shards(source, folder / "shards" / source.name)
        if parent := job["manifest"].get("parent"):
            store.lend(parent["run_id"], parent["step"], store_of(folder))
        data = without_paths(job["config"]["data"])
        jobs.append(
            job
            | {"config": job["config"] | {"data": data}, "store": "runs", "shards": f"shards/{source.name}"}
        )
    content = {"numerics": NUMERICS, "workers": plan.engine.workers, "jobs": jobs}
    write_atomic(folder / "jobs.json", dumps(content, indent=1))


def _refuse_foreign(record: dict[str, Any], folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "plan.json").exists():
        raise ConfigError(f"--out {folder}: exists and holds no plan. Give a new folder.")
    other = plan_of(folder)
    if any(other.get(key) != record[key] for key in ("ablation", "setting")):
        what = f"{other.get('ablation')} {other.get('setting')}"
        raise ConfigError(f"--out {folder}: holds the plan of {what}. Give a new folder.")


def _copy_shards(source: Path, target: Path) -> None:
    try:
        Shards.open(target).verify()
    except ShardError:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        Shards.open(target).verify()


def plan_of(folder: Path) -> dict[str, Any]:
    return read_record(folder / "plan.json", fix=BROKEN)


def jobs_of(folder: Path) -> tuple[dict[str, dict[str, Any]], int | None]:
    """The jobs of the folder by run id, with their paths, and how many at a time. Raises ConfigError."""
    content = read_record(folder / "jobs.json", fix=BROKEN)
    try:
        jobs = {job["run_id"]: job for job in content["jobs"]}
        if content["numerics"] != NUMERICS or any(
            run_id(run_config(job["config"])) != name for name, job in jobs.items()
        ):
            raise ConfigError(f"{folder}: was planned by another version of this code. Use one and the same.")
        paths = {
            name: {"store": str(folder / job["store"]), "shards": str(folder / job["shards"])}
            for name, job in jobs.items()
        }
        for shards in sorted({path["shards"] for path in paths.values()}):
            Shards.open(Path(shards)).verify()
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{folder}/jobs.json: lacks {error}. {BROKEN}") from error
    except ShardError as error:
        raise ConfigError(f"{error} Copy the folder again.") from error
    return {name: job | paths[name] for name, job in jobs.items()}, content["workers"]


def collect(folder: Path, store: RunStore) -> list[dict[str, Any]]:
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
        note = (
            "collected"
            if outcome == "collected"
            else f"kept the run here, {outcome}"
            if outcome
            else "not collected"
        )
        arm, seed = job["manifest"]["job_type"], job["config"]["seed"]
        rows.append(
            {
                "id": name,
                "state": store.state(name) if outcome else state,
                "arm": arm,
                "seed": seed,
                "note": note,
            }
        )
    if problems:
        raise ConfigError(problems)
    return rows
