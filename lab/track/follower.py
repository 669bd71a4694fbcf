"""How do the runs get to a dashboard without ever standing in the way of training?

A separate process, the follower, reads metrics.jsonl as it grows and logs it to W&B, online where there is
a login and offline where there is none, or to another dashboard. Training never waits for it, and a client
that hangs or crashes takes down only the follower; `lab sync` sends later what is missing
(lab/track/backlog.py).

    <mirror>/follower.log     what the followers and the client had to say
             ...              the runs themselves, see lab/track/mirror.py
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from lab.track import layers, wandb
from lab.track.login import client_environment, mode_of
from lab.track.mirror import Mirror, RunMirror, writing

POLL_SECONDS = 2.0
CLOSE_SECONDS = 4.5  # how long the end of a sweep may wait for its follower
ORPHAN_SECONDS = 60.0  # how long a follower may go on after its sweep is gone

log = logging.getLogger(__name__)


def follow(mirror: Mirror, *, mode: str, run_ids: list[str], stop: threading.Event) -> None:
    """Mirror the runs in `run_ids`, which may grow meanwhile, until `stop` is set and all there is was sent.

    The first failure online turns to offline for good; a run that fails otherwise is left out. Both are
    logged.
    """
    open_runs: dict[str, RunMirror] = {}
    left_out: set[str] = set()
    last_pass = False
    with contextlib.suppress(Exception):
        layers.preload()
    while not last_pass:
        last_pass = stop.wait(POLL_SECONDS)
        for run_id in [r for r in run_ids if r not in left_out]:
            try:
                if run_id not in open_runs and mirror.is_due(run_id, mode):
                    open_runs[run_id] = RunMirror(mirror, run_id, mode=mode)
                if run_id in open_runs and open_runs[run_id].advance():
                    del open_runs[run_id]
                elif run_id in open_runs and last_pass:
                    open_runs.pop(run_id).close()
            except Exception as error:
                log.warning(
                    "%s failed on run %s; `lab sync` can send it later: %r", mirror.board, run_id, error
                )
                open_runs.pop(run_id, None)
                if mode != "online":
                    left_out.add(run_id)
                    continue
                log.warning("W&B goes on offline")
                mode, last_pass = "offline", False
                open_runs.clear()
                wandb.restart_client()
                break


class Follower:
    """A sweep's handle on its follower process. Nothing here raises, and only `close` waits."""

    def __init__(self, process: subprocess.Popen[bytes]):
        assert process.stdin is not None
        self._process, self._stdin = process, process.stdin
        os.set_blocking(self._stdin.fileno(), False)

    def announce(self, run_ids: Iterable[str]) -> None:
        """Name runs to mirror. They need not have started yet."""
        with contextlib.suppress(OSError):  # a follower that is dead or stuck: `sync` catches up
            for run_id in run_ids:
                self._stdin.write(f"{run_id}\n".encode())

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Say that the sweep is over, leave the follower `timeout` seconds to send the rest, then end it."""
        self._stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start(
    runs_folder: Path, mirror_folder: Path, run_ids: Iterable[str], *, board: str, project: str, mode: str
) -> Follower | None:
    """Start a follower for these runs and those announced later; None where it is switched off or can't
    start.

    The follower ends by itself when this process does. Raises ConfigError as `login.resolve_mode` does.
    """
    mode = mode_of(board, mode)
    if mode == "disabled":
        return None
    folders = [str(folder.resolve()) for folder in (runs_folder, mirror_folder)]
    try:
        mirror_folder.mkdir(parents=True, exist_ok=True)
        with open(mirror_folder / "follower.log", "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.track.follower", *folders, board, project, mode],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=client_environment(mode),
                cwd=Path(__file__).resolve().parents[2],
                start_new_session=True,  # Ctrl-C is for the sweep; the follower sees its pipe close
            )
    except OSError as error:
        print(f"warning: no {board} for this sweep ({error}); `lab sync` can send it later", file=sys.stderr)
        return None
    follower = Follower(process)
    follower.announce(run_ids)
    return follower


def main(arguments: list[str]) -> None:
    """The follower process. Arguments: RUNS_FOLDER MIRROR_FOLDER BOARD PROJECT MODE; on standard input run
    ids, one a line.
    """
    runs_folder, mirror_folder, board, project, mode = arguments
    os.nice(10)  # training comes first where cores are few
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    run_ids: list[str] = []
    stop = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            run_ids.append(line.strip())
        stop.set()
        time.sleep(ORPHAN_SECONDS)
        os._exit(1)  # the client hangs, and the sweep that would have ended this process is dead

    threading.Thread(target=listen, daemon=True).start()
    folders = Path(runs_folder), Path(mirror_folder)
    with writing(*folders, board=board, project=project, wait=True) as mirror:
        follow(mirror, mode=mode, run_ids=run_ids, stop=stop)


if __name__ == "__main__":
    main(sys.argv[1:])
