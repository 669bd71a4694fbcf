"""One run of the store, shown at W&B: which rows it has, what was sent, and where to go on.

One W&B row is one training step: evaluation, diagnostics and spikes of the step are columns of its row, and
the x-axis is `tokens`. A spike shows as `spike/<signal>` = its score in standard deviations, with the number
of spikes so far in `spike/<signal>/count`. summary.json shows as `final/<key>` in the W&B summary.

    <mirror>/wandb/           the client's folders; `wandb leet <mirror>/wandb` shows them without an account
             mirrored.json    what W&B has of each run, see `Journal`
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lab.runs import RunStore, dumps, write_atomic

INIT_SECONDS = 20.0  # how long W&B may take to accept a run
UPLOAD_SECONDS = 60.0  # how long W&B may take to receive the rest of a run when it ends
SUCCESSFUL_ENDS = ("finished", "pruned")


class MetricsTail:
    """The rows of a metrics.jsonl that may still be growing, the lines of a step merged into one row."""

    def __init__(self, path: Path):
        self._path = path
        self._file: BinaryIO | None = None
        self._forget()

    def _forget(self) -> None:
        self._torn, self._step = b"", 0
        self._row: dict[str, float] = {}
        self._spikes: Counter[str] = Counter()

    def rows(self, *, ended: bool) -> Iterator[tuple[int, dict[str, float]]]:
        """(step, row) of each step completed since the last call; all over again once the file is replaced.

        A step is complete once another step's line follows or, with `ended`, where the file ends.
        """
        for line in self._new_lines():
            if self._row and line["step"] != self._step:
                yield self._step, self._row
                self._row = {}
            self._step = line["step"]
            self._row |= self._columns(line)
        if ended and self._row:
            yield self._step, self._row
            self._row = {}

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        # Resumed training replaces the file. The old one is held open, so the new one can't get its inode.
        if self._file is None or os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino:
            self.close()
            self._file = open(self._path, "rb")
            self._forget()
        *whole, self._torn = (self._torn + self._file.read()).split(b"\n")
        yield from map(json.loads, whole)

    def _columns(self, line: dict[str, Any]) -> dict[str, float]:
        if line["kind"] == "spike":
            name = f"spike/{line['signal']}"
            self._spikes[name] += 1
            line = {"tokens": line["tokens"], name: line["score"], f"{name}/count": self._spikes[name]}
        return {k: v for k, v in line.items() if k not in ("kind", "step") and v is not None}


class Journal:
    """What W&B has for certain of each run, {run_id: {"offline" | "online": entry}}.

    An entry has `step`, the last one in a closed segment; `state`, the end state mirrored, or null; and
    `segment`, the client's folder that is open or was left open by a killed follower, or null.
    """

    def __init__(self, path: Path):
        self._path = path
        self._runs: dict[str, dict[str, dict[str, Any]]] = {}
        if path.exists():
            self._runs = json.loads(path.read_text())

    def entry(self, run_id: str, mode: str) -> dict[str, Any]:
        entries = self._runs.setdefault(run_id, {})
        return entries.setdefault(mode, {"step": 0, "state": None, "segment": None})

    def save(self) -> None:
        write_atomic(self._path, dumps(self._runs, indent=1))


@dataclass(frozen=True)
class Mirror:
    """A run store and where its runs are mirrored to."""

    store: RunStore
    folder: Path
    project: str
    journal: Journal

    def summary(self, run_id: str) -> dict[str, Any] | None:
        if not (self.store.folder(run_id) / "summary.json").exists():
            return None
        return self.store.read(run_id, "summary.json")

    def is_due(self, run_id: str, mode: str) -> bool:
        """Whether the run has anything that W&B may lack."""
        summary = self.summary(run_id)
        if summary is None:
            return (self.store.folder(run_id) / "metrics.jsonl").exists()
        return bool(summary["state"] != self.journal.entry(run_id, mode)["state"])


class RunMirror:
    """One run of the store, open at W&B under the same id. What the client raises reaches the caller."""

    def __init__(self, mirror: Mirror, run_id: str, *, mode: str):
        self._mirror, self._run_id = mirror, run_id
        self._entry = mirror.journal.entry(run_id, mode)
        if mode == "offline" and self._entry["segment"]:
            # A killed client loses the rows it had not written yet, so its segment is made afresh.
            shutil.rmtree(mirror.folder / "wandb" / self._entry["segment"], ignore_errors=True)
        self._run = _open(mirror, run_id, mode=mode)
        # Online only the server knows what has arrived.
        self._step = self._run.starting_step - 1 if mode == "online" else self._entry["step"]
        self._entry |= {"state": None, "segment": Path(self._run.dir).parent.name}
        mirror.journal.save()
        self._tail = MetricsTail(mirror.store.folder(run_id) / "metrics.jsonl")
        self.sent = 0

    def advance(self) -> bool:
        """Log the steps completed since the last call; True when it has ended and is closed at W&B too."""
        summary = self._mirror.summary(self._run_id)  # read first: when it is there, every line is
        for step, row in self._tail.rows(ended=summary is not None):
            if step > self._step:
                self._run.log(row, step=step)
                self._step = step
                self.sent += 1
        if summary is None:
            return False
        self._run.summary.update({f"final/{k}": v for k, v in summary.items() if v is not None})
        self.close(state=summary["state"])
        return True

    def close(self, *, state: str | None = None) -> None:
        """Hand over the rest and note it as mirrored; without an end `state` the run may go on later."""
        self._tail.close()
        self._run.finish(exit_code=0 if state in SUCCESSFUL_ENDS else 1)
        self._entry |= {"step": self._step, "state": state, "segment": None}
        self._mirror.journal.save()


def _open(mirror: Mirror, run_id: str, *, mode: str) -> Any:
    import wandb

    manifest, config = mirror.store.read(run_id, "manifest.json"), mirror.store.read(run_id, "config.json")
    config["data"] |= {"path": None, "validation_path": None}  # W&B learns no path of this machine
    provenance = {key: manifest[key] for key in ("numerics", "provenance")}
    settings = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        host="",
        x_disable_meta=True,  # it holds the command line
        x_disable_machine_info=True,
        x_disable_stats=True,
        x_save_requirements=False,
        silent=True,
        init_timeout=INIT_SECONDS,
        finish_timeout=UPLOAD_SECONDS,
        finish_timeout_raises=True,
    )
    run = wandb.init(
        id=run_id,
        project=mirror.project,
        group=manifest["group"],
        job_type=manifest["job_type"],
        tags=manifest["tags"],
        name=f"{manifest['job_type']}-seed{config['seed']}",
        config={**config, **manifest["counts"], **provenance},
        dir=mirror.folder,
        mode=mode,  # type: ignore[arg-type]
        resume="allow",
        reinit="create_new",
        settings=settings,
    )
    run.define_metric("tokens")
    run.define_metric("*", step_metric="tokens")
    for name in ("val/bpb", "val/loss"):
        run.define_metric(name, step_metric="tokens", summary="min")
    return run
