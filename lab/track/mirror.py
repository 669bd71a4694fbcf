"""The runs of one store at one dashboard: which of them it lacks, and one of them opened there, row by row.

<mirror>/mirrored.json    what the dashboard has of each run, see lab/track/journal.py
         lock             held (flock) by the one process that writes to the mirror
         ...              the client's own files, see lab/track/dashboards.py
"""

import contextlib
import fcntl
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lab.config.strict import plain
from lab.store.run_record import Summary
from lab.store.run_store import RunStore, without_paths
from lab.track import layers
from lab.track.dashboards import Card, open_run
from lab.track.journal import Journal, Mirrored
from lab.track.metrics_tail import MetricsTail

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mirror:
    """A run store, and the dashboard and folder that its runs are mirrored to."""

    store: RunStore
    folder: Path
    board: str
    project: str
    journal: Journal

    def is_due(self, run_id: str, mode: str) -> bool:
        """Whether the run has anything that the dashboard may lack."""
        summary = self.store.summary(run_id)
        if summary is None:
            return (self.store.folder(run_id) / "metrics.jsonl").exists()
        return summary.state != self.journal.of(run_id, mode).state

    def card(self, run_id: str) -> Card:
        """What the dashboard is told of the run, without paths of this machine."""
        manifest, config = self.store.manifest(run_id), without_paths(self.store.config(run_id))
        return Card(
            run_id,
            self.project,
            group=manifest.group,
            job_type=manifest.job_type,
            seed=config.seed,
            tags=manifest.tags,
            config={
                **plain(config),
                **plain(manifest.counts),
                "numerics": manifest.numerics,
                "provenance": plain(manifest.provenance),
            },
        )


@contextlib.contextmanager
def writing(
    runs_folder: Path, mirror_folder: Path, *, board: str, project: str, wait: bool
) -> Iterator[Mirror]:
    """The mirror, held against other processes. Raises BlockingIOError if one has it and `wait` is false."""
    with sole_writer(mirror_folder, wait=wait):
        journal = Journal(mirror_folder / "mirrored.json")
        yield Mirror(RunStore(runs_folder), mirror_folder, board, project, journal)


@contextlib.contextmanager
def sole_writer(mirror_folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the folder against other processes. Raises BlockingIOError if one has it and `wait` is false."""
    mirror_folder.mkdir(parents=True, exist_ok=True)
    with open(mirror_folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


class RunMirror:
    """One run of the store, open at a dashboard. What the client raises reaches the caller.

    `sent` counts the rows that were logged.
    """

    def __init__(self, mirror: Mirror, run_id: str, *, mode: str):
        self._mirror, self._run_id, self._mode = mirror, run_id, mode
        before = mirror.journal.of(run_id, mode)
        if before.segment:
            _remove(mirror.folder / before.segment)
        self._card = mirror.card(run_id)
        self._board = open_run(mirror.board, self._card, folder=mirror.folder, mode=mode)
        next_step = self._board.next_step
        self._step = before.step if next_step is None else next_step - 1
        self._note(Mirrored(before.step, None, self._board.segment))
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
        summary = self._mirror.store.summary(self._run_id)  # read first: when it is there, every line is
        rows = [row for row in self._tail.rows(ended=summary is not None) if row.step > self._step]
        if summary and rows:
            rows[-1] = replace(rows[-1], picture=self._picture())
        for row in rows:
            self._board.log(row)
            self._step = row.step
            self.sent += 1
        if summary is None:
            return False
        self.close(summary)
        return True

    def close(self, summary: Summary | None = None) -> None:
        """Hand over the rest and note it as mirrored; without a `summary` the run may go on later."""
        self._tail.close()
        self._board.close(summary)
        self._note(Mirrored(self._step, summary.state if summary else None, None))

    def _note(self, entry: Mirrored) -> None:
        self._mirror.journal.enter(self._run_id, self._mode, entry)

    def _picture(self) -> bytes | None:
        try:
            return layers.draw(self._mirror.store.metrics(self._run_id), title=self._card.name)
        except Exception as error:  # no reason to lose the run
            log.warning("no picture of the layers of run %s: %r", self._run_id, error)
            return None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
