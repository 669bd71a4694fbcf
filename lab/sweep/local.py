"""Runs planned jobs on this machine's cores or GPU, each in a process of its own, and loses none.

Workers come from a forkserver that has imported torch once. A sweep that is stopped or killed anywhere
goes on with the same command: finished runs are never trained again, started ones continue from their
checkpoint. Two sweeps may share runs: the one that holds a run's lease trains it, the other waits for the
result.
"""

import errno
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import set_forkserver_preload

from lab.plan.job_set import Jobs
from lab.store.job import Job
from lab.store.run_store import RunStore
from lab.store.states import END_STATES
from lab.train.recipe import refuse_unknown
from lab.train.worker import DISK_FULL, RESUMABLE, work

DEATHS_ALLOWED = 2  # a worker killed by a signal is tried again this often
GRACE_SECONDS = 20.0
SHOWN_EVERY = 5  # polls of a tenth of a second


def execute(
    jobs: Jobs,
    store: RunStore,
    *,
    workers: int | None,
    show: "Callable[[Progress], None] | None" = None,
) -> dict[str, str]:
    """Train every job that has no end state yet, or to its `until_step`; returns the state of each run id.

    A run that starts from a checkpoint of another of the jobs waits for it, and stays pending where that one
    fails. A signal to stop leaves a resumable sweep, and so does a full disk, which raises OSError. Raises
    ConfigError, before any run starts, where one asks for what there is no code for.
    """
    _again(jobs, store)
    waiting = _waiting(jobs, store)
    refuse_unknown(jobs[name].config for name in waiting)
    for run_id in waiting:
        parent = jobs[run_id].manifest.parent
        if parent and parent.step in store.checkpoints(parent.run_id):
            store.keep_checkpoint(parent.run_id, parent.step)
    progress = Progress(jobs, store)
    if waiting:
        _run_all(jobs, waiting, store, workers or default_workers(jobs[waiting[0]].device), progress, show)
    return {run_id: store.state(run_id) for run_id in jobs}


def _waiting(jobs: Jobs, store: RunStore) -> list[str]:
    """The runs to train; one that is to pause is none where all that start from it here have results."""
    ended = {name for name in jobs if store.state(name) in END_STATES}
    with_children = {job.manifest.parent.run_id for job in jobs.values() if job.manifest.parent}
    needed = {
        job.manifest.parent.run_id for name, job in jobs.items() if job.manifest.parent and name not in ended
    }
    spared = {name for name in with_children - needed if name in jobs and jobs[name].until_step is not None}
    return [name for name, job in jobs.items() if name not in ended | spared and not paused(job, store)]


def _again(jobs: Jobs, store: RunStore) -> None:
    """Forget runs that others of these jobs start from and that have gone on without the checkpoint: they
    are trained again, to the same bits.
    """
    for name, job in jobs.items():
        parent = job.manifest.parent
        if parent is None or parent.run_id not in jobs or store.state(name) in END_STATES:
            continue
        kept, state = store.checkpoints(parent.run_id), store.state(parent.run_id)
        gone = state == "finished" or (state != "running" and max(kept, default=0) > parent.step)
        if gone and parent.step not in kept:
            store.clear(parent.run_id)


def _ready(job: Job, jobs: Jobs, store: RunStore) -> bool:
    """Whether the run can start: what it starts from is there, or will not come."""
    parent = job.manifest.parent
    if parent is None or parent.run_id not in jobs:
        return True
    return parent.step in store.checkpoints(parent.run_id) or store.state(parent.run_id) == "diverged"


def paused(job: Job, store: RunStore) -> bool:
    """Whether the run has a checkpoint at the step where its job lets it pause, or beyond."""
    return job.until_step is not None and max(store.checkpoints(job.run_id), default=0) >= job.until_step


def default_workers(device: str) -> int:
    """One run a core with one thread each on CPUs; one run on a GPU."""
    return max(1, len(os.sched_getaffinity(0))) if device == "cpu" else 1


class Stopped(Exception):
    """The user or the system asked the sweep to stop; every started run has been saved."""


class Progress:
    """How far the planned runs are, read from the store."""

    def __init__(self, jobs: Jobs, store: RunStore):
        self.jobs, self.store, self.began = jobs, store, time.monotonic()
        self.tokens = {name: job.tokens for name, job in jobs.items()}
        self.flops = {name: job.tokens * job.manifest.counts.flops_per_token for name, job in jobs.items()}
        self._done: set[str] = set()
        self.at_start = {i: self.share(i) for i in jobs}

    def share(self, run_id: str) -> float:
        """The trained share of what is asked of one run, 1 for every end state."""
        if run_id not in self._done:
            ended = (self.store.folder(run_id) / "summary.json").exists()
            share = 1.0 if ended else min(1.0, self.store.tokens(run_id) / self.tokens[run_id])
            if share < 1:
                return share
            self._done.add(run_id)
        return 1.0

    def done(self) -> float:
        """The trained share of all planned work, in FLOPs."""
        return sum(self.share(i) * self.flops[i] for i in self.jobs) / sum(self.flops.values())

    def seconds_left(self) -> float | None:
        before = sum(self.at_start[i] * self.flops[i] for i in self.jobs) / sum(self.flops.values())
        done = self.done()
        return (time.monotonic() - self.began) * (1 - done) / (done - before) if done > before else None


def _run_all(
    jobs: Jobs,
    waiting: list[str],
    store: RunStore,
    workers: int,
    progress: Progress,
    show: "Callable[[Progress], None] | None",
) -> None:
    context = multiprocessing.get_context("forkserver")
    # The optimizer imports torch._dynamo when it is made, a second of CPU time: once for all workers.
    set_forkserver_preload(["lab.train.worker", "torch._dynamo"])
    running: dict[str, ForkServerProcess] = {}
    deaths, polls = dict.fromkeys(waiting, 0), 0
    with _stop_requests() as stop_requested:
        try:
            while waiting or running:
                while len(running) < workers and not stop_requested():
                    run_id = next((name for name in waiting if _ready(jobs[name], jobs, store)), None)
                    if run_id is None:
                        break
                    waiting.remove(run_id)
                    process = context.Process(target=work, args=(jobs[run_id],), name=run_id)
                    process.start()
                    running[run_id] = process
                if stop_requested():
                    raise Stopped
                if not running:  # what these start from has failed
                    break
                time.sleep(0.1)
                polls += 1
                if show and polls % SHOWN_EVERY == 0:  # it reads the log of every run
                    show(progress)
                for run_id, process in list(running.items()):
                    if process.exitcode is None:
                        continue
                    del running[run_id]
                    _settle(jobs[run_id], process.exitcode, deaths, waiting, store)
            if show:
                show(progress)
            if stop_requested():  # as the last run ended: what comes after this sweep is not to begin
                raise Stopped
        finally:
            _stop(running)


def _settle(job: Job, exit_code: int, deaths: dict[str, int], waiting: list[str], store: RunStore) -> None:
    """Decide what a worker's end means: done, to be continued, or given up after too many deaths."""
    run_id = job.run_id
    if store.state(run_id) in END_STATES or paused(job, store):
        return
    if exit_code == DISK_FULL:
        raise OSError(errno.ENOSPC, "No space left. Make room; the same command goes on", str(store.root))
    if exit_code != RESUMABLE:
        deaths[run_id] += 1
    if deaths[run_id] <= DEATHS_ALLOWED:
        waiting.append(run_id)
        time.sleep(0.5 if exit_code == RESUMABLE else 0.0)  # another sweep trains it: look again later
        return
    reason = f"worker exited {exit_code} {deaths[run_id]} times"
    if exit_code < 0:
        reason = f"killed by signal {-exit_code} {deaths[run_id]} times, as by a lack of memory"
    with (
        suppress(OSError),
        store.lease(run_id) as held,
    ):  # without room on the disk the run stays lost: resumable
        if held:
            store.fail(run_id, reason, reason=reason)
        else:
            waiting.append(run_id)


@contextmanager
def _stop_requests() -> Iterator[Callable[[], bool]]:
    """Collects SIGINT, SIGTERM and SIGHUP for the time of the block, so that none interrupts a write."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda n, _: received.append(n)) for number in numbers}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(running: dict[str, ForkServerProcess]) -> None:
    """Ask workers to save and end; kill those that have not after a while."""
    for process in running.values():
        process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in running.values():
        process.join(max(0.0, deadline - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            process.join()
