"""One run in a process of its own: needs torch and numpy, reads the resolved config as JSON, never raises.

The job says all that it needs (lab/store/job.py).
"""

import ctypes
import errno
import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path

import torch

from lab.data.shards import Reading, Shards
from lab.store.identity import NUMERICS
from lab.store.job import Job
from lab.store.provenance import provenance
from lab.store.run_record import Parent, Summary
from lab.store.run_store import TOKENIZER, RunStore
from lab.store.states import END_STATES
from lab.train.loop import train

M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1  # of mallopt(3)
MAPPED_BYTES, KEPT_BYTES = 1 << 25, 1 << 30  # older versions refuse a larger threshold of mapping
RESUMABLE = 75  # exit code of a run that stopped early with its checkpoint saved (EX_TEMPFAIL)
DISK_FULL = 73  # of one that goes on from its last checkpoint when there is room again (EX_CANTCREAT)


def work(job: Job) -> None:
    """Train one run to an end state, or until a signal or the parent's death stops it at a step's end."""
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: stopped.append(received))
    parent = multiprocessing.parent_process()
    torch.set_num_threads(job.threads)
    _keep_freed_memory()
    store, run_id = RunStore(Path(job.store)), job.run_id

    def stop() -> bool:
        return bool(stopped) or (parent is not None and bool(wait([parent.sentinel], timeout=0)))

    try:
        with store.lease(run_id) as held:
            if not held:
                raise SystemExit(RESUMABLE)
            if store.state(run_id) in END_STATES:
                return
            if not _ended(job, store, stop):
                raise SystemExit(RESUMABLE)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"run {run_id}: {error}", file=sys.stderr)
        raise SystemExit(DISK_FULL) from None


def _keep_freed_memory() -> None:
    """Let the C library hold on to blocks that are freed, where it can.

    By default glibc gives those of some megabytes, as logits and their gradients are, back to the system,
    which hands out zeroed pages anew at every step: 1,500 to 2,900 page faults at nano, 5 to 9 % of its time.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def _ended(job: Job, store: RunStore, stop: Callable[[], bool]) -> bool:
    """Train to an end state, or to where `stop` pauses the run; a failure is written down. Raises OSError
    for a full disk.
    """
    try:
        return _train(job, store, stop) is not None
    except Exception as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        print(f"run {job.run_id}: {type(error).__name__}: {error}", file=sys.stderr)
        out_of_memory = isinstance(error, MemoryError | torch.cuda.OutOfMemoryError)
        reason = "out of memory" if out_of_memory else f"{type(error).__name__}: {error}"
        store.fail(job.run_id, traceback.format_exc(), reason=reason)
        raise SystemExit(1) from None


def _train(job: Job, store: RunStore, stop: Callable[[], bool]) -> str | None:
    started = provenance(job.device, threads=job.threads)
    manifest = job.manifest.started(job.run_id, numerics=NUMERICS, provenance=started)
    store.begin(job.run_id, job.config, manifest)
    shards, parent = Shards.open(Path(job.shards)), job.manifest.parent
    store.keep_tokenizer(job.run_id, shards.path / TOKENIZER)
    if parent and (before := _diverged_before(parent, store)):
        store.finish(job.run_id, before)
        return before.state
    read = parent.read if parent else ()
    after = tuple(Reading(*text.rows) for text in read if text.data == job.config.data_fingerprint)
    return train(
        job.config,
        shards,
        store,
        job.run_id,
        device=job.device,
        stop=stop,
        after=after,
        checkpoint_seconds=job.checkpoint_seconds,
        keep_every=job.keep_every,
        keep_steps=job.keep_steps,
        until_step=job.until_step,
    )


def _diverged_before(parent: Parent, store: RunStore) -> Summary | None:
    """The end of a run whose parent diverged on its way to the checkpoint; None where it didn't.

    It has no steps of its own, and the parent's tokens and bytes, which say how long a token is.
    """
    summary = store.summary(parent.run_id)
    if summary is None or summary.state != "diverged" or parent.step in store.checkpoints(parent.run_id):
        return None
    return Summary(
        state="diverged",
        reason=f"its trunk, run {parent.run_id}, diverged: {summary.reason}",
        measured=dict.fromkeys(summary.measured),
        steps=0,
        tokens=summary.tokens,
        bytes=summary.bytes,
        seconds=0.0,
        unigram_bpb=summary.unigram_bpb,
        attention_kernel=summary.attention_kernel,
        spikes=summary.spikes,
    )
