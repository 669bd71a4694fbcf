"""Run identity and the run store: the only writer below results/runs.

    results/runs/<run_id>/config.json      the resolved RunConfig
                          manifest.json    group, counts and provenance of the run's first start
                          tokenizer.json   what the run's tokens mean, whatever becomes of its text
                          metrics.jsonl    one strict JSON object a line, each step once
                          summary.json     written once, when the run reaches an end state
                          error.txt        traceback of a failed run
                          pruned           of a trial that stopped behind others; gone when the run goes on
                          paused           of a run that stopped where its job let it; likewise
                          published.json   the record of a run that was taken from published lines
                          checkpoint/      <step>.pt, its record <step>.json, <step>.keep where it stays
                          lock             held (flock) by the process that trains the run

Every file but metrics.jsonl is written to a temporary name, synced and renamed. Metrics are appended a
line at a time; after a crash a torn tail and the steps after the newest checkpoint are cut before training
goes on.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab.config.schema import RunConfig
from lab.config.strict import ConfigError, plain, read
from lab.store.curves import curves
from lab.store.files import dumps, read_record, write_atomic
from lab.store.identity import NUMERICS, run_id
from lab.store.job import JobManifest
from lab.store.log_line import STEP, LogLine
from lab.store.run_record import Manifest, RunRecord, Summary
from lab.store.states import END_STATES, RESULT_STATES

KEPT_CHECKPOINTS = 2
TOKENIZER = "tokenizer.json"
PUBLISHED, PRUNED, PAUSED = "published.json", "pruned", "paused"
REASON_CHARACTERS = 500
T = TypeVar("T")


def without_paths(config: RunConfig) -> RunConfig:
    """A configuration without the paths of one machine, which no published record, dashboard or parcel
    names.
    """
    data = dataclasses.replace(config.data, path=None, validation_path=None)
    return dataclasses.replace(config, data=data)


@dataclass(frozen=True)
class Commit:
    """The record of a whole checkpoint, written after it."""

    step: int
    size: int
    sha256: str

    @classmethod
    def of(cls, step: int, payload: bytes) -> "Commit":
        return cls(step, len(payload), hashlib.sha256(payload).hexdigest())


@dataclass(frozen=True)
class RunStore:
    """The runs below one folder. Any number of processes may read; one process at a time holds a run's
    lease.
    """

    root: Path

    def folder(self, run_id: str) -> Path:
        return self.root / run_id

    def ids(self) -> list[str]:
        return (
            sorted(p.name for p in self.root.iterdir() if p.name[0] != "." and (p / "config.json").exists())
            if self.root.exists()
            else []
        )

    def begin(self, run_id: str, config: RunConfig, manifest: Manifest) -> None:
        """Record what trains the run from here on; the caller holds its lease.

        Started under another torch or kind of device, it starts anew, for numbers of the two don't mix;
        continued by other code, its provenance says so.
        """
        folder, now = self.folder(run_id), manifest.provenance
        if (folder / "manifest.json").exists():
            earlier = self.manifest(run_id).provenance
            if (earlier.torch, earlier.device_kind) != (now.torch, now.device_kind):
                self.clear(run_id)
            elif earlier.source_hash != now.source_hash and self.checkpoints(run_id):
                before = (*earlier.earlier_source_hashes, earlier.source_hash)
                now = dataclasses.replace(now, earlier_source_hashes=before)
        content = plain(dataclasses.replace(manifest, provenance=now))
        write_atomic(folder / "manifest.json", dumps(content, indent=1))
        if not (folder / "config.json").exists():
            write_atomic(folder / "config.json", dumps(plain(config), indent=1))

    @contextlib.contextmanager
    def lease(self, run_id: str) -> Iterator[bool]:
        """Hold the run against other processes; yields False, holding nothing, where another process
        trains it.
        """
        self.folder(run_id).mkdir(parents=True, exist_ok=True)
        with open(self.folder(run_id) / "lock", "w") as file:
            for attempt in range(20):  # a reader in state() holds the lock for an instant
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if attempt == 19:
                        yield False
                        return
                    time.sleep(0.01)
            for leftover in self.folder(run_id).rglob(".*.tmp"):  # only a lease holder writes below
                leftover.unlink(missing_ok=True)
            yield True

    def state(self, run_id: str) -> str:
        """pending, running, lost, paused, pruned or one of END_STATES.

        A run that was started and is neither ended nor held by a live process is lost, or paused where its
        job let it stop, or pruned where a study gave it up: resumable.
        """
        folder = self.folder(run_id)
        if summary := self.summary(run_id):
            return summary.state
        if not (folder / "lock").exists():
            return "pending"
        with open(folder / "lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return "running"
        if summary := self.summary(run_id):  # ended since the first look
            return summary.state
        if not (folder / "metrics.jsonl").exists():
            return "pending"
        marks = (mark for mark in (PRUNED, PAUSED) if (folder / mark).exists())
        return next(marks, "lost")

    def keep_tokenizer(self, run_id: str, source: Path) -> None:
        """Give a run its tokenizer, where the file is there; what it writes is read without its text."""
        target = self.folder(run_id) / TOKENIZER
        if source.exists() and not target.exists():
            write_atomic(target, source.read_bytes())

    def tokenizer(self, run_id: str) -> str | None:
        """The tokenizer that a run was trained with; None in runs from before it was kept, or where the file
        is damaged.
        """
        path, known = self.folder(run_id) / TOKENIZER, self.manifest(run_id).tokenizer_hash
        content = path.read_bytes() if path.exists() else b""
        return content.decode() if hashlib.sha256(content).hexdigest() == known else None

    def config(self, run_id: str) -> RunConfig:
        """The resolved configuration of a run. Raises ConfigError, with the way on, where it is missing or
        damaged.
        """
        return self._read(RunConfig, run_id, "config.json")

    def manifest(self, run_id: str) -> Manifest:
        """Which sweep asked for a run, and what it was trained with. Raises ConfigError."""
        return self._read(Manifest, run_id, "manifest.json")

    def summary(self, run_id: str) -> Summary | None:
        """How a run ended; None where it hasn't. Raises ConfigError where the file is damaged."""
        if not (self.folder(run_id) / "summary.json").exists():
            return None
        return self._read(Summary, run_id, "summary.json")

    def _read(self, cls: type[T], run_id: str, name: str) -> T:
        path, fix = self.folder(run_id) / name, f"Remove {self.folder(run_id)} to train the run again."
        return read(cls, read_record(path, fix=fix), source=str(path), fix=fix)

    def metrics(self, run_id: str) -> list[LogLine]:
        """All whole lines; a torn last line, which a running or killed writer leaves, is not one."""
        path = self.folder(run_id) / "metrics.jsonl"
        return list(_whole_lines(path.read_bytes())) if path.exists() else []

    def tokens(self, run_id: str) -> int:
        """Tokens trained by the last whole line, from the log's tail alone."""
        path = self.folder(run_id) / "metrics.jsonl"
        if not path.exists():
            return 0
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 65536))
            return max((line.tokens for line in _whole_lines(file.read())), default=0)

    def open_metrics(self, run_id: str, *, after: int) -> "MetricsLog":
        """The log to append to, cut back to what was logged up to step `after`."""
        path = self.folder(run_id) / "metrics.jsonl"
        for name in (PUBLISHED, PRUNED, PAUSED):
            (self.folder(run_id) / name).unlink(missing_ok=True)
        kept = [line for line in self.metrics(run_id) if line.step <= after]
        write_atomic(path, "".join(dumps(plain(line)) + "\n" for line in kept))
        return MetricsLog(path)

    def finish(self, run_id: str, summary: Summary) -> None:
        """Record the end state, once. Checkpoints of a finished run are removed but the newest and those
        to keep.
        """
        write_atomic(self.folder(run_id) / "summary.json", dumps(plain(summary), indent=1))
        self._prune_checkpoints(run_id, keep=1)

    def fail(self, run_id: str, traceback: str, *, reason: str) -> None:
        write_atomic(self.folder(run_id) / "error.txt", traceback)
        short = reason if len(reason) <= REASON_CHARACTERS else reason[:REASON_CHARACTERS] + " ..."
        self.finish(run_id, Summary(state="failed", reason=short, measured={}))

    def reopen(self, run_id: str) -> None:
        """Make a failed run pending again: it goes on from its newest sound checkpoint, or anew without
        one or its log.
        """
        (self.folder(run_id) / "summary.json").unlink()
        found = self._newest_sound(run_id)
        if found is None or self._steps(run_id)[: found[0]] != list(range(1, found[0] + 1)):
            self.clear(run_id)

    def _steps(self, run_id: str) -> list[int]:
        return [line.step for line in self.metrics(run_id) if line.kind == STEP]

    def prune(self, run_id: str) -> None:
        """Mark a started run without an end as given up by a study; training it again takes the mark away."""
        with self.lease(run_id) as held:
            if held and not (self.folder(run_id) / "summary.json").exists():
                (self.folder(run_id) / PRUNED).touch()

    def pause(self, run_id: str) -> None:
        """Mark a run that its lease's holder has stopped where its job lets it; going on takes the mark
        away.
        """
        (self.folder(run_id) / PAUSED).touch()

    def clear(self, run_id: str) -> None:
        """Forget all that was trained; configuration and manifest stay."""
        folder = self.folder(run_id)
        for path in (
            *folder.glob("checkpoint/*"),
            *(folder / name for name in ("summary.json", "metrics.jsonl", PUBLISHED, PRUNED, PAUSED)),
        ):
            path.unlink(missing_ok=True)

    def save_checkpoint(self, run_id: str, step: int, payload: bytes, *, keep: bool = False) -> None:
        """Commit a checkpoint: content first, then a record with its size and SHA-256; older ones go last."""
        folder = self.folder(run_id) / "checkpoint"
        folder.mkdir(exist_ok=True)
        write_atomic(folder / f"{step}.pt", payload)
        write_atomic(folder / f"{step}.json", dumps(plain(Commit.of(step, payload))))
        if keep:
            self.keep_checkpoint(run_id, step)
        self._prune_checkpoints(run_id, keep=KEPT_CHECKPOINTS)

    def load_checkpoint(self, run_id: str) -> tuple[int, bytes] | None:
        """The newest committed checkpoint that verifies, a damaged one passed over; None where the run has
        none.

        Raises ValueError where the run has checkpoints and none verifies: starting over unasked would hide
        the loss.
        """
        found = self._newest_sound(run_id)
        if found is None and self.checkpoints(run_id):
            raise ValueError(f"no checkpoint of run {run_id} verifies; --retry starts it anew")
        return found

    def _newest_sound(self, run_id: str) -> tuple[int, bytes] | None:
        for step in reversed(self.checkpoints(run_id)):
            payload = self.read_checkpoint(run_id, step)
            if payload is not None:
                return step, payload
            print(f"warning: checkpoint {step} of run {run_id} is damaged", file=sys.stderr)
        return None

    def read_checkpoint(self, run_id: str, step: int) -> bytes | None:
        """The checkpoint of that step; None where it is missing or does not verify."""
        try:
            commit = self._read(Commit, run_id, f"checkpoint/{step}.json")
            payload = (self.folder(run_id) / f"checkpoint/{step}.pt").read_bytes()
        except (OSError, ConfigError):
            return None
        sound = commit == Commit.of(step, payload)
        return payload if sound else None

    def parent_checkpoint(self, config: RunConfig) -> bytes:
        """The checkpoint that the run starts from. Raises ValueError where it is gone."""
        parent, _, step = (config.init_from or "").partition("@")
        payload = self.read_checkpoint(parent, int(step))
        if payload is None:
            raise ValueError(f"checkpoint {step} of run {parent}, to start from, is missing or damaged")
        return payload

    def keep_checkpoint(self, run_id: str, step: int) -> None:
        """Let a checkpoint stay when newer ones come, for other runs to start from."""
        (self.folder(run_id) / f"checkpoint/{step}.keep").touch()

    def checkpoints(self, run_id: str) -> list[int]:
        """Steps of the committed checkpoints, oldest first."""
        return sorted(int(p.stem) for p in (self.folder(run_id) / "checkpoint").glob("*.json"))

    def _prune_checkpoints(self, run_id: str, *, keep: int) -> None:
        folder = self.folder(run_id) / "checkpoint"
        newest = self.checkpoints(run_id)[-keep:] if keep else []
        kept = {*newest, *(int(path.stem) for path in folder.glob("*.keep"))}
        for path in folder.glob("[0-9]*"):
            if int(path.stem) not in kept:
                path.unlink(missing_ok=True)

    def adopt(self, line: str, config: RunConfig, manifest: JobManifest) -> bool:
        """Enter a published line as the result of a run not started here, which leaves it without log and
        checkpoint.

        Returns whether it was entered: not where another process holds the run, or has ended it.
        """
        record = read(RunRecord, json.loads(line))
        run_id = record.run_id
        with self.lease(run_id) as held:
            if not held or (self.folder(run_id) / "summary.json").exists():
                return False
            started = manifest.started(run_id, numerics=NUMERICS, provenance=record.provenance)
            self.begin(run_id, config, started)
            write_atomic(self.folder(run_id) / PUBLISHED, line)
            self.finish(run_id, record.ended)
        return True

    def adopted(self, run_id: str) -> bool:
        """Whether the run's result was taken from a published line."""
        folder = self.folder(run_id)
        return (folder / PUBLISHED).exists() and (folder / "summary.json").exists()

    def published_line(self, run_id: str) -> str | None:
        """The line that an adopted run was taken from; None where the run was trained here."""
        if not self.adopted(run_id):
            return None
        path, fix = self.folder(run_id) / PUBLISHED, f"Remove {self.folder(run_id)} to train the run again."
        return dumps(read_record(path, fix=fix), separators=(",", ":"))

    def record(self, run_id: str) -> RunRecord:
        """One run as reports and publishing read it: config, summary and thinned curves."""
        if self.adopted(run_id):
            return self._read(RunRecord, run_id, PUBLISHED)
        manifest, state, config = self.manifest(run_id), self.state(run_id), self.config(run_id)
        return RunRecord(
            run_id=run_id,
            state=state,
            config=without_paths(config),
            summary=self.summary(run_id) if state in END_STATES else None,
            curves=curves(self.metrics(run_id), config.monitor),
            numerics=manifest.numerics,
            counts=manifest.counts,
            provenance=manifest.provenance,
            parent=manifest.parent,
        )

    def lend(self, run_id: str, step: int, other: "RunStore") -> None:
        """Give another store what a run needs to start from this one's checkpoint."""
        here, there = self.folder(run_id), other.folder(run_id)
        (there / "checkpoint").mkdir(parents=True, exist_ok=True)
        for name in (f"checkpoint/{step}.pt", f"checkpoint/{step}.json", "manifest.json", "config.json"):
            write_atomic(there / name, (here / name).read_bytes())

    def collect(self, run_id: str, other: "RunStore") -> str:
        """Take over a run that has ended in another store; "collected", or why not: its state here.

        A run with a result here stays, and so does a running one; of others the checkpoints to keep stay.
        Raises ConfigError where the other's files do not belong together, and changes nothing.
        """
        with self.lease(run_id) as held:
            here = self.folder(run_id)
            if not held:
                return "running"
            if (here / "summary.json").exists() and (state := self.state(run_id)) in RESULT_STATES:
                return state
            there, staging = other.folder(run_id), RunStore(self.root / f".collecting-{run_id}")
            staged = staging.folder(run_id)
            try:
                for path in (p for p in there.rglob("[!.]*") if p.is_file() and p.name != "lock"):
                    copy = staged / path.relative_to(there)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(copy, path.read_bytes())
                staging._verify(run_id, source=there)
                # Stopped in between, the run is lost, and goes on from its checkpoint or anew.
                for name in ("summary.json", "error.txt", PRUNED, PAUSED):
                    (here / name).unlink(missing_ok=True)
                self._prune_checkpoints(run_id, keep=0)
                (here / "checkpoint").mkdir(exist_ok=True)
                records = ("config.json", "manifest.json", TOKENIZER)
                names = (*records, "metrics.jsonl", "checkpoint/*", "summary.json")
                for path in (found for name in names for found in sorted(staged.glob(name))):
                    os.replace(path, here / path.relative_to(staged))
            finally:
                shutil.rmtree(staging.root, ignore_errors=True)
        return "collected"

    def _verify(self, name: str, *, source: Path) -> None:
        """Raises ConfigError where the files of an ended run do not belong together."""
        config, summary = self.config(name), self.summary(name)
        steps = self._steps(name)
        damaged = [step for step in self.checkpoints(name) if self.read_checkpoint(name, step) is None]
        if run_id(config) != name or self.manifest(name).run_id != name:
            wrong = "config.json is that of another run, or of another version of this code"
        elif steps != list(range(1, (ended := (summary.steps if summary else None) or 0) + 1)):
            wrong = f"metrics.jsonl has {len(steps)} of {ended} steps"
        elif damaged:
            wrong = f"checkpoint {damaged[0]} is damaged"
        else:
            return
        raise ConfigError(f"{source}: {wrong}. Copy the folder again, or train the run again there.")


class MetricsLog:
    """Appends lines to one metrics.jsonl, those of a step in a single write."""

    def __init__(self, path: Path):
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115

    def write(self, lines: Iterable[LogLine]) -> None:
        left = memoryview("".join(dumps(plain(line)) + "\n" for line in lines).encode())
        while left:  # a full disk takes a part, and refuses the rest at the next try
            left = left[self._file.write(left) :]

    def sync(self) -> None:
        """Put all lines on disk, before a checkpoint that presumes them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self.sync()
        self._file.close()


def _whole_lines(content: bytes) -> Iterator[LogLine]:
    for line in content.splitlines(keepends=True):
        if line.endswith(b"\n"):
            with contextlib.suppress(ValueError):
                if found := LogLine.from_plain(json.loads(line)):
                    yield found
