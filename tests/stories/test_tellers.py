"""Tellers: the stories of many processes are those of one, and no process outlives the one that asked."""

import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest

from lab.config.schema import Grammar
from lab.data.stories import tellers
from lab.data.stories.generator import generate
from tests.paths import ROOT

pytestmark = pytest.mark.slow

GRAMMAR = Grammar(0.1, 1.1, 100, 2, 2, 4.0, 1, 0.0, 1)
STARVING = """
import signal
from itertools import islice
from lab.data.stories.tellers import texts
from tests.stories.test_tellers import GRAMMAR

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
stories = texts(GRAMMAR, seed=0, split="train", count=10**6, workers=2)
print(len(list(islice(stories, 100))), flush=True)
input()
"""


def children(parent: int) -> set[int]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        state = status(int(process.name))
        if state and state[0] != "Z" and state[1] == str(parent):
            found.add(int(process.name))
    return found


def status(pid: int) -> list[str] | None:
    """[state, parent]; None where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None


def ended(pids: set[int]) -> bool:
    """Within 20 seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if all((status(pid) or "Z")[0] == "Z" for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("count", "workers"), [(1, 3), (161, 3)])
def test_many_processes_tell_what_one_tells(count: int, workers: int) -> None:
    expected = [story.text for story in generate(GRAMMAR, seed=5, split="train", count=count)]
    assert list(tellers.texts(GRAMMAR, seed=5, split="train", count=count, workers=workers)) == expected


def test_workers_end_with_the_reader() -> None:
    stories = tellers.texts(GRAMMAR, seed=0, split="train", count=10**6, workers=2)
    before = children(os.getpid())
    assert len(list(islice(stories, 100))) == 100
    started = children(os.getpid()) - before
    assert len(started) == 2
    stories.close()
    assert not started & children(os.getpid())


def test_a_worker_that_dies_is_an_error() -> None:
    stories = tellers.texts(GRAMMAR, seed=0, split="train", count=10**6, workers=2)
    before = children(os.getpid())
    next(stories)
    victim = (children(os.getpid()) - before).pop()
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"the process that tells train story \d+ has died"):
        list(islice(stories, 10_000))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_a_parent_that_is_killed(number: signal.Signals) -> None:
    """The parent's main module is no file and has no guard."""
    command = [sys.executable, "-c", STARVING]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout and parent.stdout.readline() == "100\n"
        workers = children(parent.pid)
        assert len(workers) == 2
        parent.send_signal(number)
        parent.wait()
        assert ended(workers)
