"""How are very many stories told on all cores? Worker processes that each tell every n-th run of them.

The parent reads the workers' pipes in turn, so the stories and their order are those of one process. Plain
child processes: nothing of the caller's main module is imported, and a worker whose parent is gone ends at
its next write.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab.config.schema import Grammar
from lab.config.strict import plain, read
from lab.data.stories.generator import generate

FEW = 2000
"""So many stories take a process about as long as workers take to start."""
RUN = 32
"""Stories that a worker tells in a row: they fit into a pipe, so that it tells on while others are read."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class TellersShare:
    """What one worker tells of `count` stories: of their runs, number `worker` and every `workers`-th on."""

    grammar: Grammar
    seed: int
    split: str
    count: int
    worker: int
    workers: int


def texts(
    grammar: Grammar, *, seed: int, split: str, count: int, workers: int | None = None
) -> Iterator[str]:
    """The texts of the first `count` stories. workers: processes, one a core unless given and none for a
    few stories.
    """
    workers = workers or (len(os.sched_getaffinity(0)) if count > FEW else 1)
    if workers == 1:
        yield from (story.text for story in generate(grammar, seed=seed, split=split, count=count))
        return
    with ExitStack() as stack:
        pipes = [
            stack.enter_context(_Worker(TellersShare(grammar, seed, split, count, number, workers)))
            for number in range(workers)
        ]
        for number in range(count):
            line = pipes[number // RUN % workers].readline()
            if not line.endswith(b"\n"):
                raise RuntimeError(f"the process that tells {split} story {number} has died")
            yield json.loads(line)


class _Worker:
    """Context manager of the pipe from a new worker; kills it at the end."""

    def __init__(self, share: TellersShare) -> None:
        self._share = share

    def __enter__(self) -> IO[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lab.data.stories.tellers", json.dumps(plain(self._share))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        )
        assert self._process.stdout
        return self._process.stdout

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _work(share: TellersShare) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the parent is gone
    for first in range(share.worker * RUN, share.count, share.workers * RUN):
        length = min(RUN, share.count - first)
        for story in generate(share.grammar, seed=share.seed, split=share.split, count=length, first=first):
            print(json.dumps(story.text))
        sys.stdout.flush()


if __name__ == "__main__":
    _work(read(TellersShare, json.loads(sys.argv[1])))
