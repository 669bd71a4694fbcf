"""One run of the store, shown at a dashboard: which rows it has, what was sent, and where to go on.

A row is one training step: evaluation, diagnostics, spikes and text samples of the step are columns of its
row. A spike shows as `spike/<signal>` = its score in standard deviations, with the number of spikes so far
in `spike/<signal>/count`. The last row of a run that has ended also holds `layers`, the picture of its
layers.

    <mirror>/mirrored.json    what the dashboard has of each run, see `Journal`
             ...              the client's own files, see lab/board
"""

import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lab.store.files import dumps, write_atomic
from lab.store.run_store import RunStore, without_paths
from lab.track import layers
from lab.track.dashboards import Card, open_run

log = logging.getLogger(__name__)


class MetricsTail:
    """The rows of a metrics.jsonl that may still be growing, the lines of a step merged into one row."""

    def __init__(self, path: Path):
        self._path = path
        self._file: BinaryIO | None = None
        self._forget()

    def _forget(self) -> None:
        self._torn, self._step = b"", 0
        self._row: dict[str, Any] = {}
        self._spikes: Counter[str] = Counter()

    def rows(self, *, ended: bool) -> Iterator[tuple[int, dict[str, Any]]]:
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

    def _columns(self, line: dict[str, Any]) -> dict[str, Any]:
        if line["kind"] == "spike":
            name = f"spike/{line['signal']}"
            self._spikes[name] += 1
            return {"tokens": line["tokens"], name: line["score"], f"{name}/count": self._spikes[name]}
        if line["kind"] == "sample":
            sample = {key: line[key] for key in ("tokens", "prompt", "text")}
            return {"tokens": line["tokens"], "samples": [*self._row.get("samples", []), sample]}
        return {k: v for k, v in line.items() if k not in ("kind", "step") and v is not None}


class Journal:
    """What a dashboard has for certain of each run, {run_id: {mode: entry}}.

    An entry has `step`, the last one in a closed segment; `state`, the end state mirrored, or null; and
    `segment`, the client's file or folder that is open or was left open by a killed follower, or null.
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
    """A run store, and the dashboard and folder that its runs are mirrored to."""

    store: RunStore
    folder: Path
    board: str
    project: str
    journal: Journal

    def summary(self, run_id: str) -> dict[str, Any] | None:
        if not (self.store.folder(run_id) / "summary.json").exists():
            return None
        return self.store.read(run_id, "summary.json")

    def is_due(self, run_id: str, mode: str) -> bool:
        """Whether the run has anything that the dashboard may lack."""
        summary = self.summary(run_id)
        if summary is None:
            return (self.store.folder(run_id) / "metrics.jsonl").exists()
        return bool(summary["state"] != self.journal.entry(run_id, mode)["state"])

    def card(self, run_id: str) -> Card:
        manifest, config = self.store.read(run_id, "manifest.json"), self.store.read(run_id, "config.json")
        config["data"] = without_paths(config["data"])
        provenance = {key: manifest[key] for key in ("numerics", "provenance")}
        return Card(
            run_id,
            self.project,
            group=manifest["group"],
            job_type=manifest["job_type"],
            seed=config["seed"],
            tags=manifest["tags"],
            config={**config, **manifest["counts"], **provenance},
        )


class RunMirror:
    """One run of the store, open at a dashboard. What the client raises reaches the caller."""

    def __init__(self, mirror: Mirror, run_id: str, *, mode: str):
        self._mirror, self._run_id = mirror, run_id
        self._entry = mirror.journal.entry(run_id, mode)
        if self._entry["segment"]:
            _remove(mirror.folder / self._entry["segment"])
        self._card = mirror.card(run_id)
        self._board = open_run(mirror.board, self._card, folder=mirror.folder, mode=mode)
        next_step = self._board.next_step
        self._step = self._entry["step"] if next_step is None else next_step - 1
        self._entry |= {"state": None, "segment": self._board.segment}
        mirror.journal.save()
        self._tail = MetricsTail(mirror.store.folder(run_id) / "metrics.jsonl")
        self.sent = 0

    def advance(self) -> bool:
        """Log the steps completed since the last call; True when it has ended and is closed at the
        dashboard too.
        """
        try:
            return self._advance()
        except BaseException:
            self._tail.close()
            raise

    def _advance(self) -> bool:
        summary = self._mirror.summary(self._run_id)  # read first: when it is there, every line is
        rows = [(s, row) for s, row in self._tail.rows(ended=summary is not None) if s > self._step]
        if summary is not None and rows:
            rows[-1][1].update(self._picture())
        for step, row in rows:
            self._board.log(row, step=step)
            self._step = step
            self.sent += 1
        if summary is None:
            return False
        self.close(summary)
        return True

    def close(self, summary: dict[str, Any] | None = None) -> None:
        """Hand over the rest and note it as mirrored; without a `summary` the run may go on later."""
        self._tail.close()
        self._board.close(summary)
        state = summary["state"] if summary else None
        self._entry |= {"step": self._step, "state": state, "segment": None}
        self._mirror.journal.save()

    def _picture(self) -> dict[str, bytes]:
        try:
            picture = layers.draw(self._mirror.store.metrics(self._run_id), title=self._card.name)
        except Exception as error:  # no reason to lose the run
            log.warning("no picture of the layers of run %s: %r", self._run_id, error)
            return {}
        return {"layers": picture} if picture else {}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
